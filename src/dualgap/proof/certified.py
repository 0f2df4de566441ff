"""enclose: P(w, b) and its gap to a dual point, computed from the data, (w, b) and β alone, with proven error bounds.

No number of a solver enters. Scores that have been computed here for the same w are used again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    SMALLEST,
    Bounded,
    fma,
    gamma,
    length_bound,
    precise_accumulate,
    precise_shortfalls,
    signed_sum,
    strict,
)
from dualgap.problem import Problem
from dualgap.proof.bounded_scores import kernel_scores
from dualgap.proof.certificate import Certificate, certificate_of_pair
from dualgap.proof.dual_points import DualPoint, dual_point
from dualgap.proof.enclosure import (
    UNKNOWN,
    Balance,
    Enclosed,
    Margins,
    assemble,
    balance_row,
    bias_terms,
    divide,
    exact_margins,
    penalty_excess,
    penalty_value,
    plain_margins,
    row_sums,
    row_sums_and_balance,
    score_margins,
    total_psi_bound,
)

__all__ = [
    "Proven",
    "balance",
    "certify_pair",
    "enclose",
    "enclose_sharply",
    "expanded",
    "lower_bound",
    "margins_of",
    "moved_row",
    "scores_of",
]

LEAST_EXACT = 2.0**-968  # of a product of two float64 numbers, from which on its rounding error is one, too
SMALL_ENOUGH = 1e-10  # relative gap from which on nothing is gained by sharper sums, if no tolerance is given
SHARP = 0.05  # share of the gap that may be rounding; above it, sums are repeated in double-double numbers


def scores_of(problem: Problem, stored: np.ndarray) -> np.ndarray:
    """Return xᵢ·w + oᵢ of every row, not to be written to; a problem with a memory keeps those of the last w."""
    return problem.bounded_scores(stored)[0]


class Proven(NamedTuple):
    """A certificate, and `resolution`: the gap that float64 sums cannot tell from zero here, so that no solver can aim below it."""

    certificate: Certificate
    resolution: float


def certify_pair(
    problem: Problem, coef: np.ndarray, intercept: float, point: DualPoint, source: str, tol: float = 0.0, atol: float = 0.0
) -> Proven:
    """Certify a model by a dual point.

    Sums are in float64 with their error bounds; where rounding makes up too much of a gap that is above the tolerance, they are repeated in
    double-double numbers.
    """
    found, resolution = enclose_sharply(problem, coef, intercept, point, tol, atol)
    return Proven(certificate_of_pair(found, source), resolution)


def enclose_sharply(
    problem: Problem, coef: np.ndarray, intercept: float, point: DualPoint, tol: float = 0.0, atol: float = 0.0
) -> tuple[Enclosed, float]:
    """Enclose a model and a dual point as `certify_pair` does, and return the resolution of float64 beside it.

    That is an estimate of the gap below which float64 models cannot be told apart: the radius without what only its proof adds, which is
    the part of the sums, and the factor of the number of terms in a score, by which rounding errors nearly never add up.
    """
    problem = problem.remembering()
    found = enclose(problem, coef, intercept, point)
    terms = 1.0 if problem.kernel is not None else max(1.0, 0.25 * problem.longest)
    resolution = 2.0 * (found.gap.radius - 1e-13 * found.gap.value) / terms
    upper, resolution = found.upper, resolution if 0.0 < resolution < math.inf else 0.0
    gap, enough = upper - found.dual, max((tol if tol > 0.0 else SMALL_ENOUGH) * upper, atol)
    if problem.kernel is None and not gap <= enough and found.finite and found.radius > SHARP * gap:
        found = enclose(problem, coef, intercept, point, precise=True)
    return found, resolution


def lower_bound(problem: Problem, beta: np.ndarray) -> float:
    """Return a lower bound of D(β), and so of every model's objective, for β made feasible."""
    problem = problem.remembering()
    point = dual_point(problem, beta)
    coef = np.zeros(problem.size) if point.coef is None else point.coef
    return enclose(problem, coef, 0.0, point).dual


def enclose(problem: Problem, coef: np.ndarray, intercept: float, point: DualPoint, *, precise: bool = False) -> Enclosed:
    """Enclose P(w, b) and P(w, b) − D(β) of a model and a dual point; an infinite gap where β cannot be balanced."""
    terms = _kernel_terms(problem, coef, intercept, point) if problem.kernel is not None else None
    margins = _margins(problem, coef, intercept, precise) if terms is None else terms.margins
    row, cost, moved = -1, 0.0, 0.0
    if problem.intercept == "free":
        sums, found = row_sums_and_balance(problem.loss, problem.samples, margins, point.beta)
        row, cost, moved = moved_row(problem, margins, point.beta, found)
    else:
        sums = row_sums(problem.loss, problem.samples, margins, point.beta)
    if terms is None and not problem.penalty.contains_point(coef):  # a coefficient outside of its bounds
        return Enclosed(UNKNOWN, UNKNOWN)
    penalty = penalty_value(problem.l1, problem.l2, coef) if terms is None else terms.penalty
    if not math.isfinite(penalty.value):
        return Enclosed(UNKNOWN, UNKNOWN)
    if problem.intercept == "free" and row < 0:
        return Enclosed(sums.loss + penalty, UNKNOWN)
    if problem.l2 == 0.0:
        objective = sums.loss + penalty
        size = float(abs(margins.scores_[row]) + abs(intercept))
        return Enclosed(objective, _gap_of_l1(problem, point.beta, objective, cost, moved, size))
    shift = moved * float(problem.norms[row]) / problem.l2
    drift = shift + (point.error if terms is None else terms.error)
    excess = _excess(problem, coef, point, shift, precise) if terms is None else terms.excess(problem, shift)
    if problem.intercept == "penalised":
        rest = balance(problem, point)
        own, more = bias_terms(problem.l2, problem.intercept_scale, intercept, rest)
        penalty, excess = penalty + own, excess + more
        drift += problem.intercept_scale * rest.radius / problem.l2
    return assemble(sums, penalty, excess, cost)._replace(drift=1.000001 * drift, row=row if moved > 0.0 else -1)


def margins_of(problem: Problem, coef: np.ndarray, b: float) -> Margins:
    """Return the float64 scores of every row with their error bounds, linear or with a kernel."""
    if problem.kernel is None:
        return _margins(problem, coef, b, precise=False)
    found = kernel_scores(problem, coef)
    return score_margins(problem.offset.added(found.values), problem.y, b, found.radius, 1.0, problem.loss.reference())


def _margins(problem: Problem, coef: np.ndarray, b: float, precise: bool) -> Margins:
    """Return the scores of every row with their error bounds."""
    if not precise:
        (scores, sizes), reference = problem.bounded_scores(coef), problem.loss.reference()
        if sizes is None:
            return plain_margins(scores, problem.y, b, problem.norms, problem.longest, length_bound(coef), reference)
        return score_margins(scores, problem.y, b, sizes, ROUNDOFF * (1.0 + gamma(4.0 * problem.longest + 8.0)), reference)
    values = np.empty(problem.n)
    for block in problem.every_block():
        here = problem.some_samples(block.index)
        precise_shortfalls(block.rows, coef, b, here.y, problem.loss.reference(), here.offset, values[block.index])
    # The other losses are computed from m = 1 − z, which is rounded again.
    absolute = 0.0 if problem.loss.keeps_shortfall() else 2.0 * ROUNDOFF
    twice = gamma(2.0 * (problem.longest + 8)) ** 2
    absolute += twice * (abs(b) + problem.loss.reference() + problem.offset.largest()) + SMALLEST
    return exact_margins(values, problem.norms, twice * length_bound(coef), absolute)


def balance(problem: Problem, point: DualPoint) -> Bounded:
    """Return Σ cᵢβᵢyᵢ."""
    return signed_sum(problem.c, problem.y, point.beta)


def moved_row(problem: Problem, margins: Margins, beta: np.ndarray, found: Balance) -> tuple[int, float, float]:
    """Return a row whose β can balance Σ cᵢβᵢyᵢ exactly, what that costs, and by how much its c·β moves; row −1 where there is none."""
    if found.rest.value == 0.0 and not beta.any():
        return 0, 0.0, 0.0
    if found.row >= 0:
        return found.row, found.cost, float(abs(found.rest).upper)
    # Every β is at a bound: then the sign of the rest matters, or that it is zero.
    products, low = np.empty(problem.n), np.empty(problem.n)
    _exact_products(problem.c, beta, products, low)
    rest = math.fsum((products * problem.y).tolist() + (low * problem.y).tolist())
    inexact = int(np.count_nonzero((np.abs(products) < LEAST_EXACT) & (problem.c != 0.0) & (beta != 0.0)))
    if rest == 0.0 and inexact == 0:
        return 0, 0.0, 0.0
    off = 2.0 * ROUNDOFF * abs(rest) + inexact * 2.0**-1074
    row, cost = balance_row(problem.loss, problem.samples, margins, beta, rest, off)
    return (row, cost, 1.000001 * (abs(rest) + off)) if row >= 0 else (-1, math.inf, math.inf)


@strict
def _exact_products(c, beta, high, low):
    """high + low = c·β, exactly where |high| ≥ LEAST_EXACT, else up to 2⁻¹⁰⁷⁵."""
    for i in range(beta.shape[0]):
        high[i] = c[i] * beta[i]
        low[i] = fma(c[i], beta[i], -high[i])


def _excess(problem: Problem, coef: np.ndarray, point: DualPoint, shift: float, precise: bool) -> Bounded:
    """Return R(w) + R*(u) − u·w if u/l2 may be off by `shift` more than β's own sum."""
    assert point.v is not None
    if not precise:
        return penalty_excess(problem.penalty, coef, point.v, np.zeros(1), point.error + shift)
    high, low = np.zeros(problem.d), np.zeros(problem.d)
    for block in problem.every_block():
        precise_accumulate(block.rows, problem.c[block.index], problem.y[block.index], point.beta[block.index], high, low)
    v, v_low = divide(high, low, problem.l2)
    mass = float((problem.c * np.abs(point.beta)) @ problem.norms)
    error = gamma(2.0 * (problem.n + 8)) ** 2 * mass / problem.l2 + 8.0 * ROUNDOFF**2 * length_bound(v) + SMALLEST
    return penalty_excess(problem.penalty, coef, v, v_low, 1.000001 * error + shift)


def _gap_of_l1(problem: Problem, beta: np.ndarray, objective: Bounded, cost: float, moved: float, score: float) -> Bounded:
    """Return P − Σ cψ(β); `dual_point` has made ‖u‖∞ ≤ l1 hold, with a reserve for `moved`."""
    longest = float(problem.norms.max())
    if moved * longest > 32.0 * ROUNDOFF * float((problem.c * np.abs(beta)).sum()) * longest:
        return UNKNOWN
    # D has no βm but β times the offset, by which the cost of the move differs.
    margin = 4.0 + 2.0 * abs(score) + problem.offset.largest()
    return (objective - total_psi_bound(problem.loss, problem.samples, beta)).wider(cost + moved * margin)


class _KernelTerms(NamedTuple):
    """What the model of a kernel machine, w = Σ aⱼφ(xⱼ), has in place of coordinates: all through the scores K·a."""

    margins: Margins
    penalty: Bounded  # R(w) without the intercept's part
    distance: Bounded  # l2·‖w − w(β)‖²/2 from the computed scores
    error: float  # how far rounding moves w(β)

    def excess(self, problem: Problem, shift: float) -> Bounded:
        return self.distance.moved_square((self.error + shift) * math.sqrt(0.5 * problem.l2) * 1.000001)


def _kernel_terms(problem: Problem, coef: np.ndarray, intercept: float, point: DualPoint) -> _KernelTerms:
    assert point.coef is not None
    l2, own = problem.l2, kernel_scores(problem, point.coef)
    error = 4.0 * ROUNDOFF * float(np.abs(point.coef) @ problem.norms)  # a = cβy/l2 is rounded
    scores, distance = own, Bounded(0.0)
    if coef is not point.coef and not np.array_equal(coef, point.coef):
        scores = kernel_scores(problem, coef)
        a, sizes = coef - point.coef, np.abs(scores.values) + np.abs(own.values)
        distance = expanded(a, scores.values - own.values, scores.radius + own.radius, sizes).nonnegative()
    shown = problem.offset.added(scores.values)
    margins = score_margins(shown, problem.y, intercept, scores.radius, 1.0, problem.loss.reference())
    penalty = expanded(coef, scores.values, scores.radius)
    return _KernelTerms(margins, penalty * (0.5 * l2), distance * (0.5 * l2), error)


def expanded(a: np.ndarray, scores: np.ndarray, radius: np.ndarray, sizes: np.ndarray | None = None) -> Bounded:
    """Return Σ aⱼsⱼ for scores off by at most `radius`; a may be rounded in proportion to scores of these sizes."""
    error = radius + gamma(len(a) + 8) * (np.abs(scores) if sizes is None else sizes)
    return Bounded(float(a @ scores), 1.000001 * float(np.abs(a) @ error) + SMALLEST)
