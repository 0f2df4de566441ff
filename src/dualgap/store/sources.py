"""Sources: the files of a conversion, or what a program hands over, each read as pieces of consecutive rows.

Of tables a first pass learns the preparation from a random sample of rows, and a second one applies it piece by piece.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import is_sparse, one_of
from dualgap.data import (
    TASKS,
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
    iter_libsvm,
    learn_target,
    open_table,
    plain_target,
    read,
    stacked,
    target_of,
)
from dualgap.problem import as_features, as_labels

__all__ = ["Piece", "Source", "given_pairs", "learn_arrays", "learn_tables", "open_libsvm"]

PIECE_ROWS = 8192  # rows of LIBSVM text or of an array at a time
SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller table is used whole
STRETCHED_ROWS = 2 * SAMPLE_ROWS  # rows at the beginnings of row groups that a sample is drawn from
MANY_GROUPS = 16  # row groups from which a sample is drawn from their beginnings
SAMPLE_VALUES = 1 << 23  # cells of a sample, at most: 64 MB of numbers, of which learning makes several copies
AS_IT_IS = TableOptions(prepare=False, standardise=False)


class Piece(NamedTuple):
    """Some consecutive samples: labels, and their rows as an array or a CSR matrix."""

    labels: np.ndarray
    X: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(array.nbytes for array in (self.X.data, self.X.indices, self.X.indptr)) if is_sparse(self.X) else self.X.nbytes


@dataclass(frozen=True)
class Source:
    """One file, or what a program hands over, as pieces.

    Attributes
    ----------
    path : the file
    storage : "csr" or "dense"
    read : the pieces from a number on
    asked : what else decides what is in the pieces: another value is another store
    encoder : what turns its rows into features
    labels : how the labels of a table were read, as plain data
    task : "classification" or "regression"
    """

    path: Path | str
    storage: str
    read: Callable[[int], Iterable[Piece]]
    asked: dict[str, Any]
    encoder: Encoder = field(default_factory=Encoder)
    labels: dict[str, Any] | None = None
    task: str = "classification"


# ------------------------------------------------------------------------------------------------------------------- LIBSVM text


def open_libsvm(
    paths: Sequence[Path], target: str | int | None, dtype: str, zero_based: Any, n_features: int | None, task: str
) -> list[Source]:
    """Return files of LIBSVM text as sources; the first rows of the first tell whether columns are counted from 0."""
    if target is not None:
        raise DataError(f"{paths[0]} is read as LIBSVM text, where the label comes first on a line; leave target out")
    if zero_based == "auto":
        first = next(iter_libsvm(paths[0], PIECE_ROWS, zero_based=True))
        zero_based = bool(first.indices.size and first.indices.min() == 0)
    asked = {"zero_based": zero_based, "n_features": n_features}
    return [Source(path, "csr", partial(_libsvm_pieces, path, np.dtype(dtype), **asked), asked, task=task) for path in paths]


def _libsvm_pieces(path: Path, dtype: np.dtype[Any], skip: int, zero_based: bool, n_features: int | None) -> Iterator[Piece]:
    blocks = iter_libsvm(path, PIECE_ROWS, n_features=n_features, zero_based=zero_based, dtype=dtype)
    for number in range(1 << 62):
        with np.errstate(over="ignore"):  # overflow of float32 is reported with its row when the block is written
            block = next(blocks, None)
        if block is None:
            return
        if number >= skip:
            yield Piece(block.y, block.to_csr(int(block.indices.max(initial=-1)) + 1))


# ------------------------------------------------------------------------------------------------------------------------ arrays


def learn_arrays(
    paths: Sequence[Path], target: str | int | None, dtype: str, n_features: int | None, options: TableOptions | None, task: str
) -> list[Source]:
    """Return NPZ and MAT files as sources, with the scaling that the rows of all give: dense columns get mean 0 and deviation 1.

    Such a file is read whole; of several files, one is in memory at a time.
    """
    from sklearn.preprocessing import StandardScaler

    storage, scaler = "", StandardScaler()
    for path in paths:
        data = read(path, target)
        found = "csr" if data.is_sparse else "dense"
        if storage and found != storage:
            raise DataError(f"{path} and {paths[0]} cannot share a store: one is sparse, the other dense")
        storage = found
        if options is not None:
            options.refuse(data.name)
            if options.standardise and data.is_sparse:
                raise DataError(f"{path}: to standardise would fill a sparse matrix; leave --standardise out")
        if storage == "dense":
            if data.shape[1] != getattr(scaler, "n_features_in_", data.shape[1]):
                raise DataError(f"{path} has {data.shape[1]} columns, the files before have {scaler.n_features_in_}")
            scaler.partial_fit(np.asarray(data.X, dtype=np.float64))
    scaled = options is not None and options.standardise is not False and storage == "dense"
    encoder, asked = Encoder(scaler=scaler if scaled else None), {"target": target, "n_features": n_features}
    if scaled:
        asked["scaler"] = hashlib.sha256(scaler.mean_.tobytes() + scaler.scale_.tobytes()).hexdigest()[:16]
    return [
        Source(path, storage, partial(_array_pieces, path, target, dtype, encoder, n_features), asked, encoder, task=task)
        for path in paths
    ]


def _array_pieces(
    path: Path, target: str | int | None, dtype: str, encoder: Encoder, n_features: int | None, skip: int
) -> Iterator[Piece]:
    data = read(path, target)
    if data.is_sparse and n_features is not None and data.shape[1] > n_features:
        raise DataError(f"{path} has {data.shape[1]} columns, more than n_features={n_features}")
    for start in range(skip * PIECE_ROWS, data.shape[0], PIECE_ROWS):
        X, y = data.X[start : start + PIECE_ROWS], data.y[start : start + PIECE_ROWS]
        if not np.isfinite(X.data if data.is_sparse else X).all():
            raise DataError(f"{path}: a value in rows {start + 1:,} to {start + len(y):,} is not finite")
        yield Piece(y, (X if encoder.scaler is None else encoder.scaler.transform(X)).astype(dtype, copy=False))


# -------------------------------------------------------------------------------------------------------------- a program's pairs


def given_pairs(pairs: Iterator[tuple[Any, Any]], storage: str, dtype: str, task: str) -> Source:
    """Return the pairs (X, y) that a program hands over as a source."""
    return Source("a pair (X, y)", storage, partial(_checked_pairs, pairs, storage, dtype), {}, task=one_of("task", task, TASKS))


def _checked_pairs(pairs: Iterator[tuple[Any, Any]], storage: str, dtype: str, skip: int) -> Iterator[Piece]:
    for X, y in islice(pairs, skip, None):
        matrix = as_features(X)
        if sparse.issparse(matrix) != (storage == "csr"):
            raise ValueError("X is sparse in one pair and dense in another; give all in one form")
        yield Piece(as_labels(y, matrix.shape[0]), matrix.astype(dtype, copy=False))


# ---------------------------------------------------------------------------------------------------------------------- tables


def _table_pieces(
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
            partial(_table_pieces, table, dtype, made, rule, options is None),
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
