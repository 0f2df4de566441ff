"""Pairs over ranges of C: their enclosures are those of certificates at each C, mixes too; what is proven at two ends holds between."""

from fractions import Fraction

import numpy as np
import pytest

import dualgap
from dualgap.answers.ranges import excess_at, make_couple, make_pair, proven_range, reach
from dualgap.proof import certify_pair, dual_point
from dualgap.run import minimise

LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")


def problem_of(seed, loss, intercept, kernel=None, ratio=0.0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * 10.0 ** rng.uniform(-1, 1)
    y = np.where(X @ rng.normal(size=5) + rng.normal(size=n) > 0, 1.0, -1.0)
    weights = rng.uniform(0.1, 2.0, n) if seed % 2 else None
    return dualgap.Problem(X, y, loss, l2=1.0 - ratio, l1=ratio, sample_weight=weights, intercept=intercept, kernel=kernel)


def strengths_of(problem, ratio=0.0):
    return lambda C: ((1.0 - ratio) / (C * problem.n), ratio / (C * problem.n))


def at(problem, C, ratio=0.0):
    l2, l1 = strengths_of(problem, ratio)(C)
    return problem.variant(l2=l2, l1=l1)


def pairs_of(problem, ratio=0.0, tol=1e-3):
    for C in (0.3, 0.6):
        here = at(problem, C, ratio)
        result = minimise(here, "auto", tol, 2000)
        yield make_pair(here, result.coef, result.intercept, result.dual)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(
    ("loss", "kernel", "ratio"), [*((loss, None, 0.0) for loss in LOSSES), ("squared_hinge", None, 0.4), ("hinge", "rbf", 0.0)]
)
def test_a_pair_knows_its_certificate_at_every_strength(loss, intercept, kernel, ratio):
    problem = problem_of(3, loss, intercept, kernel, ratio)
    first, second = pairs_of(problem, ratio)
    for pair in (first, second, make_couple(first, second).mixed(0.375)):
        for C in (0.05, 0.42, 3.0):
            here = at(problem, C, ratio)
            found = pair.at(here.l2, here.l1)
            whole = certify_pair(here, pair.coef, pair.intercept, dual_point(here, pair.beta), "given").certificate
            assert found.gap_bound == pytest.approx(whole.gap, rel=1e-6, abs=1e-9 * whole.primal)
            assert found.upper == pytest.approx(whole.primal, rel=1e-9)
            # Both enclose the same two numbers, up to a free intercept's rest, which may be moved into another row.
            assert found.objective.lower <= whole.primal
            assert found.upper >= whole.primal - 2.0 * whole.radius


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_enclosures_hold_in_exact_arithmetic(intercept):
    problem = problem_of(4, "hinge", intercept, n=16)
    first, second = pairs_of(problem)
    pair = make_couple(first, second).mixed(0.3)
    for C in (0.1, 0.4, 2.0):
        here = at(problem, C)
        found = pair.at(here.l2, here.l1)
        primal, dual = exact_values(here, pair)
        assert Fraction(found.objective.lower) <= primal <= Fraction(found.upper)
        assert primal - dual <= Fraction(found.gap_bound)


def exact_values(problem, pair):
    """P and D in fractions; a free intercept's rest is taken out of one β inside its box."""
    F = lambda values: [Fraction(float(v)) for v in values]  # noqa: E731
    w, c, y, beta, b = F(pair.coef), F(problem.c), F(problem.y), F(pair.beta), Fraction(pair.intercept)
    rows, l2 = [F(row) for row in problem.X], Fraction(problem.l2)
    if problem.intercept == "free":
        rest = sum(ci * bi * yi for ci, bi, yi in zip(c, beta, y, strict=True))
        k = max(range(len(beta)), key=lambda i: min(beta[i], 1 - beta[i]))
        beta[k] -= y[k] * rest / c[k]
        assert 0 <= beta[k] <= 1
    margins = [yi * (sum(x * v for x, v in zip(row, w, strict=True)) + b) for row, yi in zip(rows, y, strict=True)]
    u = [sum(ci * bi * yi * row[j] for ci, bi, yi, row in zip(c, beta, y, rows, strict=True)) for j in range(len(w))]
    primal = sum(ci * max(Fraction(0), 1 - m) for ci, m in zip(c, margins, strict=True)) + l2 / 2 * sum(v * v for v in w)
    return primal, sum(ci * bi for ci, bi in zip(c, beta, strict=True)) - sum(v * v for v in u) / (2 * l2)


@pytest.mark.parametrize(("loss", "ratio"), [("hinge", 0.0), ("squared_hinge", 0.4)])
def test_what_is_proven_at_two_ends_holds_between(loss, ratio):
    problem = problem_of(5, loss, "free", ratio=ratio)
    strengths = strengths_of(problem, ratio)
    epsilon = 0.02
    pair, _ = pairs_of(problem, ratio)
    low, high = (reach(pair, strengths, epsilon, 0.3, limit) for limit in (1e-3, 1e3))
    assert low < 0.3 < high
    assert excess_at(pair, strengths, epsilon, low * 0.97) > 0.0  # the range ends about where the proof does
    assert excess_at(pair, strengths, epsilon, high / 0.97) > 0.0
    found = proven_range(pair, strengths, (low, 0.3, high))
    for C in np.geomspace(low, high, 30)[1:-1]:
        assert excess_at(pair, strengths, epsilon, C) <= 0.0
        here, certificate = pair.at(*strengths(C)), found.at(float(C))
        assert certificate.primal >= here.objective.lower
        assert certificate.dual <= here.dual + 1e-12
        assert certificate.gap <= epsilon * certificate.dual * (1.0 + 1e-9)
    with pytest.raises(ValueError, match=r"C=1.0 is not in the proven range"):
        found.at(1.0)


def test_a_limit_within_the_proof_is_reached_and_a_bad_pair_reaches_nothing():
    problem = problem_of(6, "squared_hinge", "none")
    pair, _ = pairs_of(problem)
    assert reach(pair, strengths_of(problem), 0.02, 0.3, 0.301) == 0.301
    bad = make_pair(problem, np.zeros(5), 0.0, np.zeros(problem.n))
    assert reach(bad, strengths_of(problem), 0.02, 0.3, 1.0) == 0.3
    assert excess_at(bad, strengths_of(problem), 0.02, 0.3) > 0.0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_range_of_zero_ends_near_the_c_at_which_the_first_feature_comes_in(loss):
    # With an l1 part and a small C, w = 0 is exact. Its gap is 0 up to some C and rises from there: no parabola in 1/C.
    problem, ratio = problem_of(2, loss, "none", None, 0.8), 0.8
    strengths, zero = strengths_of(problem, ratio), np.zeros(5)
    slopes = np.empty(problem.n)
    dualgap.core.slopes(problem.loss, np.zeros(problem.n), slopes)
    u = problem.combine(problem.c * problem.y * slopes)
    first = ratio / (problem.n * np.abs(u).max())  # the C up to which |uⱼ| ≤ l1 for all j
    for start in (1e-3 * first, 0.3 * first):
        pair = make_pair(at(problem, start, ratio), zero, 0.0, slopes)
        for epsilon in (1e-3, 0.1):
            end = reach(pair, strengths, epsilon, start, 1e3 * first)
            assert end > 0.9 * first
            assert excess_at(pair, strengths, epsilon, end) <= 0.0
            assert excess_at(pair, strengths, epsilon, 2.0 * end) > 0.0 or end > 2.0 * first
