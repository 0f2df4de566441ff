"""Sources: the files of a conversion, each read as pieces of consecutive rows; LIBSVM text, arrays, or what a program hands over.

Tables are the business of `table_sources`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import is_sparse, one_of
from dualgap.data import TASKS, DataError, Encoder, TableOptions, iter_libsvm, read
from dualgap.problem import as_features, as_labels

__all__ = ["Piece", "Source", "given_pairs", "learn_arrays", "open_libsvm"]

PIECE_ROWS = 8192  # rows of LIBSVM text or of an array at a time


class Piece(NamedTuple):
    """Some consecutive samples: labels, and their rows as an array or a CSR matrix."""

    labels: np.ndarray
    X: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(array.nbytes for array in (self.X.data, self.X.indices, self.X.indptr)) if is_sparse(self.X) else self.X.nbytes


@dataclass(frozen=True)
class Source:
    """One file, or what a program hands over, as pieces.

    Attributes
    ----------
    path : the file
    storage : "csr" or "dense"
    read : the pieces from a number on
    asked : what else decides what is in the pieces: another value is another store
    encoder : what turns its rows into features
    labels : how the labels of a table were read, as plain data
    task : "classification" or "regression"
    """

    path: Path | str
    storage: str
    read: Callable[[int], Iterable[Piece]]
    asked: dict[str, Any]
    encoder: Encoder = field(default_factory=Encoder)
    labels: dict[str, Any] | None = None
    task: str = "classification"


# ------------------------------------------------------------------------------------------------------------------- LIBSVM text


def open_libsvm(
    paths: Sequence[Path], target: str | int | None, dtype: str, zero_based: Any, n_features: int | None, task: str
) -> list[Source]:
    """Return files of LIBSVM text as sources; the first rows of the first tell whether columns are counted from 0."""
    if target is not None:
        raise DataError(f"{paths[0]} is read as LIBSVM text, where the label comes first on a line; leave target out")
    if zero_based == "auto":
        first = next(iter_libsvm(paths[0], PIECE_ROWS, zero_based=True))
        zero_based = bool(first.indices.size and first.indices.min() == 0)
    asked = {"zero_based": zero_based, "n_features": n_features}
    return [Source(path, "csr", partial(_libsvm_pieces, path, np.dtype(dtype), **asked), asked, task=task) for path in paths]


def _libsvm_pieces(path: Path, dtype: np.dtype[Any], skip: int, zero_based: bool, n_features: int | None) -> Iterator[Piece]:
    blocks = iter_libsvm(path, PIECE_ROWS, n_features=n_features, zero_based=zero_based, dtype=dtype)
    for number in range(1 << 62):
        with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
            block = next(blocks, None)
        if block is None:
            return
        if number >= skip:
            yield Piece(block.y, block.to_csr(int(block.indices.max(initial=-1)) + 1))


# ------------------------------------------------------------------------------------------------------------------------ arrays


def learn_arrays(
    paths: Sequence[Path], target: str | int | None, dtype: str, n_features: int | None, options: TableOptions | None, task: str
) -> list[Source]:
    """Return NPZ and MAT files as sources, with the scaling that the rows of all give: dense columns get mean 0 and deviation 1.

    Such a file is read whole; of several files, one is in memory at a time.
    """
    from sklearn.preprocessing import StandardScaler

    storage, scaler = "", StandardScaler()
    for path in paths:
        data = read(path, target)
        found = "csr" if data.is_sparse else "dense"
        if storage and found != storage:
            raise DataError(f"{path} and {paths[0]} cannot share a store: one is sparse, the other dense")
        storage = found
        if options is not None:
            options.refuse(data.name)
            if options.standardise and data.is_sparse:
                raise DataError(f"{path}: to standardise would fill a sparse matrix; leave --standardise out")
        if storage == "dense":
            if data.shape[1] != getattr(scaler, "n_features_in_", data.shape[1]):
                raise DataError(f"{path} has {data.shape[1]} columns, the files before have {scaler.n_features_in_}")
            scaler.partial_fit(np.asarray(data.X, dtype=np.float64))
    scaled = options is not None and options.standardise is not False and storage == "dense"
    encoder, asked = Encoder(scaler=scaler if scaled else None), {"target": target, "n_features": n_features}
    if scaled:
        asked["scaler"] = hashlib.sha256(scaler.mean_.tobytes() + scaler.scale_.tobytes()).hexdigest()[:16]
    return [
        Source(path, storage, partial(_array_pieces, path, target, dtype, encoder, n_features), asked, encoder, task=task)
        for path in paths
    ]


def _array_pieces(
    path: Path, target: str | int | None, dtype: str, encoder: Encoder, n_features: int | None, skip: int
) -> Iterator[Piece]:
    data = read(path, target)
    if data.is_sparse and n_features is not None and data.shape[1] > n_features:
        raise DataError(f"{path} has {data.shape[1]} columns, more than n_features={n_features}")
    for start in range(skip * PIECE_ROWS, data.shape[0], PIECE_ROWS):
        X, y = data.X[start : start + PIECE_ROWS], data.y[start : start + PIECE_ROWS]
        if not np.isfinite(X.data if data.is_sparse else X).all():
            raise DataError(f"{path}: a value in rows {start + 1:,} to {start + len(y):,} is not finite")
        yield Piece(y, (X if encoder.scaler is None else encoder.scaler.transform(X)).astype(dtype, copy=False))


# -------------------------------------------------------------------------------------------------------------- a program's pairs


def given_pairs(pairs: Iterator[tuple[Any, Any]], storage: str, dtype: str, task: str) -> Source:
    """Return the pairs (X, y) that a program hands over as a source."""
    return Source("a pair (X, y)", storage, partial(_checked_pairs, pairs, storage, dtype), {}, task=one_of("task", task, TASKS))


def _checked_pairs(pairs: Iterator[tuple[Any, Any]], storage: str, dtype: str, skip: int) -> Iterator[Piece]:
    for X, y in islice(pairs, skip, None):
        matrix = as_features(X)
        if sparse.issparse(matrix) != (storage == "csr"):
            raise ValueError("X is sparse in one pair and dense in another; give all in one form")
        yield Piece(as_labels(y, matrix.shape[0]), matrix.astype(dtype, copy=False))
