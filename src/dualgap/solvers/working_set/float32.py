"""How much a kernel value loses in float32."""

from __future__ import annotations

import numpy as np

from dualgap.core import is_sparse
from dualgap.kernels import squares
from dualgap.problem import Problem

__all__ = ["float32_error"]

SAMPLE = 1000  # rows from which the mean squared distance to the mean is estimated


def float32_error(problem: Problem) -> float:
    """Estimate the error of one kernel value in float32.

    It is the value's own rounding and, for a Gaussian, δ at two rows of mean distance from the mean. A precomputed matrix counts as exact.
    """
    kernel, X = problem.kernel, problem.X
    assert kernel is not None
    if kernel.name == "precomputed":
        return 0.0
    relative = 1.0
    if kernel.name == "rbf":
        rows = X[:: 1 + problem.n // SAMPLE]
        rows = rows if is_sparse(rows) else rows - rows.mean(axis=0, dtype=np.float64)
        relative += 4.0 * kernel.gamma * float(squares(rows).mean())
    return 0.5 * float(np.finfo(np.float32).eps) * relative * float(problem.sqnorms.max())
