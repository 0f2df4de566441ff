"""Newton: precision where smoothing alone stalls, hard problems, and the start from a sample."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data, random_sparse
from dualgap.solvers.newton.heuristics import draw
from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.small import is_small


def collinear(n=300, d=6):
    """Columns that are nearly copies of each other."""
    X, y = make_data(n, d, seed=5)
    return np.hstack([X, X + 1e-7 * np.random.default_rng(0).standard_normal(X.shape)]), y


@pytest.mark.parametrize("l2", [1e-2, 1e-5, 1e-8])
def test_hinge_is_certified_to_1e8_even_with_collinear_columns(l2):
    X, y = collinear()
    result = dualgap.solve(dualgap.Problem(X, y, l2=l2), "newton", tol=1e-8, max_epochs=500)
    assert result.converged


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_one_compiled_call_on_few_dense_rows_takes_the_same_steps(loss, intercept):
    # Sparse rows take the steps one by one, in Python.
    X, y = make_data(200, 6, seed=7)
    X[np.abs(X) < 0.5] = 0.0
    problems = [dualgap.Problem(A, y, loss=loss, l2=1e-3, intercept=intercept) for A in (X, sparse.csr_array(X))]
    assert [is_small(problem) for problem in problems] == [True, False]
    for epochs in (1, 4, 12):  # without a tolerance an epoch is one step
        runs = [dualgap.solve(p, "newton", tol=0.0, max_epochs=epochs, stall=False) for p in problems]
        np.testing.assert_allclose(runs[0].coef, runs[1].coef, atol=1e-7)
    runs = [dualgap.solve(p, "newton", tol=1e-9) for p in problems]
    assert all(run.converged for run in runs)
    warm = [dualgap.solve(p, "newton", tol=1e-9, warm_start=runs[1]) for p in problems]
    assert all(run.converged for run in warm)
    assert warm[0].trace["passes"][-1] <= runs[0].trace["passes"][-1]


@pytest.mark.parametrize("loss", ["smooth_hinge", "squared_hinge", "logistic"])
def test_smooth_losses_take_few_steps(loss):
    X, y = make_data(400, 6, seed=8)
    result = dualgap.solve(dualgap.Problem(X, y, loss=loss, l2=1e-3, intercept="free"), "newton", tol=1e-9, max_epochs=30)
    assert result.converged


def test_the_gap_estimate_is_the_certified_gap():
    X, y = make_data(300, 5, seed=9)
    problem, solver, rng = dualgap.Problem(X, y, l2=1e-3), Newton(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(6):
        solver.epoch(problem, state, rng)
        coef, _ = solver.model(problem, state)
        certified = dualgap.certify(problem, coef, dual=solver.dual(problem, state)).relative_gap
        assert solver.gap_estimate(problem, state) == pytest.approx(certified, rel=1e-6, abs=1e-12)


def test_a_sample_of_many_rows_gives_the_start_and_the_rare_class_its_share():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((8000, 4))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(8000) > 2.2, 1.0, -1.0)  # 2 % positive
    problem, solver = dualgap.Problem(X, y, l2=1e-3, intercept="penalised"), Newton()
    state = solver.start(problem, np.random.default_rng(0))
    best = dualgap.solve(problem, solver, tol=1e-8)
    assert best.converged
    assert problem.objective(state.x[:-1], state.x[-1]) < 1.2 * best.certificate.primal < 0.5 * problem.objective(np.zeros(4))


def test_a_sample_has_the_long_rows_and_weighs_them_as_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 10))
    X[::1000] *= 100.0
    y = np.where(rng.random(8000) < 0.5, 1.0, -1.0)
    problem = dualgap.Problem(X, y, loss="logistic", l2=1e-3)
    chosen, weights = draw(problem, 1000, rng)
    assert set(range(0, 8000, 1000)) <= set(chosen.tolist())
    assert len(set(chosen.tolist())) == len(chosen) < 2500
    for sign in (1.0, -1.0):
        assert weights[y[chosen] == sign].sum() == pytest.approx(problem.c[y == sign].sum())
    weighted, exact = (X[chosen] ** 2).T @ weights, (X**2).T @ problem.c
    np.testing.assert_allclose(weighted, exact, rtol=0.5)


def test_rare_features_do_not_spoil_the_start_from_a_sample():
    rng = np.random.default_rng(1)
    rare = (rng.random((40_000, 10)) < 2e-4) * 70.0 - 0.014
    X = np.hstack([rng.standard_normal((40_000, 10)), rare])
    y = np.where(X[:, 0] + rng.standard_normal(40_000) > 1.0, 1.0, -1.0)
    problem = dualgap.Problem(X, y, loss="logistic", l2=1e-5)
    start, best = Newton().start(problem, rng), dualgap.solve(problem, "newton", tol=1e-6)
    assert problem.objective(start.x) < 1.05 * best.certificate.primal


def test_too_many_features_are_refused_with_a_way_out():
    X = random_sparse(50, 5000, 0.01, np.random.default_rng(0))
    with pytest.raises(dualgap.NotSupported, match=r"5000 × 5000.*these can: .*dca"):
        dualgap.solve(dualgap.Problem(X, np.arange(50) % 2), "newton")


def test_delta_must_be_positive():
    with pytest.raises(ValueError, match=r"delta=0"):
        Newton(delta=0.0)


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "logistic"])
def test_a_free_intercept_with_rare_positives_does_not_run_away(loss):
    # At w = 0 every row of the smooth hinge of width 1 lies in its linear part, and b has no curvature at all.
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6000, 5))
    y = np.where(X[:, 0] > 2.7, 1.0, -1.0)
    result = dualgap.solve(dualgap.Problem(X, y, loss=loss, l2=1e-4, intercept="free"), "auto", tol=1e-6)
    assert result.converged


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge"])
def test_separable_rows_of_huge_scale_reach_their_hard_margin(loss):
    """P is 1e-12: most steps meet a row whose loss is stiffer than the penalty by a factor of 1e14."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 10))
    scores = X @ rng.standard_normal(10)
    scores += 0.02 * scores.std() * rng.standard_normal(1000)
    y = scores > np.median(scores)
    problem = dualgap.Problem(1e5 * X, y, loss=loss, l2=1e-7, intercept="free")
    assert dualgap.solve(problem, "newton", tol=1e-3, max_epochs=100).converged


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_rows_are_shrunk_and_unshrunk_before_a_gap_is_believed(intercept):
    X, y = make_data(5000, 6, seed=11)
    problem, solver, rng = dualgap.Problem(X, y, l2=1e-4, intercept=intercept), Newton(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    state.tol = 1e-8
    counts, estimates = [], []
    for _ in range(100):
        solver.epoch(problem, state, rng)
        counts.append(len(state.rows.which))
        estimates.append(solver.gap_estimate(problem, state))
        beta = solver.dual(problem, state)
        u = (problem.c * problem.y * beta) @ X
        np.testing.assert_allclose(state.u[:6], u, atol=1e-12)  # the shrunk rows' part stays in it
        if estimates[-1] <= 1e-8:
            break
    assert min(counts) < 2500
    assert counts[-1] == 5000
    assert all(np.isinf(estimate) for count, estimate in zip(counts, estimates, strict=True) if count < 5000)
    coef, _ = solver.model(problem, state)
    assert dualgap.certify(problem, coef, solver.intercept(problem, state), dual=beta).relative_gap <= 2e-8


def test_within_the_tolerance_the_inner_problem_is_solved_before_the_centre_moves():
    """A kernel machine's w is that of β: it is good enough where the gradient of the inner problem is gone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 8))
    y = np.where(X[:, 0] + rng.standard_normal(3000) > 0, 1.0, -1.0)
    problem, solver = dualgap.Problem(X, y, l2=1e-3, intercept="free"), Newton()
    state = solver.begin(problem, rng)
    state.tol, moves = 1.0, []
    for _ in range(40):
        delta, left, inside = state.rows.prox.delta, state.penalty_gap / (state.gap * state.primal), state.gap <= state.tol
        solver.step(problem, state)
        if inside and state.rows.prox.delta < delta:
            moves.append(left)
    assert moves
    assert max(moves) <= 1e-3
