"""NPZ and MAT files into a store. Such a file is read whole; of several files, one is in memory at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import DataError, Encoder, TableOptions, read
from dualgap.store.file_pieces import Piece

__all__ = ["ARRAY_KINDS", "ArraySource", "learn_arrays"]

ARRAY_KINDS = ("npz", "mat")
PIECE_ROWS = 8192


@dataclass(frozen=True, eq=False)
class ArraySource:
    """One NPZ or MAT file, and how its columns are scaled."""

    path: Path
    variable: str | int | None
    dtype: str
    storage: str
    encoder: Encoder
    kind: str = "array"
    zero_based: None = None
    n_features: int | None = None

    @property
    def target(self) -> str:
        """The variable of the labels, with a digest of the scaling: another one is another store."""
        scaler = self.encoder.scaler
        if scaler is None:
            return str(self.variable or "")
        return f"{self.variable or ''} ({hashlib.sha256(scaler.mean_.tobytes() + scaler.scale_.tobytes()).hexdigest()[:16]})"

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Yield the samples in order, without the first `skip` pieces."""
        data = read(self.path, self.variable)
        for start in range(skip * PIECE_ROWS, data.shape[0], PIECE_ROWS):
            X, y = data.X[start : start + PIECE_ROWS], data.y[start : start + PIECE_ROWS]
            bad = np.flatnonzero(~np.isfinite(X.data if self.storage == "csr" else X.sum(axis=1)))
            if bad.size and not np.isfinite(X.data).all():
                raise DataError(f"{self.path}: a value in rows {start + 1:,} to {start + len(y):,} is not finite")
            if self.storage == "csr":
                if self.n_features is not None and X.shape[1] > self.n_features:
                    raise DataError(f"{self.path} has {X.shape[1]} columns, more than n_features={self.n_features}")
                yield Piece(y, (X.indptr, X.indices, X.data.astype(self.dtype, copy=False)))
                continue
            scaled = X if self.encoder.scaler is None else self.encoder.scaler.transform(X)
            yield Piece(y, (np.ascontiguousarray(scaled, dtype=self.dtype),))


def learn_arrays(
    paths: Sequence[Path], target: Any, dtype: str, n_features: int | None, options: TableOptions | None
) -> list[ArraySource]:
    """Return the sources, with the scaling that the rows of all files give: dense columns get mean 0 and deviation 1, as in `fit`."""
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
    encoder = Encoder(scaler=scaler if scaled else None)
    return [ArraySource(path, target, dtype, storage, encoder, n_features=n_features) for path in paths]
