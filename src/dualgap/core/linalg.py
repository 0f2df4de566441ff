"""Small dense linear algebra for second-order solvers: weighted Gram matrices of rows, and positive definite systems.

The BLAS uses one thread here. Its threads wait for each other between small products; beside another process on one of the cores they
took ten times as long as one thread.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np

from dualgap.core.jit import kernel, kernel_part
from dualgap.core.machine import NARROW, THREAD_WORK
from dualgap.core.rows import is_dense, layers, stored
from dualgap.core.threads import blas_alone, share

__all__ = [
    "add_gram",
    "factor_and_solve",
    "factor_of",
    "gram_block",
    "gram_of_rows",
    "inner",
    "solve_by_rows",
    "solve_in_place",
    "solve_positive",
    "solve_with",
]

BLAS_ROWS = 512  # rows that are copied and multiplied at once: a small buffer against few calls
LEAST_PIVOT = (
    1e-10  # of a diagonal entry, that the pivot of a small Cholesky factor must be: six digits of the pivot are then right
)
# Rows of a block of `add_gram`, at most. Not a power of two: the entries of one row would compete for the same cache lines.
GRAM_ROWS = 248
OWN_MATRIX = 4  # columns per row that are worth a thread: each has a matrix of its own, to clear and to add to the first one
SERIAL = 64  # unknowns up to which the BLAS starts no second thread, so that its threads need not be limited


def gram_of_rows(rows: Any, weight: np.ndarray, size: int, products: Any = np.float64) -> np.ndarray:
    """Return the lower triangle of Σ weightᵢ xᵢxᵢᵀ; rows of weight zero are not read, and a bias column comes last.

    The entries above the diagonal have no meaning. With `products` of float32 dense rows are multiplied in that precision, a block of them
    at a time; the sums of blocks are added up in float64.
    """
    active = np.flatnonzero(weight)
    data, which, scale = layers(rows)
    places, weight = active if which is None else which[active], weight[active]
    add: Any = _add_sparse if not is_dense(data) else add_gram if size <= NARROW else _add_by_blas
    width = size if is_dense(data) else max(stored(data) / max(data.length(), 1), 1.0)

    def work(first: int, last: int) -> np.ndarray:
        H = np.zeros((size, size))
        args = (data, scale, places[first:last], weight[first:last], H)
        if add is _add_sparse:
            _add_sparse(*args)
        else:
            add(*args, products if add is _add_by_blas else gram_block(size, last - first, products))
        return H

    with blas_alone if add is _add_by_blas else nullcontext():
        parts = share(work, len(active), max(size // OWN_MATRIX, int(THREAD_WORK / (width * width))))
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def gram_block(size: int, rows: int, products: Any = np.float64) -> np.ndarray:
    """Return the scratch of `add_gram` for `size` unknowns and at most `rows` rows."""
    return np.empty((size, min(max(rows, 1), GRAM_ROWS)), products)


@kernel
def inner(a, b):
    """Return a·b without the BLAS, which wakes its threads from 10,000 numbers on: that may take longer than a pass over sparse rows."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@kernel
def _add_sparse(rows, scale, places, weight, H):
    last, ascending = H.shape[0] - 1, True
    for k in range(places.shape[0]):
        i = places[k]
        ascending &= rows.outer(i, weight[k], H)
        if scale > 0.0:
            rows.add(i, weight[k] * scale, H[last])
            H[last, last] += weight[k] * scale * scale
    if not ascending:  # some products are above the diagonal
        for j in range(last + 1):
            for k in range(j):
                H[j, k] += H[k, j]


@kernel
def add_gram(rows, scale, places, weight, H, block):
    """H += Σ weightₖ xxᵀ over the dense rows x with numbers `places`, below the diagonal; a bias column `scale` > 0 comes last.

    `block` is scratch as `gram_block` makes it, and its type is the precision of the products: block[k, r] = √weight·x[k] of row r. The
    sums over a block are added to H.
    """
    size, most = block.shape
    tiled = size - size % 3
    for start in range(0, places.shape[0], most):
        count = min(most, places.shape[0] - start)
        for r in range(count):
            row, root = rows.x[places[start + r]], math.sqrt(weight[start + r])
            for k in range(row.shape[0]):
                block[k, r] = root * row[k]
            if scale > 0.0:
                block[size - 1, r] = root * scale
        for k in range(0, tiled, 3):
            for m in range(0, k + 1, 3):
                _add_tile(block, count, k, m, H)
        for k in range(tiled, size):
            for m in range(k + 1):
                a, b, s = block[k], block[m], block.dtype.type(0.0)
                for r in range(count):
                    s += a[r] * b[r]
                H[k, m] += s


@kernel_part
def _add_tile(block, count, k, m, H):
    """Add the products of columns k to k + 2 with columns m to m + 2 to H: nine sums over six columns, which are read once for all."""
    a, b, c = block[k], block[k + 1], block[k + 2]
    x, y, z = block[m], block[m + 1], block[m + 2]
    ax = ay = az = bx = by = bz = cx = cy = cz = block.dtype.type(0.0)
    for r in range(count):
        ax += a[r] * x[r]
        ay += a[r] * y[r]
        az += a[r] * z[r]
        bx += b[r] * x[r]
        by += b[r] * y[r]
        bz += b[r] * z[r]
        cx += c[r] * x[r]
        cy += c[r] * y[r]
        cz += c[r] * z[r]
    H[k, m] += ax
    H[k, m + 1] += ay
    H[k, m + 2] += az
    H[k + 1, m] += bx
    H[k + 1, m + 1] += by
    H[k + 1, m + 2] += bz
    H[k + 2, m] += cx
    H[k + 2, m + 1] += cy
    H[k + 2, m + 2] += cz


def _add_by_blas(
    rows: Any, scale: float, places: np.ndarray, weight: np.ndarray, H: np.ndarray, products: Any = np.float64
) -> None:
    size, x = len(H), rows.x
    width = x.shape[1]
    buffer, product = np.empty((min(BLAS_ROWS, max(len(places), 1)), size), products), np.empty_like(H, dtype=products)
    for start in range(0, len(places), BLAS_ROWS):
        part = places[start : start + BLAS_ROWS]
        A, root = buffer[: len(part)], np.sqrt(weight[start : start + BLAS_ROWS])
        together = int(part[-1]) - int(part[0]) == len(part) - 1  # rows that follow each other are not gathered first
        block = x[int(part[0]) : int(part[-1]) + 1] if together else x[part]
        np.multiply(block, root[:, None], out=A[:, :width], casting="same_kind")
        if size > width:
            A[:, width] = scale * root
        H += np.matmul(A.T, A, out=product)  # SciPy's BLAS calls would add to H in place, but hold Python's global lock


@kernel
def solve_in_place(H, x):
    """Replace x by H⁻¹·x, and the lower triangle of H by its Cholesky factor; return False, with x as it was, if H is too ill-conditioned.

    A pivot below LEAST_PIVOT of its diagonal entry is mostly rounding: H was formed from products, whose squares it cannot tell from zero.
    """
    d = H.shape[0]
    for j in range(d):
        row = H[j]
        for k in range(j):  # the row of the factor so far, from the rows above
            other, s = H[k], row[k]
            for m in range(k):
                s -= row[m] * other[m]
            row[k] = s / other[k]
        pivot = row[j]
        for m in range(j):
            pivot -= row[m] * row[m]
        if not pivot > LEAST_PIVOT * row[j]:
            return False
        row[j] = math.sqrt(pivot)
    for j in range(d):
        row, s = H[j], x[j]
        for m in range(j):
            s -= row[m] * x[m]
        x[j] = s / row[j]
    for j in range(d - 1, -1, -1):
        row = H[j]
        x[j] /= row[j]
        for m in range(j):
            x[m] -= row[m] * x[j]
    return True


def solve_by_rows(
    rows: Any, scale: float, places: np.ndarray, weight: np.ndarray, ridge: np.ndarray, rhs: np.ndarray
) -> np.ndarray:
    """Return (diag(ridge) + Σ weightₖ xxᵀ)⁻¹·rhs, rows and bias column as in `add_gram`.

    The triangular factor R is that of a QR factorisation of the rows themselves: its condition number is the root of the matrix's.
    """
    from scipy.linalg import lapack

    count, width = len(places), rows.x.shape[1]
    A = np.zeros((count + len(ridge), len(ridge)))
    A[:count, :width] = rows.x[places]
    if scale > 0.0:
        A[:count, -1] = scale
    A[:count] *= np.sqrt(weight)[:, None]
    np.fill_diagonal(A[count:], np.sqrt(ridge))
    with blas_alone if len(ridge) > SERIAL else nullcontext():
        R = np.linalg.qr(A, mode="r")
        z, _ = lapack.dtrtrs(R, rhs, trans=1)  # Rᵀz = rhs …
        x, _ = lapack.dtrtrs(R, z)  # … and Rx = z
    return np.asarray(x)


def factor_of(H: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a symmetric positive definite H. If rounding has made H indefinite, a small ridge is added.

    Only the lower triangle of H is read. Where no ridge helps, the factor is that of the diagonal.
    """
    from scipy.linalg import lapack

    diagonal = H.diagonal()
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        # The columns of L are the rows of H, so LAPACK's upper triangle is the lower triangle of H.
        L = np.array(H.T, order="F")
        if ridge:
            L[np.diag_indices(len(L))] += ridge * diagonal.mean()
        with blas_alone if len(L) > SERIAL else nullcontext():
            L, info = lapack.dpotrf(L, lower=0, overwrite_a=1, clean=0)
        if info == 0 and np.isfinite(L.diagonal()).all():
            return np.asarray(L)
    return np.asfortranarray(np.diag(np.sqrt(np.maximum(diagonal, 1e-300))))


def solve_with(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return H⁻¹·rhs by the factor of H."""
    from scipy.linalg import lapack

    with blas_alone if len(factor) > SERIAL else nullcontext():
        x, _ = lapack.dpotrs(factor, rhs, lower=0)
    return np.asarray(x)


def factor_and_solve(H: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor of H, as `factor_of` does, and H⁻¹·rhs."""
    with (
        blas_alone if len(H) > SERIAL else nullcontext()
    ):  # entered once: to limit the BLAS's threads takes as long as a small solve
        factor = factor_of(H)
        return factor, solve_with(factor, rhs)


def solve_positive(H: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return H⁻¹·rhs for a symmetric positive definite H, of which only the lower triangle is read."""
    return factor_and_solve(H, rhs)[1]
