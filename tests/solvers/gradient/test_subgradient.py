"""Subgradient: against NumPy, the best iterate kept, its schedules and its dual point."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from reference import REFERENCE_LOSSES, Model
from reference import primal as twin
from reference.objective import primal_value

NET = {"loss": "hinge", "l2": 0.05, "l1": 0.02, "intercept": "free"}


def run(problem, epochs, solver):
    rng = np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
    return state


def as_model(problem):
    loss = REFERENCE_LOSSES["hinge"]
    return Model(problem.X, problem.y, problem.c, loss, problem.l2, problem.l1, problem.intercept, problem.intercept_scale)


@pytest.mark.parametrize(
    "extra", [{"sample_weight": np.linspace(0.0, 2.0, 60)}, {"intercept": "penalised", "intercept_scale": 2.0}]
)
@pytest.mark.parametrize("schedule", ["constant", "1/t", "1/sqrt(t)"])
def test_equals_numpy_and_keeps_the_best(small, schedule, extra):
    problem = dualgap.Problem(*small, **{**NET, **extra})
    model, rate = as_model(problem), 2.0
    steps = {
        "constant": lambda t: rate,
        "1/t": lambda t: rate / (1 + rate * 0.05 * t),
        "1/sqrt(t)": lambda t: rate / (1 + t) ** 0.5,
    }
    solver = dualgap.Subgradient(schedule=schedule, rate=rate)
    iterates, slopes = [(np.zeros(5), 0.0)], []
    for t in range(12):
        w, b = iterates[-1]
        slopes.append(model.loss.slope(model.y * (model.X @ w + b)))
        iterates.append(twin.proximal_step(model, w, b, twin.full_gradient(model, w, b), steps[schedule](t)))
        state = run(problem, t + 1, solver)
        np.testing.assert_allclose(state.w, iterates[-1][0], rtol=0, atol=1e-12)
        coef, intercept = solver.model(problem, state)
        best = min(primal_value(model, *iterate) for iterate in iterates)
        assert primal_value(model, coef, intercept) == pytest.approx(best, rel=1e-12)
        last = dualgap.Subgradient(schedule=schedule, rate=rate, output="last").model(problem, state)
        np.testing.assert_allclose(np.append(*last), np.append(*iterates[-1]), rtol=0, atol=1e-12)
    if schedule == "constant":  # a step this long overshoots: the last iterate is not the best
        assert best < primal_value(model, *iterates[-1])
    np.testing.assert_allclose(solver.dual(problem, state), np.average(slopes, axis=0, weights=np.arange(1, 13)), atol=1e-12)


def test_sparse_is_dense(sparse_like):
    X, y = sparse_like
    solver = dualgap.Subgradient()
    dense, thin = dualgap.Problem(X, y, **NET), dualgap.Problem(sparse.csr_array(X), y, **NET)
    np.testing.assert_allclose(run(thin, 50, solver).w, run(dense, 50, solver).w, rtol=0, atol=1e-12)


def test_weight_two_is_a_row_twice(small):
    X, y = small
    twice = np.arange(60) % 3 == 0
    weighted = dualgap.Problem(X, y, **NET, sample_weight=1.0 + twice)
    repeated = dualgap.Problem(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]), **NET)
    solver = dualgap.Subgradient()
    np.testing.assert_allclose(run(weighted, 50, solver).w, run(repeated, 50, solver).w, rtol=0, atol=1e-12)


def test_hinge_certificate_comes_from_averaged_slopes(small):
    problem = dualgap.Problem(*small, **NET)
    result = dualgap.solve(problem, "subgradient", tol=1e-3, max_epochs=3000)
    assert result.status == "converged"
    assert result.certificate.source == "solver"
    assert result.trace["passes"][-1] == result.epochs
    at_once = dualgap.certify(problem, result.coef, result.intercept, epochs=0)
    assert at_once.relative_gap > 2 * result.certificate.relative_gap


def test_gradient_descent_on_a_smooth_loss(small):
    problem = dualgap.Problem(*small, loss="logistic", l2=0.1)
    result = dualgap.solve(problem, dualgap.Subgradient(schedule="constant"), tol=1e-6, max_epochs=3000)
    assert result.status == "converged"


def test_warm_start_and_refusals(small):
    problem = dualgap.Problem(*small, **NET)
    good = dualgap.solve(problem, "subgradient", tol=1e-2, max_epochs=3000)
    again = dualgap.solve(problem, "subgradient", tol=0.5, warm_start=good, max_epochs=1)
    assert again.certificate.primal <= good.certificate.primal  # a first step that overshoots does not lose the start
    with pytest.raises(dualgap.NotSupported, match="use Pegasos or SDCA"):
        dualgap.solve(dualgap.Problem(*small, kernel="rbf"), "subgradient")
    with pytest.raises(ValueError, match="schedule='linear' is unknown"):
        dualgap.Subgradient(schedule="linear")
