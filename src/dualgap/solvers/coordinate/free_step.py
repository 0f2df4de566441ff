"""Step 7 of DCA: the best values of all free variables at once, by a Cholesky factor of their Gram matrix.

    maximise over Δ   g·Δ − ½ Δᵀ(K + S²·11ᵀ)Δ   subject to the bounds of a + Δ,   aᵢ = cᵢβᵢyᵢ/l2,   gᵢ = yᵢψ'(βᵢ) − xᵢ·w − oᵢ − b

with K = XXᵀ of the free rows. Sweeps soon find which variables are free. Their values depend on each other through K, and where rows are
nearly parallel, or C is large, coordinate steps take hundreds of sweeps to find them. The quadratic problem is solved by block principal
pivoting on one factor (`BoxQP`, Júdice and Pires 1994), which lets variables come to a bound and leave it.

S² is the square of the bias column's entry: that of a penalised intercept's own column, and at most LONG_COLUMN times the mean of ‖x‖². One
step then finds b, where the proximal-point loop takes many. K is kept from step to step; only rows that have become free since are
multiplied.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import accumulate, blas_alone, is_sparse, machine, natural_order, some
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.quadratic import BoxQP

__all__ = ["FreeSteps"]

LEAST, MOST = (
    16,
    4000,
)  # free variables for which it is tried, and at most d: K, its factor and columns of its inverse are 2¼·m² numbers
MAX_FIXED = 4  # free variables / those that may end at a bound in one step
# Weights of a proximal term, in units of the mean diagonal of K. The first is there for rounding, in rows that are there twice. The others
# are tried where too many variables would come to a bound: shorter steps.
PROXIMAL = (1e-10, 1e-6, 1e-3, 1.0)
ROUNDING = 1e-13  # of the long column, in units of its square
PIVOT_FLOPS = 2.8  # times m³: up to four factors, one for each proximal term, and columns of their inverses
LONG_COLUMN = 1e4  # S² in units of the mean ‖x‖²: longer, and rounding in the sum would be seen in b
RATE_EPOCHS = 2  # since the last step, or the start, before which no rate of convergence is known
EPOCHS = 100  # since the last step, after which it may take longer than the sweeps have taken
EXPECTED = 30.0  # gap before / after, that a step is expected to reach, or what is left to the tolerance
GOOD = 4.0  # the ratio that it must reach: after a failure, a step must be cheaper by this factor
MATCH = 2.0  # nanoseconds of a product of two stored numbers in a sparse matrix product


def free_rows(loss: Any, beta: np.ndarray) -> np.ndarray:
    """Return the rows whose β is neither at a bound nor 0."""
    return np.flatnonzero((beta != 0.0) & (beta > loss.lower_bound()) & (beta < loss.upper_bound()))


class LongColumn(NamedTuple):
    """A bias column by which one step finds b, and its centre; see bias.py."""

    square: float  # of its entry; 0 without an intercept
    centre: float

    def intercept(self, ascent: Ascent) -> float:
        """Return b of this column at a dual point; the point's own column holds scale·Σ cβy/l2."""
        return self.centre + self.square / ascent.bias.scale * float(ascent.v[-1])


@dataclass
class FreeSteps:
    """When to take the step, and the Gram matrix of the rows that were free at the last one.

    Order of calls: `record` after every epoch, then `pays_off`, and `take` where it does.
    """

    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rows of the Gram matrix …
    gram: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # … and the matrix
    spent: list[float] = field(default_factory=list)  # nanoseconds of sweeps since the last step, after each epoch …
    gaps: list[float] = field(default_factory=list)  # … and the gap
    before: float = math.inf  # gap when the last step was taken; inf once it has been judged
    failures: int = 0

    def record(self, nanoseconds: float, gap: float) -> None:
        """Enter an epoch's sweeps and the gap after them, and by it judge the last step."""
        self.spent.append(nanoseconds + (self.spent[-1] if self.spent else 0.0))
        self.gaps.append(gap)
        if len(self.gaps) == 2 and self.before < math.inf:
            self.failures = 0 if gap * GOOD < self.before else self.failures + 1
            self.before = math.inf

    def pays_off(self, problem: Problem, beta: np.ndarray, tol: float) -> np.ndarray | None:
        """Return the free rows if a step on them pays off, else None.

        It does if sweeps, at their rate of convergence over the second half of the time since the last step, need longer than the step, and
        have taken as long already: whatever is expected, steps then at most double the time of a run. From EPOCHS epochs on they may take
        more, in proportion: a run has a budget of epochs too, and is evaluated more often when it is slow.
        """
        spent, gap = self.spent[-1] * max(1.0, len(self.gaps) / EPOCHS) / GOOD**self.failures, self.gaps[-1]
        if len(self.gaps) < RATE_EPOCHS or spent < machine.CALL or not tol < gap < math.inf:
            return None
        half = bisect_left(self.spent, 0.5 * self.spent[-1])
        rate = math.log(max(self.gaps[half] / gap, 1.0)) / max(self.spent[-1] - self.spent[half], 1.0)
        left = math.log(min(EXPECTED, gap / tol) if tol > 0.0 else EXPECTED)
        if spent * rate >= left:
            return None
        free = free_rows(problem.loss, beta)
        if not LEAST <= len(free) <= min(MOST, max(problem.d, LEAST)):
            return None
        cost = machine.CALL + machine.FLOP * PIVOT_FLOPS * len(free) ** 3 + machine.MATRIX_ENTRY * len(free) ** 2
        if spent < cost or left <= rate * cost:
            return None
        cost += self._forming_cost(problem, free)
        return free if spent >= cost and left > rate * cost else None

    def _forming_cost(self, problem: Problem, free: np.ndarray) -> float:
        """Return about the nanoseconds of the products of rows that are not known yet."""
        m = len(free)
        new = np.setdiff1d(free, self.rows, assume_unique=True)
        X: Any = problem.X
        if is_sparse(X):
            counts = np.bincount(X[free].indices, minlength=1).astype(np.float64)
            return MATCH * float((counts * counts).sum()) * len(new) / m
        return machine.BLAS_PRODUCT * len(new) * m * problem.d

    def take(self, problem: Problem, ascent: Ascent, free: np.ndarray, gap: float) -> bool:
        """Move the free variables; return whether the dual objective rose."""
        self.before, self.spent, self.gaps = gap, [], []
        a, factor = ascent.beta[free] * ascent.coords.factor[free], ascent.coords.factor[free]
        w = problem.penalty.primal(ascent.v[: problem.d])
        X: Any = problem.X[free]
        beta = ascent.beta[free]
        side, offset = np.sign(beta), problem.offset.some(free)
        rise, fall, _ = problem.loss.quadratic_pieces()
        wanted = np.where(side > 0.0, rise, fall)  # the margin at which the gradient is 0
        gradient = problem.y[free] * wanted - offset.added(np.asarray(X @ w).reshape(-1))
        with blas_alone:
            self._update_gram(problem, free)
            column = self._long_column(ascent)
            gradient -= column.intercept(ascent)
            # β stays on its side of 0, where ψ may have a kink.
            far = np.where(side > 0.0, problem.loss.upper_bound(), problem.loss.lower_bound()) * factor
            low, high = np.minimum(far, 0.0) - a, np.maximum(far, 0.0) - a
            for added in PROXIMAL:
                step = self._best_step(gradient, low, high, column.square, added)
                if step is not None:
                    return self._move(problem, ascent, free, step, gradient, column)
        return False

    def _best_step(self, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, square: float, added: float) -> np.ndarray | None:
        """Return Δ, with a proximal term in the quadratic problem; None if too many variables would come to a bound."""
        m = len(gradient)
        M = self.gram + square
        M[np.diag_indices(m)] += added * float(self.gram.diagonal().mean()) + ROUNDING * square
        qp = BoxQP(M, np.empty((m // MAX_FIXED + 1, m)))
        return qp.solve(gradient, low, high) if qp.factored else None

    def _update_gram(self, problem: Problem, free: np.ndarray) -> None:
        """Make the Gram matrix that of the free rows, from the part that is known."""
        _, old, place = np.intersect1d(self.rows, free, assume_unique=True, return_indices=True)
        new = np.setdiff1d(np.arange(len(free)), place, assume_unique=True)
        gram = np.empty((len(free), len(free)))
        gram[np.ix_(place, place)] = self.gram[np.ix_(old, old)]
        if len(new):
            X: Any = problem.X[free]
            X = X.astype(np.float64, copy=False)
            part = X[new] @ X.T
            part = part.toarray() if is_sparse(part) else part
            gram[new], gram[:, new] = part, part.T
        self.rows, self.gram = free, gram

    def _move(
        self, problem: Problem, ascent: Ascent, free: np.ndarray, step: np.ndarray, gradient: np.ndarray, column: LongColumn
    ) -> bool:
        """Add the best multiple of the step, at most 1, to a, v and β."""
        change = np.zeros(len(ascent.v))
        accumulate(ascent.bias.rows(some(problem.rows, free.astype(natural_order(0).dtype))), step, change)
        slope, total = float(gradient @ step), float(step.sum())
        curvature = float(change[: problem.d] @ change[: problem.d]) + column.square * total * total
        if not (slope > 0.0 and curvature > 0.0):
            return False
        t = min(slope / curvature, 1.0)
        factor = ascent.coords.factor[free]
        beta = ascent.beta[free] + t * step / factor
        ascent.beta[free] = np.clip(beta, problem.loss.lower_bound(), problem.loss.upper_bound())
        ascent.v += t * change
        if ascent.bias.width:
            ascent.set_intercept(column.intercept(ascent))
        return True

    def _long_column(self, ascent: Ascent) -> LongColumn:
        """Return the column of the step on the rows of the Gram matrix: the longest, or LONG_COLUMN where that is shorter."""
        bias = ascent.bias
        if not bias.width:
            return LongColumn(0.0, 0.0)
        square = max(min(LONG_COLUMN * float(self.gram.diagonal().mean()), bias.longest**2), bias.scale**2)
        return LongColumn(square, (1.0 - square / bias.longest**2) * ascent.intercept())
