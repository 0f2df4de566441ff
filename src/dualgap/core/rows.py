"""How samples are stored and read: Dense, CSR and Gram rows; Some, a choice of rows; WithBias, rows with a bias column.

The only module that knows storage: other modules call its functions and never test the type of rows. Compiled kernels read row i by:

    dot(i, v)            xᵢ·w for the vector "w as stored" v
    bounded_dot(i, v)    the same, and Σ|xᵢⱼvⱼ| times the number of its terms: what its rounding error is proportional to
    soft_dot(i, v, t)    xᵢ·soft(v, t), for penalties with an l1 part
    clipped_dot(i, v, a, t, low, high)   xᵢ·w with w = soft(a·v, t) clipped to [low, high], for bounds on coefficients
    add(i, a, v)         w += a·xᵢ
    add_squares(i, a, v) v += a·xᵢ², square by square (not for kernel matrices)
    sqnorm(i)            ‖xᵢ‖²
    row_length(i)        how many numbers row i stores; column_at(i, k) and value_at(i, k) are its k-th one (not for kernel matrices)

CSR rows also have column(k), for k from begin(i) up to end(i): the coordinates of the stored entries of row i. Their outer(i, a, H) adds
each product a·xⱼxₖ of the row to H once and returns whether its columns ascend. If they do, all products are in the lower triangle; else
some are above the diagonal. linalg.py does that for dense rows, many at a time.

For Dense and CSR rows v is w itself. For Gram rows (a kernel machine) v holds the n scores ⟨φ(xᵢ), w⟩, so that the same solver trains
kernel machines. Data arrays are read-only views of the caller's arrays. Index arrays are viewed as unsigned, so that numba does not
test them for negative values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core.checks import is_sparse
from dualgap.core.jit import compiled, kernel, prefetch, sequential
from dualgap.core.machine import SHARED_CACHE

LINE = 64  # bytes in a cache line
AHEAD = 4  # rows between a prefetch and its use
LONG_ROW = 32  # entries from which on a sparse row's product is summed in four parts: a second loop costs shorter rows more


@compiled
class Dense(NamedTuple):
    """Rows of a C-ordered array."""

    x: np.ndarray

    def length(self):
        return self.x.shape[0]

    def dot(self, i, v):
        x = self.x[i]
        s = 0.0
        for k in range(x.shape[0]):
            s += x[k] * v[k]
        return s

    def bounded_dot(self, i, v):
        x = self.x[i]
        s, size = 0.0, 0.0
        for k in range(x.shape[0]):
            term = x[k] * v[k]
            s += term
            size += abs(term)
        return s, size * (x.shape[0] + 4.0)

    def soft_dot(self, i, v, t):
        x = self.x[i]
        s = 0.0
        for k in range(x.shape[0]):
            s += x[k] * (max(v[k] - t, 0.0) + min(v[k] + t, 0.0))
        return s

    def clipped_dot(self, i, v, a, t, low, high):
        x = self.x[i]
        s = 0.0
        for k in range(x.shape[0]):
            vk = a * v[k]
            s += x[k] * min(max(max(vk - t, 0.0) + min(vk + t, 0.0), low[k]), high[k])
        return s

    def add(self, i, a, v):
        x = self.x[i]
        for k in range(x.shape[0]):
            v[k] += a * x[k]

    def add_squares(self, i, a, v):
        x = self.x[i]
        for k in range(x.shape[0]):
            v[k] += a * x[k] * x[k]

    def sqnorm(self, i):
        x = self.x[i]
        s = 0.0
        for k in range(x.shape[0]):
            s += np.float64(x[k]) * x[k]
        return s

    def row_length(self, i):
        return self.x.shape[1]

    def column_at(self, i, k):
        return k

    def value_at(self, i, k):
        return np.float64(self.x[i, k])

    def prefetch(self, i):
        width = self.x.shape[1]
        step = LINE // self.x.itemsize
        # The hardware prefetches a row by itself once its beginning has been read.
        for k in range(i * width, i * width + min(width, 4 * step), step):
            prefetch(self.x, k)


@sequential
def _sparse_dot(first, last, indices, data, v):
    s, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    if last - first >= LONG_ROW:  # four sums, none of which waits for the others' additions
        end = first + (last - first) // np.uint32(4) * np.uint32(4)
        for k in range(first, end, 4):
            s += data[k] * v[indices[k]]
            s1 += data[k + 1] * v[indices[k + 1]]
            s2 += data[k + 2] * v[indices[k + 2]]
            s3 += data[k + 3] * v[indices[k + 3]]
        first = end
    for k in range(first, last):
        s += data[k] * v[indices[k]]
    return (s + s1) + (s2 + s3)


@sequential
def _sparse_bounded_dot(first, last, indices, data, v):
    s, size = 0.0, 0.0
    for k in range(first, last):
        term = data[k] * v[indices[k]]
        s += term
        size += abs(term)
    return s, size * (np.float64(last - first) + 4.0)


@compiled
class CSR(NamedTuple):
    """Rows of a compressed sparse matrix. Columns may come in any order; a column given twice counts twice."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    def length(self):
        return self.indptr.shape[0] - 1

    def dot(self, i, v):
        return _sparse_dot(self.indptr[i], self.indptr[i + 1], self.indices, self.data, v)

    def bounded_dot(self, i, v):
        return _sparse_bounded_dot(self.indptr[i], self.indptr[i + 1], self.indices, self.data, v)

    def soft_dot(self, i, v, t):
        s = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            vk = v[self.indices[k]]
            s += self.data[k] * (max(vk - t, 0.0) + min(vk + t, 0.0))
        return s

    def clipped_dot(self, i, v, a, t, low, high):
        s = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[k]
            vj = a * v[j]
            s += self.data[k] * min(max(max(vj - t, 0.0) + min(vj + t, 0.0), low[j]), high[j])
        return s

    def add(self, i, a, v):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v[self.indices[k]] += a * self.data[k]

    def add_squares(self, i, a, v):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v[self.indices[k]] += a * self.data[k] * self.data[k]

    def sqnorm(self, i):
        s = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            s += np.float64(self.data[k]) * self.data[k]
        return s

    def outer(self, i, a, H):
        ascending = True
        for k in range(self.indptr[i], self.indptr[i + 1]):
            row, ax = H[self.indices[k]], a * self.data[k]
            ascending &= k == self.indptr[i] or self.indices[k - 1] < self.indices[k]
            for m in range(self.indptr[i], k + 1):
                row[self.indices[m]] += ax * self.data[m]
        return ascending

    def row_length(self, i):
        return np.int64(self.indptr[i + 1] - self.indptr[i])

    def column_at(self, i, k):
        return self.indices[self.indptr[i] + np.uint64(k)]

    def value_at(self, i, k):
        return np.float64(self.data[self.indptr[i] + np.uint64(k)])

    def begin(self, i):
        return self.indptr[i]

    def end(self, i):
        return self.indptr[i + 1]

    def column(self, k):
        return self.indices[k]

    def prefetch(self, i):
        first, last = self.indptr[i], self.indptr[i + 1]
        for k in range(first, last, LINE // self.indices.itemsize):
            prefetch(self.indices, k)
        for k in range(first, last, LINE // self.data.itemsize):
            prefetch(self.data, k)


@compiled
class Gram(NamedTuple):
    """Rows of a kernel matrix K; "w as stored" is the vector of scores K·a of the expansion a."""

    k: np.ndarray

    def length(self):
        return self.k.shape[0]

    def dot(self, i, v):
        return v[i]

    def soft_dot(self, i, v, t):
        return np.nan  # no coordinates to threshold; Problem refuses l1 > 0 on kernels

    def clipped_dot(self, i, v, a, t, low, high):
        return np.nan  # no coordinates to clip; Problem refuses bounds on kernels

    def add(self, i, a, v):
        k = self.k[i]
        for j in range(k.shape[0]):
            v[j] += a * k[j]

    def sqnorm(self, i):
        return np.float64(self.k[i, i])

    def prefetch(self, i):
        prefetch(self.k, i * self.k.shape[1])


@compiled
class Some(NamedTuple):
    """The rows with numbers `which`, numbered from 0, without a copy."""

    rows: Any
    which: np.ndarray

    def length(self):
        return self.which.shape[0]

    def dot(self, i, v):
        return self.rows.dot(self.which[i], v)

    def bounded_dot(self, i, v):
        return self.rows.bounded_dot(self.which[i], v)

    def soft_dot(self, i, v, t):
        return self.rows.soft_dot(self.which[i], v, t)

    def clipped_dot(self, i, v, a, t, low, high):
        return self.rows.clipped_dot(self.which[i], v, a, t, low, high)

    def add(self, i, a, v):
        self.rows.add(self.which[i], a, v)

    def add_squares(self, i, a, v):
        self.rows.add_squares(self.which[i], a, v)

    def sqnorm(self, i):
        return self.rows.sqnorm(self.which[i])

    def row_length(self, i):
        return self.rows.row_length(self.which[i])

    def column_at(self, i, k):
        return self.rows.column_at(self.which[i], k)

    def value_at(self, i, k):
        return self.rows.value_at(self.which[i], k)

    def prefetch(self, i):
        self.rows.prefetch(self.which[i])


@compiled
class WithBias(NamedTuple):
    """Rows with a bias column: a constant column `scale` whose coefficient is the last entry of v. `centre` is added to every score.

    A penalised intercept is b = scale·v[-1] with centre 0. The proximal-point loop for a free intercept moves the centre.
    """

    rows: Any
    scale: float
    centre: float

    def length(self):
        return self.rows.length()

    def dot(self, i, v):
        return self.rows.dot(i, v) + (self.scale * v[v.shape[0] - 1] + self.centre)

    def soft_dot(self, i, v, t):
        return self.rows.soft_dot(i, v, t) + (self.scale * v[v.shape[0] - 1] + self.centre)

    def clipped_dot(self, i, v, a, t, low, high):
        return self.rows.clipped_dot(i, v, a, t, low, high) + a * (self.scale * v[v.shape[0] - 1] + self.centre)

    def add(self, i, a, v):
        self.rows.add(i, a, v)
        v[v.shape[0] - 1] += a * self.scale

    def add_squares(self, i, a, v):
        self.rows.add_squares(i, a, v)
        v[v.shape[0] - 1] += a * self.scale * self.scale

    def sqnorm(self, i):
        return self.rows.sqnorm(i) + self.scale * self.scale

    def prefetch(self, i):
        self.rows.prefetch(i)


def _readonly(array: np.ndarray) -> np.ndarray:
    # Read-only arrays are one type for the compiler, whether the caller's array is writable or not, and no kernel can write to them.
    view = array.view()
    view.flags.writeable = False
    return view


def _unsigned(indices: np.ndarray) -> np.ndarray:
    return indices.view(np.dtype(f"u{indices.dtype.itemsize}"))


def dense(x: np.ndarray) -> Dense:
    """Return the rows of a C-ordered float array, without a copy."""
    return Dense(_readonly(x))


def csr(matrix: Any) -> CSR:
    """Return the rows of a SciPy CSR matrix or array, without a copy."""
    return csr_arrays(matrix.indptr, matrix.indices, matrix.data)


def of_matrix(X: Any) -> Any:
    """Return the rows of a C-ordered array or of a SciPy CSR matrix, without a copy."""
    return csr(X) if is_sparse(X) else dense(X)


def csr_arrays(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> CSR:
    """Return the rows of the three arrays of a CSR matrix, without a copy."""
    return CSR(_readonly(_unsigned(indptr)), _readonly(_unsigned(indices)), _readonly(data))


def gram(k: np.ndarray) -> Gram:
    """Return the rows of a kernel matrix, without a copy."""
    return Gram(_readonly(k))


def some(rows: Any, which: np.ndarray) -> Some:
    """Return the rows with numbers `which`, without a copy. A choice from a choice is one Some, of the same type for the compiler."""
    return Some(rows.rows, rows.which[which]) if isinstance(rows, Some) else Some(rows, which)


@kernel
def scores(rows, v, out):
    """out[i] = xᵢ·w"""
    for i in range(rows.length()):
        out[i] = rows.dot(i, v)


@kernel
def bounded_scores(rows, v, out, sizes):
    """out[i] = xᵢ·w, off by at most u·sizes[i], where u = 2⁻⁵³"""
    for i in range(rows.length()):
        out[i], sizes[i] = rows.bounded_dot(i, v)


@kernel
def accumulate(rows, a, v):
    """v += Σ aᵢ xᵢ"""
    for i in range(rows.length()):
        if a[i] != 0.0:
            rows.add(i, a[i], v)


@kernel
def sqnorms(rows, out):
    """out[i] = ‖xᵢ‖²"""
    for i in range(rows.length()):
        out[i] = rows.sqnorm(i)


class Block(NamedTuple):
    """Some rows of a problem, in memory, and their numbers: a slice or an array."""

    index: Any
    rows: Any


def part(rows: Any, first: int, last: int) -> Any:
    """Return rows first…last−1, of the same type, without a copy (of a kernel matrix: a copy of the square of those rows and columns)."""
    if first == 0 and last == rows.length():
        return rows
    if isinstance(rows, Dense):
        return Dense(rows.x[first:last])
    if isinstance(rows, CSR):
        return CSR(rows.indptr[first : last + 1], rows.indices, rows.data)
    if isinstance(rows, Some):
        return Some(rows.rows, rows.which[first:last])
    if isinstance(rows, WithBias):
        return WithBias(part(rows.rows, first, last), rows.scale, rows.centre)
    return gram(np.ascontiguousarray(rows.k[first:last, first:last]))


def take(rows: Any, indices: np.ndarray) -> Any:
    """Return a copy of some rows, of the same type (of a kernel matrix: the square of those rows and columns)."""
    if isinstance(rows, Dense):
        return dense(rows.x[indices])
    if isinstance(rows, Gram):
        return gram(rows.k[np.ix_(indices, indices)])
    lengths = rows.indptr[indices + 1] - rows.indptr[indices]
    indptr = np.zeros(len(indices) + 1, dtype=rows.indptr.dtype)
    np.cumsum(lengths, out=indptr[1:])
    chosen, data = np.empty(int(indptr[-1]), dtype=rows.indices.dtype), np.empty(int(indptr[-1]), dtype=rows.data.dtype)
    _copy_rows(rows.indptr, rows.indices, rows.data, indices, chosen, data)
    return CSR(_readonly(indptr), _readonly(chosen), _readonly(data))


@kernel
def _copy_rows(indptr, indices, data, wanted, indices_out, data_out):
    place = 0
    for i in wanted:
        for k in range(indptr[i], indptr[i + 1]):
            indices_out[place] = indices[k]
            data_out[place] = data[k]
            place += 1


def nbytes(rows: Any) -> int:
    """Return the bytes of the rows' arrays."""
    if isinstance(rows, Dense):
        return rows.x.nbytes
    return sum(part.nbytes if isinstance(part, np.ndarray) else nbytes(part) for part in rows if not isinstance(part, float))


class Layers(NamedTuple):
    """Rows of data or of a kernel matrix, and what is around them."""

    data: Any
    which: np.ndarray | None  # the rows chosen by Some; None: all
    scale: float  # of the bias column; 0 where there is none


def layers(rows: Any) -> Layers:
    """Take rows apart: WithBias outside, Some inside of it."""
    scale, rows = (rows.scale, rows.rows) if isinstance(rows, WithBias) else (0.0, rows)
    return Layers(rows.rows, rows.which, scale) if isinstance(rows, Some) else Layers(rows, None, scale)


def with_bias_of(rows: Any, data: Any) -> Any:
    """Return `data` with the bias column of `rows`, or `data` itself where `rows` have none."""
    return WithBias(data, rows.scale, rows.centre) if isinstance(rows, WithBias) else data


def is_dense(rows: Any) -> bool:
    """Return whether every number of a row is stored, and rows are of data: neither sparse nor of a kernel matrix."""
    return isinstance(rows, Dense)


def is_sparse_data(rows: Any) -> bool:
    """Return whether rows are of a compressed sparse matrix, or a choice of them."""
    return isinstance(rows.rows if isinstance(rows, Some) else rows, CSR)


def is_data(rows: Any) -> bool:
    """Return whether rows are of data, dense or sparse, and not of a kernel matrix."""
    return isinstance(rows, (Dense, CSR))


def longest(rows: Any) -> int:
    """Return how many numbers the longest row of data stores."""
    if isinstance(rows, Some):
        return longest(rows.rows)
    if isinstance(rows, Dense):
        return int(rows.x.shape[1])
    return int(np.diff(rows.indptr).max(initial=0))


def stored(rows: Any) -> int:
    """Return how many numbers the rows store: n·d for dense rows, the non-zeros for sparse ones."""
    return int(rows.x.size) if isinstance(rows, Dense) else len(rows.data)


def rows_ahead(rows: Any) -> int:
    """Return how many rows ahead to prefetch when rows are visited in random order: 0 if the cores' cache holds all rows."""
    return AHEAD if nbytes(rows) > SHARED_CACHE else 0
