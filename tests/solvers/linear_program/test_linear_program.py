"""Hinge and l1 penalty alone, against a linear program of all rows and columns in its primal form, written out."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import dualgap
from conftest import make_data
from dualgap.solvers.linear_program import restricted, solver
from dualgap.solvers.linear_program.restricted import RestrictedDual, solve_restricted
from dualgap.solvers.linear_program.solver import LinearProgram


def optimum(problem):
    """The optimal value from variables w⁺, w⁻, b and one ξ a row."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    n, d = X.shape
    signed = problem.y[:, None] * np.hstack([X, -X, np.ones((n, 1))])
    upper = None if problem.intercept == "free" else 0.0
    bounds = [(0, None)] * (2 * d) + [(None if upper is None else 0.0, upper)] + [(0, None)] * n
    costs = np.concatenate([np.full(2 * d, problem.l1), [0.0], problem.c])
    found = linprog(costs, A_ub=-np.hstack([signed, np.eye(n)]), b_ub=-np.ones(n), bounds=bounds)
    assert found.status == 0
    return found.fun


@pytest.fixture
def small_sets(monkeypatch):
    """Few rows and columns in the first program, so that small problems need rounds."""
    for name, value in {"ALL_ROWS": 20, "ALL_COLUMNS": 3, "LEAST_ROWS": 10, "LEAST_COLUMNS": 2, "ROWS_PER_COLUMN": 2}.items():
        monkeypatch.setattr(solver, name, value)


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("share", [0.5, 0.05, 0.002])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_rounds_find_the_optimum_of_the_whole_program(small_sets, storage, share, intercept):
    X, y = make_data(150, 12, seed=4)
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)) if storage == "sparse" else X
    weights = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    problem = dualgap.Problem(X, y, l2=0.0, l1=share, intercept=intercept, sample_weight=weights)
    problem = problem.variant(l1=share * float(np.abs(problem.combine(problem.c * problem.y)).max()))
    result = dualgap.solve(problem, "linear_program", tol=1e-7, max_epochs=200)
    assert result.converged
    assert result.certificate.primal == pytest.approx(optimum(problem), rel=1e-6)
    assert result.certificate.dual <= optimum(problem) * (1.0 + 1e-9)


def test_all_rows_and_columns_of_a_small_problem_take_one_round():
    X, y = make_data(100, 5, seed=1)
    problem = dualgap.Problem(X, y, l2=0.0, l1=0.01, intercept="free")
    result = dualgap.solve(problem, "linear_program", tol=1e-7)
    assert result.epochs == 1
    assert result.converged


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_scale_of_the_columns_does_not_matter(scale):
    X, y = make_data(120, 6, seed=2)
    X = X * scale * 10.0 ** np.linspace(-3, 3, 6)
    problem = dualgap.Problem(X, y, l2=0.0, l1=1e-3 * scale, intercept="free")
    assert dualgap.solve(problem, "auto", tol=1e-5).converged


def test_a_restricted_program_bounds_the_whole_one():
    """Whatever rows share a β and whatever columns are left out, the scaled β is feasible."""
    X, y = make_data(80, 6, seed=3)
    problem = dualgap.Problem(X, y, l2=0.0, l1=0.02, intercept="free")
    best, rng = optimum(problem), np.random.default_rng(1)
    for _ in range(10):
        own, columns = rng.random(80) < 0.5, rng.random(6) < 0.7
        columns[0] = True
        shared = ~own & (rng.random(80) < 0.5)
        _, _, beta = solve_restricted(problem, RestrictedDual.of(problem, own, shared, columns))
        point = dualgap.proof.dual_point(problem, beta)
        assert float(problem.c @ point.beta) <= best + 1e-9
        assert len({*np.round(beta[shared & (problem.y > 0)], 12)}) <= 1


def test_auto_chooses_it_and_hands_over_to_ssnal_should_it_fail(monkeypatch):
    X, y = make_data(100, 5, seed=1)
    problem = dualgap.Problem(X, y, l2=0.0, l1=0.05, intercept="free")
    assert dualgap.solve(problem, "auto", tol=1e-7).epochs == 1
    monkeypatch.setattr(restricted, "METHODS", ())
    monkeypatch.setattr(LinearProgram, "stall_steps", 3)
    result = dualgap.solve(problem, "auto", tol=0.05, max_epochs=2000)
    assert result.converged
    assert [text.split(":")[0] for _, text in result.trace.handovers] == ["linear_program → ssnal"]


def test_it_says_what_it_takes():
    X, y = make_data(20, 3)
    for options in ({"l2": 0.1}, {"l2": 0.1, "l1": 0.1}, {"l2": 0.0, "l1": 0.1, "loss": "logistic"}):
        assert "linear program" in LinearProgram().supports(dualgap.Problem(X, y, **options)).reason


def test_a_warm_start_gives_the_first_rows_and_columns(small_sets):
    X, y = make_data(150, 12, seed=4)
    problem = dualgap.Problem(X, y, l2=0.0, l1=0.01, intercept="free")
    first = dualgap.solve(problem, "linear_program", tol=1e-7, max_epochs=200)
    again = dualgap.solve(problem.variant(l1=0.0095), "linear_program", tol=1e-7, max_epochs=200, warm_start=first)
    assert again.converged
    assert again.epochs < first.epochs
