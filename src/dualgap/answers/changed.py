"""Changed data: what a model and a dual point of a problem say of the exact model of the problem that lacks some of its rows.

The rows that stay keep their weights c, and l2 and l1 stay as they are, so that C is fixed. Let (w, b) and β be any model and dual point
of the whole problem, u = u(β), e = w − w(β), X = R(w) + R*(u) − u·w, and let (w*, b*) be the exact model of the rows that stay. For every
β' in the box of those rows, balanced or not, with r' = Σ cβ'y, Δ = u − Σ cβ'yx and G' = Σ c[φ(m) − ψ(β') + β'm] over them

    r'(b − b*) + l2·‖w* − (w + w(β))/2 + Δ/(2·l2)‖² ≤ G' + X − (l2/4)‖e‖² + ½Δ·e + ‖Δ‖²/(4·l2)                                     (1)

It adds up three inequalities: strong convexity of P at w*, that of Fenchel and Young for φ at β', and R(w*) ≥ u·w* − R*(u) +
(l2/2)‖w* − w(β)‖². The ball of the whole problem is the case Δ = 0, r' = 0.

Rows left out. β' drops their β, of which r = Σ cβy and D = Σ cβyx, and rows that stay move theirs: by a mass τ with mean row x̄ on the side
σ, σ·Σ cy(β − β') = τ, at a cost of at most κτ in the gap over the rows, for −φ* is concave. With μ = τ + σr > 0 the largest score that (1)
allows to any row q is

    σ(q·w* + b*) ≤ σ(q·w + b) + [A + κτ + ½e·z + ‖z‖²/(4·l2)]/μ        A = G + X − (l2/4)‖e‖² − g,  z = D − rq + στ(x̄ − q)         (2)

where G is the gap over all rows and g that of those left out. In τ the bracket is a parabola, and the best τ the root of a quadratic
equation. For τ < 0 the move is one to the other side. The rows that move are chosen beforehand, as a `Reservoir`; rows left out are taken
out of it. Each case says what it asks: a row left out asks for its own score, D = rq (`leave_one_out`); rows forgotten ask for the
intercept, q = 0 (`forgetting`). It brings A and, for each reservoir, a `Step`: κ, the slope of the bracket and its curvature.

Without an intercept, and with a penalised one, which is a coordinate of w, b is fixed: x̄ = 0, κ = 0 and any τ is allowed.

All numbers are upper or lower bounds: rounding is accounted for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, Bounded, accumulate, exact_sum, gamma, kernel, length_bound, scores, some
from dualgap.problem import Problem
from dualgap.proof import (
    DualPoint,
    MeanRow,
    balance,
    best_move,
    dual_point,
    enclose_sharply,
    kernel_scores,
    lens_of,
    margin_slopes,
    margins_of,
    mean_row,
)

__all__ = ["LEAST_LEFT", "UP", "Evidence", "Reservoir", "Step", "evidence_of", "largest_excess", "products", "without_rows"]

UP = 1.0 + 1e-12  # factor that covers the roundings of a formula of some ten operations
LEAST_LEFT = 0.01  # share of a reservoir's mass that must be left once rows are taken out of it
LEVELS = (3.0, 30.0)  # masses of reservoirs, in units of the largest cβ: a row left out needs about twice its own
DOUBLINGS = 200  # of the distance of margins up to which rows move, until a mass is reached

Numbers = float | np.ndarray


@dataclass(frozen=True)
class Reservoir:
    """Rows whose β can move so that side·Σ cβy falls: their masses, what that costs, and their mean row x̄.

    A part s of the move, s in [0, 1], has the mass s·mass and costs at most s·cost, for the gap over the rows is convex in β.
    """

    side: float
    rows: np.ndarray  # numbers of the rows, ascending
    masses: np.ndarray  # c|β − β'| of each
    least_costs: np.ndarray  # a lower bound of what each row's part of the gap rises by
    whole: float  # the mass before rows were taken out
    mass: float
    cost: float  # an upper bound of what the gap rises by
    mean: MeanRow

    @property
    def left(self) -> float:
        """A lower bound of the mass."""
        return self.mass * (1.0 - 1e-12)

    @property
    def slope(self) -> float:
        """κ: an upper bound of the cost of a unit of mass."""
        return (self.cost + 2e-12 * abs(self.cost)) / self.left

    def shares(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mass and the least cost of some rows; 0 of those that are not in it."""
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        inside = self.rows[place] == rows
        return np.where(inside, self.masses[place], 0.0), np.where(inside, self.least_costs[place], 0.0)

    def without(self, problem: Problem, rows: np.ndarray) -> Reservoir | None:
        """Return what is left once some rows of a linear model's data, in ascending order, are taken out; None if that is too little."""
        masses, costs = self.shares(rows)
        taken = np.flatnonzero(masses)
        if not len(taken):
            return self
        mass = self.mass - exact_sum(masses.tolist())
        if not mass > LEAST_LEFT * self.whole:
            return None
        total = np.zeros(problem.d)
        accumulate(some(problem.rows, rows[taken]), masses[taken], total)
        vector = (self.mean.vector * self.mass - total) / mass
        size = self.mass * self.mean.length + float(masses @ problem.norms[rows])
        error = self.mean.drift * self.mass + gamma(len(taken) + 64) * size * self.mass / mass
        mean = MeanRow(vector, length_bound(vector), error / mass * UP)
        cost = self.cost - exact_sum(costs.tolist())
        cost += 64.0 * ROUNDOFF * (abs(self.cost) + abs(cost))
        stay = ~np.isin(self.rows, rows)
        parts = self.rows[stay], self.masses[stay], self.least_costs[stay]
        return Reservoir(self.side, *parts, self.whole, mass, cost, mean)


class Step(NamedTuple):
    """What a reservoir brings into (2), for one question or for many: the bracket is A + slope·τ + curvature·τ², τ ≤ mass."""

    side: float
    slope: Numbers
    curvature: Numbers
    mass: Numbers


def largest_excess(base: Numbers, r: Bounded, steps: Sequence[Step], side: float) -> np.ndarray:
    """Return the least upper bound by (2) of side·(score of the exact model − score of the model); A is `base`."""
    own = side * r.value
    best = np.full(np.shape(own), np.inf)
    for step in steps:
        ratio = _least_ratio if step.side == side else _least_backwards
        best = np.minimum(best, ratio(base, step.slope, step.curvature, own, r.radius, step.mass))
    return best


@dataclass(frozen=True)
class Evidence:
    """A model and a dual point of a problem, evaluated once for questions about the problem without some of its rows.

    Attributes
    ----------
    point : the dual point made feasible
    base : an upper bound of G + X − (l2/4)‖e‖²
    apart : e = w − w(β), None where that is zero; `bias_apart` is its coordinate of a penalised intercept
    drift : bounds how far w(β) is from that of the exactly feasible β, which differs in row `fixed` by the mass `moved`
    scores, off : x·w + b of every row, and bounds on the errors
    gaps, losses : lower bounds of each row's part of the gap, and of its c·φ(m)
    """

    problem: Problem
    coef: np.ndarray
    intercept: float
    point: DualPoint
    base: float
    apart: np.ndarray | None
    bias_apart: Bounded
    drift: float
    fixed: int
    moved: float
    scores: np.ndarray
    off: np.ndarray
    gaps: np.ndarray
    losses: np.ndarray

    @cached_property
    def _reservoirs(self) -> dict[float, list[Reservoir]]:
        """Rows that can move, on each side, for the masses that one row left out may need."""
        largest = float((self.problem.c * self.point.beta).max())
        return {side: self.reservoirs_of(side, largest) for side in (-1.0, 1.0)}

    def reservoirs(self, side: float, some: bool) -> list[Reservoir]:
        """Return the reservoirs of a side for rows that are left out one at a time; `some`: they take a mass with them."""
        return self._reservoirs[side] if some else self.reservoirs_of(side)

    def reservoirs_of(self, side: float, unit: float = 0.0, levels: tuple[float, ...] = LEVELS) -> list[Reservoir]:
        """Make the reservoir with the least (gap + cost)/mass and, for a unit above 0, one for each of the masses unit·level."""
        margins = self.problem.y * self.scores
        found: list[np.ndarray | None] = [best_move(self.problem, margins, self.point.beta, side, self.base, self.fixed)]
        if unit > 0.0:
            found += [self._move_of_mass(margins, side, unit * level) for level in levels]
        made = [self._reservoir(margins, moved, side) for moved in found if moved is not None]
        return [each for each in made if each is not None]

    def _move_of_mass(self, margins: np.ndarray, side: float, mass: float) -> np.ndarray | None:
        """Return the β' whose move has at least this mass and takes the rows nearest to their kinks; None where there is no such mass."""
        problem, moved, T = self.problem, np.empty(self.problem.n), 1e-12
        for _ in range(DOUBLINGS):
            reached, _ = margin_slopes(problem.loss, problem.samples, margins, self.point.beta, side, T, self.fixed, moved)
            if reached >= mass:
                return moved
            if T > 1e6:
                return moved if reached > 0.0 else None
            T *= 4.0 if reached < 0.25 * mass else 1.5
        return moved

    def _reservoir(self, margins: np.ndarray, moved: np.ndarray, side: float) -> Reservoir | None:
        problem, beta = self.problem, self.point.beta
        rows = np.flatnonzero(moved != beta)
        if not len(rows):
            return None
        masses, low, high = (np.empty(len(rows)) for _ in range(3))
        _move_costs(problem.loss, problem.samples, margins, self.off, beta, moved, rows, masses, low, high)
        mass = exact_sum(masses.tolist())
        if not mass > 1e-290:
            return None
        cost = exact_sum(high.tolist())
        cost += 4.0 * ROUNDOFF * abs(cost) + SMALLEST
        return Reservoir(side, rows, masses, low, mass, mass, cost, mean_row(problem, rows, masses / mass))

    def apart_along(self, rows: np.ndarray) -> Bounded:
        """Return e·x of some rows, with the coordinate of a penalised intercept."""
        scale = self.problem.intercept_scale if self.problem.intercept == "penalised" else 0.0
        found = Bounded(np.zeros(len(rows))) if self.apart is None else products(self.problem, self.apart, rows)
        return found.wider(self.drift * np.hypot(self.problem.norms[rows], scale) * UP) + self.bias_apart * scale

    def apart_at(self, at: Reservoir) -> Bounded:
        """Return e·x̄ of a reservoir."""
        problem, mean = self.problem, at.mean
        wide = self.drift * (mean.length + mean.drift) * UP
        if self.apart is None:
            return Bounded(0.0, wide)
        if problem.kernel is None:
            size = length_bound(self.apart)
            found = Bounded(float(self.apart @ mean.vector), gamma(problem.d + 8) * size * mean.length)
        else:
            every, shares = products(problem, self.apart, at.rows), at.masses / at.mass
            size = float(np.abs(self.apart) @ problem.norms)
            rounding = float(shares @ every.radius) + gamma(len(shares) + 8) * float(shares @ np.abs(every.value))
            found = Bounded(float(shares @ every.value), rounding)
        return found.wider(wide + mean.drift * size * UP)


def _least_ratio(A: Numbers, B: Numbers, C: Numbers, a: Numbers, error: Numbers, mass: Numbers) -> np.ndarray:
    """Return about the least (A + Bτ + Cτ²)/(τ + a) over 0 ≤ τ ≤ mass with τ + a > 0: an upper bound of it, a known up to `error`."""
    with np.errstate(all="ignore"):
        mu = np.sqrt(np.maximum(A - B * a + C * a * a, 0.0) / C)
        tau = np.minimum(np.fmax(mu - a, 0.0), np.minimum(mass, 1e100))  # fmax takes 0 where the other one is not a number
        return _quotient(A, B, C, tau, (tau + (a - error)) - 8.0 * ROUNDOFF * (tau + np.abs(a)))


def _least_backwards(A: Numbers, B: Numbers, C: Numbers, a: Numbers, error: Numbers, mass: Numbers) -> np.ndarray:
    """Return about the least (A + Bτ + Cτ²)/(a − τ) over 0 ≤ τ ≤ mass with τ < a, as `_least_ratio` does."""
    with np.errstate(all="ignore"):
        mu = np.sqrt(np.maximum(A + B * a + C * a * a, 0.0) / C)
        tau = np.minimum(np.fmax(a - mu, 0.0), np.maximum(np.minimum(mass, a), 0.0))
        return _quotient(A, B, C, tau, ((a - error) - tau) - 8.0 * ROUNDOFF * (tau + np.abs(a)))


def _quotient(A: Numbers, B: Numbers, C: Numbers, tau: Numbers, mu: Numbers) -> np.ndarray:
    """Return (A + Bτ + Cτ²)/μ, rounded up; infinite where μ is not positive."""
    # The exact numerator is a sum of parts that are not negative.
    top = np.maximum(A + B * tau + C * tau * tau, 0.0) * UP + 16.0 * ROUNDOFF * (A + np.abs(B * tau) + C * tau * tau)
    value = top / mu * UP
    return np.where((mu > 0.0) & np.isfinite(value), value, np.inf)


def evidence_of(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Evidence:
    """Evaluate a model and a dual point."""
    if problem.l2 == 0.0:
        raise ValueError("l2=0: without an l2 penalty nothing bounds the distance from the exact model; give l2 > 0")
    problem = problem.remembering()
    point = dual_point(problem, beta)
    assert point.coef is not None
    found, _ = enclose_sharply(problem, coef, intercept, point, tol=SMALLEST)
    lens = lens_of(problem, coef, point, found)
    rest, bias_apart = Bounded(0.0), Bounded(0.0)
    if problem.intercept != "none":
        rest = balance(problem, point)
    if problem.intercept == "penalised":
        bias_apart = Bounded(intercept) / problem.intercept_scale - rest * problem.intercept_scale / problem.l2
    margins = margins_of(problem, coef, intercept)
    shown, off, gaps, losses = (np.empty(problem.n) for _ in range(4))
    _row_terms(problem.loss, problem.samples, margins, problem.y, point.beta, shown, off, gaps, losses)
    same = coef is point.coef or np.array_equal(coef, point.coef)
    base = problem.l2 * lens.squared * UP
    return Evidence(
        problem,
        coef,
        float(intercept),
        point,
        base if math.isfinite(lens.radius) else math.inf,
        None if same else coef - point.coef,
        bias_apart,
        lens.drift + 8.0 * ROUNDOFF * lens.size,
        found.row,
        1.000001 * (abs(rest.value) + 2.0 * rest.radius),
        shown,
        off,
        gaps,
        losses,
    )


def products(problem: Problem, w: np.ndarray, rows: np.ndarray) -> Bounded:
    """Return x·w of some training rows; w has coordinates or, with a kernel, expansion coefficients."""
    if problem.kernel is not None:
        found = kernel_scores(problem, w)
        return Bounded(found.values[rows], found.radius[rows])
    if len(rows) == problem.n:
        out = problem.scores(w)
    else:
        out = np.empty(len(rows))
        scores(some(problem.rows, rows), w, out)
    return Bounded(out, gamma(problem.longest + 8) * length_bound(w) * problem.norms[rows])


def without_rows(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem without some rows: their weights are zero, and the other rows keep theirs."""
    c = problem.c.copy()
    c[rows] = 0.0
    return problem.replace(sample_weight=c, c=c)


@kernel
def _row_terms(loss, samples, margins, y, beta, scores, off, gaps, losses):
    """Scores with the intercept and their errors; lower bounds of each row's part of the gap and of the loss."""
    u = 1.1102230246251565e-16
    for i in range(beta.shape[0]):
        z, d = margins.shortfall(margins.scores_[i], margins.signs[i], margins.scale[i])
        scores[i], off[i] = y[i] * (1.0 - z), d * (1.0 + 1e-12) + 4.0 * u * (1.0 + abs(z))
        phi, own, scale = loss.gap_terms(z, beta[i])
        phi_up, up, scale_up = loss.gap_terms(z + d, beta[i])
        _, down, scale_down = loss.gap_terms(z - d, beta[i])
        # Convex in z: within d of it no value is below twice this one minus the larger of those at the ends.
        least = 2.0 * own - max(up, down) - 64.0 * u * (scale + scale_up + scale_down)
        gaps[i] = samples.c[i] * max(least, 0.0) * (1.0 - 4.0 * u)
        losses[i] = samples.c[i] * max(2.0 * phi - phi_up - 128.0 * u * abs(phi), 0.0) * (1.0 - 4.0 * u)


@kernel
def _move_costs(loss, samples, margins, off, beta, moved, rows, masses, low, high):
    """Mass of each row's move, and a lower and an upper bound of what its part of the gap rises by."""
    u = 1.1102230246251565e-16
    for k in range(rows.shape[0]):
        i = rows[k]
        c, old, new = samples.c[i], beta[i], moved[i]
        short = 1.0 - margins[i]
        _, before, scale = loss.gap_terms(short, old)
        _, after, scale_after = loss.gap_terms(short, new)
        masses[k] = c * abs(new - old)
        # The rise is linear in the margin, with the slope β' − β.
        wide = 64.0 * u * (scale + scale_after) + abs(new - old) * (off[i] + 4.0 * u * (1.0 + abs(short)))
        low[k] = c * (after - before - wide)
        high[k] = c * (after - before + wide)
        low[k] -= 4.0 * u * abs(low[k])
        high[k] += 4.0 * u * abs(high[k])
