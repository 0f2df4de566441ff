"""Whether a kernel matrix is positive semidefinite, without which a duality gap proves nothing.

With a negative eigenvalue aᵀKa is no squared norm: the objective has no minimum, and "dual" values bound nothing. Linear, RBF and
polynomial kernels (whole degree, coef0 ≥ 0) are semidefinite by their formula; for any other the matrix itself is looked at, once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core import Gram
from dualgap.problem import Problem

__all__ = ["extreme_eigenvalues", "is_semidefinite"]

TOLERANCE = 1e-10  # of the largest eigenvalue: beyond the rounding of float64, far below what changes a certificate
SMALL = 2000  # rows up to which all eigenvalues are computed; beyond, a Lanczos iteration finds the two outermost ones


def is_semidefinite(problem: Problem) -> bool:
    """Whether the problem's kernel matrix is positive semidefinite, up to rounding. Remembered by the problem.

    Examples
    --------
    >>> import dualgap, numpy as np
    >>> from dualgap.proof.semidefinite import is_semidefinite
    >>> is_semidefinite(dualgap.Problem(np.array([[1.0, 2.0], [2.0, 1.0]]), [0, 1], kernel="precomputed"))
    False
    """
    if problem.kernel is None or problem.kernel.semidefinite:
        return True
    if problem.shared.semidefinite is None:
        low, high = extreme_eigenvalues(problem)
        problem.shared.semidefinite = bool(low >= -TOLERANCE * max(high, 0.0) and high >= 0.0)
    return problem.shared.semidefinite


def extreme_eigenvalues(problem: Problem) -> tuple[float, float]:
    """The smallest and the largest eigenvalue of the kernel matrix; from Lanczos, the first is an upper bound of the smallest."""
    if problem.n <= SMALL and isinstance(problem.rows, Gram):
        values = np.linalg.eigvalsh(problem.rows.k.astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator: Any = LinearOperator((problem.n, problem.n), matvec=lambda v: problem.combine(np.ravel(v)), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(problem.n)
    values = eigsh(operator, k=2, which="BE", v0=start, tol=1e-8, return_eigenvectors=False)
    return float(min(values)), float(max(values))
