"""KernelBlocks: kernel values of some rows with all rows, block by block, written to a store or summed with weights.

The BLAS multiplies dense rows; sparse rows are packed into panels of WIDTH columns (gaussian.py). Distance, exponential and sum are one
pass over products that are still in the processor's cache. Threads share the rows.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import CSR, blas_alone, csr, is_sparse, machine, share
from dualgap.kernels.distances import half_distances, needs_differences, origin_of, shifted, squares
from dualgap.kernels.function import Kernel
from dualgap.kernels.gaussian import (
    WIDTH,
    CompactPanel,
    Panel,
    Terms,
    arithmetic_of,
    fill_panel,
    gaussian_rows,
    gaussian_sum,
    number_features,
    panel_products,
    sparse_gaussian_sum,
)

__all__ = ["BLOCK", "SUPPORTS", "Distances", "KernelBlocks", "Left", "distances_of", "exact_in_float32", "product_terms", "scratch"]

BLOCK = 1 << 18  # products in one block: 1 or 2 MB, which a processor's cache holds
SUPPORTS = 256  # rows on the left-hand side of one block of products in a sum
LINE = 64  # bytes of a cache line
MOST_LINES = (
    1024  # features up to which a panel has a line for each: with 128 rows 0.5 MB in float32, which a second-level cache holds
)
SPARSE = 0.3  # share of non-zeros up to which sparse products are faster than dense ones


class Left(NamedTuple):
    """Rows as the left-hand side of products: an array, or panels of sparse rows; and −γ‖x‖² of each for a Gaussian kernel."""

    rows: Any
    exponents: Any
    height: int


class _Dense:
    """Rows of an array as the right-hand side of products."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.dtype = matrix, matrix.dtype

    def own(self, wanted: np.ndarray) -> np.ndarray:
        """Return some of the rows as the left-hand side; all of them without a copy, so that the BLAS sees a symmetric product."""
        whole = len(wanted) == len(self.matrix) and bool((wanted == np.arange(len(wanted))).all())
        return self.matrix if whole else self.matrix[wanted]

    def products(self, left: np.ndarray, first: int, last: int, out: np.ndarray, by_row: bool) -> np.ndarray:
        """Write left·Xᵀ for the rows first…last of X; its transpose if `by_row`."""
        return (
            np.matmul(self.matrix[first:last], left.T, out=out) if by_row else np.matmul(left, self.matrix[first:last].T, out=out)
        )

    def take(self, indices: np.ndarray) -> _Dense:
        return type(self)(self.matrix[indices])


class _Differences(_Dense):
    """Rows of an array whose products lose too many digits: −½‖x − z‖² takes the place of x·z, and 0 that of ‖x‖² and ‖z‖²."""

    def products(self, left: np.ndarray, first: int, last: int, out: np.ndarray, by_row: bool) -> np.ndarray:
        left, right = np.ascontiguousarray(left), self.matrix[first:last]
        return half_distances(right, left, out) if by_row else half_distances(left, right, out)


class _Sparse:
    """Rows of a CSR matrix as the right-hand side of products."""

    def __init__(self, matrix: Any, dtype: Any) -> None:
        self.matrix, self.dtype = matrix, dtype
        self.rows = _rows_of(matrix, dtype)
        self.longest = int(np.diff(matrix.indptr).max(initial=0))

    def work(self) -> tuple[np.ndarray, np.ndarray]:
        """Return room for the lines of a panel and the numbers that belong to one row."""
        return np.empty(self.longest + 1, dtype=np.int64), np.empty(self.longest + 1, dtype=self.dtype)

    def other(self, Z: Any) -> list[Panel | CompactPanel]:
        """Return rows of Z as the left-hand side."""
        Z = Z if is_sparse(Z) else sparse.csr_matrix(Z)
        return _panels(_rows_of(Z, self.dtype), np.arange(Z.shape[0]), Z.shape[1])

    def own(self, wanted: np.ndarray) -> list[Panel | CompactPanel]:
        return _panels(self.rows, wanted, self.matrix.shape[1])

    def products(self, left: list[Panel | CompactPanel], first: int, last: int, out: np.ndarray, by_row: bool) -> np.ndarray:
        acc, work = _aligned(16, self.dtype), self.work()
        for number, panel in enumerate(left):
            panel_products(self.rows, panel, work, acc, first, last, out[number * WIDTH : (number + 1) * WIDTH])
        return out

    def take(self, indices: np.ndarray) -> _Sparse:
        return _Sparse(self.matrix[indices], self.dtype)


def _aligned(count: int, dtype: Any) -> np.ndarray:
    """Return zeros of shape (count, WIDTH) that start at a cache line, for aligned SIMD loads."""
    flat = np.zeros(count * WIDTH + LINE, dtype=dtype)
    start = -flat.ctypes.data % LINE // flat.itemsize
    return flat[start : start + count * WIDTH].reshape(count, WIDTH)


def _rows_of(matrix: Any, dtype: Any) -> CSR:
    rows = csr(matrix)
    return rows._replace(data=rows.data.astype(dtype, copy=False))


def _panels(rows: CSR, wanted: np.ndarray, width: int) -> list[Panel | CompactPanel]:
    panels: list[Panel | CompactPanel] = []
    for start in range(0, len(wanted), WIDTH):
        part = wanted[start : start + WIDTH]
        if width <= MOST_LINES:
            panel: Any = Panel(_aligned(width, rows.data.dtype))
        else:
            place = np.full(width, -1, dtype=np.int32)
            count = number_features(rows, part, place)
            panel = CompactPanel(_aligned(max(count, 1), rows.data.dtype), place)
        fill_panel(rows, part, panel)
        panels.append(panel)
    return panels


def exact_in_float32(X: Any) -> bool:
    """Whether float32 gives inner products of the rows exactly, because all entries are small integers: counts, flags, few grey levels.

    Every partial sum is at most (numbers in a row)·max² ≤ 2²⁴, and float32 represents all integers up to there.
    """
    if is_sparse(X):
        values, width = X.data, int(np.diff(X.indptr).max(initial=0))
    else:
        values, width = X, X.shape[1]
    if any((np.rint(some) != some).any() for some in (values[:64], values)):  # most data fail in the first rows
        return False
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return largest <= math.sqrt(2.0**24 / max(width, 1))  # a square of a huge number would overflow


def _is_dense(X: Any) -> bool:
    """Whether the rows of X are multiplied as those of an array."""
    return not is_sparse(X) or X.nnz > SPARSE * X.shape[0] * X.shape[1]


def _array(X: Any) -> np.ndarray:
    return X.toarray() if is_sparse(X) else X


def distance_norms(X: Any) -> np.ndarray:
    """Return ‖x − s‖ of each row for every origin s that distances in float64 are computed with near X: the norms in their error bound."""
    origin = origin_of(X) if _is_dense(X) else None
    if origin is None:
        return np.sqrt(squares(X))
    norms = np.sqrt(squares(shifted(_array(X), origin)))
    # Whole numbers are not moved, as their products are exact, and a sparse matrix not everywhere.
    return np.maximum(norms, np.sqrt(squares(X))) if is_sparse(X) or exact_in_float32(X) else norms


def product_terms(X: Any) -> int:
    """Return how many products other than 0 the inner product of two rows of X adds up at most, moved by an origin or not."""
    return int(X.shape[1]) if _is_dense(X) else int(np.diff(X.indptr).max(initial=0))


class Distances(NamedTuple):
    """What bounds the errors of kernel values in float64 between the rows of X."""

    norms: np.ndarray  # ‖x‖, for a Gaussian kernel ‖x − s‖ for every origin s that its distances are computed with near X
    terms: int  # products other than 0 that an inner product adds up at most
    sure: bool  # whether the bound by SURE_RELATIVE holds: distances may come from differences

    def take(self, rows: np.ndarray) -> Distances:
        """Return those of some of the rows, whose values are computed among all rows of X."""
        return Distances(self.norms[rows], self.terms, self.sure)


def distances_of(kernel: Kernel, X: Any) -> Distances:
    """Return what bounds the errors of values of a kernel that is computed from inner products of the rows of X."""
    if kernel.name != "rbf":
        return Distances(np.sqrt(squares(X)), product_terms(X), False)
    return Distances(distance_norms(X), product_terms(X), not is_sparse(X) and not exact_in_float32(X))


_memory = threading.local()


def scratch(count: int, dtype: Any) -> np.ndarray:
    """Return `count` numbers to write to, the same memory at every call of a thread: new pages cost more than the values put there."""
    held = getattr(_memory, "bytes", None)
    size = count * np.dtype(dtype).itemsize
    if held is None or held.nbytes < size:
        # From the start of a cache line, for aligned SIMD loads.
        held = np.empty(size + LINE, dtype=np.uint8)
        held = _memory.bytes = held[-held.ctypes.data % LINE :]
    return held[:size].view(dtype)


class KernelBlocks:
    """Kernel values of given rows with all rows of X.

    `own` or `other` prepares the given rows; `write_rows`, `add_sums` and `add_symmetric` compute with them.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix; for a precomputed kernel its matrix
    dtype : numpy.float32 or numpy.float64, the precision of the values
    products : precision of inner products; None: dtype. numpy.float32 is exact for data that `exact_in_float32` accepts
    near : rows that the origin of distances is computed from; None: X. It changes the rounding of Gaussian values, nothing else
    """

    def __init__(self, kernel: Kernel, X: Any, dtype: Any, products: Any = None, near: Any = None) -> None:
        self.kernel, self.X, self.dtype, self.count = kernel, X, np.dtype(dtype), X.shape[0]
        self.arithmetic = arithmetic_of(self.dtype)
        self.by_product = kernel.function is None and kernel.name != "precomputed"
        self.places: Any = None  # rows and columns of a precomputed matrix, after `take`; None: all
        self.origin: np.ndarray | None = None
        if self.by_product:
            self._set_right(np.dtype(products or dtype), X if near is None else near, move=products is None)

    def _set_right(self, dtype: np.dtype[Any], near: Any, move: bool) -> None:
        kernel, X = self.kernel, self.X
        self.exponents: Any = None
        if not _is_dense(X):
            self.right: Any = _Sparse(X, dtype)
        else:
            matrix = _array(X)
            # A few dense rows of a sparse matrix stay where they are, as `distance_norms` of the matrix has it.
            if move and kernel.name == "rbf" and _is_dense(near):
                # Distances do not depend on the origin. In float32 they always keep more digits with the origin at the mean.
                self.origin = matrix.mean(axis=0, dtype=np.float64) if dtype == np.float32 else origin_of(near)
            self.right = _Dense(self._moved(matrix, dtype))
        if kernel.name != "rbf":
            return
        lengths = squares(self.right.matrix)
        if dtype == self.dtype == np.float64 and _is_dense(X) and needs_differences(kernel.gamma, lengths, X.shape[1]):
            self.right, lengths = _Differences(self.right.matrix), np.zeros(len(lengths))
        self.exponents = self._exponents(lengths)

    def _moved(self, rows: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
        """Return rows in the given precision, moved by the origin."""
        if self.origin is None:
            return np.ascontiguousarray(rows, dtype=dtype)
        return np.subtract(rows, self.origin, out=np.empty(rows.shape, dtype=dtype), casting="same_kind")

    @property
    def cheap(self) -> bool:
        """Whether computing a value takes little longer than moving it in memory."""
        if not self.by_product:
            return False
        return (self.X.nnz / max(self.count, 1) if is_sparse(self.X) else self.X.shape[1]) <= machine.CHEAP

    @property
    def norms(self) -> Any:
        """‖x‖ of each row as rounded, for error bounds; None unless the kernel is Gaussian and the rows are dense."""
        if not self.by_product or self.exponents is None or isinstance(self.right, _Sparse):
            return None
        if isinstance(self.right, _Differences):
            return np.sqrt(squares(self.right.matrix))
        return np.sqrt(self.exponents.astype(np.float64) / -self.kernel.gamma)

    def _exponents(self, squares: np.ndarray) -> np.ndarray:
        return (-self.kernel.gamma * squares).astype(self.dtype)

    def take(self, indices: np.ndarray) -> KernelBlocks:
        """Return the kernel blocks of some of the rows, ascending; those of all rows are this object."""
        if len(indices) == self.count:
            return self
        other = object.__new__(KernelBlocks)
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

    def own(self, wanted: np.ndarray) -> Left:
        """Return some of the rows as the left-hand side."""
        if not self.by_product:
            if self.kernel.name == "precomputed":
                rows: Any = (wanted if self.places is None else self.places[wanted], None)
            else:
                rows = (None, self.X[wanted])
            return Left(rows, None, len(wanted))
        return Left(self.right.own(wanted), None if self.exponents is None else self.exponents[wanted], len(wanted))

    def other(self, Z: Any) -> Left:
        """Return other rows as the left-hand side."""
        if isinstance(self.right, _Sparse):
            return Left(self.right.other(Z), None if self.exponents is None else self._exponents(squares(Z)), Z.shape[0])
        rows = self._moved(_array(Z), self.right.dtype)
        exponents = None
        if self.exponents is not None:
            exponents = self._exponents(np.zeros(len(rows)) if isinstance(self.right, _Differences) else squares(rows))
        return Left(rows, exponents, len(rows))

    def _values(self, left: Left) -> np.ndarray:
        places, Z = left.rows
        if places is None:
            return np.asarray(self.kernel(Z, self.X))
        return np.asarray(self.X[places] if self.places is None else self.X[np.ix_(places, self.places)])

    def write_rows(self, left: Left, store: np.ndarray, slots: np.ndarray) -> None:
        """store[slots[t]] = k(row t of left, every row)"""
        if not self.by_product:
            store[slots] = self._values(left)
            return
        self._write(left, store, slots, 0)

    def _write(self, left: Left, store: np.ndarray, slots: np.ndarray, begin: int) -> None:
        """store[slots[t], j] = k(row t of left, row j) for the rows from `begin` on, computed from products"""

        def finish(products: np.ndarray, first: int, last: int) -> None:
            if self.exponents is not None:
                right = self.exponents[first:last]
                gaussian_rows(self.arithmetic, self._twice_gamma, products, left.exponents, right, store, slots, first)
            else:
                store[slots, first:last] = self.kernel.from_products(products.astype(self.dtype, copy=False))

        self._by_blocks(left, finish, begin)

    def matrix(self) -> np.ndarray:
        """Return the kernel matrix of all rows, of which each value is computed once; for kernels that are computed from inner products."""
        K, n = np.empty((self.count, self.count), dtype=self.dtype), self.count
        for first in range(0, n, SUPPORTS):
            last = min(first + SUPPORTS, n)
            rows = np.arange(first, last)
            self._write(self.own(rows), K, rows, first)
            K[last:, first:last] = K[first:last, last:].T
        return K

    def add_sums(self, left: Left, a: np.ndarray, out: np.ndarray) -> None:
        """out += Σₜ a[t]·k(row t of left, every row); one column of `out` for each column of `a`"""
        if not self.by_product:
            out += (a.T @ self._values(left)).T
            return
        a = a.astype(self.dtype, copy=False)
        if a.ndim == 1 and self.exponents is not None:
            (self._add_sparse if isinstance(self.right, _Sparse) else self._add_dense)(left, a, out)
            return

        def finish(products: np.ndarray, first: int, last: int) -> None:
            out[first:last] += self._from_products(products, left, first, last).T @ a

        self._by_blocks(left, finish)

    def _add_dense(self, left: Left, a: np.ndarray, out: np.ndarray) -> None:
        def finish(products: np.ndarray, first: int, last: int) -> None:
            right = self.exponents[first:last]
            gaussian_sum(self.arithmetic, self._twice_gamma, products, left.exponents, right, a, out[first:last])

        # Column-major rows are what the BLAS reads fastest here.
        self._by_blocks(left._replace(rows=np.asfortranarray(left.rows)), finish, by_row=True)

    def add_symmetric(self, first: int, last: int, a: np.ndarray, out: np.ndarray) -> None:
        """Add to K·a the kernel values of the rows first…last with each other and with all later rows, each value in both places.

        `out` has one column for each column of `a`.
        """
        left = self.own(np.arange(first, last))
        back: dict[int, np.ndarray] = {}

        def finish(products: np.ndarray, begin: int, end: int) -> None:
            values = self._from_products(products, left, begin, end)
            out[begin:end] += values.T @ a[first:last]
            later = max(begin, last)
            back[begin] = values[:, later - begin :] @ a[later:end]

        self._by_blocks(left, finish, first)
        for begin in sorted(back):
            out[first:last] += back[begin]

    def _from_products(self, products: np.ndarray, left: Left, first: int, last: int) -> np.ndarray:
        """Return kernel values of the left-hand rows with the rows first…last; they overwrite the products if the precision is the same."""
        values = products.astype(self.dtype, copy=False)
        if self.exponents is None:
            return self.kernel.from_products(values)
        right, places = self.exponents[first:last], np.arange(left.height)
        gaussian_rows(self.arithmetic, self._twice_gamma, products, left.exponents, right, values, places, 0)
        return values

    def _add_sparse(self, left: Left, a: np.ndarray, out: np.ndarray) -> None:
        for number, panel in enumerate(left.rows):
            part = slice(number * WIDTH, (number + 1) * WIDTH)
            terms = Terms(np.zeros(WIDTH, dtype=self.dtype), np.zeros(WIDTH, dtype=self.dtype), self._twice_gamma)
            terms.a[: len(a[part])], terms.left[: len(a[part])] = a[part], left.exponents[part]

            def work(first: int, last: int, panel: Any = panel, terms: Terms = terms) -> None:
                sparse_gaussian_sum(
                    self.arithmetic, self.right.rows, panel, self.right.work(), terms, self.exponents, first, last, out
                )

            share(work, self.count, least=machine.THREAD_VALUES // WIDTH)

    @property
    def _twice_gamma(self) -> Any:
        return self.dtype.type(2.0 * self.kernel.gamma)

    def _by_blocks(self, left: Left, finish: Any, begin: int = 0, by_row: bool = False) -> None:
        """Call finish(products, first, last) for blocks of the rows from `begin` on, in threads; `by_row`: a line for each of them."""
        height = left.height
        width = max(BLOCK // height, 64)

        def work(first: int, last: int) -> None:
            buffer = scratch(height * min(width, last - first), self.right.dtype)
            for start in range(begin + first, begin + last, width):
                end = min(start + width, begin + last)
                out = buffer[: height * (end - start)].reshape((end - start, height) if by_row else (height, end - start))
                finish(self.right.products(left.rows, start, end, out, by_row), start, end)

        with blas_alone:
            share(work, self.count - begin, least=max(1, machine.THREAD_VALUES // height))
