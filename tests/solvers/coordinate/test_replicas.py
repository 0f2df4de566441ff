"""Sweeps in two threads: D rises, β and v belong together, every row is visited once, and weak penalties go on with one thread."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.core import machine, threads
from dualgap.solvers.coordinate import replicas
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.dca import DCA
from dualgap.solvers.coordinate.replicas import Replicas


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(threads, "processors", lambda: 2)
    monkeypatch.setattr(replicas, "processors", lambda: 2)
    monkeypatch.setattr(machine, "READING", 1)
    monkeypatch.setattr(replicas, "MERGE", 0.0)


def text(n=400, d=300, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.05, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    return X, np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def dual_objective(problem, ascent):
    """D at β, where the intercept is free without its proximal term."""
    psi = np.array([problem.loss.psi(b) for b in ascent.beta])
    bias = ascent.bias.centre / ascent.bias.scale * ascent.v[-1] if problem.intercept == "free" else 0.0
    return float(problem.c @ psi - 0.5 * problem.l2 * ascent.v @ ascent.v - problem.l2 * bias)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("l2", [1e-1, 1e-3, 1e-6])
def test_a_sweep_raises_the_dual_objective(loss, intercept, l2):
    problem = dualgap.Problem(*text(), loss=loss, l2=l2, intercept=intercept)
    state = DCA().start(problem, np.random.default_rng(0))
    ascent = state.ascent
    before = dual_objective(problem, ascent)
    found = state.replicas.sweep(problem, ascent, state.order, DCA()._visitor(problem, state))
    assert dual_objective(problem, ascent) > before
    v = ascent.v.copy()
    ascent.rebuild()
    np.testing.assert_allclose(v, ascent.v, atol=1e-9 * np.abs(v).max())
    kept = sum(part.active for part in found)
    assert len(np.unique(state.order[:kept])) == kept == problem.n  # no bound yet: all stay active


def test_where_both_halves_overshoot_half_of_each_is_taken():
    # Equal rows yx: each half takes a full step, which both together make twice as long as the best one.
    y = np.tile([1.0, -1.0], 8)
    problem = dualgap.Problem(y[:, None], y, l2=1e-3)
    state = DCA().start(problem, np.random.default_rng(0))
    before = dual_objective(problem, state.ascent)
    state.replicas.sweep(problem, state.ascent, state.order, DCA()._visitor(problem, state))
    assert state.replicas.refuted
    assert dual_objective(problem, state.ascent) > before
    assert not state.replicas.pay(problem, state.ascent, 10**9, 100.0, 100.0)


@pytest.mark.parametrize("l2", [1e-1, 1e-2, 1e-4])
def test_a_run_converges_to_the_same_model_and_repeats(l2):
    problem = dualgap.Problem(*text(seed=1), l2=l2)
    runs = [dualgap.solve(problem, "dca", tol=1e-7, max_epochs=20_000) for _ in range(2)]
    assert runs[0].converged
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    with threads.one_processor():
        reference = dualgap.solve(problem, "newton", tol=1e-9)
    np.testing.assert_allclose(runs[0].coef, reference.coef, atol=2 * np.sqrt(2e-7 * reference.certificate.primal / l2))


def test_shrunk_rows_leave_the_order():
    problem = dualgap.Problem(*text(seed=2), l2=1e-2)
    state, rng = DCA().start(problem, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(4):
        state.bound = 0.0  # rows that satisfy the KKT conditions at a bound are shrunk at once
        DCA()._sweep(problem, state, rng)
        assert len(np.unique(state.order[: state.active])) == state.active


@pytest.mark.parametrize("change", ["few bytes", "one processor", "elastic net", "kernel", "offset"])
def test_what_two_threads_are_not_for(monkeypatch, change):
    X, y = text(40, 10)
    options = {
        "elastic net": {"l1": 1e-4},
        "kernel": {"kernel": "rbf", "gamma": 1.0},
        "offset": {"loss": "epsilon_insensitive"},
    }.get(change, {})
    problem = dualgap.Problem(X.toarray(), y, l2=1e-2, **options)
    if change == "few bytes":
        monkeypatch.setattr(machine, "READING", 10**9)
    if change == "one processor":
        monkeypatch.setattr(replicas, "processors", lambda: 1)
    assert not Replicas().pay(problem, Ascent(problem), problem.n, 80.0, 100.0)
