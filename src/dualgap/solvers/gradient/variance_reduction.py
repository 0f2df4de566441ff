"""SAGA and SVRG: stochastic proximal gradient whose variance remembered slopes remove, in a table of n or at a snapshot.

SAGA: Defazio et al. 2014; one stored number a sample: Schmidt et al. 2017. SVRG: Johnson and Zhang 2013; proximal: Xiao and Zhang 2014
(docs/references.md). The drift is the mean of the remembered gradients.

    0) remember    slopes and gradient of the loss at the present w: one pass. SAGA: at the start. SVRG: at the beginning of every epoch
    For each row i drawn, n times (SVRG: `inner`·n times)
    1) catch up    bring the coordinates of row i up to date: w ← prox(w − η·drift) for every step that they still owe (`lazy_prox`)
    2) correction  change = n·cᵢyᵢ(remembered slope − slope now),   slope = −φ'(mᵢ)
    3) step        w ← prox(w − η(change·xᵢ + drift)), the same for b; the part that is not a multiple of xᵢ is owed
    4) learn       SAGA: remember the slope of i, and drift ← drift + change·xᵢ/n
    5) next start  SVRG: the last iterate, or the average of those since the snapshot
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import compiled, draw, fresh_seed, kernel, natural_order, number, one_of, rows_ahead
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.lazy_prox import Eager, Lazy, begin_stretch, settle, track
from dualgap.solvers.gradient.primal import (
    OUTPUTS,
    Bias,
    Schedule,
    check_positive,
    elastic_net,
    first_coef,
    loss_gradient,
    make_bias,
    row_smoothness,
    smooth_only,
)

__all__ = ["SAGA", "SVRG"]


@compiled
class SlopeTable(NamedTuple):
    """SAGA's memory: the slope of each sample when it was last drawn; the drift follows every change."""

    slopes: np.ndarray
    share: float  # 1/n: of a change, what the drift takes over

    def learn(self, rows, i, slope, change, drift):
        self.slopes[i] = slope
        rows.add(i, self.share * change, drift)


@compiled
class Snapshot(NamedTuple):
    """SVRG's memory: the slopes at the snapshot. They and the drift stay the same until the next snapshot."""

    slopes: np.ndarray
    share: float  # 0: the drift takes over nothing

    def learn(self, rows, i, slope, change, drift):
        pass


@kernel
def reduced_steps(rows, samples, loss, point, bias, memory, order, ahead):
    """Take a step for each entry of `order`.

    A step that is owed is taken with a later drift, which contains share·change·xᵢ already. Taking only (1 − share)·change·xᵢ off w
    makes up for it, also where a row has a column twice.
    """
    steps = order.shape[0]
    n = rows.length()
    eta = point.schedule.rate
    now, intercept = point.now[0], bias.numbers[0]
    for s in range(steps):
        if ahead > 0 and s + ahead < steps:
            rows.prefetch(order[s + ahead])
        i = order[s]
        if now.place == now.stretch:
            begin_stretch(rows, point)
        point.catch_up(rows, i, now.place)  # 1) catch up
        now.place += 1
        now.steps += 1
        y = samples.y[i]
        slope = loss.slope(y * (rows.dot(i, point.w) + samples.offset.at(i) + intercept.b))  # 2) correction
        change = n * samples.c[i] * y * (memory.slopes[i] - slope)
        bias.move_bias(change + intercept.drift, eta)  # 3) step
        intercept.drift += memory.share * change
        intercept.total += intercept.b
        if change != 0.0:
            rows.add(i, -eta * (1.0 - memory.share) * change, point.w)
            memory.learn(rows, i, slope, change, point.drift.drifts)  # 4) learn


@dataclass(kw_only=True)
class ReducedState(State):
    """What every epoch changes."""

    point: Eager | Lazy  # w and the drift
    bias: Bias
    memory: SlopeTable | Snapshot
    order: np.ndarray  # the rows of an epoch's steps


def start_at(problem: Problem, warm: Warm | None, step_size: float, averaged: bool) -> tuple[Eager | Lazy, Bias]:
    """Return w and b before the first step."""
    schedule, weights = Schedule(step_size, 1.0, 0.0), OUTPUTS["average" if averaged else "last"]
    w, net = first_coef(problem, warm), elastic_net(problem)
    return track(problem.rows, w, schedule, weights, net, averaged=averaged, drift=True), make_bias(problem, warm)


def fixed_step(problem: Problem, step_size: float | None, divisor: float) -> float:
    """Return the step asked for, else 1/(divisor·L) with L the largest Lipschitz constant of a sample's gradient."""
    if step_size is not None:
        return float(step_size)
    largest = float(row_smoothness(problem).max()) * problem.loss.curvature()
    return 1.0 / (divisor * largest) if largest > 0.0 else 1.0


def remember(problem: Problem, state: ReducedState) -> None:
    """Take step 0: write the slopes and the drift of the present point."""
    now, point = state.bias.numbers[0], state.point
    args = (problem.rows, problem.samples, problem.loss, point.w, now.b, state.memory.slopes, point.drift.drifts)
    _, now.drift = loss_gradient(*args)


def take_steps(problem: Problem, state: ReducedState, rng: np.random.Generator) -> None:
    """Take steps 1 to 4 on rows that are drawn anew."""
    draw(state.order, problem.n, fresh_seed(rng))
    args = (problem.rows, problem.samples, problem.loss, state.point, state.bias, state.memory, state.order)
    reduced_steps(*args, rows_ahead(problem.rows))
    state.passes += len(state.order) / problem.n


@register
@dataclass(frozen=True)
class SAGA(Solver):
    """Proximal stochastic gradient steps whose variance a table of slopes removes.

        w ← prox(w − η[gradient of a drawn sample at w − the one remembered + the mean of all that are remembered])

    One number a sample is remembered, φ'(mᵢ): the sample's gradient is φ'(mᵢ)·cᵢyᵢxᵢ. Both parts of the penalty are in the prox. The
    table starts from the slopes at the starting point, which costs one pass and is charged. On sparse rows a step costs the row's
    non-zeros.

    Parameters
    ----------
    step_size : float, optional
        1/(3L) by default, L being the largest n·cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> problem = dualgap.Problem(X, y, loss="smooth_hinge", l2=1e-1, l1=1e-2, intercept="free")
    >>> dualgap.solve(problem, dualgap.SAGA(), tol=1e-6).status
    'converged'
    """

    step_size: float | None = None

    name: ClassVar[str] = "saga"
    summary: ClassVar[str] = "proximal stochastic gradient, variance reduced by a table of n slopes"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def supports(self, problem: Problem) -> Support:
        return smooth_only(problem, "SAGA")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ReducedState:
        point, bias = start_at(problem, warm, fixed_step(problem, self.step_size, divisor=3.0), averaged=False)
        table = SlopeTable(np.empty(problem.n), 1.0 / problem.n)
        state = ReducedState(passes=1.0, point=point, bias=bias, memory=table, order=natural_order(problem.n))
        remember(problem, state)
        return state

    def epoch(self, problem: Problem, state: ReducedState, rng: np.random.Generator) -> None:
        take_steps(problem, state, rng)

    def model(self, problem: Problem, state: ReducedState) -> tuple[np.ndarray, float]:
        settle(problem.rows, state.point)
        return state.point.w.copy(), float(state.bias.numbers[0].b)

    def dual(self, problem: Problem, state: ReducedState) -> np.ndarray:
        return state.memory.slopes.copy()


@register
@dataclass(frozen=True)
class SVRG(Solver):
    """Proximal stochastic gradient steps whose variance a snapshot removes.

    An epoch takes the gradient of the loss at a snapshot of w (one pass over the data, in which the n slopes are kept) and then steps

        w ← prox(w − η[gradient of a drawn sample at w − the same at the snapshot + the gradient at the snapshot])

    Both parts of the penalty are in the prox. `passes` charges the snapshot's pass and the inner steps.

    Parameters
    ----------
    step_size : float, optional
        1/(4L) by default, L being the largest n·cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature.
    inner : float
        Steps between snapshots, in passes over the data.
    snapshot : {"last", "average"}
        The next snapshot and start: the last iterate, or the average of the iterates since the last snapshot.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> problem = dualgap.Problem(X, y, loss="logistic", l2=1e-2, l1=1e-2, intercept="free")
    >>> result = dualgap.solve(problem, dualgap.SVRG(inner=3), tol=1e-6)
    >>> result.status, float(result.trace["passes"][0])
    ('converged', 4.0)
    """

    step_size: float | None = None
    inner: float = 4.0
    snapshot: str = "last"

    name: ClassVar[str] = "svrg"
    summary: ClassVar[str] = "proximal stochastic gradient, variance reduced by snapshots"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        number("inner", self.inner, wanted="a positive number of passes between two snapshots, for example 2")
        one_of("snapshot", self.snapshot, ("last", "average"))

    def supports(self, problem: Problem) -> Support:
        return smooth_only(problem, "SVRG")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ReducedState:
        step_size = fixed_step(problem, self.step_size, divisor=4.0)
        point, bias = start_at(problem, warm, step_size, averaged=self.snapshot == "average")
        steps = max(1, round(self.inner * problem.n))
        order = np.empty(steps, dtype=np.uint32 if problem.n < 2**32 else np.uint64)
        return ReducedState(point=point, bias=bias, memory=Snapshot(np.empty(problem.n), 0.0), order=order)

    def epoch(self, problem: Problem, state: ReducedState, rng: np.random.Generator) -> None:
        point, bias, order = state.point, state.bias.numbers[0], state.order
        remember(problem, state)
        state.passes += 1.0
        point.total[:] = 0.0
        bias.total = 0.0
        take_steps(problem, state, rng)
        settle(problem.rows, point)
        if self.snapshot == "average":  # 5) next start
            point.w[:] = point.total / len(order)
            bias.b = bias.total / len(order)

    def model(self, problem: Problem, state: ReducedState) -> tuple[np.ndarray, float]:
        return state.point.w.copy(), float(state.bias.numbers[0].b)
