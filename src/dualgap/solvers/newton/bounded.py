"""BoundedSystem: the Newton system of a problem with bounds on its coefficients, a quadratic problem in a box.

    minimise ½ sᵀHs − rhs·s   subject to  low ≤ x + s ≤ high

Block principal pivoting (Júdice and Pires 1994, docs/references.md): unknowns beyond a bound are fixed at it, and fixed ones whose
multiplier has the wrong sign are freed, all in one round, until the sets stay the same. Where they do not, sweeps of coordinate descent
take over: each lowers the objective. The sets of one solution are the first guess of the next, so that most need one round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dualgap.core import factor_of, kernel, solve_with

__all__ = ["BoundedSystem", "Box"]

MAX_ROUNDS = 12  # of pivoting; the sets stay the same after about four, or a few unknowns that hardly matter alternate
SWEEPS = 20  # of coordinate descent where they do not: enough for a descent direction, which is all that is needed


@dataclass
class Box:
    """Bounds of all unknowns x; those of an intercept are infinite. Sets: `side`, by every solution of a system."""

    low: np.ndarray
    high: np.ndarray
    side: np.ndarray = field(init=False)  # 1: the last step ended at the upper bound, −1: at the lower one, 0: between

    def __post_init__(self) -> None:
        self.side = np.zeros(len(self.low))

    def longest_step(self, x: np.ndarray, direction: np.ndarray) -> float:
        """Return the largest t with x + t·direction in the box; at least 1, as far as a solution of the system goes."""
        room = np.where(direction > 0.0, self.high - x, x - self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = room / np.abs(direction)
        return max(1.0, float(np.min(steps[direction != 0.0], initial=np.inf)))

    def moved(self, x: np.ndarray, direction: np.ndarray, t: float) -> np.ndarray:
        """Return x + t·direction without what rounding leaves beyond a bound or, after a full step, short of one."""
        new = np.clip(x + t * direction, self.low, self.high)
        return np.where(self.side > 0.0, self.high, np.where(self.side < 0.0, self.low, new)) if t == 1.0 else new


@dataclass
class BoundedSystem:
    """H, of which the lower triangle is read, and the box. `solve` may be called for several right-hand sides."""

    H: np.ndarray
    box: Box

    def __post_init__(self) -> None:
        self.H = np.tril(self.H)
        self.H += np.tril(self.H, -1).T

    def solve(self, rhs: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return s. Sets: `side` of the box."""
        low, high, side = self.box.low - x, self.box.high - x, self.box.side
        for _ in range(MAX_ROUNDS):
            step = np.where(side > 0.0, high, np.where(side < 0.0, low, 0.0))
            free, fixed = np.flatnonzero(side == 0.0), np.flatnonzero(side)
            if len(free):
                right = rhs[free] - self.H[np.ix_(free, fixed)] @ step[fixed]
                step[free] = solve_with(factor_of(self.H[np.ix_(free, free)]), right)
            multipliers = rhs - self.H @ step
            beyond = np.where(step > high, 1.0, np.where(step < low, -1.0, 0.0))
            freed = (side != 0.0) & (multipliers * side < 0.0) & (low < high)
            if not freed.any() and not beyond[free].any():
                return step
            side[freed] = 0.0
            side[free] = beyond[free]
        step = np.clip(step, low, high)
        if not step @ (0.5 * (self.H @ step) - rhs) < 0.0:
            step = np.zeros(len(rhs))
        descend(self.H, rhs, low, high, step)
        side[:] = np.where(step >= high, 1.0, np.where(step <= low, -1.0, 0.0))
        return step


@kernel
def descend(H, rhs, low, high, step):
    """Sweeps of coordinate descent on ½ sᵀHs − rhs·s in the box, in place."""
    for _ in range(SWEEPS):
        for j in range(step.shape[0]):
            gradient = -rhs[j]
            for k in range(step.shape[0]):
                gradient += H[j, k] * step[k]
            if H[j, j] > 0.0:
                step[j] = min(max(step[j] - gradient / H[j, j], low[j]), high[j])
