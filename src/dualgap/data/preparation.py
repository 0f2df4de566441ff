"""Preparation: a table's columns turned into features, learned from training rows and applied to any other table.

Numbers are filled and standardised, categories become 0/1 columns, dates become time, month, weekday and hour, free text becomes n-grams.
What was learned is plain data (`to_dict`), so that a model file or a store keeps it without code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dualgap.core import is_sparse, one_of
from dualgap.data.columns import (
    DOUBTFUL,
    KINDS,
    MISSING,
    clean,
    clean_numbers,
    dates,
    frame_of,
    holds_flags,
    kind_of_column,
    numbers,
    values_of,
)
from dualgap.data.dataset import DataError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Notes", "Preparation"]

MOST_LEVELS = 1000  # categories of one column that have a feature of their own
RARE = 2  # rows below which a category is pooled with other rare ones, where a column has more than FEW_LEVELS
FEW_LEVELS = 30
MOST_WORDS = 20_000  # n-grams of one column, the most frequent ones
SPARSE_FROM, SPARSE_BELOW = 50, 0.25  # features, and share of non-zeros, at which rows are stored by their non-zeros
CHANCE = 0.05  # probability that a flag for missing values is given to any column of a table where they do not go with the labels
MOST_GROUPS = 50  # different labels above which missing values are compared over the two sides of their median
SHOWN = 4  # values that a note names


@dataclass
class Notes:
    """What `transform` met that training did not have: column by column, in words."""

    lines: list[str] = field(default_factory=list)

    def unseen(self, name: str, count: int, example: str, becomes: str) -> None:
        """Note values of a category that training did not have."""
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        self.lines.append(f"column {name!r}: {rows} a category that was not in the training data, such as {example!r}; {becomes}")

    def filled(self, name: str, count: int, value: str) -> None:
        """Note missing values where training had none."""
        self.lines.append(f"column {name!r}: {count:,} missing value{'s' if count > 1 else ''}, filled with {value}")


# ------------------------------------------------------------------------------------------------------------- kinds of columns


Matters = Callable[[np.ndarray], bool]  # whether missing values, told by a mask, have a feature of their own


@dataclass(frozen=True)
class Number:
    """Fill with the median, subtract the mean, divide by the deviation; a 0/1 feature tells the rows that were filled, if that matters.

    Without anything to fill with, a missing value is an error.
    """

    kind: ClassVar[str] = "number"
    name: str
    style: str
    fill: float | None
    centre: float
    scale: float
    flag: bool  # whether rows that were filled have a feature of their own
    gaps: bool = False  # whether training had missing values

    @classmethod
    def learn(cls, name: str, series: pl.Series, style: str, standardise: bool, matters: Matters) -> Number:
        values = numbers(series, style, name)
        known = values.drop_nulls().to_numpy()
        fill = float(np.median(known)) if len(known) else 0.0
        whole = values.fill_null(fill).to_numpy()
        centre, scale = (float(whole.mean()), float(whole.std())) if standardise else (0.0, 1.0)
        constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(centre), np.finfo(np.float64).tiny)
        gaps = len(known) < len(series)
        flag = gaps and matters(values.is_null().to_numpy())
        return cls(name, style, fill, centre, 1.0 if constant else scale, flag, gaps)

    def features(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.flag else [self.name]

    def apply(self, series: pl.Series, notes: Notes) -> np.ndarray:
        values = numbers(series, self.style or "plain", self.name)
        out = np.empty((1 + self.flag, len(series)))
        if values.null_count():
            absent = values.is_null().to_numpy()
            if self.fill is None:
                raise _gaps(self.name, absent)
            if not self.gaps:
                notes.filled(self.name, int(absent.sum()), f"the median, {self.fill:g}")
            values = values.fill_null(self.fill)
            out[1:] = absent
        else:
            out[1:] = 0.0
        np.subtract(values.to_numpy(), self.centre, out=out[0])
        out[0] /= self.scale
        return out

    def says(self) -> str:
        scaled = "" if self.scale == 1.0 and self.centre == 0.0 else "standardised"
        flagged = " and flagged" if self.flag else ""
        gaps = f"missing filled with {self.fill:.4g}{flagged}" if self.gaps else ""
        style = {"grouped": "1,234.5 read as 1234.5", "comma": "3,14 read as 3.14"}.get(self.style, "")
        return "; ".join(filter(None, [style, gaps, scaled])) or "as it is"


@dataclass(frozen=True)
class Category:
    """One 0/1 feature for each level; for two levels a single one. Rare levels share a feature, and so do missing values."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    other: bool
    missing: bool

    @classmethod
    def learn(cls, name: str, series: pl.Series) -> Category:
        words = _words(series)
        known, counts = np.unique(words.drop_nulls().to_numpy().astype(str), return_counts=True)
        keep = np.ones(len(known), dtype=bool) if len(known) <= FEW_LEVELS else counts >= RARE
        if keep.sum() > MOST_LEVELS:
            least = np.sort(counts[keep])[-MOST_LEVELS]
            keep &= counts > least
        levels = tuple(known[keep].tolist())
        return cls(name, levels, bool((~keep).any()), bool(words.null_count()))

    @property
    def single(self) -> bool:
        """Whether one feature tells the two levels apart."""
        return len(self.levels) == 2 and not self.other and not self.missing

    def features(self) -> list[str]:
        named = [f"{self.name} = {level}" for level in self.levels]
        if self.single:
            return named[1:]
        return named + [f"{self.name}: other"] * self.other + [f"{self.name} is missing"] * self.missing

    def apply(self, series: pl.Series, notes: Notes) -> sparse.csr_matrix:
        import polars as pl

        words = _words(series)
        absent = words.is_null().to_numpy()
        place = words.cast(pl.Enum(list(self.levels)), strict=False).to_physical()  # null where it is no level
        column = place.cast(pl.Int64).fill_null(-1).to_numpy().copy()
        new = ~absent & (column < 0)
        if new.any() and not self.other:  # levels that were pooled in training are not told apart from new ones: both are "other"
            unseen = words.filter(pl.Series(new))
            notes.unseen(self.name, len(unseen), str(unseen[0]), "all its 0/1 features are 0")
        if absent.any() and not self.missing:
            notes.filled(self.name, int(absent.sum()), "no category")
        if self.other:
            column[new] = len(self.levels)
        if self.missing:
            column[absent] = len(self.levels) + self.other
        if self.single:
            column = np.where(column == 1, 0, -1)
        filled = np.flatnonzero(column >= 0)
        return sparse.csr_matrix((np.ones(len(filled)), (filled, column[filled])), shape=(words.len(), len(self.features())))

    def says(self) -> str:
        shown = ", ".join(self.levels[:SHOWN]) + (", …" if len(self.levels) > SHOWN else "")
        extra = [word for word, there in (("other", self.other), ("missing", self.missing)) if there]
        return f"{len(self.levels)} categories ({shown})" + (f" and {' and '.join(extra)}" if extra else "")


PARTS = {"month": 12, "weekday": 7, "hour": 24}


@dataclass(frozen=True)
class Date:
    """Days since 1970, standardised, and 0/1 features for the months, weekdays and hours that occur."""

    kind: ClassVar[str] = "date"
    name: str
    style: str
    days: Number
    parts: dict[str, list[int]]

    @classmethod
    def learn(cls, name: str, series: pl.Series, style: str, standardise: bool, matters: Matters) -> Date:
        moments = dates(series, style, name)
        days = Number.learn(f"{name} (time)", _days(moments), "plain", standardise, matters)
        found = {part: sorted(int(level) for level in _part(moments, part).drop_nulls().unique()) for part in PARTS}
        return cls(name, style, days, {part: levels for part, levels in found.items() if len(levels) > 1})

    def features(self) -> list[str]:
        return self.days.features() + [f"{self.name} ({part} {level})" for part, levels in self.parts.items() for level in levels]

    def apply(self, series: pl.Series, notes: Notes) -> np.ndarray:
        moments = dates(series, self.style, self.name)
        found = [self.days.apply(_days(moments), notes)]
        for part, levels in self.parts.items():
            value = _part(moments, part).fill_null(-1).to_numpy()
            found.append((value[None, :] == np.array(levels)[:, None]).astype(np.float64))
        return np.vstack(found)

    def says(self) -> str:
        form = f" as {self.style}" if self.style else ""
        return f"a date{form}: " + ", ".join(["time", *self.parts])


@dataclass(frozen=True)
class Text:
    """Words and pairs of words by tf-idf, a row scaled to length one."""

    kind: ClassVar[str] = "text"
    name: str
    words: tuple[str, ...]
    idf: tuple[float, ...]

    @classmethod
    def learn(cls, name: str, series: pl.Series) -> Text:
        entries = _words(series).fill_null("").to_list()
        vectoriser = _vectoriser(max_features=MOST_WORDS)
        try:
            vectoriser.fit(entries)
        except ValueError:  # nothing but stop words and signs
            return cls(name, (), ())
        return cls(name, tuple(vectoriser.get_feature_names_out().tolist()), tuple(float(value) for value in vectoriser.idf_))

    def features(self) -> list[str]:
        return [f"{self.name}: {word}" for word in self.words]

    def apply(self, series: pl.Series, notes: Notes) -> sparse.csr_matrix:
        entries = _words(series).fill_null("").to_list()
        if not self.words:
            return sparse.csr_matrix((len(entries), 0))
        vectoriser = _vectoriser(vocabulary=list(self.words))
        vectoriser.idf_ = np.array(self.idf)
        return sparse.csr_matrix(vectoriser.transform(entries))

    def says(self) -> str:
        return f"free text: {len(self.words):,} words and pairs of words"


@dataclass(frozen=True)
class Left:
    """A column that is left out, and why."""

    kind: ClassVar[str] = "drop"
    name: str
    why: str

    def features(self) -> list[str]:
        return []

    def says(self) -> str:
        return f"left out: {self.why}"


Used = Number | Category | Date | Text
Rule = Used | Left
RULES: dict[str, Any] = {rule.kind: rule for rule in (Number, Category, Date, Text, Left)}
STORED = {"date": 4.0, "text": 30.0}  # non-zeros a row, at most, of the rules that make more than one


def _vectoriser(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, strip_accents="unicode", **options)


def _words(series: pl.Series) -> pl.Series:
    """Return a cleaned column as words; a whole number is written without its fraction."""
    import polars as pl

    if series.dtype == pl.Float64:
        values = series.drop_nulls().to_numpy()
        if np.isfinite(values).all() and (np.abs(values) < 2**53).all() and np.array_equal(values, np.trunc(values)):
            series = series.cast(pl.Int64)
    return series.cast(pl.String)


def _days(moments: pl.Series) -> pl.Series:
    import polars as pl

    return moments.dt.epoch("us").cast(pl.Float64) / 86.4e9


def _part(moments: pl.Series, part: str) -> pl.Series:
    import polars as pl

    return getattr(moments.dt, part)().cast(pl.Int64)


# ----------------------------------------------------------------------------------------------------------------- the whole table


class Preparation(TransformerMixin, BaseEstimator):
    """Turn the columns of a table into features: a transformer for data frames of polars, pandas or pyarrow.

    Parameters
    ----------
    target : str
        A column that gets no feature, where the table has it: the labels.
    kinds : dict, optional
        Columns whose kind is known: "number", "category", "text", "date" or "drop".
    drop : sequence of str
        Columns to leave out.
    missing : sequence of str
        Words in lower case that stand for nothing, besides ?, NA, N/A, null, nan, none and the like.
    standardise : bool
        Whether numbers get mean 0 and deviation 1.
    prepare : bool
        False takes numbers alone, and true and false for 1 and 0: other words and missing values are an error.
    sparse_output : bool, optional
        Whether features come as a CSR matrix; by default they do where most of them are zero.
    named : bool
        Whether the columns have names of their own; a file without a header calls them 0, 1, …

    Attributes
    ----------
    rules_ : tuple
        What becomes of each column; `table` says it in words.
    n_features_in_ : int
        Columns of the training table, without the target.

    Examples
    --------
    >>> import polars as pl
    >>> from dualgap.data import Preparation
    >>> pets = pl.DataFrame({"weight": [4.0, 30.0, None], "colour": ["red", "black", "white"], "kind": ["cat", "dog", "dog"]})
    >>> preparation = Preparation(target="kind").fit(pets)
    >>> preparation.feature_names
    ['weight', 'weight is missing', 'colour = black', 'colour = red', 'colour = white']
    >>> preparation.transform(pets.select("colour", "weight")).shape
    (3, 5)
    """

    rules_: tuple[Rule, ...]
    width_: int  # columns of the training table, with the target

    def __init__(
        self,
        target: str = "",
        *,
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        missing: Sequence[str] = (),
        standardise: bool = True,
        prepare: bool = True,
        sparse_output: bool | None = None,
        named: bool = True,
    ) -> None:
        self.target = target
        self.kinds = kinds
        self.drop = drop
        self.missing = missing
        self.standardise = standardise
        self.prepare = prepare
        self.sparse_output = sparse_output
        self.named = named

    def fit(self, X: Any, y: Any = None, rows: np.ndarray | None = None) -> Self:
        """Decide what becomes of each column.

        Parameters
        ----------
        X : data frame
        y : labels or numbers, optional
            A missing number then has a feature only if missing values and y go together, by a chi-squared test at 5 % over all columns with
            missing values.
        rows : places of the rows to learn from, optional
            y is theirs. What kind of values a column holds is decided by all rows, so that a part of a table is prepared as the whole is:
            row numbers, say, are left out.
        """
        frame = frame_of(X)
        kinds = dict(self.kinds or {}) | dict.fromkeys(self.drop, "drop")
        columns = {name: clean(frame[name], {*MISSING, *self.missing}) for name in frame.columns if name != self.target}
        for name, kind in kinds.items():
            if name not in columns:
                raise DataError(f"there is no column {name!r} to prepare as {kind!r}; the columns are {', '.join(columns)}")
            one_of(f"kind of column {name!r}", kind, KINDS)
        gaps = sum(_some(series, rows).null_count() > 0 for series in columns.values())
        matters = _test_of(y, CHANCE / max(gaps, 1))  # Bonferroni: a test for each column with gaps
        rules = []
        for name, series in columns.items():
            rule = self._learned(name, series, frame[name].dtype.is_integer(), kinds.get(name), matters, rows)
            values = values_of(frame[name], self.missing) if isinstance(rule, Category) else None
            if values:
                rule = Category.learn(name, _some(clean(frame[name], {*MISSING, *self.missing} - values), rows))
            rules.append(rule)
        if not any(rule.features() for rule in rules):
            reasons = "; ".join(f"{rule.name!r} is {rule.says()}" for rule in rules[:SHOWN])
            raise DataError("no column besides the labels has anything to learn from: " + reasons)
        self.rules_, self.width_ = tuple(rules), frame.width
        self.n_features_in_, self.feature_names_in_ = len(columns), np.array(list(columns), dtype=object)
        return self

    def _learned(
        self, name: str, series: pl.Series, whole: bool, kind: str | None, matters: Matters, rows: np.ndarray | None
    ) -> Rule:
        """Return the rule of a cleaned column; `whole` says that its numbers were written as whole ones."""
        if kind == "drop":
            return Left(name, "as asked")
        if not self.prepare:
            if series.null_count():
                raise _gaps(name, series.is_null().to_numpy())
            style = "flag" if holds_flags(series) else "plain"
            return replace(Number.learn(name, _some(series, rows), style, self.standardise, matters), fill=None)
        found = kind_of_column(name, series, whole)
        series = _some(series, rows)
        if found.kind != "drop" and series.n_unique() == 1:  # in these rows there is nothing to learn
            found = kind_of_column(name, series, whole)
        if kind is not None and kind != found.kind:
            found = found._replace(kind=kind, style="plain" if kind == "number" else "")
        if found.kind == "slip":
            raise DataError(found.why)
        if found.kind == "drop":
            return Left(name, found.why)
        if found.kind in ("number", "date"):
            return RULES[found.kind].learn(name, series, found.style, self.standardise, matters)
        return RULES[found.kind].learn(name, series)

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature."""
        return [name for rule in self.rules_ for name in rule.features()]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the name of each feature; `input_features` is ignored, as columns are known by name."""
        check_is_fitted(self, "rules_")
        return np.array(self.feature_names, dtype=object)

    @property
    def is_sparse(self) -> bool:
        """Whether features come by their non-zeros."""
        if self.sparse_output is not None:
            return self.sparse_output
        width, stored = len(self.feature_names), sum(STORED.get(rule.kind, 1.0) for rule in self._used())
        return width >= SPARSE_FROM and stored < SPARSE_BELOW * width

    def transform(self, X: Any) -> Any:
        """Return the features of a table, an array or a CSR matrix; its columns may be in any order."""
        check_is_fitted(self, "rules_")
        return self.apply(frame_of(X), Notes())

    def apply(self, frame: pl.DataFrame, notes: Notes) -> Any:
        """Return the features of a polars data frame as `transform` does, and note what training did not have."""
        lacking = [rule.name for rule in self._used() if rule.name not in frame.columns]
        if lacking:
            shown = ", ".join(map(repr, lacking[:SHOWN])) + (", …" if len(lacking) > SHOWN else "")
            raise DataError(
                f"there is no column {shown}, which the model was trained on; "
                "add it (empty cells count as missing values), or train without it (--drop)"
            )
        blocks: Iterator[Any] = (rule.apply(self._cleaned(frame, rule), notes) for rule in self._used())
        if self.is_sparse:
            return sparse.hstack([block if is_sparse(block) else sparse.csr_matrix(block.T) for block in blocks], format="csr")
        values, first = np.empty((len(self.feature_names), frame.height)), 0
        for block in blocks:
            columns = block.toarray().T if is_sparse(block) else block
            values[first : first + len(columns)] = columns
            first += len(columns)
        return np.ascontiguousarray(values.T)

    def _used(self) -> Iterator[Used]:
        return (rule for rule in self.rules_ if not isinstance(rule, Left))

    def _cleaned(self, frame: pl.DataFrame, rule: Used) -> pl.Series:
        """Return a column with nulls where it has nothing; a word that is a category stands for itself."""
        words = {*MISSING, *self.missing}
        if isinstance(rule, Number) and rule.style == "plain":
            return clean_numbers(frame[rule.name], words)
        return clean(frame[rule.name], words - {level.lower() for level in rule.levels} if isinstance(rule, Category) else words)

    def doubts(self) -> list[str]:
        """Return a sentence on each word such as none that is taken as a category, in whatever columns."""
        categories = [(rule.name, rule.levels) for rule in self.rules_ if isinstance(rule, Category)]
        words = dict.fromkeys(level for _, levels in categories for level in levels if level.lower() in DOUBTFUL)
        found = {word: [repr(name) for name, levels in categories if word in levels] for word in words}
        return [
            f"{word!r} is taken as a category of {', '.join(names[:SHOWN])}{', …' * (len(names) > SHOWN)}, as it stands in many rows; "
            f"if it stands for nothing, say --missing {word}"
            for word, names in found.items()
            if names
        ]

    def plain_numbers(self) -> set[str]:
        """Return the columns of numbers that are written as Python writes them."""
        return {rule.name for rule in self.rules_ if isinstance(rule, Number) and rule.style in ("", "plain")}

    def with_names(self, frame: pl.DataFrame, named: bool) -> pl.DataFrame:
        """Return a table with the names that the rules know, where a file without a header has other ones.

        Without a header columns are matched by their place; a table that lacks the label column has one column less.
        """
        if self.named:
            if not named and not {rule.name for rule in self._used()} <= set(frame.columns):
                raise DataError("it has no header, and the model knows its columns by name; add a line with the names")
            return frame
        if frame.width not in (self.width_, self.width_ - 1):
            raise DataError(
                f"it has {frame.width} columns; the model was trained on {self.width_}, labels included, without a header"
            )
        names = [str(j) for j in range(self.width_) if frame.width == self.width_ or str(j) != self.target]
        return frame.rename(dict(zip(frame.columns, names, strict=True)))

    def leaves_numbers_alone(self) -> bool:
        """Return whether the features are the columns of the table as they are, labels aside."""
        return all(isinstance(rule, Number) and rule.centre == 0.0 and rule.scale == 1.0 and not rule.gaps for rule in self.rules_)

    def table(self) -> list[tuple[str, str, int, str]]:
        """Return (column, kind, number of features, what is done) for each column."""
        return [(rule.name, rule.kind if rule.kind != "drop" else "–", len(rule.features()), rule.says()) for rule in self.rules_]

    def to_dict(self) -> dict[str, Any]:
        """Return all that was learned as plain data: text, numbers, lists."""
        rules = [{"kind": rule.kind, **_plain(asdict(rule))} for rule in self.rules_]
        return {"rules": rules, "target": self.target, "named": self.named, "width": self.width_, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Preparation:
        """Return the preparation that `to_dict` wrote; anything else is an error."""
        try:
            words = tuple(str(word) for word in content["missing"])
            made = cls(str(content["target"]), missing=words, named=bool(content["named"]))
            made.rules_, made.width_ = tuple(_rule_from(entry) for entry in content["rules"]), int(content["width"])
            names = [rule.name for rule in made.rules_]
            made.n_features_in_, made.feature_names_in_ = len(names), np.array(names, dtype=object)
            return made
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the preparation of the columns is damaged ({type(error).__name__}: {error})") from None


def _some(series: pl.Series, rows: np.ndarray | None) -> pl.Series:
    return series if rows is None else series[rows]


def _test_of(y: Any, chance: float) -> Matters:
    """Return a test of whether missing values go with y: chi-squared, at a probability; without y they always matter."""
    if y is None:
        return lambda absent: True
    groups, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(groups) > MOST_GROUPS and groups.dtype.kind in "iuf":
        codes = (np.asarray(y) > np.median(np.asarray(y))).astype(np.int64)

    def matters(absent: np.ndarray) -> bool:
        from scipy.stats import chi2_contingency

        counts = np.stack([np.bincount(codes, weights=side, minlength=codes.max() + 1) for side in (absent, ~absent)])
        counts = counts[:, counts.any(axis=0)]
        return bool(counts.shape[1] > 1 and counts.sum(axis=1).all() and chi2_contingency(counts).pvalue < chance)

    return matters


def _gaps(name: str, absent: np.ndarray) -> DataError:
    count, row = np.count_nonzero(absent), int(np.argmax(absent)) + 1
    what = f"{count} missing values, the first" if count > 1 else "a missing value"
    return DataError(f"column {name!r} has {what} in row {row}, and without preparation nothing fills it; leave --no-prepare out")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _rule_from(entry: Mapping[str, Any]) -> Rule:
    fields = dict(entry)
    made = RULES[fields.pop("kind")]
    if made is Date:
        fields["days"] = Number(**fields["days"])
        fields["parts"] = {str(part): [int(level) for level in levels] for part, levels in fields["parts"].items()}
        if not set(fields["parts"]) <= set(PARTS):
            raise ValueError(f"parts of a date are {', '.join(PARTS)}")
    return made(**{key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()})
