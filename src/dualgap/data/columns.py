"""What a column of a table holds: numbers, categories, dates, text, or nothing that a model can learn from.

`clean` turns the many ways to write "missing" into nulls; `kind_of_column` decides; `numbers` and `dates` parse by the style found.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from dualgap.data.dataset import DataError

__all__ = ["KINDS", "MISSING", "Found", "clean", "dates", "is_missing", "is_number", "kind_of_column", "number_style", "numbers"]

KINDS = ("number", "category", "text", "date", "drop")
MISSING = ("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", ".", "<na>", "missing")
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|key|no|nr|number|row|rownum|unnamed: \d+)$", re.IGNORECASE)

PERSON_NAME = re.compile(r"(^|[_\s.-])(name|names|fullname|surname|e-?mail|phone|address|url)$", re.IGNORECASE)

FEW = 40  # categories at most in a column of several words an entry; more are free text
LONG = 2.5  # words an entry on average from which a column with many different entries is free text
TRIED = 1000  # entries that a style of dates or numbers is tried on before all of them

MONEY = r"[$€£¥%\s_]"
GROUPED = r"^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$|^[-+]?\d+(\.\d+)?$"
COMMA = r"^[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$"
DAYS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
TIMES = ("", " %H:%M:%S%.f", " %H:%M", " %I:%M %p", " %I:%M:%S %p")


class Found(NamedTuple):
    """The kind of a column, how it is written (a style of numbers, a format of dates), and why."""

    kind: str
    style: str = ""
    why: str = ""


def is_missing(word: str) -> bool:
    """Return whether a word stands for a missing value."""
    return word.strip().lower() in MISSING


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def clean(series: Any) -> Any:
    """Return a column as numbers, booleans as words, dates or stripped text, with nulls for every way to write "missing"."""
    import polars as pl

    kind = series.dtype
    if kind == pl.Boolean or kind in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    elif kind.is_float():
        return series.cast(pl.Float64).fill_nan(None)
    elif kind.is_numeric() or kind == pl.Duration:
        return series.cast(pl.Float64)
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        lower = series.str.to_lowercase()
        series = _without(series, lower.is_in(list(MISSING)).fill_null(True))
        return series.str.to_lowercase() if series.null_count() < len(series) and _all_boolean(series) else series
    return series.cast(pl.Datetime("us")) if kind in (pl.Date, pl.Datetime) else series


def _all_boolean(series: Any) -> bool:
    """Return whether a column holds the words true and false alone: one program writes True, another TRUE."""
    known = series.drop_nulls()
    return bool(known.head(TRIED).str.to_lowercase().is_in(["true", "false"]).all()) and bool(
        known.str.to_lowercase().is_in(["true", "false"]).all()
    )


def _without(series: Any, mask: Any) -> Any:
    """Return a column with nulls where the mask is true."""
    import polars as pl

    return pl.select(pl.when(mask).then(None).otherwise(series).alias(series.name)).to_series()


def kind_of_column(name: str, series: Any, whole: bool) -> Found:
    """Decide what a cleaned column holds; `whole` says that its numbers were written as whole ones."""
    import polars as pl

    known = series.drop_nulls()
    rows, different = len(known), known.n_unique() if len(known) and not series.dtype.is_nested() else 0
    if not rows:
        return Found("drop", why="empty")
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object, pl.Time):
        return Found("drop", why=f"{series.dtype} is no kind of value that is prepared")
    if different == 1 and rows == len(series):
        return Found("drop", why="one value in every row")
    if series.dtype == pl.Float64:
        return _kind_of_numbers(name, known, different, whole)
    if series.dtype == pl.Datetime:
        return Found("date")
    style = number_style(known)
    if style is not None:
        return _kind_of_numbers(name, numbers(known, style, name), different, whole=False)._replace(style=style)
    form = date_format(known)
    if form is not None:
        return Found("date", form)
    return _kind_of_words(name, known, rows, different)


def _kind_of_numbers(name: str, known: Any, different: int, whole: bool) -> Found:
    counted = whole and different == len(known) > 20 and known.max() - known.min() + 1 == different
    named = different == len(known) > 20 and whole and ID_NAME.search(name) is not None
    if counted or named:
        return Found("drop", why="an identifier: another whole number in every row")
    return Found("number", "plain")


def _kind_of_words(name: str, known: Any, rows: int, different: int) -> Found:
    words = float((known.str.count_matches(r"\s+") + 1).mean())
    identifies = rows > 20 and different > 0.95 * rows
    if words >= LONG and different > FEW and different > 0.2 * rows and not (identifies and PERSON_NAME.search(name)):
        return Found("text")
    if identifies:  # a category that does not come again tells nothing
        return Found("drop", why=f"an identifier: another {'word' if words < 2 else 'name'} in nearly every row")
    return Found("category")


# --------------------------------------------------------------------------------------------------------------------- numbers


def number_style(known: Any) -> str | None:
    """Return how a column of words writes numbers: plain, grouped (1,234.5 and $ or %), comma (3,14); None if it does not."""
    for style in ("plain", "grouped", "comma"):
        if _parsed(known.head(TRIED), style).null_count() == 0 and _parsed(known, style).null_count() == 0:
            return style
    return None


def _parsed(series: Any, style: str) -> Any:
    import polars as pl

    if style == "grouped":
        series = series.str.replace_all(MONEY, "")
        series = _without(series, ~series.str.contains(GROUPED)).str.replace_all(",", "")
    elif style == "comma":
        series = _without(series, ~series.str.contains(COMMA)).str.replace_all(r"\.", "").str.replace(",", ".")
    return series.cast(pl.Float64, strict=False)


def numbers(series: Any, style: str, name: str) -> Any:
    """Return a cleaned column as float64 with nulls; a word that is no number is an error with its row."""
    import polars as pl

    if series.dtype == pl.Datetime or series.dtype.is_nested():
        raise DataError(f"column {name!r} holds {series.dtype}, where the model was trained on numbers")
    found = series if series.dtype == pl.Float64 else _parsed(series, style)
    if style != "plain" and series.dtype == pl.String and found.null_count() > series.null_count():
        plain = _parsed(series, "plain")
        found = plain if plain.null_count() == series.null_count() else found
    bad = found.is_null() & series.is_not_null() | found.is_infinite().fill_null(False) | found.is_nan().fill_null(False)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        raise DataError(f"column {name!r}, row {row + 1}: {series[row]!r} is not a finite number")
    return found


# ----------------------------------------------------------------------------------------------------------------------- dates


def date_format(known: Any) -> str | None:
    """Return the format that all words of a column follow, or None."""
    some = known.head(TRIED)
    if not some.str.contains(r"\d").all() or not some.str.contains(r"[-/. :]").all():
        return None
    for form in (day + time for day in DAYS for time in TIMES):
        if _read_dates(some, form).null_count() == 0 and _read_dates(known, form).null_count() == 0:
            return form
    return None


def _read_dates(series: Any, form: str) -> Any:
    import polars as pl

    plain = series.str.replace(r"(Z|[+-]\d\d:?\d\d)$", "") if "%H" in form else series
    plain = plain.str.replace(r"^(\d{4}-\d\d-\d\d)T", "${1} ")
    try:
        if "%H" not in form and "%I" not in form:
            return plain.str.strptime(pl.Date, form, strict=False).cast(pl.Datetime("us"))
        return plain.str.strptime(pl.Datetime("us"), form, strict=False)
    except pl.exceptions.PolarsError:  # a format that polars finds no sense in for these words
        return pl.Series(series.name, [None] * len(series), dtype=pl.Datetime("us"))


def dates(series: Any, form: str, name: str) -> Any:
    """Return a cleaned column as moments with nulls; a word that is no date in this format is an error with its row."""
    import polars as pl

    if series.dtype == pl.Datetime:
        return series.dt.replace_time_zone(None) if getattr(series.dtype, "time_zone", None) else series
    if series.dtype != pl.String:
        raise DataError(f"column {name!r} holds numbers, where the model was trained on dates")
    found = _read_dates(series, form) if form else _read_dates(series, date_format(series.drop_nulls()) or DAYS[0])
    bad = found.is_null() & series.is_not_null()
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        raise DataError(f"column {name!r}, row {row + 1}: {series[row]!r} is not a date like {_example(form or DAYS[0])}")
    return found


def _example(form: str) -> str:
    from datetime import datetime

    return datetime(2024, 12, 31, 23, 59, 58).strftime(form.replace("%.f", ""))
