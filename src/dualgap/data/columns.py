"""What a column of a table holds: numbers, categories, dates, text, or nothing that a model can learn from.

`clean` turns the many ways to write "missing" into nulls; `kind_of_column` decides; `numbers` and `dates` parse by the style found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualgap.data.dataset import DataError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DOUBTFUL",
    "KINDS",
    "MISSING",
    "Found",
    "clean",
    "clean_numbers",
    "dates",
    "frame_of",
    "holds_flags",
    "is_missing",
    "is_number",
    "kind_of_column",
    "number_style",
    "numbers",
    "values_of",
]

KINDS = ("number", "category", "text", "date", "drop")
MISSING = ("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", ".", "<na>", "missing")
DOUBTFUL = ("na", "null", "none", "nil", "missing")  # of these, the words that can also be a value
OFTEN = 0.05  # share of the rows of a column of words from which they are a value
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|key|no|nr|number|row|rownum|unnamed: \d+)$", re.IGNORECASE)

PERSON_NAME = re.compile(r"(^|[_\s.-])(name|names|fullname|surname|e-?mail|phone|address|url)$", re.IGNORECASE)

FEW = 40  # categories at most in a column of several words an entry; more are free text
LONG = 2.5  # words an entry on average from which a column with many different entries is free text
TRIED = 1000  # entries that a style of dates or numbers is tried on before all of them
SEVERAL = 20  # rows or different numbers above which a column is judged by what nearly all of its values are
SLIP = 1000  # rows for each word, in a column of numbers, that is taken for a slip of the pen
SPREAD = 100  # different numbers from which their even spread is looked at
EVEN = 0.1  # distance of their distribution from a uniform one (Kolmogorov and Smirnov) below which they are spread evenly
NEIGHBOURS = 20  # pairs of numbers that differ by one: were the numbers measured, about half as many pairs would be equal

MONEY = r"[$€£¥%\s]"
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
    """The kind of a column ("slip": numbers and a word), how it is written (a style of numbers, a format of dates), and why."""

    kind: str
    style: str = ""
    why: str = ""


def is_missing(word: str) -> bool:
    """Return whether a word stands for a missing value."""
    return word.strip().lower() in MISSING


def values_of(series: pl.Series, missing: Collection[str]) -> set[str]:
    """Return the words such as none that stand in many rows of a column of words, so that they are values; `missing` ones are not."""
    import polars as pl

    if series.dtype != pl.String:
        return set()
    lower = series.str.strip_chars().str.to_lowercase()
    counts = lower.filter(lower.is_in(list(DOUBTFUL))).value_counts()
    return {word for word, count in counts.iter_rows() if count >= OFTEN * len(series) and word not in missing}


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def frame_of(given: Any) -> pl.DataFrame:
    """Return a data frame of polars, pandas (without its index) or pyarrow as one of polars."""
    import polars as pl

    if isinstance(given, pl.DataFrame):
        return given
    if hasattr(given, "iloc"):
        given = given.rename(columns=str)
        try:
            return pl.from_pandas(given)
        except (ImportError, TypeError, ValueError, pl.exceptions.PolarsError):  # no pyarrow, or a column of several types
            columns = {
                name: [None if value is None or value != value else value for value in given[name].tolist()]
                for name in given.columns
            }
            return pl.DataFrame(columns, strict=False)
    if isinstance(given, np.ndarray) and given.ndim == 2:
        return pl.DataFrame({str(j): column for j, column in enumerate(given.T)}, strict=False)
    if hasattr(given, "column_names") or hasattr(given, "__arrow_c_stream__"):
        return pl.DataFrame(given)
    raise DataError(f"a table is a data frame of polars, pandas or pyarrow, and this is a {type(given).__name__}")


def clean(series: pl.Series, missing: Collection[str] = MISSING) -> pl.Series:
    """Return a column as numbers, booleans as words, dates or stripped text, with nulls for the words that stand for nothing."""
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
        series = _without(series, lower.is_in(list(missing)).fill_null(True))
        return series.str.to_lowercase() if holds_flags(series) else series
    return series.cast(pl.Datetime("us")) if kind in (pl.Date, pl.Datetime) else series


def clean_numbers(series: pl.Series, missing: Collection[str]) -> pl.Series:
    """Return a column as `clean` does, and its words as numbers where all are, which is several times faster."""
    import polars as pl

    if series.dtype == pl.String:
        found = series.cast(pl.Float64, strict=False)
        odd = series.filter(found.is_null() & series.is_not_null())
        if bool(odd.str.strip_chars().str.to_lowercase().is_in(list(missing)).all()):
            return found.fill_nan(None)
    return clean(series, missing)


def holds_flags(series: pl.Series) -> bool:
    """Return whether a column holds the words true and false alone: one program writes True, another TRUE."""
    import polars as pl

    known = series.drop_nulls()
    if series.dtype != pl.String or not len(known):
        return False
    return all(bool(some.str.to_lowercase().is_in(["true", "false"]).all()) for some in (known.head(TRIED), known))


def _without(series: pl.Series, mask: pl.Series | pl.Expr) -> pl.Series:
    """Return a column with nulls where the mask is true."""
    import polars as pl

    return pl.select(pl.when(mask).then(None).otherwise(series).alias(series.name)).to_series()


def kind_of_column(name: str, series: pl.Series, whole: bool) -> Found:
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
        whole = style == "plain" and bool(known.str.contains(r"^[-+]?\d+$").all())
        return _kind_of_numbers(name, numbers(known, style, name), different, whole)._replace(style=style)
    form = date_format(known)
    if form is not None:
        return Found("date", form)
    return _slip(name, series) or _kind_of_words(name, known, rows, different)


def _kind_of_numbers(name: str, known: pl.Series, different: int, whole: bool) -> Found:
    if whole and different == len(known) > SEVERAL and (ID_NAME.search(name) or _counts_rows(np.sort(known.to_numpy()))):
        return Found("drop", why="an identifier: a different whole number in every row")
    return Found("number", "plain")


def _counts_rows(values: np.ndarray) -> bool:
    """Return whether different whole numbers, sorted, tell rows apart and measure nothing.

    They do if they have no gaps; if many of them are neighbours, as measured numbers would then also be equal; and if they are spread
    evenly from the least to the largest, as measured numbers hardly ever are.
    """
    low, span = values[0], values[-1] - values[0]
    if span + 1 == len(values) or np.count_nonzero(np.diff(values) == 1) >= NEIGHBOURS:
        return True
    uniform = np.arange(len(values)) / (len(values) - 1)
    return len(values) > SPREAD and float(np.abs((values - low) / span - uniform).max()) < EVEN


def _slip(name: str, series: pl.Series) -> Found | None:
    """Return what is wrong with a column of numbers that a word or two is among; None for a column of words."""
    most, some = max(1, len(series) // SLIP), series.drop_nulls().head(TRIED)
    for style in ("plain", "grouped", "comma"):
        if _parsed(some, style).null_count() > most:
            continue
        found = _parsed(series, style)
        odd = found.is_null() & series.is_not_null()
        if int(odd.sum()) <= most and found.n_unique() > SEVERAL:
            row = int(np.argmax(odd.to_numpy()))
            told = f"column {name!r}, row {row + 1}: {series[row]!r} is not a finite number, and nearly all other values of the column are"
            return Found("slip", why=f"{told}: correct it, or say that it stands for nothing (--missing {series[row]!r})")
    return None


def _kind_of_words(name: str, known: pl.Series, rows: int, different: int) -> Found:
    words = float(known.str.count_matches(r"\s+").to_numpy().mean()) + 1.0
    identifies = rows > SEVERAL and different > 0.95 * rows
    if words >= LONG and different > FEW and different > 0.2 * rows and not (identifies and PERSON_NAME.search(name)):
        return Found("text")
    if identifies:  # a category that does not come again tells nothing
        return Found("drop", why=f"an identifier: a different {'word' if words < 2 else 'name'} in nearly every row")
    return Found("category")


# --------------------------------------------------------------------------------------------------------------------- numbers


def number_style(known: pl.Series) -> str | None:
    """Return how a column of words writes numbers: plain, grouped (1,234.5 and $ or %), comma (3,14); None if it does not."""
    for style in ("plain", "grouped", "comma"):
        if _parsed(known.head(TRIED), style).null_count() == 0 and _parsed(known, style).null_count() == 0:
            return style
    return None


def _parsed(series: pl.Series, style: str) -> pl.Series:
    import polars as pl

    if style == "grouped":
        series = series.str.replace_all(MONEY, "")
        series = _without(series, ~series.str.contains(GROUPED)).str.replace_all(",", "")
    elif style == "flag":
        series = series.replace({"true": "1", "false": "0"})
    elif style == "comma":
        series = _without(series, ~series.str.contains(COMMA)).str.replace_all(r"\.", "").str.replace(",", ".")
    return series.cast(pl.Float64, strict=False)


def numbers(series: pl.Series, style: str, name: str) -> pl.Series:
    """Return a cleaned column as float64 with nulls; a word that is no number is an error with its row."""
    import polars as pl

    if series.dtype == pl.Datetime or series.dtype.is_nested():
        raise DataError(f"column {name!r} holds {series.dtype}, where the model was trained on numbers")
    if series.dtype == pl.Float64 and math.isfinite(series.sum()):  # of no numbers it is 0
        return series
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


def date_format(known: pl.Series) -> str | None:
    """Return the format that all words of a column follow, or None."""
    some = known.head(TRIED)
    if not some.str.contains(r"\d").all() or not some.str.contains(r"[-/. :]").all():
        return None
    for form in (day + time for day in DAYS for time in TIMES):
        if _read_dates(some, form).null_count() == 0 and _read_dates(known, form).null_count() == 0:
            return form
    return None


def _read_dates(series: pl.Series, form: str) -> pl.Series:
    import polars as pl

    plain = series.str.replace(r"(Z|[+-]\d\d:?\d\d)$", "") if "%H" in form else series
    plain = plain.str.replace(r"^(\d{4}-\d\d-\d\d)T", "${1} ")
    try:
        if "%H" not in form and "%I" not in form:
            return plain.str.strptime(pl.Date, form, strict=False).cast(pl.Datetime("us"))
        return plain.str.strptime(pl.Datetime("us"), form, strict=False)
    except pl.exceptions.PolarsError:  # a format that polars finds no sense in for these words
        return pl.Series(series.name, [None] * len(series), dtype=pl.Datetime("us"))


def dates(series: pl.Series, form: str, name: str) -> pl.Series:
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
