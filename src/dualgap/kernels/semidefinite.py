"""The extreme eigenvalues of a kernel matrix, and whether they leave it positive semidefinite.

With a negative eigenvalue aᵀKa is not a squared norm: the objective has no minimum, and dual values bound nothing. `Kernel.semidefinite`
tells the kernels whose formula rules that out; for any other the matrix itself decides.

The assumption for a matrix that is given: it is positive semidefinite up to the rounding of its entries. Rounding changes each entry kᵢⱼ by
at most u|kᵢⱼ|, u = ε/2 of its precision, and so each eigenvalue by at most u‖K‖_F (Weyl). A matrix computed in that precision is off by a
little more: ε‖K‖_F is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["WHOLE_SPECTRUM", "extreme_eigenvalues", "is_semidefinite", "rounding_of"]

TOLERANCE = 1e-10  # relative to the largest eigenvalue: above the rounding of float64, far below what changes a certificate
WHOLE_SPECTRUM = 2000  # rows up to which all eigenvalues are computed; beyond, a Lanczos iteration finds the two extreme ones


def is_semidefinite(low: float, high: float, rounding: float = 0.0) -> bool:
    """Whether a matrix with these extreme eigenvalues is positive semidefinite, up to the given rounding of eigenvalues."""
    return low >= -max(TOLERANCE * high, rounding) and high >= 0.0


def rounding_of(matrix: np.ndarray) -> float:
    """Return a bound on what the rounding of its entries to their precision changes an eigenvalue of a matrix by: ε‖K‖_F."""
    if matrix.dtype.kind != "f" or matrix.dtype == np.float64:
        return 0.0  # below TOLERANCE
    largest = float(np.abs(matrix).max(initial=0.0))
    squares = sum(float(np.square(row / largest, dtype=np.float64).sum()) for row in matrix) if largest else 0.0
    return float(np.finfo(matrix.dtype).eps) * largest * float(np.sqrt(squares))


def extreme_eigenvalues(matrix: np.ndarray | None, n: int, product: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a matrix; if it is None, of the n × n one of which `product` is K·v.

    From Lanczos iterations on products, the first is an upper bound of the smallest eigenvalue.
    """
    if matrix is not None:
        values = np.linalg.eigvalsh(matrix.astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator: Any = LinearOperator((n, n), matvec=lambda v: product(np.ravel(v)), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    values = eigsh(operator, k=2, which="BE", v0=start, tol=1e-8, return_eigenvectors=False)
    return float(min(values)), float(max(values))
