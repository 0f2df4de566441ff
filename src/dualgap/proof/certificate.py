"""Certificates: a feasible dual point bounds how far a model is from optimal. Exact or absent.

For every dual feasible β, P(w, b) − P* ≤ P(w, b) − D(β) =: gap. u(β) is always rebuilt from β in float64; a β that breaks its box
or, with a free intercept, Σ cᵢβᵢyᵢ = 0 is made feasible first: a tolerance is not feasibility.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import Gram, Hinge, bracket_root, compiled, illinois, kernel, nearest, slopes, total_psi, total_value
from dualgap.kernels import WHOLE_SPECTRUM, extreme_eigenvalues, is_semidefinite
from dualgap.problem import Problem, Samples, as_vector

__all__ = [
    "Certificate",
    "CertificateError",
    "DualPoint",
    "best_intercept",
    "dual_from_margins",
    "dual_point",
    "intercept_from_support_vectors",
    "make_certificate",
    "margins_of",
    "primal_value",
    "require_semidefinite",
    "settle",
]

ROUNDING = 1e-9  # a gap below −ROUNDING·primal cannot be rounding


class CertificateError(ArithmeticError):
    """A negative gap: a bug, or a kernel matrix that is not positive semidefinite.

    Examples
    --------
    >>> import dualgap
    >>> issubclass(dualgap.CertificateError, ArithmeticError)
    True
    """


@dataclass(frozen=True)
class Certificate:
    """A proof of how good a model is: its objective is at most `gap` above the best possible one.

    Attributes
    ----------
    primal : P(w, b) of the model
    dual : a lower bound on every model's P
    source : where the bound's β came from: "solver", "margins", "given" or "ascent"

    Examples
    --------
    >>> from dualgap import Certificate
    >>> c = Certificate(primal=0.5, dual=0.4995, source="solver")
    >>> print(c)
    primal 0.5, dual 0.4995, gap 5.0e-04: at most 0.1 % above the optimum (bound from solver)
    """

    primal: float
    dual: float
    source: str

    @property
    def gap(self) -> float:
        """primal − dual, at least the model's distance from the optimum."""
        return max(self.primal - self.dual, 0.0)

    @property
    def relative_gap(self) -> float:
        """gap / primal; infinite where the primal is, or is not above zero."""
        gap = self.gap
        if gap == 0.0:
            return 0.0
        return gap / self.primal if 0.0 < self.primal < np.inf else np.inf

    def __str__(self) -> str:
        # A gap of g means that primal ≤ optimum + g, and the optimum is at least `dual`.
        above = f"{100 * self.gap / self.dual:.3g} % above the optimum" if self.dual > 0 else f"{self.gap:.2g} above the optimum"
        return f"primal {self.primal:.8g}, dual {self.dual:.8g}, gap {self.gap:.1e}: at most {above} (bound from {self.source})"


def make_certificate(primal: float, dual: float, source: str) -> Certificate:
    """Make a certificate; raise where the gap is too negative to be rounding."""
    if primal - dual < -ROUNDING * abs(primal):
        raise CertificateError(
            f"primal {primal!r} is below the dual bound {dual!r}: the kernel matrix is not positive semidefinite, or this is a bug"
        )
    return Certificate(float(primal), float(dual), source)


@dataclass(frozen=True)
class DualPoint:
    """A feasible β with its bound D(β) and, where l2 > 0, the model w(β) that belongs to it (`stored`: as solvers store it)."""

    beta: np.ndarray
    value: float
    coef: np.ndarray | None
    stored: np.ndarray | None


def require_semidefinite(problem: Problem) -> None:
    """Raise CertificateError if the kernel matrix is not positive semidefinite. The problem remembers that it is."""
    if problem.kernel is None or problem.kernel.semidefinite or problem.shared.semidefinite:
        return
    matrix = problem.rows.k if problem.n <= WHOLE_SPECTRUM and isinstance(problem.rows, Gram) else None
    low, high = extreme_eigenvalues(matrix, problem.n, problem.combine)
    problem.shared.semidefinite = is_semidefinite(low, high)
    if problem.shared.semidefinite:
        return
    raise CertificateError(
        f"kernel {problem.kernel.name!r}: its matrix on these rows is not positive semidefinite (eigenvalues from {low:.3g} to "
        f"{high:.3g}), so the objective has no minimum and no gap can be certified; use 'rbf', or 'poly' with coef0 ≥ 0, or other "
        "parameters of this kernel (a matrix rounded to float32: compute it in float64)"
    )


def dual_point(problem: Problem, beta: np.ndarray, combine: Callable[[np.ndarray], np.ndarray] | None = None) -> DualPoint:
    """Make β feasible and return that dual point with its value.

    β is clipped to its box; with a free intercept the heavier class is scaled down; with l1 alone all of β is. `combine` stands in for
    the problem's: a kernel machine may leave scores inexact of rows with β = 0.
    """
    require_semidefinite(problem)
    top = problem.loss.upper_bound()
    # A copy only where it is needed: β may be a large part of the memory there is.
    if not (beta.min() >= 0.0 and beta.max() <= top):
        beta = np.clip(beta, 0.0, top)
    if problem.intercept == "free":
        beta = _balanced(problem, beta)
    a = problem.c * problem.y
    a *= beta
    if problem.l2 == 0.0:
        u = problem.combine(a)
        longest = float(np.abs(u).max())
        if longest > problem.l1:
            # A little less than fits, so that rounding does not leave a coordinate outside the box.
            beta = beta * (problem.l1 / longest * (1.0 - 2.0**-52))
        return DualPoint(beta, float(total_psi(problem.loss, beta, problem.c)), None, None)
    a /= problem.l2
    v = (combine or problem.combine)(a)
    if problem.kernel is None:
        coef = problem.penalty.primal(v)
        conjugate = problem.penalty.total_conjugate(v, problem.l2)
    else:
        coef = a
        conjugate = 0.5 * problem.l2 * float(coef @ v)
    if problem.intercept == "penalised":
        bias = problem.intercept_scale * problem.l2 * float(a.sum())
        conjugate += bias * bias / (2.0 * problem.l2)  # overflows to infinity, a bound that says nothing; bias**2 would raise
    value = float(total_psi(problem.loss, beta, problem.c)) - conjugate
    return DualPoint(beta, value, coef, coef if problem.kernel is None else v)


def _balanced(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Return β with Σ cᵢβᵢyᵢ = 0: the heavier class is scaled down, then one of its β takes up what rounding left."""
    positive, negative = (float(problem.c @ np.where(problem.y == sign, beta, 0.0)) for sign in (1.0, -1.0))
    if min(positive, negative) <= 0.0:
        return np.zeros(problem.n)
    heavy = 1.0 if positive > negative else -1.0
    factor = min(positive, negative) / max(positive, negative)
    return settle(problem.c, problem.y, np.where(problem.y == heavy, factor * beta, beta))


def settle(c: np.ndarray, y: np.ndarray, beta: np.ndarray, others: float = 0.0) -> np.ndarray:
    """Take what rounding left of others + Σ cᵢβᵢyᵢ out of the heaviest β, in place, so that the sum is zero; returns β."""
    for _ in range(3):
        parts = c * beta
        rest = others + float(parts @ y)
        if rest == 0.0:
            break
        place = int(np.argmax(np.where(y * rest > 0.0, parts, -1.0)))
        if not y[place] * rest > 0.0 or not parts[place] > 0.0:
            break
        beta[place] = max(0.0, beta[place] - abs(rest) / c[place])
    return beta


# ---------------------------------------------------------------------------------------------------------------- intercepts


def best_intercept(problem: Problem, scores: np.ndarray) -> float:
    """Return the b that minimises Σ cᵢ φ(yᵢ(scoreᵢ + b)), plus the intercept's penalty where it has one, for a fixed w."""
    if problem.intercept == "none":
        return 0.0
    if isinstance(problem.loss, Hinge) and problem.intercept == "free":
        return _hinge_intercept(problem, scores)
    rho = problem.l2 / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    return float(_root(_InterceptGradient(problem.loss, scores, problem.samples, rho), -float(problem.c @ scores)))


@compiled
class _InterceptGradient(NamedTuple):
    """−dP/db, which never rises with b."""

    loss: Any
    scores: np.ndarray
    samples: Samples
    rho: float  # the penalty (ρ/2)b² of the intercept

    def at(self, b):
        s = -self.rho * b
        for i in range(self.scores.shape[0]):
            y = self.samples.y[i]
            s += self.samples.c[i] * y * self.loss.slope(y * (self.scores[i] + b))
        return s


@kernel
def _root(gradient, start):
    return nearest(illinois(gradient, bracket_root(gradient, start, 1.0, 2.0), 0.0, 4e-16, 200))


def _hinge_intercept(problem: Problem, scores: np.ndarray) -> float:
    # In b the loss is piecewise linear with a kink at yᵢ − scoreᵢ: it falls at the rate Σ_{y=+1} c at first, and every kink that is
    # passed lowers that rate by cᵢ. The minimum is where the rate reaches zero; where it stays there until the next kink, every b
    # between is a minimum, and the middle keeps the same distance from both classes.
    kinks = problem.y - scores
    if problem.sample_weight is None:
        # As many lie below as there are rows of the positive class: no need to sort them all.
        middle = int(np.count_nonzero(problem.y > 0))
        kinks.partition([max(middle - 1, 0), min(middle, problem.n - 1)])
        return 0.5 * float(kinks[max(middle - 1, 0)] + kinks[min(middle, problem.n - 1)])
    order = np.argsort(kinks, kind="stable")
    passed = np.cumsum(problem.c[order])
    positive = float(problem.c[problem.y > 0].sum())
    first, last = np.searchsorted(passed, [positive * (1.0 - 1e-14), positive * (1.0 + 1e-14)])
    end = len(order) - 1
    return 0.5 * float(kinks[order[min(first, end)]] + kinks[order[min(last, end)]])


def intercept_from_support_vectors(problem: Problem, coef: np.ndarray, beta: np.ndarray) -> float:
    """Return an intercept by the support vectors that lie closest, for a model that was trained without one.

    b = −½(min of w·x over y = +1 with β > 0, plus max of w·x over y = −1 with β > 0). It is exact where the classes are separable;
    `best_intercept` minimises the loss in every case.
    """
    scores = problem.scores(problem.stored(as_vector(coef, "coef", problem.size)))
    positive, negative = (scores[(problem.y == sign) & (beta > 0)] for sign in (1.0, -1.0))
    if len(positive) == 0 or len(negative) == 0:
        raise ValueError("the intercept needs that both classes have a support vector (some β > 0)")
    return -0.5 * float(positive.min() + negative.max())


# ----------------------------------------------------------------------------------------------------------------- evaluation


def margins_of(problem: Problem, stored: np.ndarray, intercept: float) -> np.ndarray:
    """Return yᵢ(xᵢ·w + b) for every training row."""
    return problem.y * (problem.scores(stored) + intercept)


def primal_value(problem: Problem, coef: np.ndarray, intercept: float, stored: np.ndarray, margins: np.ndarray) -> float:
    """Return P(w, b), given the margins."""
    return float(total_value(problem.loss, margins, problem.c)) + problem.regulariser(coef, intercept, stored)


def dual_from_margins(problem: Problem, margins: np.ndarray) -> DualPoint:
    """Return the dual point from margins, β = −φ'(m)."""
    beta = np.empty(problem.n)
    slopes(problem.loss, margins, beta)
    return dual_point(problem, beta)
