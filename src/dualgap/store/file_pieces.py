"""Blocks of samples out of text and table files, a moderate number of rows at a time: LIBSVM text, CSV, Parquet.

The parsers are those of `dualgap.data`. Every error names the file, the line (or row) and the column.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import needs
from dualgap.data import (
    DataError,
    Encoder,
    all_finite,
    choose_target,
    columns_of_frame,
    columns_of_table,
    csv_engine,
    csv_first_line,
    iter_libsvm,
    kind_of,
    open_csv,
    split_columns,
    typed_csv,
    unpacked,
)
from dualgap.problem import as_features, as_labels

__all__ = [
    "AnyPiece",
    "ColumnPiece",
    "Given",
    "Piece",
    "Source",
    "csv_texts",
    "open_source",
    "parquet_batches",
    "row_group_rows",
    "rows_at_once",
]

PIECE_ROWS = 1 << 16  # rows parsed at a time, at most
PIECE_BYTES = 1 << 24  # text, or numbers of 8 bytes, parsed at a time
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

    def pieces(self, skip: int = 0) -> Iterator[AnyPiece]:
        """Yield the samples in order, without the first `skip` pieces."""
        readers: dict[str, Callable[[Source, int], Iterator[AnyPiece]]] = {"libsvm": _libsvm, "csv": _csv, "parquet": _parquet}
        return readers[self.kind](self, skip)


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


def open_source(path: Path, target: Any, dtype: str, zero_based: Any, n_features: int | None) -> Source:
    """Return a file as a source of numbers; of LIBSVM text, its first rows tell whether columns are counted from 0."""
    kind = kind_of(path)
    if kind in ("csv", "parquet"):
        return Source(path, kind, target, dtype, None, n_features)
    if target is not None:
        raise DataError(f"{path} is read as LIBSVM text, where the label comes first on a line; leave target out")
    if zero_based == "auto":
        first = next(iter_libsvm(path, LIBSVM_ROWS, zero_based=True))
        zero_based = bool(first.indices.size and first.indices.min() == 0)
    return Source(path, "libsvm", None, dtype, zero_based, n_features)


def _libsvm(source: Source, skip: int) -> Iterator[Piece]:
    options = {"n_features": source.n_features, "zero_based": source.zero_based, "dtype": source.dtype}
    blocks = iter_libsvm(source.path, LIBSVM_ROWS, **options)  # type: ignore[arg-type]
    for k in count():
        with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
            block = next(blocks, None)
        if block is None:
            return
        if k >= skip:
            yield Piece(block.y, (block.indptr, block.indices, block.data))


# ------------------------------------------------------------------------------------------------------------------------- tables


def column_piece(source: Source, columns: dict[str, np.ndarray], named: bool) -> ColumnPiece:
    """Return the columns of a table as a piece; a column that is not numbers is an error."""
    values, labels, _ = split_columns(source.path, columns, source.target, named, finite=True)
    if source.n_features is not None and len(values) != source.n_features:
        raise DataError(f"{source.path} has {len(values)} columns besides the labels, not n_features={source.n_features}")
    return ColumnPiece(labels, values, np.zeros(len(values)), np.ones(len(values)))


def rows_at_once(columns: int) -> int:
    """Return the rows of a table to parse at a time."""
    return max(16, min(PIECE_ROWS, PIECE_BYTES // (8 * max(columns, 1))))


def parquet_batches(path: Path, group: int | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file, or of one row group, as Arrow tables of a moderate size; no more than one is in memory."""
    import pyarrow

    with open_parquet(path) as file:
        groups = None if group is None else [group]
        for batch in file.iter_batches(rows_at_once(len(file.schema_arrow.names)), row_groups=groups):
            yield pyarrow.Table.from_batches([batch])


def row_group_rows(path: Path) -> list[int]:
    """Return the number of rows of each row group of a Parquet file."""
    with open_parquet(path) as file:
        return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Yield a Parquet file as pyarrow opens it; one that cannot be read is a DataError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(needs(f"{path}: streaming Parquet", "pyarrow")) from None
    try:
        with unpacked(path) as plain, parquet.ParquetFile(plain, pre_buffer=False) as file:
            yield file
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({' '.join(str(error).split())[:200]})") from None


def _parquet(source: Source, skip: int) -> Iterator[ColumnPiece]:
    rows = 0
    for k, table in enumerate(parquet_batches(source.path)):
        if k >= skip:
            columns = columns_of_table(source.path, table)
            try:
                piece = column_piece(source, columns, named=True)
            except DataError:
                _check_columns(source, columns, rows)
                raise
            yield piece
        rows += table.num_rows
    if not rows:
        raise DataError(f"{source.path} has no rows")


def _check_columns(source: Source, columns: dict[str, np.ndarray], before: int) -> None:
    """Raise for a number that is not finite, with its row counted from the start of the file and not of the piece."""
    for name, column in columns.items():
        if column.dtype.kind == "f" and not all_finite(column):
            place = int(np.flatnonzero(~np.isfinite(column))[0])
            raise DataError(
                f"{source.path}, row {before + place + 1}, column {name!r}: found {column[place]}, a number must be finite"
            )


class _Csv:
    """How the pieces of a CSV text are parsed: by what the first line and the first piece have shown."""

    def __init__(self, source: Source, first: bytes) -> None:
        self.source = source
        self.header, self.separator = csv_first_line(source.path, first)
        self.engine = csv_engine(None)
        self.types: dict[str, str] | None = None  # of the columns, once a piece was parsed

    def parse(self, text: bytes, line: int) -> ColumnPiece:
        """Return a piece of text, which begins at a line of the file and has no header."""
        named, source = self.header is not None, self.source
        frame = None if self.types is None else typed_csv(text, self.separator, self.types)
        try:
            if frame is None:
                columns = self.engine(self._with_header(text), self.separator, self.header)
                if self.types is None:
                    self._learn_types(columns, named)
            else:
                columns = columns_of_frame(frame)
            return column_piece(source, columns, named)
        except Exception as error:
            # A piece is searched cell by cell only if something in it is wrong.
            place = _bad_cell(text, self.header, self.separator, source)
            if place is not None:
                row, column, what = place
                raise DataError(f"{source.path}, line {line + row}, column {column}: {what}") from None
            if isinstance(error, DataError):
                raise
            reason = " ".join(str(error).split())[:200]
            raise DataError(
                f"{source.path}, lines {line} to {line + text.count(bytes([10]))}: not a well-formed table: {reason}"
            ) from None

    def _with_header(self, text: bytes) -> bytes:
        return text if self.header is None else _header_line(self.header, self.separator) + text

    def _learn_types(self, columns: dict[str, np.ndarray], named: bool) -> None:
        target = choose_target(self.source.path, list(columns), self.source.target, named)
        kind = {"f": "number", "i": "whole"}.get(columns[target].dtype.kind, "text")
        self.types = {name: kind if name == target else "number" for name in columns}


def _csv(source: Source, skip: int) -> Iterator[ColumnPiece]:
    parser: _Csv | None = None
    line, pieces = 1, 0
    for text in csv_texts(source.path):
        if parser is None:
            parser = _Csv(source, text)
            text = text.removeprefix(b"\xef\xbb\xbf")
            if parser.header is not None:
                text, line = text[text.index(b"\n") + 1 :], 2
        if text and not text.isspace():
            piece = parser.parse(text, line) if pieces >= skip or not pieces else None  # the first piece decides the types
            if piece is not None and pieces >= skip:
                yield piece
            pieces += 1
        line += text.count(b"\n")
    if parser is None:
        raise DataError(f"{source.path} is empty")


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
