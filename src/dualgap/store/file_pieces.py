"""Pieces: some consecutive samples at a time, out of LIBSVM text or out of what a program hands over.

Tables are the business of `table_pieces`, arrays that of `array_pieces`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.data import DataError, Encoder, iter_libsvm
from dualgap.problem import as_features, as_labels

__all__ = ["AnyPiece", "ColumnPiece", "Given", "LibsvmSource", "Piece", "open_libsvm"]

LIBSVM_ROWS = 8192  # rows of LIBSVM text parsed at a time


class Piece(NamedTuple):
    """Some consecutive samples: labels, and the arrays of their rows (CSR: indptr, indices, data; dense: x)."""

    labels: np.ndarray
    arrays: tuple[np.ndarray, ...]

    @property
    def width(self) -> int:
        """Columns of dense rows."""
        return int(self.arrays[0].shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(array.nbytes for array in self.arrays)


class ColumnPiece(NamedTuple):
    """Some consecutive samples column by column: values has a row for each feature, which becomes (value - centre) / scale."""

    labels: np.ndarray
    values: np.ndarray
    centre: np.ndarray
    scale: np.ndarray

    @property
    def width(self) -> int:
        """Columns of the rows."""
        return int(self.values.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.values.nbytes)


AnyPiece = Piece | ColumnPiece


class LibsvmSource(NamedTuple):
    """A file of LIBSVM text to convert; what its rows hold are features as they are."""

    path: Path
    dtype: str
    zero_based: bool
    n_features: int | None
    target: None = None
    storage: str = "csr"
    encoder: Encoder = Encoder()

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Yield the samples in order, without the first `skip` pieces."""
        blocks = iter_libsvm(self.path, LIBSVM_ROWS, n_features=self.n_features, zero_based=self.zero_based, dtype=self.dtype)
        for k in count():
            with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
                block = next(blocks, None)
            if block is None:
                return
            if k >= skip:
                yield Piece(block.y, (block.indptr, block.indices, block.data))


class Given(NamedTuple):
    """Samples that a program hands over as pairs (X, y)."""

    storage: str
    dtype: str
    pairs: Iterator[tuple[Any, Any]]
    path: str = "a pair (X, y)"

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Yield the pairs, checked."""
        for X, y in islice(self.pairs, skip, None):
            matrix: Any = as_features(X)
            labels = as_labels(y, matrix.shape[0])
            is_sparse = bool(sparse.issparse(matrix))
            if is_sparse != (self.storage == "csr"):
                raise ValueError("X is sparse in one pair and dense in another; give all in one form")
            if is_sparse:
                yield Piece(labels, (matrix.indptr, matrix.indices, matrix.data.astype(self.dtype, copy=False)))
            else:
                yield Piece(labels, (matrix.astype(self.dtype, copy=False),))


def open_libsvm(path: Path, target: Any, dtype: str, zero_based: Any, n_features: int | None) -> LibsvmSource:
    """Return a file of LIBSVM text as a source; its first rows tell whether columns are counted from 0."""
    if target is not None:
        raise DataError(f"{path} is read as LIBSVM text, where the label comes first on a line; leave target out")
    if zero_based == "auto":
        first = next(iter_libsvm(path, LIBSVM_ROWS, zero_based=True))
        zero_based = bool(first.indices.size and first.indices.min() == 0)
    return LibsvmSource(path, dtype, zero_based, n_features)
