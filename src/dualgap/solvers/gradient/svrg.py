"""SVRG: stochastic proximal gradient whose variance a snapshot removes.

Johnson and Zhang 2013 (docs/references.md#johnson-2013); proximal: Xiao and Zhang 2014 (docs/references.md#xiao-2014). An epoch:

    0) snapshot    slopes and gradient of the loss at the present w: one pass
    1–4) repeat    draw a row, `inner`·n times; the step of `variance_reduction`
    5) next start  the last iterate, or the average of those since the snapshot
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import compiled, draw, fresh_seed, number, one_of, rows_ahead
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.lazy_prox import Eager, Lazy, settle, track
from dualgap.solvers.gradient.primal import Bias, check_positive, elastic_net, first_coef, fixed_step, make_bias, smooth_only
from dualgap.solvers.gradient.variance_reduction import reduced_steps, remember

__all__ = ["SVRG"]


@compiled
class Snapshot(NamedTuple):
    """SVRG's memory: the slopes at the snapshot. They and the drift stay the same until the next snapshot."""

    slopes: np.ndarray
    share: float  # 0: the drift takes over nothing

    def learn(self, rows, i, slope, change, drift):
        pass


@dataclass(kw_only=True)
class SVRGState(State):
    # changed by every epoch
    point: Eager | Lazy  # w and the drift
    bias: Bias
    memory: Snapshot
    order: np.ndarray  # the rows of the steps between two snapshots


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

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SVRGState:
        step_size = fixed_step(problem, self.step_size, divisor=4.0)
        averaged = self.snapshot == "average"
        point = track(problem.rows, first_coef(problem, warm), step_size, elastic_net(problem), averaged)
        steps = max(1, round(self.inner * problem.n))
        order = np.empty(steps, dtype=np.uint32 if problem.n < 2**32 else np.uint64)
        return SVRGState(point=point, bias=make_bias(problem, warm), memory=Snapshot(np.empty(problem.n), 0.0), order=order)

    def epoch(self, problem: Problem, state: SVRGState, rng: np.random.Generator) -> None:
        point, bias, order = state.point, state.bias.numbers[0], state.order
        remember(problem, point, state.bias, state.memory.slopes)  # 0) snapshot
        draw(order, problem.n, fresh_seed(rng))
        point.total[:] = 0.0
        bias.total = 0.0
        reduced_steps(problem.rows, problem.samples, problem.loss, point, state.bias, state.memory, order, rows_ahead(problem.rows))
        settle(problem.rows, point)
        if self.snapshot == "average":  # 5) next start
            point.w[:] = point.total / len(order)
            bias.b = bias.total / len(order)
        state.passes += 1.0 + len(order) / problem.n

    def model(self, problem: Problem, state: SVRGState) -> tuple[np.ndarray, float]:
        return state.point.w.copy(), float(state.bias.numbers[0].b)
