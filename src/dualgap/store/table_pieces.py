"""Tables into a store: a first pass learns the preparation from a random sample of rows, a second one applies it piece by piece.

The preparation stays beside the parts as preparation.json: names, categories and scales that a model needs to read other tables.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import (
    MISSING,
    DataError,
    Encoder,
    LabelRule,
    NumberRule,
    Preparation,
    TableOptions,
    column_names,
    find_header,
    first_record,
    grouped,
    kind_of,
    learn_target,
    read_table,
    separator_of,
    target_of,
    typed_csv,
)
from dualgap.data import Table as TableData
from dualgap.store.file_pieces import AnyPiece, ColumnPiece, Piece, csv_texts, parquet_batches, row_group_rows, rows_at_once

__all__ = ["TableSource", "learn_tables"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller table is used whole
STRETCHED_ROWS = 2 * SAMPLE_ROWS  # rows at the beginnings of row groups that a sample is drawn from
MANY_GROUPS = 16  # row groups from which a sample is drawn from their beginnings
SAMPLE_VALUES = 1 << 23  # cells of a sample, at most: 64 MB of numbers, of which learning makes several copies
NEWLINE, QUOTE = 10, 34
MISSING_WORDS = [form for word in MISSING for form in {word, word.upper(), word.title()} if word]  # as most files write them
WHOLE_BYTES = 500_000_000  # a Parquet file of up to this size is read whole where pyarrow is not installed


@dataclass(frozen=True)
class TableSource:
    """One table file with what was learned about its columns and its labels."""

    path: Path
    dtype: str
    header: bool | None
    preparation: Preparation
    labels: LabelRule | NumberRule
    kind: str = "table"
    zero_based: None = None
    n_features: None = None

    @property
    def target(self) -> str:
        """The label column, with a digest of the preparation: another one is another store."""
        text = json.dumps([self.preparation.to_dict(), self.labels.to_dict()], sort_keys=True)
        return f"{self.preparation.target} ({hashlib.sha256(text.encode()).hexdigest()[:16]})"

    @property
    def encoder(self) -> Encoder:
        """What turns its rows into features."""
        return Encoder(self.preparation)

    @property
    def storage(self) -> str:
        """How its prepared rows are stored."""
        return "csr" if self.preparation.is_sparse else "dense"

    def pieces(self, skip: int = 0) -> Iterator[AnyPiece]:
        """Yield the samples in order, without the first `skip` pieces; rows without a label are left out."""
        return islice(self._all_pieces(), skip, None)

    def _all_pieces(self) -> Iterator[AnyPiece]:
        before, rows = 0, 0
        for frame, named in table_frames(self.path, self.header, self._expected(), self._number_columns()):
            height = frame.height
            try:
                frame = self.preparation.with_names(frame, named)
                if self.preparation.target not in frame.columns:
                    raise DataError(f"there is no label column {self.preparation.target!r}")
                y, present = self.labels.apply(frame[self.preparation.target])
                if len(present) < height:
                    frame = frame[present]
                piece = self._prepared(frame, y) if frame.height else None
            except DataError as error:
                raise DataError(f"{self.path}: {_shifted(str(error), before)}") from None
            before += height
            if piece is not None:
                rows += len(y)
                yield piece
        if not rows:
            raise DataError(f"{self.path} has no rows with a label")

    def _prepared(self, frame: Any, y: np.ndarray) -> AnyPiece:
        if self.storage == "dense":
            return ColumnPiece(y, *self.preparation.columns(frame))
        X = self.preparation.apply(frame)
        return Piece(y, (X.indptr, X.indices, X.data.astype(self.dtype, copy=False)))

    def _expected(self) -> list[str]:
        return self.preparation.used if self.preparation.named else []

    def _number_columns(self) -> set[str]:
        """Return the columns whose words are plain numbers, so that CSV text is parsed as such."""
        found = {name for name, style in self.preparation.number_styles().items() if style == "plain"}
        return found | ({self.labels.name} if self.labels.style == "plain" else set())


def _shifted(text: str, before: int) -> str:
    """Count the row in an error from the start of the file, not of the piece."""
    return re.sub(r"\brow (\d+)", lambda found: f"row {int(found[1]) + before:,}", text, count=1)


def table_frames(
    path: Path, header: bool | None, expected: Sequence[str] = (), numbers: Collection[str] = ()
) -> Iterator[tuple[Any, bool]]:
    """Yield (some rows as a polars data frame, whether the file has a header).

    A first line of CSV with one of the expected names is a header. Columns of CSV that are named in `numbers` are numbers where all their
    words are, other columns are words.
    """
    kind = kind_of(path)
    if kind == "csv":
        yield from _csv_frames(path, header, expected, numbers)
        return
    if kind == "parquet" and (importlib.util.find_spec("pyarrow") is not None or path.stat().st_size > WHOLE_BYTES):
        import polars as pl

        for table in parquet_batches(path):
            yield pl.from_arrow(table), True
        return
    whole = read_table(path).frame
    step = rows_at_once(whole.width)
    for start in range(0, whole.height, step):
        yield whole[start : start + step], True


def _csv_frames(path: Path, header: bool | None, expected: Sequence[str], numbers: Collection[str]) -> Iterator[tuple[Any, bool]]:
    """Yield pieces of CSV text as frames; what a word means is decided by the preparation, the same for all pieces."""
    for lines in csv_lines(path, header, expected):
        yield lines.frame(numbers), lines.named


@dataclass(frozen=True)
class CsvLines:
    """Some lines of a CSV file, without the header."""

    path: Path
    text: bytes
    separator: str
    names: list[str]
    named: bool

    def frame(self, numbers: Collection[str] = ()) -> Any:
        """Return the lines as a polars data frame of words, and of numbers where asked and possible."""
        import polars as pl

        types = {name: "number" if name in numbers else "text" for name in self.names}
        for missing in ((), MISSING_WORDS):  # a search for words doubles the time of parsing
            frame = typed_csv(self.text, self.separator, types, missing)
            if frame is not None:
                return frame
        try:
            frame = pl.read_csv(self.text, separator=self.separator, has_header=False, infer_schema_length=0)
        except Exception as error:  # malformed in one of many ways
            raise DataError(f"{self.path} is not a well-formed CSV table: {' '.join(str(error).split())[:200]}") from None
        if frame.width != len(self.names):
            raise DataError(f"{self.path}: {frame.width} fields in a line where {len(self.names)} are needed")
        return frame.rename(dict(zip(frame.columns, self.names, strict=True)))

    def typed_frame(self) -> Any:
        """Return the lines as a polars data frame with the types that reading a whole CSV file gives to them."""
        import polars as pl

        options: dict[str, Any] = {"separator": self.separator, "has_header": False}
        try:
            try:
                frame = pl.read_csv(self.text, infer_schema_length=10_000, **options)
            except pl.exceptions.ComputeError:  # a word late in a column of numbers: the preparation decides what words mean
                frame = pl.read_csv(self.text, infer_schema_length=0, **options)
        except pl.exceptions.PolarsError:
            return self.frame()
        return frame.rename(dict(zip(frame.columns, self.names, strict=True))) if frame.width == len(self.names) else self.frame()

    def record_ends(self) -> np.ndarray:
        """Return where each record ends: at a line end that is not between quotes."""
        signs = np.frombuffer(self.text, np.uint8)
        ends = np.flatnonzero(signs == NEWLINE)
        if b'"' in self.text:
            ends = ends[np.cumsum(signs == QUOTE, dtype=np.int32)[ends] % 2 == 0]
        return ends + 1

    def some(self, chosen: np.ndarray) -> CsvLines:
        """Return the records at some places."""
        ends = self.record_ends()
        if len(chosen) == len(ends):
            return self
        starts = np.concatenate([[0], ends[:-1]])[chosen].tolist()
        return replace(self, text=b"".join([self.text[a:b] for a, b in zip(starts, ends[chosen].tolist(), strict=True)]))


def csv_lines(path: Path, header: bool | None, expected: Sequence[str] = ()) -> Iterator[CsvLines]:
    """Yield the lines of a CSV file, some at a time."""
    separator, named, names = "", False, None
    for text in csv_texts(path):
        if names is None:
            text = text.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
            separator = separator_of(path, text)
            named = find_header(text, separator, expected) if header is None else header
            first, length = first_record(text, separator)
            names = column_names(path, text, separator, first) if named else [str(j) for j in range(len(first))]
            text = text[length:] if named else text
        if text and not text.isspace():
            yield CsvLines(path, text, separator, names, named)
    if names is None:
        raise DataError(f"{path} is empty")


# --------------------------------------------------------------------------------------------------------------------- learning


def learn_tables(
    paths: Sequence[Path], target: str | int | None, dtype: str, options: TableOptions, seed: int
) -> list[TableSource]:
    """Learn a preparation and the labels from a random sample of the rows of all files."""
    sample, named = _sample(paths, options.header, seed)
    chosen = target_of(TableData(paths[0].name, sample, named), target)
    rule = learn_target(sample[chosen], chosen, options.above, options.task, options.missing)
    y, present = rule.apply(sample[chosen])
    made = options.learn(sample[present], chosen, named, grouped(y, rule.task))
    return [TableSource(path, dtype, named if k == 0 else options.header, made, rule) for k, path in enumerate(paths)]


def _sample(paths: Sequence[Path], header: bool | None, seed: int) -> tuple[Any, bool]:
    """Return rows drawn at random from all files, or all rows where there are few, with the types that their words have."""
    sample, has_header = _Sample(np.random.default_rng(seed)), True
    stretches = _row_group_stretches(paths)
    for path in paths:
        if kind_of(path) == "csv":
            for lines in csv_lines(path, header):
                has_header = lines.named
                sample.add(lines, lines.record_ends().size)
        else:
            for frame in _stretches(path, stretches[path]) if stretches else (each for each, _ in table_frames(path, header)):
                sample.add(Rows(path, frame), frame.height)
    return sample.rows(), has_header


@dataclass(frozen=True)
class Rows:
    """Some rows of a table that is not CSV."""

    path: Path
    frame: Any

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def some(self, chosen: np.ndarray) -> Rows:
        """Return the rows at some places."""
        return self if len(chosen) == self.frame.height else replace(self, frame=self.frame[chosen])


class _Sample:
    """Rows with a random key each, of which those with the smallest keys are kept. Text stays text until the end.

    Order of calls: `add` for all rows, then `rows`.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.held: list[Any] = []  # CsvLines or Rows
        self.keys: list[np.ndarray] = []  # of the rows of each
        self.below = np.inf  # a row with a larger key is not among those kept

    def add(self, rows: CsvLines | Rows, count: int) -> None:
        """Add rows; `count` is their number."""
        first = self.held[0] if self.held else rows
        if sorted(rows.names) != sorted(first.names):
            different = sorted(set(rows.names) ^ set(first.names))
            raise DataError(f"{rows.path} and {first.path} do not have the same columns: only one has a column {different[0]!r}")
        keys = self.rng.random(count)
        chosen = np.flatnonzero(keys < self.below)
        if len(chosen) or not self.held:
            self.held.append(rows.some(chosen))
            self.keys.append(keys[chosen])
        if sum(map(len, self.keys)) > 1.5 * self._most():
            self._cut()

    def rows(self) -> Any:
        """Return the rows that were kept, in the order of the files."""
        self._cut()
        frames = []
        for names, same in groupby(self.held, key=lambda rows: (rows.names, isinstance(rows, CsvLines))):
            each = list(same)
            if names[1]:
                frames.append(replace(each[0], text=b"".join(lines.text for lines in each)).typed_frame())
            else:
                frames += [rows.frame for rows in each]
        return reduce(_below, frames)

    def _most(self) -> int:
        """Return how many rows to keep: fewer of a wide table."""
        return max(1000, min(SAMPLE_ROWS, SAMPLE_VALUES // len(self.held[0].names)))

    def _cut(self) -> None:
        """Leave the rows with the smallest keys."""
        keys = np.concatenate(self.keys)
        if len(keys) <= self._most():
            return
        self.below = float(np.partition(keys, self._most())[self._most()])
        kept = [np.flatnonzero(each < self.below) for each in self.keys]
        self.held = [rows.some(chosen) for rows, chosen in zip(self.held, kept, strict=True)]
        self.keys = [each[chosen] for each, chosen in zip(self.keys, kept, strict=True)]


def _row_group_stretches(paths: Sequence[Path]) -> dict[Path, list[int]]:
    """Return how many rows of each row group to draw a sample from; nothing where the files are read whole.

    Parquet files of many row groups are not read whole for a sample: the rows at the beginning of all groups are.
    """
    if any(kind_of(path) != "parquet" for path in paths) or importlib.util.find_spec("pyarrow") is None:
        return {}
    groups = {path: row_group_rows(path) for path in paths}
    rows, count = sum(map(sum, groups.values())), sum(map(len, groups.values()))
    if count < MANY_GROUPS or rows <= 2 * STRETCHED_ROWS:
        return {}
    return {path: [-(-STRETCHED_ROWS * each // rows) for each in groups[path]] for path in paths}


def _stretches(path: Path, wanted: Sequence[int]) -> Iterator[Any]:
    import polars as pl

    for k, rows in enumerate(wanted):
        for table in parquet_batches(path, k):
            yield pl.from_arrow(table[:rows])
            rows -= table.num_rows
            if rows <= 0:
                break


def _below(held: Any, frame: Any) -> Any:
    """Return rows below others; a column that has another type there becomes text in both."""
    import polars as pl

    different = [name for name in held.columns if held.schema[name] != frame.schema[name]]
    if different:
        held, frame = (each.with_columns(pl.col(different).cast(pl.String)) for each in (held, frame))
    return pl.concat([held, frame.select(held.columns)])
