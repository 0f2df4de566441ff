"""The bias column: how dual coordinate steps, which know no intercept, train one.

Every row gets one more entry, the constant `scale`; b = centre + scale·(the column's coefficient).

    none         no column
    penalised    (l2/2)b²/longest² is part of the objective, and longest the intercept_scale. A column of that length, with the centre 0
                 (or the b of an earlier batch), is this penalty. A shorter one needs the proximal-point loop
    free         b is the multiplier of Σ cᵢβᵢyᵢ = 0: longest is infinite. The first centre is the best b of w = 0: where one class is
                 rare and the penalty strong, 0 would be far from the optimum

Proximal-point loop (Rockafellar 1976). To b's own penalty (l2/2)(b − z)²/t² is added, with 1/t² = 1/scale² − 1/longest². The two together
are those of a column with the entry scale and the centre (1 − scale²/longest²)·z. After each pass of steps (a sweep of dca), z moves to b:
in the limit the added penalty is zero. A longer column needs fewer moves, but it ties the steps of all rows to each other, and sweeps
converge more slowly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualgap.core import WithBias, inner
from dualgap.problem import Problem
from dualgap.proof import first_intercept

__all__ = ["BiasColumn", "free_scale", "slows_sweeps"]

# A free intercept's scale in units of a typical row's length. A longer column shortens the steps of all rows, a shorter one those of b.
# On simulated, medical and census data 0.3 took the fewest epochs, at or near those without an intercept.
FREE_SCALE = 0.3
# The scale² is at least this part of l2. Σ cᵢβᵢyᵢ, at most 1, moves b by scale²/l2 times itself: b must come as far as a margin is long,
# 1, in a few passes, however strong the penalty. Parts of 1 and 3 took about the same
# epochs on text, web pages, census and simulated data; 0.1 took more.
LEAST_PART = 3.0


# A penalised intercept's own column is shortened in dca if it slows the sweeps: its square is more than LONG_PART of the mean ‖x‖², so
# that it ties rows more than they are tied anyway, and its q = scale²/(n·l2) is more than LONG_Q. Without that, news20, penalised, C = 100
# takes 4 times as long.
LONG_PART, LONG_Q = 0.5, 0.1


def free_scale(mean_square: float, l2: float, margin: float = 1.0) -> float:
    """Return the scale of a free intercept's column from the weighted mean of ‖xᵢ‖², the penalty and the size of a typical margin."""
    return float(np.sqrt(max(FREE_SCALE**2 * mean_square, LEAST_PART * margin * l2)))


def slows_sweeps(problem: Problem) -> bool:
    """Return whether a penalised intercept's own column, with nothing added to its penalty, slows the sweeps."""
    square = problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    return square > LONG_PART * float(inner(problem.c, problem.sqnorms)) and square > LONG_Q * problem.n * problem.l2


@dataclass
class BiasColumn:
    """The column of a problem's intercept. `move_centre` and Ascent's `shorten_column` and `set_intercept` change it."""

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
