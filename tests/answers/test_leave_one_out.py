"""Leave-one-out from one fit: equal to a refit without each row; runs can be interrupted, threaded and watched."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import dualgap
from dualgap import Problem, Result, solve
from dualgap.proof import ProofError
from dualgap.run import minimise


def problem_of(n=120, loss="hinge", intercept="free", kernel=None, l2=1e-2, **options):
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).choice(len(y), n, replace=False)
    return Problem(scale(X)[rows], y[rows], loss, l2=l2, intercept=intercept, kernel=kernel, **options)


def brute_force(problem):
    """Which rows a refit without them gets wrong."""
    wrong = np.zeros(problem.n, dtype=bool)
    for i in range(problem.n):
        c = problem.c.copy()
        c[i] = 0.0
        found = minimise(problem.replace(sample_weight=c, c=c), "auto", 1e-9, 5000)
        scores = problem.scores(problem.stored(found.coef)) + found.intercept
        wrong[i] = (scores[i] > 0.0) != (problem.y[i] > 0.0)
    return wrong


@pytest.mark.parametrize(
    ("loss", "intercept", "kernel"),
    [
        *itertools.product(["hinge", "squared_hinge", "logistic"], ["none", "free"], [None]),
        ("hinge", "free", "rbf"),
        ("hinge", "none", "rbf"),
    ],
)
def test_equal_to_brute_force(loss, intercept, kernel):
    problem = problem_of(80, loss, intercept, kernel, 1e-3)
    found = Result.of(minimise(problem, "auto", 1e-3, 5000)).leave_one_out()
    wrong = brute_force(problem)
    assert not wrong[found.status == "right"].any()
    assert wrong[found.status == "wrong"].all()
    assert found.low <= wrong.mean() <= found.high
    assert found.exact() is found
    assert np.array_equal(found.status, np.where(wrong, "wrong", "right"))
    assert found.low == found.high == wrong.mean()


def test_threads_and_progress():
    result = solve(problem_of(l2=1e-4), tol=1e-6, max_epochs=5000)
    one, two, seen = result.leave_one_out(), result.leave_one_out(), []
    open_rows = np.count_nonzero(one.status == "open")
    two.exact(n_jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert np.array_equal(one.exact().status, two.status)
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert 0 < len(seen) <= open_rows


def test_ctrl_c_keeps_what_is_done():
    found = solve(problem_of(l2=1e-4), tol=1e-6, max_epochs=5000).leave_one_out()
    before = np.count_nonzero(found.status == "open")

    def press(done, total):
        if done == 2:
            raise KeyboardInterrupt

    found.exact(progress=press)
    after = np.count_nonzero(found.status == "open")
    assert 0 < after < before
    assert found.exact().low == found.high


def test_a_score_of_zero():
    # Row 2 has a feature that no other row has. Row 3 shares one with row 4 alone, which is no support vector.
    X = np.array([[1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [9, 0, 0.1, 0], [0, 0, 0, 0]])
    y = [1, 0, 1, 0, 1, 0]
    for data in (X, sparse.csr_matrix(X)):
        found = solve(Problem(data, y, "hinge", l2=0.1), tol=1e-9).leave_one_out().exact()
        assert list(found.status[[2, 3, 5]]) == ["wrong", "right", "right"]  # a score of 0 is the first class
        assert found.low == found.high
        assert not found.limited.size


def test_a_score_that_is_zero_by_symmetry_stays_open():
    # Without the last row, rows 0 and 1 are mirror images, both support vectors: w* = 0 in the second feature.
    X = np.array([[1.0, 0.7], [1.0, -0.7], [-1.0, 0.0], [0.0, 1.0]])
    found = solve(Problem(X, [1, 1, 0, 1], "hinge", l2=0.3), tol=1e-9).leave_one_out().exact()
    assert found.status[3] == "open"
    assert list(found.limited) == [3]
    assert found.low < found.high


def test_a_class_with_one_row():
    X = np.random.default_rng(0).normal(size=(20, 3))
    found = solve(Problem(X, np.arange(20) == 7, "logistic", l2=0.1, intercept="free"), tol=1e-6).leave_one_out()
    assert found.status[7] == "wrong"


def test_refusals():
    with pytest.raises(ProofError, match="l2"):
        solve(problem_of(60, intercept="none").replace(l2=0.0, l1=0.05), "apg", tol=0.3).leave_one_out()
    found = solve(problem_of(60), tol=1e-3).leave_one_out()
    with pytest.raises(ValueError, match="n_jobs"):
        found.exact(n_jobs=0)
    with pytest.raises(TypeError, match="progress"):
        found.exact(progress=True)
    assert "569" not in repr(found)
    assert isinstance(found, dualgap.answers.LeaveOneOut)
