"""The Newton system within bounds: its solution against SciPy's, and what it is used for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

import dualgap
from conftest import make_data
from dualgap.solvers.newton import systems
from dualgap.solvers.newton.systems import Box, solve_within


def drawn(draw):
    """A positive definite H, a right-hand side, bounds of every kind and a point within them."""
    rng = np.random.default_rng(draw)
    d = int(rng.integers(1, 9))
    A = rng.normal(size=(d + 2, d)) * 10.0 ** rng.uniform(-1, 1, d)
    low, high = np.sort(rng.normal(size=(2, d)), axis=0)
    low[rng.random(d) < 0.3], high[rng.random(d) < 0.3] = -np.inf, np.inf
    fixed = (rng.random(d) < 0.1) & np.isfinite(low)
    high[fixed] = low[fixed]
    x = np.clip(np.where(rng.random(d) < 0.3, -9.0, rng.normal(size=d)), low, high)  # some of it at a bound
    return A.T @ A + 0.1 * np.eye(d), rng.normal(size=d), low, high, x


def optimal(H, rhs, low, high, x, step):
    """Whether x + step satisfies the conditions of optimality: the gradient is zero, or points out of the box at its bound."""
    gradient, at = H @ step - rhs, x + step
    slack = 1e-9 * (1.0 + np.abs(H).sum(axis=1) * np.abs(step).max() + np.abs(rhs))
    near_low, near_high = np.isclose(at, low, rtol=0, atol=1e-12), np.isclose(at, high, rtol=0, atol=1e-12)
    return ((np.abs(gradient) <= slack) | (near_low & (gradient >= -slack)) | (near_high & (gradient <= slack))).all()


@settings(max_examples=200)
@given(draw=st.integers(0, 10**9))
def test_the_solution_is_optimal_and_within_bounds(draw):
    H, rhs, low, high, x = drawn(draw)
    lower, box = np.tril(H) + 7.0 * np.triu(np.ones_like(H), 1), Box(low, high)  # above the diagonal nothing is read
    for right in (rhs, 0.5 * rhs - 0.1):  # the second starts from the sets of the first
        step = solve_within(lower, right, x, box)
        assert (x + step >= low - 1e-12).all()
        assert (x + step <= high + 1e-12).all()
        assert optimal(H, right, low, high, x, step)


def test_the_solution_is_that_of_scipy():
    rng = np.random.default_rng(0)
    A, target = rng.normal(size=(30, 12)), rng.normal(size=30)
    low, high = np.where(np.arange(12) % 2 == 0, 0.0, -np.inf), np.where(np.arange(12) % 3 == 0, 0.05, np.inf)
    step = solve_within(A.T @ A, A.T @ target, np.zeros(12), Box(low, high))
    np.testing.assert_allclose(step, lsq_linear(A, target, (low, high), tol=1e-12).x, atol=1e-7)


@settings(max_examples=30)
@given(draw=st.integers(0, 10**9))
def test_sweeps_descend_where_pivoting_does_not_end(draw):
    H, rhs, low, high, x = drawn(draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "MAX_ROUNDS", 1)
        step = solve_within(H, rhs, x, Box(low, high))
    assert (x + step >= low - 1e-12).all()
    assert (x + step <= high + 1e-12).all()
    best = solve_within(H, rhs, x, Box(low, high))
    value, least = (s @ (0.5 * H @ s - rhs) for s in (step, best))
    assert least - 1e-9 <= value
    assert value < 0.0 or least > -1e-12


def test_the_longest_step_and_the_end_of_a_step():
    box = Box(np.array([0.0, -np.inf, -1.0]), np.array([1.0, np.inf, 1.0]))
    x = np.array([0.25, 0.0, 0.0])
    assert box.longest_step(x, np.array([0.25, 5.0, 0.0])) == 3.0
    assert box.longest_step(x, np.array([0.0, 1.0, 0.0])) == np.inf
    np.testing.assert_array_equal(box.moved(x, np.array([0.25, 5.0, 0.0]), 3.0), [1.0, 15.0, 0.0])
    box.side[2] = 1.0  # a full step to a bound ends exactly there
    np.testing.assert_array_equal(box.moved(x, np.array([0.0, 0.0, 1.0 - 1e-16]), 1.0), [0.25, 0.0, 1.0])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_newton_within_bounds_starts_from_a_sample_and_shrinks(loss):
    """Rows enough for a sample, for shrinking and for systems of their own; the reference is coordinate ascent."""
    X, y = make_data(6000, 8, seed=5, noise=0.8)
    low, high = np.where(np.arange(8) % 2 == 0, 0.05, -np.inf), np.where(np.arange(8) % 3 == 0, 0.1, np.inf)
    problem = dualgap.Problem(X, y, loss, l2=1e-4, intercept="free", bounds=(low, high))
    found = dualgap.solve(problem, "newton", tol=1e-9, max_epochs=300)
    other = dualgap.solve(problem, "dca", tol=1e-5, max_epochs=3000)
    assert found.status == other.status == "converged"
    assert problem.penalty.contains_point(found.coef)
    assert found.certificate.primal <= other.certificate.primal
    assert found.certificate.primal >= other.certificate.dual
