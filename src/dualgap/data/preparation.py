"""Preparation: a table's columns turned into features, learned from training rows and applied to any other table.

Numbers are filled and standardised, categories become 0/1 columns, dates become time, month, weekday and hour, free text becomes n-grams.
What was learned is plain data (`to_dict`), so that a model file or a store keeps it without code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dualgap.core import one_of
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

__all__ = ["Notes", "Preparation"]

MOST_LEVELS = 1000  # categories of one column that have a feature of their own
RARE = 2  # rows below which a category is pooled with other rare ones, where a column has more than FEW_LEVELS
FEW_LEVELS = 30
MOST_WORDS = 20_000  # n-grams of one column, the most frequent ones
SPARSE_FROM, SPARSE_BELOW = 50, 0.25  # features, and share of non-zeros, at which rows are stored by their non-zeros
CHANCE = 0.05  # probability that a flag for missing values is given to any column of a table where they do not go with the labels
SHOWN = 4  # values that a note names


@dataclass
class Notes:
    """What `transform` met that training did not have: column by column, in words."""

    lines: list[str] = field(default_factory=list)

    def unseen(self, name: str, count: int, example: str, becomes: str) -> None:
        """Note values of a category that training did not have."""
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        self.lines.append(f"column {name!r}: {rows} a category that was not in the training data, such as {example!r}: {becomes}")

    def filled(self, name: str, count: int, value: str) -> None:
        """Note missing values where training had none."""
        self.lines.append(f"column {name!r}: {count:,} missing value{'s' if count > 1 else ''}, filled with {value}")


# ------------------------------------------------------------------------------------------------------------- kinds of columns


@dataclass(frozen=True, eq=False)
class Target:
    """The labels of the training rows, and the p-value below which missing values of a column are taken to go with them."""

    labels: np.ndarray
    chance: float

    def goes_with(self, absent: np.ndarray) -> bool:
        """Return whether missing values go with the labels, by a chi-squared test."""
        from scipy.stats import chi2_contingency

        _, codes = np.unique(self.labels, return_inverse=True)
        counts = np.stack([np.bincount(codes, weights=side, minlength=codes.max() + 1) for side in (absent, ~absent)])
        return bool(counts.shape[1] > 1 and counts.sum(axis=1).all() and chi2_contingency(counts).pvalue < self.chance)


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
    def learn(cls, name: str, series: Any, style: str, standardise: bool, target: Target | None = None) -> Number:
        values = numbers(series, style, name)
        known = values.drop_nulls().to_numpy()
        fill = float(np.median(known)) if len(known) else 0.0
        whole = values.fill_null(fill).to_numpy()
        centre, scale = (float(whole.mean()), float(whole.std())) if standardise else (0.0, 1.0)
        constant = scale <= 10 * np.finfo(np.float64).eps * max(abs(centre), np.finfo(np.float64).tiny)
        gaps = len(known) < len(series)
        flag = gaps and (target is None or target.goes_with(values.is_null().to_numpy()))
        return cls(name, style, fill, centre, 1.0 if constant else scale, flag, gaps)

    def features(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.flag else [self.name]

    def filled_by(self) -> float:
        """Non-zeros a row, at most."""
        return 1.0

    def apply(self, series: Any, notes: Notes) -> np.ndarray:
        out = np.empty((len(self.features()), len(series)))
        self.fill_columns(series, out, notes)
        np.divide(out[0] - self.centre, self.scale, out=out[0])
        return out.T

    def fill_columns(self, series: Any, out: np.ndarray, notes: Notes) -> None:
        """Write the column to out[0], filled but not yet scaled, and the flags to out[1], if there are any."""
        values = numbers(series, self.style or "plain", self.name)
        absent = values.is_null().to_numpy()
        if absent.any() and self.fill is None:
            raise _gaps(self.name, absent)
        if absent.any() and not self.gaps:
            notes.filled(self.name, int(absent.sum()), f"the median, {self.fill:g}")
        out[0] = (values if self.fill is None else values.fill_null(self.fill)).to_numpy()
        out[1:] = absent

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
    def learn(cls, name: str, series: Any) -> Category:
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

    def filled_by(self) -> float:
        """Non-zeros a row, at most."""
        return 1.0

    def apply(self, series: Any, notes: Notes) -> Any:
        import polars as pl

        words = _words(series)
        rows = words.len()
        absent = words.is_null().to_numpy()
        levels = self.levels
        place = words.cast(pl.Enum(list(levels)), strict=False).to_physical()  # null where it is no level
        known = place.is_not_null().to_numpy()
        place = place.cast(pl.Int64).fill_null(-1).to_numpy()
        new = ~absent & ~known
        if new.any():
            self._note(words.filter(pl.Series(new)), notes)
        if absent.any() and not self.missing:
            notes.filled(self.name, int(absent.sum()), "no category")
        column = np.where(known, place, -1)
        if self.other:
            column[new] = len(levels)
        if self.missing:
            column[absent] = len(levels) + self.other
        if self.single:
            column = np.where(column == 1, 0, -1)
        filled = np.flatnonzero(column >= 0)
        return sparse.csr_matrix((np.ones(len(filled)), (filled, column[filled])), shape=(rows, len(self.features())))

    def _note(self, new: Any, notes: Notes) -> None:
        # Levels that were pooled in training are not told apart from new ones: both are "other".
        if not self.other:
            notes.unseen(self.name, len(new), str(new[0]), "none of the known categories")

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
    def learn(cls, name: str, series: Any, style: str, standardise: bool, target: Target | None = None) -> Date:
        moments = dates(series, style, name)
        days = Number.learn(f"{name} (time)", _days(moments), "plain", standardise, target)
        parts = {}
        for part in PARTS:
            levels = sorted(int(level) for level in _part(moments, part).drop_nulls().unique())
            if len(levels) > 1:
                parts[part] = levels
        return cls(name, style, days, parts)

    def features(self) -> list[str]:
        return self.days.features() + [f"{self.name} ({part} {level})" for part, levels in self.parts.items() for level in levels]

    def filled_by(self) -> float:
        """Non-zeros a row, at most."""
        return 1.0 + len(self.parts)

    def apply(self, series: Any, notes: Notes) -> np.ndarray:
        moments = dates(series, self.style, self.name)
        found = [self.days.apply(_days(moments), notes)]
        for part, levels in self.parts.items():
            value = _part(moments, part).fill_null(-1).to_numpy()
            found.append((value[:, None] == np.array(levels)[None, :]).astype(np.float64))
        return np.hstack(found)

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
    def learn(cls, name: str, series: Any) -> Text:
        entries = _words(series).fill_null("").to_list()
        vectoriser = _vectoriser(max_features=MOST_WORDS)
        try:
            vectoriser.fit(entries)
        except ValueError:  # nothing but stop words and signs
            return cls(name, (), ())
        return cls(name, tuple(vectoriser.get_feature_names_out().tolist()), tuple(float(value) for value in vectoriser.idf_))

    def features(self) -> list[str]:
        return [f"{self.name}: {word}" for word in self.words]

    def filled_by(self) -> float:
        """Non-zeros a row, at most."""
        return min(30.0, len(self.words))

    def apply(self, series: Any, notes: Notes) -> Any:
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

    def filled_by(self) -> float:
        """Non-zeros a row, at most."""
        return 0.0

    def apply(self, series: Any, notes: Notes) -> np.ndarray:
        return np.empty((len(series), 0))

    def says(self) -> str:
        return f"left out: {self.why}"


Rule = Number | Category | Date | Text | Left
RULES: dict[str, Any] = {rule.kind: rule for rule in (Number, Category, Date, Text, Left)}


def _vectoriser(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, strip_accents="unicode", **options)


def _words(series: Any) -> Any:
    """Return a cleaned column as words; a whole number is written without its fraction."""
    import polars as pl

    if series.dtype == pl.Float64:
        values = series.drop_nulls().to_numpy()
        if np.isfinite(values).all() and (np.abs(values) < 2**53).all() and np.array_equal(values, np.trunc(values)):
            series = series.cast(pl.Int64)
    return series.cast(pl.String)


def _days(moments: Any) -> Any:
    import polars as pl

    return moments.dt.epoch("us").cast(pl.Float64) / 86.4e9


def _part(moments: Any, part: str) -> Any:
    import polars as pl

    return getattr(moments.dt, part)().cast(pl.Int64)


# ----------------------------------------------------------------------------------------------------------------- the whole table


@dataclass(frozen=True)
class Preparation:
    """What becomes of each column of a table; `learn` makes one, `apply` uses it.

    Attributes
    ----------
    rules : one for each column of the training table, labels aside
    target : the name of the label column
    named : whether the training table had a header; without one, columns are called 0, 1, …
    width : columns of the training table, with the labels
    missing : words that stand for nothing, besides those that do anyway

    Examples
    --------
    >>> import polars as pl
    >>> from dualgap.data import Preparation
    >>> pets = pl.DataFrame({"weight": [4.0, 30.0, None], "colour": ["red", "black", "white"], "kind": ["cat", "dog", "dog"]})
    >>> preparation = Preparation.learn(pets, target="kind")
    >>> preparation.feature_names
    ['weight', 'weight is missing', 'colour = black', 'colour = red', 'colour = white']
    >>> preparation.apply(pets.select("colour", "weight")).shape
    (3, 5)
    """

    rules: tuple[Rule, ...]
    target: str
    named: bool = True
    width: int = 0
    missing: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        frame: Any,
        target: str,
        *,
        named: bool = True,
        drop: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
        standardise: bool = True,
        prepare: bool = True,
        labels: np.ndarray | None = None,
        missing: Sequence[str] = (),
        rows: np.ndarray | None = None,
    ) -> Preparation:
        """Decide what becomes of each column of a data frame of polars, pandas or pyarrow.

        Parameters
        ----------
        target : the label column, which gets no rule
        drop : columns to leave out
        kinds : columns whose kind is known: "number", "category", "text", "date" or "drop"
        standardise : whether numbers get mean 0 and deviation 1
        prepare : False takes numbers alone, and true and false for 1 and 0: other words and missing values are an error
        labels : the label of each row; a missing number then has a feature only if missing values and labels go together, by a
            chi-squared test at 5 % over all columns with missing values
        missing : words in lower case that stand for nothing, besides ?, NA, N/A, null, nan, none and the like
        rows : places of the rows to learn from, all of them by default; `labels` are theirs. What kind of values a column holds is decided
            by all rows, so that a part of a table is prepared as the whole is: row numbers, say, are left out
        """
        frame, stated = frame_of(frame), tuple(missing)
        kinds = dict(kinds or {}) | dict.fromkeys(drop, "drop")
        for name, kind in kinds.items():
            if name not in frame.columns or name == target:
                others = ", ".join(each for each in frame.columns if each != target)
                raise DataError(f"there is no column {name!r} to prepare as {kind!r}; the columns are {others}")
            one_of(f"kind of column {name!r}", kind, KINDS)
        columns = {name: clean(frame[name], {*MISSING, *stated}) for name in frame.columns if name != target}
        gaps = sum(_some(series, rows).null_count() > 0 for series in columns.values())
        known = None if labels is None else Target(labels, CHANCE / max(gaps, 1))  # Bonferroni: a test for each column with gaps
        rules = [
            _learn_column(name, series, frame[name].dtype.is_integer(), kinds.get(name), standardise, prepare, known, rows)
            for name, series in columns.items()
        ]
        for k, rule in enumerate(rules):
            values = values_of(frame[rule.name], stated) if isinstance(rule, Category) else None
            if values:
                words = clean(frame[rule.name], {*MISSING, *stated} - values)
                rules[k] = Category.learn(rule.name, _some(words, rows))
        made = cls(tuple(rules), target, named, frame.width, stated)
        if not made.feature_names:
            raise DataError("no column besides the labels has anything to learn from: " + _reasons(made.rules))
        return made

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature."""
        return [name for rule in self.rules for name in rule.features()]

    @property
    def origins(self) -> list[str]:
        """The column that each feature comes from."""
        return [rule.name for rule in self.rules for _ in rule.features()]

    @property
    def used(self) -> list[str]:
        """The columns that a new table must have."""
        return [rule.name for rule in self._used_rules()]

    @property
    def is_sparse(self) -> bool:
        """Whether prepared rows are stored by their non-zeros."""
        width = len(self.feature_names)
        return width >= SPARSE_FROM and sum(rule.filled_by() for rule in self.rules) < SPARSE_BELOW * width

    def apply(self, frame: Any, notes: Notes | None = None) -> Any:
        """Return the features of a table, an array or a CSR matrix; its columns may be in any order."""
        frame = frame_of(frame)
        self._require_columns(frame)
        notes = Notes() if notes is None else notes
        if self.is_sparse:
            blocks: list[Any] = [rule.apply(self._cleaned(frame, rule), notes) for rule in self._used_rules()]
            return sparse.csr_matrix(sparse.hstack(blocks, format="csr"))
        values, centre, scale = self.columns(frame, notes)
        X = np.ascontiguousarray(values.T)
        X -= centre
        X /= scale
        return X

    def columns(self, frame: Any, notes: Notes | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (values, centre, scale): feature j of the rows, as `apply` returns it, is (values[j] - centre[j]) / scale[j]."""
        self._require_columns(frame)
        notes = Notes() if notes is None else notes
        width = len(self.feature_names)
        values, centre, scale = np.empty((width, frame.height)), np.zeros(width), np.ones(width)
        first = 0
        for rule in self._used_rules():
            last = first + len(rule.features())
            if isinstance(rule, Number):
                rule.fill_columns(self._cleaned(frame, rule), values[first:last], notes)
                centre[first], scale[first] = rule.centre, rule.scale
            else:
                block = rule.apply(self._cleaned(frame, rule), notes)
                values[first:last] = (block if isinstance(block, np.ndarray) else block.toarray()).T
            first = last
        return values, centre, scale

    def _cleaned(self, frame: Any, rule: Rule) -> Any:
        """Return a column with nulls where it has nothing; a word that is a category stands for itself."""
        words = {*MISSING, *self.missing}
        if isinstance(rule, Number) and rule.style == "plain":
            return clean_numbers(frame[rule.name], words)
        return clean(frame[rule.name], words - {level.lower() for level in rule.levels} if isinstance(rule, Category) else words)

    def doubts(self) -> list[str]:
        """Return a sentence on each word such as none that is taken as a category, in whatever columns."""
        categories = [(rule.name, {level.lower() for level in rule.levels}) for rule in self.rules if isinstance(rule, Category)]
        found = {word: [repr(name) for name, levels in categories if word in levels] for word in DOUBTFUL}
        return [
            f"{word!r} is taken as a category of {', '.join(names[:SHOWN])}{', …' * (len(names) > SHOWN)}, as it stands in many rows; "
            f"if it stands for nothing, say --missing {word}"
            for word, names in found.items()
            if names
        ]

    def number_styles(self) -> dict[str, str]:
        """Return how the words of each column of numbers are written."""
        return {rule.name: rule.style or "plain" for rule in self.rules if isinstance(rule, Number)}

    def _used_rules(self) -> list[Rule]:
        return [rule for rule in self.rules if not isinstance(rule, Left)]

    def _require_columns(self, frame: Any) -> None:
        missing = [name for name in self.used if name not in frame.columns]
        if missing:
            shown = ", ".join(map(repr, missing[:SHOWN])) + (", …" if len(missing) > SHOWN else "")
            raise DataError(
                f"there is no column {shown}, which the model was trained on; "
                "add it (empty cells count as missing values), or train without it (--drop)"
            )

    def with_names(self, frame: Any, named: bool) -> Any:
        """Return a table with the names that the rules know, where a file without a header has other ones.

        Without a header columns are matched by their place; a table that lacks the label column has one column less.
        """
        if self.named:
            if not named and not set(self.used) <= set(frame.columns):
                raise DataError("it has no header, and the model knows its columns by name; add a line with the names")
            return frame
        if frame.width not in (self.width, self.width - 1):
            raise DataError(
                f"it has {frame.width} columns; the model was trained on {self.width}, labels included, without a header"
            )
        names = [str(j) for j in range(self.width) if frame.width == self.width or str(j) != self.target]
        return frame.rename(dict(zip(frame.columns, names, strict=True)))

    def leaves_numbers_alone(self) -> bool:
        """Return whether the features are the columns of the table as they are, labels aside."""
        return all(isinstance(rule, Number) and rule.centre == 0.0 and rule.scale == 1.0 and not rule.gaps for rule in self.rules)

    def table(self) -> list[tuple[str, str, int, str]]:
        """Return (column, kind, number of features, what is done) for each column."""
        return [(rule.name, rule.kind if rule.kind != "drop" else "–", len(rule.features()), rule.says()) for rule in self.rules]

    def to_dict(self) -> dict[str, Any]:
        """Return all that was learned as plain data: text, numbers, lists."""
        rules = [{"kind": rule.kind, **_plain(asdict(rule))} for rule in self.rules]
        return {"rules": rules, "target": self.target, "named": self.named, "width": self.width, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Preparation:
        """Return the preparation that `to_dict` wrote; anything else is an error."""
        try:
            rules = tuple(_rule_from(entry) for entry in content["rules"])
            words = tuple(str(word) for word in content["missing"])
            return cls(rules, str(content["target"]), bool(content["named"]), int(content["width"]), words)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the preparation of the columns is damaged ({type(error).__name__}: {error})") from None


def _some(series: Any, rows: np.ndarray | None) -> Any:
    return series if rows is None else series[rows]


def _learn_column(
    name: str,
    series: Any,
    whole: bool,
    kind: str | None,
    standardise: bool,
    prepare: bool,
    target: Target | None,
    rows: np.ndarray | None = None,
) -> Rule:
    """Return the rule of a cleaned column; `whole` says that its numbers were written as whole ones."""
    if kind == "drop":
        return Left(name, "as asked")
    if not prepare:
        if series.null_count():
            raise _gaps(name, series.is_null().to_numpy())
        style = "flag" if holds_flags(series) else "plain"
        if not standardise:
            numbers(series, style, name)
            return Number(name, style, None, 0.0, 1.0, False)
        return replace(Number.learn(name, _some(series, rows), style, standardise), fill=None)
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
    if found.kind == "number":
        return Number.learn(name, series, found.style or "plain", standardise, target)
    if found.kind == "date":
        return Date.learn(name, series, found.style, standardise, target)
    return Text.learn(name, series) if found.kind == "text" else Category.learn(name, series)


def _gaps(name: str, absent: np.ndarray) -> DataError:
    count, row = np.count_nonzero(absent), int(np.argmax(absent)) + 1
    what = f"{count} missing values, the first" if count > 1 else "a missing value"
    return DataError(f"column {name!r} has {what} in row {row}, and without preparation nothing fills it; leave --no-prepare out")


def _reasons(rules: Sequence[Rule]) -> str:
    return "; ".join(f"{rule.name!r} is {rule.says()}" for rule in rules[:SHOWN])


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
