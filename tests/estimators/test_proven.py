"""Bounds and proven labels of the estimators: never wrong beside a much more precise fit, in every shape of classifier and data."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

from dualgap import SVC, LinearSVC, LinearSVCPath
from dualgap.answers import Pairs
from dualgap.proof import ProofError

JOINT = {"multi_class": "crammer_singer", "max_iter": 20_000}
MODELS = {
    "two classes": lambda **o: LinearSVC(loss="hinge", **o),
    "ovr": lambda **o: LinearSVC(loss="hinge", **o),
    "ovr penalised": lambda **o: LinearSVC(intercept="penalised", **o),
    "joint": lambda **o: LinearSVC(**JOINT, **o),
    "joint penalised": lambda **o: LinearSVC(intercept="penalised", **JOINT, **o),
    "joint none": lambda **o: LinearSVC(fit_intercept=False, **JOINT, **o),
    "joint of two": lambda **o: LinearSVC(**JOINT, **o),
    "pairs": lambda **o: SVC(decision_function_shape="ovo", **o),
    "pairs by class": lambda **o: SVC(break_ties=True, **o),
    "path": lambda C=1.0, **o: LinearSVCPath([0.1 * C, C], l1_ratios=0.1, **o),
}


def drawn(rng, K, n=60, d=4):
    y = np.r_[np.arange(K), rng.integers(K, size=n - K)]
    return rng.normal(size=(K, d))[y] + rng.normal(size=(n, d)), np.array(["a", "b", "c", "d"])[y]


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")  # bounds hold for a fit that ended early, too
@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=4)
@given(draw=st.integers(0, 10**9))
def test_nothing_proven_is_wrong(kind, draw):
    rng = np.random.default_rng(draw)
    X, y = drawn(rng, 2 if "two" in kind else 3 + draw % 2)
    new = np.vstack([X, 3.0 * rng.normal(size=(30, X.shape[1]))])
    make, C = MODELS[kind], float(10.0 ** rng.uniform(-2, 0.5))
    exact = make(C=C, tol=1e-9, random_state=0).fit(X, y)
    least, most = exact.decision_bounds(new)
    labels, sure = exact.predict_proven(new)
    status = exact.proof_.support()
    for tol in (0.3, 1e-2, 1e-4):
        model = make(C=C, tol=tol, random_state=1).fit(X, y)
        low, high = model.decision_bounds(new)
        assert low.shape == high.shape == model.decision_function(new).shape
        move = 0.0
        if kind == "joint":  # free intercepts are known up to a number for all classes
            move = exact.intercept_.mean() - model.intercept_.mean()
        assert (low <= most - move + 1e-9).all()
        assert (least - move <= high + 1e-9).all()
        found, proven = model.predict_proven(new)
        assert (found == model.predict(new)).all()
        both = proven & sure
        assert (found[both] == labels[both]).all()
        rows = model.proof_.support()
        assert ((rows == "open") | (status == "open") | (rows == status)).all()


@pytest.mark.parametrize("kind", MODELS)
def test_most_labels_are_proven_and_the_file_knows_it(kind):
    X, y = drawn(np.random.default_rng(0), 2 if "two" in kind else 3)
    model = MODELS[kind](C=0.1, tol=1e-6, random_state=0).fit(X, y)
    labels, proven = model.predict_proven(X)
    assert proven.mean() > 0.9
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded._fit.kept is None
    for found, wanted in zip(loaded.predict_proven(X), (labels, proven), strict=True):
        np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(loaded.decision_bounds(X), model.decision_bounds(X), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(loaded.proof_.support(X, y), model.proof_.support())
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.predict_proven(X)[1], proven)
    with pytest.raises(ProofError, match="training data"):
        loaded.proof_.support()


def test_a_file_holds_vectors_and_not_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    model = LinearSVC(fit_intercept=True).fit(X, X[:, 0] + rng.normal(size=5000) > 0)
    plain = len(pickle.dumps(model.coef_[0]))
    balls = len(pickle.dumps(pickle.loads(pickle.dumps(model))._fit.balls))
    assert balls < 4 * plain + 4000


@pytest.mark.parametrize("form", ["csr", "float32", "frame"])
def test_forms_of_data(form):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    forms = {
        "csr": sparse.csr_matrix,
        "float32": lambda a: a.astype(np.float32),
        "frame": lambda a: pd.DataFrame(a, columns=list("abcd")),
    }
    made = forms[form](X)
    for model in (LinearSVC(tol=1e-6), SVC(tol=1e-6), LinearSVC(tol=1e-4, **JOINT)):
        wanted = model.fit(X, y).decision_bounds(X)
        model.fit(made, y)
        low, high = model.decision_bounds(made)
        assert (low <= wanted[1]).all()
        assert (wanted[0] <= high).all()
        assert model.predict_proven(made)[1].mean() > 0.8
        assert model.fit(made, y, decide=made[:5]).status_ in ("converged", "decided")
    if form == "frame":
        with pytest.raises(ValueError, match="feature names"):
            model.predict_proven(made.rename(columns={"a": "other"}))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(("make", "solver"), [(LinearSVC, "sdca"), (SVC, "dual_coordinate")])
def test_decide(make, solver, K):
    X, y = drawn(np.random.default_rng(1), K, 120)
    new, X, y = X[100:], X[:100], y[:100]
    model = make(tol=1e-9, C=0.1, random_state=0, max_iter=5000, solver=solver)
    exact = make(tol=1e-9, C=0.1, random_state=0, max_iter=5000, solver=solver).fit(X, y)
    easy = new[np.abs(np.sort(np.atleast_2d(exact.decision_function(new).T).T, axis=1)[:, -1]) > 0.1][:8]
    assert model.fit(X, y, decide=easy).status_ == "decided"
    labels, proven = model.predict_proven(easy)
    assert proven.all()
    assert (labels == exact.predict(easy)).all()
    histories = model.history_ if K > 2 else [model.history_]
    assert all(history["decided"][-1] == 1.0 for history in histories)
    certificates = model.certificate_ if K > 2 else [model.certificate_]
    assert max(c.relative_gap for c in certificates) > 1e-9
    assert model.fit(X, y).status_ == "converged"


def test_decide_jointly():
    X, y = drawn(np.random.default_rng(1), 3, 120)
    model = LinearSVC(tol=1e-9, C=0.1, random_state=0, **JOINT).fit(X[:100], y[:100], decide=X[100:105])
    assert model.status_ == "decided"
    assert model.predict_proven(X[100:105])[1].all()


def test_rows_that_cannot_be_decided_cost_the_tolerance_and_no_more():
    X, y = drawn(np.random.default_rng(2), 3)
    model = LinearSVC(tol=1e-4, fit_intercept=False, random_state=0).fit(X, y, decide=np.zeros((1, 4)))
    assert model.status_ == "converged"
    assert max(c.relative_gap for c in model.certificate_) <= 1e-4
    assert not model.predict_proven(np.zeros((1, 4)))[1].any()


def test_votes_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        K = 4
        low = rng.normal(size=(6, 6))
        high = low + rng.choice([0.0, 0.1, 2.0], size=(6, 6))
        codes = rng.integers(K, size=6)
        for ties in (False, True):
            proven, wrong = Pairs(low, high, K).labels(codes, ties)
            for _ in range(40):  # no scores within the bounds take the label away
                scores = low + rng.choice([0.0, 0.5, 1.0], size=low.shape) * (high - low)
                votes, sums = np.zeros((6, K)), np.zeros((6, K))
                for k, (i, j) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]):
                    won = scores[:, k] > 0
                    votes[:, i] += won
                    votes[:, j] += ~won
                    sums[:, i] += scores[:, k]
                    sums[:, j] -= scores[:, k]
                winner = (votes + sums / (3 * (np.abs(sums) + 1)) if ties else votes).argmax(axis=1)
                assert (winner[proven] == codes[proven]).all()
                assert (winner[wrong] != codes[wrong]).all()


# -------------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("method", ["decision_bounds", "predict_proven"])
@pytest.mark.parametrize("make", [LinearSVC, SVC, LinearSVCPath])
def test_not_fitted_and_wrong_columns(make, method):
    X, y = drawn(np.random.default_rng(0), 2)
    with pytest.raises(NotFittedError):
        getattr(make(), method)(X)
    model = make().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        getattr(model, method)(X[:, :2])
    with pytest.raises(ValueError, match=r"NaN|nan"):
        getattr(model, method)(np.full((1, 4), np.nan))


def test_without_an_l2_penalty():
    X, y = drawn(np.random.default_rng(0), 2)
    model = LinearSVC(l1_ratio=1.0).fit(X, y)
    with pytest.raises(ValueError, match="l2 > 0"):
        model.predict_proven(X)
    loaded = pickle.loads(pickle.dumps(model))
    assert (loaded.predict(X) == model.predict(X)).all()
    with pytest.raises(ProofError, match="l2 > 0"):
        loaded.predict_proven(X)
    assert set(model.proof_.features()) <= {"zero", "nonzero", "open"}
    with pytest.raises(ValueError, match="l1_ratio below 1"):
        LinearSVC(l1_ratio=1.0).fit(X, y, decide=X)


@pytest.mark.parametrize("make", [LinearSVC, SVC])
@pytest.mark.parametrize("decide", [np.full((2, 4), np.nan), np.zeros((2, 3)), np.zeros((0, 4))], ids=["nan", "columns", "rows"])
def test_wrong_rows_to_decide(make, decide):
    X, y = drawn(np.random.default_rng(0), 2)
    with pytest.raises(ValueError, match=r"NaN|nan|features|sample"):
        make().fit(X, y, decide=decide)


def test_models_that_prove_nothing_say_so():
    X, y = drawn(np.random.default_rng(0), 2)
    stream = LinearSVC().partial_fit(X, y, classes=np.unique(y))
    with pytest.raises(ProofError, match="partial_fit"):
        stream.predict_proven(X)
    fitted = LinearSVC().fit(X, y)
    fitted.predict_proven(X)
    fitted.partial_fit(X, y)
    with pytest.raises(ProofError, match="partial_fit"):
        fitted.predict_proven(X)
    with pytest.raises(ProofError, match="function as kernel"):
        SVC(kernel=lambda A, B: A @ B.T).fit(X, y).predict_proven(X)
    with pytest.raises(ValueError, match="decide does not go with kernel='precomputed'"):
        SVC(kernel="precomputed").fit(X @ X.T, y, decide=X @ X.T)
    with pytest.raises(ValueError, match="give y beside X"):
        fitted.proof_.support(X)
    with pytest.raises(ProofError, match="no l1 penalty"):
        LinearSVC(**JOINT).fit(X, y).proof_.features()


def test_a_kernel_matrix_needs_its_diagonal():
    X, y = drawn(np.random.default_rng(0), 3)
    K = X @ X.T
    model = SVC(kernel="precomputed", tol=1e-6).fit(K, y)
    with pytest.raises(ValueError, match="diagonal"):
        model.predict_proven(K)
    labels, proven = model.predict_proven(K, np.diag(K))
    wanted = SVC(kernel="linear", tol=1e-6).fit(X, y).predict_proven(X)
    assert (labels == wanted[0]).all()
    assert (proven == wanted[1]).mean() > 0.95
    assert model.proof_.support().shape == (60, 3)


def test_training_data_that_were_changed_are_noticed():
    X, y = drawn(np.random.default_rng(0), 2)
    X = np.ascontiguousarray(X)
    model = LinearSVC(tol=1e-6).fit(X, y)
    X *= -1.0
    with pytest.raises(ProofError, match="not those of the fit any more"):
        model.predict_proven(X)


def test_an_interrupted_fit_proves_what_it_can():
    X, y = drawn(np.random.default_rng(0), 3)
    with pytest.warns(UserWarning, match="interrupted"):
        model = LinearSVC(solver="sdca", tol=1e-12, callbacks=[lambda progress: progress.epoch >= 20], random_state=0).fit(
            X, y, decide=X[:3]
        )
    assert model.status_ == "interrupted"
    labels, proven = model.predict_proven(X)
    exact = LinearSVC(tol=1e-9).fit(X, y).predict(X)
    assert (labels[proven] == exact[proven]).all()
