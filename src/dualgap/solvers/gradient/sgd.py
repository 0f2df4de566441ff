"""SGD: stochastic proximal (sub)gradient descent on any loss and penalty, in batches, with schedules and averages.

Robbins 1951, Bottou 2010; proximal: Duchi 2009; averages: Shamir 2013, Lacoste-Julien 2012 (docs/references.md). For each batch:

    1) catch up    bring the coordinates of the batch's rows up to date: the penalty's steps that they still owe
    2) slopes      βᵢ = −φ'(mᵢ) for the rows of the batch
    3) step        w ← w + η_t·Σ over the batch of (batches·cᵢ)βᵢyᵢxᵢ,   the same for b
    4) prox        w ← soft(w, η_t·l1)/(1 + η_t·l2), owed until a row reads the coordinate
    5) average     S ← S + ω_t·w, owed likewise

`lazy_prox` has the closed form of the steps owed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import fresh_seed, kernel, natural_order, one_of, rows_ahead, shuffle, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, no, register
from dualgap.solvers.gradient.lazy_prox import Eager, Lazy, begin_stretch, settle, track
from dualgap.solvers.gradient.primal import (
    LONGEST_FIRST_STEP,
    OUTPUTS,
    Bias,
    check_schedule,
    elastic_net,
    first_coef,
    linear_only,
    make_bias,
    make_schedule,
    record,
    row_smoothness,
)

__all__ = ["SGD"]


class SGDPlan(NamedTuple):
    """How an epoch steps."""

    batch: int  # rows a batch
    batches: int  # batches an epoch
    ahead: int  # rows to prefetch


class Memory(NamedTuple):
    """What the steps leave behind: a batch's coefficients in step 3, each sample's weighted sum of slopes, and counters.

    numbers
        iterates: Σ ω_t of the iterates. epoch: weight of this epoch's slopes. epochs: Σ of these weights.
    """

    coefs: np.ndarray
    slopes: np.ndarray
    numbers: np.recarray


@kernel
def descend(rows, samples, loss, point, bias, plan, memory, order):
    """Take the steps of an epoch; the margins of a batch are taken before anything moves."""
    n = order.shape[0]
    coefs = memory.coefs
    now, sums, intercept = point.now[0], memory.numbers[0], bias.numbers[0]
    for start in range(0, plan.batches * plan.batch, plan.batch):
        if now.place == now.stretch:
            begin_stretch(rows, point)
        s = now.place
        stop = min(start + plan.batch, n)
        for k in range(start, stop):
            if plan.ahead > 0 and k + plan.ahead < n:
                rows.prefetch(order[k + plan.ahead])
            i = order[k]
            point.catch_up(rows, i, s)  # 1) catch up: what 4) prox and 5) average left open
            y = samples.y[i]
            beta = loss.slope(y * (rows.dot(i, point.w) + samples.offset.at(i) + intercept.b))  # 2) slopes
            memory.slopes[i] += sums.epoch * beta
            coefs[k - start] = plan.batches * samples.c[i] * y * beta
        eta, total = point.table[s].eta, 0.0
        for k in range(start, stop):
            if coefs[k - start] != 0.0:
                total += coefs[k - start]
                rows.add(order[k], eta * coefs[k - start], point.w)  # 3) step
        bias.move_bias(-total, eta)
        omega = point.table[s + 1].omega
        intercept.total += omega * intercept.b
        sums.iterates += omega
        now.place += 1
        now.steps += 1


@dataclass(kw_only=True)
class SGDState(State):
    # fixed by start
    plan: SGDPlan
    # changed by every epoch
    point: Eager | Lazy
    bias: Bias
    memory: Memory
    order: np.ndarray


@register
@dataclass(frozen=True)
class SGD(Solver):
    """Stochastic proximal gradient descent: a step along a batch's (sub)gradient of the loss, then the prox of the penalty.

        w ← prox(w + η_t·(1/k) Σ over the batch of n·cᵢβᵢyᵢxᵢ),   βᵢ = −φ'(mᵢ)

    The rows are divided into batches at random, anew each epoch. The dual point of the certificate is the average of the slopes that the
    steps saw, epoch e weighing e; the slopes at a single w would be a poor dual point for the hinge. On sparse rows a step costs the
    non-zeros of the batch, also with an l1 part. For Σ φ + λ‖w‖² and the like, `dualgap.scaling` gives l2.

    Parameters
    ----------
    schedule : {"1/t", "1/sqrt(t)", "constant"}, optional
        η_t = rate/(1 + t·rate·l2), which tends to 1/(l2·t); rate/√(1 + t/T), with T steps in an epoch; or rate. Where l2 = 0, "1/t" is
        rate/(1 + t/T). By default "1/t" where l2 > 0, else "1/sqrt(t)".
    rate : float, optional
        The first step size. By default 1/L, with L the mean of n·cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature (1 for the
        hinge), times the batch size up to 20 unless the step is constant. Losses with unbounded slopes (squared hinge) do not recover from
        a step too long: 1/L with L between the maximum (batches of one row) and the mean.
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
        one_of("output", self.output, tuple(OUTPUTS))

    def supports(self, problem: Problem) -> Support:
        if self.rate is None and not math.isfinite(problem.loss.upper_bound()) and not problem.loss.is_smooth():
            name = type(problem.loss).__name__
            return no(
                f"{name} has no bound on its slope nor on its curvature, so that no rate is safe; give rate=, or use APG or SDCA"
            )
        return linear_only(problem, "SGD")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SGDState:
        batch = min(int(self.batch_size), problem.n)
        batches = -(-problem.n // batch)
        first = min(batch, LONGEST_FIRST_STEP)  # a mean gradient is smoother than a row's
        schedule = make_schedule(problem, self.schedule, self._rate(problem, batch), batches, stretch=first)
        weights, w, net = OUTPUTS[self.output], first_coef(problem, warm), elastic_net(problem)
        point = track(problem.rows, w, schedule, weights, net, averaged=self.output != "last")
        counters = record(iterates=0.0, epoch=0.0, epochs=0.0)
        return SGDState(
            plan=SGDPlan(batch, batches, rows_ahead(problem.rows)),
            point=point,
            bias=make_bias(problem, warm),
            memory=Memory(np.empty(batch), np.zeros(problem.n), counters),
            order=natural_order(problem.n),
        )

    def _rate(self, problem: Problem, batch: int) -> float | None:
        """Return the rate asked for, None for the schedule's default, or for unbounded slopes 1/L with a larger L."""
        if self.rate is not None or np.isfinite(problem.loss.upper_bound()):
            return self.rate
        each = row_smoothness(problem) * problem.loss.curvature()
        mean, largest = float(each.mean()), float(each.max())
        return 1.0 / (mean + (largest - mean) / batch) if largest > 0.0 else 1.0

    def epoch(self, problem: Problem, state: SGDState, rng: np.random.Generator) -> None:
        shuffle(state.order, fresh_seed(rng))
        now = state.memory.numbers[0]
        now.epoch += 1.0
        now.epochs += now.epoch
        descend(problem.rows, problem.samples, problem.loss, state.point, state.bias, state.plan, state.memory, state.order)
        state.passes += 1.0

    def model(self, problem: Problem, state: SGDState) -> tuple[np.ndarray, float]:
        settle(problem.rows, state.point)
        weight, bias = state.memory.numbers[0].iterates, state.bias.numbers[0]
        if weight == 0.0:  # output="last", or no step yet
            return state.point.w.copy(), float(bias.b)
        return state.point.total / weight, float(bias.total / weight)

    def dual(self, problem: Problem, state: SGDState) -> np.ndarray:
        return state.memory.slopes / max(state.memory.numbers[0].epochs, 1.0)
