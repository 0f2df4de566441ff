"""The ball: it contains the exact model, from any model and any dual point, for every loss, penalty, intercept and kernel."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dualgap
from dualgap import Problem, solve
from dualgap.proof import ball_of, dual_point
from dualgap.run import minimise

LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
INTERCEPTS = ["none", "penalised", "free"]
CASES = list(itertools.product(LOSSES, [0.0, 0.1], INTERCEPTS))
KERNELS = [("rbf", {"gamma": 0.5}), ("poly", {"degree": 2, "coef0": 1.0}), ("linear", {})]


def data(rng, n=24, d=4):
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d) + 10.0 * rng.normal() * (rng.random() < 0.3)
    X[rng.random(n) < 0.1] = 0.0
    X[0] = X[-1]
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, 0)
    y[:2] = (0, 1)
    return X, y


def near_exact(problem):
    """The exact model to about ten digits; nothing where float64 does not get there."""
    found = minimise(problem, "auto", 0.0, 2000)
    return found if found.certificate.relative_gap < 1e-11 and np.isfinite(found.ball.radius) else None


def pairs(problem, exact, rng):
    """Models and dual points, good and bad: random ones, and some between these and the exact ones."""
    for share in (1.0, 1e-2, 1e-5):
        coef = exact.coef + share * rng.normal(size=problem.size) * np.abs(exact.coef).max()
        b = exact.intercept + share * rng.normal() * (problem.intercept != "none")
        beta = np.clip(exact.dual + share * rng.normal(size=problem.n), 0.0, problem.loss.upper_bound())
        yield coef, b, beta
        point = dual_point(problem, beta)
        yield point.coef, b, beta


def holds(problem, exact, ball, X):
    """Whether the intervals of a ball meet those of a much smaller one."""
    low, high = ball.bounds(X)
    least, most = exact.ball.bounds(X)
    assert (low <= most).all()
    assert (least <= high).all()
    assert ball.intercept[0] <= exact.ball.intercept[1]
    assert exact.ball.intercept[0] <= ball.intercept[1]
    if problem.kernel is None:
        assert np.linalg.norm(ball.centre - exact.ball.centre) <= (ball.radius + exact.ball.radius) * (1 + 1e-9)
    low, high = ball.training_bounds()
    least, most = exact.ball.training_bounds()
    assert (low <= most).all()
    assert (least <= high).all()


@pytest.mark.parametrize(("loss", "l1", "intercept"), CASES, ids=str)
@settings(max_examples=6)
@given(draw=st.integers(0, 10**9))
def test_linear(loss, l1, intercept, draw):
    rng = np.random.default_rng(draw)
    X, y = data(rng)
    weights = rng.exponential(size=len(y)) if rng.random() < 0.5 else None
    form = sparse.csr_matrix if CASES.index((loss, l1, intercept)) % 2 else np.asarray
    l2 = 10.0 ** rng.uniform(-4, 1)
    problem = Problem(form(X), y, loss, None, l2, l1 * l2, weights, intercept, intercept_scale=2.0)
    exact = near_exact(problem)
    if exact is None:
        return
    new = np.vstack([X, rng.normal(size=(5, X.shape[1])), np.zeros((1, X.shape[1]))])
    for coef, b, beta in pairs(problem, exact, rng):
        holds(problem, exact, ball_of(problem, coef, b, beta), form(new))


@pytest.mark.parametrize(("loss", "intercept"), list(itertools.product(LOSSES, INTERCEPTS)), ids=str)
@settings(max_examples=4)
@given(draw=st.integers(0, 10**9))
def test_kernels(loss, intercept, draw):
    rng = np.random.default_rng(draw)
    X, y = data(rng)
    kernel, parameters = KERNELS[draw % len(KERNELS)]
    problem = Problem(X, y, loss, l2=10.0 ** rng.uniform(-3, 0), intercept=intercept, kernel=kernel, **parameters)
    exact = near_exact(problem)
    if exact is None:
        return
    for coef, b, beta in pairs(problem, exact, rng):
        holds(problem, exact, ball_of(problem, coef, b, beta), np.vstack([X, rng.normal(size=(5, X.shape[1]))]))


def test_precomputed_kernels_need_the_diagonal():
    rng = np.random.default_rng(0)
    X, y = data(rng)
    result = solve(Problem(X @ X.T, y, l2=0.1, kernel="precomputed", intercept="free"), tol=1e-8)
    plain = solve(Problem(X, y, l2=0.1, intercept="free"), tol=1e-10)
    with pytest.raises(ValueError, match="diagonal"):
        result.decision_bounds(X @ X.T)
    low, high = result.decision_bounds(X @ X.T, (X * X).sum(axis=1))
    scores = plain.decision(X)
    assert (low <= scores + 1e-4).all()
    assert (scores - 1e-4 <= high).all()


def test_proven_labels_grow_with_precision():
    X, y = data(np.random.default_rng(3), 200)
    problem = Problem(X, y, l2=1e-2, intercept="free")
    shares = [solve(problem, tol=tol).predict_proven(X)[1].mean() for tol in (1e-1, 1e-3, 1e-6)]
    assert shares[0] <= shares[1] <= shares[2]
    assert shares[2] > 0.9


def test_an_interval_of_the_intercept_where_no_row_is_free():
    # Balanced classes and a strong penalty: every β is 1, w* = 0.015, and every b between −0.97 and 0.97 is a minimum.
    X, y = np.array([[1.0], [2.0], [-1.0], [-2.0]]), [1, 1, 0, 0]
    result = solve(Problem(X, y, l2=100.0, intercept="free"), tol=1e-10)
    low, high = result.ball.intercept
    assert -0.9701 <= low <= -0.97
    assert 0.97 <= high <= 0.9701


def test_a_ball_needs_an_l2_penalty():
    result = solve(Problem(*data(np.random.default_rng(0)), l2=0.0, l1=0.1), "apg", tol=0.3)
    with pytest.raises(ValueError, match="l2 > 0"):
        _ = result.ball


def test_nothing_is_proven_by_a_bad_pair():
    X, y = data(np.random.default_rng(0))
    problem = Problem(X, y, l2=1e-3, intercept="free")
    ball = ball_of(problem, 1e6 * np.ones(X.shape[1]), 0.0, np.zeros(len(y)))
    low, high = ball.bounds(X)
    assert (low < 0).all()
    assert (high > 0).all()
    assert isinstance(ball, dualgap.proof.Ball)
