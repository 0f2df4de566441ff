"""Problems of regression: what their certificates claim, in exact arithmetic; every solver; inputs that cannot be."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import SVR, LinearSVR

import dualgap
from dualgap.proof import ProofError
from dualgap.solvers.base import REGISTRY, can, get_solver
from reference.regression import primal_and_dual

LOSSES = {
    "epsilon_insensitive": {"epsilon": 0.3},
    "squared_epsilon_insensitive": {"epsilon": 0.3},
    "huber": {"delta": 0.5},
    "absolute": {},
    "quantile": {"quantile": 0.8},
    "squared_error": {},
}
INTERCEPTS = ("none", "penalised", "free")


def data(n=60, d=4, seed=0, shift=3.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + shift + 0.5 * rng.standard_normal(n)


def exact_gap(result):
    """P − D in fractions, with the one β moved that the certificate may move for a free intercept."""
    problem, beta = result.problem, result.dual.copy()
    primal, dual, total = primal_and_dual(problem, result.coef, result.intercept, beta)
    if problem.intercept == "free":
        # The certificate is for a β in balance. Moving the free one that is nearest the middle costs what rounding left.
        assert abs(total) <= Fraction(1e-14)
    return primal, primal - dual


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_certificate_holds_in_exact_arithmetic(loss, intercept):
    X, t = data(30)
    for tol in (1e-3, 1e-9):
        result = dualgap.solve(dualgap.Problem(X, t, loss, l2=0.05, intercept=intercept, **LOSSES[loss]), tol=tol)
        primal, gap = exact_gap(result)
        slack = Fraction(1e-13) if intercept == "free" else 0
        assert result.converged
        assert gap <= Fraction(result.certificate.gap) + slack
        assert primal <= Fraction(result.certificate.primal)
        assert gap >= -slack


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1.0, 1e6]), l2=st.sampled_from([1e-4, 1e-2, 10.0]))
def test_certificate_holds_at_any_scale_of_the_targets(seed, scale, l2):
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((8, 2)), scale * rng.standard_normal(8)
    loss = dualgap.ResidualLoss(scale * rng.choice([0.0, 0.3]), scale * rng.choice([0.0, 0.2]), rng.random(), rng.random())
    result = dualgap.solve(dualgap.Problem(X, t, loss, l2=l2 / scale, intercept="penalised"), tol=1e-6)
    primal, gap = exact_gap(result)
    assert result.converged
    assert 0 <= gap <= Fraction(result.certificate.gap)
    assert primal <= Fraction(result.certificate.primal)


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("loss", LOSSES)
def test_every_solver_that_supports_it_finds_the_optimum(name, loss):
    X, t = data(80)
    ran = 0
    for intercept in INTERCEPTS:
        for kernel in (None, "rbf"):
            problem = dualgap.Problem(X, t, loss, l2=0.1, intercept=intercept, kernel=kernel, **LOSSES[loss])
            if not can(get_solver(name), problem):
                continue
            ran += 1
            best = dualgap.solve(problem, "auto", tol=1e-9).certificate
            slow = name in ("sgd", "subgradient")
            found = dualgap.solve(problem, name, tol=1e-2 if slow else 1e-5, max_epochs=20_000)
            assert found.converged, (name, loss, intercept, kernel, found)
            assert best.dual <= found.certificate.primal * (1 + 1e-12)
            assert found.certificate.dual <= best.primal * (1 + 1e-12)
    assert ran or name in ("pegasos", "prox_newton", "ssnal", "saga", "svrg", "asdca", "newton_cg")


@pytest.mark.parametrize("name", ["dca", "prox_newton", "ssnal", "apg", "sdca"])
def test_elastic_net(name):
    X, t = data(60)
    for loss in ("epsilon_insensitive", "huber"):
        problem = dualgap.Problem(X, t, loss, l2=0.05, l1=0.1, intercept="free", **LOSSES[loss])
        if can(get_solver(name), problem):
            best = dualgap.solve(problem, "apg", tol=1e-6, max_epochs=100_000).certificate
            found = dualgap.solve(problem, name, tol=1e-6, max_epochs=100_000).certificate
            assert found.dual <= best.primal * (1 + 1e-12)
            assert best.dual <= found.primal * (1 + 1e-12)


def test_lasso():
    """The squared loss with l1 alone: scikit-learn's Lasso has half of this loss and of this penalty."""
    from sklearn.linear_model import Lasso

    X, t = data(60)
    result = dualgap.solve(dualgap.Problem(X, t, "squared_error", l2=0.0, l1=0.2, intercept="free"), tol=1e-10)
    model = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(X, t)
    assert result.converged
    np.testing.assert_allclose(result.coef, model.coef_, atol=1e-4)
    value = np.mean((X @ model.coef_ + model.intercept_ - t) ** 2) + 0.2 * np.abs(model.coef_).sum()
    assert result.certificate.dual <= value * (1 + 1e-12)
    assert result.certificate.primal == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_scikit_learn_agrees_linear(sparse_rows):
    X, t = data(100)
    C, rows = 0.5, sparse.csr_matrix(X) if sparse_rows else X
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        theirs = LinearSVR(epsilon=0.1, C=C, loss=loss, dual=True, tol=1e-10, max_iter=1_000_000).fit(rows, t)
        problem = dualgap.Problem(rows, t, loss, l2=1 / (C * len(t)), intercept="penalised", epsilon=0.1)
        ours = dualgap.solve(problem, tol=1e-10)
        np.testing.assert_allclose(ours.coef, theirs.coef_, atol=1e-5)
        np.testing.assert_allclose(ours.predict(X[:5]), theirs.predict(X[:5]), atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_scikit_learn_agrees_kernel(kernel):
    X, t = data(150)
    C = 2.0
    theirs = SVR(kernel=kernel, gamma=0.2, coef0=1.0, C=C, epsilon=0.2, tol=1e-8).fit(X, t)
    options = {"loss": "epsilon_insensitive", "l2": 1 / (C * len(t)), "intercept": "free", "epsilon": 0.2}
    problem = dualgap.Problem(X, t, kernel=kernel, gamma=0.2, coef0=1.0, **options)
    ours = dualgap.solve(problem, tol=1e-9)
    assert ours.converged
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    dense = np.zeros(len(t))
    dense[theirs.support_] = theirs.dual_coef_[0]
    assert ours.certificate.dual <= problem.objective(dense, float(theirs.intercept_[0])) * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_bounds_of_predictions_hold(loss, intercept, kernel):
    X, t = data(60)
    new = np.random.default_rng(1).standard_normal((40, X.shape[1]))
    problem = dualgap.Problem(X, t, loss, l2=0.05, intercept=intercept, kernel=kernel, **LOSSES[loss])
    exact = dualgap.solve(problem, tol=1e-12)
    low_exact, high_exact = exact.decision_bounds(new)
    for tol in (1e-2, 1e-5):
        rough = dualgap.solve(problem, tol=tol)
        low, high = rough.decision_bounds(new)
        assert (low <= high_exact).all()
        assert (high >= low_exact).all()
        if tol == 1e-5:
            assert float(np.median(high - low)) < 1.0
        status, sure = rough.support_status(), exact.support_status()
        for a, b in zip(status, sure, strict=True):
            assert "open" in (a, b) or a == b


def test_weights_and_rows_of_weight_zero():
    X, t = data(40)
    weights = np.r_[np.zeros(10), np.arange(1.0, 31.0)]
    one = dualgap.solve(dualgap.Problem(X, t, "huber", l2=0.1, sample_weight=weights, intercept="free"), tol=1e-10)
    other = dualgap.solve(dualgap.Problem(X[10:], t[10:], "huber", l2=0.1, sample_weight=weights[10:], intercept="free"), tol=1e-10)
    np.testing.assert_allclose(one.coef, other.coef, atol=1e-4)


def test_variant_and_subset():
    X, t = data(40)
    problem = dualgap.Problem(X, t, "absolute", l2=0.1)
    np.testing.assert_array_equal(problem.variant(2 * t).targets, 2 * t)
    part = problem.subset(np.arange(5, 15), np.ones(10))
    np.testing.assert_array_equal(part.targets, t[5:15])
    assert "ResidualLoss" in repr(problem)


@pytest.mark.parametrize("targets", [np.zeros(20), np.full(20, 7.0), np.r_[np.zeros(19), 1e9]])
@pytest.mark.parametrize("loss", LOSSES)
def test_odd_targets(loss, targets):
    X = np.random.default_rng(0).standard_normal((20, 3))
    for intercept in INTERCEPTS:
        result = dualgap.solve(dualgap.Problem(X, targets, loss, l2=0.1, intercept=intercept, **LOSSES[loss]), tol=1e-4)
        assert result.converged or (result.status == "zero_optimum" and result.certificate.gap <= 1e-28)


@pytest.mark.parametrize(
    ("targets", "words"),
    [([1.0, np.nan, 2.0], "y"), (["a", "b", "c"], "y"), ([1.0, 2.0], "y"), ([1.0, np.inf, 2.0], "y")],
)
def test_wrong_targets(targets, words):
    with pytest.raises((ValueError, TypeError), match=words):
        dualgap.Problem(np.eye(3), targets, "huber")


def test_what_is_for_classes_is_refused():
    X, t = data(30)
    result = dualgap.solve(dualgap.Problem(X, t, "huber", l2=0.1))
    for action in (
        lambda: result.predict_proven(X),
        lambda: result.leave_one_out(),
        lambda: result.forget([0]),
    ):
        with pytest.raises(ProofError, match="regression"):
            action()
    with pytest.raises(ValueError, match="decide is for classification"):
        dualgap.solve(result.problem, decide=X)
    with pytest.raises(AttributeError, match="no targets"):
        dualgap.Problem(X, t > 3).targets  # noqa: B018
