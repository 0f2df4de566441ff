"""SSNAL beside interior points and other solvers, its Newton system in all forms, its kinks beside naive twins, and what it refuses."""

import numpy as np
import pytest
from scipy import optimize, sparse

import dualgap
from conftest import make_data
from dualgap.core import L1, Boxed
from dualgap.core import rows as storage
from dualgap.solvers.newton import heuristics, systems
from dualgap.solvers.newton.kinks import Kinks, subgradients
from dualgap.solvers.newton.systems import SplitSystem
from reference import REFERENCE_LOSSES, Model, optimum

LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_of_an_interior_point_method(loss, intercept):
    X, y = make_data(40, 5, seed=1)
    width = {"delta": 0.5} if loss == "smooth_hinge" else {}
    problem = dualgap.Problem(X, y, loss=loss, l1=0.01, l2=0.005, intercept=intercept, **width)
    result = dualgap.solve(problem, "ssnal", tol=1e-9, max_epochs=200)
    assert result.converged
    model = Model(X, problem.y, problem.c, REFERENCE_LOSSES[loss], 0.005, 0.01, intercept)
    assert result.certificate.primal == pytest.approx(optimum(model, loss), rel=2e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_l1_alone_as_other_solvers(loss):
    X, y = make_data(80, 6, seed=2)
    problem = dualgap.Problem(X, y, loss=loss, l1=0.01, l2=0.0, intercept="free")
    result = dualgap.solve(problem, "ssnal", tol=1e-8, max_epochs=300)
    best = (
        program_optimum(problem)
        if loss == "hinge"
        else dualgap.solve(problem, "prox_newton", tol=1e-8, max_epochs=300).certificate.primal
    )
    assert result.converged
    assert result.certificate.primal == pytest.approx(best, rel=2e-8)


def program_optimum(problem):
    """The optimum of the hinge with l1 alone, as a linear program in w⁺, w⁻, b and one ξ a row."""
    n, d = problem.n, problem.d
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    signed = problem.y[:, None] * np.hstack([X, -X, np.ones((n, 1))])
    intercept = (None, None) if problem.intercept == "free" else (0.0, 0.0)
    bounds = [(0, None)] * (2 * d) + [intercept] + [(0, None)] * n
    costs = np.concatenate([np.full(2 * d, problem.l1), [0.0], problem.c])
    return optimize.linprog(costs, A_ub=-np.hstack([signed, np.eye(n)]), b_ub=-np.ones(n), bounds=bounds).fun


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("share", [0.5, 0.05, 0.002])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_the_hinge_with_l1_alone_is_a_linear_program(storage, share, intercept):
    X, y = make_data(150, 12, seed=4)
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)) if storage == "sparse" else X
    weights = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    problem = dualgap.Problem(X, y, l2=0.0, l1=share, intercept=intercept, sample_weight=weights)
    problem = problem.variant(l1=share * float(np.abs(problem.combine(problem.c * problem.y)).max()))
    result = dualgap.solve(problem, "auto", tol=1e-7, max_epochs=300)
    assert result.converged
    assert result.certificate.primal == pytest.approx(program_optimum(problem), rel=1e-6)
    assert result.certificate.dual <= program_optimum(problem) * (1.0 + 1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_scale_of_the_columns_of_a_linear_program_does_not_matter(scale):
    X, y = make_data(120, 6, seed=2)
    X = X * scale * 10.0 ** np.linspace(-3, 3, 6)
    problem = dualgap.Problem(X, y, l2=0.0, l1=1e-3 * scale, intercept="free")
    assert dualgap.solve(problem, "auto", tol=1e-5).converged


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l2", [0.0, 1e-7])
def test_a_weak_penalty_on_columns_of_any_scale(loss, l2):
    X, y = make_data(150, 10, seed=3)
    X = X * 10.0 ** np.linspace(-3, 3, 10) + 5.0
    problem = dualgap.Problem(X, y, loss=loss, l1=1e-6, l2=l2, intercept="free")
    assert dualgap.solve(problem, "ssnal", tol=1e-5, max_epochs=400).converged


def test_separable_rows_whose_multipliers_are_tiny():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 120))
    problem = dualgap.Problem(X, rng.random(30) < 0.2, l1=1e-7, l2=1e-7, intercept="free")
    assert dualgap.solve(problem, "ssnal", tol=1e-6, max_epochs=200).converged


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("l2", [0.0, 0.003])
def test_a_working_set_finds_what_all_features_find(monkeypatch, loss, l2):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 90)) * (rng.random((60, 90)) < 0.3)
    X[7] = 0.0  # an empty row …
    X[:, 11] = 0.0  # … and an empty feature
    weights = rng.uniform(0.0, 2.0, 60)
    weights[3] = 0.0
    options = {"loss": loss, "l1": 0.004, "l2": l2, "intercept": "free", "sample_weight": weights}
    y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(60) > 0
    whole = dualgap.solve(dualgap.Problem(X, y, **options), "ssnal", tol=1e-8, max_epochs=400)
    monkeypatch.setattr(heuristics, "FEATURES", 5)
    for rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        part = dualgap.solve(dualgap.Problem(rows, y, **options), "ssnal", tol=1e-8, max_epochs=400)
        assert part.converged
        rounded = 1e-5 if part.coef.dtype == np.float32 or rows.dtype == np.float32 else 3e-8
        assert part.certificate.primal == pytest.approx(whole.certificate.primal, rel=rounded)
    assert not whole.coef[11]


@pytest.mark.parametrize("all_features", [500, 2])
def test_bounds_as_newton_and_apg_keep_them(monkeypatch, all_features):
    monkeypatch.setattr(heuristics, "FEATURES", all_features)
    X, y = make_data(100, 6, seed=5)
    low, high = [0.1, 0.0, -0.2, -np.inf, -np.inf, 0.0], [0.5, np.inf, 0.2, 0.0, np.inf, 0.0]
    problem = dualgap.Problem(X, y, l1=0.01, l2=0.01, intercept="free", bounds=(low, high))
    result = dualgap.solve(problem, "ssnal", tol=1e-8, max_epochs=300)
    assert result.converged
    assert (result.coef >= low).all()
    assert (result.coef <= high).all()
    other = dualgap.solve(problem, "sdca", tol=1e-6, max_epochs=50_000)
    assert result.certificate.primal <= other.certificate.primal * (1 + 1e-12)


def test_the_model_has_exact_zeros_and_a_strong_penalty_leaves_no_feature():
    X, y = make_data(200, 30, seed=6)
    sparse_model = dualgap.solve(dualgap.Problem(X, y, l1=0.05, l2=0.01), "ssnal", tol=1e-6)
    assert 0 < np.count_nonzero(sparse_model.coef) < 30
    for l2 in (0.0, 0.1):
        for intercept in ("none", "free"):
            empty = dualgap.solve(dualgap.Problem(X, y, l1=100.0, l2=l2, intercept=intercept), "ssnal")
            assert empty.converged
            assert not empty.coef.any()


def test_no_feature_in_the_first_working_set(monkeypatch):
    monkeypatch.setattr(heuristics, "FEATURES", 3)
    X, y = make_data(60, 8, seed=7)
    for intercept in ("none", "free"):
        for l1 in (0.01, 100.0):
            assert dualgap.solve(dualgap.Problem(X, y, l1=l1, l2=0.01, intercept=intercept), "ssnal", tol=1e-6).converged


def test_warm_start():
    X, y = make_data(200, 10, seed=8)
    problem = dualgap.Problem(X, y, l1=1e-4, l2=1e-4, intercept="free")
    first = dualgap.solve(problem, "ssnal", tol=1e-8)
    assert dualgap.solve(problem.variant(l1=1.01e-4), "ssnal", tol=1e-8, warm_start=first).epochs < first.epochs


def test_regression_with_an_insensitive_loss():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((120, 8))
    target = X @ np.array([2.0, -1.0, 0, 0, 0, 0, 0, 0.5]) + 0.1 * rng.standard_normal(120)
    model = dualgap.LinearSVR(epsilon=0.1, C=100.0, l1_ratio=0.5, solver="ssnal", tol=1e-7)
    assert model.fit(X, target).score(X, target) > 0.95


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"l2": 0.1}, "there is none"), ({"l2": 0.1, "kernel": "rbf"}, "single features")],
)
def test_refuses_with_a_reason(options, reason):
    X, y = make_data(20, 3)
    with pytest.raises(dualgap.NotSupported, match=reason):
        dualgap.solve(dualgap.Problem(X, y, **options), "ssnal")


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="delta"):
        dualgap.SSNAL(delta=0.0)


# ------------------------------------------------------------------------------------------------------------------- its parts


@pytest.mark.parametrize("bias", [(0.0, 0.0), (2.0, 0.3), (1.0, 0.0)])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
@pytest.mark.parametrize("storage_of", [np.ascontiguousarray, sparse.csr_array])
def test_every_form_of_the_system_has_the_naive_solution(bias, shape, storage_of):
    rng = np.random.default_rng(1)
    X = rng.standard_normal(shape)
    weight = rng.uniform(0.5, 2.0, shape[0])
    weight[1] = 0.0
    diagonal = rng.uniform(0.1, 3.0, shape[1])
    full, own, (scale, damping) = X, diagonal, bias
    if scale > 0.0:
        full, own = np.column_stack([X, np.full(shape[0], scale)]), np.append(diagonal, damping)
    rhs = rng.standard_normal(len(own))
    naive = np.linalg.solve(np.diag(own) + full.T @ (weight[:, None] * full), rhs)
    matrix = storage_of(X)
    rows = storage.of_matrix(matrix)
    system = SplitSystem(matrix, rows if scale == 0.0 else storage.WithBias(rows, scale, 0.0), weight, own)
    for form in (system.solve, system._by_rows, system._by_features):
        np.testing.assert_allclose(form(rhs), naive, rtol=1e-9, atol=1e-12)
    error = np.linalg.norm(system._by_conjugate_gradients(rhs) - naive)
    assert error <= 0.05 * np.linalg.norm(naive)


def test_a_large_system_goes_to_conjugate_gradients(monkeypatch):
    monkeypatch.setattr(systems, "DIRECT", 3)
    X, y = make_data(60, 8, seed=7)
    assert dualgap.solve(dualgap.Problem(X, y, l1=0.001, l2=0.001, intercept="free"), "ssnal", tol=1e-5, max_epochs=300).converged


@pytest.mark.parametrize("penalty", [L1(0.7), Boxed(0.7, 0.0, np.array([-1.0, 0.2, 0.0]), np.array([0.5, 0.9, 0.0]))])
def test_subgradients_are_slopes_of_the_envelope(penalty):
    """s⁺ is the derivative of N(w) = min over v of l1·|v| + (w + τŝ − v)²/(2τ), found by a search over v."""
    kinks = Kinks(penalty, np.array([0.3, -0.5, 0.1]), np.array([0.5, 2.0, 1.0]), *np.empty((3, 3)))

    def envelope(j, w):
        low, high = (-20.0, 20.0) if isinstance(penalty, L1) else (penalty.low[j], penalty.high[j])
        z, tau = w + kinks.tau[j] * kinks.centre[j], kinks.tau[j]
        if low == high:
            return 0.7 * abs(low) + (z - low) ** 2 / (2 * tau)
        ends = [(low, min(0.0, high)), (max(0.0, low), high)]
        options = {"method": "bounded", "options": {"xatol": 1e-10}}
        found = [
            optimize.minimize_scalar(lambda v: 0.7 * abs(v) + (z - v) ** 2 / (2 * tau), bounds=e, **options)
            for e in ends
            if e[0] < e[1]
        ]
        return min(f.fun for f in found)

    rng = np.random.default_rng(2)
    for _ in range(20):
        w = 3.0 * rng.standard_normal(3)
        s, v = kinks.s, kinks.v
        subgradients(kinks, w)
        for j in range(3):
            slope = (envelope(j, w[j] + 1e-5) - envelope(j, w[j] - 1e-5)) / 2e-5
            assert s[j] == pytest.approx(slope, abs=1e-3)
            assert v[j] == pytest.approx(w[j] + kinks.tau[j] * (kinks.centre[j] - s[j]), abs=1e-12)
