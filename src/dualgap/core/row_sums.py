"""Whole passes over the rows in threads, for those that read and do not change what others read: scores, and sums of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core.rows import CSR, Dense, Some, WithBias, accumulate, nbytes, scores, sqnorms
from dualgap.core.threads import READING, processors, share

__all__ = ["add_in_threads", "scores_in_threads", "sqnorms_in_threads"]


def scores_in_threads(rows: Any, v: np.ndarray, out: np.ndarray) -> None:
    """`scores`, in as many threads as pay; each number is the same whatever their count."""
    if len(out) < 2 * _least(rows):
        scores(rows, v, out)
        return
    share(lambda first, last: scores(_piece(rows, first, last), v, out[first:last]), len(out), _least(rows))


def sqnorms_in_threads(rows: Any, out: np.ndarray) -> None:
    """`sqnorms`, in as many threads as pay."""
    if len(out) < 2 * _least(rows):
        sqnorms(rows, out)
        return
    share(lambda first, last: sqnorms(_piece(rows, first, last), out[first:last]), len(out), _least(rows))


def add_in_threads(rows: Any, a: np.ndarray, v: np.ndarray) -> None:
    """`accumulate`, in two threads where that pays: each sums into a vector of its own."""
    if len(a) < 2 * _least(rows) or processors() == 1:
        accumulate(rows, a, v)
        return
    half, sums = len(a) // 2, (v, np.zeros_like(v))

    def work(first: int, last: int) -> None:
        for k in range(first, last):
            place = slice(0, half) if k == 0 else slice(half, len(a))
            accumulate(_piece(rows, place.start, place.stop), a[place], sums[k])

    share(work, 2, 1)
    v += sums[1]


def _piece(rows: Any, first: int, last: int) -> Any:
    """Rows first…last−1, of the same type, without a copy."""
    if isinstance(rows, Dense):
        return Dense(rows.x[first:last])
    if isinstance(rows, CSR):
        return CSR(rows.indptr[first : last + 1], rows.indices, rows.data)
    if isinstance(rows, Some):
        return Some(rows.rows, rows.which[first:last])
    return WithBias(_piece(rows.rows, first, last), rows.scale, rows.centre)


def _least(rows: Any) -> int:
    """How many rows make a thread's work; all of them where rows are no rows of data (a kernel matrix is dealt with elsewhere)."""
    inner = rows.rows if isinstance(rows, WithBias) else rows
    inner = inner.rows if isinstance(inner, Some) else inner
    if isinstance(inner, Dense):
        return max(1, READING // max(inner.x.shape[1] * inner.x.itemsize, 1))
    if isinstance(inner, CSR):
        return max(1, int(READING / (nbytes(inner) / max(len(inner.indptr) - 1, 1))))
    return 2**62
