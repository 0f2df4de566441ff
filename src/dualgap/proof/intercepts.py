"""The best intercept for given scores, and the one that is read off the support vectors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    SMALLEST,
    Hinge,
    ResidualLoss,
    SquaredHinge,
    bracket_root,
    compiled,
    gamma,
    illinois,
    inner,
    kernel,
    nearest,
    total_value,
)
from dualgap.problem import Problem, Samples, as_vector

__all__ = [
    "best_intercept",
    "first_intercept",
    "intercept_from_support_vectors",
    "intercept_of_zero",
    "objective_floor",
    "zero_model",
    "zero_objective",
]


BALANCED = 1e-12  # difference of the classes' weights that counts as rounding


def best_intercept(problem: Problem, scores: np.ndarray) -> float:
    """Return the b that minimises Σ cᵢ φ(yᵢ(scoreᵢ + b)), plus the intercept's penalty where it has one, for a fixed w."""
    if problem.intercept == "none":
        return 0.0
    if problem.intercept == "free" and (kinks := _kinks(problem, scores)) is not None:
        return _middle_of_minimum(kinks)
    return _root_from(-float(inner(problem.c, scores)), problem, scores, problem.samples)


def intercept_of_zero(problem: Problem) -> float:
    """Return the b that minimises the objective of w = 0.

    Of a classification only the weights of the two classes matter; it is 0 where one class has none.
    """
    if problem.intercept == "none":
        return 0.0
    if problem.is_regression:
        return best_intercept(problem, problem.offset.values)
    return _intercept_of_classes(problem, *_class_weights(problem))


def _intercept_of_classes(problem: Problem, positive: float, negative: float) -> float:
    if problem.intercept == "none" or min(positive, negative) <= 0.0:
        return 0.0
    if isinstance(problem.loss, Hinge) and problem.intercept == "free":
        return math.copysign(1.0, positive - negative) if abs(positive - negative) > BALANCED else 0.0
    if isinstance(problem.loss, SquaredHinge) and problem.intercept == "free":
        return (positive - negative) / (positive + negative)
    samples = Samples(np.array([1.0, -1.0]), np.array([positive, negative]))
    return _root_from(0.0, problem, np.zeros(2), samples)


def first_intercept(problem: Problem) -> float:
    """Return an intercept from which to start: the best b of w = 0.

    For class labels and a loss with a kink, whose best b jumps from −1 to 1, it is that of a smooth hinge of width 1.
    """
    if not problem.loss.has_kink() or problem.is_regression:
        return intercept_of_zero(problem)
    mean_label = float(inner(problem.c, problem.y))
    return 2.0 * mean_label / (1.0 + abs(mean_label))


def zero_objective(problem: Problem, intercept: float) -> float:
    """Return an upper bound of the objective of w = 0 with this intercept, above it by rounding alone."""
    if problem.is_regression:
        return sum(_constant_objective(problem, intercept))
    return _objective_of_classes(problem, intercept, *_class_weights(problem))


def zero_model(problem: Problem) -> tuple[float, float, float]:
    """Return the best intercept of w = 0, an upper bound of the objective with it, and one of the objective with the intercept 0."""
    if problem.is_regression:
        intercept, at_zero = intercept_of_zero(problem), zero_objective(problem, 0.0)
        objective = zero_objective(problem, intercept)
        return (intercept, objective, at_zero) if objective < at_zero else (0.0, at_zero, at_zero)
    classes = _class_weights(problem)
    intercept = _intercept_of_classes(problem, *classes)
    at_zero = _objective_of_classes(problem, 0.0, *classes)
    return intercept, _objective_of_classes(problem, intercept, *classes) if intercept else at_zero, at_zero


def _objective_of_classes(problem: Problem, intercept: float, positive: float, negative: float) -> float:
    losses = float(problem.loss.value(intercept)), float(problem.loss.value(-intercept))
    value = positive * losses[0] + negative * losses[1] + 0.5 * _penalty(problem) * intercept * intercept
    return 1.00001 * gamma(problem.n + 16) * (sum(losses) + value) + value + SMALLEST


def _constant_objective(problem: Problem, intercept: float) -> tuple[float, float]:
    """Return the objective of w = 0 of a regression, and a bound on its error."""
    residuals = problem.offset.values + intercept
    value = float(total_value(problem.loss, residuals, problem.c))
    value += 0.5 * _penalty(problem) * intercept * intercept
    # A residual is a sum rounded once, by u times itself; the slope of a loss is at most its own bound, or 2κ times the residual.
    # A residual within ε costs nothing, so that the objective of w = 0 may be 0 without an error.
    sizes = np.abs(residuals)
    sizes[(1.0 + 4.0 * ROUNDOFF) * sizes <= problem.loss.epsilon] = 0.0
    bound = max(problem.loss.upper_bound(), -problem.loss.lower_bound())
    slope = min(bound, 2.0 * problem.loss.curvature() * float(sizes.max())) if sizes.any() else 0.0
    reach = float(problem.c @ sizes)
    return value, 1.00001 * gamma(problem.n + 16) * (value + slope * reach) + SMALLEST


def objective_floor(problem: Problem) -> float:
    """Return the objective of a regression that float64 cannot tell from 0: that of residuals of a few units in the last place of y.

    Each row's are those of its own target, with its own weight: a huge target of no weight has no part in the objective.
    """
    nearest = problem.loss.epsilon + 8.0 * ROUNDOFF * np.maximum(np.abs(problem.offset.values), SMALLEST)
    return 2.0 * max(float(total_value(problem.loss, sign * nearest, problem.c)) for sign in (1.0, -1.0)) + 4.0 * SMALLEST


def _class_weights(problem: Problem) -> tuple[float, float]:
    """Return Σ cᵢ over the rows with y = +1, and over the others."""
    both, difference = float(problem.c.sum()), float(inner(problem.c, problem.y))
    return 0.5 * (both + difference), 0.5 * (both - difference)


def _penalty(problem: Problem) -> float:
    """Return the ρ of the penalty (ρ/2)b² of the intercept."""
    return float(problem.l2 / problem.intercept_scale**2) if problem.intercept == "penalised" else 0.0


@compiled
class _InterceptGradient(NamedTuple):
    """−dP/db, which never rises with b, as a function of b in units of a typical margin."""

    loss: Any
    scores: np.ndarray
    samples: Samples
    rho: float  # the penalty (ρ/2)b² of the intercept
    unit: float = 1.0

    def evaluate(self, x):
        b = self.unit * x
        s = -self.rho * b
        for i in range(self.scores.shape[0]):
            y = self.samples.y[i]
            s += self.samples.c[i] * y * self.loss.slope(y * (self.scores[i] + b))
        return s


@kernel
def _root(gradient, start):
    return nearest(illinois(gradient, bracket_root(gradient, start, 1.0, 2.0), 0.0, 4e-16, 200))


class _Kinks(NamedTuple):
    """Σ cᵢ φ as a function of b that is piecewise linear: it falls at the rate `rate` at first, and kink k lowers that rate by `falls[k]`.

    `below` is the number of kinks below the minimum where all of them lower the rate by the same, and the rate is not needed; −1 elsewhere.
    """

    places: np.ndarray
    falls: np.ndarray
    rate: float
    below: int


def _kinks(problem: Problem, scores: np.ndarray) -> _Kinks | None:
    """Return the kinks of the hinge or of a loss of regression without a quadratic part; None for other losses."""
    loss, c = problem.loss, problem.c
    if isinstance(loss, Hinge):
        up, places = problem.y > 0, problem.y - scores
        if problem.sample_weight is None:
            return _Kinks(places, c, 0.0, int(np.count_nonzero(up)))
        return _Kinks(places, c, float(c[up].sum()), -1)
    if not isinstance(loss, ResidualLoss) or loss.delta > 0.0:
        return None
    places = np.concatenate([-loss.epsilon - scores, loss.epsilon - scores])
    below = problem.n if problem.sample_weight is None and loss.high == loss.low else -1
    return _Kinks(places, np.concatenate([loss.high * c, loss.low * c]), loss.high * float(c.sum()), below)


def _middle_of_minimum(kinks: _Kinks) -> float:
    # The minimum is where the rate reaches zero. Where it stays there until the next kink, every b between is a minimum; the middle keeps
    # the same distance from both ends: from both classes, or from the rows above and below.
    places, end = kinks.places, len(kinks.places) - 1
    if kinks.below >= 0:  # no need to sort them all
        first, last = max(kinks.below - 1, 0), min(kinks.below, end)
        places.partition([first, last])
        return 0.5 * float(places[first] + places[last])
    order = np.argsort(places, kind="stable")
    passed = np.cumsum(kinks.falls[order])
    first, last = np.searchsorted(passed, [kinks.rate * (1.0 - 1e-14), kinks.rate * (1.0 + 1e-14)])
    return 0.5 * float(places[order[min(first, end)]] + places[order[min(last, end)]])


def _root_from(start: float, problem: Problem, scores: np.ndarray, samples: Samples) -> float:
    scores = scores.view()
    scores.flags.writeable = False  # one type for the compiler, whoever owns the array
    unit = float(problem.offset.scale)
    return unit * float(_root(_InterceptGradient(problem.loss, scores, samples, _penalty(problem), unit), start / unit))


def intercept_from_support_vectors(problem: Problem, coef: np.ndarray, beta: np.ndarray) -> float:
    """Return an intercept by the support vectors that lie closest, for a model that was trained without one.

    b = −½(min of w·x over y = +1 with β > 0, plus max of w·x over y = −1 with β > 0). It is exact where the classes are separable;
    `best_intercept` minimises the loss in every case.
    """
    scores = problem.scores(problem.stored(as_vector(coef, "coef", problem.size)))
    positive, negative = (scores[(problem.y == sign) & (beta > 0)] for sign in (1.0, -1.0))
    if len(positive) == 0 or len(negative) == 0:
        raise ValueError("the intercept needs that both classes have a support vector (some β > 0)")
    return -0.5 * float(positive.min() + negative.max())
