"""Enclosures against exact arithmetic: primal, dual and gap of any model and any dual point, on data of any scale."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

import dualgap
from dualgap import Problem, certify
from dualgap.core import signed_sum
from dualgap.core.losses import NoOffset
from dualgap.core.precise import precise_accumulate, precise_shortfalls, weighted_balance
from dualgap.core.rows import csr, dense
from dualgap.proof import BinaryPart, Table, balance_row, dual_point, enclose, exact_values, row_sums
from dualgap.proof.certified import _exact_products, margins_of
from dualgap.proof.enclosure import row_sums_and_balance

LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
INTERCEPTS = ["none", "penalised", "free"]
PENALTIES = {"l2": (1.0, 0.0), "elastic_net": (1.0, 0.3), "l1": (0.0, 1.0)}
CASES = [c for c in itertools.product(LOSSES, PENALTIES, INTERCEPTS) if c[1:] != ("l1", "penalised")]


FORMS = [np.ascontiguousarray, sparse.csr_matrix, lambda X: X.astype(np.float32)]


def exact(problem, coef, intercept, beta):
    """P and D as fractions, by the checker of proof files."""
    table = Table(problem.X, (problem.y > 0).astype(int), problem.classes.tolist())
    return exact_values(BinaryPart(problem, coef, intercept, beta, 0.0), table)


def make_problem(loss, penalty, intercept, rng):
    """A small problem with scales, weights and strengths from many decades, zero rows and duplicates."""
    n, d = int(rng.integers(2, 14)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 9) * 10.0 ** rng.uniform(-3, 3, d)
    X[rng.random(n) < 0.15] = 0.0
    X[0] = X[-1]
    y = np.where(rng.random(n) < 0.5, 1, 0)
    y[:2] = (0, 1)
    strength = 10.0 ** rng.uniform(-12, 3)
    l2, l1 = (strength * part for part in PENALTIES[penalty])
    weights = 10.0 ** rng.uniform(-6, 0, n) if rng.random() < 0.5 else None
    delta = 10.0 ** rng.uniform(-3, 1) if loss == "smooth_hinge" else None
    # One storage a case: each combination of types is compiled by itself.
    form = FORMS[CASES.index((loss, penalty, intercept)) % len(FORMS)]
    return Problem(form(X), y, loss, delta, l2, l1, weights, intercept, intercept_scale=10.0 ** rng.uniform(-2, 2))


def judge(problem, certificate, coef, intercept, beta):
    primal, dual = exact(problem, coef, intercept, beta)
    assert Fraction(certificate.primal) >= primal
    if certificate.dual == 0.0:  # the bound of β = 0, which is better than this β's
        return
    assert Fraction(certificate.dual) <= dual
    assert Fraction(certificate.gap) >= primal - dual
    if problem.intercept != "free":  # else the checker balances β by a row of its own choice
        assert Fraction(certificate.gap) - 2 * Fraction(certificate.radius) <= primal - dual


@pytest.mark.parametrize(("loss", "penalty", "intercept"), CASES, ids=str)
@settings(max_examples=12)
@given(draw=st.integers(0, 10**9), size=st.sampled_from([0.0, 1e-3, 1.0, 1e4]))
def test_any_model_and_any_dual_point(loss, penalty, intercept, draw, size):
    rng = np.random.default_rng(draw)
    problem = make_problem(loss, penalty, intercept, rng)
    reach = 1.0 / max(float(np.sqrt(problem.sqnorms.max())), 1e-30)
    coef, b = size * reach * rng.normal(size=problem.d), size * rng.normal() * (intercept != "none")
    beta = np.clip(rng.normal(0.3, 0.7, problem.n), 0.0, 1.0)
    point = dual_point(problem, beta)
    certificate = certify(problem, coef, b, dual=beta)
    if np.isfinite(certificate.dual):
        judge(problem, certificate, coef, b, point.beta)


# ------------------------------------------------------------------------------------------------------------------- bounds

BOUNDED = list(itertools.product(["hinge", "logistic"], ["l2", "elastic_net"], INTERCEPTS))


def bounds_around(v, rng):
    """Bounds of every kind near the numbers v: none, one, both, equal ones, zeros, and v itself, whose comparison rounding decides."""
    size = np.abs(v) + 1e-3 * np.abs(v).max(initial=0.0)
    ends = np.sort(v + size * rng.normal(size=(2, len(v))), axis=0)
    kind = rng.integers(0, 7, len(v))
    low = np.select([kind == 0, kind == 1, kind == 4, kind == 5], [-np.inf, -np.inf, 0.0, v], ends[0])
    high = np.select([kind == 0, kind == 2, kind == 3, kind == 4], [np.inf, np.inf, low, np.abs(ends[1])], ends[1])
    return np.minimum(low, high), high


def bounded_problem(loss, penalty, intercept, rng):
    """A problem as above with bounds at the scale of its u/l2, and a β."""
    problem = make_problem(loss, penalty, intercept, rng)
    beta = np.clip(rng.normal(0.3, 0.7, problem.n), 0.0, 1.0)
    return problem.replace(bounds=bounds_around(dual_point(problem, beta).v, rng)), beta


@pytest.mark.parametrize(("loss", "penalty", "intercept"), BOUNDED, ids=str)
@settings(max_examples=25)
@given(draw=st.integers(0, 10**9), size=st.sampled_from([0.0, 1e-3, 1.0, 1e4]))
def test_any_model_within_bounds_and_any_dual_point(loss, penalty, intercept, draw, size):
    rng = np.random.default_rng(draw)
    problem, beta = bounded_problem(loss, penalty, intercept, rng)
    point = dual_point(problem, beta)
    assert problem.penalty.contains_point(point.coef)
    reach = 1.0 / max(float(np.sqrt(problem.sqnorms.max())), 1e-30)
    others = size * reach * rng.normal(size=problem.d), point.coef * (1.0 + size * 1e-13 * rng.normal(size=problem.d))
    b = size * rng.normal() * (intercept != "none")
    for coef in (point.coef, *map(problem.penalty.nearest_point, others)):
        certificate = certify(problem, coef, b, dual=beta)
        if np.isfinite(certificate.dual):
            judge(problem, certificate, coef, b, point.beta)


@pytest.mark.parametrize(("loss", "penalty", "intercept"), BOUNDED, ids=str)
@settings(max_examples=3)
@given(draw=st.integers(0, 10**9))
@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_results_of_solve_within_bounds(loss, penalty, intercept, draw):
    problem, _ = bounded_problem(loss, penalty, intercept, np.random.default_rng(draw))
    problem = problem.replace(X=np.ascontiguousarray(problem.X.toarray() if sparse.issparse(problem.X) else problem.X, dtype=float))
    result = dualgap.solve(problem, tol=1e-6, max_epochs=60)
    primal, dual = exact(problem, result.coef, result.intercept, result.dual)
    assert problem.penalty.contains_point(result.coef)
    assert Fraction(result.certificate.gap) >= primal - dual
    if result.status == "converged":
        assert primal - dual <= Fraction(1e-6) * primal


@pytest.mark.parametrize(("loss", "penalty", "intercept"), CASES, ids=str)
@settings(max_examples=4)
@given(draw=st.integers(0, 10**9))
@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_results_of_solve(loss, penalty, intercept, draw):
    problem = make_problem(loss, penalty, intercept, np.random.default_rng(draw))
    result = dualgap.solve(problem, tol=1e-6, max_epochs=60)
    primal, dual = exact(problem, result.coef, result.intercept, result.dual)
    assert Fraction(result.certificate.gap) >= primal - dual
    if result.status == "converged":
        assert primal - dual <= Fraction(1e-6) * primal


@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_an_elastic_net_whose_weights_are_large_beside_its_threshold():
    """v − l1/l2 is rounded before w is subtracted from it: by more than double-double sums are off."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        x, l2, l1 = rng.normal(size=(2, 1)), 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-4, -2)
        problem = Problem(x * [[1.0], [-1.0]] if x[0] * x[1] > 0 else x, [1, 0], l2=l2, l1=l1)
        result = dualgap.solve(problem, "dca", tol=1e-14, max_epochs=50)
        primal, dual = exact(problem, result.coef, result.intercept, result.dual)
        assert Fraction(result.certificate.gap) >= primal - dual


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_both_precisions_enclose_the_same_gap(intercept, precise):
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero((y == 2) | (y == 4))[:60]
    problem = Problem(scale(X[few]), y[few], l2=1e-6, intercept=intercept)
    result = dualgap.solve(problem, tol=1e-4, max_epochs=1000)
    found = enclose(problem, result.coef, result.intercept, dual_point(problem, result.dual), precise=precise)
    primal, dual = exact(problem, result.coef, result.intercept, result.dual)
    assert abs(Fraction(found.objective.value) - primal) <= Fraction(found.objective.radius)
    assert abs(Fraction(found.gap.value) - (primal - dual)) <= Fraction(found.gap.radius)
    assert found.gap.radius < (1e-14 if precise else 1e-6) * found.objective.value


@pytest.mark.parametrize("C", [1e6, 1e10])
@pytest.mark.filterwarnings("ignore::dualgap.ConvergenceWarning")
def test_a_hard_margin_is_true_or_at_the_limit_of_rounding(C):
    """Rounding of 1 − m exceeds tol·P at C = 1e10: float64 sums had called a gap of 80 times tol zero."""
    X, y = load_digits(return_X_y=True)
    two = (y == 2) | (y == 4)
    problem = Problem(scale(X[two]), y[two], l2=1 / (C * two.sum()), intercept="free")
    result = dualgap.solve(problem, tol=1e-6, max_epochs=1000)
    primal, dual = exact(problem, result.coef, result.intercept, result.dual)
    assert Fraction(result.certificate.gap) >= primal - dual
    assert result.status in (("converged",) if C < 1e8 else ("converged", "rounding_limit"))
    if result.status == "converged":
        assert primal - dual <= Fraction(1e-6) * primal


def test_an_absolute_tolerance_for_an_optimum_near_zero():
    X, y = load_digits(return_X_y=True)
    two = (y == 2) | (y == 4)
    problem = Problem(scale(X[two]), y[two], l2=1 / (1e10 * two.sum()), intercept="free")
    result = dualgap.solve(problem, tol=0.0, atol=1e-9, max_epochs=1000)
    assert result.status == "converged"
    assert result.certificate.gap <= 1e-9
    assert result.certificate.relative_gap > 1e-6
    model = dualgap.LinearSVC(loss="hinge", C=1e10, tol=1e-12, atol=1e-9).fit(problem.X, y[two])
    assert model.status_ == "converged"


def test_rounding_limit_says_what_was_proven():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 80)) * 1e4
    problem = Problem(X, np.where(rng.random(30) < 0.5, 1, 0), l2=1e-14)
    with pytest.warns(dualgap.ConvergenceWarning, match=r"proven is a gap of at most .*float64 cannot tell.*larger l2.*atol"):
        result = dualgap.solve(problem, "dca", tol=1e-13, max_epochs=5000)
    assert result.status == "rounding_limit"


# ------------------------------------------------------------------------------------------------------- double-double numbers


@settings(max_examples=30)
@given(draw=st.integers(0, 10**9), thin=st.booleans())
def test_precise_sums_are_rounded_once(draw, thin):
    rng = np.random.default_rng(draw)
    n, d = 5, 6
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 9, (n, d))
    w = rng.normal(size=d) * 10.0 ** rng.uniform(-9, 9, d)
    X[:, 1], w[1] = -X[:, 0] * (1 + 2.0**-30), w[0]  # cancels nearly
    y, c, beta, b = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.random(n), rng.random(n), rng.normal()
    rows = csr(sparse.csr_matrix(X)) if thin else dense(X)
    short = np.empty(n)
    precise_shortfalls(rows, w, b, y, 1.0, NoOffset(), short)
    exactly = [
        1 - Fraction(y[i]) * (sum(map(Fraction.__mul__, map(Fraction, X[i]), map(Fraction, w))) + Fraction(b)) for i in range(n)
    ]
    for value, truth, row in zip(short, exactly, X, strict=True):
        terms = sum(abs(Fraction(x) * Fraction(v)) for x, v in zip(row, w, strict=True)) + abs(Fraction(b)) + 1
        assert abs(Fraction(value) - truth) <= abs(truth) * Fraction(1.2e-16) + terms * Fraction(1e-30)
    high, low = np.zeros(d), np.zeros(d)
    precise_accumulate(rows, c, y, beta, high, low)
    for j in range(d):
        products = [Fraction(c[i]) * Fraction(beta[i]) * Fraction(y[i]) * Fraction(X[i, j]) for i in range(n)]
        assert abs(Fraction(high[j]) + Fraction(low[j]) - sum(products)) <= sum(map(abs, products)) * Fraction(1e-30)
    rest, _ = weighted_balance(c, y, beta, 0.0)
    truth = sum(Fraction(c[i]) * Fraction(beta[i]) * Fraction(y[i]) for i in range(n))
    assert abs(Fraction(float(rest)) - truth) <= abs(truth) * Fraction(1.2e-16) + Fraction(1e-30)


@pytest.mark.parametrize("loss", LOSSES)
def test_sums_and_balance_in_one_call_are_those_of_two(loss):
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(700, 3)), np.arange(700) % 2, loss, l2=0.1, intercept="free")
    beta, margins = rng.uniform(0.1, 0.9, 700), margins_of(problem, rng.normal(size=3), 0.3)
    sums, found = row_sums_and_balance(problem.loss, problem.samples, margins, beta)
    rest, off = signed_sum(problem.c, problem.y, beta)
    alone = row_sums(problem.loss, problem.samples, margins, beta)
    assert (sums.loss.value, sums.gap.value) == pytest.approx((alone.loss.value, alone.gap.value), rel=1e-12)
    # A radius has differences of nearly equal numbers, which depend on where the compiler rounds.
    assert (sums.loss.radius, sums.gap.radius) == pytest.approx((alone.loss.radius, alone.gap.radius), rel=1e-2)
    assert tuple(found.rest) == pytest.approx((rest, off), rel=1e-12)
    assert (found.row, found.cost) == pytest.approx(balance_row(problem.loss, problem.samples, margins, beta, rest, off), rel=1e-9)


def test_products_of_weights_and_dual_variables_are_exact():
    """They decide the sign of Σ cβy where every β is at a bound."""
    rng = np.random.default_rng(0)
    c, beta, high, low = rng.random(50), rng.random(50), np.empty(50), np.empty(50)
    _exact_products(c, beta, high, low)
    for a, b, product, error in zip(c, beta, high, low, strict=True):
        assert Fraction(float(product)) + Fraction(float(error)) == Fraction(float(a)) * Fraction(float(b))


def test_a_balanced_dual_point_at_its_bounds_has_a_bound():
    problem = Problem(np.arange(16.0).reshape(8, 2) % 5, [0, 1] * 4, l2=5.0, intercept="free")
    point = dual_point(problem, np.ones(8))
    np.testing.assert_array_equal(point.beta, 1.0)  # no row can take up a rest, and there is none
    found = enclose(problem, np.zeros(2), 0.0, point)
    primal, dual = exact(problem, np.zeros(2), 0.0, point.beta)
    assert Fraction(found.dual) <= dual <= primal <= Fraction(found.upper)
    assert found.dual >= float(dual) - 1e-12
