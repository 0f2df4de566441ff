"""Forgetting rows: the certificate of a model on the rows that stay, and how far retraining on them can take it at most.

The model (w, b) is kept. What changes is what is proven of it, in time proportional to the rows forgotten and their features, and d:

    P on the rows that stay      P(w, b) minus the forgotten rows' losses
    dual point β'                the forgotten rows' β dropped: u' = u − Σ cβyx over them. With a free intercept what is left of Σ cβy is
                                 taken from a `Reservoir` of rows that stay
    gap                          the gap over the rows minus that of the forgotten ones, plus the reservoir's cost, plus
                                 R(w) + R*(u') − u'·w, of which only u' is new
    distance                     w* of the rows that stay is within √(gap/l2 − ‖w − w(β')‖²/4) of (w + w(β'))/2
    b*                           inequality (1) of without_rows.py, with w* free

A preparation, one pass over the data, is made once a fit. Calls add up: all of it is about all rows forgotten since the fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dualgap.answers.evidence import UP, Evidence, Reservoir, evidence_of, least_ratio
from dualgap.core import ROUNDOFF, Bounded, accumulate, exact_sum, gamma, kernel, length_bound, some
from dualgap.problem import Problem
from dualgap.proof import (
    UNKNOWN,
    Certificate,
    Enclosed,
    RowSums,
    assemble,
    balance,
    bias_terms,
    certificate_of_pair,
    margins_of,
    penalty_excess,
    penalty_value,
    row_sums,
)

__all__ = ["Remaining", "RemainingProof", "remaining_of"]

LEVELS = (1e-3, 1e-2, 1e-1)  # masses of reservoirs, as shares of Σ cβ over one class


class Gone(NamedTuple):
    """What forgotten rows have taken out of a reservoir: mass, Σ mass·x, and a lower bound of their cost."""

    mass: float
    rows: np.ndarray
    cost: float


class _Mean(NamedTuple):
    """The mean row of what is left of a reservoir, a bound on its error, and an upper bound of the exact one's length."""

    row: np.ndarray
    error: float
    size: float


class RemainingProof(NamedTuple):
    """What is proven of the kept model on the rows that stay.

    `distance` bounds ‖w − w*‖ (with a penalised intercept, b/intercept_scale is one of the coordinates), and `intercept` contains b*.
    """

    certificate: Certificate
    distance: float
    intercept: tuple[float, float]


@dataclass(frozen=True)
class Remaining:
    """A model and a dual point, evaluated once, and sums over the rows that were forgotten since."""

    evidence: Evidence
    sums: RowSums  # over all rows
    rest: Bounded  # Σ cβy over all rows
    reservoirs: tuple[Reservoir, ...]
    held: np.ndarray  # which rows are in a reservoir
    taken: tuple[Gone, ...]  # out of each reservoir
    gone: np.ndarray  # which rows are forgotten
    dropped: np.ndarray  # Σ cβyx over them
    mass: float  # Σ cβ‖x‖ over them
    balance: float  # Σ cβy over them
    weight: float  # Σ cβ over them
    count: int
    gap: float  # a lower bound of their part of the gap
    loss: tuple[float, float]  # bounds of their losses

    def without(self, rows: np.ndarray) -> Remaining:
        """Return the same with more rows forgotten; they must not be forgotten yet."""
        evidence, problem = self.evidence, self.evidence.problem
        rows = np.sort(rows)  # neighbours in memory are read one after the other
        c, beta, y = problem.c[rows], evidence.point.beta[rows], problem.y[rows]
        dropped = self.dropped.copy()
        chosen = some(problem.rows, rows)
        accumulate(chosen, c * beta * y, dropped)
        gone = self.gone.copy()
        gone[rows] = True
        most, held = np.empty(len(rows)), rows[self.held[rows]]
        _largest_losses(problem.loss, y * evidence.scores[rows], evidence.off[rows], c, most)
        return replace(
            self,
            taken=tuple(self._taken(each, before, held) for each, before in zip(self.reservoirs, self.taken, strict=True)),
            gone=gone,
            dropped=dropped,
            mass=self.mass + float((c * beta) @ problem.norms[rows]),
            balance=exact_sum([self.balance, *(c * beta * y).tolist()]),
            weight=self.weight + float(c @ beta),
            count=self.count + len(rows),
            gap=self.gap + exact_sum(evidence.gaps[rows].tolist()) * (1.0 - 1e-12),
            loss=(
                self.loss[0] + exact_sum(evidence.losses[rows].tolist()) * (1.0 - 1e-12),
                self.loss[1] + exact_sum(most.tolist()) * UP,
            ),
        )

    def _taken(self, at: Reservoir, before: Gone, rows: np.ndarray) -> Gone:
        """Take rows out of a reservoir that it may have, in ascending order."""
        place = np.minimum(np.searchsorted(at.rows, rows), len(at.rows) - 1)
        inside = at.rows[place] == rows
        if not inside.any():
            return before
        place, total = place[inside], before.rows.copy()
        accumulate(some(self.evidence.problem.rows, rows[inside]), at.masses[place], total)
        return Gone(
            before.mass + exact_sum(at.masses[place].tolist()), total, before.cost + exact_sum(at.least_costs[place].tolist())
        )

    # --------------------------------------------------------------------------------------------------------------- proofs

    def prove(self) -> RemainingProof:
        """Return the certificate of the kept model on the rows that stay, and where the exact model is."""
        problem = self.evidence.problem
        best, gap = self._best, self._best.found.gap_bound
        certificate = certificate_of_pair(best.found, "solver")
        squared = max(gap / problem.l2 * UP - 0.25 * best.least_apart**2, 0.0)
        radius = math.sqrt(squared) * UP if math.isfinite(squared) else math.inf
        distance = min(0.5 * best.apart + radius, math.sqrt(2.0 * gap / problem.l2) if math.isfinite(gap) else math.inf) * UP
        if best.zero:
            certificate = replace(certificate, dual=0.0)
        return RemainingProof(certificate, distance, self._intercept(radius, best.zero))

    @cached_property
    def _best(self) -> _Pair:
        best = min(self._pairs(), key=lambda pair: pair.found.gap_bound)
        return best if best.found.dual >= 0.0 else self._zero()

    def _zero(self) -> _Pair:
        """Return the kept model with β = 0, whose model is w = 0 and whose bound is 0."""
        evidence, problem = self.evidence, self.evidence.problem
        loss, penalty = self._objective()
        objective = loss + penalty
        apart = length_bound(evidence.coef - problem.penalty.primal(np.zeros(problem.d)))
        if problem.intercept == "penalised":
            apart = math.hypot(apart, evidence.intercept / problem.intercept_scale)
        return _Pair(Enclosed(objective, objective), None, 0.0, apart * UP, apart * (1.0 - gamma(problem.d + 16)), zero=True)

    def _pairs(self) -> list[_Pair]:
        """Enclose the kept model with the dropped dual point, balanced by each reservoir that can."""
        problem = self.evidence.problem
        rest, off = self._rest()
        if problem.intercept != "free":
            return [self._pair(None, 0.0, 0.0, 0.0)]
        side, found = (1.0 if rest > 0.0 else -1.0), []
        if abs(rest) <= 4.0 * off:
            # The sign of what is left is not known: its size counts as an error on both sides.
            costs = [self._slope(k) for k in range(len(self.reservoirs)) if self._left(k) > 8.0 * off]
            sides = {each.side for k, each in enumerate(self.reservoirs) if self._left(k) > 8.0 * off}
            if len(sides) == 2 or rest == off == 0.0:
                longest = max((each.length + each.drift for each in self.reservoirs), default=0.0)
                cost = max([0.0, *costs]) * 5.0 * off
                found.append(self._pair(None, 0.0, cost, 5.0 * off * longest))
        for k, each in enumerate(self.reservoirs):
            if each.side == side and self._left(k) * (1.0 - 1e-9) > abs(rest) + off:
                cost = max(self._slope(k), 0.0) * (abs(rest) + off)
                found.append(self._pair(k, abs(rest), cost, off * self._means[k].size))
        return found or [_Pair(Enclosed(self._objective()[0] + self._objective()[1], UNKNOWN), None, 0.0, math.inf, 0.0)]

    def _rest(self) -> Bounded:
        """Return Σ cβy over the rows that stay."""
        if self.evidence.problem.intercept == "none":
            return Bounded(0.0)
        return (self.rest - self.balance).wider(8.0 * ROUNDOFF * (self.weight + abs(self.rest.value)))

    def _left(self, k: int) -> float:
        return (self.reservoirs[k].mass - self.taken[k].mass) * (1.0 - 1e-12)

    def _slope(self, k: int) -> float:
        """Return an upper bound of the cost for a unit of mass that is left in a reservoir."""
        at, taken, left = self.reservoirs[k], self.taken[k], self._left(k)
        return (at.cost - taken.cost) / left + 64.0 * ROUNDOFF * (abs(at.cost) + abs(taken.cost)) / left

    @cached_property
    def _means(self) -> list[_Mean]:
        """The mean rows of the reservoirs, with the forgotten rows taken out."""
        found = []
        for k, (at, taken) in enumerate(zip(self.reservoirs, self.taken, strict=True)):
            assert at.mean is not None
            if not self._left(k) > 0.0:
                found.append(_Mean(at.mean, math.inf, math.inf))
                continue
            row = (at.mean * at.mass - taken.rows) / (at.mass - taken.mass)
            rounding = gamma(self.count + len(at.rows) + 64) * (at.mass * at.length + length_bound(taken.rows))
            error = ((at.drift * at.mass + rounding) / self._left(k)) * 4.0
            found.append(_Mean(row, error, length_bound(row) + error))
        return found

    def _pair(self, k: int | None, tau: float, cost: float, shift: float) -> _Pair:
        evidence, problem = self.evidence, self.evidence.problem
        assert evidence.point.v is not None
        moved = self.dropped.copy()
        error = gamma(self.count + 32) * self.mass + shift
        if k is not None:
            mean = self._means[k]
            moved += self.reservoirs[k].side * tau * mean.row
            error += tau * mean.error + 8.0 * ROUNDOFF * tau * mean.size
        v = evidence.point.v - moved / problem.l2
        error = (
            error / problem.l2 + evidence.point.error + 8.0 * ROUNDOFF * (length_bound(v) + length_bound(moved) / problem.l2)
        ) * UP
        excess = penalty_excess(problem.penalty, evidence.coef, v, np.zeros(1), error)
        apart, bias, (loss, penalty) = length_bound(evidence.coef - problem.penalty.primal(v)), 0.0, self._objective()
        if problem.intercept == "penalised":
            rest = self._rest()
            excess += bias_terms(problem.l2, problem.intercept_scale, evidence.intercept, rest)[1]
            bias = abs(evidence.intercept / problem.intercept_scale - problem.intercept_scale * rest.value / problem.l2)
            error += problem.intercept_scale * rest.radius / problem.l2
        error += 8.0 * ROUNDOFF * (length_bound(evidence.coef) + problem.penalty.threshold() * math.sqrt(problem.d) + bias)
        distance = math.hypot(apart, bias)
        rows = (self.sums.gap - self.gap).nonnegative().wider(8.0 * ROUNDOFF * self.gap)
        found = assemble(RowSums(loss, rows), penalty, excess, cost)
        return _Pair(found, k, tau, distance * UP + error, max(distance * (1.0 - gamma(problem.d + 16)) - error, 0.0))

    def _objective(self) -> tuple[Bounded, Bounded]:
        """Return the losses of the rows that stay, and R(w)."""
        evidence, problem = self.evidence, self.evidence.problem
        penalty = penalty_value(problem.l1, problem.l2, evidence.coef)
        if problem.intercept == "penalised":
            penalty += bias_terms(problem.l2, problem.intercept_scale, evidence.intercept, Bounded(0.0))[0]
        low, high = self.loss
        return self.sums.loss - (Bounded(low) + high).wider(high - low) * 0.5, penalty

    def _intercept(self, radius: float, zero: bool) -> tuple[float, float]:
        """Return an interval of b* for the rows that stay; `zero`: the radius is that of β = 0."""
        evidence, problem = self.evidence, self.evidence.problem
        b, (rest, off) = evidence.intercept, Bounded(0.0) if zero else self._rest()
        if problem.intercept == "none":
            return 0.0, 0.0
        if problem.intercept == "penalised":
            scale = problem.intercept_scale
            other = scale * scale * rest / problem.l2
            wide = scale * (radius + scale * off / problem.l2) * UP + 8.0 * ROUNDOFF * (abs(b) + abs(other))
            return 0.5 * (b + other) - wide, 0.5 * (b + other) + wide
        ends = {
            side: min((self._end(k, side) for k, at in enumerate(self.reservoirs) if at.side == side), default=math.inf)
            for side in (-1.0, 1.0)
        }
        slack = 8.0 * ROUNDOFF * abs(b)
        return b - ends[-1.0] - slack, b + ends[1.0] + slack

    def _end(self, k: int, side: float) -> float:
        """Return an upper bound of side·(b* − b) by the moves of a reservoir of that side."""
        evidence, problem, l2 = self.evidence, self.evidence.problem, self.evidence.problem.l2
        if not self._left(k) > 0.01 * self.reservoirs[k].mass or not math.isfinite(evidence.base):
            return math.inf
        (mean, mean_error, length), (rest, off) = self._means[k], self._rest()
        longest = float(problem.norms[evidence.fixed]) if evidence.fixed >= 0 else 0.0
        error = gamma(self.count + 32) * self.mass + l2 * evidence.drift + evidence.moved * longest
        size = length_bound(self.dropped) + error
        inner = gamma(problem.d + 16)
        along = side * float(self.dropped @ mean) + inner * size * length + error * length + size * mean_error
        base = max(evidence.base - self.gap, 0.0) * UP + size * size / (4.0 * l2) * UP + evidence.drift * size
        slope = self._slope(k) + along / (2.0 * l2) + evidence.drift * length
        if evidence.apart is not None:
            apart = length_bound(evidence.apart)
            base += 0.5 * (float(evidence.apart @ self.dropped) + inner * apart * size + apart * error)
            slope += 0.5 * (side * float(evidence.apart @ mean) + inner * apart * length + apart * mean_error)
        slope += 32.0 * ROUNDOFF * abs(slope)
        value = least_ratio(
            max(base, 0.0), slope, length * length / (4.0 * l2) * UP, -side * rest, off + evidence.moved, self._left(k)
        )
        return float(value)

    def dual(self) -> np.ndarray:
        """Return the dual point of the certificate that `prove` returns."""
        best = self._best
        problem, beta = self.evidence.problem, self.evidence.point.beta.copy()
        beta[self.gone] = 0.0
        if best.zero:
            return np.zeros_like(beta)
        if best.reservoir is not None:
            at = self.reservoirs[best.reservoir]
            stays = ~self.gone[at.rows]
            rows, part = at.rows[stays], best.tau / self._left(best.reservoir)
            changed = beta[rows] - at.side * problem.y[rows] * at.masses[stays] / problem.c[rows] * part
            beta[rows] = np.clip(changed, 0.0, problem.loss.upper_bound())
        return beta


class _Pair(NamedTuple):
    """The kept model with a dual point: the enclosure, the reservoir with the mass taken from it, and bounds of ‖w − w(β')‖."""

    found: Enclosed
    reservoir: int | None
    tau: float
    apart: float
    least_apart: float
    zero: bool = False  # whether β = 0


def remaining_of(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Remaining:
    """Prepare a linear model and a dual point for rows to be forgotten: one pass over the data, and some over n numbers."""
    evidence = evidence_of(problem, coef, intercept, beta)
    sums = row_sums(problem.loss, problem.samples, margins_of(problem, coef, intercept), evidence.point.beta)
    reservoirs: tuple[Reservoir, ...] = ()
    if problem.intercept == "free" and math.isfinite(evidence.base):
        mass = 0.5 * float(problem.c @ evidence.point.beta)
        reservoirs = tuple(each for side in (-1.0, 1.0) for each in evidence.reservoirs_of(side, mass, LEVELS))
    held = np.zeros(problem.n, dtype=bool)
    for each in reservoirs:
        held[each.rows] = True
    return Remaining(
        evidence=evidence,
        sums=sums,
        rest=balance(problem, evidence.point) if problem.intercept != "none" else Bounded(0.0),
        reservoirs=reservoirs,
        held=held,
        taken=tuple(Gone(0.0, np.zeros(problem.d), 0.0) for _ in reservoirs),
        gone=np.zeros(problem.n, dtype=bool),
        dropped=np.zeros(problem.d),
        mass=0.0,
        balance=0.0,
        weight=0.0,
        count=0,
        gap=0.0,
        loss=(0.0, 0.0),
    )


@kernel
def _largest_losses(loss, margins, off, c, out):
    """Upper bounds of c·φ(m): φ falls with the margin."""
    u = 1.1102230246251565e-16
    for i in range(margins.shape[0]):
        value = loss.value(margins[i] - off[i] - 8.0 * u * (1.0 + abs(margins[i])))
        out[i] = c[i] * value * (1.0 + 64.0 * u)
