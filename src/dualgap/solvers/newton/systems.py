"""Newton systems (a diagonal plus Σ weightᵢ xᵢxᵢᵀ): conjugate gradients, steps within bounds, and the smaller of two direct forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import factor_and_solve, factor_of, gram_of_rows, is_sparse, kernel, layers, solve_with
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.solvers.newton.loss_sums import add_products, add_with_squares

__all__ = [
    "ENOUGH",
    "LOOSEST",
    "MOST_PRODUCTS",
    "Box",
    "ConjugateGradients",
    "SplitSystem",
    "conjugate_gradients",
    "next_forcing",
    "solve_within",
    "wanted_residual",
]

# Conjugate gradients: parts of the right side, in the norm of the gap, that a residual may have. A small one costs products, a large one
# steps.
LOOSEST, TIGHTEST = 0.5, 1e-3
MOST_PRODUCTS = 250  # in one system
ENOUGH = 0.25  # a residual that makes this part of the gap asked for is small enough in any case

MAX_ROUNDS = (
    12  # of pivoting within bounds; the sets stay the same after about four, or a few unknowns that hardly matter alternate
)
SWEEPS = 20  # of coordinate descent where they do not: enough for a descent direction, which is all that is needed

DIRECT = 2500  # unknowns of a split system that is factored; a larger one, which takes about a second, goes to conjugate gradients


# ------------------------------------------------------------------------------------------------------------ conjugate gradients


class ConjugateGradients:
    """H·step = rhs by preconditioned conjugate gradients, a product at a time, whoever computes it.

    Order of calls: `take` H·`direction`, again and again while it returns True. Sets: step, residual = rhs − H·step, direction,
    size = residual·(preconditioned residual).
    """

    def __init__(self, rhs: np.ndarray, inverse: Callable[[np.ndarray], np.ndarray]) -> None:
        self.inverse, self.step, self.residual = inverse, np.zeros_like(rhs), rhs.copy()
        self.direction = inverse(rhs)
        self.size = float(np.vdot(rhs, self.direction))
        self.products = 0

    def take(self, image: np.ndarray) -> bool:
        """Go along the direction, whose product with H is `image`; return False where it has no curvature, or nothing is left."""
        curvature = float(np.vdot(self.direction, image))
        if not (0.0 < curvature < math.inf and 0.0 < self.size < math.inf):
            return False
        t = self.size / curvature
        self.step += t * self.direction
        self.residual -= t * image
        self.products += 1
        z = self.inverse(self.residual)
        before, self.size = self.size, float(np.vdot(self.residual, z))
        self.direction *= self.size / before
        self.direction += z
        return True


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    inverse: Callable[[np.ndarray], np.ndarray],
    is_enough: Callable[[ConjugateGradients], bool],
    most: int,
) -> ConjugateGradients:
    """Solve H·step = rhs until it is enough, in at most `most` products; `inverse` multiplies by the preconditioner's inverse."""
    found = ConjugateGradients(rhs, inverse)
    while found.products < most and found.take(product(found.direction)) and not is_enough(found):
        pass
    return found


def next_forcing(unpredicted: float, before: float) -> float:
    """Return the part of the next gradient that a residual may have: that which the quadratic model did not predict of the last one.

    Both are gap parts: of the gradient less its prediction, and of the gradient before (Eisenstat & Walker 1996, choice 1).
    """
    return min(LOOSEST, max(TIGHTEST, math.sqrt(unpredicted / before))) if 0.0 < before < math.inf else LOOSEST


def wanted_residual(forcing: float, size: float, gap: float) -> float:
    """Return the gap part that a residual may have, for a gradient of gap part `size` and the `gap` asked for."""
    return max(forcing**2 * size, ENOUGH * gap)


# ------------------------------------------------------------------------------------------------------------ within bounds


@dataclass
class Box:
    """Bounds of all unknowns x; those of an intercept are infinite. Sets: `side`, by every solution of a system."""

    low: np.ndarray
    high: np.ndarray
    side: np.ndarray = field(init=False)  # 1: the last step ended at the upper bound, −1: at the lower one, 0: between

    def __post_init__(self) -> None:
        self.side = np.zeros(len(self.low))

    @classmethod
    def of(cls, problem: Problem, size: int) -> Box | None:
        """Return the bounds of a problem's unknowns; None where no coefficient has any."""
        if problem.bounds is None:
            return None
        free = np.full(size - problem.d, math.inf)
        return cls(np.append(problem.bounds[0], -free), np.append(problem.bounds[1], free))

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


def solve_within(H: np.ndarray, rhs: np.ndarray, x: np.ndarray, box: Box) -> np.ndarray:
    """Return the s that minimises ½ sᵀHs − rhs·s with x + s in the box. The lower triangle of H is read. Sets: `side` of the box.

    Block principal pivoting (Júdice & Pires 1994): unknowns beyond a bound are fixed at it, and fixed ones whose multiplier has the wrong
    sign are freed, all in one round, until the sets stay the same. Where they do not, sweeps of coordinate descent take over: each lowers
    the objective. The sets of one solution are the first guess of the next, so that most need one round.
    """
    H = np.tril(H) + np.tril(H, -1).T
    low, high, side = box.low - x, box.high - x, box.side
    for _ in range(MAX_ROUNDS):
        step = np.where(side > 0.0, high, np.where(side < 0.0, low, 0.0))
        free, fixed = np.flatnonzero(side == 0.0), np.flatnonzero(side)
        if len(free):
            right = rhs[free] - H[np.ix_(free, fixed)] @ step[fixed]
            step[free] = solve_with(factor_of(H[np.ix_(free, free)]), right)
        multipliers = rhs - H @ step
        beyond = np.where(step > high, 1.0, np.where(step < low, -1.0, 0.0))
        freed = (side != 0.0) & (multipliers * side < 0.0) & (low < high)
        if not freed.any() and not beyond[free].any():
            return step
        side[freed] = 0.0
        side[free] = beyond[free]
    step = np.clip(step, low, high)
    if not step @ (0.5 * (H @ step) - rhs) < 0.0:
        step = np.zeros(len(rhs))
    descend(H, rhs, low, high, step)
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


# ------------------------------------------------------------------------------------------------------------ the smaller form


class SplitSystem(NamedTuple):
    """(diag(diagonal) + Σ weightᵢ xᵢxᵢᵀ)·step = rhs over the features of a working set and, as the last unknown, the intercept.

    With q = −weight·(X·step) over the rows of positive weight, diagonal·step − Xᵀq = rhs. The rows' form of the system is therefore
    (1/weight + X·diagonal⁻¹·Xᵀ)·q = −X·rhs/diagonal.
    """

    matrix: Any  # X of the working set, dense or CSR
    rows: Any  # the same with the bias column, as kernels read it
    weight: np.ndarray  # of all rows
    diagonal: np.ndarray  # of the unknowns; positive for the features

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Return the step."""
        curved, features = int(np.count_nonzero(self.weight)), int(self.matrix.shape[1])
        if curved == 0 or len(rhs) == 0:
            return rhs / self.diagonal
        if min(curved, features) > DIRECT:
            return self._by_conjugate_gradients(rhs)
        return self._by_rows(rhs) if curved < features else self._by_features(rhs)

    def _by_features(self, rhs: np.ndarray) -> np.ndarray:
        H = gram_of_rows(self.rows, self.weight, len(rhs))
        H[np.diag_indices(len(H))] += self.diagonal
        unit = 1.0 / np.sqrt(H.diagonal())  # to a unit diagonal: features may have lengths of many orders of magnitude
        H *= unit
        H *= unit[:, None]
        return unit * factor_and_solve(H, unit * rhs)[1]

    def _by_rows(self, rhs: np.ndarray) -> np.ndarray:
        d, curved, scale = self.matrix.shape[1], np.flatnonzero(self.weight), float(layers(self.rows).scale)
        X, right, own = self.matrix[curved], rhs[:d], self.diagonal[:d]
        columns = X.T.tocsr() if is_sparse(X) else np.ascontiguousarray(X.T)
        G = gram_of_rows(storage.of_matrix(columns), 1.0 / own, len(curved))
        G[np.diag_indices(len(G))] += 1.0 / self.weight[curved]
        factor = factor_of(G)
        q, shift = solve_with(factor, -np.asarray(X @ (right / own)).reshape(-1)), rhs[d:].copy()
        if len(shift):
            of_bias = solve_with(factor, np.full(len(q), scale))
            curvature = self.diagonal[d] + scale * float(of_bias.sum())  # 0 where 1 / own overflows
            shift[0] = (shift[0] + scale * float(q.sum())) / curvature if curvature > 0.0 else 0.0
            q = q - shift[0] * of_bias
        return np.append((right + np.asarray(X.T @ q).reshape(-1)) / own, shift)

    def _by_conjugate_gradients(self, rhs: np.ndarray) -> np.ndarray:
        """Return the step, with the system's diagonal as preconditioner."""
        curved, sums = np.flatnonzero(self.weight), np.zeros((2, len(rhs)))
        add_with_squares(self.rows, curved, np.zeros(len(self.weight)), self.weight, sums)
        full = self.diagonal + sums[1]

        def product(p: np.ndarray) -> np.ndarray:
            out = self.diagonal * p
            add_products(self.rows, curved, self.weight, p, out)
            return out

        end = TIGHTEST**2 * float(rhs @ (rhs / full))
        return conjugate_gradients(product, rhs, lambda r: r / full, lambda found: found.size <= end, MOST_PRODUCTS).step
