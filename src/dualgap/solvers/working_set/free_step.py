"""Newton's step on many dual variables at once: the quadratic problem between them, in their box, solved from one Cholesky factor.

    max e·d − ½ dᵀMd,   low ≤ d ≤ high,   Σd = 0 where a free intercept ties them

M is their kernel matrix with a little added to its diagonal, which rows that are there twice would leave singular: what comes out is a
step of the proximal-point method. Variables that would pass a bound are put there, those that want to leave one are let go, all that
do at once (block pivoting); a variable at its bound costs one column of M⁻¹, no new factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from dualgap.core import kernel

__all__ = ["FreeStep", "gather_lower"]

ROUNDS = 10  # of pivoting: the sets settle in about five, or a few variables go to and fro that hardly matter
ROUNDING = 1e-6  # beyond a bound by so little, of the longest move: rounding


@kernel
def gather_lower(store, slots, columns, out):
    """out[s, t] = store[slots[s], columns[t]] for t ≤ s: half of a symmetric matrix"""
    for s in range(slots.shape[0]):
        row = store[slots[s]]
        for t in range(s + 1):
            out[s, t] = row[columns[t]]


class FreeStep:
    """The factor of M and what is known of its inverse.

    Parameters
    ----------
    M : square array, float32 or float64, of which the lower half counts; overwritten
    room : array with as many columns as M, memory for columns of its inverse: as many variables as it has rows can be at a bound
    tied : whether Σd = 0

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.solvers.working_set.free_step import FreeStep
    >>> step = FreeStep(np.eye(3), np.empty((1, 3)), tied=True)
    >>> step.direction(np.array([2.0, 1.0, 0.0]), np.full(3, -1.0), np.array([0.5, 1.0, 1.0])).round(9)
    array([ 0.5 ,  0.25, -0.75])
    """

    def __init__(self, M: np.ndarray, room: np.ndarray, tied: bool) -> None:
        lapack: Any = get_lapack_funcs(("potrf", "potrs"), (M,))
        factorise, self._substitute = lapack
        self._factor, failed = factorise(M.T, lower=0, clean=0, overwrite_a=1)
        self.fine = failed == 0  # whether M was positive definite
        self._room, self._used = room, 0
        self._column_of = np.full(len(M), -1)
        self._side = np.zeros(len(M))  # 1: at its high bound, −1: at its low one
        self._tied = tied
        self._ones: Any = self._solve(np.ones(len(M))) if tied and self.fine else None

    def _solve(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self._substitute(self._factor, right.astype(self._factor.dtype, order="F"), lower=0)[0])

    def direction(self, e: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
        """The best d; None where too many variables end at a bound. Sides found by the last call are where this one begins."""
        freely = self._solve(e).astype(np.float64)
        for _ in range(ROUNDS):
            held = np.flatnonzero(self._side)
            if not self._know(held):
                return None
            bound = np.where(self._side[held] > 0, high[held], low[held])
            d, force = self._held_at(freely, held, bound)
            if d is None:
                return None
            beyond = ROUNDING * float(np.abs(d).max(initial=0.0))
            side = np.where(d > high + beyond, 1.0, np.where(d < low - beyond, -1.0, 0.0))
            let_go = held[force * self._side[held] < 0.0]
            side[held] = 0.0
            if not side.any() and len(let_go) == 0:
                break
            self._side[let_go] = 0.0
            self._side[side != 0.0] = side[side != 0.0]
        return _feasible(d, low, high, self._tied)

    def _know(self, held: np.ndarray) -> bool:
        """Have the columns of M⁻¹ of the variables held at a bound, as far as there is room."""
        new = held[self._column_of[held] < 0]
        if self._used + len(new) > len(self._room):
            return False
        if len(new):
            right = np.zeros((len(self._side), len(new)), dtype=self._factor.dtype, order="F")
            right[new, np.arange(len(new))] = 1.0
            self._column_of[new] = self._used + np.arange(len(new))
            self._room[self._used : self._used + len(new)] = self._solve(right).T
            self._used += len(new)
        return True

    def _held_at(self, freely: np.ndarray, held: np.ndarray, bound: np.ndarray) -> tuple[Any, Any]:
        """d with some variables held at a bound, and the forces that hold them; None where they cannot be told apart."""
        columns, tied = self._column_of[held], int(self._tied)
        system, right = np.empty((len(held) + tied,) * 2), np.empty(len(held) + tied)
        inner = self._room[np.ix_(columns, held)].astype(np.float64)
        system[tied:, tied:] = 0.5 * (inner + inner.T)
        right[tied:] = freely[held] - bound
        if tied:
            system[0, 0], right[0] = self._ones.sum(dtype=np.float64), freely.sum()
            system[0, 1:] = system[1:, 0] = self._ones[held]
        try:
            force = np.linalg.solve(system, right)
        except np.linalg.LinAlgError:
            return None, None
        weights = np.zeros(self._used, dtype=self._room.dtype)
        weights[columns] = force[tied:]
        d = freely - weights @ self._room[: self._used]
        if tied:
            d -= force[0] * self._ones
        d[held] = bound
        return d, force[tied:]


def _feasible(d: np.ndarray, low: np.ndarray, high: np.ndarray, tied: bool) -> np.ndarray:
    """What rounding has left beyond the bounds or in the sum, taken away."""
    d = np.clip(d, low, high)
    for _ in range(2 if tied else 0):
        between = (d > low) & (d < high)
        d[between] -= d.sum() / max(int(np.count_nonzero(between)), 1)
        d = np.clip(d, low, high)
    if tied and d.sum() != 0.0:
        spare = d - low if d.sum() > 0.0 else high - d
        roomy = int(np.argmax(spare))
        d[roomy] -= np.clip(d.sum(), -spare[roomy], spare[roomy])
    return d
