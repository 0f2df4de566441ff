"""Labelled rows before they are features: of a table, whose columns are prepared, or of an array, whose columns are scaled.

`open_samples` gives the rows that the words of a command name: files, standard input, folders, data sets by name; `open_features` those to
predict. `learn` looks at some rows only, so that a held-out part stays unseen; `features` encodes any rows by what was learned. `fit`,
cross-validation, `compare` and `convert` all go through here.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dualgap.core import is_sparse
from dualgap.data.catalogue import load, names
from dualgap.data.columns import clean, frame_of, numbers
from dualgap.data.dataset import DataError, DataSet
from dualgap.data.preparation import Notes, Preparation
from dualgap.data.readers import read
from dualgap.data.remote import fetch, is_url
from dualgap.data.table_files import TABLE_KINDS, Table, files_of, kind_of, read_table, spooled_input
from dualgap.data.target import array_target, learn_target, target_of

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

__all__ = [
    "ArraySamples",
    "Encoder",
    "Samples",
    "TableOptions",
    "TableSamples",
    "named_files",
    "open_features",
    "open_samples",
]


@dataclass(frozen=True)
class TableOptions:
    """What a user says about a table; the defaults are those of the command line.

    Attributes
    ----------
    target : the label column, by name or by number; by default one called target, label, class or y
    drop, kinds : columns to leave out, and columns whose kind is known; see `Preparation`
    prepare : False takes numbers alone
    standardise : whether numbers get mean 0 and deviation 1; None means dense data yes, sparse arrays no
    header : whether the first line of CSV has names; None finds it out
    above : a number, or "median", that parts a measured target in two classes
    task : "classification", "regression", or "" for what the target asks for; see `dualgap.data.learn_target`
    missing : words that stand for nothing, in the target too, besides those that do in a column of features anyway

    Examples
    --------
    >>> import os, tempfile
    >>> from dualgap.data import TableOptions, open_samples
    >>> path = os.path.join(tempfile.mkdtemp(), "pets.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("weight,legs,animal\\n4.1,4,cat\\n30.5,4,dog\\n0.2,2,wren\\n")
    >>> samples = open_samples([path], TableOptions(target="animal", kinds={"legs": "category"}))
    >>> samples.learn().preparation.feature_names
    ['weight', 'legs = 4']
    """

    target: str | int = ""
    drop: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    prepare: bool = True
    standardise: bool | None = None
    header: bool | None = None
    above: str | float | None = None
    task: str = "classification"
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "drop", tuple(self.drop))
        object.__setattr__(self, "missing", tuple(sorted({word.strip().lower() for word in self.missing})))
        object.__setattr__(self, "kinds", dict(self.kinds))

    def preparation(self, target: str, named: bool) -> Preparation:
        """Return a preparation, not yet fitted, of a table with this label column."""
        return Preparation(
            target,
            kinds=self.kinds,
            drop=self.drop,
            missing=self.missing,
            standardise=self.standardise is not False,
            prepare=self.prepare,
            named=named,
        )

    def refuse(self, name: str) -> None:
        """Raise if an option is given that data without columns of their own cannot follow."""
        for given, option in ((self.drop, "--drop"), (self.kinds, "--as"), (self.above, "--above"), (self.missing, "--missing")):
            if given:
                raise DataError(f"{option} is for tables, and {name} is none: its columns have no names")


@dataclass(frozen=True, eq=False)
class Encoder:
    """What turns rows into features: the preparation of a table, or the scaler of an array; neither leaves numbers as they are."""

    preparation: Preparation | None = None
    scaler: StandardScaler | None = None

    def of_table(self, table: Table, width: int, target: str = "", notes: Notes | None = None) -> Any:
        """Return the features of a table's rows; without a preparation, its columns but `target` are taken in their order."""
        try:
            if self.preparation is not None:
                frame = self.preparation.with_names(table.frame, table.named)
                return self.preparation.apply(frame, Notes() if notes is None else notes)
            return self._scaled(_numbers_of(table.frame.drop(target, strict=False)), width)
        except DataError as error:
            raise DataError(f"{table.name}: {error}") from None

    def of_array(self, name: str, X: Any, width: int) -> Any:
        """Return the features of an array's rows; a preparation without names knows its columns by their place."""
        try:
            if self.preparation is None:
                return self._scaled(X, width)
            if self.preparation.named:
                raise DataError("its columns have no names, and the model knows them by name; give CSV, Parquet or Arrow")
            frame = frame_of(X.toarray() if is_sparse(X) else np.asarray(X))
            return self.preparation.apply(self.preparation.with_names(frame, False), Notes())
        except DataError as error:
            raise DataError(f"{name}: {error}") from None

    def _scaled(self, X: Any, width: int) -> Any:
        if X.shape[1] != width:
            raise DataError(f"{X.shape[1]} columns, but the model was trained on {width}")
        if self.scaler is None:
            return X
        return self.scaler.transform(X.toarray() if is_sparse(X) else X)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        scaler = None if self.scaler is None else {"centre": self.scaler.mean_.tolist(), "scale": self.scaler.scale_.tolist()}
        return {"preparation": None if self.preparation is None else self.preparation.to_dict(), "scaler": scaler}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Encoder:
        """Return the encoder that `to_dict` wrote."""
        preparation, scaler = content["preparation"], content["scaler"]
        made = None if preparation is None else Preparation.from_dict(preparation)
        return cls(made, None if scaler is None else scaler_of(**scaler))


def scaler_of(centre: Any, scale: Any) -> StandardScaler:
    """Return the scaler x ↦ (x − centre) / scale."""
    from sklearn.preprocessing import StandardScaler

    made = StandardScaler()
    made.mean_, made.scale_ = np.asarray(centre, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    made.n_features_in_ = len(made.scale_)
    return made


def _numbers_of(frame: Any) -> np.ndarray:
    """Return the columns of a data frame as an array; a word or a missing value is an error."""
    made = np.empty((frame.height, frame.width))
    for j, name in enumerate(frame.columns):
        values = numbers(clean(frame[name]), "plain", name)
        if values.null_count():
            row = int(np.argmax(values.is_null().to_numpy())) + 1
            raise DataError(f"column {name!r} has a missing value in row {row}, and the model was trained on an array without any")
        made[:, j] = values.to_numpy()
    return made


class TableSamples:
    """Labelled rows of a table."""

    test: Any = None

    def __init__(self, table: Table, options: TableOptions) -> None:
        self.name, self.options, self.named = table.name, options, table.named
        self.target = target_of(table, options.target)
        if table.frame.width < 2:
            raise DataError(f"{table.name} has no column besides the labels in {self.target!r}")
        rule = learn_target(table.frame[self.target], self.target, options.above, options.task, options.missing)
        self.y, rows = rule.apply(table.frame[self.target])
        self.without, self.above, self.task = table.frame.height - len(rows), rule.limit, rule.task
        self.frame = table.frame[rows] if self.without else table.frame
        self.shape = len(self.y), table.frame.width - 1

    def learn(self, rows: np.ndarray | None = None) -> Encoder:
        """Learn a preparation from some rows."""
        made = self.options.preparation(self.target, self.named)
        try:
            return Encoder(made.fit(self.frame, self.y if rows is None else self.y[rows], rows))
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None

    def features(self, encoder: Encoder, rows: np.ndarray | None = None) -> Any:
        """Return the features of some rows."""
        assert encoder.preparation is not None
        return encoder.preparation.apply(self.frame if rows is None else self.frame[rows], Notes())

    def features_for(self, encoder: Encoder, width: int) -> Any:
        """Return the features that another training run's encoder makes of all rows."""
        return encoder.of_table(Table(self.name, self.frame, self.named), width, self.target)


class ArraySamples:
    """Labelled rows of numbers without names: LIBSVM text, NPZ, MAT, data sets by name."""

    without = 0
    target = ""
    above: float | None = None

    def __init__(self, data: DataSet, options: TableOptions) -> None:
        options.refuse(data.name)
        self.name, self.shape, self.data = data.name, data.shape, data
        self.y, self.task = array_target(data.y, data.name, options.task)
        if options.standardise and data.is_sparse:
            raise DataError(f"{data.name}: to standardise would fill a sparse matrix; leave --standardise out")
        self.scaled = not data.is_sparse if options.standardise is None else options.standardise
        self.test = (data.X_test, data.y_test) if data.has_test else None

    def learn(self, rows: np.ndarray | None = None) -> Encoder:
        """Learn a scaling from some rows."""
        from sklearn.preprocessing import StandardScaler

        return Encoder(scaler=StandardScaler().fit(self.data.X if rows is None else self.data.X[rows]) if self.scaled else None)

    def features(self, encoder: Encoder, rows: np.ndarray | None = None) -> Any:
        """Return the features of some rows."""
        X = self.data.X if rows is None else self.data.X[rows]
        return X if encoder.scaler is None else encoder.scaler.transform(X)

    def features_for(self, encoder: Encoder, width: int) -> Any:
        """Return the features that another training run's encoder makes of all rows."""
        return encoder.of_array(self.name, self.data.X, width)


Samples = TableSamples | ArraySamples


# ------------------------------------------------------------------------------------------------------ the words of a command


@contextmanager
def named_files(data: Sequence[str]) -> Iterator[list[Path]]:
    """Yield the files that the words name; "-" is standard input, a folder stands for the tables in it.

    A file at an address (s3://…) is copied to a temporary folder.
    """
    with ExitStack() as stack:
        files: list[Path] = []
        for word in data:
            if is_url(word):
                files += fetch(word, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dualgap-"))))
                continue
            path = stack.enter_context(spooled_input()) if word == "-" else Path(word)
            if not path.exists():
                near = difflib.get_close_matches(word, names(), n=1)
                hint = (
                    f"did you mean the data set {near[0]!r}?" if near else "`dualgap datasets` lists the data sets that have a name"
                )
                raise DataError(f"{word}: there is no such file; {hint}")
            files += files_of([path])
        yield files


def _is_name(data: Sequence[str]) -> bool:
    return len(data) == 1 and data[0] in names() and not Path(data[0]).exists()


def open_samples(data: Sequence[str], options: TableOptions, known_target: str = "") -> Samples:
    """Return the labelled rows that the words of a command name: a data set by name, or the rows of files, one after the other.

    `known_target` is the label column of a table where the options name none.
    """
    if _is_name(data):
        return ArraySamples(load(data[0]), options)
    with named_files(data) as files:
        if _are_tables(files):
            named = options if options.target != "" else replace(options, target=known_target)
            table = read_table(files, options.header)
            return TableSamples(replace(table, name="standard input") if list(data) == ["-"] else table, named)
        joined = _joined([read(path, options.target) for path in files])
        return ArraySamples(joined.with_(name="standard input") if list(data) == ["-"] else joined, options)


def _are_tables(files: Sequence[Path]) -> bool:
    """Return whether the files are tables; some tables and some arrays cannot be joined."""
    kinds = [kind_of(path) in TABLE_KINDS for path in files]
    if any(kinds) and not all(kinds):
        raise DataError(f"{files[0]} and {files[kinds.index(not kinds[0])]} cannot be joined: only one of them is a table")
    return kinds[0]


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
        X = sparse.vstack(
            [sparse.csr_matrix((part.X.data, part.X.indices, part.X.indptr), shape=(part.shape[0], width)) for part in parts],
            format="csr",
        )
    return first.with_(X=X, y=np.concatenate([part.y for part in parts]), X_test=None, y_test=None)


def open_features(data: Sequence[str], encoder: Encoder, width: int, target: str, notes: Notes) -> tuple[Any, Any]:
    """Return (features as the classifier takes them, labels or None) of the rows to predict; a label column is optional."""
    if _is_name(data):
        found = load(data[0])
        return encoder.of_array(found.name, found.X, width), found.y
    with named_files(data) as files:
        if _are_tables(files):
            return _table_features(files, "standard input" if list(data) == ["-"] else str(files[0]), encoder, width, target, notes)
        columns = width if encoder.preparation is None else encoder.preparation.width_ - 1
        wide: dict[str, Any] = {"n_features": columns} if kind_of(files[0]) == "libsvm" else {}
        found = _joined([read(path, target, **wide) for path in files])
    return encoder.of_array(found.name, found.X, width), found.y


def _table_features(files: list[Path], name: str, encoder: Encoder, width: int, target: str, notes: Notes) -> tuple[Any, Any]:
    preparation = encoder.preparation
    known = [rule.name for rule in preparation.rules_] if preparation is not None and preparation.named else []
    table = replace(read_table(files, expected=known), name=name)
    if preparation is None:
        label = "" if table.frame.width == width and not target else target_of(table, target)
        return encoder.of_table(table, width, label, notes), table.frame[label] if label else None
    X = encoder.of_table(table, width, "", notes)
    frame, label = preparation.with_names(table.frame, table.named), target or preparation.target
    return X, frame[label] if label in frame.columns else None
