"""DualGradient: the clipped step as printed, the projection for a free intercept, the step length, and when XXᵀ is formed."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dualgap
from conftest import make_data
from dualgap.solvers.gradient.dual_gradient import balanced_step, step_all


@pytest.mark.parametrize("gram", ["always", "never"])
def test_steps_are_the_clipped_gradient(small, gram):
    """β ← clip(β + η·∂D/∂β), with the report's λ = −β and its sum-of-losses objective, c = l2·n."""
    X, y = small
    n, l2 = len(y), 0.05
    problem = dualgap.Problem(X, y, l2=l2)
    solver, rng = dualgap.DualGradient(accelerate=False, gram=gram), np.random.default_rng(0)
    state = solver.start(problem, rng)
    step = n / state.lipschitz  # for the mean of losses, from ∂D/∂βᵢ = (1 − mᵢ)/n
    lam, c = np.zeros(n), l2 * n
    Q = np.outer(y, y) * (X @ X.T)
    for _ in range(10):
        solver.epoch(problem, state, rng)
        lam = np.clip(lam + step / n * (-1 - Q @ lam / c), -1, 0)
    np.testing.assert_allclose(state.beta, -lam, atol=1e-12)


def test_step_is_one_over_the_largest_eigenvalue(small):
    X, y = small
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    for options in ({}, {"intercept": "penalised", "intercept_scale": 2.0}, {"kernel": "rbf", "gamma": 0.2}):
        problem = dualgap.Problem(X, y, l2=0.05, sample_weight=weights, **options)
        state = dualgap.DualGradient().start(problem, np.random.default_rng(0))
        K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) if "kernel" in options else X @ X.T
        K = K + (4.0 if "intercept" in options else 0.0)
        root = np.sqrt(problem.c)
        exact = np.linalg.eigvalsh(root[:, None] * K * root)[-1] / 0.05
        assert exact <= state.lipschitz <= 1.06 * exact


def test_too_small_an_l_is_noticed(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="squared_hinge", l2=0.05)
    solver, rng = dualgap.DualGradient(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    right, state.lipschitz = state.lipschitz, state.lipschitz / 50
    for _ in range(300):
        solver.epoch(problem, state, rng)
    assert 0.5 * right < state.lipschitz < 1.1 * right
    result = dualgap.solve(problem, solver, tol=1e-8, max_epochs=2000)
    np.testing.assert_allclose(state.beta, result.dual, atol=1e-3)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # an older SLSQP leaves them by rounding, and clips
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_projection_balances_exactly_and_is_nearest(loss):
    """Σ cβy = 0, and no feasible point maximises the step's own objective better."""
    rng = np.random.default_rng(0)
    X, y = make_data(8, 3)
    problem = dualgap.Problem(X, y, loss=loss, l2=0.1, sample_weight=rng.uniform(0.5, 2.0, 8), intercept="free")
    beta, margins, q = rng.uniform(-0.2, 1.2, 8), rng.normal(size=8), 3.0
    out = np.empty(8)
    shift = balanced_step(problem.loss, problem.samples, beta, margins, q, 0.0, out)
    assert abs(problem.c @ (y * out)) < 1e-16
    assert ((out >= 0) & (out <= 1)).all()
    unshifted = np.empty(8)
    step_all(problem.loss, problem.samples, beta, margins, q, shift, unshifted)
    np.testing.assert_allclose(out, unshifted, atol=1e-12)

    def loss_of(b):
        psi = np.array([problem.loss.psi(v) for v in np.clip(b, 0, 1)])
        return -problem.c @ (psi - margins * (b - beta) - q / 2 * (b - beta) ** 2)

    constraint = {"type": "eq", "fun": lambda b: problem.c @ (y * b)}
    options = {"ftol": 1e-14, "maxiter": 500}
    found = minimize(
        loss_of, np.full(8, 0.3), method="SLSQP", bounds=[(1e-9, 1 - 1e-9)] * 8, constraints=constraint, options=options
    )
    assert loss_of(out) <= found.fun + 1e-9


def test_shift_is_the_intercept(small):
    X, y = small
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=0.5, l2=0.05, intercept="free")
    solver, rng = dualgap.DualGradient(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(500):
        solver.epoch(problem, state, rng)
    result = dualgap.solve(problem, "apg", tol=1e-10, max_epochs=2000)
    assert state.shift == pytest.approx(result.intercept, abs=1e-5)


def test_gram_matrix_only_where_it_is_cheaper(small):
    X, y = small
    wide = np.random.default_rng(0).normal(size=(60, 400))
    rng = np.random.default_rng(0)

    def held(X, **options):
        return dualgap.DualGradient().start(dualgap.Problem(X, y, l2=0.1, **options), rng).scores.matrix is not None

    assert not held(X)
    assert held(wide)
    assert not held(wide, l1=0.1)
    assert not held(sparse.csr_array(wide * (rng.random(wide.shape) < 0.05)))  # 20 non-zeros a row, against 60 in a row of XXᵀ
    solver = dualgap.DualGradient(gram="always")
    assert not solver.supports(dualgap.Problem(X, y, l2=0.1, l1=0.1))


def test_passes_count_the_power_iteration_and_the_matrix(small):
    X, y = small
    state = dualgap.DualGradient(gram="never").start(dualgap.Problem(X, y, l2=0.1), np.random.default_rng(0))
    assert state.passes >= 4
    assert state.passes % 2 == 0
    state = dualgap.DualGradient(gram="always").start(dualgap.Problem(X, y, l2=0.1), np.random.default_rng(0))
    assert state.passes >= 30.5 + 2 * 60**2 / 300


def test_acceleration_pays(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.01)
    plain, fast = (
        dualgap.solve(problem, dualgap.DualGradient(accelerate=a), tol=1e-4, max_epochs=5000, stall=False) for a in (False, True)
    )
    assert fast.epochs < 0.5 * plain.epochs
    assert plain.certificate.primal == pytest.approx(fast.certificate.primal, rel=2e-4)


def test_warm_start(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05, intercept="free")
    first = dualgap.solve(problem, "dual_gradient", tol=1e-7, max_epochs=2000)
    again = dualgap.solve(problem, "dual_gradient", tol=1e-6, max_epochs=2000, warm_start=first)
    assert again.epochs <= 2 < first.epochs
