"""Labelled rows before they are features: of a table, whose columns are prepared, or of an array, whose columns are scaled.

`learn` looks at some rows only, so that a held-out part stays unseen; `features` encodes any rows by what was learned. `fit`,
cross-validation, `compare` and `convert` all go through here. Which words of a command name which files is decided in `named_data`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.core import is_sparse
from dualgap.data.columns import clean, numbers
from dualgap.data.dataset import DataError, DataSet
from dualgap.data.preparation import Notes, Preparation
from dualgap.data.preprocess import scaler_of
from dualgap.data.table_files import Table, polars
from dualgap.data.target import array_target, grouped, labels_of, target_of

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

__all__ = ["ArraySamples", "Encoder", "Samples", "TableOptions", "TableSamples", "array_of"]


@dataclass(frozen=True)
class TableOptions:
    """What a user says about a table; the defaults are those of the command line.

    Attributes
    ----------
    target : the label column, by name or by number; by default one called target, label, class or y
    drop, kinds : columns to leave out, and columns whose kind is known; see `Preparation.learn`
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

    def learn(self, frame: Any, target: str, named: bool, labels: np.ndarray, rows: np.ndarray | None = None) -> Preparation:
        """Return the preparation that is learned from the rows of a data frame, or some of them, as the options say."""
        return Preparation.learn(
            frame,
            target,
            named=named,
            drop=self.drop,
            kinds=self.kinds,
            standardise=self.standardise is not False,
            prepare=self.prepare,
            labels=labels,
            missing=self.missing,
            rows=rows,
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
                return self.preparation.apply(self.preparation.with_names(table.frame, table.named), notes)
            frame = table.frame.drop(target) if target in table.columns else table.frame
            return self._scaled(array_of(frame), width)
        except DataError as error:
            raise DataError(f"{table.name}: {error}") from None

    def of_array(self, name: str, X: Any, width: int) -> Any:
        """Return the features of an array's rows; a preparation without names knows its columns by their place."""
        try:
            if self.preparation is None:
                return self._scaled(X, width)
            if self.preparation.named:
                raise DataError("its columns have no names, and the model knows them by name; give CSV, Parquet or Arrow")
            dense = X.toarray() if is_sparse(X) else np.asarray(X)
            frame = polars().DataFrame({str(j): column for j, column in enumerate(dense.T)})
            return self.preparation.apply(self.preparation.with_names(frame, False))
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
        preparation, scaler = content.get("preparation"), content.get("scaler")
        made = None if preparation is None else Preparation.from_dict(preparation)
        return cls(made, None if scaler is None else scaler_of(**scaler))


def array_of(frame: Any) -> np.ndarray:
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
        self.target = target_of(table, None if options.target == "" else options.target)
        if table.frame.width < 2:
            raise DataError(f"{table.name} has no column besides the labels in {self.target!r}")
        labels = labels_of(table.frame[self.target], self.target, options.above, options.task, options.missing)
        self.y, self.without, self.above, self.task = labels.y, labels.without, labels.limit, labels.task
        self.frame = table.frame if not labels.without else table.frame[labels.rows]
        self.shape = len(self.y), table.frame.width - 1

    def learn(self, rows: np.ndarray | None = None) -> Encoder:
        """Learn a preparation from some rows."""
        y = self.y if rows is None else self.y[rows]
        try:
            return Encoder(self.options.learn(self.frame, self.target, self.named, grouped(y, self.task), rows))
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None

    def features(self, encoder: Encoder, rows: np.ndarray | None = None) -> Any:
        """Return the features of some rows."""
        assert encoder.preparation is not None
        return encoder.preparation.apply(self.frame if rows is None else self.frame[rows])

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
