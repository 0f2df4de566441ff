"""Parts that the primal solvers share: the start, the smoothness that sets a step, the intercept, the gradient pass, schedules.

A method's own steps belong in its own module; lazy proximal steps belong in `lazy_prox`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import ElasticNet, compiled, kernel, number, one_of
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Support, Warm, no

LONGEST_FIRST_STEP = 20  # in units of 1/L
EXPONENTS = {"constant": 0.0, "1/t": 1.0, "1/sqrt(t)": 0.5}  # by name of a schedule, see `Schedule`


def record(**numbers: float) -> np.recarray:
    """Return an array of one record with these numbers by name; kernels read and write `numbers[0].name`."""
    return np.rec.array([tuple(numbers.values())], dtype=[(name, np.asarray(value).dtype) for name, value in numbers.items()])


@compiled
class Bias(NamedTuple):
    """The intercept b with its penalty (stiffness/2)·b².

    numbers
        b: the present value. drift: the derivative of the loss in b, which a full gradient pass sets and SAGA's steps update.
        total: Σ ω_t·b_t over the iterates, for averages.
    """

    numbers: np.recarray
    present: float  # 1 where the problem has an intercept; with 0 b stays 0 and no kernel has a branch for it
    stiffness: float

    def move_bias(self, gradient, eta):
        now = self.numbers[0]
        now.b = (now.b - eta * self.present * gradient) / (1.0 + eta * self.stiffness)


def make_bias(problem: Problem, warm: Warm | None) -> Bias:
    """Return the intercept at its start: the warm start's, or zero."""
    stiffness = problem.l2 / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    b = float(warm.intercept) if warm is not None and warm.coef is not None else 0.0
    return Bias(record(b=b, drift=0.0, total=0.0), 0.0 if problem.intercept == "none" else 1.0, stiffness)


@compiled
class IterateWeights(NamedTuple):
    """The weight ω_t = constant + growth·t of iterate t = 1, 2, … in the average that a solver puts out.

    Sums over the iterates are kept relative to a scale that falls. Below `smallest_scale` it is multiplied into the vectors: 1e-100 keeps
    clear of underflow; a running sum needs 1e-4, which costs it at most 4 of its 16 digits.
    """

    constant: float
    growth: float
    smallest_scale: float

    def weight_at(self, t):
        return self.constant + self.growth * t


OUTPUTS = {
    "last": IterateWeights(0.0, 0.0, 1e-100),
    "average": IterateWeights(1.0, 0.0, 1e-4),  # Shamir 2013
    "weighted": IterateWeights(0.0, 1.0, 1e-4),  # Lacoste-Julien 2012
}


def first_coef(problem: Problem, warm: Warm | None) -> np.ndarray:
    """Return w at its start: a copy of the warm start's, or zero."""
    return np.zeros(problem.d) if warm is None or warm.coef is None else np.array(warm.coef, dtype=np.float64)


def elastic_net(problem: Problem) -> ElasticNet:
    """Return the penalty as one type for every l1 and l2: a kernel is then compiled once."""
    return ElasticNet(problem.l1, problem.l2)


def row_smoothness(problem: Problem) -> np.ndarray:
    """Return n·cᵢ(‖xᵢ‖², +1 with an intercept): times the loss's curvature, the Lipschitz constant of n·∇(cᵢφᵢ)."""
    return problem.n * problem.c * (problem.sqnorms + (problem.intercept != "none"))


@kernel
def loss_gradient(rows, samples, loss, w, b, slopes, gradient):
    """Full gradient pass: write the slopes βᵢ = −φ'(mᵢ) and ∂Σcᵢφ(mᵢ)/∂w; return the loss and its derivative in b."""
    gradient[:] = 0.0
    value = 0.0
    derivative = 0.0
    for i in range(rows.length()):
        y, c = samples.y[i], samples.c[i]
        margin = y * (rows.dot(i, w) + samples.offset.at(i) + b)
        beta = loss.slope(margin)
        slopes[i] = beta
        if c > 0.0:
            value += c * loss.value(margin)
            derivative -= c * y * beta
            if beta != 0.0:
                rows.add(i, -c * y * beta, gradient)
    return value, derivative


# ----------------------------------------------------------------------------------------------------------------- schedules


@compiled
class Schedule(NamedTuple):
    """Step sizes rate/(1 + t/half)^exponent for t = 0, 1, …: exponent 0 is constant, 1 is 1/t, ½ is 1/√t (Robbins 1951)."""

    rate: float
    half: float
    exponent: float

    def step_at(self, t):
        return self.rate / (1.0 + t / self.half) ** self.exponent if self.exponent > 0.0 else self.rate


def make_schedule(problem: Problem, schedule: str | None, rate: float | None, steps_per_epoch: int, stretch: int) -> Schedule:
    """Return the schedule that starts at `rate`: 1/t tends to 1/(l2·t); 1/√t counts t in epochs, as does 1/t where l2 = 0.

    The default rate is stretch/L (see `typical_smoothness`), for a constant step 1/L: only a falling step may start too long. The default
    schedule is 1/t where l2 > 0, else 1/√t.
    """
    schedule = schedule or ("1/t" if problem.l2 > 0.0 else "1/sqrt(t)")
    if rate is None:
        rate = (1.0 if schedule == "constant" else stretch) / typical_smoothness(problem)
    half = 1.0 / (rate * problem.l2) if schedule == "1/t" and problem.l2 > 0.0 else float(steps_per_epoch)
    return Schedule(float(rate), half, EXPONENTS[schedule])


def typical_smoothness(problem: Problem) -> float:
    """Return the L of SGD and Subgradient: the mean over samples of their Lipschitz constants, by the typical curvature of the loss."""
    mean = float(row_smoothness(problem).mean()) * typical_curvature(problem.loss)
    return mean if mean > 0.0 else 1.0


def typical_curvature(loss: Any) -> float:
    """Return the Lipschitz constant of φ'. Where there is none, return 1 for a loss with a kink, and φ''(0) for any other."""
    if loss.is_smooth():
        return float(loss.curvature())
    return 1.0 if loss.has_kink() else float(loss.curvature_at(loss.slope(0.0), 0.0))


def check_schedule(schedule: Any, rate: Any) -> None:
    """Raise ValueError for a wrong `schedule` or `rate` of SGD or Subgradient."""
    if schedule is not None:
        one_of("schedule", schedule, tuple(EXPONENTS))
    check_positive("rate", rate)


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless the parameter is None or a positive number."""
    if value is not None:
        number(name, value, wanted="a positive number, or None: then it is computed from the data")


# ------------------------------------------------------------------------------------------------------------------- support


def linear_only(problem: Problem, name: str) -> Support:
    """Refuse kernel problems."""
    if problem.kernel is not None:
        return no(f"{name} steps on the coordinates of w, which a kernel machine does not have; use Pegasos or SDCA")
    return YES


def smooth_only(problem: Problem, name: str) -> Support:
    """Refuse kernel problems, and losses without a Lipschitz constant of their slope, by which steps are as long as they may be."""
    if problem.loss.has_kink():
        return no(f"{name} needs a loss with a continuous slope; use loss='smooth_hinge', or SGD, Subgradient or SDCA for this one")
    if not problem.loss.is_smooth():
        return no(f"{name} needs a bound on the curvature of the loss, and {type(problem.loss).__name__} has none; use APG or SDCA")
    return linear_only(problem, name)
