"""NewtonCG: its products and sums beside NumPy's, its optimum beside Newton's, and the problems on which plain Newton steps get stuck."""

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.core.rows import WithBias, csr, dense
from dualgap.data import text_like
from dualgap.solvers.newton import loss_sums
from dualgap.solvers.newton.loss_sums import LossSums, add_products
from dualgap.solvers.newton.newton_cg import NewtonCG, average_curvatures
from dualgap.solvers.newton.proximal import Prox
from dualgap.solvers.newton.unknowns import gap_part

SMOOTH = ["smooth_hinge", "squared_hinge", "logistic"]


def storages(X):
    return {
        "dense": (dense(X), X),
        "csr": (csr(sparse.csr_array(X)), X),
        "float32": (csr(sparse.csr_array(X.astype(np.float32))), X.astype(np.float32).astype(np.float64)),
        "bias": (WithBias(csr(sparse.csr_array(X)), 1.5, 0.0), np.hstack([X, np.full((len(X), 1), 1.5)])),
    }


def sums_over(rows, problem, margins):
    """The sums of a problem over rows in some storage, at given margins."""
    return LossSums(problem.loss, rows, problem.samples, Prox(np.empty(0), 0.0), margins, *np.zeros((2, len(margins))))


@pytest.mark.parametrize("storage", ["dense", "csr", "float32", "bias"])
def test_a_product_is_that_of_the_matrix(sparse_like, storage):
    rows, A = storages(sparse_like[0])[storage]
    rng = np.random.default_rng(0)
    weight, v, start = rng.random(len(A)), rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[1])
    weight[::3] = 0.0
    out = start.copy()
    add_products(rows, np.flatnonzero(weight), weight, v, out)
    np.testing.assert_allclose(out, start + A.T @ np.diag(weight) @ A @ v, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("storage", ["dense", "csr", "float32", "bias"])
def test_products_in_two_threads_are_the_same(sparse_like, storage, threads, monkeypatch):
    rows, A = storages(sparse_like[0])[storage]
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: threads)
    monkeypatch.setattr("dualgap.core.threads.READING", 0)
    rng = np.random.default_rng(0)
    curvature, v, start = rng.random(len(A)), rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[1])
    product, both = start.copy(), np.array([start, start])
    sums = sums_over(rows, dualgap.Problem(sparse_like[0], sparse_like[1]), np.zeros(len(A)))
    sums.add_product(np.arange(len(A)), curvature, v, product)
    sums.work[:] = curvature - 0.5
    sums.add_with_diagonal(curvature, both)
    np.testing.assert_allclose(product, A.T @ (curvature * (A @ v)) + start, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(both, [A.T @ (curvature - 0.5) + start, (A**2).T @ curvature + start], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("storage", ["dense", "csr", "float32", "bias"])
def test_slopes_sums_and_diagonal_are_those_of_the_matrix(sparse_like, storage, loss):
    X, y = sparse_like
    rows, A = storages(X)[storage]
    problem = dualgap.Problem(X, y, loss=loss, sample_weight=np.linspace(0.0, 2.0, len(y)))
    margins = np.random.default_rng(0).normal(scale=2.0, size=len(y))
    sums, u, weight = sums_over(rows, problem, margins), np.zeros(A.shape[1]), np.empty(len(y))
    value = sums.update(u).loss
    average_curvatures(problem.loss, margins, sums.beta, 0.0, problem.c, weight)
    step = 1e-6
    slope = np.array([problem.loss.slope(m) for m in margins])
    curvature = np.array([(problem.loss.slope(m - step) - problem.loss.slope(m + step)) / (2 * step) for m in margins])
    np.testing.assert_allclose(sums.beta, slope, rtol=1e-12)
    np.testing.assert_allclose(weight, problem.c * curvature, rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(u, A.T @ (problem.c * y * slope), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sums.weigh(sums.work), weight, rtol=1e-12)
    assert value == pytest.approx(problem.c @ [problem.loss.value(m) for m in margins], rel=1e-12)


def test_rows_about_a_kink_have_the_average_curvature_over_the_width():
    X, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    problem = dualgap.Problem(X, y, loss="squared_hinge")
    curvature, margins = np.empty(3), np.array([0.9, 1.1, 1.5])
    beta = np.array([problem.loss.slope(m) for m in margins])
    average_curvatures(problem.loss, margins, beta, 0.2, problem.c, curvature)
    np.testing.assert_allclose(3 * curvature, [2.0, 2.0 * 0.25, 0.0], atol=1e-12)  # a quarter of 0.9…1.3 lies below the kink


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
def test_the_optimum_is_newtons(loss, intercept, form):
    X, y = make_data(200, 8, seed=1)
    X[np.abs(X) < 0.4] = 0.0
    X = {"dense": X, "csr": sparse.csr_array(X), "float32": sparse.csr_array(X.astype(np.float32))}[form]
    weights = np.random.default_rng(2).uniform(0.0, 2.0, len(y))
    options = {"loss": loss, "l2": 1e-3, "intercept": intercept, "intercept_scale": 2.0, "sample_weight": weights}
    problem = dualgap.Problem(X, y, **options)
    ours, theirs = (dualgap.solve(problem, solver, tol=1e-11, max_epochs=100) for solver in ("newton_cg", "newton"))
    assert ours.converged
    np.testing.assert_allclose(ours.coef, theirs.coef, atol=1e-4)
    assert ours.intercept == pytest.approx(theirs.intercept, abs=1e-4)
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1e-10)


def test_a_weight_of_two_is_a_row_twice():
    X, y = make_data(80, 6, seed=3)
    twice = dualgap.Problem(np.vstack([X, X[:20]]), np.append(y, y[:20]), loss="logistic", l2=1e-2, intercept="free")
    weighted = dualgap.Problem(X, y, loss="logistic", l2=1e-2, intercept="free", sample_weight=np.where(np.arange(80) < 20, 2, 1))
    runs = [dualgap.solve(problem, "newton_cg", tol=1e-12) for problem in (twice, weighted)]
    np.testing.assert_allclose(runs[0].coef, runs[1].coef, atol=1e-5)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_warm_start(loss, intercept):
    data = text_like(400, 5000, 20, seed=1)
    problem = dualgap.Problem(data.X, data.y, loss=loss, l2=1e-5, intercept=intercept)
    first = dualgap.solve(problem, "newton_cg", tol=1e-8)
    again = dualgap.solve(problem, "newton_cg", tol=1e-8, warm_start=first)
    assert first.converged
    assert again.converged
    assert again.epochs <= 2 < first.epochs
    assert again.trace["passes"][-1] < 0.5 * first.trace["passes"][-1]


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("l2", [1e-3, 1e-6, 1e-8])
def test_more_features_than_a_matrix_would_allow(loss, l2):
    data = text_like(400, 20_000, 30, seed=2)
    problem = dualgap.Problem(data.X, data.y, loss=loss, l2=l2)
    assert not dualgap.Newton().supports(problem)
    result = dualgap.solve(problem, "newton_cg", tol=1e-8, max_epochs=300)
    assert result.converged


def test_the_gap_estimate_is_the_certified_gap():
    data = text_like(300, 5000, 20, seed=3)
    problem, solver, rng = dualgap.Problem(data.X, data.y, loss="logistic", l2=1e-5), NewtonCG(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    for _ in range(6):
        solver.epoch(problem, state, rng)
        coef, _ = solver.model(problem, state)
        certified = dualgap.certify(problem, coef, dual=solver.dual(problem, state)).relative_gap
        # A certificate's bound is at least 0, that of β = 0.
        assert min(solver.gap_estimate(problem, state), 1.0) == pytest.approx(certified, rel=1e-6, abs=1e-12)


def test_every_step_descends_and_passes_count_the_rows_read():
    data = text_like(300, 5000, 20, seed=4)
    problem, solver, rng = dualgap.Problem(data.X, data.y, loss="squared_hinge", l2=1e-7), NewtonCG(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    primal, passes = state.primal, state.passes
    assert passes == 1.0
    for _ in range(15):
        curved = np.count_nonzero(state.curvature) / problem.n
        solver.epoch(problem, state, rng)
        assert state.primal <= primal * (1 + 1e-12)
        assert (state.passes - passes - 2.0) / curved == pytest.approx(round((state.passes - passes - 2.0) / curved))
        primal, passes = state.primal, state.passes
    assert state.primal == pytest.approx(problem.objective(state.x), rel=1e-12)


def test_rows_about_kinks_are_what_makes_a_small_penalty_solvable(monkeypatch):
    # Without them, active rows change places with others in every step, and steps stay short.
    data = text_like(1500, 5000, 30, seed=5)
    problem = dualgap.Problem(data.X, data.y, loss="squared_hinge", l2=1e-7)
    averaged = dualgap.solve(problem, "newton_cg", tol=1e-6, max_epochs=600)
    assert averaged.converged
    monkeypatch.setattr(NewtonCG, "_adapt_half_width", lambda self, state, t: None)
    budget = averaged.epochs
    with pytest.warns(dualgap.ConvergenceWarning):
        plain = dualgap.solve(problem, "newton_cg", tol=1e-6, max_epochs=budget)
    assert plain.certificate.relative_gap > 10 * averaged.certificate.relative_gap


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e30, 1e100])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_the_scale_of_the_features_does_not_matter(scale, intercept):
    X, y = make_data(100, 6, seed=6)
    options = {"loss": "logistic", "intercept": intercept}
    unit = dualgap.solve(dualgap.Problem(X, y, l2=1e-3, **options), "newton_cg", tol=1e-9)
    result = dualgap.solve(dualgap.Problem(scale * X, y, l2=1e-3 * scale**2, **options), "newton_cg", tol=1e-9)
    assert result.converged
    np.testing.assert_allclose(result.coef * scale, unit.coef, rtol=1e-3, atol=1e-4)


def test_columns_of_very_different_scales():
    X, y = make_data(200, 6, seed=7)
    X *= 10.0 ** np.arange(-3, 3)
    assert dualgap.solve(dualgap.Problem(X, y, loss="logistic", l2=1e-6), "newton_cg", tol=1e-9).converged


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_free_intercept_with_rare_positives_does_not_run_away(loss):
    # At w = 0 every row of the smooth hinge of width 1 lies in its linear part, and b has no curvature at all.
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 5))
    y = np.where(X[:, 0] > 2.5, 1.0, -1.0)
    result = dualgap.solve(dualgap.Problem(X, y, loss=loss, l2=1e-4, intercept="free"), "newton_cg", tol=1e-6)
    assert result.converged


@pytest.mark.parametrize("loss", SMOOTH)
def test_as_precise_as_rounding_allows_and_no_budget_is_exceeded(loss):
    X, y = make_data(100, 6, seed=8)
    problem = dualgap.Problem(X, y, loss=loss, l2=1e-2)
    result = dualgap.solve(problem, "newton_cg", tol=0.0, max_epochs=60)
    assert result.certificate.relative_gap < 1e-12
    with pytest.warns(dualgap.ConvergenceWarning, match="max_epochs"):
        assert dualgap.solve(problem, "newton_cg", tol=1e-12, max_epochs=2).epochs == 2


def test_ctrl_c_in_the_middle_of_a_step_leaves_a_certified_model(monkeypatch):
    X, y = make_data(200, 6, seed=9)
    problem = dualgap.Problem(X, y, loss="logistic", l2=1e-4)
    dualgap.solve(problem, "newton_cg", tol=1e-9)
    count = [0]

    def interrupted(*args):
        count[0] += 1
        if count[0] == 12:
            raise KeyboardInterrupt
        return add_products(*args)

    monkeypatch.setattr(loss_sums, "add_products", interrupted)
    result = dualgap.solve(problem, "newton_cg", tol=1e-9)
    assert result.status == "interrupted"
    assert result.certificate.primal < problem.objective(np.zeros(6))
    assert problem.objective(result.coef) == pytest.approx(result.certificate.primal, rel=1e-12)


def test_the_gap_part_counts_what_is_not_penalised_too():
    assert gap_part(np.array([3.0, -4.0]), np.array([0.5, 0.5])) == pytest.approx(9.0 + 16.0)
    assert gap_part(np.array([3.0, -4.0]), np.array([0.5, 0.0])) == pytest.approx(9.0 + 4.0)


@pytest.mark.parametrize(
    ("options", "reason", "able"),
    [
        ({"loss": "hinge"}, "the hinge has a kink", "dca"),
        ({"loss": "logistic", "l1": 0.1}, "l2 penalty alone", "prox_newton"),
        ({"loss": "logistic", "l1": 0.1, "l2": 0.0}, "l2 penalty alone", "prox_newton"),
        ({"loss": "logistic", "kernel": "rbf"}, "features, not a kernel", "dca"),
    ],
)
def test_refuses_with_a_reason(options, reason, able):
    X, y = make_data(30, 3)
    with pytest.raises(dualgap.NotSupported, match=rf"{reason}.*these can: .*\b{able}\b"):
        dualgap.solve(dualgap.Problem(X, y, **options), "newton_cg")


@pytest.mark.parametrize("products", [0, 2.5, True])
def test_parameters_are_checked(products):
    with pytest.raises(ValueError, match=f"products={products} must be"):
        NewtonCG(products=products)


def test_few_products_a_step_still_get_there():
    X, y = make_data(100, 6, seed=10)
    assert dualgap.solve(dualgap.Problem(X, y, loss="logistic", l2=1e-3), NewtonCG(products=2), tol=1e-8).converged
