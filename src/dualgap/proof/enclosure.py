"""Enclosures of P and of P − D: float64 sums with proven bounds on their rounding errors.

For every w, b and every feasible β the gap is a sum of parts that cannot be negative:

    P(w, b) − D(β) = Σ cᵢ[φ(mᵢ) − ψ(βᵢ) + βᵢmᵢ]  +  [R(w) + R*(u) − u·w]        u = Σ cᵢβᵢyᵢxᵢ

with a penalised intercept as one more coordinate of w. Nothing cancels, so that the gap is known to far more digits than P and D are.
The second bracket is at most (√G + e·√(l2/2))², where G is its value at the computed v = u/l2 and e bounds ‖v − u/l2‖.

Rounding that is accounted for: each margin, by γ(k)·‖x‖‖w‖ (or the double-double sums of `core.precise`); v, by γ(rows)·Σ|a|‖x‖; every
sum; the intercept's condition Σ cᵢβᵢyᵢ = 0, which holds exactly for a β that differs from the given one in one row. Exponentials and
logarithms are taken to be right to four units of the last digit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    SMALLEST,
    Bounded,
    Boxed,
    compiled,
    exact_sum,
    fma,
    gamma,
    kernel,
    length_bound,
    nonnegative_sum,
    strict,
    strict_part,
    two_sum,
    weighted_balance,
)
from dualgap.problem import Samples

__all__ = [
    "BLOCK",
    "Balance",
    "Enclosed",
    "Margins",
    "RowSums",
    "assemble",
    "balance_row",
    "bias_terms",
    "divide",
    "exact_margins",
    "own_balance",
    "penalty_excess",
    "penalty_value",
    "plain_margins",
    "row_among",
    "row_sums",
    "row_sums_and_balance",
    "score_margins",
    "sums_by_ends",
    "total_psi_bound",
]

PIECE = 4096  # coordinates of w that one product adds up
BLOCK = 512  # terms that are added up before their sum is added to the total: rounding grows with BLOCK + n/BLOCK, not with n


INSIDE = 1e-3  # distance of β from its bounds that leaves room for rounding errors


class Enclosed(NamedTuple):
    """P(w, b) and the gap P(w, b) − D(β). The bounds below are infinite where float64 overflows."""

    objective: Bounded
    gap: Bounded
    excess: float = 0.0  # a lower bound of R(w) + R*(u) − u·w, the penalty's part of the gap
    drift: float = math.inf  # bounds the distance of the computed w(β) from that of the exactly feasible β
    row: int = -1  # the row whose β was moved to balance Σ cβy exactly; −1: none

    @property
    def upper(self) -> float:
        """An upper bound of P."""
        return float(self.objective.upper)

    @property
    def dual(self) -> float:
        """A lower bound of D."""
        return -float((self.gap - self.objective).upper)

    @property
    def gap_bound(self) -> float:
        """An upper bound of the gap, sharper than `upper` − `dual`."""
        return float(self.gap.upper)

    @property
    def finite(self) -> bool:
        """Whether there is a bound at all."""
        return math.isfinite(self.upper) and math.isfinite(self.dual)

    @property
    def radius(self) -> float:
        """Half the width of the interval that contains the exact gap, whose upper end is `upper` − `dual`."""
        rounding = 32.0 * ROUNDOFF * (abs(self.objective.value) + self.gap.value)
        return float(Bounded(self.objective.radius + self.gap.radius + rounding).upper)


UNKNOWN = Bounded(math.inf, math.inf)


def assemble(sums: RowSums, penalty: Bounded, excess: Bounded, cost: float = 0.0) -> Enclosed:
    """Enclose P and the gap from sums over the rows, R(w), R(w) + R*(u) − u·w, and what it costs to balance a free intercept."""
    return Enclosed(sums.loss + penalty, (sums.gap + excess).wider(cost), max(excess.lower, 0.0))


@compiled
class Margins(NamedTuple):
    """Scores xᵢ·w + oᵢ, the intercept, and what the shortfall z = one − y(score + b) of a row may be off by.

    `one` is the loss's reference: 1, and 0 for a regression.
    Where z itself is known, it stands in place of the score, with one = 0, b = 0 and signs of −1: z = 0 − (−1)·(z + 0).
    """

    scores_: np.ndarray
    signs: np.ndarray
    one: float
    b: float
    scale: np.ndarray
    factor: float
    absolute: float

    def shortfall(self, score, sign, scale):
        """z of a row, and a bound on its error."""
        z = self.one - sign * (score + self.b)
        return z, self.factor * scale + 4.5e-16 * (abs(score) + abs(self.b)) + self.absolute


def plain_margins(
    scores: np.ndarray, y: np.ndarray, b: float, norms: np.ndarray, longest: int, length: float, reference: float = 1.0
) -> Margins:
    """Describe float64 scores of data; `longest` numbers a row at most, `norms` and `length` bound ‖xᵢ‖ and ‖w‖."""
    return score_margins(scores, y, b, norms, gamma(longest + 4) * length, reference)


def score_margins(scores: np.ndarray, y: np.ndarray, b: float, scale: np.ndarray, factor: float, reference: float = 1.0) -> Margins:
    """Describe scores that are off by at most factor·scale[i], and by the rounding of one sum with an offset."""
    absolute = 4.0 * ROUNDOFF * reference + SMALLEST
    return Margins(_fixed(scores), _fixed(y), float(reference), float(b), _fixed(scale), float(factor), absolute)


def exact_margins(shortfalls: np.ndarray, scale: np.ndarray, factor: float, absolute: float) -> Margins:
    """Describe shortfalls that were rounded once and are off by at most factor·scale[i] + absolute besides."""
    signs = np.full(len(shortfalls), -1.0)
    return Margins(_fixed(shortfalls), _fixed(signs), 0.0, 0.0, _fixed(scale), float(factor), float(absolute))


def _fixed(array: np.ndarray) -> np.ndarray:
    """Return a read-only view: one type for the compiler, whoever owns the array."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class RowSums(NamedTuple):
    """Σ cφ(m) and Σ c[φ(m) − ψ(β) + βm] over some rows."""

    loss: Bounded
    gap: Bounded


def row_sums(loss: Any, samples: Samples, margins: Margins, beta: np.ndarray) -> RowSums:
    """Sum the losses and the gap over rows."""
    # One row of partial sums a block: they go through memory, so that no compiler can merge the sums of two blocks into a longer one.
    partial = np.empty((4, -(-len(beta) // BLOCK)))
    (_sums_by_slope if _transcendental(loss) else sums_by_ends)(loss, samples, margins, beta, partial)
    return _joined(partial)


class Balance(NamedTuple):
    """Σ cβy, and a row whose β can take it up at a cost (`balance_row`); row −1 where there is none."""

    rest: Bounded
    row: int
    cost: float


def row_sums_and_balance(loss: Any, samples: Samples, margins: Margins, beta: np.ndarray) -> tuple[RowSums, Balance]:
    """Return what `row_sums` and, for Σ cβy of these rows, `balance_row` return, with one pass over the rows in most cases."""
    partial = np.empty((4, -(-len(beta) // BLOCK)))
    by_slope = _transcendental(loss)
    terms = _sums_and_balance_by_slope if by_slope else _sums_and_balance_by_ends
    rest, off, row = terms(loss, samples, margins, beta, partial, gamma(2.0 * (len(beta) + 2)) ** 2)
    cost = _cost_of_move(loss, samples, margins, beta, rest, off, row) if row >= 0 else math.inf
    if not math.isfinite(cost):  # try all rows
        row, cost = _row_to_move(loss, samples, margins, beta, rest, off, not by_slope)
    return _joined(partial), Balance(Bounded(rest, off), int(row), 1.000001 * cost)


def _cost_of_move(loss: Any, samples: Samples, margins: Margins, beta: np.ndarray, rest: float, off: float, row: int) -> float:
    """Return `_move_cost` of one row, infinite where Python raises an error. A compiled kernel for one row would delay every first fit."""
    z, d = margins.shortfall(margins.scores_.item(row), margins.signs.item(row), margins.scale.item(row))
    try:
        with np.errstate(all="ignore"):  # a loss of the user's may call NumPy
            return float(_move_cost(loss, samples.c.item(row), samples.y.item(row), beta.item(row), z, d, rest, off))
    except (ArithmeticError, ValueError):  # an overflow, or the logarithm of 0
        return math.inf


@strict
def _sums_and_balance_by_ends(loss, samples, margins, beta, partial, factor):
    sums_by_ends(loss, samples, margins, beta, partial)
    return own_balance(loss, samples, margins, beta, factor, True)


@strict
def _sums_and_balance_by_slope(loss, samples, margins, beta, partial, factor):
    _sums_by_slope(loss, samples, margins, beta, partial)
    return own_balance(loss, samples, margins, beta, factor, False)


@strict_part
def own_balance(loss, samples, margins, beta, factor, by_gap):
    rest, mass = weighted_balance(samples.c, samples.y, beta, 0.0)
    off = ROUNDOFF * abs(rest) * 1.000001 + factor * mass + SMALLEST  # as in signed_sum
    return rest, off, _inner_row(loss, samples, margins, beta, by_gap)


def _joined(partial: np.ndarray) -> RowSums:
    sums = partial.tolist()
    value, value_radius, gap, gap_radius = [one for (one,) in sums] if len(sums[0]) == 1 else map(exact_sum, sums)
    return RowSums(nonnegative_sum(value, value_radius, BLOCK + 8), nonnegative_sum(gap, gap_radius, BLOCK + 8))


def _transcendental(loss: Any) -> bool:
    """Whether a loss takes logarithms, so that three evaluations a row would show; its curvature must be finite."""
    return loss.quadratic_pieces() is None and bool(loss.is_smooth())


@kernel
def sums_by_ends(loss, samples, margins, beta, partial):
    u = 1.1102230246251565e-16
    for block in range(partial.shape[1]):
        # A loop from 0 over a slice is one that the compiler vectorises.
        here = slice(block * BLOCK, (block + 1) * BLOCK)
        scores, signs, scales, cs, betas = (
            margins.scores_[here],
            margins.signs[here],
            margins.scale[here],
            samples.c[here],
            beta[here],
        )
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(betas.shape[0]):
            # margins.shortfall, written out: with the call the loop is not vectorised
            z = margins.one - signs[i] * (scores[i] + margins.b)
            d = margins.factor * scales[i] + 4.5e-16 * (abs(scores[i]) + abs(margins.b)) + margins.absolute
            phi, own, scale = loss.gap_terms(z, betas[i])
            # Convex in m: the largest value over an interval is at one of its ends.
            phi_up, more, scale_up = loss.gap_terms(z + d, betas[i])
            phi_down, less, scale_down = loss.gap_terms(z - d, betas[i])
            c, empty = cs[i], cs[i] == 0.0
            s0 += 0.0 if empty else c * phi
            s1 += 0.0 if empty else c * ((max(phi_up, phi_down) - phi) + 64.0 * u * abs(phi))
            s2 += 0.0 if empty else c * own
            s3 += 0.0 if empty else c * ((max(more, less) - own) + 32.0 * u * (scale + scale_up + scale_down))
        partial[0, block], partial[1, block], partial[2, block], partial[3, block] = s0, s1, s2, s3


@kernel
def _sums_by_slope(loss, samples, margins, beta, partial):
    # With κ ≥ φ'': φ'² ≤ 2κφ, whose root is at most κφ + ½, and (β + φ')² ≤ 2κ(φ − ψ + βm).
    u, curvature = 1.1102230246251565e-16, loss.curvature()
    for block in range(partial.shape[1]):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(block * BLOCK, min((block + 1) * BLOCK, beta.shape[0])):
            z, d = margins.shortfall(margins.scores_[i], margins.signs[i], margins.scale[i])
            phi, own, scale = loss.gap_terms(z, beta[i])
            c, bend = samples.c[i], curvature * d
            if c != 0.0:
                s0 += c * phi
                s1 += c * (d * (curvature * phi + 0.5 + bend) + 64.0 * u * abs(phi))
                s2 += c * own
                slope = 1.000001 * math.sqrt(2.0 * curvature * (abs(own) + 64.0 * u * scale))
                s3 += c * (d * (slope + bend) + 64.0 * u * scale)
        partial[0, block], partial[1, block], partial[2, block], partial[3, block] = s0, s1, s2, s3


@strict_part
def _inner_row(loss, samples, margins, beta, by_gap):
    """Return a row with β well inside its box that costs little to move: for the hinges, the one with the least gap. −1: there is none."""
    bottom, top, found, least = loss.lower_bound(), loss.upper_bound(), -1, np.inf
    for i in range(beta.shape[0]):
        b = beta[i]
        if samples.c[i] > 0.0 and bottom + INSIDE < b < top - INSIDE:
            own = (
                loss.gap_terms(margins.shortfall(margins.scores_[i], margins.signs[i], 0.0)[0], b)[1]
                if by_gap
                else max(b, top - b) / samples.c[i]
            )
            if own < least:
                found, least = i, own
    return found


def balance_row(loss: Any, samples: Samples, margins: Margins, beta: np.ndarray, rest: float, off: float) -> tuple[int, float]:
    """Return a row whose β can take up the rest of Σ cβy, and how much the gap over the rows grows by that; row −1 where there is none.

    The exact rest is within `off` of `rest`. A row with β well inside its box is taken if it can; else all rows are tried.
    """
    row, cost = _row_to_move(loss, samples, margins, beta, rest, off, not _transcendental(loss))
    return int(row), float(cost) * 1.000001


@strict
def _row_to_move(loss, samples, margins, beta, rest, off, by_gap):
    first, count = _inner_row(loss, samples, margins, beta, by_gap), beta.shape[0]
    low, high = (first, first + 1) if first >= 0 else (0, count)
    while True:  # one call, so that it is compiled once
        row, cost = row_among(loss, samples, margins, beta, rest, off, low, high)
        if row >= 0 or high - low == count:
            return row, cost
        low, high = 0, count


@strict_part
def row_among(loss, samples, margins, beta, rest, off, first, last):
    found, least = -1, np.inf
    for i in range(first, last):
        z, d = margins.shortfall(margins.scores_[i], margins.signs[i], margins.scale[i])
        cost = _move_cost_part(loss, samples.c[i], samples.y[i], beta[i], z, d, rest, off)
        if cost < least:
            found, least = i, cost
    return found, least


def _move_cost(loss, c, y, b, z, d, rest, off):
    """Return how much the gap of a row grows if its β takes up the rest of Σ cβy; infinite if the exact β may then leave its box."""
    u = 1.1102230246251565e-16
    bottom, top = loss.lower_bound(), loss.upper_bound()
    if c <= 0.0:
        return np.inf
    # The exact β is β − s for an s within these two, which are widened by the rounding of these operations.
    middle, wide = y * rest / c, off / c + 8.0 * u * abs(rest) / c
    most, fewest = (middle + wide) * (1.0 + 4.0 * u), middle - wide
    below = most <= b - bottom if bottom == 0.0 else most <= 0.0 or b - most * (1.0 + 4.0 * u) >= bottom * (1.0 - 4.0 * u)
    if not (below and (fewest >= 0.0 or b - fewest * (1.0 + 4.0 * u) <= top * (1.0 - 4.0 * u))):
        return np.inf
    low, high = max(b - 4.0 * u * abs(b) - most, bottom), min(b + 4.0 * u * abs(b) - fewest, top)
    _, own, scale = loss.gap_terms(z, b)
    _, at_low, scale_low = loss.gap_terms(z, low)
    _, at_high, scale_high = loss.gap_terms(z, high)
    rise = max(at_low, at_high) - own + 32.0 * u * (scale + scale_low + scale_high)
    return c * max(rise, 0.0) + 2.0 * d * (abs(rest) + off)


_move_cost_part = strict_part(_move_cost)


@kernel
def _penalty_excess(penalty, w, v, v_low):
    l2, kept, precise = penalty.strength(), penalty.threshold(), v_low.shape[0] == v.shape[0]
    total = 0.0
    for j in range(w.shape[0]):
        total += _coordinate_excess(w[j], v[j], v_low[j] if precise else 0.0, kept)
    return l2 * total


@kernel
def _penalty_excess_within_bounds(penalty, w, v, v_low):
    l2, kept, precise = penalty.strength(), penalty.threshold(), v_low.shape[0] == v.shape[0]
    total = 0.0
    for j in range(w.shape[0]):
        low, high = penalty.ends(j)
        rest = v_low[j] if precise else 0.0
        if low == -np.inf and high == np.inf:
            total += _coordinate_excess(w[j], v[j], rest, kept)
        else:
            total += _bounded_excess(w[j], v[j], rest, kept, low, high)
    return l2 * total


@strict_part
def _coordinate_excess(w, v, v_low, kept):
    """[R(w) + R*(u) − u·w]/l2 at one coordinate, v = u/l2, kept = l1/l2; every term is at least 0."""
    if w == 0.0:
        beyond = max(abs(v) - kept, 0.0)
        return 0.5 * beyond * beyond
    sign = 1.0 if w > 0.0 else -1.0
    size, along = abs(w), sign * v
    if along >= kept:
        distance = ((along - kept) - size) + sign * v_low
        return 0.5 * distance * distance
    beyond = max(-along - kept, 0.0)
    return 0.5 * size * size + (kept - along) * size + 0.5 * beyond * beyond


@strict_part
def _bounded_excess(w, v, v_low, kept, low, high):
    """The same for low ≤ w ≤ high: ½(w − p)² with p = w(β), and ∫ |v − p − kept·sign t| dt between w and p, whose integrand is ≥ 0."""
    free = max(v - kept, 0.0) + min(v + kept, 0.0)
    p = min(max(free, low), high)
    distance = w - p
    if p == free and free != 0.0:  # neither clipped nor at the kink: only the way beyond 0 has an integrand other than 0
        distance -= v_low
        beyond = max(-w, 0.0) if p > 0.0 else max(w, 0.0)
        return 0.5 * distance * distance + 2.0 * kept * beyond
    positive, negative = abs(max(w, 0.0) - max(p, 0.0)), abs(min(w, 0.0) - min(p, 0.0))  # of the way from w to p
    pull = v - p if w < p else p - v
    sign = 1.0 if w < p else -1.0
    return 0.5 * distance * distance + max(pull - sign * kept, 0.0) * positive + max(pull + sign * kept, 0.0) * negative


def penalty_excess(penalty: Any, w: np.ndarray, v: np.ndarray, v_low: np.ndarray, error: float) -> Bounded:
    """Return R(w) + R*(u) − u·w from the computed v = u/l2 if ‖v − u/l2‖ ≤ error. `v_low`: low parts of v, or one zero."""
    bounded = isinstance(penalty, Boxed)
    value = float((_penalty_excess_within_bounds if bounded else _penalty_excess)(penalty, w, v, v_low))
    relative = gamma(len(w) + 16)
    kept = penalty.threshold()
    if kept > 0.0:  # l1/l2 is rounded, and so is v − l1/l2 before w is subtracted from it
        error += 8.0 * ROUNDOFF * (kept * math.sqrt(len(w)) + length_bound(v))
    if bounded:  # v − w(β) is rounded; where it or a comparison of v with a bound is off, another v near by fits
        error += 8.0 * ROUNDOFF * (length_bound(v) + length_bound(penalty.primal(v)))
    found = Bounded(value, 4.0 * relative * value + SMALLEST)
    return found.moved_square(error * math.sqrt(0.5 * penalty.strength()) * (1.0 + 1e-12))


def penalty_value(l1: float, l2: float, w: np.ndarray) -> Bounded:
    """Return R(w)."""
    pieces = [w] if len(w) <= PIECE else [w[k : k + PIECE] for k in range(0, len(w), PIECE)]
    value = 0.5 * l2 * (float(w @ w) if len(w) <= PIECE else exact_sum(float(piece @ piece) for piece in pieces))
    if l1 > 0.0:
        value += l1 * exact_sum(float(np.abs(piece).sum()) for piece in pieces)
    return Bounded(value, gamma(min(PIECE, len(w)) + 16) * value + SMALLEST)


def bias_terms(l2: float, scale: float, intercept: float, rest: Bounded) -> tuple[Bounded, Bounded]:
    """Return the parts of a penalised intercept in R(w) and in R(w) + R*(u) − u·w.

    It is one more coordinate, w = b/scale and v = scale·Σ cβy/l2; `rest` is that sum.
    """
    own = Bounded(intercept) / scale
    return own.square() * (0.5 * l2), (own - rest * scale / l2).square() * (0.5 * l2)


def divide(high: np.ndarray, low: np.ndarray, l2: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (high + low)/l2 as double-double numbers."""
    v, v_low = np.empty_like(high), np.empty_like(high)
    _divide(high, low, l2, v, v_low)
    return v, v_low


@strict
def _divide(high, low, l2, v, v_low):
    for j in range(high.shape[0]):
        total, error = two_sum(high[j], low[j])
        v[j] = total / l2
        v_low[j] = (fma(-v[j], l2, total) + error) / l2


def total_psi_bound(loss: Any, samples: Samples, beta: np.ndarray) -> Bounded:
    """Return Σ c(ψ(β) − βyo)."""
    value, size = (float(s) for s in _total_psi(loss, samples, beta))
    return Bounded(value, (32.0 * ROUNDOFF + gamma(BLOCK + len(beta) / BLOCK + 8)) * size * 1.000001 + SMALLEST)


@strict
def _total_psi(loss, samples, beta):
    total, size = 0.0, 0.0
    for first in range(0, beta.shape[0], BLOCK):
        s, t = 0.0, 0.0
        for i in range(first, min(first + BLOCK, beta.shape[0])):
            if samples.c[i] != 0.0:
                own, fixed = samples.c[i] * loss.psi(beta[i]), samples.c[i] * (beta[i] * samples.y[i] * samples.offset.at(i))
                s += own - fixed
                t += abs(own) + abs(fixed)
        total += s
        size += t
    return total, size
