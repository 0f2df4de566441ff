"""Subgradient: proximal subgradient descent on the whole data, the best iterate or the last.

Shor 1985 (docs/references.md#shor-1985); proximal: Duchi 2009. An epoch is one step:

    1) pass        slopes βᵢ = −φ'(mᵢ), gradient −Σ cᵢβᵢyᵢxᵢ, and the objective of the present w
    2) best        keep w if its objective is the lowest so far
    3) dual point  add t·β to the sum of slopes
    4) step        w ← prox(w − η_t·gradient), the same for b
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import one_of
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.primal import (
    LONGEST_FIRST_STEP,
    Bias,
    Schedule,
    check_schedule,
    elastic_net,
    first_coef,
    linear_only,
    loss_gradient,
    make_bias,
    make_schedule,
)

__all__ = ["Subgradient"]


class BestIterate(NamedTuple):
    """The best iterate so far."""

    objective: float
    coef: np.ndarray
    intercept: float


@dataclass(kw_only=True)
class SubgradientState(State):
    # fixed by start
    schedule: Schedule
    # changed by every epoch
    w: np.ndarray
    bias: Bias
    best: BestIterate
    slope_sum: np.ndarray  # Σ t·β over the steps t
    steps: int = 0
    # scratch: written by an epoch before it is read
    gradient: np.ndarray
    slopes: np.ndarray


@register
@dataclass(frozen=True)
class Subgradient(Solver):
    """Proximal subgradient descent: one step an epoch, along the loss's subgradient over the whole data.

        w ← prox(w + η_t Σ cᵢβᵢyᵢxᵢ),   βᵢ = −φ'(mᵢ)

    A step may raise the objective, so the best iterate is the model unless the last is asked for. The dual point of the certificate is
    the average of the slopes, step t weighing t; the slopes at a single w would be a poor dual point for the hinge.

    Parameters
    ----------
    schedule : {"1/t", "1/sqrt(t)", "constant"}, optional
        η_t = rate/(1 + t·rate·l2), which tends to 1/(l2·t); rate/√(1 + t); or rate. Where l2 = 0, "1/t" is rate/(1 + t). By default
        "1/t" where l2 > 0, else "1/sqrt(t)".
    rate : float, optional
        The first step size. By default, with L = Σ cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature (1 for the hinge): 1/L for
        the constant step and for losses with unbounded slopes (squared hinge), else 20/L.
    output : {"best", "last"}
        The iterate with the lowest objective, or the last one.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(200, random_state=0), l2=1e-1)
    >>> dualgap.solve(problem, dualgap.Subgradient(), tol=2e-2, max_epochs=2000).status
    'converged'
    """

    schedule: str | None = None
    rate: float | None = None
    output: str = "best"

    name: ClassVar[str] = "subgradient"
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "proximal subgradient descent on the whole data"

    def __post_init__(self) -> None:
        check_schedule(self.schedule, self.rate)
        one_of("output", self.output, ("best", "last"))

    def supports(self, problem: Problem) -> Support:
        return linear_only(problem, "Subgradient")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SubgradientState:
        w, bias = first_coef(problem, warm), make_bias(problem, warm)
        # L counts every sample, but near the optimum few have a slope; later steps make good a first step that was too long.
        first = LONGEST_FIRST_STEP if np.isfinite(problem.loss.upper_bound()) else 1
        return SubgradientState(
            w=w,
            bias=bias,
            gradient=np.empty(problem.d),
            slopes=np.empty(problem.n),
            schedule=make_schedule(problem, self.schedule, self.rate, steps_per_epoch=1, stretch=first),
            best=BestIterate(np.inf, w.copy(), float(bias.numbers[0].b)),
            slope_sum=np.zeros(problem.n),
        )

    def epoch(self, problem: Problem, state: SubgradientState, rng: np.random.Generator) -> None:
        b = float(state.bias.numbers[0].b)
        # 1) pass
        loss, slope_b = loss_gradient(problem.rows, problem.samples, problem.loss, state.w, b, state.slopes, state.gradient)
        # 2) best
        objective = loss + problem.regulariser(state.w, b)
        if objective < state.best.objective:
            state.best = BestIterate(objective, state.w.copy(), b)
        # 3) dual point
        eta = state.schedule.step_at(state.steps)
        state.steps += 1
        state.slope_sum += state.steps * state.slopes
        # 4) step
        state.w = elastic_net(problem).prox(state.w - eta * state.gradient, eta)
        state.bias.move_bias(slope_b, eta)
        state.passes += 1.0

    def model(self, problem: Problem, state: SubgradientState) -> tuple[np.ndarray, float]:
        b = float(state.bias.numbers[0].b)
        if self.output == "last":
            return state.w.copy(), b
        # The newest iterate has not had its pass yet.
        if np.isfinite(state.w).all() and problem.objective(state.w, b) < state.best.objective:
            return state.w.copy(), b
        return state.best.coef.copy(), state.best.intercept

    def dual(self, problem: Problem, state: SubgradientState) -> np.ndarray:
        return state.slope_sum / max(0.5 * state.steps * (state.steps + 1), 1.0)
