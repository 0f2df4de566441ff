"""APG: FISTA against a plain NumPy twin, passes, restarts, and the hinge by smoothing."""

import math

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from reference import REFERENCE_LOSSES, Model, optimum, primal_value, soft


def fista(X, y, c, loss, l2, l1, step, iterations):
    """Textbook FISTA with a fixed step and no restart; the last column of X is the free intercept."""
    w = z = np.zeros(X.shape[1])
    t = 1.0
    for _ in range(iterations):
        gradient = -X.T @ (c * y * loss.slope(y * (X @ z)))
        moved = z - step * gradient
        new = soft(moved, step * l1) / (1 + step * l2)
        new[-1] = moved[-1]
        t_next = (1 + math.sqrt(1 + 4 * t * t)) / 2
        z = new + (t - 1) / t_next * (new - w)
        w, t = new, t_next
    return w


def test_first_steps_are_fista(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="logistic", l2=0.01, l1=0.01, intercept="free")
    solver, rng = dualgap.APG(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    state.lipschitz = 2.0 * np.linalg.norm(np.hstack([X, np.full((60, 1), state.rows.scale)]), 2) ** 2 / 240  # no backtracking
    lipschitz = state.lipschitz
    for _ in range(5):
        solver.epoch(problem, state, rng)
    assert (state.lipschitz, state.passes) == (lipschitz, 10.0)
    biased = np.hstack([X, np.full((60, 1), state.rows.scale)])
    expected = fista(biased, y, problem.c, REFERENCE_LOSSES["logistic"], 0.01, 0.01, 1 / lipschitz, 5)
    np.testing.assert_allclose(state.now.x, expected, rtol=1e-12, atol=1e-15)


def test_backtracking_is_charged_and_majorises(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="squared_hinge", l2=0.01)
    solver, rng = dualgap.APG(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    state.lipschitz = 1e-3  # far too small
    solver.epoch(problem, state, rng)
    doublings = round(math.log2(state.lipschitz / 1e-3))
    assert doublings >= 3
    assert state.passes == 2.0 + doublings  # the gradient, and the scores of each trial
    # The accepted step lies below its quadratic model, the one before did not.
    c, loss = problem.c, REFERENCE_LOSSES["squared_hinge"]
    gradient = -X.T @ (c * y * loss.slope(np.zeros(60)))

    def excess(lipschitz):
        w = -gradient / lipschitz / (1 + 0.01 / lipschitz)
        return c @ loss.value(y * (X @ w)) - c @ loss.value(np.zeros(60)) - gradient @ w - lipschitz / 2 * w @ w

    assert excess(state.lipschitz) <= 1e-12 < excess(state.lipschitz / 2)


@pytest.mark.parametrize("restart", ["gradient", "function"])
def test_restart_makes_it_linear(restart):
    X, y = make_data(100, 10, seed=2)
    problem = dualgap.Problem(X * np.logspace(0, -1.5, 10), y, loss="logistic", l2=1e-3, l1=1e-3, intercept="free")
    result = dualgap.solve(problem, dualgap.APG(restart=restart), tol=1e-10, max_epochs=5000)
    model = Model(problem.X, y, problem.c, REFERENCE_LOSSES["logistic"], 1e-3, 1e-3, "free")
    assert result.status == "converged"
    assert result.certificate.primal == pytest.approx(optimum(model, "logistic"), rel=1e-9)


PENALTIES = [(0.02, 0.0), (0.02, 0.02), (0.0, 0.02)]


@pytest.mark.parametrize(
    ("l2", "l1", "intercept"),
    [(*p, i) for p in PENALTIES for i in ("none", "penalised", "free") if p[0] > 0 or i != "penalised"],
)
def test_hinge_is_certified(small, l2, l1, intercept):
    X, y = small
    problem = dualgap.Problem(X, y, l2=l2, l1=l1, intercept=intercept)
    result = dualgap.solve(problem, "apg", tol=1e-4, max_epochs=20_000)
    best = optimum(Model(X, y, problem.c, REFERENCE_LOSSES["hinge"], l2, l1, intercept), "hinge")
    assert result.status == "converged"
    assert result.certificate.dual <= best + 1e-9
    assert best - 1e-9 <= result.certificate.primal <= best * (1 + 1.1e-4)


def test_hinge_beta_is_feasible_and_its_own(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.02, intercept="free")
    solver, rng = dualgap.APG(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    widths = []
    for _ in range(300):
        solver.epoch(problem, state, rng)
        widths.append(state.problem.loss.delta)
    assert widths[0] == 1.0
    assert widths[-1] < 0.02
    assert (np.diff(widths) <= 0).all()
    beta = solver.dual(problem, state)
    assert ((beta >= 0) & (beta <= 1)).all()
    assert np.count_nonzero((beta > 0) & (beta < 1)) >= 3  # the hinge's own slope is 0 or 1 and tells less
    assert abs(problem.c @ (beta * y)) < 1e-12


def test_storage_does_not_matter(sparse_like):
    X, y = sparse_like
    options = {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.01, "l1": 0.01, "intercept": "free"}
    dense, csr = (
        dualgap.solve(dualgap.Problem(f(X), y, **options), "apg", tol=1e-8, max_epochs=2000) for f in (np.array, sparse.csr_array)
    )
    np.testing.assert_allclose(dense.coef, csr.coef, atol=1e-9)
    model = Model(X, y, np.full(80, 1 / 80), REFERENCE_LOSSES["smooth_hinge"], 0.01, 0.01, "free")
    assert dense.certificate.primal == pytest.approx(primal_value(model, dense.coef, dense.intercept), rel=1e-12)


def test_warm_start(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="logistic", l2=0.01, intercept="free")
    first = dualgap.solve(problem, "apg", tol=1e-8, max_epochs=1000)
    for warm in (first, (None, None, first.dual)):
        again = dualgap.solve(problem, "apg", tol=1e-7, max_epochs=1000, warm_start=warm)
        assert again.epochs <= 2 < first.epochs


@pytest.mark.parametrize("bad", [{"restart": "never"}, {"width": 0.0}, {"shrink": 1.0}])
def test_parameters_are_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        dualgap.APG(**bad)
