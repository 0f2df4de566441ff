"""The bias column: how dual coordinate steps, which know no intercept, train one.

Every row gets one more entry, the constant `scale`; b = centre + scale·(the column's coefficient).

    none         no column
    penalised    (l2/2)b²/longest² is part of the objective, and longest the intercept_scale. A column of that length, with the centre 0
                 (or the b of an earlier batch), is this penalty. A shorter one needs the proximal-point loop
    free         b is the multiplier of Σ cᵢβᵢyᵢ = 0: longest is infinite. The first centre is the best b of w = 0: where one class is
                 rare and the penalty strong, 0 would be far from the optimum

Proximal-point loop (Rockafellar 1976). To b's own penalty (l2/2)(b − z)²/t² is added, with 1/t² = 1/scale² − 1/longest². The two together
are those of a column with the entry scale and the centre (1 − scale²/longest²)·z. After each pass of steps (a sweep of dca), z moves to b:
in the limit the added penalty is zero.

How long the column should be. Let F be the free variables, K the Gram matrix of their rows, Λ the curvature of their ψ,
l2·ψ''/c, on a diagonal. Where β is best for a given b, Σ cᵢβᵢyᵢ falls at the rate κ = l2·1ᵀ(K + Λ)⁻¹1 as b rises. A move of the centre then
multiplies the error of b by (1 − scale²/longest²)/(1 + κ·scale²/l2). A longer column thus needs fewer moves, but it ties the steps of all
rows to each other, and sweeps converge more slowly. For any weights h, κ ≥ l2·(Σ hᵢ)²/hᵀ(K + Λ)h (Cauchy–Schwarz). `matching_square`
returns the inverse, in units of l2, for weights that are best where rows are orthogonal: at that scale the error is at least halved. The
mean product of all rows is a lower limit: they are tied to each other by that much anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualgap.core import WithBias, inner, kernel
from dualgap.problem import Problem
from dualgap.proof import first_intercept

__all__ = ["BiasColumn", "free_scale", "least_square", "matching_square", "mean_product", "slows_sweeps"]

# A free intercept's scale in units of a typical row's length. A longer column shortens the steps of all rows, a shorter one those of b.
# On simulated, medical and census data 0.3 took the fewest epochs, at or near those without an intercept.
FREE_SCALE = 0.3
# The scale² is at least this part of l2. Σ cᵢβᵢyᵢ, at most 1, moves b by scale²/l2 times itself: b must come as far as a margin is long,
# 1, in a few passes, however strong the penalty. Parts of 1 and 3 took about the same
# epochs on text, web pages, census and simulated data; 0.1 took more.
LEAST_PART = 3.0
# A penalised intercept's own column is shortened if it slows the sweeps: its square is more than LONG_PART of the mean ‖x‖², so that it
# ties rows more than they are tied anyway, and its q = scale²/(n·l2) is more than LONG_Q. Below, a few sweeps suffice, and a loop
# on b takes longer: shortened columns took up to 2.4 times as long at q = 1e-3 to 6e-3 (text, forest cover, bank marketing). At 0.6 and
# more they took 0.2 to 1 times as long on text.
LONG_PART, LONG_Q = 0.5, 0.1
SAMPLE = 300  # rows, at least, whose products are averaged where there are more: the error is about a three hundredth of ‖x‖²


def free_scale(mean_square: float, l2: float, margin: float = 1.0) -> float:
    """Return the scale of a free intercept's column from the weighted mean of ‖xᵢ‖², the penalty and the size of a typical margin."""
    return float(np.sqrt(max(FREE_SCALE**2 * mean_square, LEAST_PART * margin * l2)))


def least_square(problem: Problem) -> float:
    """Return the least scale² of a free intercept's column."""
    return LEAST_PART * float(problem.offset.scale) * problem.l2


def slows_sweeps(problem: Problem) -> bool:
    """Return whether the intercept's own column, with nothing added to its penalty, slows the sweeps; that of a free one is infinite."""
    if problem.intercept != "penalised":
        return problem.intercept == "free"
    square = problem.intercept_scale**2
    return square > LONG_PART * float(inner(problem.c, problem.sqnorms)) and square > LONG_Q * problem.n * problem.l2


@dataclass
class BiasColumn:
    """The column of a problem's intercept. `move_centre` and Ascent's `match_scale`, `set_scale` and `set_intercept` change it."""

    intercept: str  # the problem's: "none", "penalised" or "free"
    scale: float
    centre: Any = 0.0  # a float, or an array with one number per class
    longest: float = field(init=False)  # scale at which the column alone is the intercept's penalty; infinite for a free b

    def __post_init__(self) -> None:
        self.longest = math.inf if self.intercept == "free" else self.scale

    @classmethod
    def of(cls, problem: Problem, centre: Any = None) -> BiasColumn:
        """Return a problem's column. A warm start's b is the centre of a free intercept; a penalised one is in the column's coefficient.

        Without a centre, that of a free intercept is the best b of w = 0.
        """
        if problem.intercept == "free":
            first = first_intercept(problem) if centre is None else centre
            return cls("free", free_scale(float(inner(problem.c, problem.sqnorms)), problem.l2, float(problem.offset.scale)), first)
        return cls(problem.intercept, problem.intercept_scale, np.zeros(np.shape(centre))[()])

    @property
    def width(self) -> int:
        """Columns that it adds: 0 or 1."""
        return int(self.intercept != "none")

    @property
    def share(self) -> float:
        """The centre as a part of b where the proximal-point loop ends: 1 − scale²/longest². The centre moves unless it is 0."""
        return 1.0 - (self.scale / self.longest) ** 2

    def rows(self, rows: Any, centre: float | None = None) -> Any:
        """Return the rows with the column. Their scores contain b, at this centre or another one."""
        return WithBias(rows, self.scale, self.centre if centre is None else centre) if self.width else rows

    def squares(self, sqnorms: np.ndarray) -> np.ndarray:
        """Return ‖xᵢ‖² with the column's entry, from which the q of the steps are made."""
        return sqnorms + self.scale * self.scale if self.width else sqnorms

    def move_centre(self, coefficient: Any) -> None:
        """Take one step of the proximal-point loop on b; `coefficient` is the column's, of each class where there are several."""
        if self.share > 0.0:
            self.centre = self.share * self.value(coefficient)

    def value(self, coefficient: Any) -> Any:
        """Return b, of each class where there are several."""
        return self.centre + self.scale * coefficient if self.width else self.centre


def matching_square(problem: Problem, beta: np.ndarray) -> float:
    """Return the scale² with which a move of the centre at least halves the error of b; 0 if no variable is free.

    It is 1/Σ h, with h = 1/(‖x‖² + Λ) of the free variables, plus the mean product of their rows.
    """
    weights = np.empty(problem.n)
    mass = float(free_weights(problem.loss, problem.samples, problem.sqnorms, beta, problem.l2, weights))
    return 1.0 / mass + _mean_product(problem, np.flatnonzero(weights), weights) if mass > 0.0 else 0.0


def mean_product(problem: Problem) -> float:
    """Estimate the weighted mean of the products of two different rows; 0 if it is negative."""
    return _mean_product(problem, np.flatnonzero(problem.c), problem.c)


def _mean_product(problem: Problem, among: np.ndarray, weights: np.ndarray) -> float:
    chosen = among[:: max(len(among) // SAMPLE, 1)]
    return float(products_of(problem.rows, chosen, weights, problem.sqnorms, np.zeros(problem.size)))


@kernel
def free_weights(loss, samples, sqnorms, beta, l2, weights):
    """Set the weights h of free variables whose rows are not empty, 0 elsewhere; return their sum."""
    mass = 0.0
    for i in range(beta.shape[0]):
        weights[i] = 0.0
        if sqnorms[i] > 0.0 and loss.is_free(beta[i]):
            c = samples.c[i] / l2
            weights[i] = c * loss.curvature_at(beta[i], c * sqnorms[i])
            mass += weights[i]
    return mass


@kernel
def products_of(rows, chosen, weights, sqnorms, total):
    """Return the weighted mean of the products of two different chosen rows, or 0 if it is negative; `total` is zero, and overwritten."""
    weight, squares, own = 0.0, 0.0, 0.0
    for i in chosen:
        h = weights[i]
        rows.add(i, h, total)
        weight, squares, own = weight + h, squares + h * h, own + h * h * sqnorms[i]
    products = 0.0
    for i in chosen:
        products += weights[i] * rows.dot(i, total)
    pairs = weight * weight - squares
    return max((products - own) / pairs, 0.0) if pairs > 0.0 else 0.0
