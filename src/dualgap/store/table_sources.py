"""Tables into a store: a first pass learns the preparation from a random sample of rows, a second one applies it piece by piece.

The preparation stays beside the parts as preparation.json: names, categories and scales that a model needs to read other tables.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import (
    DataError,
    Encoder,
    Notes,
    Preparation,
    Rows,
    Table,
    TableFile,
    TableOptions,
    TargetRule,
    check_same_columns,
    learn_target,
    open_table,
    plain_target,
    stacked,
    target_of,
)
from dualgap.store.sources import Piece, Source

__all__ = ["learn_tables"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller table is used whole
STRETCHED_ROWS = 2 * SAMPLE_ROWS  # rows at the beginnings of row groups that a sample is drawn from
MANY_GROUPS = 16  # row groups from which a sample is drawn from their beginnings
SAMPLE_VALUES = 1 << 23  # cells of a sample, at most: 64 MB of numbers, of which learning makes several copies
AS_IT_IS = TableOptions(prepare=False, standardise=False)


def _pieces(
    table: TableFile, dtype: str, preparation: Preparation, labels: TargetRule, every_row: bool, skip: int
) -> Iterator[Piece]:
    """Yield the prepared rows of a table; rows without a label are left out, or an error if `every_row` must have one."""
    before, made = 0, None
    numbers = preparation.plain_numbers() | ({labels.name} if labels.style == "plain" else set())
    rows, number = 0, 0
    for piece in table.pieces():
        frame = piece.frame(numbers)
        height = frame.height
        try:
            frame = preparation.with_names(frame, table.named)
            if preparation.target not in frame.columns:
                raise DataError(f"there is no label column {preparation.target!r}")
            y, present = labels.apply(frame[preparation.target])
            if len(present) < height and every_row:
                row = np.setdiff1d(np.arange(height), present)[0] + 1
                raise DataError(f"column {labels.name!r}, row {row}: the label is missing")
            rows += len(y)
            if len(y) and number >= skip:
                with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
                    made = preparation.apply(frame if len(y) == height else frame[present], Notes()).astype(dtype, copy=False)
        except DataError as error:
            raise DataError(f"{table.path}: {_shifted(str(error), before)}") from None
        before += height
        if len(y):
            if number >= skip:
                yield Piece(y, made)
            number += 1
    if not rows:
        raise DataError(f"{table.path} has no rows with a label")


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
) -> list[Source]:
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
        made = given.preparation(chosen, tables[0].named).fit(sample[present], y)
    except DataError as error:
        raise DataError(f"{paths[0]}: {error}") from None
    if n_features is not None and n_features != len(made.feature_names):
        raise DataError(f"{paths[0]} makes {len(made.feature_names)} features, not n_features={n_features}")
    text = json.dumps([made.to_dict(), rule.to_dict()], sort_keys=True)
    asked = {"target": chosen, "learned": hashlib.sha256(text.encode()).hexdigest()[:16]}
    storage = "csr" if made.is_sparse else "dense"
    return [
        Source(
            table.path,
            storage,
            partial(_pieces, table, dtype, made, rule, options is None),
            asked,
            Encoder(made),
            {"labels": rule.to_dict()},
            rule.task,
        )
        for table in tables
    ]


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
