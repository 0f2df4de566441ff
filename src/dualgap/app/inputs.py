"""Words of a command line turned into data: files, standard input, folders, stores and data sets by name.

`open_samples` gives labelled rows to train or certify on, `open_features` the rows to predict. What becomes of columns is decided in
`dualgap.data`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.data import (
    TABLE_KINDS,
    DataError,
    DataSet,
    Notes,
    Preparation,
    Scaler,
    Table,
    files_of,
    fit_scaler,
    kind_of,
    labels_of,
    load,
    names,
    read,
    read_table,
    spooled_input,
    target_of,
)
from dualgap.store import Store

__all__ = [
    "ArraySamples",
    "Samples",
    "TableOptions",
    "TableSamples",
    "is_store_folder",
    "named_files",
    "open_features",
    "open_samples",
]

STORE_FILES = ("manifest.json", "progress.json")


@dataclass(frozen=True)
class TableOptions:
    """What the command line says about a table."""

    target: str = ""
    drop: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    prepare: bool = True
    standardise: bool | None = None
    header: bool | None = None
    above: str | float | None = None


@dataclass(frozen=True, eq=False)
class Encoder:
    """What turns rows into features: the preparation of a table, or the scaler of an array; neither leaves arrays as they are."""

    preparation: Preparation | None = None
    scaler: Scaler | None = None


class TableSamples:
    """Labelled rows of a table."""

    test: Any = None

    def __init__(self, table: Table, options: TableOptions) -> None:
        self.name, self.options, self.named = table.name, options, table.named
        self.target = target_of(table, options.target or None)
        labels = labels_of(table.frame[self.target], self.target, options.above)
        self.y, self.without, self.above = labels.y, labels.without, labels.limit
        self.frame = table.frame if not labels.without else table.frame[labels.rows]
        self.shape = len(self.y), table.frame.width - 1

    def learn(self, rows: np.ndarray | None = None) -> Encoder:
        """Learn a preparation from some rows."""
        frame, options = self.frame if rows is None else self.frame[rows], self.options
        try:
            made = Preparation.learn(
                frame,
                self.target,
                named=self.named,
                drop=options.drop,
                kinds=options.kinds,
                standardise=options.standardise is not False,
                prepare=options.prepare,
                labels=self.y if rows is None else self.y[rows],
            )
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None
        return Encoder(made)

    def features(self, encoder: Encoder, rows: np.ndarray | None = None) -> Any:
        """Return the features of some rows."""
        assert encoder.preparation is not None
        return encoder.preparation.apply(self.frame if rows is None else self.frame[rows])


class ArraySamples:
    """Labelled rows of numbers without names: LIBSVM text, NPZ, MAT, data sets by name."""

    without = 0
    target = ""
    above: float | None = None

    def __init__(self, data: DataSet, options: TableOptions) -> None:
        for given, option in ((options.drop, "--drop"), (options.kinds, "--as"), (options.above, "--above")):
            if given:
                raise ValueError(f"{option} is for tables, and {data.name} is none: its columns have no names")
        self.name, self.y, self.shape, self.data = data.name, data.y, data.shape, data
        if options.standardise and data.is_sparse:
            raise DataError(f"{data.name}: to standardise would fill a sparse matrix; leave --standardise out")
        self.scaled = not data.is_sparse if options.standardise is None else options.standardise
        self.test = (data.X_test, data.y_test) if data.has_test else None

    def learn(self, rows: np.ndarray | None = None) -> Encoder:
        """Learn a scaling from some rows."""
        return Encoder(scaler=fit_scaler(self.data.X if rows is None else self.data.X[rows]) if self.scaled else None)

    def features(self, encoder: Encoder, rows: np.ndarray | None = None) -> Any:
        """Return the features of some rows."""
        X = self.data.X if rows is None else self.data.X[rows]
        return X if encoder.scaler is None else encoder.scaler.apply(X)


Samples = TableSamples | ArraySamples


# ----------------------------------------------------------------------------------------------------------------- from words


def is_store_folder(name: str) -> bool:
    """Return whether a word names the folder of a store, or of one that is half made."""
    return Path(name).is_dir() and any((Path(name) / each).exists() for each in STORE_FILES)


@contextmanager
def named_files(data: Sequence[str]) -> Iterator[list[Path]]:
    """Yield the files that the words name; "-" is standard input, a folder stands for the tables in it."""
    with ExitStack() as stack:
        words = [str(stack.enter_context(spooled_input())) if word == "-" else word for word in data]
        for word in words:
            if not Path(word).exists():
                raise _no_such_file(word)
        yield files_of(words)


def _no_such_file(word: str) -> DataError:
    near = difflib.get_close_matches(word, names(), n=1)
    hint = f"did you mean the data set {near[0]!r}?" if near else "`dualgap datasets` lists the data sets that have a name"
    return DataError(f"{word}: there is no such file; {hint}")


def open_samples(data: Sequence[str], options: TableOptions) -> Samples | Store:
    """Return the data that the words of a command name: a store, a data set by name, or the rows of files."""
    if len(data) == 1 and is_store_folder(data[0]):
        return Store(data[0])
    if len(data) == 1 and data[0] in names() and not Path(data[0]).exists():
        return ArraySamples(load(data[0]), options)
    with named_files(data) as files:
        if kind_of(files[0]) in TABLE_KINDS:
            return TableSamples(_renamed(read_table(files, options.header), data), options)
        return ArraySamples(_joined([read(path, options.target or None) for path in files]), options)


def _renamed(table: Table, data: Sequence[str]) -> Table:
    return Table("standard input", table.frame, table.named) if list(data) == ["-"] else table


def _joined(parts: list[DataSet]) -> DataSet:
    """Return several data sets as one, row after row; sparse ones may differ in width."""
    first = parts[0]
    if len(parts) == 1:
        return first
    width = max(part.shape[1] for part in parts)
    if not all(part.is_sparse for part in parts):
        different = [part for part in parts if part.shape[1] != width or part.is_sparse]
        if different:
            raise DataError(f"{first.name} and {different[-1].name} do not have the same columns")
        X: Any = np.concatenate([part.X for part in parts])
    else:
        X = sparse.vstack([_widened(part.X, width) for part in parts], format="csr")
    return first.with_(X=X, y=np.concatenate([part.y for part in parts]), X_test=None, y_test=None)


def _widened(X: Any, width: int) -> Any:
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def open_features(data: Sequence[str], encoder: Encoder, width: int, target: str, notes: Notes) -> tuple[Any, Any]:
    """Return (features as the classifier takes them, labels or None) of the rows to predict; a label column is optional."""
    preparation = encoder.preparation
    if len(data) == 1 and data[0] in names() and not Path(data[0]).exists():
        found = load(data[0])
        return _array_features(found, encoder, width), found.y
    with named_files(data) as files:
        if kind_of(files[0]) in TABLE_KINDS and preparation is not None:
            return _table_features(files, preparation, target, notes)
        found = _joined([read(path, target or None, **_width_of(path, width)) for path in files])
    if preparation is not None and not _numbered(preparation, width):
        raise DataError(f"{found.name} is no table, and the model was trained on one: give CSV, Parquet or Arrow")
    return _array_features(found, encoder, width), found.y


def _width_of(path: Path, width: int) -> dict[str, Any]:
    return {"n_features": width} if kind_of(path) == "libsvm" else {}


def _numbered(preparation: Preparation, width: int) -> bool:
    return len(preparation.rules) == width


def _array_features(data: DataSet, encoder: Encoder, width: int) -> Any:
    if data.shape[1] != width:
        raise DataError(f"{data.name}: {data.shape[1]} columns, but the model was trained on {width}")
    return data.X if encoder.scaler is None else encoder.scaler.apply(data.X)


def _table_features(files: list[Path], preparation: Preparation, target: str, notes: Notes) -> tuple[Any, Any]:
    known = [rule.name for rule in preparation.rules] if preparation.named else []
    table = read_table(files, expected=known)
    try:
        frame = preparation.with_names(table.frame, table.named)
        X = preparation.apply(frame, notes)
    except DataError as error:
        raise DataError(f"{files[0]}: {error}") from None
    label = target or preparation.target
    return X, frame[label] if label in frame.columns else None
