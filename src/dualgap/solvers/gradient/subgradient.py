"""Subgradient: proximal subgradient descent on the whole data, the best iterate kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.gradient.primal import (
    check_schedule,
    first_coef,
    linear_only,
    loss_gradient,
    make_bias,
    make_schedule,
    separable,
)

__all__ = ["Subgradient"]

# How many times 1/L the first step may be. L counts every sample, but near the optimum few still have a slope, and where slopes are bounded
# a step too long is made good by those that follow.
BOUNDED_REACH = 20


@dataclass
class SubgradientState(State):
    w: Any = None
    bias: Any = None
    gradient: Any = None
    slopes: Any = None
    schedule: Any = None
    steps: int = 0
    # The best iterate so far with its objective, and the slopes of all of them, step t weighing t
    best: Any = None
    slope_sum: Any = None


@register
@dataclass(frozen=True)
class Subgradient(Solver):
    """Proximal subgradient descent: one step an epoch, along the loss's subgradient over the whole data.

        w ← prox(w + η_t Σ cᵢβᵢyᵢxᵢ),   βᵢ = −φ'(mᵢ)

    Steps may raise the objective, so the best iterate is the model; its objective comes with the pass that the next step needs
    anyway. The certificate's dual point is the average of the slopes, later steps weighing more; it serves the hinge too, whose slopes
    at a single w tell little.

    Parameters
    ----------
    schedule : {"1/t", "1/sqrt(t)", "constant"}, optional
        η_t = rate/(1 + t·rate·l2), which tends to 1/(l2·t); rate/√(1 + t); or rate. Where l2 = 0, "1/t" is rate/(1 + t). By default
        "1/t" where l2 > 0, else "1/sqrt(t)".
    rate : float, optional
        The first step size. By default, with L = Σ cᵢ(‖xᵢ‖², +1 with an intercept) times the loss's curvature (1 for the hinge): 1/L for
        the constant step and for losses with unbounded slopes (squared hinge), else 20/L.

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

    name: ClassVar[str] = "subgradient"
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "proximal subgradient descent on the whole data"

    def __post_init__(self) -> None:
        check_schedule(self.schedule, self.rate)

    def supports(self, problem: Problem) -> Support:
        return linear_only(problem, "Subgradient")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SubgradientState:
        w, bias = first_coef(problem, warm), make_bias(problem, warm)
        reach = BOUNDED_REACH if np.isfinite(problem.loss.upper_bound()) else 1
        return SubgradientState(
            w=w,
            bias=bias,
            gradient=np.empty(problem.d),
            slopes=np.empty(problem.n),
            schedule=make_schedule(problem, self.schedule, self.rate, steps_per_epoch=1, reach=reach),
            best=(np.inf, w.copy(), float(bias.state[0])),
            slope_sum=np.zeros(problem.n),
        )

    def epoch(self, problem: Problem, state: SubgradientState, rng: np.random.Generator) -> None:
        b = float(state.bias.state[0])
        loss, tilt = loss_gradient(problem.rows, problem.samples, problem.loss, state.w, b, state.slopes, state.gradient)
        self._offer(state, loss + problem.regulariser(state.w, b))
        eta = state.schedule.step_at(state.steps)
        state.steps += 1
        state.slope_sum += state.steps * state.slopes
        state.w = separable(problem).prox(state.w - eta * state.gradient, eta)
        state.bias.move_bias(tilt, eta)
        state.passes += 1.0

    def _offer(self, state: SubgradientState, objective: float) -> None:
        if objective < state.best[0]:
            state.best = (objective, state.w.copy(), float(state.bias.state[0]))

    def model(self, problem: Problem, state: SubgradientState) -> tuple[np.ndarray, float]:
        b = float(state.bias.state[0])
        # The newest iterate has not had its pass yet.
        if np.isfinite(state.w).all() and problem.objective(state.w, b) < state.best[0]:
            return state.w.copy(), b
        return state.best[1].copy(), state.best[2]

    def dual(self, problem: Problem, state: SubgradientState) -> np.ndarray:
        return state.slope_sum / max(0.5 * state.steps * (state.steps + 1), 1.0)
