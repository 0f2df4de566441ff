"""Signed dual variables in their box: how far each is from where the dual objective pulls it, the gap that makes, who matters.

aᵢ = cᵢβᵢyᵢ/l2 between low and high, errors e = y − K·a − r·a. A variable may rise while a < high and wants to where its e is above the
intercept; it may fall while a > low and wants to where e is below. All values here are D and gap divided by l2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualgap.core import Hinge, SmoothHinge, SquaredHinge, kernel
from dualgap.problem import Problem

__all__ = [
    "Box",
    "beta_of",
    "bias_weight",
    "extremes",
    "gap_of",
    "in_turn",
    "largest",
    "reluctance",
    "violators",
    "whole_box",
    "worth_keeping",
]

GOLDEN = 0.5 * (5.0**0.5 - 1.0)


class Box(NamedTuple):
    """Signed dual variables, their bounds, errors and the loss's own curvature r."""

    a: np.ndarray
    low: np.ndarray
    high: np.ndarray
    e: np.ndarray
    r: np.ndarray


def bias_weight(problem: Problem) -> float:
    """What a penalised intercept adds to every kernel value."""
    return problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0


def whole_box(problem: Problem) -> Box:
    most = problem.c / problem.l2
    if isinstance(problem.loss, Hinge):
        own = np.zeros(problem.n)
    else:
        delta = problem.loss.delta if isinstance(problem.loss, SmoothHinge) else 0.5
        own = np.divide(delta, most, out=np.zeros(problem.n), where=most > 0)
    if isinstance(problem.loss, SquaredHinge):
        most = np.where(most > 0, np.inf, 0.0)
    low, high = np.where(problem.y > 0, 0.0, -most), np.where(problem.y > 0, most, 0.0)
    return Box(np.zeros(problem.n), low, high, problem.y.copy(), own)


def beta_of(problem: Problem, a: np.ndarray) -> np.ndarray:
    scale = problem.l2 * problem.y
    return np.divide(a * scale, problem.c, out=np.zeros(problem.n), where=problem.c > 0)


def violators(problem: Problem, box: Box, count: int) -> np.ndarray:
    """Rows that the dual objective pulls hardest; with a free intercept as many that should rise as should fall."""
    if problem.intercept != "free":
        pull = np.where(box.e > 0, np.where(box.a < box.high, box.e, 0.0), np.where(box.a > box.low, -box.e, 0.0))
        order = largest(pull, count)
        return order[pull[order] > 0]
    rise = np.where(box.a < box.high, box.e, -np.inf)
    fall = np.where(box.a > box.low, -box.e, -np.inf)
    top, bottom = rise.max(), -fall.max()
    if not top > bottom:
        return np.empty(0, dtype=np.int64)
    rising = largest(rise, max(count // 2, 1))
    falling = largest(fall, max(count // 2, 1))
    rising, falling = rising[rise[rising] > bottom], falling[-fall[falling] < top]
    rise[rising] = np.nan  # a row that may move either way is there once
    return np.concatenate([rising, falling[~np.isnan(rise[falling])]])


def largest(values: np.ndarray, count: int) -> np.ndarray:
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def in_turn(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows in random order, one of each class in turn while both last: the first of them are a sample with enough of a rare class."""
    order = rng.permutation(len(y))
    place = np.where(y[order] > 0, np.cumsum(y[order] > 0), np.cumsum(y[order] < 0))
    return order[np.argsort(place, kind="stable")]


def reluctance(problem: Problem, box: Box, intercept: float) -> np.ndarray:
    """How far each row is from wanting to move, at that intercept: below zero it does, or is between its bounds; infinite if it cannot."""
    pull = box.e - intercept
    distance = np.where(box.a <= box.low, -pull, np.where(box.a >= box.high, pull, -np.inf))
    distance[box.low == box.high] = np.inf
    return distance


def worth_keeping(problem: Problem, box: Box) -> np.ndarray:
    at_low, at_high = box.a <= box.low, box.a >= box.high
    if problem.intercept == "free":
        top, bottom = extremes(box)
        idle = (at_low & (box.e < min(bottom, top))) | (at_high & (box.e > max(bottom, top)))
    else:
        reach = 0.0
        idle = (at_low & (box.e < -reach)) | (at_high & (box.e > reach))
    idle |= box.low == box.high
    return np.flatnonzero(~idle)


@kernel
def extremes(box):
    """The largest error that can still rise, the smallest that can fall: at the optimum the first is no larger."""
    top, bottom = -np.inf, np.inf
    for k in range(box.a.shape[0]):
        if box.a[k] < box.high[k]:
            top = max(top, box.e[k])
        if box.a[k] > box.low[k]:
            bottom = min(bottom, box.e[k])
    return top, bottom


@kernel
def _gap_at(loss, box, y, b):
    """Σ (c/l2)(φ(m) − ψ(β) + βm) over the rows of the box"""
    total = 0.0
    for k in range(y.shape[0]):
        curve = box.r[k]
        score = y[k] - box.e[k] - curve * box.a[k]
        margin = y[k] * (score + b)
        size = box.high[k] - box.low[k]
        if size > 0.0:
            if size == np.inf:
                size = 0.5 / curve
            beta = y[k] * box.a[k] / size
            total += size * (loss.value(margin) - loss.psi(beta) + beta * margin)
    return total


@kernel
def gap_of(loss, box, y, low, high):
    """The gap at the best intercept between the two, in which it is convex: golden sections."""
    if not -np.inf < low < high < np.inf:
        return _gap_at(loss, box, y, low if -np.inf < low < np.inf else 0.0)
    b, c = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_b, at_c = _gap_at(loss, box, y, b), _gap_at(loss, box, y, c)
    for _ in range(20):
        if at_b < at_c:
            high, c, at_c = c, b, at_b
            b = high - GOLDEN * (high - low)
            at_b = _gap_at(loss, box, y, b)
        else:
            low, b, at_b = b, c, at_c
            c = low + GOLDEN * (high - low)
            at_c = _gap_at(loss, box, y, c)
    return min(at_b, at_c)
