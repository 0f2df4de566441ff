"""Kernel values by the panel: rows of K for a working set, and sums over them, at the speed of the BLAS and of SIMD.

Products of dense rows are the BLAS's; those of sparse rows are summed here, sixteen and more at once; distance, exponential and sum are
fused into one pass over products that are still in the processor's cache. Rows are shared among threads.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import CSR, blas_alone, csr, is_sparse, kernel, share
from dualgap.kernels.function import Kernel, squares
from dualgap.kernels.gaussian import (
    WIDTH,
    Terms,
    arithmetic_of,
    fill_panel,
    gaussian_rows,
    gaussian_sum,
    panel_products,
    sparse_gaussian_sum,
)

__all__ = ["BLOCK", "SUPPORTS", "Panels", "exact_in_float32", "scratch"]

BLOCK = 1 << 18  # products held at once: 1 or 2 MB
THREADED = 1 << 17  # kernel values that are worth a thread
CHEAP = 128  # products of so many numbers are done about as fast as their result is stored
SUPPORTS = 256  # terms of a sum over kernel values at once
LINE = 64  # bytes of a line of the processor's cache
SPARSE = 0.3  # share of non-zeros up to which a sparse product is the faster one


class _Left(NamedTuple):
    """Rows as the left-hand side of products: an array, or panels of sparse rows; and their parts of a Gaussian's exponents."""

    rows: Any
    exponents: Any
    height: int


class _Dense:
    """Rows of an array as the right-hand side of products."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.dtype = x, x.dtype

    def other(self, Z: Any) -> np.ndarray:
        """Rows of Z as the left-hand side."""
        return np.ascontiguousarray(Z.toarray() if is_sparse(Z) else Z, dtype=self.x.dtype)

    def own(self, wanted: np.ndarray) -> np.ndarray:
        """Some of the rows themselves as the left-hand side."""
        return self.x[wanted]

    def products(self, left: np.ndarray, first: int, last: int, out: np.ndarray) -> np.ndarray:
        return np.matmul(left, self.x[first:last].T, out=out)

    def products_by_row(self, left: np.ndarray, first: int, last: int, out: np.ndarray) -> np.ndarray:
        """The same the other way round: a line of products for each of the rows first…last."""
        return np.matmul(self.x[first:last], left.T, out=out)

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
        acc = _aligned(16, self.dtype)
        for number, panel in enumerate(left):
            panel_products(self.rows, panel, acc, first, last, out[number * WIDTH : (number + 1) * WIDTH])
        return out

    def squares(self) -> np.ndarray:
        return squares(self.matrix)

    def take(self, indices: np.ndarray) -> _Sparse:
        return _Sparse(self.matrix[indices], self.dtype)


def _aligned(count: int, dtype: Any) -> np.ndarray:
    """Zeros of `count` rows of WIDTH that begin with a line of the processor's cache, as wide registers want them."""
    flat = np.zeros(count * WIDTH + LINE, dtype=dtype)
    start = -flat.ctypes.data % LINE // flat.itemsize
    return flat[start : start + count * WIDTH].reshape(count, WIDTH)


def _rows_of(matrix: Any, dtype: Any) -> CSR:
    rows = csr(matrix)
    return rows._replace(data=rows.data.astype(dtype, copy=False))


def _panels(rows: CSR, wanted: np.ndarray, width: int) -> list[np.ndarray]:
    panels = []
    for start in range(0, len(wanted), WIDTH):
        panel = _aligned(width, rows.data.dtype)
        fill_panel(rows, wanted[start : start + WIDTH], panel)
        panels.append(panel)
    return panels


@kernel
def _centred(X, centre, out):
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = X[i, j] - centre[j]


def exact_in_float32(X: Any) -> bool:
    """Whether all of X are whole numbers, so small that float32 gives inner products of rows exactly: counts, yes or no, few grey levels.

    No sum of some of the products is then above (numbers in a row)·max² ≤ 2²⁴, up to which float32 has every whole number.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels.values import exact_in_float32
    >>> (
    ...     exact_in_float32(np.array([[3.0, 0.0], [1.0, 2.0]])),
    ...     exact_in_float32(np.array([[0.5]])),
    ...     exact_in_float32(np.array([[5000.0]])),
    ... )
    (True, False, False)
    """
    if is_sparse(X):
        values, width = X.data, int(np.diff(X.indptr).max(initial=0))
    else:
        values, width = X, X.shape[1]
    if not _whole(values[:64]) or not _whole(values):
        return False
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return width * largest**2 <= 2.0**24


def _whole(values: np.ndarray) -> bool:
    return bool((np.rint(values) == values).all())


def _right(kernel: Kernel, X: Any, dtype: Any, move: bool) -> Any:
    if is_sparse(X):
        if X.nnz <= SPARSE * X.shape[0] * X.shape[1]:
            return _Sparse(X, dtype)
        X = X.toarray()
    if move and dtype == np.float32 and kernel.name == "rbf":
        # Distances do not change when the origin moves, and in float32 they keep more digits when it lies amid the rows.
        out = np.empty(X.shape, dtype=np.float32)
        _centred(X, X.mean(axis=0, dtype=np.float64), out)
        return _Dense(out)
    return _Dense(np.ascontiguousarray(X, dtype=dtype))


_memory = threading.local()


def scratch(count: int, dtype: Any) -> np.ndarray:
    """So many numbers to write to, the same memory at every call of a thread: new pages cost more than the values put into them."""
    held = getattr(_memory, "bytes", None)
    size = count * np.dtype(dtype).itemsize
    if held is None or held.nbytes < size:
        # From where a line of the processor's cache begins, as wide registers want it.
        held = np.empty(size + LINE, dtype=np.uint8)
        held = _memory.bytes = held[-held.ctypes.data % LINE :]
    return held[:size].view(dtype)


# -------------------------------------------------------------------------------------------------------------------- panels


class Panels:
    """Kernel values between given rows and all rows of X, in the precision asked for.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix; for a precomputed kernel its matrix
    dtype : numpy.float32 or numpy.float64
    products : numpy.float32 where that gives inner products exactly (`exact_in_float32`) though values are wanted in float64; None: dtype

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels.values import Panels
    >>> from dualgap.kernels.function import make_kernel
    >>> store = np.zeros((2, 3))
    >>> panels = Panels(make_kernel("rbf", gamma=1.0), np.array([[0.0], [1.0], [3.0]]), np.float64)
    >>> panels.rows(panels.own(np.array([1])), store, np.array([0]))
    >>> store[0].round(4)
    array([0.3679, 1.    , 0.0183])
    """

    def __init__(self, kernel: Kernel, X: Any, dtype: Any, products: Any = None) -> None:
        self.kernel, self.X, self.dtype, self.count = kernel, X, np.dtype(dtype), X.shape[0]
        self.arithmetic = arithmetic_of(self.dtype)
        self.by_product = kernel.function is None and kernel.name != "precomputed"
        self.places: Any = None  # of a precomputed matrix the rows and columns that are meant; None: all
        if self.by_product:
            self.right = _right(kernel, X, np.dtype(products or dtype), move=products is None)
            self.exponents: Any = self._exponents(self.right.squares()) if kernel.name == "rbf" else None

    @property
    def cheap(self) -> bool:
        """Whether a value costs little more to compute than to move in memory."""
        if not self.by_product:
            return False
        return (self.X.nnz / max(self.count, 1) if is_sparse(self.X) else self.X.shape[1]) <= CHEAP

    @property
    def lengths(self) -> Any:
        """‖row‖ of each, as rounded, by which the errors of Gaussian values of arrays are bounded; None for all others."""
        if not self.by_product or self.exponents is None or isinstance(self.right, _Sparse):
            return None
        return np.sqrt(self.exponents.astype(np.float64) / -self.kernel.gamma)

    def _exponents(self, squares: np.ndarray) -> np.ndarray:
        return (-self.kernel.gamma * squares).astype(self.dtype)

    def take(self, indices: np.ndarray) -> Panels:
        """The panels of some of the rows."""
        other = object.__new__(Panels)
        other.__dict__.update(self.__dict__)
        other.count = len(indices)
        if self.kernel.name == "precomputed":
            other.places = indices if self.places is None else self.places[indices]
        elif self.by_product:
            other.right = self.right.take(indices)
            other.exponents = None if self.exponents is None else self.exponents[indices]
        else:
            other.X = self.X[indices]
        return other

    def own(self, wanted: np.ndarray) -> _Left:
        """Some of the rows themselves, for `rows` and `add`."""
        if not self.by_product:
            if self.kernel.name == "precomputed":
                rows: Any = (wanted if self.places is None else self.places[wanted], None)
            else:
                rows = (None, self.X[wanted])
            return _Left(rows, None, len(wanted))
        return _Left(self.right.own(wanted), None if self.exponents is None else self.exponents[wanted], len(wanted))

    def other(self, Z: Any) -> _Left:
        """Rows from elsewhere, for `add`; not for float32, in which the origin may have been moved."""
        exponents = None if self.exponents is None else self._exponents(squares(Z))
        return _Left(self.right.other(Z), exponents, Z.shape[0])

    def _values(self, left: _Left) -> np.ndarray:
        places, Z = left.rows
        if places is None:
            return np.asarray(self.kernel(Z, self.X))
        return np.asarray(self.X[places] if self.places is None else self.X[np.ix_(places, self.places)])

    def rows(self, left: _Left, store: np.ndarray, slots: np.ndarray) -> None:
        """store[slots[t]] = k(row t of left, every row)"""
        if not self.by_product:
            store[slots] = self._values(left)
            return

        def finish(products: np.ndarray, first: int, last: int) -> None:
            if self.exponents is not None:
                right = self.exponents[first:last]
                gaussian_rows(self.arithmetic, self._twice_gamma, products, left.exponents, right, store, slots, first)
            else:
                store[slots, first:last] = self.kernel.from_products(products)

        self._by_blocks(left, finish)

    def add(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        """out += Σₜ a[t]·k(row t of left, every row); with a column of `a` for each of several sums, `out` has as many"""
        if not self.by_product:
            out += (a.T @ self._values(left)).T
            return
        a = a.astype(self.dtype, copy=False)
        if a.ndim == 2:
            self._add_several(left, a, out)
        elif self.exponents is None:

            def finish(products: np.ndarray, first: int, last: int) -> None:
                out[first:last] += a @ self.kernel.from_products(products.astype(self.dtype, copy=False))

            self._by_blocks(left, finish)
        elif isinstance(self.right, _Sparse):
            self._add_sparse(left, a, out)
        else:
            self._add_dense(left, a, out)

    def _add_dense(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        # A column for each of the left-hand rows, in the order in which the BLAS reads them fastest.
        left = left._replace(rows=np.asfortranarray(left.rows))

        def work(first: int, last: int) -> None:
            width = max(BLOCK // left.height, 64)
            buffer = scratch(left.height * min(width, last - first), self.right.dtype)
            for start in range(first, last, width):
                end = min(start + width, last)
                products = buffer[: left.height * (end - start)].reshape(end - start, left.height)
                self.right.products_by_row(left.rows, start, end, products)
                right = self.exponents[start:end]
                gaussian_sum(self.arithmetic, self._twice_gamma, products, left.exponents, right, a, out[start:end])

        with blas_alone:
            share(work, self.count, least=max(1, THREADED // left.height))

    def add_both(self, first: int, last: int, a: np.ndarray, out: np.ndarray) -> None:
        """What the values of the rows first…last with each other and with all later ones add to K·a: each value counts both ways."""
        left = self.own(np.arange(first, last))
        back: dict[int, np.ndarray] = {}

        def finish(products: np.ndarray, begin: int, end: int) -> None:
            values = self._from_products(products, left, begin, end)
            out[begin:end] += a[first:last] @ values
            later = max(begin, last)
            back[begin] = values[:, later - begin :] @ a[later:end]

        self._by_blocks(left, finish, first)
        for begin in sorted(back):
            out[first:last] += back[begin]

    def _from_products(self, products: np.ndarray, left: _Left, first: int, last: int) -> np.ndarray:
        """Kernel values of the left-hand rows with the rows first…last, in the place of their products where the precision is the same."""
        values = products.astype(self.dtype, copy=False)
        if self.exponents is None:
            return self.kernel.from_products(values)
        right, places = self.exponents[first:last], np.arange(left.height)
        gaussian_rows(self.arithmetic, self._twice_gamma, products, left.exponents, right, values, places, 0)
        return values

    def _add_several(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        def finish(products: np.ndarray, first: int, last: int) -> None:
            values = self._from_products(products, left, first, last)
            out[first:last] += values.T @ a

        self._by_blocks(left, finish)

    def _add_sparse(self, left: _Left, a: np.ndarray, out: np.ndarray) -> None:
        for number, panel in enumerate(left.rows):
            terms = self._terms(left, a, number)

            def work(first: int, last: int, panel: np.ndarray = panel, terms: Terms = terms) -> None:
                sparse_gaussian_sum(self.arithmetic, self.right.rows, panel, terms, self.exponents, first, last, out)

            share(work, self.count, least=THREADED // WIDTH)

    def _terms(self, left: _Left, a: np.ndarray, number: int) -> Terms:
        part = slice(number * WIDTH, (number + 1) * WIDTH)
        terms = Terms(np.zeros(WIDTH, dtype=self.dtype), np.zeros(WIDTH, dtype=self.dtype), self._twice_gamma)
        terms.a[: len(a[part])], terms.left[: len(a[part])] = a[part], left.exponents[part]
        return terms

    @property
    def _twice_gamma(self) -> Any:
        return self.dtype.type(2.0 * self.kernel.gamma)

    def _by_blocks(self, left: _Left, finish: Any, begin: int = 0) -> None:
        height = left.height
        width = max(BLOCK // height, 64)

        def work(first: int, last: int) -> None:
            buffer = scratch(height * min(width, last - first), self.right.dtype)
            for start in range(begin + first, begin + last, width):
                end = min(start + width, begin + last)
                out = buffer[: height * (end - start)].reshape(height, end - start)
                finish(self.right.products(left.rows, start, end, out), start, end)

        with blas_alone:
            share(work, self.count - begin, least=max(1, THREADED // height))
