"""Multinomial logistic regression: certificates in sixty digits, the optimum by another method, and scikit-learn's objective."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import dualgap
from dualgap import LinearSVC
from dualgap.estimators.multinomial import Multinomial, MultinomialRun
from dualgap.proof import ProofError
from dualgap.run import drive
from reference.joint import multinomial_optimum, objectives

SEEDS = st.integers(0, 10**6)


def drawn(rng, K, n=15, d=3):
    codes = np.r_[np.arange(K), rng.integers(K, size=n - K)]
    X = rng.normal(size=(K, d))[codes] + rng.normal(size=(n, d))
    return X * 10.0 ** rng.uniform(-1, 1, d), codes, rng.uniform(0.5, 2.0, n) * (np.arange(n) != n - 1)


def joint_of(rng, K, intercept):
    X, codes, weights = drawn(rng, K)
    l2 = float(10.0 ** rng.uniform(-3, 0))
    base = dualgap.Problem(X, codes == 0, l2=l2, sample_weight=weights, intercept=intercept, classes=[False, True])
    return Multinomial(base, codes, K)


@pytest.mark.parametrize("intercept", ["none", "penalised"])
@settings(max_examples=10)
@given(seed=SEEDS, K=st.integers(2, 5))
def test_a_certificate_holds_in_sixty_digits(intercept, seed, K):
    rng = np.random.default_rng(seed)
    joint = joint_of(rng, K, intercept)
    base = joint.base
    W, b = rng.normal(size=(K, base.d)), rng.normal(size=K) * (intercept != "none")
    scores = base.X @ W.T + b
    near = softmax(scores + 10.0 ** rng.uniform(-9, 1) * rng.normal(size=scores.shape), axis=1)
    far = rng.dirichlet(np.full(K, 0.05), base.n)
    for p in (softmax(scores, axis=1), near, far, joint.own):
        point = joint.dual_point(p)
        certificate, _ = joint.certify(W, b, point)
        primal, dual = objectives(base.X, joint.codes, base.c, base.l2, W, b, point.p, float(intercept == "penalised"))
        assert certificate.dual <= dual <= primal <= certificate.primal
        assert primal - dual <= Decimal(certificate.gap)
        assert float(Decimal(certificate.gap) - (primal - dual)) <= 1e-11 * float(primal - min(dual, 0))  # the bounds are not wide


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@settings(max_examples=10)
@given(seed=SEEDS, K=st.integers(2, 4))
def test_no_certificate_excludes_the_optimum(intercept, seed, K):
    rng = np.random.default_rng(seed)
    joint = joint_of(rng, K, intercept)
    base = joint.base
    W, b = multinomial_optimum(base.X, joint.codes, base.c, base.l2, intercept)
    best = float(objectives(base.X, joint.codes, base.c, base.l2, W, b, joint.own, float(intercept == "penalised"))[0])
    run = MultinomialRun(joint)
    ended = drive(run, 1e-9, 100, None, evaluate="epoch")
    assert ended.status == "converged"
    for primal, dual in zip(ended.trace["primal"], ended.trace["dual"], strict=True):
        assert dual <= best * (1 + 1e-13)
        assert primal >= best * (1 - 1e-13)
    assert run.best.primal <= best * (1 + 2e-9)


def total(model, X, y, C):
    scores = np.asarray(X @ model.coef_.T) + model.intercept_
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return (0.5 * np.sum(model.coef_**2) + C * losses.sum()) / (C * len(y))


@pytest.mark.parametrize("storage", ["dense", "sparse", "float32"])
def test_it_reaches_the_objective_of_scikit_learn(storage):
    X, y = load_digits(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    given_X = {"dense": X, "sparse": sparse.csr_array(X), "float32": X.astype(np.float32)}[storage]
    ours = LinearSVC(loss="log_loss", multi_class="multinomial", C=0.1, tol=1e-9).fit(given_X, y)
    theirs = LogisticRegression(C=0.1, tol=1e-9, max_iter=10_000).fit(X, y)
    assert ours.status_ == "converged"
    assert ours.objective_ == pytest.approx(total(ours, given_X, y, 0.1), rel=1e-7 if storage == "float32" else 1e-10)
    assert ours.objective_ == pytest.approx(total(theirs, X, y, 0.1), rel=1e-6 if storage == "float32" else 2e-9)
    np.testing.assert_allclose(ours.predict_proba(given_X), theirs.predict_proba(X), atol=1e-4)
    assert (ours.predict_proba(given_X).argmax(axis=1) == np.searchsorted(ours.classes_, ours.predict(given_X))).all()


def test_weights_labels_and_warm_starts():
    X, y = load_iris(return_X_y=True)
    names, weights = np.array(["a", "b", "c"])[y], np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {"loss": "log_loss", "multi_class": "multinomial", "tol": 1e-10}
    twice = LinearSVC(**options).fit(np.repeat(X, weights.astype(int), axis=0), np.repeat(names, weights.astype(int)))
    model = LinearSVC(**options, warm_start=True).fit(X, names, weights)
    np.testing.assert_allclose(model.coef_, twice.coef_, atol=1e-4)
    first = model.n_iter_
    assert model.fit(X, names, weights).n_iter_ < first
    np.testing.assert_allclose(model.dual_coef_ @ X[model.support_], model.coef_, atol=1e-4)


def test_two_classes_are_the_logistic_problem():
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    one, other = (LinearSVC(loss="log_loss", multi_class=kind, random_state=0).fit(X, y) for kind in ("ovr", "multinomial"))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    other.predict_proven(X)


@pytest.mark.parametrize("options", [{"intercept": "penalised"}, {"fit_intercept": False}])
def test_proven_labels_are_those_of_a_precise_fit(options):
    X, y = load_iris(return_X_y=True)
    make = lambda tol: LinearSVC(loss="log_loss", multi_class="multinomial", C=0.1, tol=tol, **options).fit(X, y)  # noqa: E731
    exact, model = make(1e-12), make(1e-4)
    labels, proven = model.predict_proven(X)
    assert (labels[proven] == exact.predict(X)[proven]).all()
    assert proven.mean() > 0.5
    low, high = model.decision_bounds(X)
    assert ((low - 1e-9 <= exact.decision_function(X)) & (exact.decision_function(X) <= high + 1e-9)).all()
    assert set(model.proof_.support()) == {"free"}


def test_what_cannot_be_had_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(loss="log_loss", multi_class="multinomial").fit(X, y)
    with pytest.raises(ProofError, match="free intercepts of multi_class='multinomial' have no bound"):
        model.predict_proven(X)
    with pytest.raises(ProofError, match="a proof cannot be written for multi_class='multinomial'"):
        model.proof_.save(tmp_path / "proof")
    with pytest.raises(ProofError, match="trains the classes jointly"):
        model.proof_.leave_one_out()
    with pytest.raises(ValueError, match="decide does not go with this problem"):
        LinearSVC(loss="log_loss", multi_class="multinomial").fit(X, y, decide=X)
    with pytest.raises(ValueError, match="loss='squared_hinge' must be 'log_loss'"):
        LinearSVC(multi_class="multinomial").fit(X, y)
    with pytest.raises(ValueError, match=r"l1_ratio=0\.5 must be 0"):
        LinearSVC(loss="log_loss", multi_class="multinomial", l1_ratio=0.5).fit(X, y)


def test_separable_data_and_a_large_C():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC(loss="log_loss", multi_class="multinomial", C=1e6, tol=1e-6).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-6
