"""Feasible dual points: a β in its box and, with a free intercept, in balance, and the model w(β) that belongs to it.

Feasible up to rounding: what rounding leaves of Σ cᵢβᵢyᵢ = 0 is accounted for when a certificate is computed. With l1 alone, where
‖u‖∞ ≤ l1 must hold, β is scaled so that it holds exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, Gram, gamma, kernel, kernel_part, settle, slopes
from dualgap.kernels import WHOLE_SPECTRUM, extreme_eigenvalues, is_semidefinite, rounding_of
from dualgap.problem import Problem
from dualgap.proof.bounded_scores import kernel_scores
from dualgap.proof.certificate import CertificateError

# Part of their room by which free β move, at most, to balance the classes: D falls with the square of these moves, and in proportion where
# a class is scaled.
LARGEST_SHARE = 0.5

__all__ = ["DualPoint", "balance_into", "dual_from_margins", "dual_point", "expand", "require_semidefinite", "zero_point"]


class DualPoint(NamedTuple):
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

    β is clipped to its box. With a free intercept free variables move, or where these are too few the heavier class, by the sign of yβ, is
    scaled down. With l1 alone all of β is scaled.
    """
    require_semidefinite(problem)
    loss, samples, a = problem.loss, problem.samples, np.empty(problem.n)
    bottom, top, norms = loss.lower_bound(), loss.upper_bound(), problem.norms
    l2 = problem.l2 or 1.0  # with l1 alone nothing is expanded
    if problem.intercept == "free":
        given, beta = beta, np.empty(problem.n)
        mass, count = _balance_and_expand(samples, given, bottom, top, beta, l2, norms, a)
    else:
        if not (beta.min() >= bottom and beta.max() <= top):  # a copy only where it is needed: β may be a large part of the memory
            beta = np.clip(beta, bottom, top)
        mass, count = expand(samples, beta, l2, norms, a)
    if problem.l2 == 0.0:
        return DualPoint(_within_l1(problem, beta), None, None)
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
def expand(samples, beta, l2, norms, a):
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


@kernel
def _balance_and_expand(samples, beta, bottom, top, out, l2, norms, a):
    """`balance_into`, then what `expand` does with its β."""
    balance_into(samples, beta, bottom, top, out)
    return expand(samples, out, l2, norms, a)


@kernel_part
def balance_into(samples, beta, bottom, top, out):
    """out = β within its bounds and with Σ cᵢβᵢyᵢ = 0: free β move, or the heavier class is scaled down; then one β takes up rounding.

    Zeros where one class has nothing to balance the other by.
    """
    both, difference = 0.0, 0.0
    for i in range(beta.shape[0]):
        out[i] = min(max(beta[i], bottom), top)
        part = samples.c[i] * out[i]
        both += abs(part)
        difference += samples.y[i] * part
    positive, negative = 0.5 * (both + difference), 0.5 * (both - difference)  # Σ c|β| over the rows with yβ > 0, and with yβ < 0
    if min(positive, negative) <= 0.0:
        for i in range(out.shape[0]):
            out[i] = 0.0
        return
    sign = 1.0 if positive > negative else -1.0
    if difference != 0.0 and not _move_free(samples, bottom, top, difference, out):
        factor = min(positive, negative) / max(positive, negative)
        for i in range(out.shape[0]):
            if sign * samples.y[i] * out[i] > 0.0:
                out[i] *= factor
    settle(samples.c, samples.y, out, 0.0)


@kernel_part
def _room(beta, bottom, top):
    """Return the distance of β from the nearer of 0 and its bound on the same side, within which it may move either way."""
    return min(abs(beta), abs((top if beta > 0.0 else bottom) - beta))


@kernel_part
def _move_free(samples, bottom, top, difference, beta):
    """Take `difference` out of Σ cᵢβᵢyᵢ by moves of the free β, each by the same share of its room; return False if that is too little.

    Near the optimum moves of free β that balance the classes change D in second order alone; those of β at a bound do in first order.
    """
    room = 0.0
    for i in range(beta.shape[0]):
        room += samples.c[i] * _room(beta[i], bottom, top)
    share = abs(difference) / room if room > 0.0 else 1.0
    if share > LARGEST_SHARE:
        return False
    for i in range(beta.shape[0]):
        step = math.copysign(share * _room(beta[i], bottom, top), difference * samples.y[i])
        beta[i] = min(max(beta[i] - step, bottom), top)
    return True


def dual_from_margins(problem: Problem, margins: np.ndarray) -> DualPoint:
    """Return the dual point from margins, β = −φ'(m)."""
    beta = np.empty(problem.n)
    slopes(problem.loss, margins, beta)
    return dual_point(problem, beta)
