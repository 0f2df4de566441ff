"""The target column of a table: which one it is, whether it holds classes or a measured quantity, and its values as labels or numbers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.core import is_whole
from dualgap.data.columns import MISSING, clean, number_style, numbers
from dualgap.data.dataset import DataError, integer_labels
from dualgap.data.table_files import Table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TASKS", "TargetRule", "array_target", "doubtful_labels", "learn_target", "plain_target", "target_of"]

TASKS = ("classification", "regression")
TARGET_NAMES = ("target", "label", "class", "y")

MOST_NUMBERS = 50  # different whole numbers that are classes whatever the number of rows
ROWS_A_CLASS = 20  # rows for each class at least, above that
MOST_FRACTIONS = 10  # different numbers with fractions that are classes
FEWEST_ROWS = 2  # rows for each class at least, for more classes than that


@dataclass(frozen=True)
class TargetRule:
    """How a column's values become labels or the targets of a regression.

    Attributes
    ----------
    name : the column
    style : how its numbers are written; None for words
    limit : what parts the two classes of a measured quantity
    missing : words that stand for nothing; they and the empty cells of a column of words have no label, of numbers NA and the like too
    task : "classification" or "regression"
    """

    name: str
    style: str | None
    limit: float | None = None
    missing: tuple[str, ...] = ()
    task: str = "classification"

    def apply(self, series: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Return (labels or numbers, the rows that have one)."""
        values = clean(series, {*(("",) if self.style is None else MISSING), *self.missing})
        present = np.flatnonzero(values.is_not_null().to_numpy())
        known = values.drop_nulls()
        if self.style is None:
            return _words(known), present
        found = numbers(known, self.style, self.name).to_numpy()
        if self.task == "regression":
            return found.astype(np.float64), present
        return integer_labels(found) if self.limit is None else _parted(found, self.limit), present

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def target_of(table: Table, target: str | int | None) -> str:
    """Return the name of the column that holds the labels."""
    names, named = table.columns, table.named
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if isinstance(target, str) and target in names and named:
        return target
    if isinstance(target, str) and target.lstrip("-").isdigit():
        target = int(target)  # from the command line, a number is text
    if is_whole(target):
        if not -len(names) <= target < len(names):
            raise DataError(f"target is {target}, but {table.name} has {len(names)} columns (0…{len(names) - 1})")
        return names[target]
    if isinstance(target, str) and target:
        near = difflib.get_close_matches(target, names, n=1)
        meant = f"did you mean {near[0]!r}? " if near and named else ""
        why = f"{meant}its columns are {shown}" if named else f"it has no header; give a column number, 0…{len(names) - 1}"
        raise DataError(f"{table.name} has no column {target!r}; {why}")
    likely = [name for name in names if name.strip().lower() in TARGET_NAMES] if named else []
    if len(likely) == 1:
        return likely[0]
    if named:
        raise DataError(f"which column of {table.name} holds the labels? Give target=NAME (--target NAME); the columns are {shown}")
    raise DataError(
        f"{table.name} has no header; give target=NUMBER (--target NUMBER), the column of the labels, 0…{len(names) - 1}"
    )


def plain_target(series: pl.Series, name: str, task: str) -> TargetRule:
    """Return how the values of a column are labels or numbers as they are written, whatever they may mean."""
    if task == "regression":
        return learn_target(series, name, task=task)
    return TargetRule(name, _known(series, name, ())[1])


def learn_target(
    series: pl.Series, name: str, above: float | str | None = None, task: str = "", missing: Sequence[str] = ()
) -> TargetRule:
    """Decide whether a column holds classes or a measured quantity, unless `task` says it, and how its values are read.

    Words are classes. So are numbers of at most 10 different values, whole numbers of at most 50, and more whole numbers if they are
    0, 1, 2, … or 1, 2, 3, … with 20 rows each on average. Numbers with fractions and whole numbers with fewer rows each are a measured
    quantity. Other whole numbers can be either: that is an error, which asks for a task. A measured quantity has classes only if `above`
    gives a number (or "median") that parts its values in two.
    """
    if task not in ("", *TASKS):
        raise DataError(f"--task {task}: choose classification or regression")
    if task == "regression" and above is not None:
        raise DataError(
            f"--above {above} makes two classes of the numbers in {name!r}, and a regression predicts the numbers; leave one out"
        )
    (known, style), words = _known(series, name, missing), tuple(missing)
    if style is None:
        if task == "regression":
            raise DataError(
                f"a regression predicts numbers, and column {name!r} holds words such as {str(known[0])!r}; give another --target, or "
                "--task classification"
            )
        if above is not None:
            raise DataError(f"--above parts numbers, and column {name!r} holds words such as {str(known[0])!r}; leave it out")
        _refuse_names(name, _words(known))
        return TargetRule(name, None, missing=words)
    if task == "regression":
        return TargetRule(name, style, missing=words, task=task)
    values = numbers(known, style, name).to_numpy()
    if above is not None:
        return TargetRule(name, style, _limit(name, values, above), words)
    if task == "":
        return TargetRule(name, style, missing=words, task=_task_of(values, f"column {name!r}"))
    if _is_measured(values):
        raise DataError(
            f"column {name!r} has {len(np.unique(values)):,} different numbers in {len(values):,} rows: that is a measured quantity, and "
            f"this command predicts classes. Give --above {np.median(values):g} (the median) to predict whether it is above that, or "
            "another --target. `dualgap fit --task regression` predicts the number itself"
        )
    return TargetRule(name, style, missing=words)


def array_target(y: np.ndarray, name: str, task: str) -> tuple[np.ndarray, str]:
    """Return (labels or numbers, task) of an array of labels, by the same rules."""
    if task == "regression" and y.dtype.kind not in "iufb":
        raise DataError(f"{name}: a regression needs numbers, and its labels are words such as {str(y[0])!r}; leave --task out")
    if task == "" and y.dtype.kind in "iuf" and len(y):
        task = _task_of(y.astype(float), f"the target of {name}")
    return (y.astype(np.float64), task) if task == "regression" else (y, "classification")


def doubtful_labels(labels: np.ndarray) -> list[str]:
    """Return a sentence on each class that is called none or the like."""
    found = [str(label) for label in np.unique(labels) if str(label).lower() in MISSING] if labels.dtype.kind == "U" else []
    return [f"{word!r} is taken as a class; if it says that a row has no label, say --missing {word}" for word in found]


def _known(series: pl.Series, name: str, missing: Sequence[str]) -> tuple[pl.Series, str | None]:
    """Return the values of a column that are there, and the style of its numbers; None for words."""
    import polars as pl

    known = clean(series, {*MISSING, *missing}).drop_nulls()
    style = "plain" if known.dtype == pl.Float64 else number_style(known) if known.dtype == pl.String and len(known) else None
    if style is None:
        known = clean(series, {"", *missing}).drop_nulls()
    if not len(known):
        raise DataError(f"the label column {name!r} is empty")
    return known, style


def _words(known: pl.Series) -> np.ndarray:
    import polars as pl

    texts = known.dt.to_string("%Y-%m-%d %H:%M:%S") if known.dtype == pl.Datetime else known.cast(pl.String)
    return texts.to_numpy().astype(str)


def _task_of(values: np.ndarray, what: str) -> str:
    """Return the task that numbers ask for; refuse whole numbers that can be classes or a measured quantity."""
    found = np.unique(values)
    different, rows = len(found), len(values)
    if different <= MOST_FRACTIONS:
        return "classification"
    if _is_measured(values):
        return "regression"
    coded = found[0] in (0.0, 1.0) and found[-1] - found[0] == different - 1
    if rows >= FEWEST_ROWS * different and (different <= MOST_NUMBERS or coded):
        return "classification"
    raise DataError(
        f"{what} has {different:,} different whole numbers in {rows:,} rows, from {found[0]:g} to {found[-1]:g}: these can be classes "
        "or a measured quantity. Give --task classification or --task regression"
    )


def _is_measured(values: np.ndarray) -> bool:
    """Return whether numbers cannot be classes: many with fractions, or whole ones with few rows each."""
    different, whole = len(np.unique(values)), np.array_equal(values, np.trunc(values))
    return different > MOST_FRACTIONS and not (whole and different <= max(MOST_NUMBERS, len(values) // ROWS_A_CLASS))


def _limit(name: str, values: np.ndarray, above: float | str) -> float:
    """Return the number that --above parts the values at."""
    try:
        limit = float(np.median(values)) if above == "median" else float(above)
    except ValueError:
        raise DataError(f"--above is {above!r}; it must be a number or median") from None
    if (values > limit).any() and not (values > limit).all():
        return limit
    raise DataError(f"--above {limit:g}: every value of {name!r} is on one side; they go from {values.min():g} to {values.max():g}")


def _parted(values: np.ndarray, limit: float) -> np.ndarray:
    return np.where(values > limit, f"above {limit:g}", f"up to {limit:g}")


def _refuse_names(name: str, y: np.ndarray) -> None:
    different = len(np.unique(y))
    if different > max(MOST_NUMBERS, len(y) // 2):
        raise DataError(
            f"column {name!r} has {different:,} different values in {len(y):,} rows, such as {str(y[0])!r}: these are no classes; "
            "give another --target"
        )
