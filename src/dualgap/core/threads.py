"""Threads for compiled kernels and the BLAS, which run without Python's global lock: a range of rows is shared out in equal pieces."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

from dualgap.core.machine import READING

__all__ = ["READING", "blas_alone", "collect", "one_processor", "processors", "share"]


_here = threading.local()


def processors() -> int:
    """Processors that this thread may use: those of the process, or one within `one_processor`.

    Examples
    --------
    >>> from dualgap.core.threads import processors
    >>> processors() >= 1
    True
    """
    return 1 if getattr(_here, "alone", False) else _all_processors()


def _all_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread's work to itself, where others like it have the other processors.

    Examples
    --------
    >>> from dualgap.core.threads import one_processor, processors
    >>> with one_processor():
    ...     processors()
    1
    """
    before, _here.alone = getattr(_here, "alone", False), True
    try:
        yield
    finally:
        _here.alone = before


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    # By process number: threads do not survive a fork, and a child that waited for its parent's would wait for ever.
    return ThreadPoolExecutor(_all_processors(), thread_name_prefix="dualgap-rows")


def share(work: Callable[[int, int], None], count: int, least: int) -> None:
    """Call work(first, last) for pieces of range(count), in threads where each has at least `least` to do.

    The work must not call `share` itself.

    Examples
    --------
    >>> from dualgap.core.threads import share
    >>> seen = []
    >>> share(lambda first, last: seen.append((first, last)), 10, least=100)
    >>> seen
    [(0, 10)]
    """
    pieces = min(processors(), count // max(least, 1))
    if pieces <= 1:
        work(0, count)
        return
    bounds = [count * k // pieces for k in range(pieces + 1)]
    pool = _pool(os.getpid())
    others = [pool.submit(work, first, last) for first, last in pairwise(bounds[1:])]
    work(bounds[0], bounds[1])
    for other in others:
        other.result()


def collect(work: Callable[[int, int], Any], count: int, least: int) -> list[Any]:
    """What work(first, last) returns for each of the pieces that `share` makes, in their order.

    Examples
    --------
    >>> from dualgap.core.threads import collect
    >>> collect(lambda first, last: last - first, 10, least=100)
    [10]
    """
    found: dict[int, Any] = {}
    share(lambda first, last: found.__setitem__(first, work(first, last)), count, least)
    return [found[first] for first in sorted(found)]


class _Alone:
    """While anyone is inside, the BLAS keeps to the thread that calls it; the last one out puts back what was set before.

    Threads of ours share the rows, so that the BLAS's own would only get in each other's way: on a busy machine, where one that is
    waited for may not be running, small products took ten times as long with them.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.found: Any = None
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                if self.found is None:
                    from threadpoolctl import ThreadpoolController

                    self.found = ThreadpoolController().select(user_api="blas")
                self.limit = self.found.limit(limits=1)
            self.inside += 1

    def __exit__(self, *_: Any) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.restore_original_limits()


blas_alone = _Alone()
