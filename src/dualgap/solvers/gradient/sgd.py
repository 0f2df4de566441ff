"""SGD: stochastic proximal (sub)gradient descent on any loss and penalty, in batches, with schedules and averaging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import CSR, ElasticNet, compiled, fresh_seed, kernel, natural_order, one_of, rows_ahead, shuffle, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.primal import (
    Schedule,
    check_schedule,
    first_coef,
    linear_only,
    make_bias,
    make_schedule,
    row_smoothness,
    separable,
)

__all__ = ["SGD"]

# ------------------------------------------------------------------------------------------------------- shrinking, kept lazily
#
# A coordinate that a step's batch does not touch only shrinks, w ← soft(w, η_s·l1)/(1 + η_s·l2), with a step size η_s of its own each time.
# With A_s = Π 1/(1 + η·l2) and B_s = Σ η·l1/A over the steps before s, the steps from r to s make soft(w, A_r(B_s − B_r))·A_s/A_r of it.
# C and E sum up ω·A and ω·A·B, with which the iterates on the way, weighted by ω, are added to their average. All are tabulated for a
# stretch of steps at a time, at whose end every coordinate is brought up to date.

ETA, A, B, C, E, OMEGA = range(6)
SHORTEST_STRETCH = 1024
BOUNDED_REACH = 20  # the mean over a batch is smoother than its rows: up to so many times, its first step may be longer


class Plan(NamedTuple):
    """How an epoch steps: the schedule, batch size, batches in it, weights of iterates in their average (none, 1 or t), the prefetch."""

    schedule: Schedule
    batch: int
    batches: int
    average: int
    ahead: int


@kernel
def tabulate(plan, penalty, t, table):
    """Fill the table for the steps from t on; returns for how many. Below the floor on A the sums would cancel."""
    floor = 1e-100 if plan.average == 0 else 1e-4
    table[0, A] = 1.0
    table[0, B:] = 0.0
    for s in range(table.shape[0] - 1):
        eta = plan.schedule.step_at(t + s)
        omega = 1.0 if plan.average < 2 else t + s + 1.0
        a, b = table[s, A], table[s, B] + eta * penalty.l1 / table[s, A]
        a /= 1.0 + eta * penalty.l2
        table[s, ETA] = eta
        table[s + 1, A] = a
        table[s + 1, B] = b
        table[s + 1, C] = table[s, C] + omega * a
        table[s + 1, E] = table[s, E] + omega * a * b
        table[s + 1, OMEGA] = omega
        if a < floor:
            return s + 1
    return table.shape[0] - 1


@kernel
def last_above_zero(table, r, s, b):
    """The last step before s, from r on, at which B is below b; at s it is not."""
    while s - r > 1:
        middle = (r + s) // 2
        if table[middle, B] < b:
            r = middle
        else:
            s = middle
    return r


@compiled
class EagerShrink(NamedTuple):
    """Every coordinate takes every step: for dense rows. `last` holds one number, the steps taken; `total` may be empty."""

    w: np.ndarray
    total: np.ndarray
    last: np.ndarray
    table: np.ndarray
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        w = self.w
        for s in range(self.last[0], t):
            eta = self.table[s, ETA]
            for j in range(w.shape[0]):
                w[j] = self.penalty.prox(w[j], eta)
            for j in range(self.total.shape[0]):
                self.total[j] += self.table[s + 1, OMEGA] * w[j]
        self.last[0] = t

    def catch_up_all(self, rows, t):
        self.catch_up(rows, 0, t)


@compiled
class LazyShrink(NamedTuple):
    """A coordinate takes the steps that it owes when a row reads it: for sparse rows. `last` is the steps each has taken."""

    w: np.ndarray
    total: np.ndarray
    last: np.ndarray
    table: np.ndarray
    penalty: ElasticNet

    def catch_up(self, rows, i, t):
        for k in range(rows.begin(i), rows.end(i)):
            j = rows.column(k)
            if self.last[j] < t:
                self.shrink(j, t)

    def catch_up_all(self, rows, t):
        for j in range(self.w.shape[0]):
            if self.last[j] < t:
                self.shrink(j, t)

    def shrink(self, j, t):
        w, r, table = self.w[j], self.last[j], self.table
        x = abs(w) / table[r, A] + table[r, B]
        sign = 1.0 if w > 0.0 else -1.0
        if self.total.shape[0] > 0 and w != 0.0:
            s = t if table[t, B] < x else last_above_zero(table, r, t, x)
            self.total[j] += sign * (x * (table[s, C] - table[r, C]) - (table[s, E] - table[r, E]))
        self.w[j] = sign * max(0.0, x - table[t, B]) * table[t, A]
        self.last[j] = t


# ----------------------------------------------------------------------------------------------------------------- the solver


class Memory(NamedTuple):
    """What the steps leave behind: a batch's pulls, each sample's weighted sum of slopes, and counters (see below)."""

    pulls: np.ndarray
    slopes: np.ndarray
    counters: np.ndarray


# Counters: steps taken; of them, in this stretch; length of the stretch; Σ of the iterates' weights; weight of this epoch's slopes; its Σ
STEPS, PLACE, STRETCH, ITERATES, EPOCH, EPOCHS = range(6)


@kernel
def descend(rows, samples, loss, point, bias, plan, memory, order):
    """An epoch of steps w ← prox(w + η·Σ over the batch of (batches·cᵢ)βᵢyᵢxᵢ), margins taken before anything moves."""
    n = order.shape[0]
    counters, pulls = memory.counters, memory.pulls
    for start in range(0, plan.batches * plan.batch, plan.batch):
        if counters[PLACE] == counters[STRETCH]:
            settle_shrink(rows, point, counters)
            point.last[:] = 0
            counters[PLACE] = 0.0
            counters[STRETCH] = tabulate(plan, point.penalty, counters[STEPS], point.table)
        s = np.int64(counters[PLACE])
        stop = min(start + plan.batch, n)
        for k in range(start, stop):
            if plan.ahead > 0 and k + plan.ahead < n:
                rows.prefetch(order[k + plan.ahead])
            i = order[k]
            point.catch_up(rows, i, s)
            y = samples.y[i]
            beta = loss.slope(y * (rows.dot(i, point.w) + bias.state[0]))
            memory.slopes[i] += counters[EPOCH] * beta
            pulls[k - start] = plan.batches * samples.c[i] * y * beta
        eta, pulled = point.table[s, ETA], 0.0
        for k in range(start, stop):
            if pulls[k - start] != 0.0:
                pulled += pulls[k - start]
                rows.add(order[k], eta * pulls[k - start], point.w)
        bias.move_bias(-pulled, eta)
        omega = point.table[s + 1, OMEGA]
        bias.state[2] += omega * bias.state[0]
        counters[ITERATES] += omega
        counters[PLACE] += 1.0
        counters[STEPS] += 1.0


@kernel
def settle_shrink(rows, point, counters):
    """Let every coordinate take all the steps that are due."""
    point.catch_up_all(rows, np.int64(counters[PLACE]))


@dataclass
class SGDState(State):
    point: Any = None
    bias: Any = None
    plan: Any = None
    memory: Any = None
    order: Any = None
    epochs: int = 0


@register
@dataclass(frozen=True)
class SGD(Solver):
    """Stochastic proximal gradient descent: a step along a batch's (sub)gradient of the loss, then the prox of the penalty.

        w ← prox(w + η_t·(1/k) Σ over the batch of n·cᵢβᵢyᵢxᵢ),   βᵢ = −φ'(mᵢ)

    A fresh random partition into batches each epoch. The certificate's dual point is the average of the slopes that the steps saw, later
    epochs weighing more; it serves the hinge too, whose slopes at a single w tell little. On sparse rows a step costs the non-zeros of
    the batch, with an l1 part as well. For Σ φ + λ‖w‖² and the like, `dualgap.scaling` gives l2.

    Parameters
    ----------
    schedule : {"1/t", "1/sqrt(t)", "constant"}, optional
        η_t = rate/(1 + t·rate·l2), which tends to 1/(l2·t); rate/√(1 + t/T), with T steps in an epoch; or rate. Where l2 = 0, "1/t" is
        rate/(1 + t/T). By default "1/t" where l2 > 0, else "1/sqrt(t)".
    rate : float, optional
        The first step size. By default 1/L, with L the mean of n·cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature (1 for the
        hinge), times the batch size up to 20 unless the step is constant. For losses with unbounded slopes (squared hinge), where a step
        too long never recovers, 1/L with L between the maximum (batches of one row) and the mean.
    batch_size : int
        Rows a step. The batches of an epoch share n rows, so that the last may be short; each step divides by their mean size.
    output : {"last", "average", "weighted"}
        The last iterate, the average of all, or their average with weights proportional to t.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> problem = dualgap.Problem(X, y, l2=1e-2, l1=1e-2, intercept="free")
    >>> dualgap.solve(problem, dualgap.SGD(batch_size=10), tol=2e-2, max_epochs=1000).status
    'converged'
    """

    schedule: str | None = None
    rate: float | None = None
    batch_size: int = 1
    output: str = "weighted"

    name: ClassVar[str] = "sgd"
    summary: ClassVar[str] = "stochastic proximal (sub)gradient descent"

    def __post_init__(self) -> None:
        check_schedule(self.schedule, self.rate)
        whole_number("batch_size", self.batch_size)
        one_of("output", self.output, ("last", "average", "weighted"))

    def supports(self, problem: Problem) -> Support:
        return linear_only(problem, "SGD")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SGDState:
        batch = min(int(self.batch_size), problem.n)
        batches = -(-problem.n // batch)
        schedule = make_schedule(problem, self.schedule, self._rate(problem, batch), batches, reach=min(batch, BOUNDED_REACH))
        average = ("last", "average", "weighted").index(self.output)
        w = first_coef(problem, warm)
        lazy = isinstance(problem.rows, CSR)
        point = (LazyShrink if lazy else EagerShrink)(
            w,
            np.zeros(problem.d if average else 0),
            np.zeros(problem.d if lazy else 1, dtype=np.int64),
            # Long enough that bringing d coordinates up to date at a stretch's end costs a step no more than eight of them.
            np.zeros((max(SHORTEST_STRETCH, problem.d // 8 if lazy else 0) + 1, 6)),
            separable(problem),
        )
        return SGDState(
            point=point,
            bias=make_bias(problem, warm),
            plan=Plan(schedule, batch, batches, average, rows_ahead(problem.rows)),
            memory=Memory(np.empty(batch), np.zeros(problem.n), np.zeros(6)),
            order=natural_order(problem.n),
        )

    def _rate(self, problem: Problem, batch: int) -> float | None:
        if self.rate is not None or np.isfinite(problem.loss.upper_bound()):
            return self.rate
        each = row_smoothness(problem) * problem.loss.curvature()
        mean, largest = float(each.mean()), float(each.max())
        return 1.0 / (mean + (largest - mean) / batch) if largest > 0.0 else 1.0

    def epoch(self, problem: Problem, state: SGDState, rng: np.random.Generator) -> None:
        shuffle(state.order, fresh_seed(rng))
        state.epochs += 1
        counters = state.memory.counters
        counters[EPOCH] = state.epochs
        counters[EPOCHS] += state.epochs
        descend(problem.rows, problem.samples, problem.loss, state.point, state.bias, state.plan, state.memory, state.order)
        state.passes += 1.0

    def model(self, problem: Problem, state: SGDState) -> tuple[np.ndarray, float]:
        settle_shrink(problem.rows, state.point, state.memory.counters)
        weight = state.memory.counters[ITERATES]
        if self.output == "last" or weight == 0.0:
            return state.point.w.copy(), float(state.bias.state[0])
        return state.point.total / weight, float(state.bias.state[2] / weight)

    def dual(self, problem: Problem, state: SGDState) -> np.ndarray:
        return state.memory.slopes / max(state.memory.counters[EPOCHS], 1.0)
