"""Store: training data on disk: labels, parts as blocks of rows, and blocks mixed of runs from all parts."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from dualgap.core import Block
from dualgap.core import rows as storage
from dualgap.data import Encoder, Preparation, is_url
from dualgap.problem import as_features
from dualgap.store.manifest import Manifest, save_json
from dualgap.store.part_files import Layout, StoreError, array_path, layout_of, npy_header, read_array
from dualgap.store.problem import StoreProblem

__all__ = ["Store", "read_ahead", "write_encoder"]

PREPARATION = "preparation.json"
VERSION = 1
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


class Store:
    """Training data on disk, read block by block; made by `dualgap convert` or `dualgap.store.conversion`.

    Labels are held in memory (two bytes a row, or eight for the targets of a regression), rows never are. Sizes are checked when the
    store is opened, and checksums the first time each block is read. `fit` and `solve` take it
    as it is: `LinearSVC().fit(store)`, `solve(store.problem(l2=1e-5))`.

    Parameters
    ----------
    folder : path

    Examples
    --------
    >>> import os, tempfile
    >>> import dualgap
    >>> from dualgap.store.store import Store
    >>> from dualgap.store.conversion import convert
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n" * 50)
    >>> store = convert(path, os.path.join(folder, "store"))
    >>> store
    Store(100 × 3 sparse float64, 2 classes, 1 part)
    >>> dualgap.solve(store.problem(l2=0.01)).status
    'converged'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if is_url(folder):
            raise StoreError(
                f"{folder}: a store is read many times, so it is on a local disk; copy it to a local folder and open that"
            )
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)
        self.parts = self.manifest.parts
        self.starts = np.concatenate([[0], np.cumsum([part.rows for part in self.parts])]).astype(np.int64)
        self._verified: set[tuple[int, str]] = set()
        self.bytes_read = 0  # since the store was opened

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.manifest.rows, self.manifest.features

    @property
    def is_sparse(self) -> bool:
        """Whether rows are stored by their non-zeros."""
        return self.manifest.storage == "csr"

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return sum(part.nbytes for part in self.parts)

    @property
    def task(self) -> str:
        """What the labels are for: "classification", or "regression", whose labels are numbers."""
        return self.manifest.task

    @property
    def classes(self) -> np.ndarray:
        """The distinct labels, sorted; none for a regression."""
        return np.sort(np.asarray(self.manifest.classes))

    def labels(self, parts: Sequence[int] | None = None) -> np.ndarray:
        """Return the label of every row, in the order of the store; of some parts, if these are given by their numbers."""
        return self._labels(parts) if self.task == "regression" else self.classes[self.codes(parts)]

    def codes(self, parts: Sequence[int] | None = None) -> np.ndarray:
        """Return the place of every row's label in `classes`; of some parts, if these are given."""
        found = np.asarray(self.manifest.classes)
        place = np.searchsorted(self.classes, found).astype(np.uint16)
        return place[self._labels(parts)]

    def _labels(self, parts: Sequence[int] | None) -> np.ndarray:
        """Return the labels as they are stored: places in the list of classes, or targets."""
        return np.concatenate([self._array(k, "labels") for k in (range(len(self.parts)) if parts is None else parts)])

    def origin(self) -> np.ndarray:
        """Return which row of the input each row of the store was; `result.dual[argsort(origin)]` is in the order of the input."""
        return np.concatenate([self._array(k, "origin") for k in range(len(self.parts))])

    def sqnorms(self) -> np.ndarray:
        """‖x‖² of every row."""
        return np.concatenate([self._array(k, "sqnorms") for k in range(len(self.parts))])

    def offsets(self, k: int) -> np.ndarray:
        """Return where the rows of a sparse part begin in its indices and data."""
        return self._array(k, "indptr")

    def problem(self, loss: Any = "hinge", **options: Any) -> StoreProblem:
        """Return a problem over the store; options as for `dualgap.Problem`, save `kernel`."""
        return StoreProblem(self, loss, **options)

    @property
    def preparation(self) -> Preparation | None:
        """What was done to the columns of the tables that the store was made from; None for other data."""
        return self.encoder.preparation

    @property
    def encoder(self) -> Encoder:
        """What turned rows into features, so that a model can read other data: a preparation of columns, a scaler, or neither."""
        path = self.folder / PREPARATION
        if not path.exists():
            return Encoder()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["version"] != VERSION:
                raise ValueError(f"version {content['version']}, this dualgap reads version {VERSION}")
            return Encoder.from_dict(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} is damaged ({' '.join(str(error).split())[:200]}): convert the data again") from None

    # -------------------------------------------------------------------------------------------------------------- reading

    def read(self, k: int) -> Block:
        """Return part k as a block."""
        arrays = [self._array(k, name) for name in self._row_arrays]
        rows = storage.csr_arrays(*arrays) if self.is_sparse else storage.dense(*arrays)
        return Block(slice(int(self.starts[k]), int(self.starts[k + 1])), rows)

    def stream(self, order: Sequence[int] | None = None) -> Iterator[Block]:
        """Yield parts in the given order; while one is worked on, a thread reads the next."""
        return read_ahead(self.read, range(len(self.parts)) if order is None else order)

    def mixed(self, rng: np.random.Generator) -> Iterator[Block]:
        """Yield all rows once, in blocks of about a part's size, each made of short runs of rows from all over the store.

        Fixed blocks in sequence take many times the epochs of a random order. Blocks mixed anew for every epoch take no more than a random
        order; their runs are long enough to be read at the disk's full speed.
        """
        for k in range(len(self.parts)):
            for name in self._row_arrays:
                if (k, name) not in self._verified:  # a run has no checksum of its own
                    self._array(k, name)
        runs = self._runs
        blocks = np.array_split(rng.permutation(len(runs.first)), max(len(self.parts), 1))
        return read_ahead(lambda some: runs.read(np.sort(some)), [some for some in blocks if len(some)])

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self)

    def matrix(self, k: int) -> Any:
        """Return the rows of block k as an array or a CSR matrix."""
        arrays = {name: self._array(k, name) for name in self._row_arrays}
        if not self.is_sparse:
            return arrays["x"]
        return sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(self.parts[k].rows, self.shape[1]))

    def verify(self) -> None:
        """Read every file and compare its checksum; a StoreError names the first that is wrong."""
        self._verified.clear()
        for k, part in enumerate(self.parts):
            for name in part.files:
                self._array(k, name)

    @property
    def _row_arrays(self) -> tuple[str, ...]:
        return ("indptr", "indices", "data") if self.is_sparse else ("x",)

    def _array(self, k: int, name: str) -> np.ndarray:
        """Return an array of part k; the first time its checksum is compared and its contents are checked."""
        fresh = (k, name) not in self._verified
        values = read_array(self.folder, self.parts[k], name, self.layout(k, name), verify=fresh)
        self.bytes_read += values.nbytes
        if fresh:
            self._check_contents(k, name, values)
        self._verified.add((k, name))
        return values

    def layout(self, k: int, name: str) -> Layout:
        """Return the shape and type of an array of part k."""
        return layout_of(self.parts[k], name, self.manifest.dtype, self.shape[1], self.task)

    def _check_contents(self, k: int, name: str, values: np.ndarray) -> None:
        """Raise unless the values of an array are such that compiled code, which checks no bounds, cannot leave the arrays."""
        part, columns = self.parts[k], self.shape[1]
        if name == "indptr":
            if values[0] != 0 or values[-1] != part.stored or (values[1:] < values[:-1]).any():
                raise self._wrong(k, f"the row offsets do not rise from 0 to {part.stored}, the number of stored values")
        elif name == "indices":
            if values.size and not (values.min() >= 0 and values.max() < columns):
                raise self._wrong(k, f"a column lies outside 0…{columns - 1}")
        elif name == "labels":
            if self.task == "regression":
                if not np.isfinite(values).all():
                    raise self._wrong(k, "a target is not a finite number")
            elif values.size and values.max() >= len(self.manifest.classes):
                raise self._wrong(k, "a label is not in the manifest's list of classes")
        elif name == "sqnorms":
            if values.size and not (values.min() >= 0.0 and values.max() < np.inf):
                raise self._wrong(k, "a squared length of a row is negative or not finite")
        elif name in ("data", "x") and values.size:
            as_features(values.reshape(1, -1), f"{self.folder}, {part.name}")

    def _wrong(self, k: int, what: str) -> StoreError:
        return StoreError(f"{self.folder}, {self.parts[k].name}: {what}; convert the data again")

    def __reduce__(self) -> Any:
        return type(self), (str(self.folder),)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        parts = "1 part" if len(self.parts) == 1 else f"{len(self.parts)} parts"
        rows, features = self.shape
        labels = "targets" if self.task == "regression" else f"{len(self.manifest.classes)} classes"
        return f"Store({rows:,} × {features:,} {kind} {self.manifest.dtype}, {labels}, {parts})"


def write_encoder(folder: Path, encoder: Encoder, labels: dict[str, Any]) -> None:
    """Keep what was learned, names, categories and scales, beside the parts; nothing for rows that are taken as they are."""
    if encoder.preparation is not None or encoder.scaler is not None:
        save_json(folder / PREPARATION, {"version": VERSION, **encoder.to_dict(), **labels})


class Runs:
    """Where every run of a store's rows begins and ends. Holds the row offsets of sparse parts, four bytes a row."""

    def __init__(self, store: Store) -> None:
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
        self.store.bytes_read += place
