"""Stationary points of indefinite kernel machines: the KKT conditions in plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap.solvers.working_set import stationary_point


def kkt_violation(problem, a, free):
    """max over variables that can rise of g − min over those that can fall, or the largest |g| that can be followed."""
    g = problem.y - np.asarray(problem.X) @ a
    bound = problem.c / problem.l2
    rises = g[np.where(problem.y > 0, a < bound, a < 0)]
    falls = g[np.where(problem.y > 0, a > 0, a > -bound)]
    if free:
        return max(rises.max(initial=-np.inf) - falls.min(initial=np.inf), 0.0)
    return max(rises.max(initial=0.0), -falls.min(initial=0.0))


@pytest.mark.parametrize("intercept", ["free", "none"])
@given(seed=st.integers(0, 10**6))
def test_the_kkt_conditions_hold_and_the_dual_value_has_risen(intercept, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    K = np.tanh(X @ X.T - 1.0)  # some entries of its diagonal are negative, too
    weights = rng.uniform(0.5, 2.0, 30)
    problem = dualgap.Problem(K, y, l2=10.0 ** rng.uniform(-3, 0), sample_weight=weights, intercept=intercept, kernel="precomputed")
    point = stationary_point(problem, 1e-6, 10_000)
    a, bound = point.coef, problem.c / problem.l2
    assert ((a * y >= 0) & (np.abs(a) <= bound)).all()
    assert point.violation <= 2e-6
    assert kkt_violation(problem, a, intercept == "free") == pytest.approx(point.violation, abs=1e-9)
    assert a @ y - 0.5 * a @ K @ a >= 0.0
    if intercept == "free":
        assert abs(a.sum()) <= 1e-9 * bound.sum()
    else:
        assert point.intercept == 0.0
