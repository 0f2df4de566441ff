"""A kernel matrix that is computed once, for several problems over parts of the same rows or for one problem whose rows are shrunk.

For K classes of equal size, the matrices of all pairs of classes together have 4(K − 1)/K times as many values.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from dualgap.core import kernel, kernel_part
from dualgap.kernels.function import Kernel
from dualgap.kernels.values import Distances, KernelBlocks, Left, distances_of, exact_in_float32

__all__ = ["HeldBlocks", "HeldMatrix", "copy_values"]


class HeldMatrix:
    """The kernel matrix of all rows of X in float64, computed when a value is first asked for.

    Parameters
    ----------
    kernel : Kernel, computed from inner products
    X : array or CSR matrix
    order : a permutation of the rows. Rows of one problem should be near each other in it, so that fewer bytes are read.
    """

    def __init__(self, kernel: Kernel, X: Any, order: np.ndarray) -> None:
        self.kernel, self._X, self._order, self._lock = kernel, X, order, threading.Lock()
        self._place = np.empty(len(order), dtype=np.int64)
        self._place[order] = np.arange(len(order))
        self._values: np.ndarray | None = None
        self._diagonal: np.ndarray | None = None
        self._distances: Distances | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldMatrix, (self.kernel, self._X, self._order)  # a lock is not pickled, and the values are computed again

    @property
    def values(self) -> np.ndarray:
        """The matrix, in the given order of rows."""
        with self._lock:
            if self._values is None:
                X = self._X[self._order]
                self._values = KernelBlocks(self.kernel, X, np.float64, np.float32 if exact_in_float32(X) else None).matrix()
                self._distances, self._diagonal = distances_of(self.kernel, X), self._values.diagonal().copy()
        return self._values

    def diagonal(self, places: np.ndarray) -> np.ndarray:
        """Return the values of some places with themselves."""
        assert self.values is not None
        assert self._diagonal is not None
        return self._diagonal[places]

    def distances(self, places: np.ndarray) -> Distances:
        """Return what bounds the errors of the values of some places."""
        assert self.values is not None
        assert self._distances is not None
        return self._distances.take(places)

    def part(self, rows: np.ndarray) -> HeldBlocks:
        """Return the kernel values of some rows of X with each other."""
        return HeldBlocks(self, self._place[rows])


class HeldBlocks(KernelBlocks):
    """Kernel values that are copied from a matrix which is held; used as other `KernelBlocks` are."""

    def __init__(self, held: HeldMatrix, places: np.ndarray) -> None:
        self.held, self.places, self.kernel, self.count = held, places, held.kernel, len(places)
        self.dtype, self.by_product = np.dtype(np.float64), False

    @property
    def distances(self) -> Distances:
        """What bounds the errors of the values."""
        return self.held.distances(self.places)

    @property
    def diagonal(self) -> np.ndarray:
        """The value of each row with itself."""
        return self.held.diagonal(self.places)

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """Return the kernel values of some rows with all rows."""
        return self._values(self.own(wanted))

    def take(self, indices: np.ndarray) -> HeldBlocks:
        return self if len(indices) == self.count else HeldBlocks(self.held, self.places[indices])

    def own(self, wanted: np.ndarray) -> Left:
        return Left(self.places[wanted], None, len(wanted))

    def write_rows(self, left: Left, store: np.ndarray, slots: np.ndarray) -> None:
        _copy_rows(self.held.values, self.places, left.rows, store, slots)

    def _values(self, left: Left) -> np.ndarray:
        values = np.empty((left.height, self.count))
        self.write_rows(left, values, np.arange(left.height))
        return values


@kernel_part
def copy_values(matrix, places, place, out):
    """out[t] = the value of that place and places[t]"""
    row = matrix[place]
    for t in range(places.shape[0]):
        out[t] = row[places[t]]


@kernel
def _copy_rows(matrix, places, wanted, store, slots):
    for s in range(wanted.shape[0]):
        copy_values(matrix, places, wanted[s], store[slots[s]])
