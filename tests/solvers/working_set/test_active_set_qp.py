"""Newton steps on all free variables: the quadratic problem in its box, and when the solver takes such a step."""

import numpy as np
import pytest

import dualgap
from dualgap.kernels.function import make_kernel
from dualgap.solvers.base import Warm
from dualgap.solvers.working_set.active_set_qp import BoxQP, newton_step


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_step_on_all_variables_solves_their_problem_in_its_box(count, dtype):
    """The conditions of optimality, at bounds too; rows that are there twice leave a matrix that only its ridge keeps from singular."""
    rng, m = np.random.default_rng(3), 60
    points = np.repeat(rng.normal(size=(m // 2, 4)), 2, axis=0)
    ridge, error = (1e-3, 2e-3) if dtype == np.float32 else (1e-6, 1e-7)
    M = make_kernel("rbf", gamma=0.3)(points, points) + ridge * np.eye(m)
    low, high = -rng.uniform(0.1, 2.0, m), rng.uniform(0.1, 2.0, m)
    low[:5], high[5:10] = 0.0, 0.0
    e = M @ (1.2 * rng.uniform(low, high)) + 0.3
    groups = [np.arange(m) % count == group for group in range(count)]
    qp = BoxQP(np.tril(M).astype(dtype), np.empty((m + count, m), dtype=dtype), groups)
    assert qp.factored
    d = qp.solve(e, low, high)
    left = e - M @ d
    between = (d > low) & (d < high)
    assert ((low <= d) & (d <= high)).all()
    assert 5 < np.count_nonzero(~between) < m - 5
    assert groups or abs(d.sum()) > 0.1
    for group in groups or [np.full(m, True)]:
        level = left[between & group].mean() if groups else 0.0
        assert not groups or abs(d[group].sum()) < 1e-9
        np.testing.assert_allclose(left[between & group], level, atol=error)
        assert (left[group & (d == low)] <= level + error).all()
        assert (left[group & (d == high)] >= level - error).all()


def test_a_step_with_too_many_variables_at_a_bound_is_not_taken():
    qp = BoxQP(np.eye(8), np.empty((2, 8)))
    assert qp.solve(np.arange(8.0), np.full(8, -1.0), np.full(8, 1.0)) is None


def test_a_matrix_that_is_not_positive_definite_is_told():
    assert not BoxQP(np.array([[1.0, 0.0], [2.0, 1.0]]), np.empty((1, 2))).factored


def coupled(n=600):
    """Rows whose optimum has most variables between their bounds."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 3))
    return data, np.where(np.sin(2 * data[:, 0]) + data[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    "options",
    [{}, {"intercept": "none"}, {"intercept": "penalised"}, {"loss": "squared_hinge"}, {"loss": "smooth_hinge"}],
    ids=str,
)
def test_a_step_of_second_order_raises_the_dual_and_keeps_errors_right(options):
    """From the optimum with its free variables moved a known way: how much D can rise does not depend on the path of iterates."""
    data, labels = coupled()
    problem = dualgap.Problem(data, labels, **{"l2": 1e-6, "kernel": "rbf", "gamma": 3.0, "intercept": "free", **options})
    solver, rng = dualgap.WorkingSet(size=32, precision="float64", shrinking=False), np.random.default_rng(0)
    beta = dualgap.solve(problem, solver, tol=1e-7, max_epochs=2000).dual
    free = np.flatnonzero((beta > 1e-3) & (beta < 0.5))
    assert len(free) > 50
    share = rng.uniform(-0.003, 0.003, len(free))
    share -= problem.y[free] * (problem.y[free] * beta[free] @ share) / beta[free].sum()  # Σ cβy stays as it is
    beta[free] *= 1.0 + share
    state = solver.start(problem, rng, Warm(None, 0.0, beta))
    gap, before = state.gap, dualgap.proof.lower_bound(problem, solver.dual(problem, state))
    assert newton_step(problem, state)
    after = dualgap.proof.lower_bound(problem, solver.dual(problem, state))
    assert after > before
    assert after == pytest.approx(state.dual_value * problem.l2, rel=1e-7)
    assert state.gap < gap / 4
    a, bias = state.box.a, state.box.a.sum() if problem.intercept == "penalised" else 0.0
    assert ((state.box.low <= a) & (a <= state.box.high)).all()
    np.testing.assert_allclose(state.box.g, problem.y - problem.kernel(data, data) @ a - state.box.r * a - bias, atol=1e-8)


def test_steps_of_second_order_are_taken_where_pair_steps_are_slow_and_within_the_cache():
    """The memory for their matrix is the cache's: without room, no such step."""
    data, labels = coupled(1500)
    taken = []
    for rows in (1500, 60):
        problem = dualgap.Problem(data, labels, l2=1e-7, kernel="rbf", gamma=3.0, intercept="free")
        solver, rng = dualgap.WorkingSet(size=128, cache_size=rows * 1500 * 4 / 1e6), np.random.default_rng(0)
        state = solver.start(problem, rng)
        taken.append(0)
        for _ in range(40):
            steps = state.steps
            solver.epoch(problem, state, rng)
            taken[-1] += state.steps == steps
            assert state.cache.memory.nbytes <= solver.cache_size * 1e6
            if state.relative_gap <= 1e-7:
                break
    assert taken[0] > 0
    assert taken[1] == 0
