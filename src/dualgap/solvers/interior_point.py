"""A convex quadratic problem in a box with sums to keep, by an interior-point method (Mehrotra 1992, docs/references.md).

    minimise  ½ aᵀKa   subject to  low ≤ a ≤ high,  and Σa of each group as at the start

Its steps number about 20 whatever the condition of K, where steps on pairs of variables take millions once K is singular up to rounding.
Each costs a Cholesky factor of K with a larger diagonal. The conditions, with multipliers z of the lower and s of the upper bounds and
one λ a group, are  Ka − λ = z − s,  (a − low)·z = μ,  (high − a)·s = μ;  a step of Newton's method on them, twice with one factor:

1. Predict: aim at μ = 0. How far the step can go before a bound tells the next μ.
2. Correct: aim at that μ, and take the second-order terms of the prediction along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualgap.core import ROUNDOFF, blas_alone, machine

__all__ = ["InteriorPoint", "interior_point_cost"]

STEPS = 25  # that a run is expected to take
TO_BOUND = 0.995  # part of the way to the nearest bound that a step goes
FIRST = 0.1  # share of the mean multiplier of a sum in the first multipliers of the bounds
MOST_ADDED = 1e-9  # diagonal added to K / its mean diagonal, beyond which K counts as indefinite
FALLS = 0.99999  # gap after / before a step, above which rounding has stopped the method


class Step(NamedTuple):
    """A change of a, of the λ, of z and of s."""

    a: np.ndarray
    level: np.ndarray
    z: np.ndarray
    s: np.ndarray


def interior_point_cost(n: int) -> float:
    """Return about the nanoseconds of a run with n variables."""
    return STEPS * (machine.CHOLESKY * n**3 + machine.MATRIX_ENTRY * n**2)


class InteriorPoint:
    """The method on one problem.

    Sets: `a`, the best point so far, `value` ½aᵀKa and `gap`, about the distance of that from the least one; `indefinite`, whether K was
    found to be. All are changed by `step`.

    Parameters
    ----------
    K : n × n array, symmetric positive semidefinite; it is not changed
    start : n numbers strictly between their bounds
    low, high : the bounds
    groups : masks of variables; every variable is in one
    """

    def __init__(self, K: np.ndarray, start: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Sequence[np.ndarray]) -> None:
        self.K, self.low, self.high = K, low, high
        self.groups = np.array(groups, dtype=np.float64)
        self.sums = self.groups @ start
        self.a, self.value, self.gap = start, math.inf, math.inf
        self.indefinite = False
        self._added = ROUNDOFF * len(start)  # to the diagonal, relative to its mean
        g = K @ start
        level = (self.groups @ g) / self.groups.sum(axis=1)
        d = g - level @ self.groups
        first = float(np.abs(d).max()) + FIRST * abs(float(start @ g)) / float(np.abs(start).sum())
        self._point = Step(start, level, np.maximum(d, 0.0) + first, np.maximum(-d, 0.0) + first)
        self._look(g)

    def step(self) -> bool:
        """Take a step. Return False where that brings nothing: at the limit of rounding, or if K is indefinite."""
        with np.errstate(all="ignore"), blas_alone:
            a, _, z, s = self._point
            below, above = a - self.low, self.high - a
            if not self._factorise(z / below + s / above):
                return False
            mean = float(below @ z + above @ s) / (2 * len(a))
            first = self._direction(-below * z, -above * s)
            t = self._length(first)
            then = float((below + t * first.a) @ (z + t * first.z) + (above - t * first.a) @ (s + t * first.s)) / (2 * len(a))
            aim = mean * (then / mean) ** 3
            change = self._direction(aim - below * z - first.a * first.z, aim - above * s + first.a * first.s)
            t = TO_BOUND * self._length(change)
            self._point = Step(*(old + t * new for old, new in zip(self._point, change, strict=True)))
            return self._look(self.K @ self._point.a)

    def _look(self, g: np.ndarray) -> bool:
        """Set the residuals of a point whose K·a is g, and the best point. Return whether the gap fell."""
        a, level, z, s = self._point
        self._residual = g - level @ self.groups - z + s
        self._missing = self.sums - self.groups @ a
        gap = float((a - self.low) @ z + (self.high - a) @ s + np.abs(self._residual) @ np.abs(a))
        if not gap < FALLS * self.gap:
            return False
        self.a, self.value, self.gap, self._multipliers = a, 0.5 * float(a @ g), gap, (z, s)
        return True

    def rounded(self) -> np.ndarray:
        """Return the best point with variables put at a bound that are nearer to it than the bound's multiplier is to 0."""
        z, s = self._multipliers
        size, width = max(float(z.max()), float(s.max())), self.high - self.low
        a = np.where((self.a - self.low) * size < z * width, self.low, self.a)
        return np.asarray(np.where((self.high - self.a) * size < s * width, self.high, a))

    def _factorise(self, curvature: np.ndarray) -> bool:
        """Factor K with the curvature of the bounds on its diagonal, and a little more where rounding makes that indefinite."""
        self._curvature, size = curvature, float(self.K.diagonal().mean())
        while self._added <= MOST_ADDED and np.isfinite(curvature).all():
            M = self.K.copy()
            M[np.diag_indices(len(M))] += curvature + self._added * size
            try:
                self._factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                self._added *= 10.0
                continue
            self._sums_inverse = self._solve(self.groups.T)
            return True
        self.indefinite = self._added > MOST_ADDED and size > 0.0
        return False

    def _solve(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(cho_solve(self._factor, right, check_finite=False))

    def _direction(self, low_aim: np.ndarray, high_aim: np.ndarray) -> Step:
        """Return the step of Newton's method to given changes of the products of distances and multipliers. Refined once."""
        a, _, z, s = self._point
        below, above = a - self.low, self.high - a
        wanted = -self._residual + low_aim / below - high_aim / above
        da, dl = self._saddle(wanted, self._missing)
        more, level = self._saddle(
            wanted - (self.K @ da + self._curvature * da - dl @ self.groups), self._missing - self.groups @ da
        )
        da, dl = da + more, dl + level
        return Step(da, dl, (low_aim - z * da) / below, (high_aim + s * da) / above)

    def _saddle(self, right: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve (K + curvature)·d − level = right, Σd of the groups = sums."""
        d = self._solve(right)
        level = np.linalg.solve(self.groups @ self._sums_inverse, sums - self.groups @ d)
        return d + self._sums_inverse @ level, level

    def _length(self, step: Step) -> float:
        """Return the part of a step, at most all of it, that keeps distances and multipliers positive."""
        a, _, z, s = self._point
        shares = -step.a / (a - self.low), step.a / (self.high - a), -step.z / z, -step.s / s
        return 1.0 / max(1.0, *(float(share.max()) for share in shares))
