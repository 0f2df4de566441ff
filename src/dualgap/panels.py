"""Kernel values by the panel: rows of K for a working set, and sums over them, at the speed of the BLAS and of SIMD.

Products of dense rows are the BLAS's; those of sparse rows are summed here, sixteen and more at once; distance, exponential and sum are
fused into one pass over products that are still in the processor's cache. Rows are shared among threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.jit import compiled, kernel
from dualgap.kernels import Kernel, is_sparse, squares
from dualgap.rows import CSR, csr
from dualgap.workers import blas_alone, share

__all__ = ["BLOCK", "Panels"]

WIDTH = 128  # sparse rows multiplied at once: one panel of them stays in the second cache
BLOCK = 1 << 19  # products held at once: 2 or 4 MB
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
def _fill_panel(matrix, wanted, panel):
    """panel[:, t] = the sparse row wanted[t]; a column given twice counts twice."""
    for t in range(wanted.shape[0]):
        i = wanted[t]
        for k in range(matrix.indptr[i], matrix.indptr[i + 1]):
            panel[matrix.indices[k], t] += matrix.data[k]


@kernel
def _row_products(matrix, i, panel, out):
    """out[t] = xᵢ · panel[:, t]. Four non-zeros at once: the sums are read and written less often."""
    indices, data = matrix.indices, matrix.data
    k, end = matrix.indptr[i], matrix.indptr[i + 1]
    for t in range(WIDTH):
        out[t] = 0
    while k + 4 <= end:
        x0, x1, x2, x3 = data[k], data[k + 1], data[k + 2], data[k + 3]
        p0, p1, p2, p3 = panel[indices[k]], panel[indices[k + 1]], panel[indices[k + 2]], panel[indices[k + 3]]
        for t in range(WIDTH):
            out[t] += x0 * p0[t] + x1 * p1[t] + x2 * p2[t] + x3 * p3[t]
        k += 4
    while k < end:
        x0, p0 = data[k], panel[indices[k]]
        for t in range(WIDTH):
            out[t] += x0 * p0[t]
        k += 1


@kernel
def _panel_products(matrix, panel, acc, first, last, out):
    """out[t, i − first] = xᵢ · panel[:, t] for the rows first…last"""
    height = acc.shape[0]
    for start in range(first, last, height):
        rows = min(height, last - start)
        for s in range(rows):
            _row_products(matrix, start + s, panel, acc[s])
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
    two = arithmetic.one + arithmetic.one
    zero = arithmetic.one - arithmetic.one
    for t in range(products.shape[0]):
        p, base, weight = products[t], left[t], a[t]
        for i in range(p.shape[0]):
            out[i] += weight * arithmetic.negative_exp(-gamma * max(base + right[i] - two * p[i], zero))


class _Terms(NamedTuple):
    """An expansion over one panel: weights (zero beyond its end), squared lengths, and γ."""

    a: np.ndarray
    squares: np.ndarray
    gamma: Any


@kernel
def _sparse_gaussian_sum(arithmetic, matrix, panel, terms, right, first, last, out):
    """out[i] += Σₜ a[t]·exp(−γ‖xᵢ − panel[:, t]‖²): products, distances and sum while they are in the first cache"""
    two = arithmetic.one + arithmetic.one
    zero = arithmetic.one - arithmetic.one
    p = np.empty(WIDTH, dtype=panel.dtype)
    for i in range(first, last):
        _row_products(matrix, i, panel, p)
        base = right[i]
        total = 0.0
        for t in range(WIDTH):
            distance = max(base + terms.squares[t] - two * p[t], zero)
            total += terms.a[t] * arithmetic.negative_exp(-terms.gamma * distance)
        out[i] += total


class _Left(NamedTuple):
    """Rows as the left-hand side of products: an array, or panels of sparse rows; and their squared lengths."""

    rows: Any
    squares: Any
    height: int


class _Dense:
    """Rows of an array as the right-hand side of products."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def other(self, Z: Any) -> np.ndarray:
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
        self.matrix, self.dtype = matrix, dtype
        self.rows = _rows_of(matrix, dtype)

    def other(self, Z: Any) -> list[np.ndarray]:
        Z = Z if is_sparse(Z) else sparse.csr_matrix(Z)
        return _panels(_rows_of(Z, self.dtype), np.arange(Z.shape[0]), Z.shape[1])

    def own(self, wanted: np.ndarray) -> list[np.ndarray]:
        return _panels(self.rows, wanted, self.matrix.shape[1])

    def products(self, left: list[np.ndarray], first: int, last: int, out: np.ndarray) -> np.ndarray:
        acc = np.empty((16, WIDTH), dtype=self.dtype)
        for number, panel in enumerate(left):
            _panel_products(self.rows, panel, acc, first, last, out[number * WIDTH : (number + 1) * WIDTH])
        return out

    def squares(self) -> np.ndarray:
        return squares(self.matrix)

    def take(self, indices: np.ndarray) -> _Sparse:
        return _Sparse(self.matrix[indices], self.dtype)


def _rows_of(matrix: Any, dtype: Any) -> CSR:
    rows = csr(matrix)
    return rows._replace(data=rows.data.astype(dtype, copy=False))


def _panels(rows: CSR, wanted: np.ndarray, width: int) -> list[np.ndarray]:
    panels = []
    for start in range(0, len(wanted), WIDTH):
        panel = np.zeros((width, WIDTH), dtype=rows.data.dtype)
        _fill_panel(rows, wanted[start : start + WIDTH], panel)
        panels.append(panel)
    return panels


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
    >>> from dualgap.panels import Panels
    >>> from dualgap.kernels import make_kernel
    >>> store = np.zeros((2, 3))
    >>> panels = Panels(make_kernel("rbf", gamma=1.0), np.array([[0.0], [1.0], [3.0]]), np.float64)
    >>> panels.rows(panels.own(np.array([1])), store, np.array([0]))
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

    def own(self, wanted: np.ndarray) -> _Left:
        """Some of the rows themselves, for `rows` and `add`."""
        if not self.by_product:
            rows = (wanted, None) if self.kernel.name == "precomputed" else (None, self.X[wanted])
            return _Left(rows, None, len(wanted))
        return _Left(self.right.own(wanted), None if self.squares is None else self.squares[wanted], len(wanted))

    def other(self, Z: Any) -> _Left:
        """Rows from elsewhere, for `add`; not for float32, in which the origin may have been moved."""
        lengths = None if self.squares is None else squares(Z)
        return _Left(self.right.other(Z), lengths, Z.shape[0])

    def _values(self, left: _Left) -> np.ndarray:
        places, Z = left.rows
        return np.asarray(self.kernel(Z, self.X) if places is None else self.X[places])

    def rows(self, left: _Left, store: np.ndarray, slots: np.ndarray) -> None:
        """store[slots[t]] = k(row t of left, every row)"""
        if not self.by_product:
            store[slots] = self._values(left)
            return

        def finish(products: np.ndarray, first: int, last: int) -> None:
            if self.squares is not None:
                right = self.squares[first:last]
                _gaussian_rows(self.arithmetic, self._gamma, products, left.squares, right, store, slots, first)
            else:
                store[slots, first:last] = self.kernel.from_products(products)

        self._by_blocks(left, finish)

    def add(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        """out += Σₜ a[t]·k(row t of left, every row)"""
        if not self.by_product:
            out += a @ self._values(left)
        elif self.squares is not None and isinstance(self.right, _Sparse):
            self._add_sparse(left, a, out)
        else:

            def finish(products: np.ndarray, first: int, last: int) -> None:
                if self.squares is not None:
                    right = self.squares[first:last]
                    _gaussian_sum(self.arithmetic, self._gamma, products, left.squares, right, a, out[first:last])
                else:
                    out[first:last] += a @ self.kernel.from_products(products)

            self._by_blocks(left, finish)

    def _add_sparse(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        for number, panel in enumerate(left.rows):
            part = slice(number * WIDTH, (number + 1) * WIDTH)
            padding = WIDTH - len(a[part])
            terms = _Terms(np.pad(a[part], (0, padding)), np.pad(left.squares[part], (0, padding)), self._gamma)

            def work(first: int, last: int, panel: np.ndarray = panel, terms: _Terms = terms) -> None:
                _sparse_gaussian_sum(self.arithmetic, self.right.rows, panel, terms, self.squares, first, last, out)

            share(work, self.count, least=THREADED // WIDTH)

    @property
    def _gamma(self) -> Any:
        return self.dtype.type(self.kernel.gamma)

    def _by_blocks(self, left: _Left, finish: Any) -> None:
        height = left.height
        width = max(BLOCK // height, 64)

        def work(first: int, last: int) -> None:
            buffer = np.empty(height * min(width, last - first), dtype=self.dtype)
            for start in range(first, last, width):
                end = min(start + width, last)
                out = buffer[: height * (end - start)].reshape(height, end - start)
                finish(self.right.products(left.rows, start, end, out), start, end)

        with blas_alone:
            share(work, self.count, least=max(1, THREADED // height))
