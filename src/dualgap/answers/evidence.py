"""Without some rows: what a model and a dual point of a problem say of the exact model of the problem that lacks some of its rows.

The rows that stay keep their weights c, and l2 and l1 stay as they are, so that C is fixed. Let (w, b) and β be any model and dual point
of the whole problem, u = u(β), e = w − w(β), X = R(w) + R*(u) − u·w, and let (w*, b*) be the exact model of the rows that stay. For every
β' in the box of those rows, balanced or not, with r' = Σ cβ'y, Δ = u − Σ cβ'yx and G' = Σ c[φ(m) − ψ(β') + β'm] over them

    r'(b − b*) + l2·‖w* − (w + w(β))/2 + Δ/(2·l2)‖² ≤ G' + X − (l2/4)‖e‖² + ½Δ·e + ‖Δ‖²/(4·l2)                                     (1)

It adds up three inequalities: strong convexity of P at w*, that of Fenchel and Young for φ at β', and R(w*) ≥ u·w* − R*(u) +
(l2/2)‖w* − w(β)‖². The ball of the whole problem is the case Δ = 0, r' = 0.

Row i left out. β' drops βᵢ, and rows that stay move theirs: by a mass τ with mean row x̄ on the side σ, σ·Σ cy(β − β') = τ, at a cost of at
most κτ in the gap over the rows, for −φ* is concave. With μ = τ + σcᵢβᵢyᵢ > 0 the largest score that (1) allows to row i is

    σ(xᵢ·w* + b*) ≤ σ(xᵢ·w + b) + [A + τB + τ²‖xᵢ − x̄‖²/(4·l2)]/μ        A = G + X − (l2/4)‖e‖² − gᵢ,  B = κ + ½σe·(x̄ − xᵢ)       (2)

where G is the gap over all rows and gᵢ that of row i. The best τ is the root of a quadratic equation. For τ < 0 the move is one to the
other side. The rows that move are chosen once for all i, as a `Reservoir`; a row i that is one of them is taken out, which divides
x̄ − xᵢ by what is left of the mass. Without an intercept, and with a penalised one, which is a coordinate of w, b is fixed: x̄ = 0, κ = 0
and any τ is allowed. A row costs O(1) beside its products with w, e and x̄.

All numbers are upper or lower bounds: rounding is accounted for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, exact_sum, gamma, kernel, length_bound, scores, some
from dualgap.problem import Problem
from dualgap.proof import (
    DualPoint,
    balance,
    best_move,
    dual_point,
    enclose_sharply,
    kernel_scores,
    lens_of,
    margin_slopes,
    margins_of,
)

__all__ = ["Evidence", "Reservoir", "evidence_of", "least_ratio", "one_class_left"]

UP = 1.0 + 1e-12  # factor that covers the roundings of a formula of some ten operations
LEAST_LEFT = 0.01  # share of a reservoir's mass that must be left once a row is taken out of it
LEVELS = (3.0, 30.0)  # masses of reservoirs, in units of the largest cβ: a row left out needs about twice its own
DOUBLINGS = 200  # of the distance of margins up to which rows move, until a mass is reached


@dataclass(frozen=True)
class Reservoir:
    """Rows whose β can move so that side·Σ cβy falls: their masses, what that costs, and their mean row x̄.

    A part s of the move, s in [0, 1], has the mass s·mass and costs at most s·cost, for the gap over the rows is convex in β.
    """

    side: float
    rows: np.ndarray  # numbers of the rows, ascending
    masses: np.ndarray  # c|β − β'| of each
    least_costs: np.ndarray  # a lower bound of what each row's part of the gap rises by
    mass: float
    cost: float  # an upper bound of what the gap rises by
    mean: np.ndarray | None  # x̄; None with a kernel, where `weights` are its expansion
    weights: np.ndarray | None
    length: float  # an upper bound of ‖x̄‖
    drift: float  # bounds the distance of the exact mean row from the computed one


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
    bias_apart: float
    drift: float
    fixed: int
    moved: float
    scores: np.ndarray
    off: np.ndarray
    gaps: np.ndarray
    losses: np.ndarray

    @cached_property
    def _reservoirs(self) -> dict[float, list[Reservoir]]:
        """Rows that can move, on each side, for the masses that one row left out may need. None without a free intercept."""
        if self.problem.intercept != "free" or not math.isfinite(self.base):
            return {-1.0: [], 1.0: []}
        largest = float((self.problem.c * self.point.beta).max())
        return {side: self.reservoirs_of(side, largest) for side in (-1.0, 1.0)}

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
        weights = np.zeros(problem.n)
        weights[rows] = masses / mass
        cost = exact_sum(high.tolist())
        cost += 4.0 * ROUNDOFF * abs(cost) + SMALLEST
        size = float(weights @ problem.norms)
        if problem.kernel is None:
            mean = problem.combine(weights)
            return Reservoir(side, rows, masses, low, mass, cost, mean, None, length_bound(mean), gamma(len(rows) + 32) * size)
        own, error = _kernel_products(problem, weights)
        squared = float(weights @ own) + float(weights @ error) + gamma(problem.n + 16) * float(weights @ np.abs(own))
        length = math.sqrt(max(squared, 0.0)) * UP
        return Reservoir(side, rows, masses, low, mass, cost, None, weights, length, 32.0 * ROUNDOFF * size)

    # ------------------------------------------------------------------------------------------------------- one row left out

    def leave_one_out(
        self, which: np.ndarray | None = None, sides: tuple[float, ...] = (-1.0, 1.0)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bound, for each row, the score that it gets from the exact model of all other rows.

        `which` has the rows that are wanted, `sides` the bounds: −1 is the lower one, 1 the upper one. The other one is infinite.
        """
        problem = self.problem
        rows = np.arange(problem.n) if which is None else np.asarray(which)
        if not math.isfinite(self.base):
            return np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
        own = problem.c[rows] * self.point.beta[rows] * problem.y[rows]
        error = 4.0 * ROUNDOFF * np.abs(own) + np.where(rows == self.fixed, self.moved, 0.0)
        gaps = np.where(rows == self.fixed, 0.0, self.gaps[rows])
        left = _Left(rows, own, error, np.maximum(self.base - gaps, 0.0) * UP, *self._along_apart(rows))
        # A row whose β is 0 takes no mass with it: the moves to the other side are then of no use.
        needed = (-1.0, 1.0) if left.own.any() else sides
        moves = {side: self._moves(left, side) if side in needed else [] for side in (-1.0, 1.0)}
        low, high = (self._largest(left, moves, side) if side in sides else np.full(len(rows), np.inf) for side in (-1.0, 1.0))
        empty = rows_of_zeros(problem, rows)
        if problem.intercept == "none" and empty.any():
            low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)  # x·w is 0 for every w
        lonely = one_class_left(problem, rows)
        if lonely.any():
            # One class is left, and b is free: every minimiser, or sequence towards the infimum, ends at scores of that class's sign.
            low = np.where(lonely & (problem.y[rows] > 0.0), np.inf, low)
            high = np.where(lonely & (problem.y[rows] < 0.0), np.inf, high)
            low[lonely & (problem.y[rows] < 0.0)] = -np.finfo(float).tiny
            high[lonely & (problem.y[rows] > 0.0)] = 0.0
        return -low, high

    def _along_apart(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return e·x of the rows, with the coordinate of a penalised intercept, and bounds on the errors."""
        scale = self.problem.intercept_scale if self.problem.intercept == "penalised" else 0.0
        bias = scale * self.bias_apart
        if self.apart is None:
            values, off = np.zeros(len(rows)), np.zeros(len(rows))
        else:
            values, off = products(self.problem, self.apart, rows)
        lengths = np.hypot(self.problem.norms[rows], scale)
        return values + bias, off + self.drift * lengths * UP + 8.0 * ROUNDOFF * (np.abs(values) + abs(bias))

    def _moves(self, left: _Left, side: float) -> list[_Move]:
        """Return what the rows' bounds need to know of each reservoir of a side."""
        problem = self.problem
        if problem.intercept != "free":
            scale = problem.intercept_scale if problem.intercept == "penalised" else 0.0
            lengths = np.hypot(problem.norms[left.rows], scale) * UP
            count = len(lengths)
            unlimited = np.full(count, np.inf)
            return [_Move(lengths, -left.apart, left.apart_off, np.zeros(count), unlimited)]
        made = self._reservoirs[side] if left.own.any() else self.reservoirs_of(side)
        return [self._move(left, each) for each in made]

    def _move(self, left: _Left, at: Reservoir) -> _Move:
        problem, rows = self.problem, left.rows
        mean = at.mean if at.mean is not None else at.weights
        assert mean is not None
        along, off = products(problem, mean, rows)
        lengths = problem.norms[rows]
        squared = lengths**2 - 2.0 * along + at.length**2 + 2.0 * off + 16.0 * ROUNDOFF * (lengths + at.length) ** 2
        distances = np.sqrt(np.maximum(squared, 0.0)) * UP + at.drift
        difference, error = -left.apart, left.apart_off + self.drift * at.length
        if self.apart is not None:
            if problem.kernel is None:
                value, size = float(self.apart @ mean), length_bound(self.apart)
                rounding = gamma(problem.d + 8) * size * at.length
            else:
                every, each_off = products(problem, self.apart, at.rows)
                shares = at.masses / at.mass
                value = float(shares @ every)
                rounding = float(shares @ each_off) + gamma(len(every) + 8) * float(shares @ np.abs(every))
                size = float(np.abs(self.apart) @ problem.norms)
            difference = difference + value
            error = error + rounding + at.drift * size * UP + 8.0 * ROUNDOFF * (np.abs(difference) + abs(value))
        # A row that is itself among those that move is taken out of them.
        place = np.minimum(np.searchsorted(at.rows, rows), len(at.rows) - 1)
        inside = at.rows[place] == rows
        part = np.where(inside, at.masses[place], 0.0)
        rest = (at.mass - part) * (1.0 - 1e-12)
        cost = at.cost - np.where(inside, at.least_costs[place], 0.0)
        usable = rest > LEAST_LEFT * at.mass
        rest = np.where(usable, rest, at.mass)
        factor = np.where(usable, at.mass / rest, 1.0)
        slope = cost / rest
        slope = slope + 64.0 * ROUNDOFF * (np.abs(slope) + abs(at.cost) / rest)
        slope, rest = np.where(usable, slope, np.inf), np.where(usable, rest, 0.0)
        return _Move(distances * factor, difference * factor, error * factor, slope, rest)

    def _largest(self, left: _Left, moves: dict[float, list[_Move]], side: float) -> np.ndarray:
        """Return upper bounds of side·score by (2)."""
        own = side * left.own
        best = np.full(len(own), np.inf)
        for move in moves[side]:
            slope = move.cost + 0.5 * (side * move.apart + move.apart_off)
            best = np.minimum(best, least_ratio(left.base, slope, move.curvature(self.problem.l2), own, left.error, move.mass))
        for move in moves[-side]:
            slope = move.cost + 0.5 * (-side * move.apart + move.apart_off)
            best = np.minimum(best, _least_backwards(left.base, slope, move.curvature(self.problem.l2), own, left.error, move.mass))
        here, off = self.scores[left.rows], self.off[left.rows]
        return side * here + (off + 8.0 * ROUNDOFF * np.abs(here)) * UP + best + 64.0 * ROUNDOFF * np.abs(best)


@dataclass(frozen=True)
class _Left:
    """Rows left out, one at a time: cβy with bounds on its error, A of (2), and e·x with bounds on its error."""

    rows: np.ndarray
    own: np.ndarray
    error: np.ndarray
    base: np.ndarray
    apart: np.ndarray
    apart_off: np.ndarray


@dataclass(frozen=True)
class _Move:
    """A reservoir as the rows left out see it: ‖x − x̄‖, e·(x̄ − x) with its error, κ and the largest mass."""

    distances: np.ndarray
    apart: np.ndarray
    apart_off: np.ndarray
    cost: np.ndarray
    mass: np.ndarray

    def curvature(self, l2: float) -> np.ndarray:
        return self.distances**2 / (4.0 * l2) * UP


def least_ratio(A: Any, B: Any, C: Any, a: Any, error: Any, mass: Any) -> np.ndarray:
    """Return about the least (A + Bτ + Cτ²)/(τ + a) over 0 ≤ τ ≤ mass with τ + a > 0: an upper bound of it, a known up to `error`."""
    with np.errstate(all="ignore"):
        mu = np.sqrt(np.maximum(A - B * a + C * a * a, 0.0) / C)
        tau = np.minimum(np.fmax(mu - a, 0.0), np.minimum(mass, 1e100))  # fmax takes 0 where the other one is not a number
        return _quotient(A, B, C, tau, (tau + (a - error)) - 8.0 * ROUNDOFF * (tau + np.abs(a)))


def _least_backwards(A: Any, B: Any, C: Any, a: Any, error: Any, mass: Any) -> np.ndarray:
    """Return about the least (A + Bτ + Cτ²)/(a − τ) over 0 ≤ τ ≤ mass with τ < a, as `least_ratio` does."""
    with np.errstate(all="ignore"):
        mu = np.sqrt(np.maximum(A + B * a + C * a * a, 0.0) / C)
        tau = np.minimum(np.fmax(a - mu, 0.0), np.maximum(np.minimum(mass, a), 0.0))
        return _quotient(A, B, C, tau, ((a - error) - tau) - 8.0 * ROUNDOFF * (tau + np.abs(a)))


def _quotient(A: Any, B: Any, C: Any, tau: Any, mu: Any) -> np.ndarray:
    """Return (A + Bτ + Cτ²)/μ, rounded up; infinite where μ is not positive."""
    # The exact numerator is a sum of parts that are not negative.
    top = np.maximum(A + B * tau + C * tau * tau, 0.0) * UP + 16.0 * ROUNDOFF * (A + np.abs(B * tau) + C * tau * tau)
    value = top / mu * UP
    return np.where((mu > 0.0) & np.isfinite(value), value, np.inf)


def rows_of_zeros(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return which rows of data are zero in every feature; no row with a kernel."""
    found = np.zeros(len(rows), dtype=bool)
    if problem.kernel is None and problem.X is not None:
        short = np.flatnonzero(problem.sqnorms[rows] == 0.0)  # squares of small numbers underflow, so this is not enough
        if len(short):
            X = problem.X[rows[short]]
            found[short] = (X != 0).sum(axis=1).reshape(-1) == 0 if not hasattr(X, "toarray") else (X != 0).getnnz(axis=1) == 0
    return found


def one_class_left(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return which rows leave one class alone behind, if the intercept is free: then the exact model has no finite score."""
    if problem.intercept != "free":
        return np.zeros(len(rows), dtype=bool)
    weighted = problem.c > 0.0
    single = {sign: np.count_nonzero(weighted & (problem.y == sign)) for sign in (-1.0, 1.0)}
    alone = np.where(problem.y[rows] > 0.0, single[1.0], single[-1.0]) - weighted[rows]
    return np.asarray(alone <= 0)


def evidence_of(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Evidence:
    """Evaluate a model and a dual point."""
    if problem.l2 == 0.0:
        raise ValueError("l2=0: without an l2 penalty nothing bounds the distance from the exact model; give l2 > 0")
    problem = problem.remembering()
    point = dual_point(problem, beta)
    assert point.coef is not None
    found, _ = enclose_sharply(problem, coef, intercept, point, tol=SMALLEST)
    lens = lens_of(problem, coef, point, found)
    moved = bias_apart = 0.0
    if problem.intercept != "none":
        rest, rest_off = balance(problem, point)
        moved = 1.000001 * (abs(rest) + 2.0 * rest_off)
        if problem.intercept == "penalised":
            bias_apart = intercept / problem.intercept_scale - problem.intercept_scale * rest / problem.l2
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
        moved,
        shown,
        off,
        gaps,
        losses,
    )


def products(problem: Problem, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x·w of some training rows, and bounds on the errors; w has coordinates or, with a kernel, expansion coefficients."""
    if problem.kernel is not None:
        values, off = _kernel_products(problem, w)
        return values[rows], off[rows]
    out = np.empty(len(rows))
    if len(rows) == problem.n:
        out = problem.scores(w)
    else:
        scores(some(problem.rows, rows), w, out)
    return out, gamma(problem.longest + 8) * length_bound(w) * problem.norms[rows]


def _kernel_products(problem: Problem, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = kernel_scores(problem, a)
    return found.values, found.radius


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
