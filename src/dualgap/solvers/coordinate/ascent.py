"""Dual coordinate ascent: a dual point β, the v = u(β)/l2 that belongs to it, and the steps 1 to 3 on both of README.md's Step box.

With an l1 part the same step, at the margin of soft(v, l1/l2), still ascends; with bounds at that of the nearest w within them. Every
method with such a step uses this one; the order of the steps is the caller's. An intercept is a column of the rows, see bias.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import NoOffset, compiled, inner, kernel, prefetch, rows_ahead
from dualgap.kernels import add_rows, load_block, split_order
from dualgap.problem import Problem, Samples
from dualgap.solvers.base import YES, Support, no
from dualgap.solvers.coordinate.bias import BiasColumn, free_scale, slows_sweeps

__all__ = ["Ascent", "Coordinates", "NoSums", "RunningSums", "ascend", "coordinates", "first_beta", "needs_l2"]


@compiled
class Coordinates(NamedTuple):
    """Constants of the coordinate steps on each row."""

    y: np.ndarray  # label, 1 or −1
    c: np.ndarray  # weight
    q: np.ndarray  # c‖x‖²/l2: the second derivative of R*(u) in β, divided by c
    factor: np.ndarray  # c·y/l2: v changes by this times x for a unit of β
    offset: Any = NoOffset()  # fixed part of the score

    def prefetch_step(self, i, rows, beta):
        """Fetch what a step on row i reads."""
        rows.prefetch(i)
        prefetch(beta, i)
        prefetch(self.q, i)
        prefetch(self.factor, i)


def coordinates(samples: Samples, squares: np.ndarray, l2: float) -> Coordinates:
    """Return the constants for rows with these ‖xᵢ‖²."""
    y, c, offset = samples
    return Coordinates(y, c, c * squares / l2, c * y / l2, offset)


def first_beta(problem: Problem, dual: np.ndarray | None) -> np.ndarray:
    """Return a warm start's β, clipped to its box, or zeros."""
    if dual is None:
        return np.zeros(problem.n)
    return np.clip(dual, problem.loss.lower_bound(), problem.loss.upper_bound())


def needs_l2(problem: Problem) -> Support:
    """Return yes if w follows from the dual variables, as coordinate steps on them need."""
    if problem.l2 == 0:
        return no("l1 alone (l2 = 0) leaves w undetermined by the dual variables; dual coordinate steps need l2 > 0")
    return YES


@compiled
class NoSums(NamedTuple):
    """In place of RunningSums where no average of the iterates is wanted."""

    unused: float = 0.0

    def record(self, i, beta, t):
        pass


@compiled
class RunningSums(NamedTuple):
    """Σ over all steps t of βᵢ before step t, for averages of the iterates; brought up to date only when βᵢ changes."""

    total: np.ndarray  # the sum over the steps before `since`
    since: np.ndarray  # the first step that finds the present βᵢ, counted from 0

    def record(self, i, beta, t):
        self.total[i] += beta * (t - self.since[i])
        self.since[i] = t


@kernel
def ascend(rows, loss, penalty, coords, beta, v, order, ahead, sums, t):
    """Take coordinate steps in the given order. t is the number of the first; `ahead` as in Ascent."""
    n = order.shape[0]
    for s in range(n):
        if ahead > 0 and s + ahead < n:
            coords.prefetch_step(order[s + ahead], rows, beta)
        i = order[s]
        old, factor = beta[i], coords.factor[i]
        # 1) margin. The factor c·y/l2 carries y's sign (that of −0.0 too, where c = 0): one array fewer to look up at a random place.
        margin = math.copysign(1.0, factor) * (penalty.score(rows, i, v) + coords.offset.at(i))
        new = loss.ascent_step(old, margin, coords.q[i])  # 2) the new β
        if new != old:  # 3) v
            sums.record(i, old, t + s + 1)
            rows.add(i, (new - old) * factor, v)
            beta[i] = new


class Ascent:
    """β, its v, and the rows (with a bias column where there is an intercept) that steps read.

    Order of calls: `epoch`, or `steps` as often as wanted and then `move_centre`. `rebuild` after β was changed by anything else.
    """

    def __init__(self, problem: Problem, beta: np.ndarray | None = None, centre: float | None = None) -> None:
        self.problem = problem
        self.beta = first_beta(problem, beta)
        self.sums: NoSums | RunningSums = NoSums()
        self.ahead = rows_ahead(problem.rows)  # places in the order by which a row is prefetched before its step; 0: not at all
        self.bias = BiasColumn.of(problem, centre)
        self.rows = self.bias.rows(problem.rows)
        self.coords = coordinates(problem.samples, self.bias.squares(problem.sqnorms), problem.l2)
        self.rebuild()

    def rebuild(self) -> None:
        """Compute v from β afresh."""
        problem = self.problem
        self.v = np.zeros(problem.size + self.bias.width)
        if self.beta.any():
            add_rows(self.rows, self.beta * self.coords.factor, self.v)

    def epoch(self, order: np.ndarray, t: int = 0) -> None:
        """Take steps in the given order, then move the centre of the intercept."""
        self.steps(order, t)
        self.move_centre()

    def steps(self, order: np.ndarray, t: int = 0) -> None:
        """Take steps in the given order, as part of an epoch."""
        problem = self.problem
        args = (problem.loss, problem.penalty, self.coords, self.beta, self.v)
        for part in split_order(self.rows, order):
            ascend(load_block(self.rows, part), *args, part, self.ahead, self.sums, t)
            t += len(part)

    def move_centre(self) -> None:
        """Take one step of the proximal-point loop on b; where the column alone is its penalty, do nothing."""
        if self.bias.share > 0.0:
            self.bias.move_centre(float(self.v[-1]))
            self.rows = self.bias.rows(self.problem.rows)

    def set_intercept(self, b: float) -> None:
        """Move the centre so that b has this value; where the column alone is its penalty, b follows from v."""
        self.bias.centre = b - self.bias.scale * float(self.v[-1]) if self.bias.share > 0.0 else 0.0
        self.rows = self.bias.rows(self.problem.rows)

    def shorten_column(self) -> None:
        """Make the column of a penalised intercept as long as that of a free one, at the same b, if it would slow the sweeps."""
        problem, bias, b = self.problem, self.bias, self.intercept()
        scale = free_scale(float(inner(problem.c, problem.sqnorms)), problem.l2, float(problem.offset.scale))
        if not slows_sweeps(problem) or scale >= bias.scale:
            return
        self.v[-1] *= scale / bias.scale
        bias.scale = scale
        self.set_intercept(b)
        self.coords = coordinates(problem.samples, bias.squares(problem.sqnorms), problem.l2)

    def intercept_terms(self) -> tuple[float, float]:
        """Return what a penalised b that does not follow from β adds to the gap and to the objective, beyond the sums over rows.

        Let t = longest²·Σ cβy/l2. P(w, b) − D(β) is the sum of c(φ(m) − ψ(β) + βm) plus (l2/2)(b − t)²/longest², and P(w, b) that of
        c(φ(m) + βm/2) plus (l2/2)b(b − t)/longest².
        """
        bias, coefficient = self.bias, float(self.v[-1])
        if not 0.0 < bias.share < 1.0:
            return 0.0, 0.0
        own = bias.value(coefficient) / bias.longest
        off = own - bias.longest / bias.scale * coefficient
        return 0.5 * self.problem.l2 * off * off, 0.5 * self.problem.l2 * own * off

    def intercept(self) -> float:
        """Return b of (β, v)."""
        return float(self.bias.value(self.v[-1]))
