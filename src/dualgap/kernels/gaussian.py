"""Compiled loops for kernel values: a vectorisable exponential, products of sparse rows, Gaussians and sums of them.

The exponent of a Gaussian kernel value is −γ‖x − z‖² = 2γ·x·z + left + right, left = −γ‖x‖² and right = −γ‖z‖². A panel is a dense
block of WIDTH sparse rows, without the features that none of them has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import compiled, kernel, wide_vectors

WIDTH = 128  # rows of a panel: it fits in the second-level cache


# exp(x) for x ≤ 0 as 2^k·exp(r), |r| ≤ ln 2 / 2, by a polynomial: LLVM vectorises it, unlike a call of a library function.


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
    """float64: relative error 4e-16 near 0, 3e-14 at −700."""

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


def arithmetic_of(dtype: Any) -> Any:
    return Single(np.float32(1.0)) if dtype == np.float32 else Double(1.0)


@compiled
class Panel(NamedTuple):
    """Up to WIDTH sparse rows, one a column of `values`, with a line for each feature."""

    values: np.ndarray

    def line(self, feature):
        return feature

    def meeting(self, matrix, first, last, work):
        """The lines and the numbers of one sparse row that meet the panel."""
        return matrix.indices[first:last], matrix.data[first:last]


@compiled
class CompactPanel(NamedTuple):
    """The same with lines for the features that occur in it alone; `place` has the line of a feature, −1 if there is none.

    Of many features nearly all lines would be empty, and a panel of text would fit in no cache.
    """

    values: np.ndarray
    place: np.ndarray

    def line(self, feature):
        return self.place[feature]

    def meeting(self, matrix, first, last, work):
        """The lines and the numbers of one sparse row that meet the panel."""
        lines, numbers = work
        count = 0
        for k in range(first, last):
            line = self.place[matrix.indices[k]]
            lines[count], numbers[count] = line, matrix.data[k]
            count += line >= 0  # without a branch, which would often be mispredicted
        return lines[:count], numbers[:count]


@kernel
def number_features(matrix, wanted, place):
    """Give each feature of these rows a line: place[feature] = 0, 1, …. Return how many there are."""
    count = 0
    for i in wanted:
        for k in range(matrix.indptr[i], matrix.indptr[i + 1]):
            j = matrix.indices[k]
            if place[j] < 0:
                place[j] = count
                count += 1
    return count


@kernel
def fill_panel(matrix, wanted, panel):
    """Write the sparse row wanted[t] to column t; a feature given twice counts twice."""
    for t in range(wanted.shape[0]):
        i = wanted[t]
        for k in range(matrix.indptr[i], matrix.indptr[i + 1]):
            panel.values[panel.line(matrix.indices[k]), t] += matrix.data[k]


@kernel
def _row_products(matrix, i, panel, work, out):
    """out[t] = xᵢ · row t of the panel. Four non-zeros at once, so that sums are read and written less often."""
    wide_vectors()
    # unsigned 64-bit offsets plus a signed number would be floats
    lines, data = panel.meeting(matrix, np.int64(matrix.indptr[i]), np.int64(matrix.indptr[i + 1]), work)
    values, k, end = panel.values, 0, data.shape[0]
    for t in range(WIDTH):
        out[t] = 0
    while k + 4 <= end:
        x0, x1, x2, x3 = data[k], data[k + 1], data[k + 2], data[k + 3]
        p0, p1, p2, p3 = values[lines[k]], values[lines[k + 1]], values[lines[k + 2]], values[lines[k + 3]]
        for t in range(WIDTH):
            out[t] += x0 * p0[t] + x1 * p1[t] + x2 * p2[t] + x3 * p3[t]
        k += 4
    while k < end:
        x0, p0 = data[k], values[lines[k]]
        for t in range(WIDTH):
            out[t] += x0 * p0[t]
        k += 1


@kernel
def panel_products(matrix, panel, work, acc, first, last, out):
    """out[t, i − first] = xᵢ · row t of the panel, for the rows first…last; `work` has room for the lines and the numbers of a row."""
    wide_vectors()
    height = acc.shape[0]
    for start in range(first, last, height):
        rows = min(height, last - start)
        for s in range(rows):
            _row_products(matrix, start + s, panel, work, acc[s])
        for t in range(out.shape[0]):
            for s in range(rows):
                out[t, start + s - first] = acc[s, t]


@kernel
def gaussian_rows(arithmetic, twice_gamma, products, left, right, store, slots, first):
    """store[slots[t], first + i] = exp(2γ·products[t, i] + left[t] + right[i])"""
    wide_vectors()
    zero = arithmetic.one - arithmetic.one
    for t in range(products.shape[0]):
        p, row, base = products[t], store[slots[t], first : first + products.shape[1]], left[t]
        for i in range(p.shape[0]):
            row[i] = arithmetic.negative_exp(min(twice_gamma * p[i] + (base + right[i]), zero))


@kernel
def gaussian_sum(arithmetic, twice_gamma, products, left, right, a, out):
    """out[i] += Σₜ a[t]·exp(2γ·products[i, t] + left[t] + right[i]): a sum for each row, in registers as wide as its precision allows"""
    wide_vectors()
    zero = arithmetic.one - arithmetic.one
    for i in range(products.shape[0]):
        p, base, total = products[i], right[i], zero
        for t in range(p.shape[0]):
            total += a[t] * arithmetic.negative_exp(min(twice_gamma * p[t] + (base + left[t]), zero))
        out[i] += total


class Terms(NamedTuple):
    """An expansion over one panel: weights (zero beyond its end), −γ‖x‖² of its rows, and 2γ."""

    a: np.ndarray
    left: np.ndarray
    twice_gamma: Any


@kernel
def sparse_gaussian_sum(arithmetic, matrix, panel, work, terms, right, first, last, out):
    """out[i] += Σₜ a[t]·exp(−γ‖xᵢ − row t of the panel‖²): products, exponents and sum while they are in the first cache"""
    wide_vectors()
    zero = arithmetic.one - arithmetic.one
    p = np.empty(WIDTH, dtype=panel.values.dtype)
    for i in range(first, last):
        _row_products(matrix, i, panel, work, p)
        base = right[i]
        total = zero
        for t in range(WIDTH):
            total += terms.a[t] * arithmetic.negative_exp(min(terms.twice_gamma * p[t] + (base + terms.left[t]), zero))
        out[i] += total
