"""Pegasos against its naive twin: batches, projection, averages, weights; and its certificate that costs nothing."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap import NotSupported, Pegasos, Problem
from dualgap.proof import dual_point
from reference import REFERENCE_LOSSES, Model, pegasos_epoch

X, Y = make_data(41, 4, 3)
L2 = 0.02


def run(problem, solver, epochs, seed=0):
    """State after some epochs, and the order of the rows in each."""
    rng = np.random.default_rng(seed)
    state = solver.start(problem, rng)
    orders = []
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
        orders.append(state.order.astype(int))
    return state, orders


def naive(model, solver, orders):
    """The output of the twin over the same orders."""
    w, t, iterates = np.zeros(model.X.shape[1]), 0, []
    starts = []
    for order in orders:
        starts.append(t)
        found = pegasos_epoch(model, w, order, t, solver.batch_size, solver.project)
        iterates += found
        w, t = found[-1], t + len(found)
    if solver.output == "last":
        return w
    if solver.output == "average":
        return np.mean(iterates[starts[len(orders) // 2] :], axis=0)  # the second half of the epochs
    return np.average(iterates, axis=0, weights=np.arange(1, t + 1))


def twins(l2=L2, weights=None, X=X, y=Y, **options):
    c = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    return Problem(X, y, l2=l2, sample_weight=weights, **options), Model(X, y, c, REFERENCE_LOSSES["hinge"], l2)


@pytest.mark.parametrize("output", ["last", "average", "weighted"])
@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("batch", [1, 7, 41, 1000])
@pytest.mark.parametrize("sampling", ["permutation", "random"])
def test_equals_the_naive_twin(output, project, batch, sampling):
    solver = Pegasos(batch, project, sampling, output)
    problem, model = twins()
    state, orders = run(problem, solver, 4)
    if sampling == "permutation":
        assert all(sorted(order) == list(range(41)) for order in orders)
    twin = Pegasos(min(batch, 41), project, sampling, output)
    coef, intercept = solver.model(problem, state)
    np.testing.assert_allclose(coef, naive(model, twin, orders), rtol=1e-10, atol=1e-12)
    assert intercept == 0.0
    assert state.passes == 4.0


@pytest.mark.parametrize("output", ["last", "average", "weighted"])
def test_weights(output):
    weights = np.random.default_rng(0).integers(0, 3, 41).astype(float)
    solver = Pegasos(5, True, "permutation", output)
    problem, model = twins(weights=weights)
    state, orders = run(problem, solver, 4)
    np.testing.assert_allclose(solver.model(problem, state)[0], naive(model, solver, orders), rtol=1e-10, atol=1e-12)
    assert not solver.dual(problem, state)[weights == 0].any()


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_a_penalised_intercept_is_one_more_column(output, scale):
    solver = Pegasos(3, True, "permutation", output)
    problem, _ = twins(intercept="penalised", intercept_scale=scale)
    state, orders = run(problem, solver, 4)
    _, model = twins(X=np.hstack([X, np.full((41, 1), scale)]))
    expected = naive(model, solver, orders)
    coef, intercept = solver.model(problem, state)
    np.testing.assert_allclose(coef, expected[:-1], rtol=1e-10, atol=1e-12)
    assert intercept == pytest.approx(scale * expected[-1], rel=1e-10)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("intercept", ["none", "penalised"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_certificate_is_free(batch, intercept, weighted):
    """With a permutation an epoch, β = violations/epochs is feasible as it is, and its model is the last iterate."""
    weights = np.random.default_rng(0).integers(1, 4, 41).astype(float) if weighted else None
    problem, _ = twins(weights=weights, intercept=intercept, intercept_scale=1.5)
    solver = Pegasos(batch)
    for epochs in (1, 2, 5, 30):
        state, _ = run(problem, solver, epochs)
        beta = solver.dual(problem, state)
        assert (beta >= 0).all()
        assert (beta <= 1 + 1e-12).all()
        np.testing.assert_allclose(beta * epochs, np.round(beta * epochs), atol=1e-9)  # they count violations
        coef, b = solver.model(problem, state)
        np.testing.assert_allclose(dual_point(problem, beta).coef, coef, rtol=1e-10, atol=1e-10)
        if intercept == "penalised":
            assert 1.5**2 * np.sum(problem.c * beta * problem.y) / L2 == pytest.approx(b, rel=1e-10)


@pytest.mark.parametrize("output", ["last", "average", "weighted"])
def test_kernel_pegasos_on_a_linear_kernel_is_pegasos(output):
    solver = Pegasos(4, True, "permutation", output)
    plain, _ = twins()
    linear, _ = twins(kernel="linear")
    csr, _ = twins(X=sparse.csr_matrix(X))
    w = solver.model(plain, run(plain, solver, 5)[0])[0]
    a = solver.model(linear, run(linear, solver, 5)[0])[0]
    np.testing.assert_allclose(X.T @ a, w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(solver.model(csr, run(csr, solver, 5)[0])[0], w, rtol=1e-10, atol=1e-12)


def test_kernel_pegasos_counts_violations():
    """f(x) = 1/(l2·T) Σ αⱼ yⱼ k(xⱼ, x), step by step on an RBF kernel."""
    problem, _ = twins(kernel="rbf", gamma=0.5)
    solver = Pegasos()
    state, orders = run(problem, solver, 3)
    alpha, t = np.zeros(41), 0
    for i in np.concatenate(orders):
        t += 1
        f = problem.rows.k[i] @ (alpha * Y) / (L2 * (t - 1)) if t > 1 else 0.0
        alpha[i] += Y[i] * f < 1
    np.testing.assert_allclose(solver.model(problem, state)[0], alpha * Y / (L2 * t), rtol=1e-10)


@pytest.mark.parametrize("output", ["last", "average", "weighted"])
def test_projections_that_shrink_the_scale_beyond_the_numbers(output):
    """Orthogonal rows violate every time at first, and each step is projected back by orders of magnitude."""
    n = 600
    X = np.eye(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    problem, model = twins(l2=1e-8, X=X, y=y)
    solver = Pegasos(1, True, "permutation", output)
    state, orders = run(problem, solver, 2)
    coef = solver.model(problem, state)[0]
    assert np.isfinite(coef).all()
    np.testing.assert_allclose(coef, naive(model, solver, orders), rtol=1e-9, atol=1e-9 * np.abs(coef).max())


def test_projected_iterates_stay_in_the_ball():
    problem, _ = twins(l2=1e-4)
    solver = Pegasos(1, project=True)
    rng = np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(20):
        solver.epoch(problem, state, rng)
        assert np.linalg.norm(solver.model(problem, state)[0]) <= 1 / np.sqrt(1e-4) * (1 + 1e-9)


@pytest.mark.parametrize(
    "solver", [Pegasos(), Pegasos(8, project=True), Pegasos(4, sampling="random", output="weighted"), Pegasos(4, output="average")]
)
def test_it_converges_with_a_gap_that_is_never_negative(solver):
    problem = Problem(*make_data(200, 5), l2=0.05, intercept="penalised")
    result = dualgap.solve(problem, solver, tol=2e-2, max_epochs=3000, evaluate="geometric", stall=False)
    assert result.status == "converged"
    assert (result.trace["primal"] - result.trace["dual"] >= -1e-12).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "logistic"}, "made for the hinge"),
        ({"l1": 0.1}, "l2 penalty alone"),
        ({"intercept": "free"}, r"free intercept lacks; use intercept='penalised'.*"),
    ],
)
def test_what_it_does_not_support(options, words):
    with pytest.raises(NotSupported, match=words):
        dualgap.solve(Problem(X, Y, **options), "pegasos")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size=0 must be a whole number of at least 1"),
        ({"batch_size": 1.5}, r"batch_size=1\.5 must be"),
        ({"sampling": "cyclic"}, "sampling='cyclic' is unknown"),
        ({"output": "best"}, "output='best' is unknown"),
    ],
)
def test_parameters_that_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Pegasos(**options)


def test_the_wrong_forms_are_told_apart():
    """A margin taken after the decay, or a step 1/(l2·n), gives another path: the twin test would see it."""
    problem, model = twins()
    solver = Pegasos()
    apart = np.zeros(2)
    for seed in range(6):  # a margin must fall between 1 and t/(t−1) for the late form to differ
        state, orders = run(problem, solver, 5, seed)
        late, short = np.zeros(4), np.zeros(4)
        for t, i in enumerate(np.concatenate(orders), start=1):
            late = (1 - 1 / t) * late
            late = late + (Y[i] * (X[i] @ late) < 1) * Y[i] * X[i] / (L2 * t)
            short = (1 - 1 / 41) * short + (Y[i] * (X[i] @ short) < 1) * Y[i] * X[i] / (L2 * 41)
        w = solver.model(problem, state)[0]
        apart = np.maximum(apart, [np.abs(wrong - w).max() for wrong in (late, short)])
        np.testing.assert_allclose(w, naive(model, solver, orders), rtol=1e-10)
    assert (apart > 1e-3).all()
