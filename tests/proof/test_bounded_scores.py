"""Scores of rows that need not be exact: bounds that hold, and certificates that are none the worse for it."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.kernels.function import make_kernel
from dualgap.kernels.sums import expansion, own_expansion
from dualgap.proof.bounded_scores import BoundedScores, exact_scores, keep_rows, kernel_scores

N = 400
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 5))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=N) > 0, 1.0, -1.0)
THIN = np.where(RNG.random((N, 5)) < 0.8, 0.0, X)
WEIGHTS = RNG.uniform(0.0, 2.0, N)


def started(data, **options):
    problem = dualgap.Problem(data, y, **{"l2": 1e-3, "kernel": "rbf", "gamma": 0.4, "intercept": "free", **options})
    solver = dualgap.WorkingSet(size=64)
    return problem, solver, solver.start(problem, np.random.default_rng(0))


@pytest.mark.parametrize(
    "data",
    [
        X,
        X + 1e4,
        30.0 * X,
        X * np.logspace(-3, 1.5, N)[:, None],
        np.rint(3 * X),
        THIN,
        X.astype(np.float32),
    ],
    ids=["normal", "far from zero", "wide", "some far out", "whole", "thin", "float32"],
)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_scores_in_float32_are_within_their_bound(data, size):
    problem, _, state = started(data)
    assert state.blocks.dtype == np.float32 or np.abs(data).max() > 1e3
    a = size * RNG.normal(size=N) * (RNG.random(N) < 0.5)
    rows = np.flatnonzero(RNG.random(N) < 0.7)
    scores, radius = state.scores.rounded(a, rows)
    exact = expansion(problem.kernel, problem.X, problem.X, a)[rows]
    off = np.abs(scores - exact)
    assert (off <= radius).all()
    assert off.max() > 0.0
    assert np.median(radius) < 0.05 * np.abs(a).sum()  # a bound that says something


def test_where_float32_says_nothing_the_bound_says_so():
    """Rows so far out that a distance in float32 is all rounding, with weights whose sums underflow."""
    data = X * np.logspace(0, 4, N)[:, None]
    problem = dualgap.Problem(data, y, l2=1e-3, kernel="rbf", gamma=0.4, intercept="free")
    state = dualgap.WorkingSet(size=64, precision="float32").start(problem, np.random.default_rng(0))
    a = np.where(np.arange(N) % 2, 1e-30, 0.0)
    scores, radius = state.scores.rounded(a, np.arange(N))
    assert not np.isnan(radius).any()
    assert np.isinf(radius[-10:]).all()
    assert (np.abs(scores - expansion(problem.kernel, data, data, a)) <= radius).all()


def test_what_has_changed_is_added_to_what_is_known():
    problem, _, state = started(X)
    a = RNG.normal(size=N)
    every = np.arange(N)
    state.scores.remember(a, state.scores.rounded(a, every)[0], np.full(N, 1e-3), certified=False)
    b = a.copy()
    b[:20] += 1.0
    scores, radius = state.scores.rounded(b, every)
    assert (radius >= 1e-3).all()
    np.testing.assert_allclose(scores, expansion(problem.kernel, X, X, b), atol=1e-3)


@pytest.mark.parametrize("data", [X, sparse.csr_array(THIN)], ids=["poly", "sparse"])
def test_without_a_bound_all_rows_are_exact(data, monkeypatch):
    monkeypatch.setattr("dualgap.proof.bounded_scores.MIN_VALUES", 0)
    problem, _, state = started(data, **({} if sparse.issparse(data) else {"kernel": "poly", "degree": 2, "coef0": 1.0}))
    a = np.where(RNG.random(N) < 0.3, RNG.normal(size=N), 0.0)
    scores, radius = state.scores.rounded(a, np.arange(10))
    assert np.isinf(radius).all()
    exact = expansion(problem.kernel, problem.X, problem.X, a)
    np.testing.assert_allclose(scores, exact[:10], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kernel_scores(problem, a).values, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("data", [X, np.rint(3 * X)], ids=["normal", "whole"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l2": 1e-6},
        {"sample_weight": WEIGHTS},
        {"intercept": "none"},
        {"intercept": "penalised", "intercept_scale": 3.0},
        {"loss": "smooth_hinge", "delta": 0.5},
        {"loss": "squared_hinge"},
    ],
    ids=lambda options: "weights" if "sample_weight" in options else str(options),
)
def test_certificates_are_those_of_exact_scores(data, options, monkeypatch):
    """Every row with a loss is exact, so that primal and dual are what the whole kernel matrix gives them."""
    monkeypatch.setattr("dualgap.proof.bounded_scores.MIN_VALUES", 0)
    seen = []
    rounded = BoundedScores.rounded
    monkeypatch.setattr(BoundedScores, "rounded", lambda *given: seen.append(1) or rounded(*given))
    problem, solver, _ = started(data, **options)
    result = dualgap.solve(problem, solver, tol=1e-5, max_epochs=300, evaluate="epoch")
    assert result.status == "converged"
    assert seen
    whole = started(data, **options)[0]
    assert whole.rows.k.shape == (N, N)
    assert whole.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-8)
    given = dualgap.certify(whole, result.coef, result.intercept, dual=result.dual)
    assert given.dual == pytest.approx(result.certificate.dual, rel=1e-8)


def test_rows_left_inexact_have_no_loss_and_others_are_exact(monkeypatch):
    monkeypatch.setattr("dualgap.proof.bounded_scores.MIN_VALUES", 0)
    problem, solver, state = started(X)
    problem = problem.remembering()
    rng = np.random.default_rng(0)
    for _ in range(4):
        solver.epoch(problem, state, rng)
    a = state.current_a()
    found = kernel_scores(problem, a)
    scores = found.values
    exact = expansion(problem.kernel, X, X, a)
    inexact = found.radius > 1e-9  # in float64 a score is known to more digits than that
    assert 0 < np.count_nonzero(inexact) < N
    assert (a[inexact] == 0.0).all()
    np.testing.assert_allclose(scores[~inexact], exact[~inexact], rtol=1e-12, atol=1e-12)
    b = dualgap.proof.best_intercept(problem, scores)
    assert (problem.y * (exact + b) >= 1.0)[inexact].all()
    again = kernel_scores(problem, a * (1 + 1e-15))
    np.testing.assert_array_equal(again.values, scores)  # as remembered, though float64 tells the two apart
    assert (again.radius > found.radius).all()  # and said so


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("data", [X, np.rint(3 * X), sparse.csr_array(THIN), X[:1]], ids=["dense", "whole", "sparse", "one"])
def test_own_expansion_is_the_matrix_product(name, data, monkeypatch):
    monkeypatch.setattr("dualgap.kernels.sums.SUPPORTS", 64)
    kernel = make_kernel(name, X, gamma=0.3, degree=2, coef0=1.0)
    a = RNG.normal(size=data.shape[0])
    np.testing.assert_allclose(own_expansion(kernel, data, a), kernel(data, data) @ a, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("data", [X, sparse.csr_array(THIN)], ids=["dense", "sparse"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 1.0])
def test_exact_scores_of_any_rows(data, share):
    problem, _, _ = started(data)
    a = np.where(RNG.random(N) < 0.6, RNG.normal(size=N), 0.0)
    rows = np.flatnonzero(np.where(a != 0.0, RNG.random(N) < share, RNG.random(N) < 0.3))
    exact = expansion(problem.kernel, problem.X, problem.X, a)
    np.testing.assert_allclose(exact_scores(problem, a, rows), exact[rows], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e9], ids=["small", "normal", "large weights that cancel"])
@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array], ids=["dense", "float32", "sparse"])
def test_scores_of_a_linear_kernel_are_within_their_bound_in_exact_arithmetic(form, size):
    data = form(X[:60] * np.array([1.0, 1e-3, 1e3, 1.0, 0.0]))
    problem = dualgap.Problem(data, y[:60], l2=1e-3, kernel="linear")
    a = size * RNG.normal(size=60)
    a[-1] -= a.sum()
    found = kernel_scores(problem, a)
    rows = [[Fraction(float(x)) for x in row] for row in (data.toarray() if sparse.issparse(data) else data)]
    w = [sum(Fraction(float(weight)) * row[j] for weight, row in zip(a, rows, strict=True)) for j in range(5)]
    exact = [sum(x * v for x, v in zip(row, w, strict=True)) for row in rows]
    for value, radius, true in zip(found.values, found.radius, exact, strict=True):
        assert abs(Fraction(float(value)) - true) <= Fraction(float(radius))
    assert found.radius.max() <= 1e-11 * max(float(max(abs(value) for value in exact)), 1.0)  # a bound that says something


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_scores_from_a_kept_matrix_are_within_their_bound(kernel):
    problem = dualgap.Problem(X[:80], y[:80], l2=1e-3, kernel=kernel, gamma=0.4, coef0=1.0)
    a = 1e3 * RNG.normal(size=80) * (RNG.random(80) < 0.5)
    exact = expansion(problem.kernel, X[:80], X[:80], a)
    blocks, K = problem.kernel_blocks(np.float64), np.empty((80, 80))
    blocks.write_rows(blocks.own(np.arange(80)), K, np.arange(80))
    working = problem.remembering()
    keep_rows(working, lambda rows: K[rows])
    found = kernel_scores(working, a)
    plain = kernel_scores(problem, a)
    assert (np.abs(found.values - exact) <= found.radius + plain.radius).all()
    assert (found.radius <= 1e-9 * np.abs(a).sum() * max(K.max(), 1.0)).all()


def test_a_small_problem_computes_each_kernel_value_once(monkeypatch):
    """All rows are one working set; the certificate takes its matrix."""
    options = {"l2": 1e-3, "kernel": "rbf", "gamma": 0.4, "intercept": "free"}
    dualgap.solve(dualgap.Problem(X[:100], y[:100], **options))  # compiles, on rows of its own
    monkeypatch.setattr("dualgap.proof.bounded_scores.expansion", None)
    assert dualgap.solve(dualgap.Problem(X[:200], y[:200], **options), tol=1e-8).converged


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")  # a matrix that is not symmetric has no gap of 0
@pytest.mark.parametrize("callable_kernel", [False, True])
def test_scores_of_a_matrix_of_the_users_are_those_of_its_rows(callable_kernel):
    """A matrix of the user's may differ from its transpose by rounding, which is more than that of our sums."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    K = (X @ X.T + np.eye(30)) * (1.0 + 5e-7 * rng.uniform(-1.0, 1.0, (30, 30)))
    y = np.where(X[:, 0] > 0, 1, -1)
    places = np.arange(30.0)[:, None]
    if callable_kernel:
        model = dualgap.SVC(kernel=lambda A, B: K[np.ix_(A[:, 0].astype(int), B[:, 0].astype(int))], C=1e6, tol=1e-9)
    else:
        model = dualgap.SVC(kernel="precomputed", C=1e6, tol=1e-9)
    rows = places if callable_kernel else K
    model.fit(rows, y)
    a = np.zeros(30)
    a[model.support_] = model.dual_coef_[0]
    margins = y * model.decision_function(rows)
    primal = np.maximum(0.0, 1.0 - margins).mean() + 0.5 * a @ K @ a / (30 * 1e6)
    assert model.certificate_.primal >= primal * (1.0 - 1e-9)
