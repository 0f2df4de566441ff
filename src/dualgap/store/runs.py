"""Runs: consecutive rows of a store, short enough to be mixed and long enough to be read at the disk's full speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from dualgap.core import Block
from dualgap.core import rows as storage
from dualgap.store.part_files import StoreError, array_path, npy_header

__all__ = ["Runs", "read_ahead"]

RUN_BYTES = 1 << 18  # bytes a run; a disk reads them about as fast as within a long read
FEWEST_ROWS, MANY_RUNS = 64, 1024  # rows a run; runs a store. A small store has shorter runs, so there are enough to mix

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(read: Callable[[Item], Result], wanted: Iterable[Item], threads: int = 1) -> Iterator[Result]:
    """Yield read(item) for every item, in their order; threads make the next ones while the caller works on this one."""
    with ThreadPoolExecutor(threads, thread_name_prefix="dualgap-read") as pool:
        coming: deque[Future[Result]] = deque()
        for item in wanted:
            coming.append(pool.submit(read, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


class Runs:
    """Where every run of a store's rows begins and ends. Holds the row offsets of sparse parts, four bytes a row."""

    def __init__(self, store: Any) -> None:
        self.store = store
        rows = store.shape[0]
        length = max(FEWEST_ROWS, min(RUN_BYTES * rows // max(store.nbytes, 1), rows // MANY_RUNS))
        parts, first, last = [], [], []
        for k, part in enumerate(store.parts):
            begins = np.arange(0, part.rows, length)
            parts.append(np.full(len(begins), k))
            first.append(begins)
            last.append(np.minimum(begins + length, part.rows))
        self.part, self.first, self.last = (np.concatenate(each) for each in (parts, first, last))
        self.indptr = [store.offsets(k) for k in range(len(store.parts))] if store.is_sparse else []

    def read(self, chosen: np.ndarray) -> Block:
        """Return the chosen runs as one block; runs of one part should be next to each other."""
        part, first, last = self.part[chosen], self.first[chosen], self.last[chosen]
        starts = self.store.starts[part]
        index = np.concatenate([np.arange(s + a, s + b) for s, a, b in zip(starts, first, last, strict=True)])
        dtype = np.dtype(self.store.manifest.dtype)
        if not self.store.is_sparse:
            width = self.store.shape[1]
            x = np.empty((len(index), width), dtype)
            self._fill(x, "x", part, first * width, last * width)
            return Block(index, storage.dense(x))
        offsets = [self.indptr[k] for k in part]
        begins = np.array([o[a] for o, a in zip(offsets, first, strict=True)], dtype=np.int64)
        ends = np.array([o[b] for o, b in zip(offsets, last, strict=True)], dtype=np.int64)
        indptr = np.zeros(len(index) + 1, np.int32)
        lengths = [np.diff(o[a : b + 1]) for o, a, b in zip(offsets, first, last, strict=True)]
        np.cumsum(np.concatenate(lengths), out=indptr[1:])
        indices, data = np.empty(int(indptr[-1]), np.int32), np.empty(int(indptr[-1]), dtype)
        self._fill(indices, "indices", part, begins, ends)
        self._fill(data, "data", part, begins, ends)
        return Block(index, storage.csr_arrays(indptr, indices, data))

    def _fill(self, out: np.ndarray, array: str, part: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
        """Read values begins…ends of each run into `out`, one after the other; plain reads, so that no page stays mapped."""
        size = out.itemsize
        room = out.reshape(-1).view(np.uint8).data
        place = 0
        runs = zip(part.tolist(), (begins * size).tolist(), (ends * size).tolist(), strict=True)
        for k, same_part in groupby(runs, key=lambda run: run[0]):
            record = self.store.parts[k]
            path = array_path(self.store.folder, record.name, array)
            header = len(npy_header(self.store.layout(k, array)))
            with open(path, "rb", buffering=0) as stream:
                for _, begin, end in same_part:
                    stream.seek(header + begin)
                    length = end - begin
                    if length and stream.readinto(room[place : place + length]) != length:
                        raise StoreError(f"{path} became shorter while it was in use; convert the data again")
                    place += length
