"""The step of DCA on all free variables: the optimum over them, found another way; when it is taken; its Gram matrix."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dualgap
from conftest import make_data
from dualgap.core import machine
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.free_step import FreeSteps


def problem_of(intercept, storage="dense", n=60, d=90, l2=1e-2):
    X, y = make_data(n, d, seed=7)
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0)) if storage == "sparse" else X
    return dualgap.Problem(X, y, l2=l2, intercept=intercept, intercept_scale=2.0)


def after_sweeps(problem, sweeps=3, seed=0):
    ascent, rng = Ascent(problem), np.random.default_rng(seed)
    for _ in range(sweeps):
        ascent.epoch(rng.permutation(problem.n).astype(np.int32))
    return ascent, np.flatnonzero((ascent.beta > 0.0) & (ascent.beta < 1.0))


def dual_of(problem, beta):
    u = problem.combine(problem.c * problem.y * beta)
    own = problem.intercept_scale * float(problem.c * problem.y @ beta) if problem.intercept == "penalised" else 0.0
    return float(problem.c @ beta) - 0.5 * (float(u @ u) + own * own) / problem.l2


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_no_other_values_of_the_free_variables_are_better(intercept, storage):
    problem = problem_of(intercept, storage)
    ascent, free = after_sweeps(problem)
    before = ascent.beta.copy()
    assert FreeSteps().take(problem, ascent, free, 1.0)
    fixed = np.setdiff1d(np.arange(problem.n), free)
    np.testing.assert_array_equal(ascent.beta[fixed], before[fixed])
    assert ((ascent.beta >= 0.0) & (ascent.beta <= 1.0)).all()
    # v belongs to β
    np.testing.assert_allclose(ascent.v[: problem.d], problem.combine(problem.c * problem.y * ascent.beta / problem.l2), atol=1e-9)

    def value(part):
        beta = before.copy()
        beta[free] = part
        return -dual_of(problem, beta)

    balance = float(problem.c * problem.y @ ascent.beta)
    constraints = {"type": "eq", "fun": lambda part: 1e3 * (problem.c * problem.y)[free] @ (part - ascent.beta[free])}
    found = minimize(
        value,
        before[free],
        bounds=[(0, 1)] * len(free),
        method="SLSQP",
        constraints=[constraints] if intercept == "free" else [],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert dual_of(problem, ascent.beta) >= -found.fun - 1e-7
    if intercept == "free":
        assert abs(balance) < 1e-3 * abs(float(problem.c * problem.y @ before))
        # Where a variable is free and another is too, b makes both margins 1.
        inside = np.flatnonzero((ascent.beta > 1e-9) & (ascent.beta < 1.0 - 1e-9) & np.isin(np.arange(problem.n), free))
        margins = problem.y * (problem.scores(ascent.v[: problem.d]) + ascent.intercept())
        np.testing.assert_allclose(margins[inside], 1.0, atol=1e-4)


def test_the_gram_matrix_is_kept_for_rows_that_stay_free():
    problem = problem_of("none", "sparse")
    steps = FreeSteps()
    X = problem.X.toarray()
    for free in (np.arange(5, 30), np.arange(0, 40, 3), np.arange(10, 60)):
        steps._update_gram(problem, free)
        np.testing.assert_allclose(steps.gram, X[free] @ X[free].T, atol=1e-12)


def test_a_step_is_taken_once_sweeps_have_cost_as_much_and_will_again():
    problem = problem_of("none", n=200, d=100)
    beta = np.where(np.arange(200) < 50, 0.5, 0.0)
    cheap, dear = 0.1 * machine.CALL, 10.0 * machine.CALL
    for nanoseconds, ratio, taken in ((cheap, 1.0, False), (dear, 1.0, True), (dear, 0.01, False)):
        steps = FreeSteps()
        for k in range(4):
            steps.record(nanoseconds, 0.1 * ratio**k)
        found = steps.pays_off(problem, beta, tol=1e-9)
        assert (found is not None) == taken
    np.testing.assert_array_equal(found if found is not None else np.arange(50), np.arange(50))
    # After one epoch no rate of convergence is known: sweeps may need two more epochs.
    steps = FreeSteps()
    steps.record(dear, 0.1)
    assert steps.pays_off(problem, beta, tol=1e-9) is None
    # A step after which the gap is hardly smaller has to be cheaper the next time.
    steps = FreeSteps(before=0.1)
    for _ in range(2):
        steps.record(dear, 0.09)
    assert steps.failures == 1


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_columns_of_different_lengths_are_solved_by_few_of_them(intercept, monkeypatch):
    """Coordinate steps alone are far from the optimum after as many epochs."""
    X, y = make_data(300, 500, seed=3)
    problem = dualgap.Problem(X * 10.0 ** np.linspace(-4.0, 0.0, 500), y, l2=1e-7, intercept=intercept)
    result = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=1500)
    assert result.converged
    monkeypatch.setattr("dualgap.solvers.coordinate.free_step.MOST", 0)
    with pytest.warns(dualgap.ConvergenceWarning):
        alone = dualgap.solve(problem, "dca", tol=1e-6, max_epochs=result.epochs, stall=False)
    assert alone.certificate.relative_gap > 1e-4
