"""Tables as files have them: CSV, TSV, Parquet, Arrow; compressed, several files, a folder, standard input; with or without a header.

A `Table` holds the columns as they are written. What becomes of them is decided in `columns` and `preparation`.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dualgap.core import needs
from dualgap.data.columns import is_missing, is_number
from dualgap.data.compressed import COMPRESSED, open_bytes, unpacked
from dualgap.data.csv_parquet import as_utf8, csv_first_line, open_csv
from dualgap.data.dataset import DataError

__all__ = [
    "TABLE_KINDS",
    "Table",
    "column_names",
    "files_of",
    "find_header",
    "first_record",
    "kind_of",
    "read_table",
    "spooled_input",
]

TABLE_KINDS = ("csv", "parquet", "arrow")
ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc", ".arrows"), "arrow"),
    ".npz": "npz",
    ".mat": "mat",
    **dict.fromkeys((".libsvm", ".svm", ".svmlight"), "libsvm"),
}
FOREIGN = {
    ".npy": "; save X and y together with numpy.savez",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "; save the sheet as CSV"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), ", which could run code"),
    **dict.fromkeys((".zst", ".7z", ".rar", ".tar", ".tgz"), "; unpack it first"),
    **dict.fromkeys((".json", ".jsonl", ".h5", ".hdf5", ".arff", ".png", ".jpeg", ".jpg"), ""),
    ".skops": "; it is a model: `dualgap predict` takes it",
    ".proof": "; it is a proof: `dualgap verify` takes it",
}
LIBSVM_LINE = re.compile(rb"\s*[-+.\deE,]+(\s+(qid:\S+|\d+:\S+))+\s*(#.*)?\r?")
HEADER_ROWS = 200  # lines that decide whether the first one is a header


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file or several, as a polars data frame; without a header the columns are called 0, 1, …"""

    name: str
    frame: Any
    named: bool

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)


def polars() -> Any:
    """Return polars, or say what to install."""
    try:
        import polars as found
    except ImportError:
        raise DataError(needs("reading tables", "polars")) from None
    return found


# --------------------------------------------------------------------------------------------------------------- which files


def files_of(data: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that were named; a folder stands for the tables in it."""
    found: list[Path] = []
    for item in data:
        path = Path(item)
        if not path.is_dir():
            if not path.exists():
                raise DataError(f"{path}: there is no such file")
            found.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith((".", "_")))
        tables = [each for each in inside if ending_of(each) in (*ENDINGS,)]
        if not tables:
            _refuse_partitions(path)
            raise DataError(f"{path} is a folder with neither a store nor a table (.parquet, .csv, …) in it")
        found += tables
    if not found:
        raise DataError("no file was named")
    return found


def _refuse_partitions(folder: Path) -> None:
    """Raise for a folder of folders such as year=2024: their column is in their names, and not in the files."""
    parts = [each for each in sorted(folder.iterdir()) if each.is_dir() and "=" in each.name]
    if parts:
        column = parts[0].name.split("=")[0]
        raise DataError(
            f"{folder} is partitioned into folders such as {parts[0].name!r}: the values of {column!r} are in the names of the folders, "
            f"and not in the files. Name the files ({folder}/*/*.parquet) to do without that column, or write one file with it: "
            f"polars.scan_parquet({str(folder)!r}, hive_partitioning=True).sink_parquet('all.parquet')"
        )


def kind_of(path: Path) -> str:
    """Return the format of a file, by the ending of its name and, where that says nothing, by its first line."""
    known = ENDINGS.get(ending_of(path))
    if known:
        return known
    ending = path.suffix.lower()
    if ending in FOREIGN or ending_of(path) in FOREIGN:
        told = FOREIGN.get(ending, FOREIGN.get(ending_of(path), ""))
        raise DataError(f"{path}: cannot read {ending} files{told}; give CSV, TSV, Parquet, Arrow, NPZ, MAT or LIBSVM text")
    if path.suffix.lower() == ".zip":
        return "csv"
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    with open_bytes(path) as stream:
        start = stream.read(1 << 16)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"  # a file, or a stream
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start.startswith(b"MATLAB 5.0"):
        return "mat"
    line = start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").split(b"\n", 1)[0]
    if LIBSVM_LINE.fullmatch(line) or not re.search(rb"[,;\t|]", line):
        return "libsvm"
    return "csv"


def ending_of(path: Path) -> str:
    """Return the ending of a file's name that tells its format, without that of a compression."""
    packed = path.suffix.lower() in (*COMPRESSED, ".zip")
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


@contextmanager
def spooled_input() -> Iterator[Path]:
    """Yield a temporary file with what comes in on standard input; it is removed at the end."""
    content = sys.stdin.buffer.read()
    if not content:
        raise DataError("standard input is empty; pipe a table into the command, or name a file")
    with tempfile.TemporaryDirectory(prefix="dualgap-") as folder:
        path = Path(folder) / "standard-input"
        path.write_bytes(content)
        yield path


# -------------------------------------------------------------------------------------------------------------------- reading


def read_table(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    header: bool | None = None,
    expected: Sequence[str] = (),
) -> Table:
    """Read a table from one file or several, row after row; a folder stands for the tables in it.

    Parameters
    ----------
    data : path, or several
        CSV or TSV (compressed, or alone in a zip), Parquet, Arrow (Feather). A name is never taken for a pattern.
    header : bool, optional
        Whether the first line of CSV holds names; by default it is compared with the lines below it.
    expected : names
        Columns that are looked for: a first line with one of them is a header.

    Examples
    --------
    >>> import os, tempfile
    >>> from dualgap.data.table_files import read_table
    >>> path = os.path.join(tempfile.mkdtemp(), "pets.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("4.1, cat\\n30.5, dog\\n")
    >>> table = read_table(path)
    >>> table.named, table.columns, table.frame.height
    (False, ['0', '1'], 2)
    """
    paths = files_of([data] if isinstance(data, (str, os.PathLike)) else data)
    tables = [_read_one(path, header, expected) for path in paths]
    first = tables[0]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        _check_same_columns(paths[0], first, path, table)
    if len(tables) == 1:
        return first
    frames = [table.frame.select(first.columns) for table in tables]
    return Table(f"{first.name} and {len(paths) - 1} more", _stacked(frames), first.named)


def _check_same_columns(one: Path, first: Table, other: Path, table: Table) -> None:
    if sorted(first.columns) == sorted(table.columns) and first.named == table.named:
        return
    different = sorted(set(first.columns) ^ set(table.columns))
    where = one if different and different[0] in first.columns else other
    what = f"only {where} has a column {different[0]!r}" if different else "only one of them has a header"
    raise DataError(f"{one} and {other} do not have the same columns: {what}")


def _stacked(frames: list[Any]) -> Any:
    pl = polars()
    for name in frames[0].columns:
        kinds = {frame.schema[name] for frame in frames}
        if len(kinds) > 1:
            common = pl.Float64 if all(kind.is_numeric() for kind in kinds) else pl.String
            frames = [frame.with_columns(pl.col(name).cast(common)) for frame in frames]
    return pl.concat(frames)


def _read_one(path: Path, header: bool | None, expected: Sequence[str]) -> Table:
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    kind = kind_of(path)
    if kind == "csv":
        return _read_csv(path, header, expected)
    if kind not in TABLE_KINDS:
        raise DataError(f"{path} is no table: give CSV, TSV, Parquet or Arrow")
    pl = polars()
    try:
        with unpacked(path) as plain, open(plain, "rb") as stream:  # a stream, for a name would be taken for a pattern
            if kind == "parquet":
                frame = pl.read_parquet(stream)
            else:
                content = io.BytesIO(stream.read())
                frame = pl.read_ipc(content) if content.getvalue().startswith(b"ARROW1") else pl.read_ipc_stream(content)
    except (OSError, pl.exceptions.PolarsError) as error:
        name = "Parquet" if kind == "parquet" else "Arrow"
        raise DataError(f"{path} is not a whole {name} file ({_short(error)})") from None
    if not frame.height:
        raise DataError(f"{path} has no rows")
    return Table(path.name.split(".")[0] or path.name, frame, True)


def _read_csv(path: Path, header: bool | None, expected: Sequence[str]) -> Table:
    pl = polars()
    with open_csv(path) as (stream, stem):
        text = stream.read()
    text = text.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if b"\n" not in text and b"\r" in text:
        text = text.replace(b"\r", b"\n")  # the line ends of old spreadsheets
    _, separator = csv_first_line(path, text)
    text = _without_blank_lines(text)
    named = find_header(text, separator, expected) if header is None else header
    options: dict[str, Any] = {"separator": separator, "has_header": named}
    try:
        try:
            frame = pl.read_csv(text, infer_schema_length=10_000, **options)
        except pl.exceptions.ComputeError:  # a word late in a column of numbers: the preparation decides what words mean
            frame = pl.read_csv(text, infer_schema_length=0, **options)
    except Exception as error:  # malformed in one of many ways
        raise DataError(
            f"{path} is not a well-formed CSV table: {_what_is_wrong(path, text, separator) or _short(error)}"
        ) from None
    names = column_names(path, text, separator, frame.columns) if named else [str(j) for j in range(frame.width)]
    if not frame.height:
        raise DataError(f"{path} has a header but no rows")
    return Table(stem, frame.rename(dict(zip(frame.columns, names, strict=True))), named)


def column_names(path: Path, text: bytes, separator: str, found: Sequence[str]) -> list[str]:
    """Return the names of columns, without blanks around them; an empty one is called by its place. Two that are alike are an error."""
    try:
        first = next(csv.reader(io.StringIO(text[: 1 << 20].decode("utf-8", "replace"), newline=""), delimiter=separator))
    except csv.Error:
        first = list(found)
    given = first if len(first) == len(found) else found  # polars gives other names to columns that are called alike
    names = [name.strip() or f"column {j}" for j, name in enumerate(given)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has two columns called {twice!r}; rename one of them")
    return names


def first_record(text: bytes, separator: str) -> tuple[list[str], int]:
    """Return the fields of the first record of a CSV text, and the bytes that it takes; a field in quotes may have line ends."""
    end = text.find(b"\n") + 1 or len(text)
    while text.count(b'"', 0, end) % 2 and end < len(text):
        end = text.find(b"\n", end) + 1 or len(text)
    first = next(csv.reader(io.StringIO(text[:end].decode("utf-8", "replace"), newline=""), delimiter=separator), [])
    return first, end


def _what_is_wrong(path: Path, text: bytes, separator: str) -> str:
    """Return what is wrong with a CSV text in words, where it is something common."""
    try:
        rows = csv.reader(io.StringIO(text.decode("utf-8"), newline=""), delimiter=separator)
        width = len(next(rows))
        for row in rows:
            if row and len(row) != width:
                return f"line {rows.line_num} has {len(row)} fields, the first line has {width}"
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 text; {as_utf8(path)}"
    except (csv.Error, StopIteration):
        pass
    return ""


def _without_blank_lines(text: bytes) -> bytes:
    """Remove empty lines, which polars would take for rows of missing values; between quotes they stay."""
    text = text.rstrip() + b"\n"
    if b'"' in text or not re.search(rb"\n[ \r]*\n", text):
        return text
    return re.sub(rb"\n([ \r]*\n)+", b"\n", text)


def find_header(text: bytes, separator: str, expected: Sequence[str] = ()) -> bool:
    """Return whether the first line of a CSV text holds names, by a comparison with the lines below it.

    A name above numbers speaks for a header. A number above numbers, or a word that stands further down in the same column, speaks
    against one. A number that may be a year says nothing, and neither does an empty cell. Where nothing speaks, the first line is a header.
    """
    try:
        head = text[: 1 << 20].decode("utf-8", "replace")
        rows = []
        for row in csv.reader(io.StringIO(head), delimiter=separator):
            rows.append([cell.strip() for cell in row])
            if len(rows) > HEADER_ROWS:
                break
    except csv.Error:
        return True
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if expected and set(first) & set(expected):
        return True
    if all(is_number(cell) for cell in first):
        return False
    votes = sum(_vote(cell, [row[j] for row in body]) for j, cell in enumerate(first))
    return votes > 0 or (votes == 0 and len(set(first)) == len(first) and not any(is_missing(cell) for cell in first if cell))


def _vote(cell: str, below: list[str]) -> int:
    """Return 1 if a cell of the first line looks like the name of the column below it, -1 if it looks like one of its values."""
    known = [value for value in below if not is_missing(value)]
    if not cell or not known:
        return 0
    if is_missing(cell):
        return -1
    if is_number(cell):
        return 0 if re.fullmatch(r"(19|20)\d\d", cell) else -1
    if sum(is_number(value) for value in known) > 0.9 * len(known):
        return 1
    return -1 if cell in known else 0


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
