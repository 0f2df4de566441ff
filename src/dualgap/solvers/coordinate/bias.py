"""The bias column: how dual coordinate steps, which know no intercept, train one.

Every row gets one more entry, the constant `scale`; b = centre + scale·(the column's coefficient).

    none         no column
    penalised    the centre stays where it is (0, or the b of an earlier batch), and (l2/2)(b − centre)²/scale² is part of the objective
    free         b is the multiplier of Σ cᵢβᵢyᵢ = 0. Proximal-point loop (Rockafellar 1976): the penalty (l2/2)(b − centre)²/scale² is
                 added, and after each pass of steps (a sweep of dca) the centre moves to b: in the limit the penalty is zero. The first
                 centre is the best b of w = 0: where one class is rare and the penalty strong, 0 would be far from the optimum
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import WithBias, inner
from dualgap.problem import Problem
from dualgap.proof import first_intercept

__all__ = ["BiasColumn", "free_scale"]

# A free intercept's scale in units of a typical row's length. A longer column shortens the steps of all rows, a shorter one those of b.
# On simulated, medical and census data 0.3 took the fewest epochs, at or near those without an intercept.
FREE_SCALE = 0.3
# The scale² is at least this part of l2. Σ cᵢβᵢyᵢ, at most 1, moves b by scale²/l2 times itself: b must come as far as a margin is long,
# 1, in a few passes, however strong the penalty. Parts of 1 and 3 took about the same
# epochs on text, web pages, census and simulated data; 0.1 took more.
LEAST_PART = 3.0


def free_scale(mean_square: float, l2: float, margin: float = 1.0) -> float:
    """Return the scale of a free intercept's column from the weighted mean of ‖xᵢ‖², the penalty and the size of a typical margin."""
    return float(np.sqrt(max(FREE_SCALE**2 * mean_square, LEAST_PART * margin * l2)))


@dataclass
class BiasColumn:
    """The column of a problem's intercept. `move_centre` alone changes it."""

    intercept: str  # the problem's: "none", "penalised" or "free"
    scale: float
    centre: Any = 0.0  # a float, or an array with one number per class

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

    def rows(self, rows: Any, centre: float | None = None) -> Any:
        """Return the rows with the column. Their scores contain b, at this centre or another one."""
        return WithBias(rows, self.scale, self.centre if centre is None else centre) if self.width else rows

    def squares(self, sqnorms: np.ndarray) -> np.ndarray:
        """Return ‖xᵢ‖² with the column's entry, from which the q of the steps are made."""
        return sqnorms + self.scale * self.scale if self.width else sqnorms

    def move_centre(self, coefficient: Any) -> None:
        """Take one step of the proximal-point loop on a free b; `coefficient` is the column's, of each class where there are several."""
        if self.intercept == "free":
            self.centre = self.centre + self.scale * coefficient

    def value(self, coefficient: Any) -> Any:
        """Return b, of each class where there are several."""
        return self.centre + self.scale * coefficient if self.width else self.centre
