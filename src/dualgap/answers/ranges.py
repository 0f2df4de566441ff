"""Pair: a model and a dual point for every strength of the penalty. A proof at two values of C is one for all values between them.

Let the penalty be λR(w), λ > 0. Losses and the box of β do not depend on λ, so that for fixed (w, b) and β

    P(λ)   = Σ cᵢφ(mᵢ) + λR(w)
    gap(λ) = Σ cᵢ[φ(mᵢ) − ψ(βᵢ) + βᵢmᵢ]  +  λR(w) + λR*(u/λ) − u·w

P is affine in λ. λR*(u/λ), the perspective of a convex function, is convex. Hence gap(λ) − ε·P(λ) is convex: if it is at most 0 at two λ,
it is at all λ between (after Giesen 2012 and Ndiaye 2019, docs/references.md). The values at the two ends are enclosed as
those of every certificate are, and need no pass over the data.

A mix of two pairs is (1 − t)·first + t·second. P is convex in (w, b) and −D in β, so that its gap is at most the
mean of the two gaps. Halfway between two values of C it is far below either: only the curvature of the path is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    Bounded,
    gamma,
    inner_product,
    kernel,
    length_bound,
    make_penalty,
    round_up,
    signed_sum,
)
from dualgap.problem import Problem
from dualgap.proof import (
    Certificate,
    Enclosed,
    RowSums,
    Scores,
    assemble,
    bias_terms,
    certificate_of_pair,
    dual_point,
    expanded,
    kernel_scores,
    moved_row,
    penalty_excess,
    penalty_value,
    row_sums,
    row_sums_and_balance,
    score_margins,
)

__all__ = [
    "Couple",
    "Pair",
    "ProvenRange",
    "Strengths",
    "excess_at",
    "make_couple",
    "make_pair",
    "mixed_coef",
    "proven_range",
    "reach",
]

SLACK = 1e-13  # relative to P: more than the rounding of l2 and l1, computed from C, can change a gap by
ROUNDS = 16  # steps towards the end of a range; with l2 alone the first one finds it
NEAR_END = 0.01  # of the value at C: how far below 0 the value at an end of a range may be
MIX_ERROR = 4.0 * ROUNDOFF  # relative to both terms: rounding of (1 − t)·a + t·b

Strengths = Callable[[float], tuple[float, float]]  # C -> (l2, l1), both proportional to 1/C


class _Products(NamedTuple):
    """‖w‖², u·w and ‖u‖², and `error`, which bounds the distance of u from that of the exact β."""

    ww: Bounded
    uw: Bounded
    uu: Bounded
    error: float

    def penalty(self, l2: float, l1: float) -> Bounded:
        return self.ww * (0.5 * l2)

    def excess(self, l2: float, l1: float, shift: float) -> Bounded:
        """(l2/2)‖w − u/l2‖² if u may be off by `shift` more."""
        found = (self.ww * (0.5 * l2) - self.uw + self.uu * 0.5 / l2).nonnegative()
        return found.moved_square((self.error + shift) / math.sqrt(2.0 * l2) * 1.000001)


class _Vectors(NamedTuple):
    """w and u as vectors of d numbers: with an l1 part, R*(u) is no function of ‖u‖. Methods as of `_Products`."""

    coef: np.ndarray
    u: np.ndarray
    error: float

    def penalty(self, l2: float, l1: float) -> Bounded:
        return penalty_value(l1, l2, self.coef)

    def excess(self, l2: float, l1: float, shift: float) -> Bounded:
        v = self.u / l2
        error = 1.000001 * (self.error + shift) / l2 + 2.0 * ROUNDOFF * length_bound(v)
        return penalty_excess(make_penalty(l2, l1), self.coef, v, np.zeros(1), error)


class _Solved(NamedTuple):
    """w and u of a pair that is no mix: coordinates, or expansions over the rows of a kernel machine with the scores K·u."""

    coef: np.ndarray
    u: np.ndarray
    scores_of_u: Scores | None


@dataclass(frozen=True)
class Pair:
    """A model (w, b) and a feasible β of a problem; `at` encloses P and the gap for any strength of the penalty.

    Its problem gives the data, loss, weights and kind of intercept. Of the penalty it gives the ratio of l1 to l2 alone.
    """

    problem: Problem
    made_of: _Solved | tuple[Couple, float]  # (couple, t) for a mix
    intercept: float
    beta: np.ndarray
    scores: np.ndarray  # without the intercept and the fixed part
    radius: np.ndarray  # bounds on the errors of the scores
    length: float  # a bound of ‖w‖
    terms: _Products | _Vectors
    rows: RowSums
    balance: Bounded  # Σ cβy
    cost: float  # what it takes to make a free intercept's condition hold exactly; infinite where that is not possible
    shift: float  # how far u moves by it

    @property
    def coef(self) -> np.ndarray:
        """w, or the expansion of a kernel machine."""
        if isinstance(self.made_of, _Solved):
            return self.made_of.coef
        couple, t = self.made_of
        return mixed_coef(couple.first.coef, couple.second.coef, t)

    @property
    def parts(self) -> tuple[Pair, Pair, float]:
        """The two pairs that this one is a mix of, and the share t of the second; itself twice if it is none."""
        return (
            (self, self, 0.0)
            if isinstance(self.made_of, _Solved)
            else (self.made_of[0].first, self.made_of[0].second, self.made_of[1])
        )

    def at(self, l2: float, l1: float) -> Enclosed:
        """Enclose P and P − D for another strength of the penalty, in O(1), or in O(d) with an l1 part."""
        problem, penalty, excess = self.problem, self.terms.penalty(l2, l1), self.terms.excess(l2, l1, self.shift)
        if problem.intercept == "penalised":
            own, more = bias_terms(l2, problem.intercept_scale, self.intercept, self.balance)
            penalty, excess = penalty + own, excess + more
        return assemble(self.rows, penalty, excess, self.cost)


def make_pair(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Pair:
    """Return the pair of a model and a dual point, β made feasible; it takes the two passes over the data of a certificate."""
    if problem.bounds is not None:
        raise ValueError("a problem with bounds has no proof for a range of C: a mix of two models may leave them by its rounding")
    problem = problem.remembering()
    point, l2, norms = dual_point(problem, beta), problem.l2, problem.norms
    if problem.kernel is None:
        assert point.v is not None
        made_of = _Solved(coef, l2 * point.v, None)
        scores, length = problem.products(coef), length_bound(coef)
        radius = gamma(problem.longest + 4) * length * norms
        error = l2 * (point.error + 4.0 * ROUNDOFF * length_bound(point.v))
    else:
        assert point.coef is not None
        own = kernel_scores(problem, point.coef)
        of_model = own if np.array_equal(coef, point.coef) else kernel_scores(problem, coef)
        scores, radius, length = of_model.values, of_model.radius, float(np.abs(coef) @ norms)
        rounding = 4.0 * ROUNDOFF * (np.abs(own.values) + float(np.abs(point.coef) @ norms) * norms)
        u = l2 * point.coef
        made_of = _Solved(coef, u, Scores(u, l2 * own.values, l2 * (own.radius + rounding), certified=True))
        error = 8.0 * ROUNDOFF * float(np.abs(u) @ norms)
    pair = _Unfinished(problem, made_of, intercept, point.beta, scores, radius, 1.000001 * length)
    if problem.l1 > 0.0:
        return pair.finished(_Vectors(made_of.coef, made_of.u, 1.000001 * error))
    ww, uw, _, uu = _inner_products(pair, pair)
    return pair.finished(_Products(ww, uw, uu, 1.000001 * error))


class _Unfinished(NamedTuple):
    """The first fields of a Pair, from which the sums over its rows follow."""

    problem: Problem
    made_of: _Solved | tuple[Couple, float]
    intercept: float
    beta: np.ndarray
    scores: np.ndarray
    radius: np.ndarray
    length: float

    def finished(self, terms: _Products | _Vectors) -> Pair:
        problem, beta = self.problem, self.beta
        shown = problem.offset.added(self.scores)
        margins = score_margins(shown, problem.y, self.intercept, self.radius, 1.0, problem.loss.reference())
        rest, cost, shift = Bounded(0.0), 0.0, 0.0
        if problem.intercept == "free":
            sums, found = row_sums_and_balance(problem.loss, problem.samples, margins, beta)
            row, cost, moved = moved_row(problem, margins, beta, found)
            rest = found.rest
            shift = moved * float(problem.norms[row]) if row >= 0 else math.inf
        else:
            sums = row_sums(problem.loss, problem.samples, margins, beta)
        if problem.intercept == "penalised":
            rest = signed_sum(problem.c, problem.y, beta)
        return Pair(*self, terms, sums, rest, cost, shift)


def _inner_products(first: Any, second: Any) -> tuple[Bounded, Bounded, Bounded, Bounded]:
    """Return w·w', u·w', w·u' and u·u' of two pairs that are no mixes."""
    one, other = first.made_of, second.made_of
    if one.scores_of_u is None:
        same = first is second
        uw = inner_product(one.u, other.coef)
        uw_too = uw if same else inner_product(one.coef, other.u)
        return inner_product(one.coef, other.coef), uw, uw_too, inner_product(one.u, other.u)
    return (
        expanded(one.coef, second.scores, second.radius),
        expanded(one.u, second.scores, second.radius),
        expanded(one.coef, *other.scores_of_u[1:3]),
        expanded(one.u, *other.scores_of_u[1:3]),
    )


# --------------------------------------------------------------------------------------------------------------------- mixes


@dataclass(frozen=True)
class Couple:
    """Two pairs of one problem, no mixes, and the inner products between them, from which those of every mix follow."""

    first: Pair
    second: Pair
    cross: tuple[Bounded, Bounded, Bounded, Bounded]

    def mixed(self, t: float) -> Pair:
        """Return the pair (1 − t)·first + t·second, without a pass over the data."""
        first, second, problem, p, q = self.first, self.second, self.first.problem, 1.0 - t, t
        beta, scores, radius = (np.empty(problem.n) for _ in range(3))
        lengths, norms = first.length + second.length, problem.norms
        mass = _mix_rows(
            (first.beta, second.beta),
            (first.scores, second.scores),
            (first.radius, second.radius),
            (p, q),
            (problem.loss.lower_bound(), problem.loss.upper_bound()),
            lengths,
            problem.c,
            norms,
            beta,
            scores,
            radius,
        )
        intercept = p * first.intercept + q * second.intercept
        length = 1.000001 * (p * first.length + q * second.length)
        pair = _Unfinished(problem, (self, t), intercept, beta, scores, radius, length)
        error = p * first.terms.error + q * second.terms.error + MIX_ERROR * float(mass)  # β is rounded
        if isinstance(first.terms, _Vectors):
            assert isinstance(second.terms, _Vectors)
            u = p * first.terms.u + q * second.terms.u
            error += MIX_ERROR * (length_bound(first.terms.u) + length_bound(second.terms.u))
            return pair.finished(_Vectors(mixed_coef(first.coef, second.coef, t), u, 1.000001 * error))
        assert isinstance(second.terms, _Products)
        own, other = first.terms, second.terms
        rounded = 2.0 * MIX_ERROR * lengths  # w is rounded
        uu = _quadratic(own.uu, self.cross[3], self.cross[3], other.uu, p, q)
        ww = _quadratic(own.ww, self.cross[0], self.cross[0], other.ww, p, q).wider(rounded * lengths)
        uw = _quadratic(own.uw, self.cross[1], self.cross[2], other.uw, p, q).wider(rounded * math.sqrt(max(uu.upper, 0.0)))
        terms = _Products(ww, uw, uu, 1.000001 * error)
        return pair.finished(terms)

    def share(self, l2: float, l1: float) -> float:
        """Return a t whose mix has a small gap: the minimum of a bound that takes the losses as linear between the two.

        It is close to the best t where the two gaps are about the same.
        """
        gaps = [pair.at(l2, l1).gap.value for pair in (self.first, self.second)]
        if isinstance(self.first.terms, _Products) and isinstance(self.second.terms, _Products):
            w = self.first.terms.ww.value - 2.0 * self.cross[0].value + self.second.terms.ww.value
            u = self.first.terms.uu.value - 2.0 * self.cross[3].value + self.second.terms.uu.value
        else:
            one, other = self.first.made_of, self.second.made_of
            assert isinstance(one, _Solved)
            assert isinstance(other, _Solved)
            w, u = float(np.sum((one.coef - other.coef) ** 2)), float(np.sum((one.u - other.u) ** 2))
        gain = 0.5 * (l2 * w + u / l2)
        return min(max(0.5 + 0.5 * (gaps[0] - gaps[1]) / gain, 0.0), 1.0) if gain > 0.0 else 0.5


def make_couple(first: Pair, second: Pair) -> Couple:
    """Return two pairs, neither a mix, to be mixed."""
    cross = (Bounded(0.0),) * 4 if isinstance(first.terms, _Vectors) else _inner_products(first, second)
    return Couple(first, second, cross)


def mixed_coef(first: Any, second: Any, t: float) -> Any:
    """Return (1 − t)·first + t·second, the model of a mix: each number is rounded by at most MIX_ERROR times both terms."""
    return (1.0 - t) * first + t * second


def _quadratic(a: Bounded, b: Bounded, c: Bounded, d: Bounded, p: float, q: float) -> Bounded:
    """p²a + pq(b + c) + q²d."""
    return a * p * p + (b + c) * p * q + d * q * q


@kernel
def _mix_rows(betas, scores, radii, shares, box, lengths, c, norms, beta, score, radius):
    """β, scores and the radii of a mix, row by row; return Σ c(|β₁| + |β₂|)‖x‖."""
    p, q = shares
    low, top = box
    mass = 0.0
    for i in range(beta.shape[0]):
        beta[i] = min(max(p * betas[0][i] + q * betas[1][i], low), top)
        a, b = scores[0][i], scores[1][i]
        score[i] = p * a + q * b
        error = p * radii[0][i] + q * radii[1][i] + 4.5e-16 * (abs(a) + abs(b) + lengths * norms[i])
        radius[i] = 1.000001 * error
        mass += c[i] * (abs(betas[0][i]) + abs(betas[1][i])) * norms[i]
    return mass


# -------------------------------------------------------------------------------------------------------------------- ranges


class ProvenRange(NamedTuple):
    """Values of C, from the least to the largest, and certificates of one pair there: they hold for all C between, too."""

    Cs: tuple[float, ...]
    certificates: tuple[Certificate, ...]

    def at(self, C: float) -> Certificate:
        """Return the certificate at a C of the range: P is affine in λ = 1/C, D concave, and the gap convex."""
        if not self.Cs[0] <= C <= self.Cs[-1]:
            raise ValueError(f"C={C!r} is not in the proven range from {self.Cs[0]!r} to {self.Cs[-1]!r}")
        k = max(1, next(k for k, end in enumerate(self.Cs) if end >= C))
        (low, high), (first, second) = self.Cs[k - 1 : k + 1], self.certificates[k - 1 : k + 1]
        if C in (low, high):
            return second if high == C else first
        share = (1.0 / low - 1.0 / C) / (1.0 / low - 1.0 / high)  # of the second end; SLACK is for its rounding
        primal, dual, gap = (
            a + share * (b - a) for a, b in ((first.primal, second.primal), (first.dual, second.dual), (first.gap, second.gap))
        )
        slack = SLACK * (abs(first.primal) + abs(second.primal))
        radius = max(first.radius, second.radius) + 2.0 * slack
        return Certificate(round_up(primal + slack), -round_up(slack - dual), "solver", radius, round_up(gap + slack))


def excess_at(pair: Pair, strengths: Strengths, epsilon: float, C: float) -> float:
    """Return an upper bound of gap − ε·D at C; at most 0 proves that the model is within ε of the optimum there."""
    found = pair.at(*strengths(C))
    # gap ≤ ε·D is (1 + ε)·gap ≤ ε·P.
    bound = (1.0 + epsilon) * found.gap_bound - (epsilon * (1.0 - 8.0 * ROUNDOFF) - SLACK) * found.objective.lower
    return math.inf if math.isnan(bound) else round_up(bound) + SLACK * abs(found.objective.value)


def reach(pair: Pair, strengths: Strengths, epsilon: float, C: float, limit: float) -> float:
    """Return a value of C, as near to `limit` as the proof goes, up to which the model is within ε of the optimum, starting at C."""

    def value(x: float) -> float:
        """λ·(gap − ε·D), λ = 1/C: with l2 alone a parabola in λ, with an l1 part nearly one."""
        return x * excess_at(pair, strengths, epsilon, 1.0 / x)

    if excess_at(pair, strengths, epsilon, limit) <= 0.0:
        return limit
    inside, outside = (1.0 / C, value(1.0 / C)), (1.0 / limit, value(1.0 / limit))
    if inside[1] > 0.0:
        return C
    start = inside[1]
    middle = math.sqrt(inside[0] * outside[0])
    spare = (middle, value(middle))
    missed = 0  # roots in a row that were outside
    for _ in range(ROUNDS):
        if spare[1] <= 0.0:
            inside, spare, missed = spare, inside, 0
        else:
            outside, spare, missed = spare, outside, missed + 1
        # With an l1 part and w = 0 the gap is 0 up to some C and rises from there: parabolas then come near the end from outside alone.
        root = _parabola_root(inside, outside, spare) if missed < 2 else math.sqrt(inside[0] * outside[0])
        found = (root, value(root))
        if NEAR_END * start <= found[1] <= 0.0:
            return 1.0 / root
        spare = found
    return 1.0 / (spare if spare[1] <= 0.0 else inside)[0]


def _parabola_root(inside: tuple[float, float], outside: tuple[float, float], third: tuple[float, float]) -> float:
    """Return a point just inside the root of the parabola through three points (x, value); half way where there is none."""
    (a, at_a), (b, at_b), (c, at_c) = inside, outside, third
    slope = (at_b - at_a) / (b - a)
    bend = ((at_c - at_a) / (c - a) - slope) / (c - b) if c not in (a, b) else 0.0
    # value(a + s) = at_a + (slope + bend·(a − b))·s + bend·s²
    linear = slope + bend * (a - b)
    root = linear * linear - 4.0 * bend * at_a
    if math.isfinite(root) and root >= 0.0:
        steps = [-2.0 * at_a / total for sign in (1.0, -1.0) if (total := linear + sign * math.sqrt(root)) != 0.0]
        for s in steps:
            if 0.0 < s / (b - a) < 1.0:
                return a + (1.0 - 1e-6) * s
    return math.sqrt(a * b)


def proven_range(pair: Pair, strengths: Strengths, Cs: tuple[float, ...]) -> ProvenRange:
    """Return the certificates of a pair at some values of C, which prove it between them."""
    return ProvenRange(Cs, tuple(certificate_of_pair(pair.at(*strengths(C)), "solver") for C in Cs))
