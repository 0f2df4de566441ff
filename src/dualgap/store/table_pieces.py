"""Tables into a store: a first pass learns the preparation from a random sample of rows, a second one applies it piece by piece.

The preparation stays beside the parts as preparation.json: names, categories and scales that a model needs to read other tables.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import (
    DataError,
    Encoder,
    LabelRule,
    NumberRule,
    Preparation,
    TableOptions,
    column_names,
    find_header,
    grouped,
    kind_of,
    learn_target,
    read_table,
    separator_of,
    target_of,
    unpacked,
)
from dualgap.data import Table as TableData
from dualgap.store.file_pieces import Piece, csv_texts

__all__ = ["TableSource", "learn_tables"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller table is used whole
PIECE_ROWS = 8192
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

    def pieces(self) -> Iterator[Piece]:
        """Yield the samples in order; rows without a label are left out."""
        before, rows = 0, 0
        for frame, named in table_frames(self.path, self.header, self.preparation):
            try:
                frame = self.preparation.with_names(frame, named)
                if self.preparation.target not in frame.columns:
                    raise DataError(f"there is no label column {self.preparation.target!r}")
                y, present = self.labels.apply(frame[self.preparation.target])
                if len(present) < frame.height:
                    frame = frame[present]
                X = self.preparation.apply(frame) if frame.height else None
            except DataError as error:
                raise DataError(f"{self.path}: {_shifted(str(error), before)}") from None
            before += PIECE_ROWS if X is None else len(y)
            if X is None:
                continue
            rows += len(y)
            if self.storage == "csr":
                yield Piece(y, (X.indptr, X.indices, X.data.astype(self.dtype, copy=False)))
            else:
                yield Piece(y, (np.ascontiguousarray(X, dtype=self.dtype),))
        if not rows:
            raise DataError(f"{self.path} has no rows with a label")


def _shifted(text: str, before: int) -> str:
    """Count the row in an error from the start of the file, not of the piece."""
    return re.sub(r"\brow (\d+)", lambda found: f"row {int(found[1]) + before:,}", text, count=1)


def table_frames(path: Path, header: bool | None, preparation: Preparation | None) -> Iterator[tuple[Any, bool]]:
    """Yield (some rows as a polars data frame, whether the file has a header)."""
    kind = kind_of(path)
    if kind == "csv":
        yield from _csv_frames(path, header, [] if preparation is None or not preparation.named else preparation.used)
        return
    if kind == "parquet" and (importlib.util.find_spec("pyarrow") is not None or path.stat().st_size > WHOLE_BYTES):
        for frame in _parquet_frames(path):
            yield frame, True
        return
    whole = read_table(path).frame
    for start in range(0, whole.height, PIECE_ROWS):
        yield whole[start : start + PIECE_ROWS], True


def _parquet_frames(path: Path) -> Iterator[Any]:
    import polars as pl

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path} is too large to be read whole; to stream it needs pyarrow: pip install 'dualgap[parquet]'"
        ) from None
    try:
        with unpacked(path) as plain, parquet.ParquetFile(plain, pre_buffer=False) as file:
            for batch in file.iter_batches(PIECE_ROWS):
                yield pl.from_arrow(pyarrow.Table.from_batches([batch]))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({' '.join(str(error).split())[:200]})") from None


def _csv_frames(path: Path, header: bool | None, expected: Sequence[str]) -> Iterator[tuple[Any, bool]]:
    """Yield pieces of CSV text as frames of words: what a word means is decided by the preparation, the same for all pieces."""
    import polars as pl

    separator, named, first, names = "", False, True, []
    for text in csv_texts(path):
        if first:
            text = text.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
            separator = separator_of(path, text)
            named = find_header(text, separator, expected) if header is None else header
        if not text.strip():
            continue
        try:
            frame = pl.read_csv(text, separator=separator, has_header=named and first, infer_schema_length=0)
        except Exception as error:  # malformed in one of many ways
            raise DataError(f"{path} is not a well-formed CSV table: {' '.join(str(error).split())[:200]}") from None
        if first:
            names = column_names(path, text, separator, frame.columns) if named else [str(j) for j in range(frame.width)]
            first = False
        if frame.width != len(names):
            raise DataError(f"{path}: {frame.width} fields in a line where {len(names)} are needed")
        yield frame.rename(dict(zip(frame.columns, names, strict=True))), named
    if first:
        raise DataError(f"{path} is empty")


# --------------------------------------------------------------------------------------------------------------------- learning


def learn_tables(
    paths: Sequence[Path], target: str | int | None, dtype: str, options: TableOptions, seed: int
) -> list[TableSource]:
    """Learn a preparation and the labels from a random sample of the rows of all files."""
    sample, named = _sample(paths, options.header, seed)
    chosen = target_of(TableData(paths[0].name, sample, named), target)
    rule = learn_target(sample[chosen], chosen, options.above, options.task)
    y, present = rule.apply(sample[chosen])
    made = options.learn(sample[present], chosen, named, grouped(y, rule.task))
    return [TableSource(path, dtype, named if k == 0 else options.header, made, rule) for k, path in enumerate(paths)]


def _sample(paths: Sequence[Path], header: bool | None, seed: int) -> tuple[Any, bool]:
    """Return rows drawn at random from all files, or all rows where there are few, with the types that their words have."""
    rng = np.random.default_rng(seed)
    held: Any = None
    keys, has_header = np.empty(0), True
    for path in paths:
        for frame, named in table_frames(path, header, None):
            has_header = named
            if held is not None and sorted(frame.columns) != sorted(held.columns):
                different = sorted(set(frame.columns) ^ set(held.columns))
                raise DataError(f"{path} and {paths[0]} do not have the same columns: only one has a column {different[0]!r}")
            held = frame if held is None else _below(held, frame)
            keys = np.concatenate([keys, rng.random(frame.height)])
            if held.height > 2 * SAMPLE_ROWS:
                kept = np.sort(np.argpartition(keys, SAMPLE_ROWS)[:SAMPLE_ROWS])  # the rows with the smallest keys
                held, keys = held[kept], keys[kept]
    if held.height > SAMPLE_ROWS:
        held = held[np.sort(np.argpartition(keys, SAMPLE_ROWS)[:SAMPLE_ROWS])]
    return (_typed(held) if all(kind_of(path) == "csv" for path in paths) else held), has_header


def _below(held: Any, frame: Any) -> Any:
    """Return rows below others; a column that has another type there becomes text in both."""
    import polars as pl

    different = [name for name in held.columns if held.schema[name] != frame.schema[name]]
    if different:
        held, frame = (each.with_columns(pl.col(different).cast(pl.String)) for each in (held, frame))
    return pl.concat([held, frame.select(held.columns)])


def _typed(frame: Any) -> Any:
    """Return words with the types that reading a whole CSV file would give to them."""
    import io

    import polars as pl

    text = io.BytesIO()
    frame.write_csv(text)
    typed = pl.read_csv(text.getvalue(), infer_schema_length=None)
    return typed.rename(dict(zip(typed.columns, frame.columns, strict=True)))
