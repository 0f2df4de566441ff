"""Feasible dual points: a β in its box and, with a free intercept, in balance, and the model w(β) that belongs to it.

Feasible up to rounding: what rounding leaves of Σ cᵢβᵢyᵢ = 0 is accounted for when a certificate is computed. With l1 alone, where
‖u‖∞ ≤ l1 must hold, β is scaled so that it holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, Gram, gamma, kernel, settle, slopes
from dualgap.kernels import WHOLE_SPECTRUM, extreme_eigenvalues, is_semidefinite, rounding_of
from dualgap.problem import Problem
from dualgap.proof.bounded_scores import kernel_scores
from dualgap.proof.certificate import CertificateError

__all__ = ["DualPoint", "dual_from_margins", "dual_point", "require_semidefinite", "zero_point"]


@dataclass(frozen=True)
class DualPoint:
    """A feasible β and the model w(β) that belongs to it (None where l2 = 0: u does not determine w).

    `stored` is w(β) as solvers store it: w itself, or the scores K·a of a kernel expansion a = `coef`. `v` is u/l2, which is w(β) unless
    there is an l1 penalty or a bound, and `error` bounds ‖v − u/l2‖ for the exact u of this β.
    """

    beta: np.ndarray
    coef: np.ndarray | None
    stored: np.ndarray | None
    v: np.ndarray | None = None
    error: float = 0.0


def require_semidefinite(problem: Problem) -> None:
    """Raise CertificateError if the kernel matrix is not positive semidefinite. The problem remembers that it is."""
    if problem.kernel is None or problem.kernel.semidefinite or problem.shared.semidefinite:
        return
    matrix = problem.rows.k if problem.n <= WHOLE_SPECTRUM and isinstance(problem.rows, Gram) else None
    low, high = extreme_eigenvalues(matrix, problem.n, problem.combine)
    rounding = rounding_of(problem.X) if problem.kernel.name == "precomputed" else 0.0
    problem.shared.semidefinite = is_semidefinite(low, high, rounding)
    if problem.shared.semidefinite:
        return
    raise CertificateError(
        f"kernel {problem.kernel.name!r}: its matrix on these rows is not positive semidefinite (eigenvalues from {low:.3g} to "
        f"{high:.3g}), so the objective has no minimum and no gap can be certified; use 'rbf', or 'poly' with coef0 ≥ 0, or other "
        "parameters of this kernel (a function that computes in float32: let it compute in float64). Two ways to train with it all the "
        "same: SVC(indefinite='clip') or 'shift', which SVR and NuSVR have too, trains on a positive semidefinite kernel near to it and "
        "certifies that, and SVC(indefinite='uncertified') trains without a certificate"
    )


def dual_point(problem: Problem, beta: np.ndarray) -> DualPoint:
    """Make β feasible and return that dual point.

    β is clipped to its box; with a free intercept the heavier class, by the sign of yβ, is scaled down; with l1 alone all of β is.
    """
    require_semidefinite(problem)
    bottom, top = problem.loss.lower_bound(), problem.loss.upper_bound()
    # A copy only where it is needed: β may be a large part of the memory there is.
    if not (beta.min() >= bottom and beta.max() <= top):
        beta = np.clip(beta, bottom, top)
    if problem.intercept == "free":
        beta = _balanced(problem, beta)
    if problem.l2 == 0.0:
        return DualPoint(_within_l1(problem, beta), None, None)
    a = np.empty(problem.n)
    mass, count = _expand(problem.samples, beta, problem.l2, problem.norms, a)
    if problem.kernel is not None:
        return DualPoint(beta, a, kernel_scores(problem, a).values)
    v = problem.combine(a)
    coef = problem.penalty.primal(v)
    return DualPoint(beta, coef, coef, v, 1.00001 * gamma(count + 8) * float(mass) + SMALLEST)


def zero_point(problem: Problem) -> DualPoint:
    """Return the dual point β = 0, without a pass over the rows."""
    zeros = np.zeros(problem.size)
    if problem.l2 == 0.0:
        return DualPoint(np.zeros(problem.n), None, None)
    coef = zeros if problem.kernel is not None else problem.penalty.primal(zeros)
    return DualPoint(np.zeros(problem.n), coef, coef, None if problem.kernel is not None else zeros, SMALLEST)


@kernel
def _expand(samples, beta, l2, norms, a):
    """a = c·β·y/l2; return Σ |aᵢ|‖xᵢ‖ and the number of a ≠ 0."""
    mass, count = 0.0, 0
    for i in range(beta.shape[0]):
        weight = samples.c[i] * beta[i] / l2
        a[i] = weight * samples.y[i]
        mass += abs(weight) * norms[i]
        count += weight != 0.0
    return mass, count


def _within_l1(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Scale β so that |uⱼ| ≤ l1 holds for the exact u, and still does after one β has moved to balance rounding errors."""
    u = problem.combine(problem.c * problem.y * beta)
    norms, weights = problem.norms, problem.c * np.abs(beta)
    error = gamma(np.count_nonzero(weights) + 16) * float(weights @ norms)
    reserve = 64.0 * ROUNDOFF * float(weights.sum()) * float(norms.max()) if problem.intercept == "free" else 0.0
    longest = 1.000001 * (error + reserve) + SMALLEST + float(np.abs(u).max(initial=0.0))
    if longest > problem.l1:
        beta = beta * (problem.l1 / longest * (1.0 - 4.0 * ROUNDOFF))
        if problem.intercept == "free":
            settle(problem.c, problem.y, beta, 0.0)
    return beta


def _balanced(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Return β with Σ cᵢβᵢyᵢ = 0: the heavier class is scaled down, then one of its β takes up what rounding left."""
    positive, negative = (float(mass) for mass in _masses(problem.samples, beta))
    if min(positive, negative) <= 0.0:
        return np.zeros(problem.n)
    factor = min(positive, negative) / max(positive, negative)
    balanced = np.empty(problem.n)
    _scale_side(problem.y, beta, 1.0 if positive > negative else -1.0, factor, balanced)
    settle(problem.c, problem.y, balanced, 0.0)
    return balanced


@kernel
def _masses(samples, beta):
    """Σ cᵢ|βᵢ| over the rows with yβ > 0, and over those with yβ < 0"""
    both, difference = 0.0, 0.0
    for i in range(beta.shape[0]):
        part = samples.c[i] * beta[i]
        both += abs(part)
        difference += samples.y[i] * part
    return 0.5 * (both + difference), 0.5 * (both - difference)


@kernel
def _scale_side(y, beta, sign, factor, out):
    for i in range(beta.shape[0]):
        out[i] = factor * beta[i] if sign * y[i] * beta[i] > 0.0 else beta[i]


def dual_from_margins(problem: Problem, margins: np.ndarray) -> DualPoint:
    """Return the dual point from margins, β = −φ'(m)."""
    beta = np.empty(problem.n)
    slopes(problem.loss, margins, beta)
    return dual_point(problem, beta)
