"""The label column of a table: which one it is, its values as labels, and words for one that holds a measured quantity."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data.columns import clean, number_style, numbers
from dualgap.data.csv_parquet import choose_target
from dualgap.data.dataset import DataError, integer_labels
from dualgap.data.table_files import Table

__all__ = ["LabelRule", "Labels", "labels_of", "learn_labels", "target_of"]

MOST_NUMBERS = 50  # different whole numbers that are classes whatever the number of rows
ROWS_A_CLASS = 20  # rows for each class at least, above that
MOST_FRACTIONS = 10  # different numbers with fractions that are classes


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of the rows that have one; `rows` says which those are."""

    y: np.ndarray
    rows: np.ndarray
    without: int  # rows that have no label
    limit: float | None = None  # what parts the classes of a measured quantity


@dataclass(frozen=True)
class LabelRule:
    """How a column's values become labels: as numbers written in a style, parted at a limit, or as text."""

    name: str
    style: str | None
    limit: float | None = None

    def apply(self, series: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (labels, the rows that have one)."""
        import polars as pl

        values = clean(series)
        present = np.flatnonzero(values.is_not_null().to_numpy())
        known = values.drop_nulls()
        if self.style is None:
            return _words(known).cast(pl.String).to_numpy().astype(str), present
        found = numbers(known, self.style, self.name).to_numpy()
        return (integer_labels(found) if self.limit is None else _parted(found, self.limit)), present

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def target_of(table: Table, target: str | int | None) -> str:
    """Return the name of the label column."""
    return choose_target(Path(table.name), table.columns, target, table.named)


def learn_labels(series: Any, name: str, above: float | str | None = None) -> LabelRule:
    """Decide how the values of a column become labels; see `labels_of`."""
    import polars as pl

    known = clean(series).drop_nulls()
    if not len(known):
        raise DataError(f"the label column {name!r} is empty")
    style = "plain" if known.dtype == pl.Float64 else number_style(known) if known.dtype == pl.String else None
    if style is None:
        if above is not None:
            raise DataError(f"--above parts numbers, and column {name!r} holds words such as {str(known[0])!r}; leave it out")
        _refuse_names(name, known.cast(pl.String).to_numpy().astype(str))
        return LabelRule(name, None)
    values = numbers(known, style, name).to_numpy()
    if above is None:
        _refuse_measured(name, values)
        return LabelRule(name, style)
    limit = _limit(values, above)
    if not (values > limit).any() or (values > limit).all():
        raise DataError(
            f"--above {limit:g}: every value of {name!r} is on one side; they go from {values.min():g} to {values.max():g}"
        )
    return LabelRule(name, style, limit)


def labels_of(series: Any, name: str, above: float | str | None = None) -> Labels:
    """Return the labels in a column.

    Whole numbers are labels as they are, other values as text. Rows without a label are left out. Many different numbers are a
    measured quantity, which a classifier does not predict: that is an error, unless `above` gives a number (or "median") that parts
    the values in two classes.
    """
    rule = learn_labels(series, name, above)
    y, rows = rule.apply(series)
    return Labels(y, rows, len(series) - len(rows), rule.limit)


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
        "dualgap.LinearSVR predicts the number itself, in Python"
    )


def _refuse_names(name: str, y: np.ndarray) -> None:
    different = len(np.unique(y))
    if different > max(MOST_NUMBERS, len(y) // 2):
        raise DataError(
            f"column {name!r} has {different:,} different values in {len(y):,} rows, such as {str(y[0])!r}: these are no classes; "
            "give another --target"
        )
