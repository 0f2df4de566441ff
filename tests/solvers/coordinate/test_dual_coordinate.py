"""DualCoordinate: the step on the precomputed matrix, its limits, and its likeness to SDCA."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.solvers.precomputed import LARGEST
from reference import REFERENCE_LOSSES, Model, sdca_epoch


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_steps_are_the_coordinate_steps(sparse_like, storage):
    X, y = sparse_like
    X = X.astype(np.float32).astype(np.float64)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    problem = dualgap.Problem(storage(X), y, l2=0.05, sample_weight=weights)
    solver, rng = dualgap.DualCoordinate(order="cyclic"), np.random.default_rng(0)
    state = solver.start(problem, rng)
    beta = np.zeros(len(y))
    for _ in range(3):
        solver.epoch(problem, state, rng)
        sdca_epoch(Model(X, y, problem.c, REFERENCE_LOSSES["hinge"], 0.05), beta, range(len(y)))
    np.testing.assert_allclose(solver.dual(problem, state), beta, atol=1e-11)
    margins = y * (X @ (X.T @ (problem.c * y * beta))) / 0.05
    np.testing.assert_allclose(y * state.ascent.v, margins, atol=1e-11)  # Qβ as maintained


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_same_steps_as_sdca(small, intercept):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05, intercept=intercept)
    on_gram, rows = (dualgap.solve(problem, name, tol=1e-7, max_epochs=500, seed=5) for name in ("dual_coordinate", "sdca"))
    assert on_gram.epochs == rows.epochs
    np.testing.assert_allclose(on_gram.coef, rows.coef, atol=1e-8)
    assert on_gram.intercept == pytest.approx(rows.intercept, abs=1e-8)


def test_support_vectors_are_in_the_trace_and_forming_the_matrix_is_paid_for(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05)
    result = dualgap.solve(problem, "dual_coordinate", tol=1e-6, max_epochs=500)
    assert result.trace["support_vectors"][-1] == np.count_nonzero(result.dual)
    assert result.trace["passes"][0] == 30.5 + 1.0


def test_too_many_rows_are_refused_with_the_memory(small):
    n = LARGEST + 1
    X = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 2)), shape=(n, 2))
    problem = dualgap.Problem(X, np.arange(n) % 2, l2=0.1)
    with pytest.raises(dualgap.NotSupported, match=r"3\.2 GB for n = 20001") as refusal:
        dualgap.solve(problem, "dual_coordinate")
    assert "these can: " in str(refusal.value)
    assert "sdca" in str(refusal.value)
