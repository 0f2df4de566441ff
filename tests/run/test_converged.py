"""A run has converged if its certified relative gap is at most tol, or its gap at most the atol that was given; and only then."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import dualgap
from dualgap import LinearSVR, NuSVC, OneClassSVM, Problem, solve
from dualgap.core import LOSSES
from dualgap.run import SUCCESSES
from dualgap.solvers import NotSupported

REGRESSION = {
    "epsilon_insensitive": {"epsilon": 0.1},
    "squared_epsilon_insensitive": {"epsilon": 0.1},
    "huber": {"delta": 1.0},
    "absolute": {},
    "quantile": {"quantile": 0.3},
    "squared_error": {},
}
LEVELS = (0.0, 1.0, 1e-12, 1e9)  # of targets, which a column of the same size fits


def drawn(seed):
    """Return a problem, a solver, a tolerance and an absolute one."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 40)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3.0, 3.0)
    options = {"l2": 10.0 ** rng.uniform(-8.0, 0.0), "intercept": str(rng.choice(["none", "penalised", "free"]))}
    shape = rng.choice(["plain", "bounds", "l1", "rbf"])
    if shape == "bounds":
        low = rng.choice([-1.0, 0.0, 3.5], size=d)
        options["bounds"] = (low, low + 10.0 ** rng.uniform(-2.0, 2.0, size=d))
    elif shape == "l1":
        options["l1"] = 10.0 ** rng.uniform(-4.0, 0.0)
    elif shape == "rbf":
        options["kernel"] = "rbf"
    if seed % 3 == 0:
        loss = str(rng.choice(sorted(LOSSES)))
        y = np.arange(n) % 2 == 0
    else:
        loss = str(rng.choice(sorted(REGRESSION)))
        level = rng.choice(LEVELS)
        X[:, 0] = level or X[:, 0]
        y = level + rng.choice([0.0, 1e-12, 1.0]) * rng.normal(size=n)
        options |= REGRESSION[loss]
    tol, atol = rng.choice([0.0, 1e-10, 1e-6, 1e-2]), rng.choice([0.0, 0.0, 1e-9, 1e-3])
    return Problem(X, y, loss, **options), str(rng.choice(["auto", "sdca", "dca", "dual_coordinate", "apg"])), tol, atol


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
@pytest.mark.parametrize("part", range(8))
def test_what_a_run_that_has_converged_proves(part):
    converged = 0
    for seed in range(15 * part, 15 * (part + 1)):
        problem, solver, tol, atol = drawn(seed)
        try:
            result = solve(problem, solver, tol, 60, atol=atol)
        except NotSupported:
            continue
        c = result.certificate
        converged += result.converged
        assert result.converged == (c.relative_gap <= tol or c.gap <= atol), (seed, result)
        assert np.isfinite([*result.coef, result.intercept]).all(), (seed, result)
        if result.status == "zero_optimum":
            assert c.primal <= 1e-12 * max(np.abs(problem.targets).max(), 1e-280), (seed, result)
    assert converged > 0


@pytest.mark.parametrize("solver", ["dca", "dual_coordinate", "apg"])
def test_a_level_that_a_column_takes_up(solver):
    """P(w = 0) is 10¹⁸ times the optimum: a part of it says nothing of the distance from the optimum."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(300, 3))
    y = 1.7e9 + A @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=300)
    model = LinearSVR(loss="squared_error", C=1e8, tol=1e-6, fit_intercept=False, solver=solver, max_iter=30)
    with pytest.warns(dualgap.ConvergenceWarning):
        model.fit(np.c_[A, np.full(300, 1e4)], y)
    assert model.certificate_.relative_gap > 1e-6
    assert model.status_ in ("max_epochs", "stalled")


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
@pytest.mark.parametrize("loss", REGRESSION)
def test_equal_targets_have_an_optimum_of_zero(loss, value, kernel):
    """float64 cannot tell the objective from 0, which the status says in place of a gap relative to 0; and no warning."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    problem = Problem(X, np.full(20, value), loss, l2=0.1, intercept="free", kernel=kernel, **REGRESSION[loss])
    result = solve(problem, tol=1e-6)
    assert result.status in ("zero_optimum", "converged")
    assert result.converged == (result.certificate.relative_gap <= 1e-6)
    assert result.certificate.primal <= 1e-15 * max(value, 1.0) ** 2
    assert result.epochs == 1


@pytest.mark.parametrize("size", [1.0, 1e-1, 1e-12])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("seed", range(4))
def test_targets_within_epsilon_are_met_by_zero(loss, size, seed):
    """w = 0 and b = 0 have the objective 0: no run may end with another model, however little it costs."""
    rng = np.random.default_rng(seed)
    problem = Problem(
        rng.normal(size=(1 + seed, 3)), size * rng.uniform(-1, 1, 1 + seed), loss, epsilon=size, l2=1e-9, intercept="penalised"
    )
    result = solve(problem, tol=1e-6)
    assert (result.status, result.intercept) == ("zero_optimum", 0.0)
    assert result.certificate.primal < 1e-290


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-12, 1e-300, 1e-310])
@pytest.mark.parametrize("loss", ["quantile", "squared_error", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_bounds_without_zero_and_small_targets(size, loss, intercept):
    """Divergence is measured against a model within the bounds, and no run ends worse than that one."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 1)), size * rng.normal(size=30)
    model = LinearSVR(loss=loss, intercept=intercept, bounds=(3.5, 11.8)).fit(X, y)
    assert model.status_ in SUCCESSES
    assert model.certificate_.relative_gap <= model.tol
    assert np.isfinite(model.intercept_).all()


@pytest.mark.parametrize(("kernel", "weight"), [(None, 0.0), (None, 1e-300), ("rbf", 0.0)])
@pytest.mark.parametrize("loss", REGRESSION)
def test_a_huge_target_without_weight_changes_nothing(loss, kernel, weight):
    """Its rounding is 2,000 times the other targets; no residual that counts has any of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=40)
    y[0] = 1e20
    options = {"l2": 0.01, "intercept": "free", "kernel": kernel, "gamma": 0.3, **REGRESSION[loss]}
    weighted = solve(Problem(X, y, loss, sample_weight=np.r_[weight, np.ones(39)], **options), tol=1e-6)
    without = solve(Problem(X[1:], y[1:], loss, **options), tol=1e-6)
    assert weighted.status == without.status == "converged"
    np.testing.assert_allclose(weighted.certificate.primal, without.certificate.primal, rtol=2e-6)


@pytest.mark.parametrize("weight", [0.0, 1e-300])
@pytest.mark.parametrize("estimator", [OneClassSVM(kernel="linear", nu=0.1), NuSVC(kernel="linear", nu=0.1)])
def test_a_long_row_without_weight_changes_nothing(estimator, weight):
    rng = np.random.default_rng(0)
    X = rng.normal(loc=(3.0, 0.0, 0.0), size=(50, 3))
    y = X[:, 0] + X[:, 1] > 3.0
    X[0] *= 1e16
    weighted = clone(estimator).fit(X, y, sample_weight=np.r_[weight, np.ones(49)])
    without = clone(estimator).fit(X[1:], y[1:])
    assert weighted.status_ == without.status_ == "converged"
    np.testing.assert_allclose(weighted.certificate_.primal, without.certificate_.primal, rtol=2e-4)


def test_a_long_outlier_does_not_make_an_optimum_zero():
    """A status says that the optimum is 0 only where the bound is 0, too: up to the rounding of the rows that make it."""
    rng = np.random.default_rng(0)
    X = rng.normal(loc=(3.0, 0.0, 0.0), size=(50, 3))
    X[0] *= 1e14
    model = OneClassSVM(kernel="linear", nu=0.1, max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dualgap.ConvergenceWarning)
        model.fit(X)
    assert model.status_ != "zero_optimum"
    assert model.certificate_.dual < -1e-3
