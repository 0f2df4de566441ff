"""certify: bound how far from optimal a model is, whatever trained it.

The model gives P(w, b). The dual bound starts from the dual point of the model's margins. The solver that suits the problem raises it,
until at most a tenth of the remaining gap can be the slack of the bound: the rest is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualgap.core import slopes
from dualgap.problem import Problem, as_vector
from dualgap.proof import (
    Certificate,
    DualPoint,
    best_intercept,
    certificate_of,
    certify_pair,
    dual_from_margins,
    dual_point,
    kernel_scores,
    scores_of,
)
from dualgap.run.driver import minimise

__all__ = ["certify", "certify_with_dual"]

SLACK = 0.1  # share of the gap that may be due to the bound: smaller proves more and takes longer
SHARPEST = 1e-10  # relative gap below which rounding decides


def certify(
    problem: Problem,
    coef: ArrayLike,
    intercept: float | ArrayLike = 0.0,
    dual: ArrayLike | None = None,
    *,
    epochs: int = 200,
    seed: int = 0,
) -> Certificate:
    """Bound how far from optimal a model is, whatever trained it.

    Parameters
    ----------
    problem : Problem
        The objective that the model is certified for.
    coef : array of d numbers (for a kernel problem: the n coefficients of the kernel expansion)
        scikit-learn's `coef_` of shape (1, d) is taken too.
    intercept : float or array of one
    dual : array of n numbers, optional
        Dual variables β ∈ [0, 1] of a solver that has them. Any values give a valid bound; good ones give a close one. A bound below 0
        counts as 0, which is that of β = 0.
    epochs : int
        Without `dual`, the bound starts from the dual point of the model's margins and is raised by up to this many epochs of the
        solver that suits the problem, until nearly all of the gap is the model's own distance from the optimum. 0: from the margins
        alone, as always on a store, whose rows are not at hand.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn.svm import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, random_state=0, max_iter=100_000).fit(X, y)
    >>> problem = dualgap.Problem(X, y, l2=1 / len(y))  # C = 1 / (l2·n)
    >>> dualgap.certify(problem, model.coef_).relative_gap < 1e-3
    True
    """
    return certify_with_dual(problem, coef, intercept, dual, epochs=epochs, seed=seed)[0]


def certify_with_dual(
    problem: Problem,
    coef: ArrayLike,
    intercept: float | ArrayLike = 0.0,
    dual: ArrayLike | None = None,
    *,
    epochs: int = 200,
    seed: int = 0,
) -> tuple[Certificate, np.ndarray]:
    """Certify as `certify` does, and return the dual variables of the bound as well."""
    coef = as_vector(coef, "coef", problem.size)
    b = float(as_vector(np.atleast_1d(intercept), "intercept", 1)[0])
    if epochs < 0:
        raise ValueError(f"epochs={epochs!r} must not be negative")
    if problem.intercept == "none" and b != 0.0:
        raise ValueError(f"intercept={b:g} but the problem has none; build it with intercept='penalised' or 'free'")
    if not problem.penalty.contains_point(coef):
        j = int(np.argmax(problem.penalty.nearest_point(coef) != coef))
        low, high = problem.penalty.ends(j)
        raise ValueError(f"coef[{j}]={coef[j]!r} is outside of its bounds, {low:g} to {high:g}: the objective is infinite there")
    problem = problem.remembering()
    zero = np.zeros(problem.n)  # D(0) = 0
    if dual is not None:
        point = dual_point(problem, as_vector(dual, "dual", problem.n))
        found = certify_pair(problem, coef, b, point, "given").certificate
        return (found, point.beta) if found.dual >= 0.0 else (certificate_of(found.primal, 0.0, "given", found.radius), zero)
    scores = scores_of(problem, coef) if problem.kernel is None else problem.offset.added(kernel_scores(problem, coef).values)
    margins = problem.y * (scores + (best_intercept(problem, scores) if problem.intercept == "free" else b))
    certificate, point = max(
        ((certify_pair(problem, coef, b, point, "margins").certificate, point) for point in _first_points(problem, margins)),
        key=lambda pair: pair[0].dual,
    )
    beta = point.beta if certificate.dual >= 0.0 else zero
    certificate = replace(certificate, dual=max(certificate.dual, 0.0))
    if epochs == 0 or problem.streaming:
        return certificate, beta
    raised, radius, better = _raised(problem, certificate, (coef, b, point.beta), epochs, seed)
    if better is None:
        return certificate, beta
    return certificate_of(certificate.primal, raised, "ascent", certificate.radius + radius), better


def _first_points(problem: Problem, margins: np.ndarray) -> Iterator[DualPoint]:
    """Yield some dual points: β = 0, that of the margins and, for a loss whose slope jumps, those of smoothed losses."""
    yield dual_point(problem, np.zeros(problem.n))
    yield dual_from_margins(problem, margins)
    if problem.loss.has_kink() and problem.loss.smoothed(1.0) is not None:
        for width in (1.0, 0.1, 0.01):
            beta = np.empty(problem.n)
            slopes(problem.loss.smoothed(width), margins, beta)
            yield dual_point(problem, beta)


def _raised(
    problem: Problem, first: Certificate, model: tuple[Any, float, np.ndarray], epochs: int, seed: int
) -> tuple[float, float, np.ndarray | None]:
    """Return a bound that is nearly the optimum, its radius and its dual variables, from ever tighter runs; None if no run raised it.

    Each run starts where the last one ended.
    """
    best, radius, tol, primal = first.dual, first.radius, 0.1, first.primal
    beta = None
    # A model that is worse than w = 0 is no place to start from.
    start: Any = model if primal < problem.objective(np.zeros(problem.size)) else None
    while epochs > 0:
        run = minimise(problem, "auto", tol, epochs, seed=seed, warm_start=start)
        if run.certificate.dual > best:
            best, radius, beta = run.certificate.dual, run.certificate.radius, run.dual
        epochs, start = epochs - run.epochs, run
        if not run.converged or run.certificate.primal - best <= SLACK * (primal - best) or tol <= SHARPEST:
            break
        tol = max(0.1 * tol, SHARPEST)
    return best, radius, beta
