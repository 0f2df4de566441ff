"""Proximal steps that untouched coordinates owe (Duchi 2009, Schmidt 2017): a closed form, and two ways to keep w up to date.

A step of SAGA or SVRG moves every coordinate j of w, w_j ← prox(w_j − η·drift_j), and the coordinates of one row by more. On sparse rows
only that row's coordinates are brought up to date, by `prox_steps`, when they are read: a step costs the row's non-zeros, not d.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import ElasticNet, compiled, is_dense, kernel

__all__ = ["Eager", "Lazy", "prox_steps", "prox_sum", "settle", "track"]


@kernel
def decay_sum(steps, theta):
    """Return Σ over τ = 1…steps of (1+θ)^−τ = (1 − (1+θ)^−steps)/θ, to full precision also for θ near or at 0."""
    if theta < 1e-3:
        # log(1+θ)/θ by its series: a logarithm for each coordinate would cost more than all the rest.
        ratio = 1.0 - theta * (1 / 2 - theta * (1 / 3 - theta * (1 / 4 - theta * (1 / 5 - theta / 6))))
    else:
        ratio = math.log1p(theta) / theta
    x = steps * ratio * theta
    if x < 0.1:
        # (1 − e^−x)/x, likewise
        x = 1.0 - x / 2 * (
            1.0 - x / 3 * (1.0 - x / 4 * (1.0 - x / 5 * (1.0 - x / 6 * (1.0 - x / 7 * (1.0 - x / 8 * (1.0 - x / 9))))))
        )
        return steps * ratio * x
    return -math.expm1(-x) / theta


@kernel
def decay_sum_sum(steps, theta):
    """Return Σ over k = 1…steps of decay_sum(k, θ) = (steps − decay_sum(steps, θ))/θ; a series where that cancels."""
    if steps * theta > 1e-2:
        return (steps - decay_sum(steps, theta)) / theta
    # C(k+1,2) − θ·C(k+2,3) + θ²·C(k+3,4) − …
    term = 0.5 * steps * (steps + 1.0)
    total = term
    for order in range(3, 11):
        term *= -theta * (steps + order - 1.0) / order
        total += term
    return total


@kernel
def steps_to_zero(w, shift, theta, steps):
    """Return how many of `steps` steps w ← (w − shift)/(1+θ) leave w at zero or above; shift > 0."""
    if theta > 0.0:
        count = math.log1p(w * theta / shift) / math.log1p(theta)
    else:
        count = w / shift
    return np.int64(min(np.floor(count), float(steps)))


@kernel
def prox_steps(w, drift, steps, step_size, penalty):
    """Return w after `steps` steps of w ← prox(w − step_size·drift), in constant time.

    On one side of zero a step is w ← (w − shift)/(1+θ) with shift = η(drift + l1) and θ = η·l2: a geometric sequence. It crosses zero at
    most once, because the drift has one sign.
    """
    if steps <= 1:
        return penalty.prox(w - step_size * drift, step_size) if steps == 1 else w
    sign = 1.0
    if w < 0.0 or (w == 0.0 and drift > 0.0):
        sign, w, drift = -1.0, -w, -drift
    theta = step_size * penalty.l2
    shift = step_size * (drift + penalty.l1)
    end = w - (theta * w + shift) * decay_sum(steps, theta)
    if end >= 0.0 or shift <= 0.0 or penalty.l1 == 0.0:
        return sign * end
    if drift <= penalty.l1:
        return 0.0  # |drift| ≤ l1: zero is not left on the other side
    before = steps_to_zero(w, shift, theta, steps)
    w = max(0.0, w - (theta * w + shift) * decay_sum(before, theta))
    steps -= before
    while w > 0.0 and steps > 0:  # the crossing itself: one step, or two where rounding made `before` one too small
        w = penalty.prox(w - step_size * drift, step_size)
        steps -= 1
    return sign * (w - (theta * w + step_size * (drift - penalty.l1)) * decay_sum(steps, theta))


@kernel
def prox_sum(w, drift, steps, step_size, penalty):
    """Return the sum of the `steps` iterates of `prox_steps`, the last one included, in constant time."""
    sign = 1.0
    if w < 0.0 or (w == 0.0 and drift > 0.0):
        sign, w, drift = -1.0, -w, -drift
    theta = step_size * penalty.l2
    shift = step_size * (drift + penalty.l1)
    before = steps
    if penalty.l1 > 0.0 and shift > 0.0:
        before = steps_to_zero(w, shift, theta, steps)
    total = w * decay_sum(before, theta) - shift * decay_sum_sum(before, theta)
    if before == steps or drift <= penalty.l1:
        return sign * total
    w = max(0.0, w - (theta * w + shift) * decay_sum(before, theta))
    steps -= before
    while w >= 0.0 and steps > 0:
        w = penalty.prox(w - step_size * drift, step_size)
        total += w
        steps -= 1
    shift = step_size * (drift - penalty.l1)
    return sign * (total + w * decay_sum(steps, theta) - shift * decay_sum_sum(steps, theta))


@compiled
class Eager(NamedTuple):
    """Dense rows: every coordinate takes every step. `last` has one entry; `total` sums up the iterates, or is empty."""

    w: np.ndarray
    drift: np.ndarray
    total: np.ndarray
    last: np.ndarray  # steps taken
    now: np.ndarray  # one number: steps asked for so far
    step_size: float
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        w, drift, eta = self.w, self.drift, self.step_size
        for _ in range(self.last[0], t):
            for j in range(w.shape[0]):
                w[j] = self.penalty.prox(w[j] - eta * drift[j], eta)
            for j in range(self.total.shape[0]):
                self.total[j] += w[j]
        self.last[0] = t

    def catch_up_all(self, rows, t):
        self.catch_up(rows, 0, t)


@compiled
class Lazy(NamedTuple):
    """Sparse rows: a coordinate takes the steps that it owes when a row reads it. `total` sums up the iterates, or is empty.

    The loop body is written twice on purpose: a method for one coordinate, called by both, made a step four times as expensive.
    """

    w: np.ndarray
    drift: np.ndarray
    total: np.ndarray
    last: np.ndarray  # steps taken by each coordinate
    now: np.ndarray  # one number: steps asked for so far
    step_size: float
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        averaged = self.total.shape[0] > 0
        for k in range(rows.begin(i), rows.end(i)):
            j = rows.column(k)
            owed = t - self.last[j]
            if owed > 0:
                if averaged:
                    self.total[j] += prox_sum(self.w[j], self.drift[j], owed, self.step_size, self.penalty)
                self.w[j] = prox_steps(self.w[j], self.drift[j], owed, self.step_size, self.penalty)
                self.last[j] = t

    def catch_up_all(self, rows, t):
        averaged = self.total.shape[0] > 0
        for j in range(self.w.shape[0]):
            owed = t - self.last[j]
            if owed > 0:
                if averaged:
                    self.total[j] += prox_sum(self.w[j], self.drift[j], owed, self.step_size, self.penalty)
                self.w[j] = prox_steps(self.w[j], self.drift[j], owed, self.step_size, self.penalty)
                self.last[j] = t


@kernel
def settle(rows, point):
    """Let every coordinate take all the steps that it owes."""
    point.catch_up_all(rows, point.now[0])


def track(rows: Any, w: np.ndarray, step_size: float, penalty: ElasticNet, averaged: bool = False) -> Eager | Lazy:
    """Return w with zero drift: lazy on sparse rows, eager on dense ones."""
    total = np.zeros(len(w) if averaged else 0)
    lazy = not is_dense(rows)
    last = np.zeros(len(w) if lazy else 1, dtype=np.int64)
    return (Lazy if lazy else Eager)(w, np.zeros(len(w)), total, last, np.zeros(1, dtype=np.int64), step_size, penalty)
