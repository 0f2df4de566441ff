"""A quadratic problem in a box, by block principal pivoting on one Cholesky factor (Júdice and Pires 1994, docs/references.md).

    maximise  g·d − ½ dᵀMd   subject to  low ≤ d ≤ high,  and Σd = 0 in each of some groups

Variables beyond a bound are fixed at it, and fixed ones whose multiplier has the wrong sign are freed, all in one round, until the sets
stay the same. A fixed variable costs one column of M⁻¹ (a Schur complement), not a new factor. Working sets and DCA use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

__all__ = ["ADDED_DIAGONAL", "BoxQP"]

MAX_ROUNDS = 10  # of pivoting: the sets stay the same after about five, or a few variables that hardly matter alternate
ROUNDING = 1e-6  # a variable beyond its bound by less than this part of the longest move counts as inside
# relative to the mean diagonal; ×10 when the factorisation fails
ADDED_DIAGONAL = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


class BoxQP:
    """The quadratic problem of one M for several g.

    Order of calls: the constructor factors M; if `factored`, `solve` any number of times. Each starts from the bounds the last one found.

    Parameters
    ----------
    M : square array, float32 or float64; its lower half is read, and overwritten by the factor
    memory : array with as many columns as M, for columns of M⁻¹: one row for each variable that may be at a bound, one more for each group
    groups : masks of variables, none of them in two; Σd = 0 in each group
    """

    def __init__(self, M: np.ndarray, memory: np.ndarray, groups: Sequence[np.ndarray] = ()) -> None:
        lapack: Any = get_lapack_funcs(("potrf", "potrs"), (M,))
        factorise, self._substitute = lapack
        self._factor, failed = factorise(M.T, lower=0, clean=0, overwrite_a=1)
        self.factored = failed == 0  # False: M is not positive definite
        self._groups = [np.asarray(group) for group in groups if np.any(group)]
        self._inverse, self._computed = memory, len(self._groups)  # M⁻¹·mask of each group, then columns of M⁻¹; one a row
        self._row_of = np.full(len(M), -1)  # of `_inverse`, for each variable
        self._side = np.zeros(len(M))  # 1: fixed at its upper bound, −1: at its lower one, 0: free
        if self.factored:
            for row, group in enumerate(self._groups):
                self._inverse[row] = self._times_inverse(group.astype(float))

    def _times_inverse(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self._substitute(self._factor, right.astype(self._factor.dtype, order="F"), lower=0)[0])

    def solve(self, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
        """Return the best d; None if too many variables end at a bound."""
        unbounded = self._times_inverse(g).astype(np.float64)
        for _ in range(MAX_ROUNDS):
            fixed = np.flatnonzero(self._side)
            if not self._compute_columns(fixed):
                return None
            bound = np.where(self._side[fixed] > 0, high[fixed], low[fixed])
            try:
                d, multipliers = self._with_fixed(unbounded, fixed, bound)
            except np.linalg.LinAlgError:
                return None
            slack = ROUNDING * float(np.abs(d).max(initial=0.0))
            beyond = np.where(d > high + slack, 1.0, np.where(d < low - slack, -1.0, 0.0))
            beyond[fixed] = 0.0
            freed = fixed[multipliers * self._side[fixed] < 0.0]
            if not beyond.any() and len(freed) == 0:
                break
            self._side[freed] = 0.0
            self._side[beyond != 0.0] = beyond[beyond != 0.0]
        return _feasible(d, low, high, self._groups)

    def _compute_columns(self, fixed: np.ndarray) -> bool:
        """Compute the columns of M⁻¹ that are missing for these variables; False if the memory is too small."""
        new = fixed[self._row_of[fixed] < 0]
        rows = self._computed + np.arange(len(new))
        if self._computed + len(new) > len(self._inverse):
            return False
        if len(new):
            right = np.zeros((len(self._side), len(new)), dtype=self._factor.dtype, order="F")
            right[new, np.arange(len(new))] = 1.0
            self._inverse[rows] = self._times_inverse(right).T
            self._row_of[new] = rows
            self._computed += len(new)
        return True

    def _with_fixed(self, unbounded: np.ndarray, fixed: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return d with some variables fixed at a bound, and their multipliers, from the Schur complement of those constraints."""
        sums = len(self._groups)
        rows, right = self._row_of[fixed], unbounded[fixed] - bound
        if sums:
            rows = np.append(np.arange(sums), rows)
            right = np.append([unbounded[group].sum() for group in self._groups], right)
        S = np.empty((len(rows), len(rows)))
        S[:, sums:] = self._inverse[np.ix_(rows, fixed)]
        for column, group in enumerate(self._groups):
            S[:sums, column], S[sums:, column] = self._inverse[:sums, group].sum(axis=1, dtype=np.float64), S[column, sums:]
        multipliers = np.linalg.solve(0.5 * (S + S.T), right)
        weights = np.zeros(self._computed, dtype=self._inverse.dtype)
        weights[rows] = multipliers
        d = unbounded - weights @ self._inverse[: self._computed]
        d[fixed] = bound
        return d, multipliers[sums:]


def _feasible(d: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray | None:
    """Remove what rounding left beyond the bounds, and in the sums: from free variables. Return None if these have too little room."""
    d = np.clip(d, low, high)
    for group in groups:
        excess = float(d[group].sum())
        if excess != 0.0:
            room = np.where(group & (d > low) & (d < high), np.minimum(d - low if excess > 0.0 else high - d, abs(excess)), 0.0)
            if room.sum() < abs(excess):
                return None
            d -= excess / room.sum() * room
    return d
