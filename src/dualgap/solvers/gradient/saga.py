"""SAGA: stochastic proximal gradient whose variance a table of n slopes removes.

Defazio et al. 2014 (docs/references.md#defazio-2014); one stored number a sample: Schmidt et al. 2017.

    0) start       fill the table with the slopes at the start: one pass, which is charged
    1–4) repeat    draw a row; the step of `variance_reduction`; its slope replaces the one in the table
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import compiled, draw, fresh_seed, natural_order, rows_ahead
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.lazy_prox import Eager, Lazy, settle, track
from dualgap.solvers.gradient.primal import Bias, check_positive, elastic_net, first_coef, fixed_step, make_bias, smooth_only
from dualgap.solvers.gradient.variance_reduction import reduced_steps, remember

__all__ = ["SAGA"]


@compiled
class SlopeTable(NamedTuple):
    """SAGA's memory: the slope of each sample when it was last drawn; the drift follows every change."""

    slopes: np.ndarray
    share: float  # 1/n: of a change, what the drift takes over

    def learn(self, rows, i, slope, change, drift):
        self.slopes[i] = slope
        rows.add(i, self.share * change, drift)


@dataclass(kw_only=True)
class SAGAState(State):
    # changed by every epoch
    point: Eager | Lazy  # w and the drift
    bias: Bias
    table: SlopeTable
    order: np.ndarray


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

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SAGAState:
        step_size = fixed_step(problem, self.step_size, divisor=3.0)
        point = track(problem.rows, first_coef(problem, warm), step_size, elastic_net(problem))
        bias = make_bias(problem, warm)
        table = SlopeTable(np.empty(problem.n), 1.0 / problem.n)
        remember(problem, point, bias, table.slopes)
        return SAGAState(passes=1.0, point=point, bias=bias, table=table, order=natural_order(problem.n))

    def epoch(self, problem: Problem, state: SAGAState, rng: np.random.Generator) -> None:
        draw(state.order, problem.n, fresh_seed(rng))
        ahead = rows_ahead(problem.rows)
        reduced_steps(problem.rows, problem.samples, problem.loss, state.point, state.bias, state.table, state.order, ahead)
        state.passes += 1.0

    def model(self, problem: Problem, state: SAGAState) -> tuple[np.ndarray, float]:
        settle(problem.rows, state.point)
        return state.point.w.copy(), float(state.bias.numbers[0].b)

    def dual(self, problem: Problem, state: SAGAState) -> np.ndarray:
        return state.table.slopes.copy()
