"""A stationary point of the dual of a kernel machine whose matrix is not positive semidefinite. It is no optimum, and nothing proves it.

The dual of dual_box.py is then not concave and has no gap. The steps are those of pair_steps.py, as LIBSVM takes them (Lin and Lin 2003):
where the curvature is not positive the step goes to the bound. Every step raises the dual value; the KKT conditions end the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualgap.core import kernel
from dualgap.problem import Problem
from dualgap.solvers.working_set.dual_box import Box, max_up_min_low, start_box
from dualgap.solvers.working_set.pair_steps import pair_steps

__all__ = ["StationaryPoint", "stationary_point"]

TINY = 1e-12  # least curvature of a step, relative to the mean absolute diagonal of K; LIBSVM's TAU is 1e-12
RESTARTS = 20  # times that the gradient is computed anew before rounding counts as the end


class StationaryPoint(NamedTuple):
    """Coefficients a of the expansion, the intercept, the largest violation of the KKT conditions, and how often n steps were taken."""

    coef: np.ndarray
    intercept: float
    violation: float
    epochs: int


def stationary_point(problem: Problem, tol: float, max_epochs: int) -> StationaryPoint:
    """Return a point where the KKT conditions are violated by at most 2·tol; at a = 0 the violation is up to 2.

    The problem has the hinge loss, a kernel matrix as X, and an intercept that is free or absent.
    """
    K, box = np.ascontiguousarray(problem.X, dtype=np.float64), start_box(problem)
    ends = np.array([problem.n])
    tiny = max(TINY * float(np.abs(K.diagonal()).mean()), np.finfo(np.float64).tiny)
    free, epochs, last = problem.intercept == "free", 0, np.inf
    for _ in range(RESTARTS):
        while (violation := _violation(box, free)) > 2.0 * tol and epochs < max_epochs:
            if free:
                taken = pair_steps(K, K.diagonal().copy(), box, tiny, 2.0 * tol / violation, problem.n, 1.0, ends)
            else:
                taken = single_steps(K, box, tiny, 2.0 * tol, problem.n)
            epochs += 1
            if taken == 0:
                break
        box.g[:] = problem.y - K @ box.a
        violation = _violation(box, free)
        if violation <= 2.0 * tol or epochs >= max_epochs or violation >= last:
            break
        last = violation
    return StationaryPoint(box.a, _intercept(box) if free else 0.0, violation, epochs)


def _violation(box: Box, free: bool) -> float:
    m, M = max_up_min_low(box, 0)
    return max(float(m - M), 0.0) if free else max(float(m), -float(M), 0.0)


def _intercept(box: Box) -> float:
    """Return the mean gradient of the free variables; without any, the middle of the interval that the KKT conditions leave."""
    between = box.free()
    return float(box.g[between].mean()) if between.any() else 0.5 * float(sum(max_up_min_low(box, 0)))


@kernel
def single_steps(K, box, tiny, target, most):
    """Take up to `most` steps, each on the variable that violates the KKT conditions most, until none does by more than `target`.

    Return the number of steps."""
    a, low, high, g = box.a, box.low, box.high, box.g
    n = a.shape[0]
    for step in range(most):
        worst, i = target, -1
        for k in range(n):
            violation = max(g[k] if a[k] < high[k] else 0.0, -g[k] if a[k] > low[k] else 0.0)
            if violation > worst:
                worst, i = violation, k
        if i < 0:
            return step
        row = K[i]
        t = min(max(g[i] / max(row[i], tiny), low[i] - a[i]), high[i] - a[i])
        a[i] = high[i] if t == high[i] - a[i] else low[i] if t == low[i] - a[i] else a[i] + t
        for k in range(n):
            g[k] -= t * row[k]
    return most
