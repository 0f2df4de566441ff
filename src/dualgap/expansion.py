"""Kernel values by the panel: rows of K for a working set at BLAS speed, and exact sums Σ aⱼ k(xⱼ, x), never more than a block at once.

    Panels(kernel, X, dtype)      rows of K(X, X), float32 or float64, written where the caller wants them
    expansion(kernel, A, B, a)    Σⱼ aⱼ k(a row of A, row j of B) in float64: scores of training rows, decisions on new ones

Products of dense rows are the BLAS's; those of sparse rows are summed here, sixteen and more at once; distance, exponential and sum are
fused into one pass over products that are still in the processor's cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.jit import compiled, kernel
from dualgap.kernels import Kernel, is_sparse, squares
from dualgap.workers import blas_alone, share

__all__ = ["Panels", "expansion"]

WIDTH = 128  # sparse rows multiplied at once: one panel of them stays in the second cache
BLOCK = 1 << 19  # products held at once: 2 or 4 MB
ROWS = 1 << 15  # rows that an expansion is evaluated on at once
SUPPORTS = 256  # rows of an expansion at once
THREADED = 1 << 17  # kernel values that are worth a thread
SPARSE = 0.3  # share of non-zeros up to which a sparse product is the faster one


# --------------------------------------------------------------------------------------------------------------- exponential
#
# exp(x) for x ≤ 0 as 2^k·exp(r), |r| ≤ ln 2 / 2, by a polynomial: the compiler makes SIMD of it, which it cannot of a library call.


@compiled
class Single(NamedTuple):
    """float32: relative error 3e-7."""

    one: np.float32

    def negative_exp(self, x):
        x = max(x, np.float32(-87.0))
        k = np.int32(x * np.float32(1.4426950408889634) - np.float32(0.5))
        r = x - np.float32(k) * np.float32(0.693359375) + np.float32(k) * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(0.5)
        p = p * r * r + r + np.float32(1.0)
        return p * np.int32((k + np.int32(127)) << np.int32(23)).view(np.float32)


@compiled
class Double(NamedTuple):
    """float64: relative error 4e-16."""

    one: float

    def negative_exp(self, x):
        x = max(x, -708.0)
        k = np.int64(x * 1.4426950408889634 - 0.5)
        r = x - k * 0.693145751953125 - k * 1.42860682030941723212e-6
        p = 2.08767569878681e-09 * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.755731922398589e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.166666666666666e-02
        p = p * r + 1.666666666666667e-01
        p = p * r + 0.5
        p = p * r * r + r + 1.0
        return p * np.int64((k + np.int64(1023)) << np.int64(52)).view(np.float64)


def _arithmetic(dtype: Any) -> Any:
    return Single(np.float32(1.0)) if dtype == np.float32 else Double(1.0)


# ------------------------------------------------------------------------------------------------------------------ products


@kernel
def _fill_panel(indptr, indices, data, wanted, panel):
    """panel[:, t] = the sparse row wanted[t]; a column given twice counts twice."""
    for t in range(wanted.shape[0]):
        i = wanted[t]
        for k in range(indptr[i], indptr[i + 1]):
            panel[indices[k], t] += data[k]


@kernel
def _panel_products(indptr, indices, data, panel, acc, first, last, out):
    """out[t, i − first] = xᵢ · panel[:, t] for the rows first…last. Four non-zeros at once: the sums are read and written less often."""
    height = acc.shape[0]
    for start in range(first, last, height):
        rows = min(height, last - start)
        for s in range(rows):
            begin, end = indptr[start + s], indptr[start + s + 1]
            for t in range(WIDTH):
                acc[s, t] = 0
            k = begin
            while k + 4 <= end:
                x0, x1, x2, x3 = data[k], data[k + 1], data[k + 2], data[k + 3]
                c0, c1, c2, c3 = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
                for t in range(WIDTH):
                    acc[s, t] += x0 * panel[c0, t] + x1 * panel[c1, t] + x2 * panel[c2, t] + x3 * panel[c3, t]
                k += 4
            while k < end:
                x0, c0 = data[k], indices[k]
                for t in range(WIDTH):
                    acc[s, t] += x0 * panel[c0, t]
                k += 1
        for t in range(out.shape[0]):
            for s in range(rows):
                out[t, start + s - first] = acc[s, t]


@kernel
def _gaussian_rows(arithmetic, gamma, products, left, right, store, slots, first):
    """store[slots[t], first + i] = exp(−γ(left[t] + right[i] − 2·products[t, i]))"""
    two = arithmetic.one + arithmetic.one
    zero = arithmetic.one - arithmetic.one
    for t in range(products.shape[0]):
        p, row, base = products[t], store[slots[t], first : first + products.shape[1]], left[t]
        for i in range(p.shape[0]):
            row[i] = arithmetic.negative_exp(-gamma * max(base + right[i] - two * p[i], zero))


@kernel
def _gaussian_sum(arithmetic, gamma, products, left, right, a, out):
    """out[i] += Σₜ a[t]·exp(−γ(left[t] + right[i] − 2·products[t, i]))"""
    for t in range(products.shape[0]):
        p, base, weight = products[t], left[t], a[t]
        for i in range(p.shape[0]):
            out[i] += weight * arithmetic.negative_exp(-gamma * max(base + right[i] - 2.0 * p[i], 0.0))


class _Dense:
    """Rows of an array as the right-hand side of products."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def left(self, Z: Any) -> np.ndarray:
        """Rows of Z as the left-hand side."""
        return np.ascontiguousarray(Z.toarray() if is_sparse(Z) else Z, dtype=self.x.dtype)

    def own(self, wanted: np.ndarray) -> np.ndarray:
        """Some of the rows themselves as the left-hand side."""
        return self.x[wanted]

    def products(self, left: np.ndarray, first: int, last: int, out: np.ndarray) -> np.ndarray:
        return np.matmul(left, self.x[first:last].T, out=out)

    def squares(self) -> np.ndarray:
        return squares(self.x)

    def take(self, indices: np.ndarray) -> _Dense:
        return _Dense(self.x[indices])


class _Sparse:
    """Rows of a CSR matrix as the right-hand side of products."""

    def __init__(self, matrix: Any, dtype: Any) -> None:
        self.matrix, self.data = matrix, matrix.data.astype(dtype, copy=False)
        # Unsigned, so that the compiled loops need not look out for negative ones.
        self.indptr, self.indices = (part.view(f"u{part.itemsize}") for part in (matrix.indptr, matrix.indices))

    def left(self, Z: Any) -> list[np.ndarray]:
        Z = sparse.csr_matrix(Z)
        return self._panels(Z, Z.data.astype(self.data.dtype, copy=False), np.arange(Z.shape[0]))

    def own(self, wanted: np.ndarray) -> list[np.ndarray]:
        return self._panels(self.matrix, self.data, wanted)

    def _panels(self, Z: Any, data: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
        panels = []
        for start in range(0, len(wanted), WIDTH):
            panel = np.zeros((Z.shape[1], WIDTH), dtype=data.dtype)
            _fill_panel(Z.indptr, Z.indices, data, wanted[start : start + WIDTH], panel)
            panels.append(panel)
        return panels

    def products(self, left: list[np.ndarray], first: int, last: int, out: np.ndarray) -> np.ndarray:
        indptr, indices, acc = self.indptr, self.indices, np.empty((16, WIDTH), dtype=self.data.dtype)
        for number, panel in enumerate(left):
            _panel_products(indptr, indices, self.data, panel, acc, first, last, out[number * WIDTH : (number + 1) * WIDTH])
        return out

    def squares(self) -> np.ndarray:
        return squares(self.matrix)

    def take(self, indices: np.ndarray) -> _Sparse:
        return _Sparse(self.matrix[indices], self.data.dtype)


def _right(kernel: Kernel, X: Any, dtype: Any) -> Any:
    if is_sparse(X):
        if X.nnz <= SPARSE * X.shape[0] * X.shape[1]:
            return _Sparse(X, dtype)
        X = X.toarray()
    if dtype == np.float32 and kernel.name == "rbf":
        # Distances do not change when the origin moves, and in float32 they keep more digits when it lies amid the rows.
        return _Dense((X - X.mean(axis=0, dtype=np.float64)).astype(np.float32))
    return _Dense(np.ascontiguousarray(X, dtype=dtype))


# -------------------------------------------------------------------------------------------------------------------- panels


class Panels:
    """Kernel values between given rows and all rows of X, in the precision asked for.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix; for a precomputed kernel its matrix
    dtype : numpy.float32 or numpy.float64

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.expansion import Panels
    >>> from dualgap.kernels import make_kernel
    >>> store = np.zeros((2, 3))
    >>> Panels(make_kernel("rbf", gamma=1.0), np.array([[0.0], [1.0], [3.0]]), np.float64).rows(np.array([1]), store, np.array([0]))
    >>> store[0].round(4)
    array([0.3679, 1.    , 0.0183])
    """

    def __init__(self, kernel: Kernel, X: Any, dtype: Any) -> None:
        self.kernel, self.X, self.dtype, self.count = kernel, X, np.dtype(dtype), X.shape[0]
        self.arithmetic = _arithmetic(self.dtype)
        self.by_product = kernel.function is None and kernel.name != "precomputed"
        if self.by_product:
            self._set_right(_right(kernel, X, self.dtype))

    def _set_right(self, right: Any) -> None:
        self.right = right
        self.squares: Any = right.squares().astype(self.dtype) if self.kernel.name == "rbf" else None

    def take(self, indices: np.ndarray) -> Panels:
        """The panels of some of the rows."""
        other = object.__new__(Panels)
        other.__dict__.update(self.__dict__)
        other.count = len(indices)
        if self.kernel.name == "precomputed":
            other.X = self.X[np.ix_(indices, indices)]
        elif self.by_product:
            other._set_right(self.right.take(indices))
        else:
            other.X = self.X[indices]
        return other

    def rows(self, wanted: np.ndarray, store: np.ndarray, slots: np.ndarray) -> None:
        """store[slots[t]] = k(row wanted[t], every row)"""
        if not self.by_product:
            store[slots] = self.X[wanted] if self.kernel.name == "precomputed" else self.kernel(self.X[wanted], self.X)
            return
        left = self.right.own(wanted)
        squares = None if self.squares is None else self.squares[wanted]

        def finish(products: np.ndarray, first: int, last: int) -> None:
            if squares is not None:
                right = self.squares[first:last]
                _gaussian_rows(self.arithmetic, self._gamma, products, squares, right, store, slots, first)
            else:
                store[slots, first:last] = self.kernel.from_products(products)

        self._by_blocks(left, len(wanted), finish)

    def add_expansion(self, Z: Any, a: np.ndarray, out: np.ndarray) -> None:
        """out += Σₜ a[t]·k(row t of Z, every row), in float64 for kernels of inner products"""
        lengths = squares(Z)

        def finish(products: np.ndarray, first: int, last: int) -> None:
            if self.squares is not None:
                _gaussian_sum(self.arithmetic, self._gamma, products, lengths, self.squares[first:last], a, out[first:last])
            else:
                out[first:last] += a @ self.kernel.from_products(products)

        self._by_blocks(self.right.left(Z), len(a), finish)

    @property
    def _gamma(self) -> Any:
        return self.dtype.type(self.kernel.gamma)

    def _by_blocks(self, left: Any, height: int, finish: Any) -> None:
        width = max(BLOCK // height, 64)

        def work(first: int, last: int) -> None:
            buffer = np.empty(height * min(width, last - first), dtype=self.dtype)
            for start in range(first, last, width):
                end = min(start + width, last)
                out = buffer[: height * (end - start)].reshape(height, end - start)
                finish(self.right.products(left, start, end, out), start, end)

        with blas_alone:
            share(work, self.count, least=max(1, THREADED // height))


def expansion(kernel: Kernel, A: Any, B: Any, a: np.ndarray) -> np.ndarray:
    """Σⱼ aⱼ k(x, row j of B) for every row x of A, in float64, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.expansion import expansion
    >>> from dualgap.kernels import make_kernel
    >>> X = np.array([[0.0], [1.0]])
    >>> expansion(make_kernel("poly", X, gamma=1.0, degree=2), X, X, np.array([1.0, 2.0]))
    array([0., 2.])
    """
    support = np.flatnonzero(a)
    if kernel.name == "precomputed":
        return np.asarray(A[:, support] @ a[support], dtype=np.float64)
    out = np.zeros(A.shape[0])
    by_product = kernel.function is None
    rows = ROWS if by_product else max(BLOCK // SUPPORTS, 1)
    for first in range(0, len(out), rows):
        block, total = A[first : first + rows], out[first : first + rows]
        panels = Panels(kernel, block, np.float64)
        for start in range(0, len(support), SUPPORTS):
            part = support[start : start + SUPPORTS]
            if by_product:
                panels.add_expansion(B[part], a[part], total)
            else:
                total += kernel(block, B[part]) @ a[part]
    return out
