"""What a model and a dual point settle about the optimum: dual variables of rows, and features that an l1 penalty or a bound sets to zero.

Rows. The exact margin of a row lies between two bounds (the ball), and −φ' falls with the margin, so that

    β* ∈ [−φ'(upper bound of m*), −φ'(lower bound of m*)]

Features. wⱼ* = 0 if |uⱼ*| < l1, and wⱼ* ≠ 0 if |uⱼ*| > l1, for u* = Σ cᵢβᵢ*yᵢxᵢ. With bounds, wⱼ* ≤ 0 if uⱼ* < l1 or the upper bound is 0,
and so on: wⱼ* never falls with uⱼ*. Two bounds of uⱼ* are intersected:

1. For a loss of curvature L, −D is strongly convex: Σ cᵢ(βᵢ − βᵢ*)² ≤ 2L·gap, and so |uⱼ − uⱼ*| ≤ √(2L·gap · Σ cᵢxᵢⱼ²)
   (Ndiaye, Fercoq, Gramfort and Salmon 2017). It needs no l2 penalty.
2. With an l2 penalty, the intervals of βᵢ* above give one of each uⱼ*.

Besides, wⱼ* ≠ 0 where the ball does not contain 0 in coordinate j, and wⱼ* = 0, with any penalty, where only rows with β* = 0 have the
feature. Rounding is accounted for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dualgap.core import ROUNDOFF, Logistic, gamma, is_sparse, signed_sum, slopes
from dualgap.problem import Problem
from dualgap.proof import Ball, ball_of, certify_pair, dual_point

__all__ = ["bounds_of_margins", "feature_status", "row_status", "zero_features"]

BLOCK = 10_000  # rows that are looked through at once


def row_status(loss: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the status of rows with these lower and upper bounds of their exact margins.

    "out": β* = 0. "bound": β* is the upper bound of the loss, or a lower one below 0. "free": strictly between them and, where the dual
    has a kink at 0, not 0. "open": not known.
    """
    found = np.full(len(low), "open", dtype="U5")
    if isinstance(loss, Logistic):  # its slope is never 0 or 1, except by underflow
        found[np.isfinite(low) | np.isfinite(high)] = "free"
        return found
    least, most = _dual_interval(loss, low, high)
    bottom, top = loss.lower_bound(), loss.upper_bound()
    inside = ((most < top) | math.isinf(top)) & ((least > bottom) | math.isinf(bottom))
    found[inside & ((least > 0.0) | (most < 0.0) | loss.is_free(0.0))] = "free"
    found[(least == 0.0) & (most == 0.0)] = "out"
    found[((least == top) & math.isfinite(top)) | ((most == bottom) & (bottom < 0.0) & math.isfinite(bottom))] = "bound"
    return found


def bounds_of_margins(y: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the margins y·score of rows with labels ±1 from bounds of their scores."""
    return np.where(y > 0.0, low, -high), np.where(y > 0.0, high, -low)


def _dual_interval(loss: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of −φ'(m) for every m from `low` to `high`; margins are moved outwards by some units of the last digit.

    A slope at a kink is one of many. A margin that is strictly smaller has a slope at least as large as all of them.
    """
    least, most = np.empty(len(low)), np.empty(len(low))
    slopes(loss, high + 16.0 * ROUNDOFF * (1.0 + np.abs(high)), least)
    slopes(loss, low - 16.0 * ROUNDOFF * (1.0 + np.abs(low)), most)
    return np.where(np.isfinite(high), least, loss.lower_bound()), np.where(np.isfinite(low), most, loss.upper_bound())


def feature_status(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> np.ndarray:
    """Return "zero", "nonzero" or "open" for each coefficient of the exact model."""
    if problem.kernel is not None:
        raise ValueError("a kernel machine has no coefficients of features; use a linear model")
    problem = problem.remembering()
    found = np.full(problem.d, "open", dtype="U7")
    ball = ball_of(problem, coef, intercept, beta) if problem.l2 > 0.0 else None
    if ball is not None:
        rounding = 4.0 * ROUNDOFF * np.abs(ball.centre)
        found[np.abs(ball.centre) - rounding > ball.radius] = "nonzero"
        found[_unsupported(problem, ball)] = "zero"  # where bounds exclude 0, the next lines say so
    if problem.l1 > 0.0 or problem.bounds is not None:
        least, most = _gradient_interval(problem, coef, intercept, beta, ball)
        low, high = problem.bounds or (-math.inf, math.inf)
        found[_zero(problem, least, most)] = "zero"
        found[((least > problem.l1) & (high > 0.0)) | ((most < -problem.l1) & (low < 0.0)) | (low > 0.0) | (high < 0.0)] = "nonzero"
    return found


def _unsupported(problem: Problem, ball: Ball) -> np.ndarray:
    """Return which features no row has that may have β* ≠ 0: a mask."""
    status = row_status(problem.loss, *ball.training_margins())
    rows = np.flatnonzero((status != "out") & (problem.c > 0.0))
    found, X = np.ones(problem.d, dtype=bool), problem.X
    for first in range(0, len(rows), BLOCK):  # dense rows nearly always have every feature: the first block tells
        block: Any = X[rows[first : first + BLOCK]]
        found &= np.bincount(block.indices[block.data != 0.0], minlength=problem.d) == 0 if is_sparse(block) else ~block.any(axis=0)
        if not found.any():
            break
    return found


def zero_features(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> np.ndarray:
    """Return which coefficients of the exact model are zero, by the first bound alone, which costs one pass: a mask."""
    if problem.l1 == 0.0 and problem.bounds is None:
        return np.zeros(problem.d, dtype=bool)
    return _zero(problem, *_gradient_interval(problem, coef, intercept, beta, None))


def _zero(problem: Problem, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return which coefficients of the exact model are zero, given bounds of uⱼ*: neither above 0 nor below."""
    low, high = problem.bounds or (-math.inf, math.inf)
    none_above, none_below = (most < problem.l1) | (high == 0.0), (least > -problem.l1) | (low == 0.0)
    return none_above & none_below & (low <= 0.0) & (high >= 0.0)


def _gradient_interval(
    problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray, ball: Ball | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of uⱼ* of every feature."""
    point, curvature = dual_point(problem, beta), problem.loss.curvature()
    least, most = np.full(problem.d, -math.inf), np.full(problem.d, math.inf)
    if math.isfinite(curvature):
        gap = certify_pair(problem, coef, intercept, point, "solver").certificate.gap
        squares, moved = _column_squares(problem), _balancing_move(problem, point.beta)
        rounding = gamma(problem.n + 64)
        u = problem.combine(problem.c * problem.y * point.beta)
        # Σ cβ|x| ≤ √(Σ cβ²)·√(Σ cx²), by which the rounding of u is bounded
        wide = np.sqrt(2.0 * curvature * gap * squares) + rounding * np.sqrt(float(problem.c @ point.beta**2) * squares)
        wide = wide * (1.0 + 4.0 * rounding) + moved * float(problem.norms.max(initial=0.0)) + 1e-300
        least, most = u - wide, u + wide
    if ball is not None and math.isfinite(ball.radius):
        lowest, highest = _dual_interval(problem.loss, *ball.training_margins())
        if (
            problem.loss.quadratic_pieces() is None
        ):  # slopes of any other loss are rounded, those of the logistic loss by up to 3e-14
            lowest, highest = lowest * (1.0 - 5e-14), np.minimum(highest * (1.0 + 5e-14), problem.loss.upper_bound())
        if np.isfinite(highest).all():
            u, off = _sum_over_rows(problem, 0.5 * (lowest + highest))
            wide = _column_sums(problem, 0.5 * (highest - lowest)) + off
            least, most = np.maximum(least, u - wide), np.minimum(most, u + wide)
    return least, most


def _balancing_move(problem: Problem, beta: np.ndarray) -> float:
    """Bound by how much c·β of one row is moved so that Σ cᵢβᵢyᵢ = 0 holds exactly."""
    if problem.intercept != "free":
        return 0.0
    return float(abs(signed_sum(problem.c, problem.y, beta)).upper)


def _sum_over_rows(problem: Problem, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ cᵢβᵢyᵢxᵢ and bounds on the errors of its coordinates."""
    u = problem.combine(problem.c * problem.y * beta)
    return u, gamma(problem.n + 64) * _column_sums(problem, np.abs(beta))


def _column_sums(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Return upper bounds of Σ cᵢ·weightᵢ·|xᵢⱼ|."""
    X: Any = problem.X
    sums = np.asarray(abs(X).T @ (problem.c * weights)).ravel()
    return sums * (1.0 + gamma(problem.n + 64)) + 1e-300


def _column_squares(problem: Problem) -> np.ndarray:
    """Return Σ cᵢxᵢⱼ² of every feature."""
    X: Any = problem.X
    if hasattr(X, "indptr"):
        X = X.astype(np.float64, copy=False)
        return np.asarray(X.multiply(X).T @ problem.c).ravel()
    return np.einsum("ij,ij,i->j", X, X, problem.c, dtype=np.float64)
