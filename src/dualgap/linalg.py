"""Small dense linear algebra for second-order solvers: weighted Gram matrices of rows, and positive definite systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.jit import kernel
from dualgap.rows import CSR, WithBias

__all__ = ["gram_of_rows", "solve_positive"]

NARROW = 64  # columns up to which a loop in the processor's first cache beats the call of a BLAS
SERIAL = 512  # unknowns up to which one thread of our own beats waking the BLAS's


def gram_of_rows(rows: Any, weight: np.ndarray, size: int) -> np.ndarray:
    """Σ weightᵢ xᵢxᵢᵀ over the rows whose weight is not zero, as a full symmetric matrix; with WithBias the constant column is last.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.linalg import gram_of_rows
    >>> from dualgap.rows import dense
    >>> gram_of_rows(dense(np.array([[1.0, 2.0], [3.0, 4.0]])), np.array([1.0, 0.0]), 2)
    array([[1., 2.],
           [2., 4.]])
    """
    active = np.flatnonzero(weight)
    H = np.zeros((size, size))
    inner = rows.rows if isinstance(rows, WithBias) else rows
    if isinstance(inner, CSR) or size <= NARROW:
        _add_outer_products(rows, active, weight, H)
        lower = np.tril(H, -1)
        return H + lower.T
    return _blocked_gram(rows, inner.x, active, weight, H)


@kernel
def _add_outer_products(rows, active, weight, H):
    for i in active:
        rows.outer(i, weight[i], H)


def _blocked_gram(rows: Any, x: np.ndarray, active: np.ndarray, weight: np.ndarray, H: np.ndarray) -> np.ndarray:
    size, width = len(H), x.shape[1]
    buffer = np.empty((min(size, max(len(active), 1)), size))
    for start in range(0, len(active), len(buffer)):
        part = active[start : start + len(buffer)]
        A = buffer[: len(part)]
        A[:, :width] = x[part]
        if size > width:
            A[:, width] = rows.scale
        A *= np.sqrt(weight[part])[:, None]
        H += A.T @ A
    return H


def solve_positive(H: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """H⁻¹·rhs for a symmetric positive definite H, by Cholesky; a ridge is added where rounding has cost H its definiteness.

    H is overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.linalg import solve_positive
    >>> solve_positive(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    array([1. , 0.5])
    """
    size = len(H)
    diagonal = H.diagonal().copy()
    scale = float(diagonal.mean())
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        if ridge:
            # The factor went into the lower triangle; the upper one still holds H.
            H[:] = np.triu(H, 1) + np.triu(H, 1).T
            H[np.diag_indices(size)] = diagonal + ridge * scale
        if size <= SERIAL:
            x = rhs.copy()
            if _cholesky(H):
                _substitute(H, x)
                return x
        else:
            from scipy.linalg import lapack

            factor, x, info = lapack.dposv(H, rhs, lower=1)
            if info == 0:
                return np.asarray(x)
    return rhs / np.maximum(diagonal, 1e-300)


@kernel
def _dot(a, b):
    s = 0.0
    for k in range(a.shape[0]):
        s += a[k] * b[k]
    return s


@kernel
def _cholesky(H):
    """H = L·Lᵀ with L in the lower triangle; False where H is not positive definite. Rows of L are read side by side, for SIMD."""
    for i in range(H.shape[0]):
        for j in range(i + 1):
            s = H[i, j] - _dot(H[i, :j], H[j, :j])
            if i == j:
                if not s > 0.0:
                    return False
                H[i, i] = np.sqrt(s)
            else:
                H[i, j] = s / H[j, j]
    return True


@kernel
def _substitute(L, x):
    """x ← (L·Lᵀ)⁻¹·x"""
    for i in range(x.shape[0]):
        x[i] = (x[i] - _dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(x.shape[0] - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]
