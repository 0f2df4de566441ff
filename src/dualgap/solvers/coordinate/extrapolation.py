"""The extrapolation step of DCA: the best point in the plane of the last two moves of β.

Towards the end, coordinate steps push β along directions in which D is nearly flat, a little further each sweep. Let s = β − β₁ be the move
of the last sweeps and p = β₁ − β₂ the one before, extrapolation included. D is maximised over β + ts + rp. Since v is linear in β, this
needs no pass over the data:

    D(β + e) = Σ cᵢ[ψ(βᵢ + eᵢ) − (βᵢ + eᵢ)yᵢoᵢ] − (l2/2)‖v + ts_v + rp_v‖²        e = ts + rp,   o: the fixed part of a score

1) moves: s and p over the free variables; those that have come to a bound stay there
2) plane search: (t, r) maximises the quadratic model of D, exact where ψ is quadratic
3) projection: variables that would pass a bound stop at it, and v is put right row by row
4) acceptance: the step is taken only if it raises D

It is the memory gradient method of Miele and Cantrell (1969), with sweeps in place of a gradient. On a quadratic without bounds, steps
along both a gradient and the last move are those of conjugate gradients; sweeps are then their preconditioner.

With an intercept D is what the steps raise: the bias column's part of v is among the squares, and its centre adds −centre·Σ cβy to
D, where Σ cβy is l2/scale times that part of v.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import kernel, kernel_part
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent

__all__ = ["EVERY", "Extrapolation", "Point", "extrapolate"]

EVERY = 2  # sweeps between extrapolation steps: with 1, the steps take a large part of the time; with 5, more sweeps are needed
LARGEST_STEP = 1e3  # largest t and r: beyond them, v would mainly move by the rounding of v − v₁
PARALLEL = 1e-10  # 1 − cos² of the angle between s and p in the metric of D, below which p is left out
ROUNDING = 1e-12  # part of l2·‖v‖² below which a rise of D may be rounding: the step is then not taken


class Point(NamedTuple):
    """A dual point and its v."""

    beta: np.ndarray
    v: np.ndarray


class Extrapolation:
    """The points β₁ and β₂ of a run, and the steps from them.

    Order of calls: `count` after each sweep; `restart` when rows are unshrunk, or β was changed by anything else than sweeps.
    """

    def __init__(self) -> None:
        self.points: tuple[Point, Point] | None = None  # β₁ and β₂: where the last extrapolation step ended, and the one before
        self.begun = False  # whether the points are those of the present moves; their arrays are used again after a restart
        self.which = np.zeros(0, dtype=np.int64)  # rows that may have moved since: those that were active then
        self.left = EVERY  # sweeps until the next step

    def restart(self) -> None:
        """Forget the moves so far."""
        self.begun = False

    def count(self, problem: Problem, ascent: Ascent, active: np.ndarray) -> None:
        """Count a sweep, after which the rows `active` are active; where a step is due, take it."""
        if not self.begun:
            self._begin(ascent)
            self.which = active.copy()
            self.left = EVERY
            return
        self.left -= 1
        if self.left == 0:
            self.step(problem, ascent)
            self.left = EVERY

    def _begin(self, ascent: Ascent) -> None:
        """Make both points the present one."""
        if self.points is None:  # new arrays cost more than the copies: the system clears their pages first
            self.points = _unset_point(ascent), _unset_point(ascent)
        for point in self.points:
            point.beta[:] = ascent.beta
            point.v[:] = ascent.v
        self.begun = True

    def step(self, problem: Problem, ascent: Ascent) -> float:
        """Move (β, v) to the best point of the plane; return by how much D rises, or 0."""
        assert self.points is not None
        last, before = self.points
        weight = ascent.bias.centre * problem.l2 / ascent.bias.scale
        now = Point(ascent.beta, ascent.v)
        gain = extrapolate(ascent.rows, problem.loss, ascent.coords, now, last, before, self.which, problem.l2, weight)
        self.points = before, last
        return float(gain)


def _unset_point(ascent: Ascent) -> Point:
    return Point(np.empty_like(ascent.beta), np.empty_like(ascent.v))


@kernel
def extrapolate(rows, loss, coords, now, last, before, which, l2, centre_weight):
    """Move `now` to the best point of its plane with `last` and `before`; return by how much D rises, or 0.

    The three differ in the rows `which` alone. `before` becomes that point. D has the term −centre_weight·(v's last number); the weight is
    centre·l2/scale, which is 0 without an intercept.
    """
    d, lower, upper = now.v.shape[0], loss.lower_bound(), loss.upper_bound()
    # 1) moves
    for i in which:
        beta = now.beta[i]
        if (last.beta[i] != beta or before.beta[i] != beta) and not loss.is_free(beta):
            rows.add(i, (beta - last.beta[i]) * coords.factor[i], last.v)
            rows.add(i, (beta - before.beta[i]) * coords.factor[i], before.v)
            last.beta[i] = before.beta[i] = beta
    # 2) plane search
    t, r, size = _best_in_plane(loss, coords, now, last, before, which, l2, centre_weight)
    # 3) projection
    for j in range(d):
        before.v[j] = now.v[j] + t * (now.v[j] - last.v[j]) + r * (last.v[j] - before.v[j])
    gain = 0.0
    for i in which:
        old = now.beta[i]
        if last.beta[i] == old and before.beta[i] == old:
            continue
        wanted = old + t * (old - last.beta[i]) + r * (last.beta[i] - before.beta[i])
        new = min(upper, max(lower, wanted))
        if new != wanted:
            rows.add(i, (new - wanted) * coords.factor[i], before.v)
        own = loss.psi(new) - loss.psi(old)
        gain += l2 * (abs(coords.factor[i]) * own - coords.factor[i] * coords.offset.at(i) * (new - old))
        before.beta[i] = new
    gain -= centre_weight * (before.v[d - 1] - now.v[d - 1])
    for j in range(d):
        gain -= 0.5 * l2 * (before.v[j] - now.v[j]) * (before.v[j] + now.v[j])
    # 4) acceptance
    if gain > ROUNDING * l2 * size:
        _copy(before, now, which)
        return gain
    _copy(now, before, which)
    return 0.0


@kernel_part
def _best_in_plane(loss, coords, now, last, before, which, l2, centre_weight):
    """Return t and r, which maximise the quadratic model of D, and ‖v‖²."""
    rise_s, rise_p, ss, sp, pp = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in which:
        beta = now.beta[i]
        s, p = beta - last.beta[i], last.beta[i] - before.beta[i]
        if s != 0.0 or p != 0.0:
            c, y = abs(coords.factor[i]) * l2, math.copysign(1.0, coords.factor[i])
            gradient = c * loss.gradient(beta, y * coords.offset.at(i))
            curvature = c * (1.0 / loss.curvature_at(beta, 1.0) - 1.0)
            rise_s += s * gradient
            rise_p += p * gradient
            ss += curvature * s * s
            sp += curvature * s * p
            pp += curvature * p * p
    vs, vp, vss, vsp, vpp, size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    end = now.v.shape[0] - 1
    for j in range(end + 1):
        s, p = now.v[j] - last.v[j], last.v[j] - before.v[j]
        vs += now.v[j] * s
        vp += now.v[j] * p
        vss += s * s
        vsp += s * p
        vpp += p * p
        size += now.v[j] * now.v[j]
    rise_s -= l2 * vs + centre_weight * (now.v[end] - last.v[end])
    rise_p -= l2 * vp + centre_weight * (last.v[end] - before.v[end])
    ss, sp, pp = ss + l2 * vss, sp + l2 * vsp, pp + l2 * vpp
    t, r = rise_s / ss if ss > 0.0 else 0.0, 0.0
    determinant = ss * pp - sp * sp
    if determinant > PARALLEL * ss * pp:
        t, r = (rise_s * pp - rise_p * sp) / determinant, (rise_p * ss - rise_s * sp) / determinant
    scale = min(1.0, LARGEST_STEP / max(abs(t), abs(r), 1.0))
    return t * scale, r * scale, size


@kernel_part
def _copy(source, target, which):
    """Copy a point. Loops: to compile a copy of arrays takes numba seconds."""
    for i in which:
        target.beta[i] = source.beta[i]
    for j in range(source.v.shape[0]):
        target.v[j] = source.v[j]
