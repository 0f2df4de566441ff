"""The label column of a table: which one it is, its values as labels, and words for one that holds a measured quantity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data.columns import clean, number_style, numbers
from dualgap.data.csv_parquet import choose_target
from dualgap.data.dataset import DataError, integer_labels
from dualgap.data.table_files import Table

__all__ = ["Labels", "labels_of", "target_of"]

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


def target_of(table: Table, target: str | int | None) -> str:
    """Return the name of the label column."""
    return choose_target(Path(table.name), table.columns, target, table.named)


def labels_of(series: Any, name: str, above: float | str | None = None) -> Labels:
    """Return the labels in a column.

    Whole numbers are labels as they are, other values as text. Rows without a label are left out. Many different numbers are a
    measured quantity, which a classifier does not predict: that is an error, unless `above` gives a number (or "median") that parts
    the values in two classes.
    """
    import polars as pl

    values = clean(series)
    if values.dtype == pl.String:
        style = number_style(values.drop_nulls()) if values.null_count() < len(values) else None
        if style is not None:
            values = numbers(values, style, name)
    present = values.is_not_null().to_numpy()
    known = values.drop_nulls()
    if not len(known):
        raise DataError(f"the label column {name!r} is empty")
    numeric = known.dtype == pl.Float64
    limit = None
    if above is not None:
        limit = _limit(known, name, above, numeric)
        y = _parted(known, name, limit)
    elif numeric:
        y = integer_labels(known.to_numpy())
        _refuse_measured(name, known.to_numpy())
    else:
        y = known.cast(pl.String).to_numpy().astype(str)
        _refuse_names(name, y)
    return Labels(y, np.flatnonzero(present), int((~present).sum()), limit)


def _limit(known: Any, name: str, above: float | str, numeric: bool) -> float:
    if not numeric:
        raise DataError(f"--above parts numbers, and column {name!r} holds words such as {str(known[0])!r}; leave it out")
    try:
        return float(known.median()) if above == "median" else float(above)
    except ValueError:
        raise DataError(f"--above is {above!r}; it must be a number or median") from None


def _parted(known: Any, name: str, limit: float) -> np.ndarray:
    y = np.where(known.to_numpy() > limit, f"above {limit:g}", f"up to {limit:g}")
    if len(np.unique(y)) < 2:
        raise DataError(
            f"--above {limit:g}: every value of {name!r} is on one side; they go from {known.min():g} to {known.max():g}"
        )
    return y


def _refuse_measured(name: str, values: np.ndarray) -> None:
    different = len(np.unique(values))
    whole = np.array_equal(values, np.trunc(values))
    if different <= MOST_FRACTIONS or (whole and different <= max(MOST_NUMBERS, len(values) // ROWS_A_CLASS)):
        return
    raise DataError(
        f"column {name!r} has {different:,} different numbers in {len(values):,} rows: that is a measured quantity, and dualgap predicts "
        f"classes. Give --above {np.median(values):g} (the median) to predict whether it is above that, or another --target"
    )


def _refuse_names(name: str, y: np.ndarray) -> None:
    different = len(np.unique(y))
    if different > max(MOST_NUMBERS, len(y) // 2):
        raise DataError(
            f"column {name!r} has {different:,} different values in {len(y):,} rows, such as {str(y[0])!r}: these are no classes; "
            "give another --target"
        )
