"""Blocks of samples out of text and table files, a moderate number of rows at a time: LIBSVM text, CSV, Parquet.

The parsers are those of `dualgap.data`. Every error names the file, the line (or row) and the column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.data import (
    DataError,
    DataSet,
    Encoder,
    choose_target,
    columns_of_table,
    csv_engine,
    csv_first_line,
    iter_libsvm,
    kind_of,
    open_csv,
    table_from_columns,
    unpacked,
)
from dualgap.problem import as_features, as_labels

__all__ = ["Given", "Piece", "Source", "csv_texts", "open_source"]

PIECE_ROWS = 8192  # rows parsed at a time
PIECE_BYTES = 1 << 22  # text of a CSV file parsed at a time


class Piece(NamedTuple):
    """Some consecutive samples: labels, and the arrays of their rows (CSR: indptr, indices, data; dense: x)."""

    labels: np.ndarray
    arrays: tuple[np.ndarray, ...]


class Source(NamedTuple):
    """A file to convert, how it stores its rows, and what is needed to read it."""

    path: Path
    kind: str  # "libsvm", "csv" or "parquet"
    target: str | int | None
    dtype: str
    zero_based: bool | None
    n_features: int | None

    @property
    def encoder(self) -> Encoder:
        """What turns its rows into features: nothing, they are numbers as they are."""
        return Encoder()

    @property
    def storage(self) -> str:
        """How its rows are stored."""
        return "csr" if self.kind == "libsvm" else "dense"

    def pieces(self) -> Iterator[Piece]:
        """Yield the samples in order."""
        return {"libsvm": _libsvm, "csv": _csv, "parquet": _parquet}[self.kind](self)


class Given(NamedTuple):
    """Samples that a program hands over as pairs (X, y)."""

    storage: str
    dtype: str
    pairs: Iterator[tuple[Any, Any]]
    path: str = "a pair (X, y)"

    def pieces(self) -> Iterator[Piece]:
        """Yield the pairs, checked."""
        for X, y in self.pairs:
            matrix: Any = as_features(X)
            labels = as_labels(y, matrix.shape[0])
            is_sparse = bool(sparse.issparse(matrix))
            if is_sparse != (self.storage == "csr"):
                raise ValueError("X is sparse in one pair and dense in another; give all in one form")
            if is_sparse:
                yield Piece(labels, (matrix.indptr, matrix.indices, matrix.data.astype(self.dtype, copy=False)))
            else:
                yield Piece(labels, (matrix.astype(self.dtype, copy=False),))


def open_source(path: Path, target: Any, dtype: str, zero_based: Any, n_features: int | None) -> Source:
    """Return a file as a source of numbers; of LIBSVM text, its first rows tell whether columns are counted from 0."""
    kind = kind_of(path)
    if kind in ("csv", "parquet"):
        return Source(path, kind, target, dtype, None, n_features)
    if target is not None:
        raise DataError(f"{path} is read as LIBSVM text, where the label comes first on a line; leave target out")
    if zero_based == "auto":
        first = next(iter_libsvm(path, PIECE_ROWS, zero_based=True))
        zero_based = bool(first.indices.size and first.indices.min() == 0)
    return Source(path, "libsvm", None, dtype, zero_based, n_features)


def _libsvm(source: Source) -> Iterator[Piece]:
    options = {"n_features": source.n_features, "zero_based": source.zero_based, "dtype": source.dtype}
    blocks = iter_libsvm(source.path, PIECE_ROWS, **options)  # type: ignore[arg-type]
    while True:
        with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
            block = next(blocks, None)
        if block is None:
            return
        yield Piece(block.y, (block.indptr, block.indices, block.data))


# ------------------------------------------------------------------------------------------------------------------------- tables


def _piece(source: Source, data: DataSet) -> Piece:
    if source.n_features is not None and data.X.shape[1] != source.n_features:
        raise DataError(f"{source.path} has {data.X.shape[1]} columns besides the labels, not n_features={source.n_features}")
    return Piece(data.y, (np.ascontiguousarray(data.X, dtype=source.dtype),))


def _parquet(source: Source) -> Iterator[Piece]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{source.path}: reading Parquet needs pyarrow: pip install 'dualgap[parquet]'") from None

    rows = 0
    try:
        with unpacked(source.path) as plain, parquet.ParquetFile(plain, pre_buffer=False) as file:
            for batch in file.iter_batches(PIECE_ROWS):
                columns = columns_of_table(source.path, pyarrow.Table.from_batches([batch]))
                _check_columns(source, columns, rows)
                yield _piece(source, table_from_columns(source.path, "", columns, source.target, named=True))
                rows += batch.num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path} is not a whole Parquet file ({' '.join(str(error).split())[:200]})") from None
    if not rows:
        raise DataError(f"{source.path} has no rows")


def _check_columns(source: Source, columns: dict[str, np.ndarray], before: int) -> None:
    """Correct the row number in an error: rows are counted from the start of the file, not of the piece."""
    for name, column in columns.items():
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            place = int(np.flatnonzero(~np.isfinite(column))[0])
            raise DataError(
                f"{source.path}, row {before + place + 1}, column {name!r}: found {column[place]}, a number must be finite"
            )


def _csv(source: Source) -> Iterator[Piece]:
    engine = csv_engine(None)
    header: list[str] | None = None
    separator, line, found = ",", 1, False
    for text in csv_texts(source.path):
        if not found:
            header, separator = csv_first_line(source.path, text)
            first = text.removeprefix(b"\xef\xbb\xbf")
            if header is not None:
                skipped = first[: first.index(b"\n") + 1]  # the header comes back in front of every piece
                first, line = first[len(skipped) :], 2
            text, found = first, True
        if text.strip():
            yield _piece(source, _csv_piece(source, text, engine, header, separator, line))
        line += text.count(b"\n")
    if not found:
        raise DataError(f"{source.path} is empty")


def _csv_piece(source: Source, text: bytes, engine: Any, header: list[str] | None, separator: str, line: int) -> DataSet:
    named = header is not None
    whole = _header_line(header, separator) + text if header is not None else text
    try:
        data = table_from_columns(source.path, "", engine(whole, separator, header), source.target, named=named)
        if not np.isfinite(data.X).all():
            raise ValueError("a value is infinite")
        return data
    except Exception as error:
        # A piece is searched cell by cell only if something in it is wrong.
        place = _bad_cell(text, header, separator, source)
        if place is not None:
            row, column, what = place
            raise DataError(f"{source.path}, line {line + row}, column {column}: {what}") from None
        if isinstance(error, DataError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{source.path}, lines {line} to {line + text.count(bytes([10]))}: not a well-formed table: {reason}"
        ) from None


def _header_line(header: Sequence[str], separator: str) -> bytes:
    quoted = ('"' + name.replace('"', '""') + '"' for name in header)
    return (separator.join(quoted) + "\n").encode()


def _bad_cell(text: bytes, header: list[str] | None, separator: str, source: Source) -> tuple[int, str, str] | None:
    """Return (line of the piece, column, what is wrong) of the first cell that is not a finite number, labels aside."""
    lines = text.decode("utf-8", "replace").splitlines()
    rows = [next(csv.reader([line], delimiter=separator), []) for line in lines]
    width = len(header) if header is not None else next((len(row) for row in rows if row), 0)
    names = header if header is not None else [str(j) for j in range(width)]
    target = names.index(choose_target(source.path, names, source.target, header is not None))
    for i, row in enumerate(rows):
        if row and len(row) != width:
            return i, str(min(len(row), width)), f"{len(row)} fields where {width} are needed"
        for j, word in enumerate(row):
            if j == target:
                if not word.strip():
                    return i, repr(names[j]), "the label is missing"
                continue
            try:
                finite = bool(np.isfinite(float(word)))
            except ValueError:
                finite = False
            if not finite:
                return i, repr(names[j]), f"a value must be a finite number, found {word!r}"
    return None


def csv_texts(path: Path) -> Iterator[bytes]:
    """Yield pieces of the text that end at a line's end, and not inside quotes."""
    with open_csv(path) as (stream, _):
        rest, old_ends = b"", False
        while True:
            read = stream.read(PIECE_BYTES)
            old_ends = old_ends or (not rest and b"\r" in read and b"\n" not in read)
            rest += read.replace(b"\r", b"\n") if old_ends else read  # the line ends of old spreadsheets
            cut = rest.rfind(b"\n") + 1 if read else len(rest)
            while cut and read and rest.count(b'"', 0, cut) % 2:
                cut = rest.rfind(b"\n", 0, cut - 1) + 1
            if cut:
                piece, rest = rest[:cut], rest[cut:]
                yield piece if piece.endswith(b"\n") else piece + b"\n"
            if not read:
                return
