"""SGD: against its twin in NumPy, sparse against dense with every schedule and average, batches, dual points."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.core.order import fresh_seed, natural_order, shuffle
from dualgap.solvers.gradient import lazy_prox as module
from reference import REFERENCE_LOSSES, Model
from reference import primal as twin

NET = {"loss": "hinge", "l2": 0.05, "l1": 0.02, "intercept": "free"}
SCHEDULES = ("constant", "1/t", "1/sqrt(t)")


def run(problem, epochs, solver, warm=None):
    rng = np.random.default_rng(5)
    state = solver.start(problem, rng, warm)
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
    return state


def twin_iterates(problem, epochs, step_at, batch):
    loss = REFERENCE_LOSSES["hinge"]
    model = Model(problem.X, problem.y, problem.c, loss, problem.l2, problem.l1, problem.intercept, problem.intercept_scale)
    rng, order = np.random.default_rng(5), natural_order(problem.n)
    iterates = [(np.zeros(problem.d), 0.0)]
    for _ in range(epochs):
        shuffle(order, fresh_seed(rng))
        iterates += twin.sgd_epoch(model, *iterates[-1], [int(i) for i in order], step_at, len(iterates) - 1, batch)
    return iterates[1:]


@pytest.mark.parametrize(
    ("schedule", "batch", "output"), [("1/t", 1, "weighted"), ("1/sqrt(t)", 7, "average"), ("constant", 60, "last")]
)
@pytest.mark.parametrize(
    "extra", [{"sample_weight": np.linspace(0.0, 2.0, 60)}, {"intercept": "penalised", "intercept_scale": 2.0}]
)
def test_equals_its_twin(small, schedule, batch, output, extra):
    problem = dualgap.Problem(*small, **{**NET, **extra})
    solver = dualgap.SGD(schedule=schedule, rate=0.5, batch_size=batch, output=output)
    per_epoch = -(-problem.n // batch)
    steps = {
        "constant": lambda t: 0.5,
        "1/t": lambda t: 0.5 / (1 + 0.5 * 0.05 * t),
        "1/sqrt(t)": lambda t: 0.5 / (1 + t / per_epoch) ** 0.5,
    }
    iterates = twin_iterates(problem, 3, steps[schedule], batch)
    t = np.arange(1, len(iterates) + 1)
    weights = {"last": 1.0 * (t == len(t)), "average": np.ones(len(t)), "weighted": t}[output]
    coef, intercept = solver.model(problem, run(problem, 3, solver))
    np.testing.assert_allclose(coef, np.average([w for w, _ in iterates], axis=0, weights=weights), rtol=0, atol=1e-12)
    assert intercept == pytest.approx(np.average([b for _, b in iterates], weights=weights), abs=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("output", ["last", "average", "weighted"])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.05), (0.02, 0.05), (0.02, 0.0), (0.01, 30.0)])
def test_lazy_is_eager(sparse_like, monkeypatch, schedule, output, l1, l2):
    """Also across stretches: 16 steps each here, and fewer where a strong l2 makes the products small."""
    monkeypatch.setattr(module, "SHORTEST_STRETCH", 16)
    X, y = sparse_like
    options = {**NET, "l1": l1, "l2": l2, "sample_weight": np.random.default_rng(0).uniform(0.5, 2.0, len(y))}
    dense, thin = dualgap.Problem(X, y, **options), dualgap.Problem(sparse.csr_array(X), y, **options)
    for batch in (1, 9):
        solver = dualgap.SGD(schedule=schedule, batch_size=batch, output=output)
        w, b = solver.model(dense, run(dense, 12, solver))
        lazy = run(thin, 12, solver)
        assert type(lazy.point).__name__ == "Lazy"
        w_lazy, b_lazy = solver.model(thin, lazy)
        np.testing.assert_allclose(w_lazy, w, rtol=0, atol=1e-9)
        assert b_lazy == pytest.approx(b, abs=1e-9)


def test_reading_the_model_changes_nothing(sparse_like):
    problem = dualgap.Problem(sparse.csr_array(sparse_like[0]), sparse_like[1], **NET)
    solver, rng = dualgap.SGD(), np.random.default_rng(5)
    state = solver.start(problem, rng)
    for _ in range(6):
        solver.epoch(problem, state, rng)
        solver.model(problem, state)
    undisturbed = solver.model(problem, run(problem, 6, solver))
    np.testing.assert_allclose(solver.model(problem, state)[0], undisturbed[0], rtol=0, atol=1e-13)


def test_with_the_step_of_pegasos_it_is_pegasos(small):
    """Rate 1/l2 makes the prox's factor (t+1)/(t+2): the steps 1/(l2·(t+1)) of Pegasos, whose dual point is w's own."""
    problem = dualgap.Problem(*small, l2=0.1)
    result = dualgap.solve(problem, dualgap.SGD(rate=10.0, output="last"), tol=1e-2, max_epochs=3000)
    assert result.status == "converged"
    assert result.certificate.source == "solver"


@pytest.mark.parametrize("batch", [1, 10])
def test_hinge_certificate_comes_from_averaged_slopes(small, batch):
    problem = dualgap.Problem(*small, **NET)
    result = dualgap.solve(problem, dualgap.SGD(batch_size=batch), tol=1e-3, max_epochs=2000)
    assert result.status == "converged"
    assert result.certificate.source == "solver"
    best = dualgap.solve(problem, "sdca", tol=1e-8, max_epochs=20_000, stall=False).certificate
    assert best.dual <= result.certificate.primal * (1 + 1e-12)
    assert result.certificate.dual <= best.primal
    # One w's slopes, 0 or 1 on either side of the kink, prove less.
    at_once = dualgap.certify(problem, result.coef, result.intercept, epochs=0)
    assert at_once.relative_gap > result.certificate.relative_gap


def test_weight_two_is_a_row_twice(small):
    X, y = small
    twice = np.arange(60) % 3 == 0
    weighted = dualgap.Problem(X, y, **NET, sample_weight=1.0 + twice)
    repeated = dualgap.Problem(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]), **NET)
    a, b = (dualgap.solve(p, "sgd", tol=3e-3, max_epochs=3000) for p in (weighted, repeated))
    assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=3e-3)
    best = dualgap.solve(repeated, "sdca", tol=1e-7, max_epochs=20_000, stall=False).certificate
    for bound in (a.certificate, b.certificate):
        assert bound.dual <= best.primal <= bound.primal * (1 + 1e-7)


def test_squared_hinge_does_not_run_away(small):
    """Slopes without a bound and rows of very different length: the default rate must hold in every batch size."""
    X, y = small
    X = X * np.where(np.arange(60) == 5, 30.0, 1.0)[:, None]
    problem = dualgap.Problem(X, y, loss="squared_hinge", l2=0.1, intercept="free")
    for batch in (1, 8, 60):
        solver = dualgap.SGD(batch_size=batch)
        w, b = solver.model(problem, run(problem, 30, solver))
        assert problem.objective(w, b) < problem.objective(np.zeros(5))


def test_warm_start_and_refusals(small):
    problem = dualgap.Problem(*small, **NET)
    warm = dualgap.solvers.Warm(coef=np.arange(5.0), intercept=-2.0)
    state = dualgap.SGD().start(problem, np.random.default_rng(0), warm)
    np.testing.assert_array_equal(state.point.w, np.arange(5.0))
    assert state.bias.numbers[0].b == -2.0
    assert state.point.w is not warm.coef
    with pytest.raises(dualgap.NotSupported, match="use Pegasos or SDCA"):
        dualgap.solve(dualgap.Problem(*small, kernel="rbf"), "sgd")
    for options, message in [
        ({"schedule": "1/t²"}, "schedule='1/t²' is unknown"),
        ({"rate": 0.0}, "rate=0.0 must be a positive number"),
        ({"batch_size": 0}, "batch_size=0 must be a whole number"),
        ({"output": "best"}, "output='best' is unknown"),
    ]:
        with pytest.raises(ValueError, match=message):
            dualgap.SGD(**options)
