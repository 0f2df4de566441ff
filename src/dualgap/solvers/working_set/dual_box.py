"""The dual variables of a kernel machine in their box: gradient, KKT conditions, duality gap.

    maximise  D/l2 = Σ pᵢaᵢ − ½ aᵀKa − ½ Σ rᵢaᵢ²   subject to  low ≤ a ≤ high,  and Σ aᵢ = 0 if the intercept is free

aᵢ = cᵢβᵢyᵢ/l2 is a signed dual variable, r the curvature that a smooth loss adds (0 for the hinge), g = p − K·a − r·a the gradient. p is
y for classification. For regression it is the target t less ε where a ≥ 0, and t + ε where a ≤ 0: D has a kink at 0. A variable is on one
side of it at a time, within the bounds of that side, and changes over at 0 where its gradient asks for it (`choose_sides`).
KKT conditions at intercept b: g ≤ b at the lower bound, g ≥ b at the upper bound, g = b for a free variable. Nothing here knows of
active rows, caches or steps.

A ν-problem (`proof.nu`) has the same D, and Σ a is given for each of two groups of variables. Of labels these are the classes, whose
intercepts are b + y(1 − ρ); of a regression the variables above and below 0, whose intercepts are b ± ε, and a variable at 0 changes over
as it does at a kink. With a free intercept alone all variables are one group; without a sum to keep, none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import kernel, kernel_part
from dualgap.problem import Problem
from dualgap.proof import best_intercept, best_tube, nu_threshold

GOLDEN = 0.5 * (5.0**0.5 - 1.0)
SECTIONS = 20  # golden sections of the interval of intercepts, which they narrow to 7e-5 of its width


class Box(NamedTuple):
    """Signed dual variables a, their bounds, the gradient g, the loss's own curvature r, the linear term p; one entry a row."""

    a: np.ndarray
    low: np.ndarray
    high: np.ndarray
    g: np.ndarray
    r: np.ndarray
    p: np.ndarray
    weight: np.ndarray  # c/l2: a is that times yβ
    group: np.ndarray  # the number of its group: variables of one group keep their sum

    def take(self, rows: np.ndarray) -> Box:
        """Return a copy of some rows."""
        return Box(*(part[rows] for part in self))

    def free(self) -> np.ndarray:
        """Return which variables lie strictly between their bounds."""
        return np.asarray((self.a > self.low) & (self.a < self.high))


def bias_weight(problem: Problem) -> float:
    """Return what a penalised intercept adds to every kernel value."""
    return problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0


def count_groups(problem: Problem, nu: float | None) -> int:
    """Return the number of sums that are kept: of the ν-problem one a class, of any other problem one if its intercept is free."""
    return int(problem.intercept == "free") + int(nu is not None)


def start_box(problem: Problem, groups: int = 1) -> Box:
    """Return the box of all rows at a = 0; two groups are the two classes, or the two signs of a regression's variables."""
    weight, y = problem.c / problem.l2, problem.y
    rise, _, curvature = problem.loss.quadratic_pieces()
    r = np.zeros(problem.n)
    if curvature != 0.0:
        np.divide(curvature, weight, out=r, where=weight > 0)
    p = -problem.offset.added(-rise * y)
    bottom = 0.0 if _has_sides(problem, groups) else problem.loss.lower_bound()
    ends = y * _times(weight, bottom), y * _times(weight, problem.loss.upper_bound())
    low, high = np.minimum(*ends), np.maximum(*ends)
    group = (y < 0.0).astype(np.int8) if groups == 2 else np.zeros(problem.n, dtype=np.int8)
    box = Box(np.zeros(problem.n), low, high, p.copy(), r, p, weight, group)
    choose_sides(problem, box, groups)
    return box


def _times(weight: np.ndarray, bound: float) -> np.ndarray:
    """Return weight·bound; 0 where the weight is, for infinite bounds too."""
    return weight * bound if math.isfinite(bound) else np.where(weight > 0, bound, 0.0)


def _has_sides(problem: Problem, groups: int) -> bool:
    """Return whether a variable is on one side of 0 at a time: where ψ has a kink there, or the sign tells the group."""
    rise, fall, _ = problem.loss.quadratic_pieces()
    return bool(rise != fall) or (groups == 2 and problem.is_regression)


def choose_sides(problem: Problem, box: Box, groups: int) -> None:
    """Put every variable at the kink, a = 0, on the side to which it is nearer. Changes p, g, the bounds and groups that are sides.

    The measure is the intercept in the middle between the largest gradient of the variables that can rise and the smallest of those that
    can fall, where a variable at 0 can do both: so the two that violate the KKT conditions most are on the sides to which they tend.
    """
    if not _has_sides(problem, groups):
        return
    rise, fall, _ = problem.loss.quadratic_pieces()
    _choose_sides(box, fall - rise, problem.loss.lower_bound(), problem.loss.upper_bound(), groups)


@kernel
def _choose_sides(box, jump, lower, upper, groups):
    most, least = -np.inf, np.inf
    for k in range(box.a.shape[0]):
        if box.weight[k] > 0.0:
            below = box.high[k] == 0.0
            if box.a[k] < box.high[k] or box.a[k] == 0.0:
                most = max(most, box.g[k] - jump if box.a[k] == 0.0 and below else box.g[k])
            if box.a[k] > box.low[k] or box.a[k] == 0.0:
                least = min(least, box.g[k] + jump if box.a[k] == 0.0 and not below else box.g[k])
    intercept = 0.0
    if groups > 0 and most > -np.inf:
        intercept = 0.5 * (most + least) if least < np.inf else most
    for k in range(box.a.shape[0]):
        weight = box.weight[k]
        if weight <= 0.0:
            continue
        below = box.high[k] == 0.0
        if box.a[k] != 0.0:
            change = box.a[k] < 0.0 if not below else box.a[k] > 0.0
        else:
            change = box.g[k] - 0.5 * jump > intercept if below else box.g[k] + 0.5 * jump < intercept
        if change:
            step = -jump if below else jump
            box.g[k] += step
            box.p[k] += step
            box.low[k] = 0.0 if below else lower * weight
            box.high[k] = upper * weight if below else 0.0
            if groups > 1:
                box.group[k] = 0 if below else 1


def set_gradient(problem: Problem, box: Box, scores: np.ndarray, groups: int) -> float:
    """Set g in a box of all rows from the scores K·a, and the sides of variables that are not 0. Return D/l2."""
    box.g[:] = box.p - scores - box.r * box.a - bias_weight(problem) * box.a.sum()
    choose_sides(problem, box, groups)
    return 0.5 * float(box.a @ (box.p + box.g))


def beta_of(problem: Problem, a: np.ndarray) -> np.ndarray:
    """Return β = l2·y·a/c; 0 where c = 0."""
    signed = a * (problem.l2 * problem.y)
    if problem.sample_weight is None:
        return signed / problem.c
    return np.divide(signed, problem.c, out=np.zeros(problem.n), where=problem.c > 0)


def intercept_of(problem: Problem, box: Box, nu: float | None = None) -> float | np.ndarray:
    """Return the intercept that minimises the primal objective at the scores of a box of all rows; 0 unless it is free.

    For a ν-problem it is an array, each row's intercept being that of its group."""
    if nu is not None and problem.is_regression:
        epsilon, b = best_tube(problem, nu, problem.offset.added(box.p - box.g))
        return b + np.where(box.group == 0, epsilon, -epsilon)
    if nu is not None:
        rho, b = nu_threshold(problem, nu, box.p - box.g)
        return b + problem.y * (1.0 - rho)
    if problem.intercept != "free":
        return 0.0
    return best_intercept(problem, problem.offset.added(box.p - box.g - box.r * box.a))


def by_group(box: Box, values: list[float]) -> float | np.ndarray:
    """Return for each row the value of its group; the value itself if there is one group, 0 if there is none."""
    return np.array(values)[box.group] if len(values) > 1 else values[0] if values else 0.0


def argtop(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the `count` largest values, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def worst_violators(box: Box, count: int, groups: int) -> np.ndarray:
    """Return up to `count` rows that violate the KKT conditions most: of each group as many, half to rise and half to fall."""
    if groups == 0:
        violation = np.where(box.g > 0, np.where(box.a < box.high, box.g, 0.0), np.where(box.a > box.low, -box.g, 0.0))
        order = argtop(violation, count)
        return order[violation[order] > 0]
    if groups > 1:
        return np.concatenate([_violators_of(box, max(count // groups, 1), box.group == group) for group in range(groups)])
    return _violators_of(box, count)


def _violators_of(box: Box, count: int, group: np.ndarray | bool = True) -> np.ndarray:
    """Return the worst violators of one group, given as a mask."""
    rise = np.where((box.a < box.high) & group, box.g, -np.inf)
    fall = np.where((box.a > box.low) & group, -box.g, -np.inf)
    top, bottom = rise.max(), -fall.max()
    if not top > bottom:
        return np.empty(0, dtype=np.int64)
    rising, falling = argtop(rise, max(count // 2, 1)), argtop(fall, max(count // 2, 1))
    rising, falling = rising[rise[rising] > bottom], falling[-fall[falling] < top]
    rise[rising] = np.nan  # a free variable may be in both lists
    return np.concatenate([rising, falling[~np.isnan(rise[falling])]])


def kkt_slack(box: Box, intercept: float | np.ndarray) -> np.ndarray:
    """Return by how much each row satisfies the KKT conditions at that intercept.

    Negative: a violation at a bound. −inf: a free variable. inf: a variable whose bounds are equal."""
    distance = box.g - intercept
    slack = np.where(box.a <= box.low, -distance, np.where(box.a >= box.high, distance, -np.inf))
    slack[box.low == box.high] = np.inf
    return slack


def may_move(box: Box, groups: int) -> np.ndarray:
    """Return the rows that are free, or that violate the KKT conditions at some intercept which no row's gradient rules out.

    Without a free intercept the rows that violate them at 0 by less than others do may still come to it: m and M then are the largest
    violations, up and down."""
    ends = [max_up_min_low(box, group) for group in range(max(groups, 1))]
    if groups == 0:
        ends = [(max(m, 0.0), min(M, 0.0)) for m, M in ends]
    low, high = (by_group(box, [end(pair) for pair in ends]) for end in (min, max))
    satisfied = ((box.a <= box.low) & (box.g < low)) | ((box.a >= box.high) & (box.g > high))
    satisfied |= box.low == box.high
    return np.flatnonzero(~satisfied)


@kernel
def group_gap(loss, box, samples, group, free):
    """Return the gap/l2 of a group at the best intercept between the two of `max_up_min_low`; at 0 if the intercept is not `free`."""
    m, M = max_up_min_low(box, group) if free else (0.0, 0.0)
    return gap_between(loss, box, samples, group, min(m, M), max(m, M))[0]


@kernel
def max_up_min_low(box, group):
    """Return the largest gradient among variables of a group that can rise and the smallest among those that can fall.

    At the optimum the first is at most the second (Keerthi et al. 2001; m(α) and M(α) of Fan et al. 2005)."""
    m, M = -np.inf, np.inf
    for k in range(box.a.shape[0]):
        own = box.group[k] == group
        if own and box.a[k] < box.high[k]:
            m = max(m, box.g[k])
        if own and box.a[k] > box.low[k]:
            M = min(M, box.g[k])
    return m, M


@kernel_part
def _gap_at(loss, box, samples, group, b):
    """Return Σ (c/l2)(φ(m) − ψ(β) + βm) over the rows of a group, at intercept b."""
    total = 0.0
    for k in range(box.a.shape[0]):
        weight, y = box.weight[k], samples.y[k]
        margin = y * (box.p[k] - box.g[k] - box.r[k] * box.a[k] + samples.offset.at(k) + b)
        if weight > 0.0 and box.group[k] == group:
            beta = y * box.a[k] / weight
            total += weight * (loss.value(margin) - loss.psi(beta) + beta * margin)
    return total


@kernel_part
def gap_between(loss, box, samples, group, low, high):
    """Return the gap/l2 of a group at the best intercept in [low, high], and this, by golden sections: the gap is convex in it."""
    if not -np.inf < low < high < np.inf:
        b = low if -np.inf < low < np.inf else high if -np.inf < high < np.inf else 0.0
        return _gap_at(loss, box, samples, group, b), b
    b, c = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_b, at_c = _gap_at(loss, box, samples, group, b), _gap_at(loss, box, samples, group, c)
    for _ in range(SECTIONS):
        if at_b < at_c:
            high, c, at_c = c, b, at_b
            b = high - GOLDEN * (high - low)
            at_b = _gap_at(loss, box, samples, group, b)
        else:
            low, b, at_b = b, c, at_c
            c = low + GOLDEN * (high - low)
            at_c = _gap_at(loss, box, samples, group, c)
    return (at_b, b) if at_b < at_c else (at_c, c)
