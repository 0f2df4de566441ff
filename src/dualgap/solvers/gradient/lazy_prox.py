"""Proximal steps on every coordinate of w, which untouched coordinates may owe (Duchi 2009, Schmidt 2017; docs/references.md).

Step s of a stochastic method moves every coordinate, w_j ← prox(w_j − η_s·drift_j, η_s), and those of some rows by more. On dense rows
each coordinate takes each step. On sparse rows it takes those that it owes when a row reads it: a step costs the row's non-zeros, not d.

The steps owed have a closed form. With the decay A_s = Π 1/(1 + η·l2) and B_s = Σ η/A over the steps before s, w on one side of zero is

    w_t = A_t·(w_r/A_r − (drift + l1)(B_t − B_r))

It crosses zero at most once, since the drift has one sign, and stays there if |drift| ≤ l1. The sums C = Σ ω·A and E = Σ ω·A·B add the
iterates, each with its weight ω, on the way to their average. A table has all four for a stretch of steps. At its end every coordinate is
brought up to date.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import ElasticNet, compiled, is_dense, kernel
from dualgap.solvers.gradient.primal import IterateWeights, Schedule, record

__all__ = ["Drift", "Eager", "Lazy", "begin_stretch", "settle", "track"]

SHORTEST_STRETCH = 1024  # steps; a table of them takes 48 kB
CATCH_UP_SHARE = 8  # coordinates a step: a stretch is so long that bringing all d up to date at its end costs a step no more

# An entry of the table: the size of step s; A, B, C, E before that step; the weight of the iterate before it.
STEP = [(name, np.float64) for name in ("eta", "decay", "reach", "decays", "reaches", "omega")]


@compiled
class NoDrift(NamedTuple):
    """The steps are those of the penalty alone."""

    unused: float = 0.0

    def drift_at(self, j):
        return 0.0

    def drifted(self, w, j, eta):
        return w


@compiled
class Drift(NamedTuple):
    """A part of the gradient that all steps share."""

    drifts: np.ndarray

    def drift_at(self, j):
        return self.drifts[j]

    def drifted(self, w, j, eta):
        return w - eta * self.drifts[j]


@kernel
def tabulate(schedule, weights, penalty, t, table):
    """Fill the table for the steps from t on; return for how many: below the smallest scale A the sums would cancel."""
    first = table[0]
    first.decay = 1.0
    first.reach = first.decays = first.reaches = first.omega = 0.0
    for s in range(table.shape[0] - 1):
        now, after = table[s], table[s + 1]
        now.eta = schedule.step_at(t + s)
        after.omega = weights.weight_at(t + s + 1.0)
        after.decay = now.decay / (1.0 + now.eta * penalty.l2)
        after.reach = now.reach + now.eta / now.decay
        after.decays = now.decays + after.omega * after.decay
        after.reaches = now.reaches + after.omega * after.decay * after.reach
        if after.decay < weights.smallest_scale:
            return s + 1
    return table.shape[0] - 1


@kernel
def last_within(table, r, s, x):
    """Return the last step before s, from r on, with B < x; at s, B ≥ x."""
    while s - r > 1:
        middle = (r + s) // 2
        if table[middle].reach < x:
            r = middle
        else:
            s = middle
    return r


@compiled
class Eager(NamedTuple):
    """Dense rows: every coordinate takes every step. `last` has one entry, the steps taken in this stretch.

    now
        steps: begun in all. place: of them, in this stretch. stretch: its length.
    """

    w: np.ndarray
    drift: Any  # NoDrift or Drift
    total: np.ndarray  # Σ ω·w over the iterates, or empty
    last: np.ndarray
    table: np.recarray
    now: np.recarray
    schedule: Schedule
    weights: IterateWeights
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        w = self.w
        for s in range(self.last[0], t):
            eta = self.table[s].eta
            for j in range(w.shape[0]):
                w[j] = self.penalty.prox(self.drift.drifted(w[j], j, eta), eta)
            for j in range(self.total.shape[0]):
                self.total[j] += self.table[s + 1].omega * w[j]
        self.last[0] = t

    def catch_up_all(self, rows, t):
        self.catch_up(rows, 0, t)


@compiled
class Lazy(NamedTuple):
    """Sparse rows: a coordinate takes the steps that it owes when a row reads it. `last` has those that each has taken in this stretch."""

    w: np.ndarray
    drift: Any  # NoDrift or Drift
    total: np.ndarray
    last: np.ndarray
    table: np.recarray
    now: np.recarray
    schedule: Schedule
    weights: IterateWeights
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        for k in range(rows.begin(i), rows.end(i)):
            j = rows.column(k)
            if self.last[j] < t:
                self.take_owed(j, t)

    def catch_up_all(self, rows, t):
        for j in range(self.w.shape[0]):
            if self.last[j] < t:
                self.take_owed(j, t)

    def take_owed(self, j, t):
        # numba is fast with fields read from the array; a record in a local variable made this method six times as slow.
        w, r, table, drift = self.w[j], self.last[j], self.table, self.drift.drift_at(j)
        sign = (
            -1.0 if w < 0.0 or (w == 0.0 and drift > 0.0) else 1.0
        )  # by products: a branch would be guessed wrong half of the times
        w, drift = sign * w, sign * drift
        shift = drift + self.penalty.l1
        x = w / table[r].decay + shift * table[r].reach  # w_s = A_s·(x − shift·B_s) on this side of zero
        end = x - shift * table[t].reach
        self.last[j] = t
        if end > 0.0 or self.penalty.l1 == 0.0:
            if self.total.shape[0] > 0:
                self.total[j] += sign * (x * (table[t].decays - table[r].decays) - shift * (table[t].reaches - table[r].reaches))
            self.w[j] = sign * end * table[t].decay
        elif w == 0.0 or (drift <= self.penalty.l1 and self.total.shape[0] == 0):
            self.w[j] = 0.0
        else:
            self.w[j] = sign * self.cross_zero(j, r, t, sign, x, drift)

    def cross_zero(self, j, r, t, sign, x, drift):
        table, averaged, l1 = self.table, self.total.shape[0] > 0, self.penalty.l1
        shift = drift + l1
        s = last_within(table, r, t, x / shift)
        total = x * (table[s].decays - table[r].decays) - shift * (table[s].reaches - table[r].reaches)
        w = 0.0
        if drift > l1:
            w = max(0.0, x - shift * table[s].reach) * table[s].decay
            while w >= 0.0 and s < t:  # the crossing itself: one step, or two if rounding made s one too small
                w = self.penalty.prox(w - table[s].eta * drift, table[s].eta)
                s += 1
                total += table[s].omega * w
            shift = drift - l1
            x = w / table[s].decay + shift * table[s].reach
            total += x * (table[t].decays - table[s].decays) - shift * (table[t].reaches - table[s].reaches)
            w = (x - shift * table[t].reach) * table[t].decay
        if averaged:
            self.total[j] += sign * total
        return w


@kernel
def begin_stretch(rows, point):
    """Bring every coordinate up to date and fill the table for the next steps. Due where `place` is `stretch`, at the start too."""
    now = point.now[0]
    point.catch_up_all(rows, now.place)
    point.last[:] = 0
    now.place = 0
    now.stretch = tabulate(point.schedule, point.weights, point.penalty, now.steps, point.table)


@kernel
def settle(rows, point):
    """Let every coordinate take all the steps that it owes."""
    point.catch_up_all(rows, point.now[0].place)


def track(
    rows: Any,
    w: np.ndarray,
    schedule: Schedule,
    weights: IterateWeights,
    penalty: ElasticNet,
    *,
    averaged: bool,
    drift: bool = False,
) -> Eager | Lazy:
    """Return w before the first step: lazy on sparse rows, eager on dense ones; with zero drift, or none."""
    lazy, d = not is_dense(rows), len(w)
    stretch = max(SHORTEST_STRETCH, d // CATCH_UP_SHARE if lazy else 0)
    return (Lazy if lazy else Eager)(
        w,
        Drift(np.zeros(d)) if drift else NoDrift(),
        np.zeros(d if averaged else 0),
        np.zeros(d if lazy else 1, dtype=np.int64),
        np.zeros(stretch + 1, STEP).view(np.recarray),
        record(steps=0, place=0, stretch=0),
        schedule,
        weights,
        penalty,
    )
