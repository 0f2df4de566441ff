"""BlockedGram: a kernel matrix that exceeds the memory given, as an LRU cache of blocks of its rows.

It is what `Problem.rows` is for coordinate methods on such a kernel. Compiled code sees a GramBlock, whose rows are in memory, and an order
of rows that stays within it: `split_order` makes one piece per block, `load_block` returns the rows for a piece. Both return any other
kind of rows unchanged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import WithBias, add_in_threads, compiled, held, layers, number_of_bytes, prefetch, with_bias_of

__all__ = ["BlockedGram", "GramBlock", "add_rows", "as_bytes", "load_block", "split_order"]

KEPT_BLOCKS = 4  # blocks that the memory holds: several, so that one is reused while others come and go


@compiled
class GramBlock(NamedTuple):
    """Rows of a kernel matrix from row `first` on; the diagonal of all rows."""

    k: np.ndarray
    diagonal: np.ndarray
    first: int

    def length(self):
        return self.diagonal.shape[0]

    def dot(self, i, v):
        return v[i]

    def soft_dot(self, i, v, t):
        return np.nan  # as for Gram rows

    def clipped_dot(self, i, v, a, t, low, high):
        return np.nan

    def add(self, i, a, v):
        k = self.k[int(np.int64(i) - self.first)]
        for j in range(k.shape[0]):
            v[j] += a * k[j]

    def sqnorm(self, i):
        return self.diagonal[i]

    def prefetch(self, i):
        prefetch(self.k, (np.int64(i) - self.first) * self.k.shape[1])


class BlockedGram:
    """The rows of K(X, X) in blocks; the least recently used block is dropped when the memory is full.

    Parameters
    ----------
    kernel : function of two arrays of rows that returns their kernel matrix
    diagonal : k(x, x) of every row
    memory : int
        Bytes for the blocks that are kept.
    """

    def __init__(self, kernel: Callable[[Any, Any], np.ndarray], X: Any, diagonal: np.ndarray, memory: int) -> None:
        self.kernel, self.X, self.memory = kernel, X, memory
        self.n = X.shape[0]
        self.diagonal = np.ascontiguousarray(diagonal, dtype=np.float64)
        self.diagonal.flags.writeable = False
        if memory < 8 * self.n * KEPT_BLOCKS:
            raise ValueError(
                f"kernel_memory={memory} bytes is too little: {KEPT_BLOCKS} rows of the kernel matrix take {8 * self.n * KEPT_BLOCKS}"
            )
        self.height = memory // (8 * self.n * KEPT_BLOCKS)  # rows a block
        self.computed = 0  # blocks computed so far: what the cache failed to save
        self._kept: OrderedDict[int, GramBlock] = OrderedDict()
        self._lock = threading.Lock()  # problems in several threads may share these rows

    def block(self, number: int) -> GramBlock:
        """Return a block from the cache, or compute it."""
        with held(), self._lock:  # Ctrl-C waits: it must not leave the lock behind, nor half a block
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
            while len(self._kept) >= KEPT_BLOCKS:  # before the new block is computed: both would exceed the memory
                self._kept.popitem(last=False)
            first = number * self.height
            k = np.ascontiguousarray(self.kernel(self.X[first : first + self.height], self.X), dtype=np.float64)
            k.flags.writeable = False
            self.computed += 1
            block = self._kept[number] = GramBlock(k, self.diagonal, first)
            return block

    def __reduce__(self) -> tuple[Any, ...]:  # without the blocks, which are cheaper to compute than to copy
        return BlockedGram, (self.kernel, self.X, np.array(self.diagonal), self.memory)

    def split(self, order: np.ndarray) -> list[np.ndarray]:
        """Split an order of rows by block: blocks as they first appear in it, rows of a block in its sequence."""
        blocks = order // self.height
        _, appearance, member = np.unique(blocks, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(appearance))[member]
        return np.split(order[np.argsort(rank, kind="stable")], np.cumsum(np.bincount(rank))[:-1]) if len(order) else []

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Return K·a; blocks without a non-zero weight are not computed."""
        v = np.zeros(self.n)
        numbers = np.unique(np.flatnonzero(a) // self.height)
        # Blocks in memory first: the others would evict them.
        for k in sorted(numbers, key=lambda k: (k not in self._kept, k)):
            block = self.block(int(k))
            v += a[block.first : block.first + len(block.k)] @ block.k
        return v

    def head(self, count: int) -> BlockedGram:
        """Return the leading square of the matrix, in at least two blocks."""
        memory = 8 * count * max(count // 2, 1) * KEPT_BLOCKS
        return BlockedGram(self.kernel, self.X[:count], self.diagonal[:count].copy(), memory)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Iterate over the arrays, as for other rows."""
        return iter((self.diagonal,))


def _without_bias(rows: Any) -> Any:
    return rows.rows if isinstance(rows, WithBias) else rows  # `layers` takes three times as long, which shows in small epochs


def split_order(rows: Any, order: np.ndarray) -> list[np.ndarray]:
    """Split an order of rows into pieces that each need one block in memory."""
    inner = _without_bias(rows)
    return inner.split(order) if isinstance(inner, BlockedGram) else [order]


def load_block(rows: Any, piece: np.ndarray) -> Any:
    """Return rows as compiled code takes them, for a piece of `split_order`."""
    inner = _without_bias(rows)
    if not isinstance(inner, BlockedGram):
        return rows
    block = inner.block(int(piece[0]) // inner.height)
    return with_bias_of(rows, block)


def add_rows(rows: Any, a: np.ndarray, v: np.ndarray) -> None:
    """v += Σ aᵢ xᵢ over all rows."""
    inner, _, scale = layers(rows)
    if not isinstance(inner, BlockedGram):
        add_in_threads(rows, a, v)
        return
    v[: inner.n] += inner.combine(a)
    if scale:
        v[-1] += scale * float(a.sum())


def as_bytes(memory: Any) -> int:
    """Return a number of bytes from a number, or from words such as "500 MB" and "2GB"."""
    return number_of_bytes("kernel_memory", memory)
