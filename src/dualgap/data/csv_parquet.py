"""CSV and Parquet: a table with one column of labels; every other column must hold numbers.

CSV is parsed by polars, else by pandas, else by NumPy, whichever is installed.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from dualgap.core import is_whole, needs
from dualgap.data.compressed import COMPRESSED, open_bytes
from dualgap.data.dataset import DataError, DataSet, integer_labels
from dualgap.data.unpacking import bounded

__all__ = ["read_csv", "read_parquet"]

SEPARATORS = ",;\t|"
TARGET_NAMES = ("target", "label", "class", "y")
Columns = dict[str, np.ndarray]  # in the order of the table


def read_csv(path: str | os.PathLike[str], target: str | int | None = None, engine: str | None = None) -> DataSet:
    """Read a CSV file, with or without a header; plain, compressed, or the only CSV in a zip.

    Commas, semicolons and tabs are told apart by the first line. `engine` forces "polars", "pandas" or "numpy"; by default the first
    that is installed.
    """
    path = Path(path)
    with open_csv(path) as (stream, stem):
        text = stream.read()
    header, separator = csv_first_line(path, text)
    read_with = csv_engine(engine)
    try:
        columns = read_with(text, separator, header)
    except DataError:
        raise
    except Exception as error:  # each engine has its own errors for a malformed table
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not a well-formed CSV table: {reason}") from None
    return table_from_columns(path, stem, columns, target, named=header is not None)


def read_parquet(path: str | os.PathLike[str], target: str | int | None = None) -> DataSet:
    """Read a Parquet file."""
    path = Path(path)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(needs(f"{path}: reading Parquet", "pyarrow")) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({' '.join(str(error).split())[:200]})") from None
    return table_from_columns(path, path.stem, columns_of_table(path, table), target, named=True)


def columns_of_table(path: Path, table: Any) -> Columns:
    """Return the columns of an Arrow table as arrays; missing values are an error."""
    import pyarrow

    columns: Columns = {}
    for name in table.column_names:
        column = table.column(name)
        if column.null_count:
            raise _missing_values(path, name, column.null_count, int(np.argmax(column.is_null().to_numpy())))
        if pyarrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pyarrow.types.is_decimal(column.type):
            column = column.cast(pyarrow.float64())
        columns[name] = column.to_numpy()
    return columns


# ------------------------------------------------------------------------------------------------------------------- file to text


@contextmanager
def open_csv(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Yield a stream of the text of the table in UTF-8, and the name to give to it."""
    with _open_bytes(path) as (stream, stem):
        start = stream.peek(2)[:2] if hasattr(stream, "peek") else b""
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            stream = cast(IO[bytes], codecs.EncodedFile(stream, "utf-8", "utf-16"))
        yield stream, stem


@contextmanager
def _open_bytes(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    if not zipfile.is_zipfile(path):
        if path.suffix.lower() == ".zip":
            raise DataError(f"{path} is not a zip file, or is cut short")
        packed = path.suffix in COMPRESSED
        with open_bytes(path) as stream:
            yield stream, Path(path.stem).stem if packed else path.stem
        return
    try:
        with zipfile.ZipFile(path) as archive:
            tables = [info for info in archive.infolist() if info.filename.lower().endswith((".csv", ".tsv"))]
            if len(tables) != 1:
                raise DataError(f"{path} holds {len(tables)} CSV files; exactly one is needed, so unpack it and name the one")
            with archive.open(tables[0]) as member:
                yield bounded(member, path), Path(tables[0].filename).stem
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is a damaged zip file: {error}") from None
    except RuntimeError as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from None  # encrypted


def csv_first_line(path: Path, text: bytes) -> tuple[list[str] | None, str]:
    """Return (the names in the header, or None if the first line holds numbers alone; the separator)."""
    body = text.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if not body.strip():
        raise DataError(f"{path} is empty")
    if b"\x00" in body[:4096]:
        raise DataError(f"{path} is not text: it holds zero bytes")
    try:
        line = body.split(b"\n", 1)[0].decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; {as_utf8(path)}") from None
    separator = max(SEPARATORS, key=line.count)
    names = next(csv.reader([line], delimiter=separator))
    return (None if all(_is_number(name) for name in names) else [name.strip() for name in names]), separator


def as_utf8(path: Path) -> str:
    """Return how to turn a file of an old encoding into UTF-8."""
    return f"save it as UTF-8 (spreadsheets call it CSV UTF-8), or: iconv -f WINDOWS-1252 -t UTF-8 '{path}' > new.csv"


def separator_of(path: Path, text: bytes) -> str:
    """Return the sign between the fields of a CSV text."""
    return csv_first_line(path, text)[1]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------------------ engines


def csv_engine(name: str | None) -> Any:
    """Return the function that parses CSV text: the named one, or the first that is installed."""
    engines = {"polars": _by_polars, "pandas": _by_pandas, "numpy": _by_numpy}
    if name is not None and name not in engines:
        raise ValueError(f"engine is {name!r}; it must be one of {', '.join(engines)}")
    if name is not None:
        return engines[name]
    for candidate in ("polars", "pandas"):
        try:
            __import__(candidate)
        except ImportError:
            continue
        return engines[candidate]
    return _by_numpy


def _by_polars(text: bytes, separator: str, header: list[str] | None) -> Columns:
    import polars

    options: dict[str, Any] = {"separator": separator, "has_header": header is not None}
    try:
        frame = polars.read_csv(text, infer_schema_length=10_000, **options)
    except polars.exceptions.ComputeError:
        # A fraction late in a column of whole numbers: read all rows to decide the types, which takes longer.
        frame = polars.read_csv(text, infer_schema_length=None, **options)
    return columns_of_frame(frame)


def typed_csv(text: bytes, separator: str, types: Mapping[str, str], missing: Sequence[str] = ()) -> Any:
    """Return CSV text without a header as a polars data frame; None where a cell is not of its column's type.

    `types` has "number", "whole" or "text" for the name of every column, in their order. `missing` are words for missing values.
    """
    try:
        import polars
    except ImportError:
        return None
    kinds = {"number": polars.Float64, "whole": polars.Int64, "text": polars.String}
    schema = {name: kinds[each] for name, each in types.items()}
    try:
        return polars.read_csv(text, separator=separator, has_header=False, schema=schema, null_values=list(missing) or None)
    except polars.exceptions.PolarsError:
        return None


def columns_of_frame(frame: Any) -> Columns:
    """Return the columns of a polars data frame as arrays; missing numbers are NaN."""
    import polars

    columns = {}
    for name in frame.columns:
        column = frame[name]
        if column.null_count() and column.dtype.is_numeric():
            column = column.cast(polars.Float64)
        columns[name] = column.to_numpy()
    return columns


def _by_pandas(text: bytes, separator: str, header: list[str] | None) -> Columns:
    import pandas

    frame = pandas.read_csv(io.BytesIO(text), sep=separator, header=None if header is None else "infer", low_memory=False)
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _by_numpy(text: bytes, separator: str, header: list[str] | None) -> Columns:
    rows = list(csv.reader(io.StringIO(text.decode("utf-8-sig")), delimiter=separator))
    rows = [row for row in rows if row]
    width = len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise ValueError(f"row {number} has {len(row)} fields, the first has {width}")
    body = np.array(rows[1:] if header is not None else rows, dtype=str).reshape(-1, width)
    names = header if header is not None else [str(j) for j in range(width)]
    columns: Columns = {}
    for j, name in enumerate(names):
        words = np.char.strip(body[:, j])
        try:
            columns[name] = np.where(words == "", "nan", words).astype(np.float64)
        except ValueError:
            columns[name] = words
    return columns


# -------------------------------------------------------------------------------------------------------------- columns to DataSet


def table_from_columns(path: Path, stem: str, columns: Columns, target: str | int | None, named: bool) -> DataSet:
    """Return a data set from the columns of a table, one of which holds the labels."""
    values, labels, names = split_columns(path, columns, target, named)
    return DataSet(stem, np.ascontiguousarray(values.T), labels, feature_names=names if named else None)


def split_columns(
    path: Path, columns: Columns, target: str | int | None, named: bool, finite: bool = False
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return (numbers, a row for each feature; labels; names of the features) of the columns of a table.

    Text and missing values are errors, and so are infinite values where numbers must be finite.
    """
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{path} has a header but no rows")
    chosen = choose_target(path, list(columns), target, named)
    names = tuple(name for name in columns if name != chosen)
    if not names:
        raise DataError(f"{path} has no column besides the labels in {chosen!r}")
    values = np.empty((len(names), len(columns[chosen])))
    for name, row in zip(names, values, strict=True):
        _fill_numbers(path, name, columns[name], row)
        if all_finite(row):
            continue
        missing = np.isnan(row)
        if missing.any():
            raise _missing_values(path, name, int(missing.sum()), int(np.argmax(missing)))
        if finite:
            raise DataError(f"{path}: column {name!r} has an infinite value in row {int(np.argmax(np.isinf(row))) + 1}")
    return values, _target_labels(path, chosen, columns[chosen]), names


def choose_target(path: Path, names: list[str], target: str | int | None, named: bool) -> str:
    """Return the name of the column that holds the labels."""
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if isinstance(target, str) and target in names and named:
        return target
    if isinstance(target, str) and target.lstrip("-").isdigit():
        target = int(target)  # from the command line, a number is text
    if is_whole(target):
        if not -len(names) <= target < len(names):
            raise DataError(f"target is {target}, but {path} has {len(names)} columns (0…{len(names) - 1})")
        return names[target]
    if isinstance(target, str):
        near = difflib.get_close_matches(target, names, n=1)
        meant = f"did you mean {near[0]!r}? " if near and named else ""
        why = f"{meant}its columns are {shown}" if named else f"it has no header; give a column number, 0…{len(names) - 1}"
        raise DataError(f"{path} has no column {target!r}; {why}")
    likely = [name for name in names if name.strip().lower() in TARGET_NAMES] if named else []
    if target is None and len(likely) == 1:
        return likely[0]
    if named:
        raise DataError(f"which column of {path} holds the labels? Give target=NAME (--target NAME); the columns are {shown}")
    raise DataError(f"{path} has no header; give target=NUMBER (--target NUMBER), the column of the labels, 0…{len(names) - 1}")


def _fill_numbers(path: Path, name: str, column: np.ndarray, out: np.ndarray) -> None:
    """Write a column to `out` as float64; text is an error."""
    try:
        if column.dtype.kind not in "fiubO":
            raise ValueError("text or dates")
        out[:] = np.array(column.tolist(), dtype=np.float64) if column.dtype.kind == "O" else column
    except (TypeError, ValueError):
        example = next((value for value in column.tolist() if value is not None and not _is_number(str(value))), column[0])
        raise DataError(
            f"{path}: column {name!r} holds text or dates, such as {str(example)!r}; encode it as numbers first "
            "(one 0/1 column a category, say) or leave it out"
        ) from None


def all_finite(values: np.ndarray) -> bool:
    """Return whether all numbers are finite; one sum tells it of all but huge ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _missing_values(path: Path, name: str, count: int, first: int) -> DataError:
    what = f"{count} missing values, the first" if count > 1 else "a missing value"
    return DataError(f"{path}: column {name!r} has {what} in row {first + 1}; fill or drop it first")


def _target_labels(path: Path, name: str, column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "O":
        missing = [i for i, value in enumerate(column.tolist()) if value is None or value != value]
        if missing:
            raise _missing_values(path, name, len(missing), missing[0])
        column = np.array(column.tolist())
    missing_rows = (
        np.isnan(column) if column.dtype.kind == "f" else column == "" if column.dtype.kind == "U" else np.zeros(1, dtype=bool)
    )
    if missing_rows.any():
        raise _missing_values(path, name, int(missing_rows.sum()), int(np.argmax(missing_rows)))
    if column.dtype.kind == "b":
        return column.astype(np.int64)
    return integer_labels(column)
