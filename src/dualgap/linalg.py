"""Small dense linear algebra for second-order solvers: weighted Gram matrices of rows, and positive definite systems.

The BLAS keeps to one thread here: its own wait for each other between small products, and where another process has one of the cores
they took ten times as long as one alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.jit import kernel
from dualgap.rows import CSR, Some, WithBias
from dualgap.workers import blas_alone

__all__ = ["gram_of_rows", "solve_positive"]

NARROW = 64  # columns up to which a loop in the processor's first cache beats the call of a BLAS
SERIAL = 512  # unknowns up to which one thread of our own beats waking the BLAS's


def gram_of_rows(rows: Any, weight: np.ndarray, size: int) -> np.ndarray:
    """The lower triangle of Σ weightᵢ xᵢxᵢᵀ over the rows whose weight is not zero; with WithBias the constant column is last.

    What stands above the diagonal is not meant to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.linalg import gram_of_rows
    >>> from dualgap.rows import dense
    >>> np.tril(gram_of_rows(dense(np.array([[1.0, 2.0], [3.0, 4.0]])), np.array([1.0, 0.0]), 2))
    array([[1., 0.],
           [2., 4.]])
    """
    active = np.flatnonzero(weight)
    H = np.zeros((size, size))
    inner = rows.rows if isinstance(rows, WithBias) else rows
    chosen = inner.which if isinstance(inner, Some) else None
    if chosen is not None:
        inner = inner.rows
    if isinstance(inner, CSR) or size <= NARROW:
        _add_outer_products(rows, active, weight, H)
        return H
    places = active if chosen is None else chosen[active]
    with blas_alone:
        return _blocked_gram(inner.x, rows.scale if size > inner.x.shape[1] else 0.0, places, weight[active], H)


@kernel
def _add_outer_products(rows, active, weight, H):
    for i in active:
        rows.outer(i, weight[i], H)


def _blocked_gram(x: np.ndarray, scale: float, places: np.ndarray, weight: np.ndarray, H: np.ndarray) -> np.ndarray:
    size, width = len(H), x.shape[1]
    buffer = np.empty((min(max(size, 512), max(len(places), 1)), size))
    for start in range(0, len(places), len(buffer)):
        part = places[start : start + len(buffer)]
        A = buffer[: len(part)]
        A[:, :width] = x[part]
        if size > width:
            A[:, width] = scale
        A *= np.sqrt(weight[start : start + len(buffer)])[:, None]
        H += A.T @ A
    return H


def solve_positive(H: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """H⁻¹·rhs for a symmetric positive definite H, by Cholesky; a ridge is added where rounding has cost H its definiteness.

    Only the lower triangle of H is read.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.linalg import solve_positive
    >>> solve_positive(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    array([1. , 0.5])
    """
    diagonal = H.diagonal()
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        L = H.copy()
        if ridge:
            L[np.diag_indices(len(L))] += ridge * diagonal.mean()
        if len(L) <= SERIAL:
            x = rhs.copy()
            if _cholesky(L):
                _substitute(L, x)
                return x
        else:
            from scipy.linalg import lapack

            with blas_alone:
                _, x, info = lapack.dposv(L, rhs, lower=1, overwrite_a=1)
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
    """H = L·Lᵀ with L in the lower triangle; False where H is not positive definite.

    Row i of L is found four columns at a time, so that each number of the row is loaded once for four products.
    """
    for i in range(H.shape[0]):
        row = H[i]
        j = 0
        while j + 4 <= i:
            r0, r1, r2, r3 = H[j], H[j + 1], H[j + 2], H[j + 3]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for k in range(j):
                a = row[k]
                s0 += a * r0[k]
                s1 += a * r1[k]
                s2 += a * r2[k]
                s3 += a * r3[k]
            row[j] = (row[j] - s0) / r0[j]
            row[j + 1] = (row[j + 1] - s1 - row[j] * r1[j]) / r1[j + 1]
            row[j + 2] = (row[j + 2] - s2 - row[j] * r2[j] - row[j + 1] * r2[j + 1]) / r2[j + 2]
            rest = row[j] * r3[j] + row[j + 1] * r3[j + 1] + row[j + 2] * r3[j + 2]
            row[j + 3] = (row[j + 3] - s3 - rest) / r3[j + 3]
            j += 4
        while j < i:
            row[j] = (row[j] - _dot(row[:j], H[j, :j])) / H[j, j]
            j += 1
        pivot = row[i] - _dot(row[:i], row[:i])
        if not pivot > 0.0:
            return False
        row[i] = np.sqrt(pivot)
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
