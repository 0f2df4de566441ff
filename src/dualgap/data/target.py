"""The target column of a table: which one it is, whether it holds classes or a measured quantity, and its values as labels or numbers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dualgap.core import is_whole
from dualgap.data.columns import MISSING, clean, number_style, numbers
from dualgap.data.dataset import DataError, integer_labels
from dualgap.data.table_files import Table

__all__ = [
    "TASKS",
    "LabelRule",
    "Labels",
    "NumberRule",
    "array_target",
    "choose_target",
    "doubtful_labels",
    "grouped",
    "labels_of",
    "learn_labels",
    "learn_target",
    "plain_target",
    "target_of",
]

TASKS = ("classification", "regression")
TARGET_NAMES = ("target", "label", "class", "y")

MOST_NUMBERS = 50  # different whole numbers that are classes whatever the number of rows
ROWS_A_CLASS = 20  # rows for each class at least, above that
MOST_FRACTIONS = 10  # different numbers with fractions that are classes
FEWEST_ROWS = 2  # rows for each class at least, for more classes than that


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels or numbers of the rows that have one; `rows` says which those are."""

    y: np.ndarray
    rows: np.ndarray
    without: int  # rows that have no label
    limit: float | None = None  # what parts the classes of a measured quantity
    task: str = "classification"


@dataclass(frozen=True)
class LabelRule:
    """How a column's values become labels: as numbers written in a style, parted at a limit, or as text.

    `missing` are words that stand for nothing. Of a column of words they and the empty cells have no label, of numbers NA and the like too.
    """

    name: str
    style: str | None
    limit: float | None = None
    missing: tuple[str, ...] = ()
    task: ClassVar[str] = "classification"

    def apply(self, series: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (labels, the rows that have one)."""
        import polars as pl

        values = clean(series, {*(("",) if self.style is None else MISSING), *self.missing})
        present = np.flatnonzero(values.is_not_null().to_numpy())
        known = values.drop_nulls()
        if self.style is None:
            return _words(known).cast(pl.String).to_numpy().astype(str), present
        found = numbers(known, self.style, self.name).to_numpy()
        return (integer_labels(found) if self.limit is None else _parted(found, self.limit)), present

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class NumberRule:
    """How a column's values become the targets of a regression: as numbers written in a style."""

    name: str
    style: str
    missing: tuple[str, ...] = ()
    limit: ClassVar[None] = None
    task: ClassVar[str] = "regression"

    def apply(self, series: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (numbers, the rows that have one)."""
        values = clean(series, {*MISSING, *self.missing})
        present = np.flatnonzero(values.is_not_null().to_numpy())
        return numbers(values.drop_nulls(), self.style, self.name).to_numpy().astype(np.float64), present

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"task": self.task}


def plain_target(series: Any, name: str, task: str) -> LabelRule | NumberRule:
    """Return how the values of a column are labels or numbers as they are written, whatever they may mean."""
    if task == "regression":
        return _learn_numbers(series, name, None, ())
    return LabelRule(name, _known(series, name, ())[1])


def target_of(table: Table, target: str | int | None) -> str:
    """Return the name of the label column."""
    return choose_target(Path(table.name), table.columns, target, table.named)


def choose_target(path: Path, names: list[str], target: str | int | None, named: bool) -> str:
    """Return the name of the column that holds the labels."""
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if isinstance(target, str) and target in names and named:
        return target
    if isinstance(target, str) and target.lstrip("-").isdigit():
        target = int(target)  # from the command line, a number is text
    if is_whole(target):
        if not -len(names) <= target < len(names):
            raise DataError(f"target is {target}, but {path} has {len(names)} columns (0…{len(names) - 1})")
        return names[target]
    if isinstance(target, str):
        near = difflib.get_close_matches(target, names, n=1)
        meant = f"did you mean {near[0]!r}? " if near and named else ""
        why = f"{meant}its columns are {shown}" if named else f"it has no header; give a column number, 0…{len(names) - 1}"
        raise DataError(f"{path} has no column {target!r}; {why}")
    likely = [name for name in names if name.strip().lower() in TARGET_NAMES] if named else []
    if target is None and len(likely) == 1:
        return likely[0]
    if named:
        raise DataError(f"which column of {path} holds the labels? Give target=NAME (--target NAME); the columns are {shown}")
    raise DataError(f"{path} has no header; give target=NUMBER (--target NUMBER), the column of the labels, 0…{len(names) - 1}")


def learn_labels(series: Any, name: str, above: float | str | None = None, missing: Sequence[str] = ()) -> LabelRule:
    """Decide how the values of a column become labels; see `labels_of`."""
    import polars as pl

    known, style = _known(series, name, missing)
    if style is None:
        if above is not None:
            raise DataError(f"--above parts numbers, and column {name!r} holds words such as {str(known[0])!r}; leave it out")
        _refuse_names(name, known.cast(pl.String).to_numpy().astype(str))
        return LabelRule(name, None, missing=tuple(missing))
    values = numbers(known, style, name).to_numpy()
    if above is None:
        _refuse_measured(name, values)
        return LabelRule(name, style, missing=tuple(missing))
    limit = _limit(values, above)
    if not (values > limit).any() or (values > limit).all():
        raise DataError(
            f"--above {limit:g}: every value of {name!r} is on one side; they go from {values.min():g} to {values.max():g}"
        )
    return LabelRule(name, style, limit, tuple(missing))


def learn_target(
    series: Any, name: str, above: float | str | None = None, task: str = "", missing: Sequence[str] = ()
) -> LabelRule | NumberRule:
    """Decide whether a column holds classes or a measured quantity, unless `task` says it, and how its values are read.

    Words are classes. So are numbers of at most 10 different values, whole numbers of at most 50, and more whole numbers if they are
    0, 1, 2, … or 1, 2, 3, … with 20 rows each on average. Numbers with fractions and whole numbers with fewer rows each are a measured
    quantity. Other whole numbers can be either: that is an error, which asks for a task.
    """
    if task not in ("", *TASKS):
        raise DataError(f"--task {task}: choose classification or regression")
    if task == "regression":
        return _learn_numbers(series, name, above, missing)
    known, style = _known(series, name, missing)
    if task == "classification" or above is not None or style is None:
        return learn_labels(series, name, above, missing)
    kind = _kind_of_numbers(numbers(known, style, name).to_numpy(), f"column {name!r}")
    return LabelRule(name, style, missing=tuple(missing)) if kind == "classification" else NumberRule(name, style, tuple(missing))


def array_target(y: np.ndarray, name: str, task: str) -> tuple[np.ndarray, str]:
    """Return (labels or numbers, task) of an array of labels, by the same rules."""
    if task == "regression":
        if y.dtype.kind not in "iufb":
            raise DataError(f"{name}: a regression needs numbers, and its labels are words such as {str(y[0])!r}; leave --task out")
        return y.astype(np.float64), task
    if (
        task == ""
        and y.dtype.kind in "iuf"
        and len(y)
        and _kind_of_numbers(y.astype(float), f"the target of {name}") == "regression"
    ):
        return y.astype(np.float64), "regression"
    return y, "classification"


def labels_of(
    series: Any, name: str, above: float | str | None = None, task: str = "classification", missing: Sequence[str] = ()
) -> Labels:
    """Return the labels in a column or, where the task is a regression, its numbers.

    Whole numbers are labels as they are, other values as text. Rows without a label are left out: those with an empty cell or with one of
    the words `missing` and, where the labels are numbers, those with NA and the like. Many different numbers are a
    measured quantity, which a classifier does not predict: that is an error, unless `above` gives a number (or "median") that parts
    the values in two classes, or `task` is "regression". With task="" the column decides; see `learn_target`.
    """
    rule = learn_target(series, name, above, task, missing)
    y, rows = rule.apply(series)
    return Labels(y, rows, len(series) - len(rows), rule.limit, rule.task)


def grouped(y: np.ndarray, task: str) -> np.ndarray:
    """Return the groups that missing values are compared over: the classes or, of numbers, the two sides of their median."""
    return y > np.median(y) if task == "regression" else y


def doubtful_labels(labels: np.ndarray) -> list[str]:
    """Return a sentence on each class that is called none or the like."""
    found = [str(label) for label in np.unique(labels) if str(label).lower() in MISSING] if labels.dtype.kind == "U" else []
    return [f"{word!r} is taken as a class; if it says that a row has no label, say --missing {word}" for word in found]


def _known(series: Any, name: str, missing: Sequence[str]) -> tuple[Any, str | None]:
    """Return the values of a column that are there, and the style of its numbers; None for words."""
    import polars as pl

    known = clean(series, {*MISSING, *missing}).drop_nulls()
    style = "plain" if known.dtype == pl.Float64 else number_style(known) if known.dtype == pl.String and len(known) else None
    if style is None:
        known = clean(series, {"", *missing}).drop_nulls()
    if not len(known):
        raise DataError(f"the label column {name!r} is empty")
    return known, style


def _learn_numbers(series: Any, name: str, above: float | str | None, missing: Sequence[str]) -> NumberRule:
    if above is not None:
        raise DataError(
            f"--above {above} makes two classes of the numbers in {name!r}, and a regression predicts the numbers; leave one out"
        )
    known, style = _known(series, name, missing)
    if style is None:
        raise DataError(
            f"a regression predicts numbers, and column {name!r} holds words such as {str(known[0])!r}; give another --target, or "
            "--task classification"
        )
    return NumberRule(name, style, tuple(missing))


def _kind_of_numbers(values: np.ndarray, what: str) -> str:
    """Return the task that numbers ask for; refuse whole numbers that can be classes or a measured quantity."""
    found = np.unique(values)
    different, rows = len(found), len(values)
    whole = np.array_equal(found, np.trunc(found))
    if different <= MOST_FRACTIONS:
        return "classification"
    if not whole or different > max(MOST_NUMBERS, rows // ROWS_A_CLASS):
        return "regression"
    coded = found[0] in (0.0, 1.0) and found[-1] - found[0] == different - 1
    if rows >= FEWEST_ROWS * different and (different <= MOST_NUMBERS or coded):
        return "classification"
    raise DataError(
        f"{what} has {different:,} different whole numbers in {rows:,} rows, from {found[0]:g} to {found[-1]:g}: these can be classes "
        "or a measured quantity. Give --task classification or --task regression"
    )


def _words(known: Any) -> Any:
    import polars as pl

    return known.dt.to_string("%Y-%m-%d %H:%M:%S") if known.dtype == pl.Datetime else known


def _limit(values: np.ndarray, above: float | str) -> float:
    try:
        return float(np.median(values)) if above == "median" else float(above)
    except ValueError:
        raise DataError(f"--above is {above!r}; it must be a number or median") from None


def _parted(values: np.ndarray, limit: float) -> np.ndarray:
    return np.where(values > limit, f"above {limit:g}", f"up to {limit:g}")


def _refuse_measured(name: str, values: np.ndarray) -> None:
    different = len(np.unique(values))
    whole = np.array_equal(values, np.trunc(values))
    if different <= MOST_FRACTIONS or (whole and different <= max(MOST_NUMBERS, len(values) // ROWS_A_CLASS)):
        return
    raise DataError(
        f"column {name!r} has {different:,} different numbers in {len(values):,} rows: that is a measured quantity, and this command "
        f"predicts classes. Give --above {np.median(values):g} (the median) to predict whether it is above that, or another --target. "
        "`dualgap fit --task regression` predicts the number itself"
    )


def _refuse_names(name: str, y: np.ndarray) -> None:
    different = len(np.unique(y))
    if different > max(MOST_NUMBERS, len(y) // 2):
        raise DataError(
            f"column {name!r} has {different:,} different values in {len(y):,} rows, such as {str(y[0])!r}: these are no classes; "
            "give another --target"
        )
