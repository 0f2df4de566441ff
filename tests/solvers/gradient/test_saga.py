"""SAGA: against its twin in NumPy, sparse against dense, and against the forms that it is mistaken for."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.core.order import draw, fresh_seed, natural_order
from reference import REFERENCE_LOSSES, Model
from reference import primal as twin
from reference.objective import primal_value

NET = {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.05, "l1": 0.02, "intercept": "free"}


def drawn(n, rng):
    order = natural_order(n)
    draw(order, n, fresh_seed(rng))
    return [int(i) for i in order]


def as_model(problem):
    loss = REFERENCE_LOSSES["smooth_hinge"]
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    return Model(X, problem.y, problem.c, loss, problem.l2, problem.l1, problem.intercept, problem.intercept_scale)


def run(problem, epochs, solver=None, warm=None):
    solver = solver or dualgap.SAGA()
    rng = np.random.default_rng(5)
    state = solver.start(problem, rng, warm)
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
    return solver, state


@pytest.mark.parametrize(
    "options",
    [
        {**NET, "sample_weight": np.linspace(0.0, 2.0, 60)},
        {**NET, "l1": 0.0, "intercept": "penalised", "intercept_scale": 2.0},
        {**NET, "l2": 0.0, "intercept": "none"},
    ],
    ids=["elastic net, free, weights", "l2, penalised", "l1, none"],
)
def test_equals_its_twin(small, options):
    problem = dualgap.Problem(*small, **options)
    solver, state = run(problem, 3)
    model, rng = as_model(problem), np.random.default_rng(5)
    columns = (problem.X**2).sum(axis=1) + (problem.intercept != "none")
    eta = 1 / (3 * np.max(problem.n * problem.c * columns) / 0.5)
    w, b = np.zeros(problem.d), 0.0
    table = [twin.sample_gradient(model, i, w, b) for i in range(problem.n)]
    for _ in range(3):
        w, b = twin.saga_epoch(model, w, b, table, drawn(problem.n, rng), eta)[-1]
    coef, intercept = solver.model(problem, state)
    np.testing.assert_allclose(coef, w, rtol=0, atol=1e-12)
    assert intercept == pytest.approx(b, abs=1e-12)


@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_lazy_is_eager(sparse_like, l1):
    X, y = sparse_like
    options = {**NET, "l1": l1, "sample_weight": np.random.default_rng(0).uniform(0.5, 2.0, len(y))}
    dense, thin = dualgap.Problem(X, y, **options), dualgap.Problem(sparse.csr_array(X), y, **options)
    solver, eager = run(dense, 20)
    _, lazy = run(thin, 20)
    assert (type(eager.point).__name__, type(lazy.point).__name__) == ("Eager", "Lazy")
    w, b = solver.model(dense, eager)
    w_lazy, b_lazy = solver.model(thin, lazy)
    np.testing.assert_allclose(w_lazy, w, rtol=0, atol=1e-9)
    assert b_lazy == pytest.approx(b, abs=1e-9)


def test_reading_the_model_changes_nothing(sparse_like):
    """Coordinates are brought up to date for the reader; that must not move where the next epochs lead."""
    problem = dualgap.Problem(sparse.csr_array(sparse_like[0]), sparse_like[1], **NET)
    solver, undisturbed = run(problem, 6)
    rng = np.random.default_rng(5)
    state = solver.start(problem, rng)
    for _ in range(6):
        solver.epoch(problem, state, rng)
        solver.model(problem, state)
    np.testing.assert_allclose(solver.model(problem, state)[0], solver.model(problem, undisturbed)[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "solver", [dualgap.SAGA(), dualgap.SVRG(), dualgap.SVRG(snapshot="average", inner=3)], ids=lambda s: s.label()
)
def test_weight_two_is_a_row_twice(solver):
    X, y = make_data(40, 4, seed=2)
    twice = np.arange(40) % 3 == 0
    weighted = dualgap.Problem(X, y, **NET, sample_weight=1.0 + twice)
    repeated = dualgap.Problem(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]), **NET)
    a, b = (dualgap.solve(p, solver, tol=1e-10, max_epochs=2000) for p in (weighted, repeated))
    np.testing.assert_allclose(a.coef, b.coef, rtol=0, atol=1e-5)
    assert a.intercept == pytest.approx(b.intercept, abs=1e-5)
    assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=1e-9)


def test_warm_start_stays_at_the_optimum(small):
    problem = dualgap.Problem(*small, **NET)
    best = dualgap.solve(problem, "saga", tol=1e-11, max_epochs=2000)
    again = dualgap.solve(problem, "saga", tol=1e-9, warm_start=best)
    assert again.epochs == 1
    assert again.trace["passes"][0] == 2.0  # the table's pass is charged


def test_its_table_is_a_dual_point(small):
    problem = dualgap.Problem(*small, **NET)
    solver, state = run(problem, 60)
    bound = dualgap.certify(problem, *solver.model(problem, state), dual=solver.dual(problem, state))
    assert bound.relative_gap < 1e-3


def test_refuses_what_it_cannot_do(small):
    with pytest.raises(dualgap.NotSupported, match=r"continuous slope; use loss='smooth_hinge', or SGD"):
        dualgap.solve(dualgap.Problem(*small), "saga")
    with pytest.raises(dualgap.NotSupported, match="steps on the coordinates of w"):
        dualgap.solve(dualgap.Problem(*small, loss="logistic", kernel="rbf"), "saga")
    with pytest.raises(ValueError, match=r"step_size=-1 must be a positive number"):
        dualgap.SAGA(step_size=-1)


@pytest.mark.data
def test_spambase_in_a_hundred_passes(shared_data):
    """The set on which a d × n table took hours: 100 passes each, within 1e-4 of the optimum, and less than a second of CPU in all."""
    from scipy.io import loadmat

    spam = loadmat(shared_data("spamData.mat"))
    X, y = np.log1p(spam["Xtrain"]), spam["ytrain"].ravel()
    problem = dualgap.Problem(X, y, loss="smooth_hinge", delta=1.0, l2=1e-2, l1=1e-3, intercept="free")
    best = dualgap.solve(problem, "apg", tol=1e-9, max_epochs=20_000, stall=False).certificate.primal
    for solver, epochs in ((dualgap.SAGA(), 99), (dualgap.SVRG(), 20)):
        result = dualgap.solve(problem, solver, tol=0.0, max_epochs=epochs)
        assert result.trace["passes"][-1] == 100.0
        assert result.certificate.relative_gap < 1e-4
        assert 0 <= result.certificate.primal / best - 1 + 1e-9 < 1e-4
        print(f"{solver.name}: {result.cpu_seconds:.3f} s of CPU, {result.certificate}")


# ------------------------------------------------------------------------------------------------------------- the wrong forms


@pytest.fixture(scope="module")
def strong():
    """A problem with a penalty that matters, whose optimum has zeros; its optimum; the model for the twins; and SAGA's step."""
    X, y = make_data(60, 5, seed=0)
    X[:, 3:] *= 0.01  # too weak for the l1 part
    problem = dualgap.Problem(X, y, **NET)
    best = dualgap.solve(problem, "saga", tol=1e-11, max_epochs=3000)
    eta = 1 / (3 * ((X**2).sum(axis=1).max() + 1) / 0.5)
    assert (best.coef == 0).sum() == 2
    return problem, best, as_model(problem), eta


def twin_run(strong, step, epochs=60):
    problem, _, model, eta = strong
    rng, w, b = np.random.default_rng(1), np.full(problem.d, 1e-3), 0.0
    table = [twin.sample_gradient(model, i, w, b) for i in range(problem.n)]
    for _ in range(epochs):
        w, b = twin.saga_epoch(model, w, b, table, drawn(problem.n, rng), eta, step)[-1]
    return w, b


def test_the_right_form_arrives(strong):
    _, best, model, _ = strong
    w, b = twin_run(strong, twin.proximal_step)
    assert primal_value(model, w, b) / best.certificate.primal - 1 < 1e-6
    np.testing.assert_array_equal(w == 0, best.coef == 0)


def test_sign_in_place_of_the_prox_finds_no_zeros(strong):
    _, best, _, _ = strong
    w, _ = twin_run(strong, twin.sign_step)
    assert (w != 0).all()
    assert (best.coef == 0).sum() == 2


@pytest.mark.parametrize("step", [twin.divided_step, twin.norm_step], ids=["penalty divided by n", "norms for gradients"])
def test_a_wrong_penalty_leads_elsewhere(strong, step):
    _, best, model, _ = strong
    assert primal_value(model, *twin_run(strong, step)) / best.certificate.primal - 1 > 1e-2


def test_a_table_started_at_w_leaves_the_optimum(strong):
    problem, best, model, eta = strong
    order = drawn(problem.n, np.random.default_rng(1))
    right = [twin.sample_gradient(model, i, best.coef, best.intercept) for i in range(problem.n)]
    wrong = [(best.coef.copy(), best.intercept) for _ in range(problem.n)]
    above = {}
    for name, table in (("slopes", right), ("w", wrong)):
        w, b = twin.saga_epoch(model, best.coef, best.intercept, table, order, eta)[-1]
        above[name] = primal_value(model, w, b) / best.certificate.primal - 1
    assert above["slopes"] < 1e-9
    assert above["w"] > 1e-3
