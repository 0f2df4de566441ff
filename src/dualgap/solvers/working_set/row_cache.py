"""A cache of kernel rows over the active rows, in a fixed memory: step 4 of README.md, which says what is evicted first."""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel, machine, share
from dualgap.kernels import KernelBlocks, scratch

__all__ = ["RowCache"]

PARTS = 3  # numbers of memory / numbers of a whole kernel matrix, at most: room for the matrix, a factor and columns of an inverse
RESERVED = np.iinfo(np.int64).max  # the time of last use of a slot whose memory is reserved: never the oldest


class RowCache:
    """Kernel rows over the active rows of a problem.

    Order of calls: `fetch` whenever rows are needed; `restrict` after rows were shrunk, `extend` after rows were unshrunk; between
    `reserve` and `release` a part of the memory belongs to the caller. All of them change `store`, `slot_of` and `row_in`.

    `blocks` computes the rows of the active rows, `memory` is the number of bytes to keep them in. No more than `most` rows will ever be
    active; if it is 0, no more than there are now.
    """

    def __init__(self, blocks: KernelBlocks, memory: int, most: int = 0) -> None:
        self.computed = 0  # rows computed so far
        self.memory = np.empty(min(memory // blocks.dtype.itemsize, PARTS * max(most, blocks.count) ** 2), dtype=blocks.dtype)
        self._clock = 0
        self._clear(blocks)
        # With room for all rows beside any reservation, row i has slot i, and nothing is ever evicted.
        self.roomy = len(self.memory) >= PARTS * blocks.count**2

    def _clear(self, blocks: KernelBlocks) -> None:
        """Forget all rows; later ones are those of `blocks`, in the same memory."""
        capacity = min(len(self.memory) // blocks.count, blocks.count)
        self.roomy = False  # rows that were moved have other slots
        store = self.memory[: capacity * blocks.count].reshape(capacity, blocks.count)
        slot_of, row_in = np.full(blocks.count, -1, dtype=np.int64), np.full(capacity, -1, dtype=np.int64)
        used = np.zeros(capacity, dtype=np.int64)  # time of last use, by slot; 0: empty
        self.blocks, self.capacity, self.store, self.slot_of, self.row_in, self._used = (
            blocks,
            capacity,
            store,
            slot_of,
            row_in,
            used,
        )

    def _forget(self) -> None:
        """Hold no rows, before the memory moves: an interrupt must not leave slots that claim to hold what they do not."""
        self.slot_of[:] = -1
        self.row_in[:] = -1

    def fetch(self, rows: np.ndarray, evict_first: np.ndarray | None = None) -> np.ndarray:
        """Return the slots of `store` that hold these rows, at most `capacity` and none twice; compute those that are missing.

        Rows of the mask `evict_first` that the last call did not ask for are evicted even before empty memory is used."""
        self._clock += 1
        if self.roomy:
            missing = rows[self.slot_of[rows] < 0]
            if len(missing):
                self.blocks.write_rows(self.blocks.own(missing), self.store, missing)
                self._enter(missing, missing, self._clock)
                self.computed += len(missing)
            return rows
        slots = self.slot_of[rows]
        missing = np.flatnonzero(slots < 0)
        self._used[slots[slots >= 0]] = self._clock
        if len(missing):
            chosen = self._evict(len(missing), evict_first)
            # An interrupt while rows are computed must not leave slots that claim to hold them: they are entered afterwards.
            self.blocks.write_rows(self.blocks.own(rows[missing]), self.store, chosen)
            self._enter(chosen, rows[missing], self._clock)
            slots[missing] = chosen
            self.computed += len(missing)
        return slots

    def _enter(self, slots: np.ndarray, rows: np.ndarray, used: np.ndarray | int) -> None:
        self.row_in[slots], self.slot_of[rows], self._used[slots] = rows, slots, used

    def _evict(self, count: int, first: np.ndarray | None) -> np.ndarray:
        """Return this many slots to write to, ascending, after removing what they hold."""
        slots = np.arange(count) if count == self.capacity else self._oldest(count, first)
        rows = self.row_in[slots]
        self.slot_of[rows[rows >= 0]] = -1
        self.row_in[slots] = -1
        return slots

    def _oldest(self, count: int, first: np.ndarray | None) -> np.ndarray:
        if first is not None:
            full = self.row_in >= 0
            early = full & (self._used < self._clock - 1)
            early[early] = first[self.row_in[early]]
            empty = ~full & (self._used < RESERVED)
            # Empty slots in the order of memory: the rest of it stays untouched.
            slots = np.concatenate([np.flatnonzero(early), np.flatnonzero(empty)])[:count]
            if len(slots) == count:
                return np.sort(slots)
            used = np.where(early, -1, np.where(empty, 0, self._used + full))
        else:
            used = self._used
        return np.sort(np.argpartition(used, count - 1)[:count])

    def matrix(self, rows: np.ndarray, slots: np.ndarray, bias: float, out: np.ndarray | None = None) -> np.ndarray:
        """Return the kernel matrix of rows that were fetched, plus `bias`: in `out`, or in scratch memory, or as the store itself."""
        if out is None and self.store.shape == (len(rows), len(rows)) and bias == 0.0:
            places = np.arange(len(rows))
            if (rows == places).all() and (slots == places).all():
                return self.store
        K = (scratch(len(rows) ** 2, self.store.dtype) if out is None else out).reshape(len(rows), len(rows))
        share(lambda first, last: _gather(self.store, slots, rows, K, first, last), len(rows), machine.THREAD_VALUES // len(rows))
        if bias:
            K += bias
        return K

    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return the kernel values of some of the active rows with all of them, a copy."""
        return self.store[self.fetch(rows)]

    def reserve(self, count: int, rows: int) -> np.ndarray | None:
        """Return `count` numbers at the end of the memory, until `release`; None unless `rows` rows fit beside them."""
        first = (len(self.memory) - count) // self.blocks.count
        if first < rows:
            return None
        lost = self.row_in[first:]
        self.slot_of[lost[lost >= 0]] = -1
        lost[:] = -1
        self._used[first:] = RESERVED
        return self.memory[len(self.memory) - count :]

    def release(self) -> None:
        """End the reservation."""
        self._used[self._used == RESERVED] = 0

    def restrict(self, kept: np.ndarray) -> None:
        """Go on with some of the active rows, at these ascending positions: their kernel rows are kept, without the other columns."""
        before = self.store.shape[1]
        position = np.full(before, -1)
        position[kept] = np.arange(len(kept))
        slots = np.flatnonzero(self.row_in >= 0)
        slots = slots[position[self.row_in[slots]] >= 0]
        rows, used = position[self.row_in[slots]], self._used[slots]
        self._forget()
        _compact(self.memory, slots, before, kept)
        self._clear(self.blocks.take(kept))
        self._enter(np.arange(len(rows)), rows, used)

    def extend(self, blocks: KernelBlocks, position: np.ndarray, keep: np.ndarray) -> None:
        """Go on with more active rows, those of `blocks`; the present ones are at these positions among them.

        The kernel rows in the mask `keep` stay, as many as fit, and get their new columns."""
        before = self.store.shape[1]
        capacity = min(len(self.memory) // blocks.count, blocks.count)
        slots = np.flatnonzero(self.row_in >= 0)
        slots = slots[keep[self.row_in[slots]]]
        if len(slots) > capacity:
            slots = np.sort(slots[np.argsort(-self._used[slots], kind="stable")[:capacity]])
        rows, used = position[self.row_in[slots]], self._used[slots]
        self._forget()
        # First to the front, then apart from the last to the first: nothing is overwritten before it is read.
        _compact(self.memory, slots, before, np.arange(before))
        _spread(self.memory, len(slots), before, blocks.count, position)
        self._clear(blocks)
        new = np.delete(np.arange(blocks.count), position)
        if len(rows) and len(new):
            columns = np.empty((len(rows), len(new)), dtype=self.store.dtype)
            blocks.take(new).write_rows(blocks.own(rows), columns, np.arange(len(rows)))
            _scatter(columns, new, self.store)
        self._enter(np.arange(len(rows)), rows, used)


@kernel
def _gather(store, slots, columns, out, first, last):
    """out[s, t] = store[slots[s], columns[t]] for the rows first…last"""
    for s in range(first, last):
        row = store[slots[s]]
        for t in range(columns.shape[0]):
            out[s, t] = row[columns[t]]


@kernel
def _compact(memory, slots, before, kept):
    """Move the kept columns of these slots, which ascend, to the front."""
    place = 0
    for slot in slots:
        base = slot * before
        for j in kept:
            memory[place] = memory[base + j]
            place += 1


@kernel
def _spread(memory, count, before, after, position):
    """Turn rows of `before` numbers, one after the other, into rows of `after` with number j at position[j]."""
    for slot in range(count - 1, -1, -1):
        for j in range(before - 1, -1, -1):
            memory[slot * after + position[j]] = memory[slot * before + j]


@kernel
def _scatter(values, columns, store):
    """store[s, columns[t]] = values[s, t]"""
    for s in range(values.shape[0]):
        for t in range(columns.shape[0]):
            store[s, columns[t]] = values[s, t]
