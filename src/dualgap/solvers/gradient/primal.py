"""What the primal solvers share: where they start, the smoothness that sets their step, the intercept, the loss's gradient, schedules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import ElasticNet, compiled, kernel, number, one_of
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Support, Warm, no

__all__ = [
    "SCHEDULES",
    "Bias",
    "Schedule",
    "linear_only",
    "loss_gradient",
    "make_bias",
    "row_smoothness",
    "smooth_only",
]

SCHEDULES = {"constant": 0.0, "1/t": 1.0, "1/sqrt(t)": 0.5}


@compiled
class Bias(NamedTuple):
    """The intercept: `state` is b, its drift (the loss's mean gradient) and the sum of its iterates; its penalty is (stiffness/2)·b²."""

    state: np.ndarray
    present: float  # 1 where the problem has an intercept; with 0 b stays 0 and no kernel has a branch for it
    stiffness: float

    def move_bias(self, gradient, eta):
        self.state[0] = (self.state[0] - eta * self.present * gradient) / (1.0 + eta * self.stiffness)


def make_bias(problem: Problem, warm: Warm | None) -> Bias:
    """The intercept at its start."""
    stiffness = problem.l2 / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    state = np.array([warm.intercept if warm is not None and warm.coef is not None else 0.0, 0.0, 0.0])
    return Bias(state, 0.0 if problem.intercept == "none" else 1.0, stiffness)


def first_coef(problem: Problem, warm: Warm | None) -> np.ndarray:
    """w at its start: a copy of the warm start's, or zero."""
    return np.zeros(problem.d) if warm is None or warm.coef is None else np.array(warm.coef, dtype=np.float64)


def separable(problem: Problem) -> ElasticNet:
    """The penalty as one type, whether l1 or l2 is zero or not, so that a kernel is compiled once for all three."""
    return ElasticNet(problem.l1, problem.l2)


def row_smoothness(problem: Problem) -> np.ndarray:
    """n·cᵢ(‖xᵢ‖², +1 with an intercept): times the loss's curvature, the smoothness of sample i's part of n·loss/n."""
    return problem.n * problem.c * (problem.sqnorms + (problem.intercept != "none"))


def fixed_step(problem: Problem, step_size: float | None, divisor: float) -> float:
    """The step asked for, else 1/(divisor·L) with L the largest smoothness of a sample's part."""
    if step_size is not None:
        return float(step_size)
    largest = float(row_smoothness(problem).max()) * problem.loss.curvature()
    return 1.0 / (divisor * largest) if largest > 0.0 else 1.0


@kernel
def loss_gradient(rows, samples, loss, w, b, slopes, gradient):
    """One pass: slopes βᵢ = −φ'(mᵢ) and the gradient of Σ cᵢ φ(mᵢ) in w; returns the loss and its derivative in b."""
    gradient[:] = 0.0
    value = 0.0
    tilt = 0.0
    for i in range(rows.length()):
        y, c = samples.y[i], samples.c[i]
        margin = y * (rows.dot(i, w) + b)
        beta = loss.slope(margin)
        slopes[i] = beta
        if c > 0.0:
            value += c * loss.value(margin)
            tilt -= c * y * beta
            if beta != 0.0:
                rows.add(i, -c * y * beta, gradient)
    return value, tilt


# ----------------------------------------------------------------------------------------------------------------- schedules


@compiled
class Schedule(NamedTuple):
    """Step sizes rate/(1 + t/half)^power for t = 0, 1, …: power 0 is constant, 1 is 1/t, ½ is 1/√t."""

    rate: float
    half: float
    power: float

    def step_at(self, t):
        return self.rate / (1.0 + t / self.half) ** self.power


def make_schedule(problem: Problem, schedule: str | None, rate: float | None, steps_per_epoch: int, reach: int) -> Schedule:
    """The schedule that starts at `rate`: 1/t tends to 1/(l2·t); 1/√t counts t in epochs, as does 1/t where l2 = 0.

    Without a rate it starts at reach/L (see `typical_smoothness`). Without a name it is 1/t where l2 > 0, and 1/√t where l2 = 0.
    """
    schedule = schedule or ("1/t" if problem.l2 > 0.0 else "1/sqrt(t)")
    if rate is None:
        # A constant step has to be right at once; one that falls may start long.
        rate = (1.0 if schedule == "constant" else reach) / typical_smoothness(problem)
    half = 1.0 / (rate * problem.l2) if schedule == "1/t" and problem.l2 > 0.0 else float(steps_per_epoch)
    return Schedule(float(rate), half, SCHEDULES[schedule])


def typical_smoothness(problem: Problem) -> float:
    """L of SGD and Subgradient: the mean smoothness of a sample's part, for the hinge with a curvature of 1."""
    curvature = problem.loss.curvature()
    mean = float(row_smoothness(problem).mean()) * (curvature if np.isfinite(curvature) else 1.0)
    return mean if mean > 0.0 else 1.0


def check_schedule(schedule: Any, rate: Any) -> None:
    """Check the parameters that SGD and Subgradient share."""
    if schedule is not None:
        one_of("schedule", schedule, tuple(SCHEDULES))
    check_positive("rate", rate)


def check_positive(name: str, value: Any) -> None:
    """Check a parameter that is None or a positive number."""
    if value is not None:
        number(name, value, wanted="a positive number, or None for the default that the data give")


# ------------------------------------------------------------------------------------------------------------------- support


def linear_only(problem: Problem, name: str) -> Support:
    """No to kernel problems."""
    if problem.kernel is not None:
        return no(f"{name} moves w coordinate by coordinate, and a kernel's feature space shows none; use Pegasos or SDCA")
    return YES


def smooth_only(problem: Problem, name: str) -> Support:
    """No to kernel problems and to losses with a kink."""
    if not np.isfinite(problem.loss.curvature()):
        return no(f"{name} needs a loss with a continuous slope; use loss='smooth_hinge', or SGD, Subgradient or SDCA for this one")
    return linear_only(problem, name)
