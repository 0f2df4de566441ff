"""SAGA (Defazio, Bach and Lacoste-Julien, 2014): stochastic proximal gradient with a table of n slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import compiled, draw, fresh_seed, kernel, natural_order, rows_ahead
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.lazy_prox import settle, track
from dualgap.solvers.gradient.primal import (
    Bias,
    check_positive,
    first_coef,
    fixed_step,
    loss_gradient,
    make_bias,
    separable,
    smooth_only,
)

__all__ = ["SAGA", "reduced_steps"]


@compiled
class Table(NamedTuple):
    """SAGA's memory: the slope of each sample when it was last drawn; the mean gradient (the drift) follows it."""

    slopes: np.ndarray
    share: float  # 1/n

    def learn(self, rows, i, slope, change, drift):
        self.slopes[i] = slope
        rows.add(i, self.share * change, drift)


@kernel
def reduced_steps(rows, samples, loss, point, bias, memory, order, ahead):
    """Steps w ← prox(w − η(change·xᵢ + drift)), change = n·cᵢyᵢ(remembered slope − slope now), for SAGA and SVRG alike.

    The prox of a step waits until the coordinate is read again. By then the drift has grown by share·change·xᵢ, which the step must not
    see yet: taking (1 − share)·change·xᵢ off w here makes up for it, also where a row has a column twice.
    """
    steps = order.shape[0]
    n = rows.length()
    t = point.now[0]
    for s in range(steps):
        if ahead > 0 and s + ahead < steps:
            rows.prefetch(order[s + ahead])
        i = order[s]
        point.catch_up(rows, i, t + s)
        y = samples.y[i]
        slope = loss.slope(y * (rows.dot(i, point.w) + bias.state[0]))
        change = n * samples.c[i] * y * (memory.slopes[i] - slope)
        bias.move_bias(change + bias.state[1], point.step_size)
        bias.state[1] += memory.share * change
        bias.state[2] += bias.state[0]
        if change != 0.0:
            rows.add(i, -point.step_size * (1.0 - memory.share) * change, point.w)
            memory.learn(rows, i, slope, change, point.drift)
    point.now[0] = t + steps


@dataclass
class SAGAState(State):
    point: Any = None
    bias: Any = None
    table: Any = None
    order: Any = None


@register
@dataclass(frozen=True)
class SAGA(Solver):
    """Proximal stochastic gradient steps whose variance a table of slopes removes.

        w ← prox(w − η[gradient of a drawn sample at w − the one remembered + the mean of all that are remembered])

    One number a sample is remembered, φ'(mᵢ), for its gradient is that times cᵢyᵢxᵢ. Both parts of the penalty sit in the prox. The
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

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SAGAState:
        step_size = fixed_step(problem, self.step_size, divisor=3.0)
        point = track(problem.rows, first_coef(problem, warm), step_size, separable(problem))
        bias = make_bias(problem, warm)
        table = Table(np.empty(problem.n), 1.0 / problem.n)
        remember(problem, point, bias, table.slopes)
        return SAGAState(passes=1.0, point=point, bias=bias, table=table, order=natural_order(problem.n))

    def epoch(self, problem: Problem, state: SAGAState, rng: np.random.Generator) -> None:
        draw(state.order, problem.n, fresh_seed(rng))
        ahead = rows_ahead(problem.rows)
        reduced_steps(problem.rows, problem.samples, problem.loss, state.point, state.bias, state.table, state.order, ahead)
        state.passes += 1.0

    def model(self, problem: Problem, state: SAGAState) -> tuple[np.ndarray, float]:
        settle(problem.rows, state.point)
        return state.point.w.copy(), float(state.bias.state[0])

    def dual(self, problem: Problem, state: SAGAState) -> np.ndarray:
        return state.table.slopes.copy()


def remember(problem: Problem, point: Any, bias: Bias, slopes: np.ndarray) -> None:
    """Slopes and the loss's gradient at the present point: one pass."""
    args = (problem.rows, problem.samples, problem.loss, point.w, bias.state[0], slopes, point.drift)
    _, bias.state[1] = loss_gradient(*args)
