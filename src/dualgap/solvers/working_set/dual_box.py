"""The dual variables of a kernel machine in their box: gradient, KKT conditions, duality gap.

    maximise  D/l2 = Σ yᵢaᵢ − ½ aᵀKa − ½ Σ rᵢaᵢ²   subject to  low ≤ a ≤ high,  and Σ aᵢ = 0 if the intercept is free

aᵢ = cᵢβᵢyᵢ/l2 is a signed dual variable, r the curvature that a smooth loss adds (0 for the hinge), g = y − K·a − r·a the gradient.
KKT conditions at intercept b: g ≤ b at the lower bound, g ≥ b at the upper bound, g = b for a free variable. Nothing here knows of
active rows, caches or steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualgap.core import Hinge, SmoothHinge, SquaredHinge, kernel
from dualgap.problem import Problem
from dualgap.proof import best_intercept

GOLDEN = 0.5 * (5.0**0.5 - 1.0)
SECTIONS = 20  # golden sections of the interval of intercepts, which they narrow to 7e-5 of its width


class Box(NamedTuple):
    """Signed dual variables a, their bounds, the gradient g, the loss's own curvature r; one entry a row."""

    a: np.ndarray
    low: np.ndarray
    high: np.ndarray
    g: np.ndarray
    r: np.ndarray

    def take(self, rows: np.ndarray) -> Box:
        """Return a copy of some rows."""
        return Box(*(part[rows] for part in self))

    def free(self) -> np.ndarray:
        """Return which variables lie strictly between their bounds."""
        return np.asarray((self.a > self.low) & (self.a < self.high))


def bias_weight(problem: Problem) -> float:
    """Return what a penalised intercept adds to every kernel value."""
    return problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0


def start_box(problem: Problem) -> Box:
    """Return the box of all rows at a = 0."""
    bound = problem.c / problem.l2
    if isinstance(problem.loss, Hinge):
        r = np.zeros(problem.n)
    else:
        delta = problem.loss.delta if isinstance(problem.loss, SmoothHinge) else 0.5
        r = np.divide(delta, bound, out=np.zeros(problem.n), where=bound > 0)
    if isinstance(problem.loss, SquaredHinge):
        bound = np.where(bound > 0, np.inf, 0.0)
    low, high = np.where(problem.y > 0, 0.0, -bound), np.where(problem.y > 0, bound, 0.0)
    return Box(np.zeros(problem.n), low, high, problem.y.copy(), r)


def set_gradient(problem: Problem, box: Box, scores: np.ndarray) -> float:
    """Set g in a box of all rows from the scores K·a. Return D/l2."""
    box.g[:] = problem.y - scores - box.r * box.a - bias_weight(problem) * box.a.sum()
    return 0.5 * float(box.a @ (problem.y + box.g))


def beta_of(problem: Problem, a: np.ndarray) -> np.ndarray:
    """Return β = l2·y·a/c; 0 where c = 0."""
    scale = problem.l2 * problem.y
    return np.divide(a * scale, problem.c, out=np.zeros(problem.n), where=problem.c > 0)


def intercept_of(problem: Problem, box: Box) -> float:
    """Return the intercept that minimises the primal objective at the scores of a box of all rows; 0 unless it is free."""
    return best_intercept(problem, problem.y - box.g - box.r * box.a) if problem.intercept == "free" else 0.0


def argtop(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the `count` largest values, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def worst_violators(problem: Problem, box: Box, count: int) -> np.ndarray:
    """Return up to `count` rows that violate the KKT conditions most; with a free intercept, half to rise and half to fall."""
    if problem.intercept != "free":
        violation = np.where(box.g > 0, np.where(box.a < box.high, box.g, 0.0), np.where(box.a > box.low, -box.g, 0.0))
        order = argtop(violation, count)
        return order[violation[order] > 0]
    rise = np.where(box.a < box.high, box.g, -np.inf)
    fall = np.where(box.a > box.low, -box.g, -np.inf)
    top, bottom = rise.max(), -fall.max()
    if not top > bottom:
        return np.empty(0, dtype=np.int64)
    rising, falling = argtop(rise, max(count // 2, 1)), argtop(fall, max(count // 2, 1))
    rising, falling = rising[rise[rising] > bottom], falling[-fall[falling] < top]
    rise[rising] = np.nan  # a free variable may be in both lists
    return np.concatenate([rising, falling[~np.isnan(rise[falling])]])


def kkt_slack(box: Box, intercept: float) -> np.ndarray:
    """Return by how much each row satisfies the KKT conditions at that intercept.

    Negative: a violation at a bound. −inf: a free variable. inf: a variable whose bounds are equal."""
    distance = box.g - intercept
    slack = np.where(box.a <= box.low, -distance, np.where(box.a >= box.high, distance, -np.inf))
    slack[box.low == box.high] = np.inf
    return slack


def may_move(problem: Problem, box: Box) -> np.ndarray:
    """Return the rows that are free, or that violate the KKT conditions at some intercept which no row's gradient rules out.

    Without a free intercept the rows that violate them at 0 by less than others do may still come to it: m and M then are the largest
    violations, up and down."""
    m, M = max_up_min_low(box)
    if problem.intercept != "free":
        m, M = max(m, 0.0), min(M, 0.0)
    satisfied = ((box.a <= box.low) & (box.g < min(m, M))) | ((box.a >= box.high) & (box.g > max(m, M)))
    satisfied |= box.low == box.high
    return np.flatnonzero(~satisfied)


@kernel
def max_up_min_low(box):
    """Return the largest gradient among variables that can rise and the smallest among those that can fall.

    At the optimum the first is at most the second (Keerthi et al. 2001; m(α) and M(α) of Fan et al. 2005)."""
    m, M = -np.inf, np.inf
    for k in range(box.a.shape[0]):
        if box.a[k] < box.high[k]:
            m = max(m, box.g[k])
        if box.a[k] > box.low[k]:
            M = min(M, box.g[k])
    return m, M


@kernel
def _gap_at(loss, box, y, b):
    """Return Σ (c/l2)(φ(m) − ψ(β) + βm) over the rows of the box, at intercept b."""
    total = 0.0
    for k in range(y.shape[0]):
        margin = y[k] * (y[k] - box.g[k] - box.r[k] * box.a[k] + b)
        size = box.high[k] - box.low[k]
        if size > 0.0:
            if size == np.inf:
                size = 0.5 / box.r[k]
            beta = y[k] * box.a[k] / size
            total += size * (loss.value(margin) - loss.psi(beta) + beta * margin)
    return total


@kernel
def gap_between(loss, box, y, low, high):
    """Return the gap/l2 at the best intercept in [low, high], by golden sections: it is convex in the intercept."""
    if not -np.inf < low < high < np.inf:
        return _gap_at(loss, box, y, low if -np.inf < low < np.inf else 0.0)
    b, c = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_b, at_c = _gap_at(loss, box, y, b), _gap_at(loss, box, y, c)
    for _ in range(SECTIONS):
        if at_b < at_c:
            high, c, at_c = c, b, at_b
            b = high - GOLDEN * (high - low)
            at_b = _gap_at(loss, box, y, b)
        else:
            low, b, at_b = b, c, at_c
            c = low + GOLDEN * (high - low)
            at_c = _gap_at(loss, box, y, c)
    return min(at_b, at_c)
