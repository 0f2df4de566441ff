"""No run ends worse than it began: w = 0 with its best intercept, and a warm start, are candidates from the beginning."""

import numpy as np
import pytest

import dualgap
from conftest import make_data
from dualgap.core import LOSSES
from dualgap.problem import INTERCEPTS
from dualgap.proof import intercept_of_zero, zero_model, zero_objective

pytestmark = pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")


def rare(n=60, d=4, seed=0):
    X, _ = make_data(n, d, seed=seed)
    return X, np.arange(n) < n // 12


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_best_intercept_of_no_model(loss, intercept):
    """No other b is better, and the objective is the one that is promised, within rounding."""
    problem = dualgap.Problem(*rare(), loss=loss, l2=0.1, intercept=intercept, sample_weight=np.arange(60.0) + 1.0)
    b = intercept_of_zero(problem)
    zero = np.zeros(4)
    value = problem.objective(zero, b)
    others = [0.0] if intercept == "none" else np.concatenate([b + np.linspace(-1e-3, 1e-3, 21), np.linspace(-5.0, 5.0, 101)])
    assert all(value <= problem.objective(zero, other) + 1e-12 for other in others)
    assert value <= zero_objective(problem, b) <= value + 1e-10
    assert zero_model(problem) == (b, zero_objective(problem, b), zero_objective(problem, 0.0))


@pytest.mark.parametrize("loss", LOSSES)
def test_no_run_ends_worse_than_no_model(loss):
    """One epoch of a method that steps too far."""
    problem = dualgap.Problem(*rare(), loss=loss, l2=10.0, intercept="free")
    bound = zero_objective(problem, intercept_of_zero(problem))
    for solver in ("auto", "sdca", "dca", "sgd", "subgradient"):
        assert dualgap.solve(problem, solver, tol=0.0, max_epochs=1).certificate.primal <= bound


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_no_run_ends_worse_than_its_warm_start(kernel):
    """A model far better than one epoch from its dual variables, which are left out, can find."""
    X, y = make_data(200, 8, seed=1)
    problem = dualgap.Problem(X, y, l2=1e-4, intercept="free", kernel=kernel)
    first = dualgap.solve(problem, tol=1e-8, max_epochs=20_000)
    objective = problem.objective(first.coef, first.intercept)
    again = dualgap.solve(problem, "sdca", tol=0.0, max_epochs=1, warm_start=(first.coef, first.intercept, None))
    assert again.certificate.primal <= objective * (1.0 + 1e-9)
    np.testing.assert_array_equal(again.coef, first.coef)


def test_one_class_alone_has_no_best_intercept():
    problem = dualgap.Problem(np.eye(3), [1, 1, 1], classes=(0, 1), loss="logistic", l2=0.1, intercept="free")
    assert intercept_of_zero(problem) == 0.0


@pytest.mark.parametrize(
    ("l2", "easier"),
    [(1e-4, "a larger l2 (0.0001 now), that is a smaller C"), (1e4, "a smaller l2 (10000 now), that is a larger C")],
)
def test_the_advice_names_the_penalty_that_is_easier(l2, easier):
    problem = dualgap.Problem(*rare(), l2=l2, intercept="free")
    with pytest.warns(dualgap.ConvergenceWarning) as caught:
        dualgap.solve(problem, "sgd", tol=1e-12, max_epochs=1)
    assert easier in str(caught[0].message)
