"""Bounds on coefficients as a user gives them: what is accepted, what is refused, and what follows for the problem."""

import pickle

import numpy as np
import pytest

from conftest import make_data
from dualgap import Problem, certify, solve
from dualgap.core import L2, Boxed
from dualgap.problem import as_bounds

X, y = make_data(40, 3)
INF = np.inf


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        ((0.0, None), [0, 0, 0], [INF, INF, INF]),
        ((None, 1), [-INF, -INF, -INF], [1, 1, 1]),
        ([-1, [2.0, INF, 0.0]], [-1, -1, -1], [2, INF, 0]),
        ((np.float32(0.5), np.array([1, 2, 3])), [0.5, 0.5, 0.5], [1, 2, 3]),
        (([0.0, -INF, 0.0], 0.0), [0, -INF, 0], [0, 0, 0]),
        (np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), [0, 0, 0], [1, 1, 1]),
    ],
)
def test_numbers_and_vectors(given, low, high):
    found = as_bounds(given, 3)
    np.testing.assert_array_equal(found, [low, high])
    assert all(end.dtype == np.float64 and not end.flags.writeable for end in found)


@pytest.mark.parametrize("nothing", [None, (None, None), (-INF, INF), ([-INF] * 3, None)])
def test_no_bound_at_all_is_the_plain_problem(nothing):
    problem = Problem(X, y, l2=0.1, bounds=nothing)
    assert problem.bounds is None
    assert isinstance(problem.penalty, L2)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1.0, 0.0), "no coefficient of feature 0 is at least 1 and at most 0; low ≤ high"),
        (([0, 0, 2.0], [1, 1, 1.5]), "feature 2 is at least 2 and at most 1.5"),
        ((np.nan, 1.0), r"bounds\[0\] of feature 0 is nan"),
        ((0.0, [1.0, np.nan, 1.0]), r"bounds\[1\] of feature 1 is nan; give a finite number, or inf"),
        ((INF, None), r"bounds\[0\] of feature 0 is inf; give a finite number, or -inf"),
        ((None, -INF), r"bounds\[1\] of feature 0 is -inf"),
        (([0.0, 0.0], 1.0), r"bounds\[0\] has shape \(2,\).*3 numbers, one a feature"),
        (([[0.0, 0.0, 0.0]], 1.0), r"bounds\[0\] has shape \(1, 3\)"),
        ((["a", "b", "c"], 1.0), r"bounds\[0\] has shape \(3,\) and type <U1"),
        ((True, 1.0), r"bounds\[0\] has shape \(\) and type bool"),
        (0.0, r"bounds=0.0 must be a pair \(low, high\)"),
        ((0.0, 1.0, 2.0), "must be a pair"),
        ("01", "must be a pair"),
        ({"low": 0.0, "high": 1.0}, "must be a pair"),
    ],
)
def test_what_is_refused(bounds, words):
    with pytest.raises(ValueError, match=words):
        Problem(X, y, l2=0.1, bounds=bounds)


def test_what_needs_no_bounds():
    with pytest.raises(ValueError, match="bounds with a kernel: they need coordinates of w"):
        Problem(X, y, l2=0.1, kernel="rbf", bounds=(0, None))
    with pytest.raises(ValueError, match="bounds with a kernel"):
        Problem(X, y, l2=0.1, kernel="rbf").replace(bounds=(0, None))
    with pytest.raises(ValueError, match="l2=0 with bounds"):
        Problem(X, y, l2=0.0, l1=0.1, bounds=(0, None))


def test_copies_keep_bounds_and_may_change_them():
    problem = Problem(X, y, l2=0.1, bounds=(0, None))
    assert repr(problem) == "Problem(40 × 3 dense, hinge, l2=0.1, bounded, intercept='none')"
    stronger = problem.variant(l2=0.5)
    assert isinstance(stronger.penalty, Boxed)
    assert stronger.penalty.l2 == 0.5
    np.testing.assert_array_equal(problem.head(4).bounds, problem.bounds)
    assert isinstance(problem.replace(bounds=None).penalty, L2)
    np.testing.assert_array_equal(problem.replace(bounds=(0, [1, 2, 3])).penalty.high, [1, 2, 3])
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.bounds, problem.bounds)
    assert problem.objective([0.0, 1.0, 2.0]) < np.inf
    assert problem.objective([0.0, 1.0, -1e-300]) == np.inf


def test_a_model_beyond_its_bounds_is_not_certified():
    problem = Problem(X, y, l2=0.1, bounds=(0, [1, 2, 3]))
    with pytest.raises(ValueError, match=r"coef\[1\]=.*-0.5.* is outside of its bounds, 0 to 2"):
        certify(problem, [0.0, -0.5, 0.0])
    assert certify(problem, [0.0, 0.5, 3.0]).dual > 0.0


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_a_fixed_coefficient_is_an_offset(loss, intercept):
    """A coefficient fixed at 0 is a feature left out; all but one fixed leave a problem of one number."""
    left_out = solve(Problem(X[:, :2], y, loss, l2=0.1, intercept=intercept), tol=1e-9)
    fixed = solve(Problem(X, y, loss, l2=0.1, intercept=intercept, bounds=([-INF, -INF, 0], [INF, INF, 0])), tol=1e-9)
    assert fixed.certificate.primal == pytest.approx(left_out.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(fixed.coef, [*left_out.coef, 0.0], atol=1e-3)
    assert fixed.coef[2] == 0.0
    everything = Problem(X, y, loss, l2=0.1, intercept=intercept, bounds=([0.5, -1, 2], [0.5, -1, 2]))
    result = solve(everything, tol=1e-9)
    assert result.status == "converged"
    np.testing.assert_array_equal(result.coef, [0.5, -1, 2])


def test_bounds_that_do_not_bind_change_nothing():
    plain, wide = (solve(Problem(X, y, l2=0.1, intercept="free", bounds=bounds), tol=1e-9) for bounds in (None, (-99, 99)))
    assert wide.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-9)


def test_a_warm_start_beyond_the_bounds_is_moved_within_them():
    plain = solve(Problem(X, y, "squared_hinge", l2=0.01), tol=1e-6)
    problem = plain.problem.replace(bounds=(0.0, 0.1))
    for solver in ("newton", "apg", "prox_newton", "dca"):
        result = solve(problem, solver, tol=1e-6, warm_start=plain, max_epochs=2000)
        assert result.status == "converged"
        assert ((result.coef >= 0.0) & (result.coef <= 0.1)).all()
