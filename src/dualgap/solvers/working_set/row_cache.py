"""Rows of a kernel matrix in a bounded memory: computed when first asked for, the least recently used given up when it is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core import kernel
from dualgap.kernels import Panels

__all__ = ["RowCache"]

LENT = np.iinfo(np.int64).max  # when a slot was used whose memory is lent: never the oldest


class RowCache:
    """Kernel rows over the open samples.

    Parameters
    ----------
    panels : Panels
        What computes rows.
    memory : int
        Bytes for the rows that are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels import Panels
    >>> from dualgap.kernels import make_kernel
    >>> from dualgap.solvers.working_set.row_cache import RowCache
    >>> cache = RowCache(Panels(make_kernel("linear"), np.array([[1.0], [2.0], [3.0]]), np.float64), memory=2 * 3 * 8)
    >>> slots = cache.fetch(np.array([2, 1]))
    >>> cache.store[slots].tolist(), cache.computed
    ([[3.0, 6.0, 9.0], [2.0, 4.0, 6.0]], 2)
    """

    def __init__(self, panels: Panels, memory: int) -> None:
        self.computed = 0  # rows that had to be computed
        self._flat: Any = np.empty(min(memory // panels.dtype.itemsize, 2 * panels.count**2), dtype=panels.dtype)
        self._clock = 0
        self.clear(panels)

    def clear(self, panels: Panels) -> None:
        """Forget all rows and go on with those that the panels compute, in the same memory."""
        self.panels = panels
        self.capacity = min(len(self._flat) // panels.count, panels.count)
        self.store = self._flat[: self.capacity * panels.count].reshape(self.capacity, panels.count)
        self.slot_of = np.full(panels.count, -1, dtype=np.int64)
        self.row_in = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)

    def fetch(self, wanted: np.ndarray, settled: np.ndarray | None = None) -> np.ndarray:
        """Where in `store` the rows wanted are; at most `capacity` of them, no row twice. Rows that are `settled` (a mask) and that the
        last call did not ask for are given up rather than memory taken that has not been in use."""
        self._clock += 1
        slots = self.slot_of[wanted]
        missing = np.flatnonzero(slots < 0)
        self.used[slots[slots >= 0]] = self._clock
        if len(missing):
            free = self._oldest(len(missing), settled)
            given_up = self.row_in[free]
            self.slot_of[given_up[given_up >= 0]] = -1
            self.row_in[free] = -1
            # Only now may they be found: who is interrupted while rows are computed must not take what was there before for them.
            self.panels.rows(self.panels.own(wanted[missing]), self.store, free)
            self.row_in[free] = wanted[missing]
            self.slot_of[wanted[missing]] = slots[missing] = free
            self.used[free] = self._clock
            self.computed += len(missing)
        return slots

    def _oldest(self, count: int, settled: np.ndarray | None) -> np.ndarray:
        if count == self.capacity:
            return np.arange(count)
        used = self.used
        if settled is not None:
            used = used.copy()
            # Empty slots have been used at 0, settled rows count as used before that.
            full = self.row_in >= 0
            used[full] += 1
            old = full & (self.used < self._clock - 1)
            old[old] = settled[self.row_in[old]]
            used[old] = -1
            # Of the empty ones, the first come first: the rest of the memory stays untouched.
            used[~full & (self.used < LENT)] = 0
            free = np.concatenate([np.flatnonzero(used < 0), np.flatnonzero(used == 0)])[:count]
            if len(free) == count:
                return np.sort(free)
        return np.sort(np.argpartition(used, count - 1)[:count])

    def lend(self, count: int, rows: int) -> np.ndarray | None:
        """`count` numbers of the memory, from its end, until `give_back`; None unless `rows` rows fit beside them. Rows there are given
        up."""
        first = (len(self._flat) - count) // self.panels.count
        if first < rows:
            return None
        lost = self.row_in[first:]
        self.slot_of[lost[lost >= 0]] = -1
        lost[:] = -1
        self.used[first:] = LENT
        return np.asarray(self._flat[len(self._flat) - count :])

    def give_back(self) -> None:
        """End of the loan: rows may be put everywhere again."""
        self.used[self.used == LENT] = 0

    def restrict(self, kept: np.ndarray) -> None:
        """Go on with some of the samples only (sorted places among the present ones): their rows are kept, shorter, in the same memory."""
        before = self.store.shape[1]
        alive = np.zeros(before, dtype=np.bool_)
        alive[kept] = True
        occupied = np.flatnonzero(self.row_in >= 0)
        occupied = occupied[alive[self.row_in[occupied]]]
        _shorten(self._flat, occupied, before, kept)
        place = np.cumsum(alive) - 1
        rows, used = place[self.row_in[occupied]], self.used[occupied]
        self.clear(self.panels.take(kept))
        self.slot_of[rows] = np.arange(len(rows))
        self.row_in[: len(rows)] = rows
        self.used[: len(rows)] = used

    def extend(self, panels: Panels, place: np.ndarray, worth: np.ndarray) -> None:
        """Go on with more samples, those of `panels`; `place` says where among them the present ones are. Rows that are `worth` it are
        kept, and their new columns computed; as many as still fit."""
        before, self.panels = self.store.shape[1], panels
        capacity = min(len(self._flat) // panels.count, panels.count)
        occupied = np.flatnonzero(self.row_in >= 0)
        occupied = occupied[worth[self.row_in[occupied]]]
        if len(occupied) > capacity:
            occupied = np.sort(occupied[np.argsort(-self.used[occupied], kind="stable")[:capacity]])
        rows, used = place[self.row_in[occupied]], self.used[occupied]
        # First to the front, then apart: from the last to the first, nothing is overwritten before it is read.
        _shorten(self._flat, occupied, before, np.arange(before))
        _lengthen(self._flat, len(occupied), before, panels.count, place)
        self.clear(panels)
        new = np.delete(np.arange(panels.count), place)
        if len(rows) and len(new):
            columns = np.empty((len(rows), len(new)), dtype=self.store.dtype)
            panels.take(new).rows(panels.own(rows), columns, np.arange(len(rows)))
            _scatter(columns, new, self.store)
        self.slot_of[rows] = np.arange(len(rows))
        self.row_in[: len(rows)] = rows
        self.used[: len(rows)] = used


@kernel
def _lengthen(flat, count, before, after, place):
    """Rows of `before` numbers, one after the other, to rows of `after` with number j at place[j]"""
    for slot in range(count - 1, -1, -1):
        for j in range(before - 1, -1, -1):
            flat[slot * after + place[j]] = flat[slot * before + j]


@kernel
def _scatter(values, columns, store):
    """store[s, columns[t]] = values[s, t]"""
    for s in range(values.shape[0]):
        for t in range(columns.shape[0]):
            store[s, columns[t]] = values[s, t]


@kernel
def _shorten(flat, occupied, before, kept):
    """Move the kept columns of the occupied slots to the front; slots ascend, so nothing is overwritten before it is read."""
    place = 0
    for slot in occupied:
        base = slot * before
        for j in kept:
            flat[place] = flat[base + j]
            place += 1
