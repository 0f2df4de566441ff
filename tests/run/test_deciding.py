"""solve(..., decide=rows) stops when the labels of the rows are proven, and not before."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

import dualgap
from dualgap import Problem, solve


@pytest.fixture(scope="module")
def samples():
    X, y = make_classification(400, 10, n_informative=5, flip_y=0.1, random_state=0)
    return X[:300], y[:300], X[300:]


@pytest.mark.parametrize("solver", ["sdca", "dca", "dual_gradient", "apg"])
def test_all_rows_are_proven_at_the_end(samples, solver):
    X, y, new = samples
    problem = Problem(X, y, "smooth_hinge", l2=1e-2, intercept="free")
    new = new[np.abs(solve(problem, tol=1e-8).decision(new)) > 0.05][:20]  # so that a rough model decides them
    result = solve(problem, solver, tol=1e-12, max_epochs=5000, decide=new)
    assert result.status == "decided"
    assert not result.converged
    assert result.certificate.relative_gap > 1e-12
    assert result.predict_proven(new)[1].all()
    shares = result.trace["decided"]
    assert shares[-1] == 1.0
    assert (shares[:-1] < 1.0).all()


def test_kernels(samples):
    X, y, new = samples
    problem = Problem(X, y, l2=1e-2, intercept="free", kernel="rbf", gamma=0.1)
    result = solve(problem, "dual_coordinate", tol=1e-12, max_epochs=5000, decide=new[:10])
    assert result.status == "decided"
    assert result.predict_proven(new[:10])[1].all()


def test_the_tolerance_ends_a_run_before_rows_that_stay_open(samples):
    X, y, _ = samples
    problem = Problem(X, y, l2=1e-2)
    exact = solve(problem, tol=1e-9, max_epochs=5000)
    on_the_line = X[:1] - exact.decision(X[:1]) * exact.coef / (exact.coef @ exact.coef)
    result = solve(problem, tol=1e-2, decide=on_the_line)
    assert result.status == "converged"
    assert result.trace["decided"][-1] < 1.0


def test_a_row_of_score_zero_is_decided():
    # The score of a zero row is 0 for every w, without rounding, and `predict` gives 0 to the first class.
    X, y = np.array([[1.0], [2.0], [-1.0], [-2.0]]), [1, 1, 0, 0]
    result = solve(Problem(X, y, l2=0.1), tol=1e-6)
    for new in (np.array([[1.0], [0.0]]), sparse.csr_matrix([[1.0], [0.0]])):
        labels, proven = result.predict_proven(new)
        assert labels.tolist() == [1, 0]
        assert proven.all()


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (np.full((2, 10), np.nan), "decide"),
        (np.zeros((2, 9)), "decide has 9 features"),
        (np.zeros((0, 10)), r"0 sample\(s\).*decide"),
        (np.zeros(10), "decide"),
        ("rows", "decide"),
    ],
)
def test_wrong_rows(samples, decide, words):
    X, y, _ = samples
    with pytest.raises(ValueError, match=words):
        solve(Problem(X, y, l2=1e-2), decide=decide)


def test_problems_that_cannot_decide(samples):
    X, y, new = samples
    with pytest.raises(ValueError, match="l2 > 0"):
        solve(Problem(X, y, "squared_hinge", l2=0.0, l1=0.1), decide=new)
    with pytest.raises(ValueError, match="kernel matrix"):
        solve(Problem(X @ X.T, y, l2=0.1, kernel="precomputed"), decide=new @ X.T)


def test_an_interrupted_run_has_its_shares(samples):
    X, y, new = samples
    result = solve(Problem(X, y, l2=1e-4), "sdca", tol=1e-12, decide=new, callbacks=[lambda progress: progress.epoch >= 3])
    assert result.status == "interrupted"
    assert len(result.trace["decided"]) == len(result.trace)
    labels, proven = result.predict_proven(new)
    exact = solve(Problem(X, y, l2=1e-4), tol=1e-9, max_epochs=5000).predict(new)
    assert (labels[proven] == exact[proven]).all()


def test_traces_are_joined():
    first, second = dualgap.Trace(), dualgap.Trace()
    for epoch in (1.0, 3.0):
        first.append({"epoch": epoch, "gap": 1.0 / epoch})
    second.append({"epoch": 2.0, "gap": 0.1})
    second.note("decided", 0.5)
    joined = first.followed_by(second)
    assert joined["epoch"].tolist() == [1.0, 3.0, 5.0]
    assert joined["gap"].tolist() == [1.0, 1 / 3, 0.1]
    assert np.isnan(joined["decided"][:2]).all()
    assert joined["decided"][2] == 0.5
