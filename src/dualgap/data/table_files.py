"""Tables as files have them: CSV, TSV, Parquet, Arrow; compressed, several files, a folder, standard input; with or without a header.

`open_table` gives the rows of a file, some at a time or all at once; `read_table` those of several files. Values are as they are written:
what becomes of them is decided in `columns` and `preparation`.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.core import needs
from dualgap.data.csv_files import (
    HEAD_BYTES,
    PIECE_BYTES,
    column_names,
    csv_texts,
    find_header,
    first_record,
    record_ends,
    separator_of,
    table_name,
    what_is_wrong,
)
from dualgap.data.dataset import DataError
from dualgap.data.packed import COMPRESSED, open_bytes, unpacked

if TYPE_CHECKING:
    import polars as pl
    from pyarrow.parquet import ParquetFile

__all__ = [
    "TABLE_KINDS",
    "Rows",
    "Table",
    "TableFile",
    "files_of",
    "kind_of",
    "open_table",
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
PIECE_ROWS = 1 << 16  # rows of a file that is not text at a time, at most
WHOLE_BYTES = 500_000_000  # a Parquet file of up to this size is read whole where pyarrow is not installed


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file or several, as a polars data frame; without a header the columns are called 0, 1, …"""

    name: str
    frame: pl.DataFrame
    named: bool

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)


def polars() -> ModuleType:
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


@dataclass(frozen=True, eq=False)
class TableFile:
    """One file with a table, opened by `open_table`; its rows are read when they are asked for."""

    path: Path
    kind: str  # one of TABLE_KINDS
    named: bool = True
    names: tuple[str, ...] = ()  # of the columns of CSV
    separator: str = ""
    header: int = 0  # bytes of the line with the names

    def pieces(self, size: int = 0) -> Iterator[Rows]:
        """Yield the rows, some at a time, or `size` bytes of CSV at a time; its text is not parsed yet."""
        if self.kind == "csv":
            for number, text in enumerate(csv_texts(self.path, size)):
                body = text if number else text[self.header :]
                if body and not body.isspace():
                    yield Rows(self, body, number)
        elif self.kind == "parquet" and (_has_pyarrow() or self.path.stat().st_size > WHOLE_BYTES):
            for frame in self._row_groups():
                yield Rows(self, frame)
        else:
            whole = self._whole()
            step = _rows_at_once(whole.width)
            for start in range(0, whole.height, step):
                yield Rows(self, whole[start : start + step])

    def head_of_groups(self, most: int) -> Iterator[Rows]:
        """Yield the rows at the beginning of each row group of a Parquet file, `most` in all, each group by its share of the rows."""
        counts = self.group_rows()
        for k, rows in enumerate(counts):
            wanted = -(-most * rows // sum(counts))
            for frame in self._row_groups(k):
                yield Rows(self, frame[:wanted])
                wanted -= frame.height
                if wanted <= 0:
                    break

    def head(self) -> pl.DataFrame:
        """Return the first rows, with types that their values have."""
        frame = next((rows.typed() for rows in self.pieces(HEAD_BYTES)), None)
        if frame is None:
            raise DataError(f"{self.path} has {'a header but ' if self.kind == 'csv' else ''}no rows")
        return frame

    def group_rows(self) -> list[int]:
        """Return the number of rows of each row group of a Parquet file; of another file nothing."""
        if self.kind != "parquet" or not _has_pyarrow():
            return []
        with _open_parquet(self.path) as file:
            return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]

    def read(self) -> pl.DataFrame:
        """Return all rows as a polars data frame, with types that their values have."""
        if self.kind == "csv":
            frame = Rows(self, b"".join(rows.content for rows in self.pieces())).typed()
        else:
            frame = self._whole()
        if not frame.height:
            raise DataError(f"{self.path} has {'a header but ' if self.kind == 'csv' else ''}no rows")
        return frame

    def _whole(self) -> pl.DataFrame:
        pl = polars()
        try:
            with unpacked(self.path) as plain, open(plain, "rb") as stream:  # a stream, for a name would be taken for a pattern
                if self.kind == "parquet":
                    return pl.read_parquet(stream)
                content = io.BytesIO(stream.read())
                return pl.read_ipc(content) if content.getvalue().startswith(b"ARROW1") else pl.read_ipc_stream(content)
        except (OSError, pl.exceptions.PolarsError) as error:
            name = "Parquet" if self.kind == "parquet" else "Arrow"
            raise DataError(f"{self.path} is not a whole {name} file ({_short(error)})") from None

    def _row_groups(self, group: int | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows of a Parquet file, or of one row group; no more than some of them are in memory."""
        pl = polars()
        with _open_parquet(self.path) as file:
            for batch in file.iter_batches(
                _rows_at_once(len(file.schema_arrow.names)), row_groups=None if group is None else [group]
            ):
                yield pl.from_arrow(batch)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table: text of CSV without the header, or a data frame."""

    table: TableFile
    content: Any  # bytes or a data frame
    number: int = 0  # pieces of the text before this one

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.names if isinstance(self.content, bytes) else self.content.columns)

    def count(self) -> int:
        """Return the number of rows."""
        return record_ends(self.content).size if isinstance(self.content, bytes) else int(self.content.height)

    def some(self, chosen: np.ndarray) -> Rows:
        """Return the rows at some places."""
        if not isinstance(self.content, bytes):
            return self if len(chosen) == self.content.height else replace(self, content=self.content[chosen])
        ends = record_ends(self.content)
        if len(chosen) == len(ends):
            return self
        starts = np.concatenate([[0], ends[:-1]])[chosen].tolist()
        return replace(self, content=b"".join([self.content[a:b] for a, b in zip(starts, ends[chosen].tolist(), strict=True)]))

    def typed(self) -> pl.DataFrame:
        """Return the rows as a polars data frame; a column of CSV has the type that its values have."""
        if not isinstance(self.content, bytes):
            return self.content
        pl, separator = polars(), self.table.separator
        head = separator.join(map(str, range(len(self.table.names)))).encode() + b"\n"  # says how many columns there are
        for rows in (10_000, None):  # a fraction or a word late in a column of whole numbers takes a look at all rows
            try:
                frame = pl.read_csv(head + self.content, separator=separator, infer_schema_length=rows)
                return frame.rename(dict(zip(frame.columns, self.table.names, strict=True)))
            except pl.exceptions.PolarsError:
                continue
        return self.frame()  # the preparation decides what the words mean

    def frame(self, numbers: Collection[str] = ()) -> pl.DataFrame:
        """Return the rows as a polars data frame; of CSV, columns are words, and numbers where they are asked for and all words are."""
        if not isinstance(self.content, bytes):
            return self.content
        pl, options = polars(), {"separator": self.table.separator, "has_header": False}
        for asked in (numbers, ()) if numbers else ((),):
            try:
                schema = {name: pl.Float64 if name in asked else pl.String for name in self.table.names}
                return pl.read_csv(self.content, schema=schema, **options)
            except pl.exceptions.PolarsError as error:
                why = _short(error)
        table = self.table
        wrong = what_is_wrong(table.path, self.content, table.separator, len(table.names), table.header > 0, self.number)
        raise DataError(f"{self.table.path} is not a well-formed CSV table: {wrong or why}")


def open_table(path: str | os.PathLike[str], header: bool | None = None, expected: Sequence[str] = ()) -> TableFile:
    """Return a table file whose rows can be read; see `read_table` for the parameters."""
    path = Path(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    kind = kind_of(path)
    if kind not in TABLE_KINDS:
        raise DataError(f"{path} is no table: give CSV, TSV, Parquet or Arrow")
    if kind != "csv":
        return TableFile(path, kind)
    text = next(csv_texts(path, HEAD_BYTES), b"")
    separator = separator_of(path, text)
    named = find_header(text, separator, expected) if header is None else header
    first, length = first_record(text, separator)
    names = column_names(path, first) if named else [str(j) for j in range(len(first))]
    return TableFile(path, kind, named, tuple(names), separator, length if named else 0)


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
    files = [open_table(path, header, expected) for path in files_of([data] if isinstance(data, (str, os.PathLike)) else data)]
    frames = [file.read() for file in files]
    first, name = files[0], table_name(files[0].path)
    for file, frame in zip(files[1:], frames[1:], strict=True):
        check_same_columns((first, frames[0].columns), (file, frame.columns))
    return Table(f"{name} and {len(files) - 1} more" if len(files) > 1 else name, stacked(frames), first.named)


def check_same_columns(one: tuple[TableFile, Sequence[str]], other: tuple[TableFile, Sequence[str]]) -> None:
    """Raise unless two files, each with the names of its columns, can be put one below the other."""
    (first, columns), (second, others) = one, other
    if sorted(columns) == sorted(others) and first.named == second.named:
        return
    different = sorted(set(columns) ^ set(others))
    where = first.path if different and different[0] in columns else second.path
    what = f"only {where} has a column {different[0]!r}" if different else "only one of them has a header"
    raise DataError(f"{first.path} and {second.path} do not have the same columns: {what}")


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return data frames one below the other; a column with words and numbers becomes words."""
    if len(frames) == 1:
        return frames[0]
    pl, first = polars(), frames[0]
    frames = [frame.select(first.columns) for frame in frames]
    for name in first.columns:
        kinds = {frame.schema[name] for frame in frames}
        if len(kinds) > 1:
            common = pl.Float64 if all(kind.is_numeric() for kind in kinds) else pl.String
            frames = [frame.with_columns(pl.col(name).cast(common)) for frame in frames]
    return pl.concat(frames)


def _has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _rows_at_once(columns: int) -> int:
    """Return the rows of a table that is not text to read at a time."""
    return max(16, min(PIECE_ROWS, PIECE_BYTES // (8 * max(columns, 1))))


@contextmanager
def _open_parquet(path: Path) -> Iterator[ParquetFile]:
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
        raise DataError(f"{path} is not a whole Parquet file ({_short(error)})") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
