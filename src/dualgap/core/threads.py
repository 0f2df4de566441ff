"""Threads for compiled kernels and the BLAS, which run without Python's global lock.

A range of rows is shared out in equal pieces. Whole passes over rows are here for those that read the rows and do not change what others
read: scores, squared norms and sums of rows.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dualgap.core.interrupts import counted, held, hold, in_main_thread, release
from dualgap.core.machine import OWN_CACHE, READING
from dualgap.core.rows import Dense, accumulate, bounded_scores, is_data, layers, nbytes, part, scores, sqnorms

_here = threading.local()


def processors() -> int:
    """Return how many processors this thread may use: those of the process, or one within `one_processor`."""
    return 1 if getattr(_here, "alone", False) else _all_processors()


def _all_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep the work of this thread to one processor, where other threads of the same kind have the others."""
    before, _here.alone = getattr(_here, "alone", False), True
    try:
        yield
    finally:
        _here.alone = before


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    # By process number: threads do not survive a fork, and a child that waited for its parent's would wait for ever.
    return ThreadPoolExecutor(_all_processors(), thread_name_prefix="dualgap-rows")


def share(work: Callable[[int, int], Any], count: int, least: int) -> list[Any]:
    """Call work(first, last) for pieces of range(count), in threads where each has at least `least` to do; return the results in order.

    The work must not call `share` itself.
    """
    pieces = count // max(least, 1)
    if pieces > 1:  # one piece needs no count of processors, which is a call to the operating system
        pieces = min(pieces, processors())
    if pieces <= 1:
        return [work(0, count)]
    bounds = [count * k // pieces for k in range(pieces + 1)]
    pool = _pool(os.getpid())
    with held():  # Ctrl-C waits: afterwards no thread writes to arrays that the caller goes on to use
        others = [pool.submit(work, first, last) for first, last in pairwise(bounds[1:])]
        return [work(bounds[0], bounds[1]), *(other.result() for other in others)]


def share_sum(work: Callable[[int, int, np.ndarray], Any], count: int, least: int, out: np.ndarray) -> list[Any]:
    """Call work(first, last, sums), which adds to `sums`, for pieces of range(count); return the results in order.

    Each thread but the first sums into a vector of its own, which is as long as `out` and is added to it in the end. Where that vector
    exceeds a core's cache there are two threads at most.
    """
    pieces = 1 if count < 2 * least else min(count // max(least, 1), processors(), 2 if out.nbytes > OWN_CACHE else count)
    if pieces <= 1:
        return [work(0, count, out)]
    bounds, sums = [count * k // pieces for k in range(pieces + 1)], [out, *(np.zeros_like(out) for _ in range(pieces - 1))]
    results = share(lambda k, _: work(bounds[k], bounds[k + 1], sums[k]), pieces, 1)
    for further in sums[1:]:
        out += further
    return results


# ------------------------------------------------------------------------------------------------------ whole passes over rows


def scores_in_threads(rows: Any, v: np.ndarray, out: np.ndarray) -> None:
    """`scores`, in as many threads as pay; each number is the same whatever their count."""
    least = rows_per_thread(rows)
    if len(out) < 2 * least:
        scores(rows, v, out)
        return
    share(lambda first, last: scores(part(rows, first, last), v, out[first:last]), len(out), least)


def bounded_scores_in_threads(rows: Any, v: np.ndarray, out: np.ndarray, sizes: np.ndarray) -> None:
    """`bounded_scores`, in as many threads as pay; each number is the same whatever their count."""
    least = rows_per_thread(rows)
    if len(out) < 2 * least:
        bounded_scores(rows, v, out, sizes)
        return
    share(lambda first, last: bounded_scores(part(rows, first, last), v, out[first:last], sizes[first:last]), len(out), least)


def sqnorms_in_threads(rows: Any, out: np.ndarray) -> None:
    """`sqnorms`, in as many threads as pay."""
    share(lambda first, last: sqnorms(part(rows, first, last), out[first:last]), len(out), rows_per_thread(rows))


def add_in_threads(rows: Any, a: np.ndarray, v: np.ndarray) -> None:
    """`accumulate`, in as many threads as pay; their number changes the rounding."""
    least = rows_per_thread(rows)
    if len(a) < 2 * least:
        accumulate(rows, a, v)
        return
    share_sum(lambda first, last, sums: accumulate(part(rows, first, last), a[first:last], sums), len(a), least, v)


def rows_per_thread(rows: Any) -> int:
    """Return how many rows are worth a thread: READING bytes of them. More than there can be of a kernel matrix, which has its own sums."""
    if isinstance(rows, Dense):
        return max(1, READING // max(rows.x.itemsize * rows.x.shape[1], 1))
    data = rows if is_data(rows) else layers(rows).data
    return max(1, READING * data.length() // max(nbytes(data), 1)) if is_data(data) else sys.maxsize


# ------------------------------------------------------------------------------------------------------------------ the BLAS


class _Alone:
    """While any thread is inside, the BLAS keeps to the thread that calls it; the last one to leave restores the earlier setting.

    The rows are shared out to our threads, and the BLAS's own would compete with those: on a busy machine small products took ten times
    as long with them. Ctrl-C waits while it enters and leaves: a count that is off by one would keep the BLAS to one thread for good.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.depth = 0  # how often the main thread is inside, which alone hears Ctrl-C
        self.found: Any = None
        self.limit: Any = None
        counted.append(self)

    def __enter__(self) -> None:
        hold()
        try:
            with self.lock:
                if self.inside == 0:
                    if self.found is None:
                        from threadpoolctl import ThreadpoolController

                        self.found = ThreadpoolController().select(user_api="blas")
                    self.limit = self.found.limit(limits=1)
                self.inside += 1
                self.depth += in_main_thread()
        finally:
            release()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Leave once."""
        hold()
        try:
            with self.lock:
                self.inside -= 1
                self.depth -= in_main_thread()
                if self.inside == 0:
                    self.limit.restore_original_limits()
        finally:
            release()


blas_alone = _Alone()
