"""Tables into a store: a first pass learns the preparation from a random sample of rows, a second one applies it piece by piece.

The preparation stays beside the parts as preparation.json: names, categories and scales that a model needs to read other tables.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import (
    DataError,
    Encoder,
    LabelRule,
    NumberRule,
    Preparation,
    Rows,
    Table,
    TableFile,
    TableOptions,
    check_same_columns,
    grouped,
    learn_target,
    open_table,
    plain_target,
    stacked,
    target_of,
)
from dualgap.store.file_pieces import AnyPiece, ColumnPiece, Piece

__all__ = ["TableSource", "learn_tables"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller table is used whole
STRETCHED_ROWS = 2 * SAMPLE_ROWS  # rows at the beginnings of row groups that a sample is drawn from
MANY_GROUPS = 16  # row groups from which a sample is drawn from their beginnings
SAMPLE_VALUES = 1 << 23  # cells of a sample, at most: 64 MB of numbers, of which learning makes several copies
AS_IT_IS = TableOptions(prepare=False, standardise=False)


@dataclass(frozen=True)
class TableSource:
    """One table file with what was learned about its columns and its labels."""

    table: TableFile
    dtype: str
    preparation: Preparation
    labels: LabelRule | NumberRule
    every_row: bool = False  # whether a row without a label is an error
    zero_based: None = None
    n_features: None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self.table.path

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
        styles = self.preparation.number_styles()
        numbers = {name for name in [*styles, self.labels.name] if styles.get(name, self.labels.style) == "plain"}
        for piece in self.table.pieces():
            frame = piece.frame(numbers)
            height = frame.height
            try:
                frame = self.preparation.with_names(frame, self.table.named)
                if self.preparation.target not in frame.columns:
                    raise DataError(f"there is no label column {self.preparation.target!r}")
                y, present = self.labels.apply(frame[self.preparation.target])
                if len(present) < height:
                    self._require_labels(present, height)
                    frame = frame[present]
                made = self._prepared(frame, y) if frame.height else None
            except DataError as error:
                raise DataError(f"{self.path}: {_shifted(str(error), before)}") from None
            before += height
            if made is not None:
                rows += len(y)
                yield made
        if not rows:
            raise DataError(f"{self.path} has no rows with a label")

    def _require_labels(self, present: np.ndarray, height: int) -> None:
        if self.every_row:
            row = np.setdiff1d(np.arange(height), present)[0] + 1
            raise DataError(f"column {self.labels.name!r}, row {row}: the label is missing")

    def _prepared(self, frame: Any, y: np.ndarray) -> AnyPiece:
        if self.storage == "dense":
            return ColumnPiece(y, *self.preparation.columns(frame))
        X = self.preparation.apply(frame)
        return Piece(y, (X.indptr, X.indices, X.data.astype(self.dtype, copy=False)))


def _shifted(text: str, before: int) -> str:
    """Count the row in an error from the start of the file, not of the piece."""
    return re.sub(r"\brow (\d+)", lambda found: f"row {int(found[1]) + before:,}", text, count=1)


# --------------------------------------------------------------------------------------------------------------------- learning


def learn_tables(
    paths: Sequence[Path],
    target: str | int | None,
    dtype: str,
    options: TableOptions | None,
    seed: int,
    n_features: int | None,
    task: str,
) -> list[TableSource]:
    """Learn a preparation and the labels from a random sample of the rows of all files; without options, all are as they are."""
    given = options or AS_IT_IS
    tables = [open_table(path, given.header) for path in paths]
    learned = given.prepare or given.standardise is not False
    sample = _sample(tables, seed) if learned else tables[0].head()
    chosen = target_of(Table(str(paths[0]), sample, tables[0].named), target)
    series = sample[chosen]
    rule = plain_target(series, chosen, task) if options is None else learn_target(series, chosen, given.above, task, given.missing)
    y, present = rule.apply(series)
    try:
        made = given.learn(sample[present], chosen, tables[0].named, grouped(y, rule.task))
    except DataError as error:
        raise DataError(f"{paths[0]}: {error}") from None
    if n_features is not None and n_features != len(made.feature_names):
        raise DataError(f"{paths[0]} makes {len(made.feature_names)} features, not n_features={n_features}")
    return [TableSource(table, dtype, made, rule, options is None) for table in tables]


def _sample(tables: Sequence[TableFile], seed: int) -> Any:
    """Return rows drawn at random from all files, or all rows where there are few, with the types that their words have."""
    sample = _Sample(np.random.default_rng(seed))
    groups = [table.group_rows() for table in tables]
    rows = sum(map(sum, groups))
    # Parquet files of many row groups are not read whole for a sample: the rows at the beginning of all groups are.
    stretched = all(groups) and sum(map(len, groups)) >= MANY_GROUPS and rows > 2 * STRETCHED_ROWS
    for table, own in zip(tables, groups, strict=True):
        for piece in table.head_of_groups(-(-STRETCHED_ROWS * sum(own) // rows)) if stretched else table.pieces():
            sample.add(piece)
    return sample.rows()


class _Sample:
    """Rows with a random key each, of which those with the smallest keys are kept. Text stays text until the end.

    Order of calls: `add` for all rows, then `rows`.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.held: list[Rows] = []
        self.keys: list[np.ndarray] = []  # of the rows of each
        self.below = np.inf  # a row with a larger key is not among those kept

    def add(self, rows: Rows) -> None:
        """Add rows."""
        first = self.held[0] if self.held else rows
        check_same_columns((first.table, first.names), (rows.table, rows.names))
        keys = self.rng.random(rows.count())
        chosen = np.flatnonzero(keys < self.below)
        if len(chosen) or not self.held:
            self.held.append(rows.some(chosen))
            self.keys.append(keys[chosen])
        if sum(map(len, self.keys)) > 1.5 * self._most():
            self._cut()

    def rows(self) -> Any:
        """Return the rows that were kept, in the order of the files."""
        if not self.held:
            raise DataError("no file has a row")
        self._cut()
        frames = []
        for _, same in groupby(self.held, key=lambda rows: rows.table.path):
            each = list(same)
            if isinstance(each[0].content, bytes):
                frames.append(replace(each[0], content=b"".join(rows.content for rows in each)).typed())
            else:
                frames += [rows.content for rows in each]
        return stacked([frame for frame in frames if frame.height] or frames[:1])

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
