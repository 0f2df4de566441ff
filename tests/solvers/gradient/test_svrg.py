"""SVRG: against its twin in NumPy, sparse against dense, its passes, and against the forms that it is mistaken for."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.core.order import draw, fresh_seed
from reference import REFERENCE_LOSSES, Model
from reference import primal as twin
from reference.objective import primal_value

NET = {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.05, "l1": 0.02, "intercept": "free"}


def drawn(n, count, rng):
    order = np.empty(count, dtype=np.uint32)
    draw(order, n, fresh_seed(rng))
    return [int(i) for i in order]


def as_model(problem):
    loss = REFERENCE_LOSSES["smooth_hinge"]
    return Model(problem.X, problem.y, problem.c, loss, problem.l2, problem.l1, problem.intercept, problem.intercept_scale)


def run(problem, epochs, solver):
    rng = np.random.default_rng(5)
    state = solver.start(problem, rng)
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
    return state


@pytest.mark.parametrize("snapshot", ["last", "average"])
@pytest.mark.parametrize(
    "extra", [{"sample_weight": np.linspace(0.0, 2.0, 60)}, {"intercept": "penalised", "intercept_scale": 2.0}]
)
def test_equals_its_twin(small, snapshot, extra):
    problem = dualgap.Problem(*small, **{**NET, **extra})
    solver = dualgap.SVRG(step_size=0.01, inner=1.5, snapshot=snapshot)
    state = run(problem, 4, solver)
    model, rng = as_model(problem), np.random.default_rng(5)
    w, b = np.zeros(problem.d), 0.0
    for _ in range(4):
        iterates = twin.svrg_epoch(model, w, b, drawn(problem.n, 90, rng), 0.01)
        w, b = (
            iterates[-1] if snapshot == "last" else (np.mean([v for v, _ in iterates], axis=0), np.mean([v for _, v in iterates]))
        )
    coef, intercept = solver.model(problem, state)
    np.testing.assert_allclose(coef, w, rtol=0, atol=1e-12)
    assert intercept == pytest.approx(b, abs=1e-12)
    assert state.passes == 4 * 2.5


@pytest.mark.parametrize("snapshot", ["last", "average"])
@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_lazy_is_eager(sparse_like, snapshot, l1):
    X, y = sparse_like
    options = {**NET, "l1": l1, "sample_weight": np.random.default_rng(0).uniform(0.5, 2.0, len(y))}
    dense, thin = dualgap.Problem(X, y, **options), dualgap.Problem(sparse.csr_array(X), y, **options)
    solver = dualgap.SVRG(snapshot=snapshot)
    w, b = solver.model(dense, run(dense, 8, solver))
    w_lazy, b_lazy = solver.model(thin, run(thin, 8, solver))
    np.testing.assert_allclose(w_lazy, w, rtol=0, atol=1e-9)
    assert b_lazy == pytest.approx(b, abs=1e-9)


def test_default_step_and_refusals(small):
    problem = dualgap.Problem(*small, **NET)
    largest = ((small[0] ** 2).sum(axis=1).max() + 1) / 0.5
    assert dualgap.SVRG().start(problem, np.random.default_rng(0)).point.schedule.rate == pytest.approx(1 / (4 * largest))
    with pytest.raises(dualgap.NotSupported, match=r"continuous slope; use loss='smooth_hinge', or SGD"):
        dualgap.solve(dualgap.Problem(*small), "svrg")
    with pytest.raises(ValueError, match="inner=0 must be a positive number of passes"):
        dualgap.SVRG(inner=0)
    with pytest.raises(ValueError, match="snapshot='mean' is unknown"):
        dualgap.SVRG(snapshot="mean")


# ------------------------------------------------------------------------------------------------------------- the wrong forms


@pytest.fixture(scope="module")
def strong():
    X, y = make_data(60, 5, seed=0)
    X[:, 3:] *= 0.01  # too weak for the l1 part
    problem = dualgap.Problem(X, y, **NET)
    best = dualgap.solve(problem, "svrg", tol=1e-11, max_epochs=1000)
    assert (best.coef == 0).sum() == 2
    return problem, best, as_model(problem), 1 / (4 * ((X**2).sum(axis=1).max() + 1) / 0.5)


def twin_run(strong, step, epochs=20):
    problem, _, model, eta = strong
    rng, w, b = np.random.default_rng(1), np.full(problem.d, 1e-3), 0.0
    for _ in range(epochs):
        w, b = twin.svrg_epoch(model, w, b, drawn(problem.n, 4 * problem.n, rng), eta, step)[-1]
    return w, b


def test_sign_in_place_of_the_prox_finds_no_zeros(strong):
    best = strong[1]
    right, _ = twin_run(strong, twin.proximal_step)
    np.testing.assert_array_equal(right == 0, best.coef == 0)
    wrong, _ = twin_run(strong, twin.sign_step)
    assert (wrong != 0).all()


@pytest.mark.parametrize("step", [twin.divided_step, twin.norm_step], ids=["penalty divided by n", "norms for gradients"])
def test_a_wrong_penalty_leads_elsewhere(strong, step):
    _, best, model, _ = strong
    assert primal_value(model, *twin_run(strong, twin.proximal_step)) / best.certificate.primal - 1 < 1e-6
    assert primal_value(model, *twin_run(strong, step)) / best.certificate.primal - 1 > 1e-2


def test_an_anchor_at_the_mean_of_all_history_lags(strong):
    """After as many steps, each of which costs it a whole pass, it is orders of magnitude behind a snapshot an epoch."""
    problem, best, model, eta = strong
    rng, start = np.random.default_rng(1), np.full(problem.d, 1e-3)
    wrong = twin.moving_anchor_epochs(model, start, 0.0, drawn(problem.n, 20 * 4 * problem.n, rng), eta)
    behind = primal_value(model, *wrong) / best.certificate.primal - 1
    assert behind > 100 * max(primal_value(model, *twin_run(strong, twin.proximal_step)) / best.certificate.primal - 1, 1e-12)
