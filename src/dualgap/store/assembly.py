"""Blocks put together from pieces, in a new order of rows: each value is copied once, from where it was read to where it is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualgap.core import rows as storage
from dualgap.core import strict
from dualgap.data import DataError
from dualgap.store.file_pieces import AnyPiece, ColumnPiece, Piece

__all__ = ["gather_rows", "join_sparse", "squares"]

TILE = 64  # rows that are turned at a time: their part of the block stays in the first cache


@strict
def place_columns(values, centre, scale, place, out):
    """Write (column - centre) / scale of the row i of each column to the row place[i] of `out`."""
    for start in range(0, values.shape[1], TILE):
        stop = min(start + TILE, values.shape[1])
        for j in range(values.shape[0]):
            c, s = centre[j], scale[j]
            for i in range(start, stop):
                out[place[i], j] = (values[j, i] - c) / s


@strict
def place_rows(x, place, out):
    """Write row i of x to the row place[i] of `out`."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[place[i], j] = x[i, j]


def gather_rows(pieces: Sequence[AnyPiece], order: np.ndarray | None, dtype: str) -> dict[str, np.ndarray]:
    """Return the arrays of the rows of some pieces; row k of the result is row order[k] of the pieces one after the other."""
    if isinstance(pieces[0], Piece) and len(pieces[0].arrays) == 3:
        arrays = join_sparse([piece.arrays for piece in pieces])  # type: ignore[union-attr]
        return arrays if order is None else _take_sparse(arrays, order)
    rows = sum(len(piece.labels) for piece in pieces)
    place = np.arange(rows)
    if order is not None:
        place[order] = np.arange(rows)
    x, start = np.empty((rows, pieces[0].width), dtype), 0
    for piece in pieces:
        here = place[start : start + len(piece.labels)]
        if isinstance(piece, ColumnPiece):
            with np.errstate(over="ignore"):  # a value too large for float32 is reported with its row when the block is written
                place_columns(piece.values, piece.centre, piece.scale, here, x)
        else:
            place_rows(piece.arrays[0], here, x)
        start += len(piece.labels)
    return {"x": x}


def join_sparse(pieces: Sequence[tuple[np.ndarray, ...]]) -> dict[str, np.ndarray]:
    """Return sparse rows one after the other."""
    lengths = np.concatenate([np.diff(indptr) for indptr, _, _ in pieces])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    if indptr[-1] >= 2**31:
        raise ValueError(f"a block of {indptr[-1]:,} non-zeros is too large; give a smaller block_bytes")
    indices = np.concatenate([indices for _, indices, _ in pieces])
    if indices.size and indices.max() >= 2**31 - 1:
        raise DataError(f"column {indices.max():,} is too large: a store has at most 2³¹ − 1 columns; hash them to fewer")
    return {
        "indptr": indptr.astype(np.int32),
        "indices": indices.astype(np.int32, copy=False),
        "data": np.concatenate([data for _, _, data in pieces]),
    }


def squares(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return ‖x‖² of every row."""
    rows = storage.dense(arrays["x"]) if "x" in arrays else storage.csr_arrays(*(arrays[k] for k in ("indptr", "indices", "data")))
    out = np.empty(rows.length())
    storage.sqnorms(rows, out)
    return out


def _take_sparse(arrays: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    rows = storage.take(storage.csr_arrays(arrays["indptr"], arrays["indices"], arrays["data"]), order)
    return {"indptr": rows.indptr.view(np.int32), "indices": rows.indices.view(np.int32), "data": rows.data}
