"""From Dask collections, delayed parts or a store to loaders of partitions, one a worker.

What a loader holds can be computed again on another worker: delayed tasks, or the name of a store on a disk that all workers see. Of a data
frame with words a random sample of the rows teaches a preparation, which every worker applies to its own rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.cluster.dask_workers import Loader
from dualgap.cluster.partition import Partition
from dualgap.core import needs
from dualgap.data import Notes, Preparation
from dualgap.store import Store

__all__ = ["delayed_parts", "has_words", "loaders_for", "prepare_frame", "to_polars"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller frame is used whole
TARGET = "the labels"  # stands where a table file has the name of its label column


def loaders_for(X: Any, y: Any, sample_weight: Any, partitions: int) -> list[Loader]:
    """Return loaders of at most `partitions` partitions, with about the same number of parts each."""
    if isinstance(X, Store):
        if y is not None or sample_weight is not None:
            raise ValueError("a store has its own labels, and no weights: leave y and sample_weight out")
        starts: Sequence[float] = X.starts.tolist()
        parts: list[Any] = list(range(len(X.parts)))
    else:
        parts = delayed_parts(X, y, sample_weight)
        sizes = X.chunks[0] if hasattr(X, "chunks") else [math.nan] * len(parts)
        starts = np.cumsum([0, *sizes]).tolist()
    loaders = []
    for k, group in enumerate(np.array_split(np.arange(len(parts)), min(partitions, len(parts)))):
        place, chosen = Place(k, starts[group[0]], (int(group[0]), int(group[-1]))), [parts[i] for i in group]
        loaders.append(_store_loader(str(X.folder), chosen, place) if isinstance(X, Store) else _delayed_loader(chosen, place))
    return loaders


class Place(NamedTuple):
    """Where the rows of a partition stand in the data: the first row, which is NaN if nobody knows it, and the first and last part."""

    partition: int
    first: float
    parts: tuple[int, int]

    @contextmanager
    def named(self) -> Iterator[None]:
        """Count the row in an error from the start of the data, and name the partition."""
        try:
            yield
        except ValueError as error:
            if math.isnan(self.first):
                one, last = self.parts
                parts = f"part {one}" if one == last else f"parts {one} to {last}"
                raise ValueError(f"partition {self.partition}, with rows counted in it, {parts} of the data: {error}") from None
            moved = re.sub(r"(?<=\brow )\d+|(?<=\w\[)\d+", lambda row: str(int(row[0]) + int(self.first)), str(error), count=1)
            raise ValueError(f"partition {self.partition} of the data: {moved}") from None


def _store_loader(folder: str, numbers: list[int], place: Place) -> Loader:
    return lambda client: (_from_store, (folder, numbers, place))


def _from_store(folder: str, numbers: list[int], place: Place) -> Partition:
    store = Store(folder)
    matrices = [store.matrix(k) for k in numbers]
    X = sparse.vstack(matrices, format="csr") if store.is_sparse else np.concatenate(matrices)
    with place.named():
        return Partition(X, store.labels(numbers))  # of its own parts alone: those of all rows may be many times as many


# --------------------------------------------------------------------------------------------------------------- Dask collections


def _delayed_loader(parts: list[tuple[Any, ...]], place: Place) -> Loader:
    def load(client: Any) -> Any:
        futures = [future for part in parts for future in client.compute(list(part))]
        return _joined, (futures, len(parts[0]), place)

    return load


def _joined(flat: list[Any], width: int, place: Place) -> Partition:
    """Make a partition of the parts that Dask computed: X, y and perhaps weights of each, or a pair or triple of them."""
    parts = [flat[k : k + width] for k in range(0, len(flat), width)]
    if width == 1:  # a delayed part is a pair (X, y), or a triple with weights
        parts = [list(part[0]) for part in parts]
        for part in parts:
            if len(part) not in (2, 3):
                raise ValueError(f"a delayed part must give (X, y) or (X, y, sample_weight); it gave {len(part)} things")
    columns = list(zip(*parts, strict=True))
    matrices = [X.to_numpy() if hasattr(X, "to_numpy") else X for X in columns[0]]
    some = [k for k, X in enumerate(matrices) if X.shape[0]] or [0]  # chunks of a filtered frame may be empty
    matrices = [matrices[k] for k in some]
    if len(matrices) == 1:
        X = matrices[0]  # without a second copy of the rows in memory
    else:
        X = sparse.vstack(matrices, format="csr") if sparse.issparse(matrices[0]) else np.concatenate(matrices)
    vectors = [np.concatenate([np.asarray(v).reshape(-1) for v in (column[k] for k in some)]) for column in columns[1:]]
    with place.named():
        return Partition(X, *vectors)


def delayed_parts(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    """Return the delayed pieces of X, y and the weights, part by part."""
    if isinstance(X, (list, tuple)):
        if y is not None or sample_weight is not None:
            raise ValueError("delayed parts give (X, y) or (X, y, sample_weight) each: leave y and sample_weight out")
        return [(part,) for part in X]
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    columns = [_row_parts(X, "X")]
    for vector, name in ((y, "y"), (sample_weight, "sample_weight")):
        if vector is not None:
            columns.append(_vector_parts(vector, name, X, len(columns[0])))
    return list(zip(*columns, strict=True))


def _row_parts(X: Any, name: str) -> list[Any]:
    if hasattr(X, "npartitions") and not hasattr(X, "chunks"):
        return list(X.to_delayed())
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimension(s); a two-dimensional Dask array is needed, one row a sample")
    whole = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    return list(whole.to_delayed()[:, 0])


def _vector_parts(vector: Any, name: str, X: Any, parts: int) -> list[Any]:
    """Pieces of y or of the weights, cut where X is cut."""
    if hasattr(vector, "npartitions") and not hasattr(vector, "chunks"):
        pieces = list(vector.to_delayed())
    else:
        if not hasattr(X, "chunks"):
            raise ValueError(f"{name} is a {type(vector).__name__} beside a data frame X; give a series of the same data frame")
        import dask.array

        unknown = any(np.isnan(size) for size in X.chunks[0])
        if unknown and not hasattr(vector, "chunks"):
            raise ValueError(
                f"{name} is a {type(vector).__name__} beside an X with chunks of unknown size, so that it cannot be cut where X is cut: "
                f"give {name} as a Dask array made from the same source, or call X.compute_chunk_sizes() first"
            )
        array = vector if hasattr(vector, "chunks") else dask.array.from_array(np.asarray(vector), chunks=(X.chunks[0],))
        if not unknown and array.chunks[0] != X.chunks[0]:
            if array.shape[0] != X.shape[0]:
                raise ValueError(f"{name} has {array.shape[0]} values but X has {X.shape[0]} rows")
            array = array.rechunk({0: X.chunks[0]})
        pieces = list(array.to_delayed().ravel())
    if len(pieces) != parts:
        raise ValueError(f"{name} comes in {len(pieces)} pieces and X in {parts}; make them of the same data, or rechunk one")
    return pieces


# ------------------------------------------- data frames with columns that are not numbers: prepared as those of table files are


def has_words(X: Any) -> bool:
    """Return whether X is a data frame with a column that is not numeric: text, categories, dates."""
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return False
    from pandas.api.types import is_numeric_dtype

    return not all(is_numeric_dtype(kind) for kind in X.dtypes)


def prepare_frame(X: Any, y: Any, sample_weight: Any, client: Any, seed: int, task: str) -> tuple[list[Any], Preparation]:
    """Return delayed parts (features, y) or (features, y, sample_weight), and the preparation that made them for classes or targets."""
    import dask

    parts = delayed_parts(X, y, sample_weight)
    most = -(-SAMPLE_ROWS // len(parts))
    drawn = [dask.delayed(_draw)(part[0], part[1], most, [seed, k]) for k, part in enumerate(parts)]
    preparation = _learn(client.gather(client.compute(drawn)), seed, task)
    shared = dask.delayed(preparation)
    return [dask.delayed(_encode)(shared, *part) for part in parts], preparation


def to_polars(frame: Any) -> Any:
    """Return a pandas data frame as one of polars, without its index."""
    try:
        import polars as pl
    except ImportError:
        raise ImportError(f"{needs('preparing columns that are not numbers', 'polars')}, here and on the workers") from None
    return frame if isinstance(frame, pl.DataFrame) else pl.from_pandas(frame.rename(columns=str), include_index=False)


def _draw(frame: Any, y: Any, most: int, seed: list[int]) -> tuple[int, Any, np.ndarray]:
    """Return how many rows a part has, and at most `most` of them drawn at random, with their labels."""
    labels = np.asarray(y).reshape(-1)
    chosen = np.arange(len(labels))
    if len(chosen) > most:
        chosen = np.random.default_rng(seed).choice(chosen, most, replace=False)
    return len(labels), to_polars(frame.iloc[chosen]), labels[chosen]


def _learn(drawn: list[tuple[int, Any, np.ndarray]], seed: int, task: str) -> Preparation:
    """Learn from rows of all parts, each part by the share that it has of all rows."""
    import polars as pl

    rate = min((len(labels) / rows for rows, _, labels in drawn if rows), default=0.0)
    if rate == 0.0:
        raise ValueError("the data frame has no rows")
    frames, labels = [], []
    for k, (rows, frame, own) in enumerate(drawn):
        kept = np.random.default_rng([seed, k, 1]).permutation(len(own))[: max(round(rate * rows), min(rows, 1))]
        frames.append(frame[np.sort(kept)])
        labels.append(own[np.sort(kept)])
    whole = pl.concat([frame for frame in frames if frame.height], how="vertical_relaxed")
    return Preparation(TARGET).fit(whole, np.concatenate(labels))


def _encode(preparation: Preparation, frame: Any, *vectors: Any) -> tuple[Any, ...]:
    """Return the features of a part beside its labels and weights."""
    return preparation.apply(to_polars(frame), Notes()), *vectors
