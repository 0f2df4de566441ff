"""The step that SAGA and SVRG share. They differ in what they remember: a table that every step renews, or a snapshot.

    1) catch up    bring the coordinates of the drawn row i up to date: w ← prox(w − η·drift) for every step that they still owe
    2) correction  change = n·cᵢyᵢ(remembered slope − slope now),   slope = −φ'(mᵢ)
    3) step        w ← prox(w − η(change·xᵢ + drift)), the same for b; the part that is not a multiple of xᵢ is owed
    4) remember    SAGA: the slope of i, and drift ← drift + change·xᵢ/n. SVRG: nothing until the next snapshot

drift is the mean of the remembered gradients. On sparse rows a step then costs the row's non-zeros (Schmidt 2017).
"""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel
from dualgap.problem import Problem
from dualgap.solvers.gradient.lazy_prox import Eager, Lazy
from dualgap.solvers.gradient.primal import Bias, loss_gradient

__all__ = ["reduced_steps", "remember"]


@kernel
def reduced_steps(rows, samples, loss, point, bias, memory, order, ahead):
    """Take a step for each entry of `order`.

    A step that is owed is taken with a later drift, which contains share·change·xᵢ already. Taking only (1 − share)·change·xᵢ off w
    makes up for it, also where a row has a column twice.
    """
    steps = order.shape[0]
    n = rows.length()
    t = point.now[0]
    intercept = bias.numbers[0]
    for s in range(steps):
        if ahead > 0 and s + ahead < steps:
            rows.prefetch(order[s + ahead])
        i = order[s]
        point.catch_up(rows, i, t + s)  # 1) catch up
        y = samples.y[i]
        slope = loss.slope(y * (rows.dot(i, point.w) + samples.offset.at(i) + intercept.b))  # 2) correction
        change = n * samples.c[i] * y * (memory.slopes[i] - slope)
        bias.move_bias(change + intercept.drift, point.step_size)  # 3) step
        intercept.drift += memory.share * change
        intercept.total += intercept.b
        if change != 0.0:
            rows.add(i, -point.step_size * (1.0 - memory.share) * change, point.w)
            memory.learn(rows, i, slope, change, point.drift)  # 4) remember
    point.now[0] = t + steps


def remember(problem: Problem, point: Eager | Lazy, bias: Bias, slopes: np.ndarray) -> None:
    """Write the slopes and the drift of the present point: one full gradient pass."""
    now = bias.numbers[0]
    _, now.drift = loss_gradient(problem.rows, problem.samples, problem.loss, point.w, now.b, slopes, point.drift)
