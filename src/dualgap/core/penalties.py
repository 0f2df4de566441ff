"""Penalties, separable over the coordinates of w: L2, ElasticNet, L1, and Boxed, with an interval for each coefficient.

    value(w)         R at a coordinate (or an array of them; Boxed: at all coordinates)
    conjugate(u)     R*(u) at a coordinate; for L1 it is 0 on [−l1, l1], and the certificate scales u into that box
    prox(w, step)    argmin over z of R(z) + (z − w)²/(2·step)
    prox_at(j, w, step)   the same at coordinate j alone
    ends(j)          the interval of coordinate j; its ends may be infinite
    score(rows,i,v)  xᵢ·w for the vector v = u/l2 that dual methods store: w = v for L2, w = soft(v, l1/l2) with an l1 part, clipped to
                     the intervals by Boxed
    scaled_score(rows,i,v,s)   the same for v/s
    primal(v)        w from that v
    strength()       l2, the factor between u and v
    threshold()      l1/l2, up to which w = 0 (infinite without l2)
    total_penalty(w), total_conjugate(v, factor)   R(w) and R*(factor·v), sums over a whole vector
    nearest_point(w), contains_point(w)   the point nearest to w where R is finite, and whether w is one
    part(columns)    the penalty of some coordinates

The intercept is not part of w. It is unpenalised, or has a quadratic penalty of its own (see problem.py), and no bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core.checks import number
from dualgap.core.jit import compiled

__all__ = ["L1", "L2", "Boxed", "ElasticNet", "make_penalty"]


@compiled
class L2(NamedTuple):
    """(l2/2)·‖w‖²"""

    l2: float

    def value(self, w):
        return 0.5 * self.l2 * w * w

    def conjugate(self, u):
        return u * u / (2.0 * self.l2)

    def prox(self, w, step):
        return w / (1.0 + step * self.l2)

    def score(self, rows, i, v):
        return rows.dot(i, v)

    def scaled_score(self, rows, i, v, s):
        return rows.dot(i, v) / s

    def primal(self, v):
        return v

    def strength(self):
        return self.l2

    def threshold(self):
        return 0.0

    def total_penalty(self, w):
        return 0.5 * self.l2 * float(w @ w)

    def total_conjugate(self, v, factor):
        return 0.5 * (factor / self.l2) * (factor * float(v @ v))  # factor² may overflow

    def prox_at(self, j, w, step):
        return self.prox(w, step)

    def ends(self, j):
        return -np.inf, np.inf

    def nearest_point(self, w):
        return w

    def contains_point(self, w):
        return True

    def part(self, columns):
        return self


@compiled
class ElasticNet(NamedTuple):
    """l1·‖w‖₁ + (l2/2)·‖w‖², both positive"""

    l1: float
    l2: float

    def value(self, w):
        return self.l1 * np.abs(w) + 0.5 * self.l2 * w * w

    def conjugate(self, u):
        excess = np.maximum(np.abs(u) - self.l1, 0.0)
        return excess * excess / (2.0 * self.l2)

    def prox(self, w, step):
        t = step * self.l1
        return (np.maximum(w - t, 0.0) + np.minimum(w + t, 0.0)) / (1.0 + step * self.l2)

    def score(self, rows, i, v):
        return rows.soft_dot(i, v, self.l1 / self.l2)

    def scaled_score(self, rows, i, v, s):
        return rows.soft_dot(i, v, s * self.l1 / self.l2) / s

    def primal(self, v):
        t = self.l1 / self.l2
        return np.maximum(v - t, 0.0) + np.minimum(v + t, 0.0)

    def strength(self):
        return self.l2

    def threshold(self):
        return self.l1 / self.l2

    def total_penalty(self, w):
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def total_conjugate(self, v, factor):
        return float(np.sum(self.conjugate(factor * v)))

    def prox_at(self, j, w, step):
        return self.prox(w, step)

    def ends(self, j):
        return -np.inf, np.inf

    def nearest_point(self, w):
        return w

    def contains_point(self, w):
        return True

    def part(self, columns):
        return self


@compiled
class L1(NamedTuple):
    """l1·‖w‖₁"""

    l1: float

    def value(self, w):
        return self.l1 * np.abs(w)

    def conjugate(self, u):
        return 0.0 * u

    def prox(self, w, step):
        t = step * self.l1
        return np.maximum(w - t, 0.0) + np.minimum(w + t, 0.0)

    def score(self, rows, i, v):
        return np.nan  # u does not determine w; dual coordinate methods need l2 > 0

    def scaled_score(self, rows, i, v, s):
        return np.nan

    def primal(self, v):
        return np.nan * v

    def strength(self):
        return 0.0

    def threshold(self):
        return np.inf

    def total_penalty(self, w):
        return self.l1 * float(np.abs(w).sum())

    def total_conjugate(self, v, factor):
        return 0.0

    def prox_at(self, j, w, step):
        return self.prox(w, step)

    def ends(self, j):
        return -np.inf, np.inf

    def nearest_point(self, w):
        return w

    def contains_point(self, w):
        return True

    def part(self, columns):
        return self


@compiled
class Boxed(NamedTuple):
    """l1·‖w‖₁ + (l2/2)·‖w‖² where low ≤ w ≤ high, and infinite elsewhere; l2 is positive, l1 may be 0.

    The minimum of R(w) − u·w is at a coordinate that of the elastic net, clipped: a convex function of one number has its minimum over
    an interval at the point of the interval that is nearest to its minimum.
    """

    l1: float
    l2: float
    low: np.ndarray
    high: np.ndarray

    def value(self, w):
        inside = (self.low <= w) & (w <= self.high)
        return np.where(inside, self.l1 * np.abs(w) + 0.5 * self.l2 * w * w, np.inf)

    def conjugate(self, u):
        w = self.primal(u / self.l2)
        return u * w - (self.l1 * np.abs(w) + 0.5 * self.l2 * w * w)

    def prox(self, w, step):
        t = step * self.l1
        free = (np.maximum(w - t, 0.0) + np.minimum(w + t, 0.0)) / (1.0 + step * self.l2)
        return np.minimum(np.maximum(free, self.low), self.high)

    def prox_at(self, j, w, step):
        t = step * self.l1
        free = (max(w - t, 0.0) + min(w + t, 0.0)) / (1.0 + step * self.l2)
        return min(max(free, self.low[j]), self.high[j])

    def ends(self, j):
        return self.low[j], self.high[j]

    def score(self, rows, i, v):
        return rows.clipped_dot(i, v, 1.0, self.l1 / self.l2, self.low, self.high)

    def scaled_score(self, rows, i, v, s):
        return rows.clipped_dot(i, v, 1.0 / s, self.l1 / self.l2, self.low, self.high)

    def primal(self, v):
        t = self.l1 / self.l2
        free = np.maximum(v - t, 0.0) + np.minimum(v + t, 0.0)
        return np.minimum(np.maximum(free, self.low), self.high)

    def strength(self):
        return self.l2

    def threshold(self):
        return self.l1 / self.l2

    def total_penalty(self, w):
        return float(np.sum(self.value(w)))

    def total_conjugate(self, v, factor):
        return float(np.sum(self.conjugate(factor * v)))

    def nearest_point(self, w):
        return np.minimum(np.maximum(w, self.low), self.high)

    def contains_point(self, w):
        return bool(((self.low <= w) & (w <= self.high)).all())

    def part(self, columns):
        return Boxed(self.l1, self.l2, self.low[columns], self.high[columns])


def make_penalty(l2: float, l1: float = 0.0, bounds: tuple[np.ndarray, np.ndarray] | None = None) -> Any:
    """Return l1·‖w‖₁ + (l2/2)·‖w‖², with bounds on w if given, as L2, ElasticNet, L1 or Boxed, the simplest class that has it."""
    l2, l1 = number("l2", l2, "[0, inf)"), number("l1", l1, "[0, inf)")
    if l2 == 0 and l1 == 0:
        raise ValueError("l2=0 and l1=0: without a penalty the problem need not have a minimum; give l2 > 0 (1e-4, say) or l1 > 0")
    if bounds is not None:
        if l2 == 0:
            raise ValueError("l2=0 with bounds on the coefficients: they need an l2 penalty; give l2 > 0 (or an l1_ratio below 1)")
        return Boxed(l1, l2, *bounds)
    if l1 == 0:
        return L2(l2)
    return ElasticNet(l1, l2) if l2 > 0 else L1(l1)
