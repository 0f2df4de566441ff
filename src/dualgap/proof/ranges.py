"""Pair: a model and a dual point for every strength of the penalty. A proof at two values of C is one for all values between them.

Let the penalty be λR(w), λ > 0. Losses and the box of β do not depend on λ, so that for fixed (w, b) and β

    P(λ)   = Σ cᵢφ(mᵢ) + λR(w)
    gap(λ) = Σ cᵢ[φ(mᵢ) − ψ(βᵢ) + βᵢmᵢ]  +  λR(w) + λR*(u/λ) − u·w

P is affine in λ. λR*(u/λ), the perspective of a convex function, is convex. Hence gap(λ) − ε·P(λ) is convex: if it is at most 0 at two λ,
it is at all λ between (the idea of Giesen, Laue, Müller and Swiercy 2012; Ndiaye, Le, Fercoq, Salmon and Takeuchi 2019, docs/references.md).
The values at the two ends are enclosed as those of every certificate are, and need no pass over the data.

`mixed` is the pair (1 − t)·first + t·second. P is convex in (w, b) and −D in β, so that its gap is at most the mean of the two gaps. Halfway
between two values of C it is far below either: only the curvature of the path is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    SMALLEST,
    balance_radius,
    gamma,
    length_bound,
    make_penalty,
    round_up,
    weighted_balance,
)
from dualgap.problem import Problem
from dualgap.proof.bounded_scores import Scores, kernel_scores
from dualgap.proof.certificate import Certificate, certificate_of_pair
from dualgap.proof.certified import _margins, _moved
from dualgap.proof.dual_points import dual_point
from dualgap.proof.enclosure import (
    PIECE,
    Enclosed,
    RowSums,
    bias_excess,
    exact_sum,
    penalty_excess,
    penalty_value,
    row_sums,
    score_margins,
)

__all__ = ["Pair", "ProvenRange", "Strengths", "excess_at", "make_pair", "mixed", "proven_range", "reach"]

SLACK = 1e-13  # relative to P: more than the rounding of l2 and l1, computed from C, can change a gap by
ROUNDS = 7  # steps towards the end of a range; each halves the part that is left open, or better
MIX_ERROR = 4.0 * ROUNDOFF  # relative to both terms: rounding of (1 − t)·a + t·b

Strengths = Callable[[float], tuple[float, float]]  # C -> (l2, l1), both proportional to 1/C


class _Square(NamedTuple):
    """‖w‖², u·w and ‖u‖² with bounds on their errors, and `error`, which bounds the distance of u from that of the exact β."""

    ww: tuple[float, float]
    uw: tuple[float, float]
    uu: tuple[float, float]
    error: float

    def penalty(self, l2: float, l1: float) -> tuple[float, float]:
        value, radius = self.ww
        return 0.5 * l2 * value, 0.5 * l2 * (radius + 4.0 * ROUNDOFF * value) + SMALLEST

    def excess(self, l2: float, l1: float, shift: float) -> tuple[float, float]:
        """(l2/2)‖w − u/l2‖², and a bound on its error if u may be off by `shift` more."""
        parts = 0.5 * l2 * self.ww[0], -self.uw[0], 0.5 * self.uu[0] / l2
        radius = 0.5 * l2 * self.ww[1] + self.uw[1] + 0.5 * self.uu[1] / l2 + 8.0 * ROUNDOFF * sum(map(abs, parts))
        value = max(sum(parts), 0.0)
        step = (self.error + shift) / math.sqrt(2.0 * l2) * 1.000001
        return value, 1.000001 * (radius + step * (2.0 * math.sqrt(value + radius) + step)) + SMALLEST


class _ElasticNet(NamedTuple):
    """w and u themselves: with an l1 part, R*(u) is no function of ‖u‖."""

    coef: np.ndarray
    u: np.ndarray
    error: float

    def penalty(self, l2: float, l1: float) -> tuple[float, float]:
        return penalty_value(l1, l2, self.coef)

    def excess(self, l2: float, l1: float, shift: float) -> tuple[float, float]:
        v = self.u / l2
        error = 1.000001 * (self.error + shift) / l2 + 2.0 * ROUNDOFF * length_bound(v)
        return penalty_excess(make_penalty(l2, l1), self.coef, v, np.zeros(1), error)


class _Coordinates(NamedTuple):
    """w and u as vectors of d numbers, and the scores of w; ‖u − Σ cβyx‖ ≤ error."""

    coef: np.ndarray
    u: np.ndarray
    scores: Scores
    error: float

    def mixed(self, other: _Coordinates, p: float, q: float, norms: np.ndarray) -> _Coordinates:
        error = p * self.error + q * other.error + MIX_ERROR * (length_bound(self.u) + length_bound(other.u))
        lengths = length_bound(self.coef) + length_bound(other.coef)
        scores = _mixed_scores(self.scores, other.scores, p, q, norms, lengths)
        return _Coordinates(scores.a, p * self.u + q * other.u, scores, 1.000001 * error)

    def terms(self, l1: float) -> _Square | _ElasticNet:
        if l1 > 0.0:
            return _ElasticNet(self.coef, self.u, self.error)
        return _Square(_product(self.coef, self.coef), _product(self.u, self.coef), _product(self.u, self.u), self.error)

    def distances(self, other: _Coordinates) -> tuple[float, float]:
        """‖w − w'‖² and ‖u − u'‖², to rounding."""
        w, u = self.coef - other.coef, self.u - other.u
        return float(w @ w), float(u @ u)


class _Expansions(NamedTuple):
    """w = Σ aⱼφ(xⱼ) and u = Σ sⱼφ(xⱼ) of a kernel machine: a, s, and the scores K·a and K·s with bounds on their errors."""

    coef: np.ndarray
    own: np.ndarray
    scores: Scores
    own_scores: Scores
    error: float

    def mixed(self, other: _Expansions, p: float, q: float, norms: np.ndarray) -> _Expansions:
        scores = _mixed_scores(self.scores, other.scores, p, q, norms)
        own = _mixed_scores(self.own_scores, other.own_scores, p, q, norms)
        error = p * self.error + q * other.error + MIX_ERROR * float((np.abs(self.own) + np.abs(other.own)) @ norms)
        return _Expansions(scores.a, own.a, scores, own, 1.000001 * error)

    def terms(self, l1: float) -> _Square:
        return _Square(
            _expanded(self.coef, self.scores), _expanded(self.coef, self.own_scores), _expanded(self.own, self.own_scores), self.error
        )

    def distances(self, other: _Expansions) -> tuple[float, float]:
        w = (self.coef - other.coef) @ (self.scores.values - other.scores.values)
        u = (self.own - other.own) @ (self.own_scores.values - other.own_scores.values)
        return max(float(w), 0.0), max(float(u), 0.0)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    pieces = [(a[k : k + PIECE], b[k : k + PIECE]) for k in range(0, len(a), PIECE)]
    sizes = exact_sum(length_bound(x) * length_bound(z) for x, z in pieces)
    return exact_sum(float(x @ z) for x, z in pieces), gamma(PIECE + 16) * sizes + SMALLEST


def _expanded(a: np.ndarray, scores: Scores) -> tuple[float, float]:
    """(Σ aⱼφ(xⱼ))·w for the w of these scores."""
    sizes = np.abs(a)
    radius = float(sizes @ scores.radius + gamma(len(a) + 8) * (sizes @ np.abs(scores.values)))
    return float(a @ scores.values), 1.000001 * radius + SMALLEST


def _mixed_scores(first: Scores, second: Scores, p: float, q: float, norms: np.ndarray, lengths: float | None = None) -> Scores:
    """Return the scores of p·a + q·a', which is rounded; `lengths`: ‖w‖ + ‖w'‖, or a bound (by default for expansions)."""
    if lengths is None:
        lengths = float((np.abs(first.a) + np.abs(second.a)) @ norms)
    values = p * first.values + q * second.values
    radius = p * first.radius + q * second.radius
    radius += MIX_ERROR * (np.abs(first.values) + np.abs(second.values) + lengths * norms)
    return Scores(p * first.a + q * second.a, values, 1.000001 * radius, certified=False)


@dataclass(frozen=True)
class Pair:
    """A model (w, b) and a feasible β of a problem; `at` encloses P and the gap for any strength of the penalty.

    Its problem gives the data, loss, weights and kind of intercept. Of the penalty it gives the ratio of l1 to l2 alone.
    """

    problem: Problem
    intercept: float
    beta: np.ndarray
    vectors: _Coordinates | _Expansions
    terms: _Square | _ElasticNet
    rows: RowSums
    balance: tuple[float, float]  # Σ cβy and a bound on its error
    cost: float  # what it takes to make a free intercept's condition hold exactly; infinite where that is not possible
    shift: float  # how far u moves by it

    @property
    def coef(self) -> np.ndarray:
        """w, or the expansion of a kernel machine."""
        return self.vectors.coef

    def at(self, l2: float, l1: float) -> Enclosed:
        """Enclose P and P − D for another strength of the penalty, in O(1), or in O(d) with an l1 part."""
        problem, sums = self.problem, self.rows
        penalty, penalty_radius = self.terms.penalty(l2, l1)
        excess, radius = self.terms.excess(l2, l1, self.shift)
        if problem.intercept == "penalised":
            own, own_radius = penalty_value(0.0, l2, np.array([self.intercept / problem.intercept_scale]))
            more, more_radius = bias_excess(l2, problem.intercept_scale, self.intercept, *self.balance)
            penalty, penalty_radius = penalty + own, penalty_radius + own_radius
            excess, radius = excess + more, radius + more_radius
        objective, gap = sums.loss + penalty, sums.gap + excess
        return Enclosed(
            objective,
            sums.loss_radius + penalty_radius + 4.0 * ROUNDOFF * objective,
            gap,
            sums.gap_radius + radius + self.cost + 4.0 * ROUNDOFF * gap,
        )


def make_pair(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Pair:
    """Return the pair of a model and a dual point, β made feasible; it takes the two passes over the data of a certificate."""
    point, l2 = dual_point(problem, beta), problem.l2
    vectors: _Coordinates | _Expansions
    if problem.kernel is None:
        assert point.v is not None
        margins = _margins(problem, coef, intercept, precise=False)
        scores = Scores(coef, margins.scores_, margins.factor * margins.scale, certified=True)
        vectors = _Coordinates(coef, l2 * point.v, scores, l2 * (point.error + 4.0 * ROUNDOFF * length_bound(point.v)))
    else:
        assert point.coef is not None
        own = kernel_scores(problem, point.coef)
        scores = own if np.array_equal(coef, point.coef) else kernel_scores(problem, coef)
        s = l2 * point.coef
        radius = l2 * (own.radius + 4.0 * ROUNDOFF * (np.abs(own.values) + float(np.abs(point.coef) @ problem.norms) * problem.norms))
        error = 8.0 * ROUNDOFF * float(np.abs(s) @ problem.norms)
        vectors = _Expansions(coef, s, scores, Scores(s, l2 * own.values, radius, certified=True), error)
    return _pair(problem, intercept, point.beta, vectors)


def mixed(first: Pair, second: Pair, t: float) -> Pair:
    """Return the pair (1 − t)·first + t·second, without a pass over the data."""
    problem, p, q = first.problem, 1.0 - t, t
    beta = np.clip(p * first.beta + q * second.beta, 0.0, problem.loss.upper_bound())
    vectors = first.vectors.mixed(second.vectors, p, q, problem.norms)  # type: ignore[arg-type]
    # β is rounded too.
    error = vectors.error + MIX_ERROR * float((problem.c * (first.beta + second.beta)) @ problem.norms)
    return _pair(problem, p * first.intercept + q * second.intercept, beta, vectors._replace(error=1.000001 * error))


def _pair(problem: Problem, intercept: float, beta: np.ndarray, vectors: _Coordinates | _Expansions) -> Pair:
    scores = vectors.scores
    margins = score_margins(scores.values, problem.y, intercept, scores.radius, 1.0)
    sums = row_sums(problem.loss, problem.samples, margins, beta)
    rest, mass = (float(x) for x in weighted_balance(problem.c, problem.y, beta, 0.0))
    off = balance_radius(rest, mass, problem.n)
    cost = shift = 0.0
    if problem.intercept == "free":
        row, cost, moved = _moved(problem, margins, beta, rest, off)
        shift = moved * float(problem.norms[row]) if row >= 0 else math.inf
    return Pair(problem, intercept, beta, vectors, vectors.terms(problem.l1), sums, (rest, off), cost, shift)


# -------------------------------------------------------------------------------------------------------------------- ranges


class ProvenRange(NamedTuple):
    """Values of C, from the least to the largest, and certificates of one pair there: they hold for all C between, too."""

    Cs: tuple[float, ...]
    certificates: tuple[Certificate, ...]

    def at(self, C: float) -> Certificate:
        """Return the certificate at a C of the range: P is affine in λ = 1/C, D concave, and the gap convex."""
        if not self.Cs[0] <= C <= self.Cs[-1]:
            raise ValueError(f"C={C!r} is not in the proven range from {self.Cs[0]!r} to {self.Cs[-1]!r}")
        k = max(1, next(k for k, end in enumerate(self.Cs) if C <= end))
        (low, high), (first, second) = self.Cs[k - 1 : k + 1], self.certificates[k - 1 : k + 1]
        if C in (low, high):
            return second if C == high else first
        share = (1.0 / low - 1.0 / C) / (1.0 / low - 1.0 / high)  # of the second end; SLACK is for its rounding
        primal, dual, gap = (
            a + share * (b - a)
            for a, b in ((first.primal, second.primal), (first.dual, second.dual), (first.gap, second.gap))
        )
        slack = SLACK * (abs(first.primal) + abs(second.primal))
        radius = max(first.radius, second.radius) + 2.0 * slack
        return Certificate(round_up(primal + slack), -round_up(slack - dual), "solver", radius, round_up(gap + slack))


def excess_at(pair: Pair, strengths: Strengths, epsilon: float, C: float) -> float:
    """Return an upper bound of gap − ε·D at C; at most 0 proves that the model is within ε of the optimum there."""
    found = pair.at(*strengths(C))
    # gap ≤ ε·D is (1 + ε)·gap ≤ ε·P.
    least = found.objective - found.radius_of_objective
    bound = (1.0 + epsilon) * found.gap_bound - (epsilon * (1.0 - 8.0 * ROUNDOFF) - SLACK) * least
    return math.inf if math.isnan(bound) else round_up(bound) + SLACK * abs(found.objective)


def reach(pair: Pair, strengths: Strengths, epsilon: float, C: float, limit: float) -> float:
    """Return a value of C, as near to `limit` as the proof goes, up to which the model is within ε of the optimum, starting at C."""
    inside, inner = C, excess_at(pair, strengths, epsilon, C)
    if inner > 0.0 or limit == C:
        return C
    outside, outer = limit, excess_at(pair, strengths, epsilon, limit)
    if outer <= 0.0:
        return limit
    for k in range(ROUNDS):
        if k % 2 == 0 and outer < math.inf:  # the chord of a convex function is above it: its zero is inside
            share = inner / (inner - outer)
            middle = 1.0 / (1.0 / inside + share * (1.0 / outside - 1.0 / inside))
        else:
            middle = math.sqrt(inside * outside)
        if not min(inside, outside) < middle < max(inside, outside):
            break
        value = excess_at(pair, strengths, epsilon, middle)
        if value <= 0.0:
            inside, inner = middle, value
        else:
            outside, outer = middle, value
    return inside


def proven_range(pair: Pair, strengths: Strengths, Cs: tuple[float, ...]) -> ProvenRange:
    """Return the certificates of a pair at some values of C, which prove it between them."""
    return ProvenRange(Cs, tuple(certificate_of_pair(pair.at(*strengths(C)), "solver") for C in Cs))
