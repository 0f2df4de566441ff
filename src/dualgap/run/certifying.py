"""certify: bound how far from optimal a model is, whatever trained it.

The model gives P(w, b). The dual bound starts from the dual point of the model's margins. The solver that suits the problem raises it,
until at most a tenth of the remaining gap can be the slack of the bound: the rest is the model's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dualgap.problem import Problem, as_vector
from dualgap.proof import (
    Certificate,
    DualPoint,
    best_intercept,
    dual_from_margins,
    dual_point,
    make_certificate,
    margins_of,
    primal_value,
)
from dualgap.run.driver import minimise

__all__ = ["certify"]

SLACK = 0.1  # share of the gap that may be due to the bound: smaller proves more and takes longer
SHARPEST = 1e-10  # relative gap below which rounding decides


def certify(
    problem: Problem, coef: Any, intercept: Any = 0.0, dual: Any = None, *, epochs: int = 200, seed: int = 0
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
        Dual variables β ∈ [0, 1] of a solver that has them. Any values give a valid bound; good ones give a close one.
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
    coef = as_vector(coef, "coef", problem.size)
    b = float(as_vector(np.atleast_1d(intercept), "intercept", 1)[0])
    if epochs < 0:
        raise ValueError(f"epochs={epochs!r} must not be negative")
    if problem.intercept == "none" and b != 0.0:
        raise ValueError(f"intercept={b:g} but the problem has none; build it with intercept='penalised' or 'free'")
    stored = problem.stored(coef)
    margins = margins_of(problem, stored, b)
    primal = primal_value(problem, coef, b, stored, margins)
    if dual is not None:
        return make_certificate(primal, dual_point(problem, as_vector(dual, "dual", problem.n)).value, "given")
    if problem.intercept == "free":
        margins = margins_of(problem, stored, best_intercept(problem, problem.scores(stored)))
    point = _first_point(problem, margins)
    if epochs == 0 or problem.streaming:
        return make_certificate(primal, point.value, "margins")
    raised = _raised(problem, point, (coef, b, point.beta), primal, epochs, seed)
    return make_certificate(primal, *((raised, "ascent") if raised > point.value else (point.value, "margins")))


def _first_point(problem: Problem, margins: np.ndarray) -> DualPoint:
    """Return the best of some dual points: β = 0, that of the margins and, for the hinge, whose slope jumps, those of smoothed hinges."""
    candidates = [dual_point(problem, np.zeros(problem.n)), dual_from_margins(problem, margins)]
    if not math.isfinite(problem.loss.curvature()):
        candidates += [dual_point(problem, np.clip((1.0 - margins) / width, 0.0, 1.0)) for width in (1.0, 0.1, 0.01)]
    return max(candidates, key=lambda point: point.value)


def _raised(
    problem: Problem, point: DualPoint, model: tuple[Any, float, np.ndarray], primal: float, epochs: int, seed: int
) -> float:
    """Return a bound that is nearly the optimum, from ever tighter runs, each started where the last one ended."""
    best, tol = point.value, 0.1
    # A model that is worse than w = 0 is no place to start from.
    start: Any = model if primal < problem.objective(np.zeros(problem.size)) else None
    while epochs > 0:
        run = minimise(problem, "auto", tol, epochs, seed=seed, warm_start=start)
        best, epochs, start = max(best, run.certificate.dual), epochs - run.epochs, run
        if not run.converged or run.certificate.primal - best <= SLACK * (primal - best) or tol <= SHARPEST:
            break
        tol = max(0.1 * tol, SHARPEST)
    return best
