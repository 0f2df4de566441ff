"""LocalAscent: coordinate ascent on a few rows of a problem, from a dual point that is nearly optimal but for a small change.

The steps are those of `ascent.py`, the sums over the rows visited and the shrinking those of DCA's sweeps. Rows that are not visited keep
their β.
"""

from __future__ import annotations

import math

import numpy as np

from dualgap.core import L2, fresh_seed, kernel, shuffle
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.dca import sweep
from dualgap.solvers.coordinate.extrapolation import Extrapolation

__all__ = ["LocalAscent"]

SHRINK = 3.0  # |gradient| of a row at its bound, in units of the mean violation, beyond which it is not visited any more


class LocalAscent:
    """Dual coordinate ascent on the rows `rows` alone, with shrinking.

    Sets: `beta`, `intercept` and `order`, the rows that are visited next, by every sweep.
    Order of calls: `sweep` as often as wanted; `visit` to take up more rows; `model` for w(β).
    """

    def __init__(self, problem: Problem, beta: np.ndarray, intercept: float, rows: np.ndarray, rng: np.random.Generator) -> None:
        self.problem, self.ascent, self.rng = problem, Ascent(problem, beta, intercept), rng
        self.order = rows.astype(np.int64)
        self.sweeps = 0
        self.bound = math.inf  # |gradient| beyond which a row at its bound is shrunk
        self.extrapolation = Extrapolation()

    @property
    def beta(self) -> np.ndarray:
        return self.ascent.beta

    @property
    def intercept(self) -> float:
        return self.ascent.intercept()

    def visit(self, rows: np.ndarray) -> None:
        """Visit these rows too; a direction of extrapolation starts anew, and no row is shrunk by the next sweep."""
        self.extrapolation.restart()
        self.bound = math.inf
        self.order = np.union1d(self.order, rows)

    def sweep(self) -> float:
        """Visit each row once, in a fresh random order; return the gap over them, each term at the margin that was met."""
        problem, ascent = self.problem, self.ascent
        shuffle(self.order, fresh_seed(self.rng))
        args = (
            ascent.rows,
            problem.loss,
            problem.penalty,
            ascent.coords,
            ascent.beta,
            ascent.v,
            self.order,
            self.bound,
            ascent.ahead,
        )
        active, violation, gap, _ = sweep(*args)
        self.order, self.bound = self.order[:active], SHRINK * violation if violation > 0.0 else math.inf
        ascent.move_centre()
        self.sweeps += 1
        if isinstance(problem.penalty, L2) and problem.kernel is None:
            self.extrapolation.count(problem, ascent, self.order)
        return float(gap)

    def score(self, i: int) -> float:
        """Return xᵢ·w + b of the present dual point."""
        return float(_score(self.problem.penalty, self.ascent.rows, i, self.ascent.v))

    def model(self) -> np.ndarray:
        """Return w(β); of a kernel machine its expansion."""
        problem = self.problem
        if problem.kernel is not None:
            return problem.c * problem.y * self.beta / problem.l2
        return problem.penalty.primal(self.ascent.v[: problem.size]).copy()


@kernel
def _score(penalty, rows, i, v):
    return penalty.score(rows, i, v)
