"""Verdicts, and the statistics that every check shares.

A check is a function of the results and of a claim's options; `levels`, `speed`, `trends` and `facts` have them, `judge` applies them. One
principle decides all of them: a quantity is computed for each run, and a 95 % interval of its mean over the runs is compared with the range
that the claim asks for. Inside, the claim holds; outside, it does not; across the border, it cannot be told. One run has no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import Any

import numpy as np

from dualgap.lab.figures import ended, named
from dualgap.lab.results import Group, Results
from dualgap.lab.study import Claim
from dualgap.lab.tables import shown_number

__all__ = ["CALIBRATED", "CHECKS", "FAILS", "HOLDS", "NOT_JUDGED", "OPEN", "SIGNS", "Answer", "Untold", "Verdict", "check"]

HOLDS, FAILS, OPEN, CALIBRATED, NOT_JUDGED = "holds", "does not hold", "cannot be told", "calibrated", "not judged"
SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?", CALIBRATED: "=", NOT_JUDGED: "–"}
CONFIDENCE = 0.95

# what a claim may give as an option
Names = Sequence[str]
Limits = Mapping[str, float]
Settings = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, what was asked, the numbers, and why: a sentence, or a line for each data set."""

    claim: Claim
    verdict: str
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)
    asked: str = ""


class Untold(Exception):
    """The results cannot decide a claim; the message says what is missing."""


@dataclass
class Answer:
    """What a check found: True, False or None (cannot be told), a sentence, the numbers, and what was asked, with its threshold."""

    holds: bool | None
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)
    asked: str = ""


Check = Callable[..., Answer]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Make a check known by the function's name; its keyword arguments are the options that a claim may give."""
    CHECKS[function.__name__] = function
    return function


# ---------------------------------------------------------------------------------------------------------------- statistics


@dataclass(frozen=True)
class Spread:
    """The mean over runs of a quantity, and the interval that holds it with 95 % confidence; infinite for one run."""

    mean: float
    low: float
    high: float
    runs: int

    def within(self, low: float = -np.inf, high: float = np.inf, strict: bool = False) -> bool | None:
        """Return whether the mean lies in a range: True, False, or None where the interval reaches across its border.

        strict : the borders do not belong to the range, as in "smaller than"
        """
        if strict and self.low == self.high and self.low in (low, high):
            return False
        inside = self.low > low and self.high < high if strict else self.low >= low and self.high <= high
        if inside and self.runs > 1:
            return True
        return False if self.high < low or self.low > high else None

    def __str__(self) -> str:
        if self.runs < 2:
            return f"{shown_number(self.mean)} (one run)"
        return f"{shown_number(self.mean)} ({shown_number(self.low)} to {shown_number(self.high)})"


SHARES = ("accuracy", "error", "auc", "recall", "precision")


def in_words(found: Spread, column: str) -> str:
    """Return a spread as text; the interval of a share ends where shares do."""
    if any(word in column for word in SHARES) and found.runs > 1:
        found = Spread(found.mean, max(found.low, 0.0), min(found.high, 1.0), found.runs)
    return str(found)


def spread(values: Any) -> Spread:
    """Return the mean of one number a run, and its interval by Student's t."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return Spread(mean, -np.inf, np.inf, n)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Spread(mean, mean - half, mean + half, n)


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return whether all hold: False where any does not, else None where any cannot be told."""
    answers = list(answers)
    return False if False in answers else None if None in answers else True


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Return whether any holds: None where none does but some cannot be told."""
    answers = list(answers)
    return True if True in answers else None if None in answers else False


# ------------------------------------------------------------------------------------------------------------------- the runs


def pick(results: Results, race: str, data: str, solver: str, settings: Settings | None = None) -> Group:
    """Return the one group that is asked for; raise Untold where it has no run."""
    groups = results.select(race, data, [solver], dict(settings) if settings else None)
    if not groups:
        raise Untold(f"There is no finished run of {results.label(solver)} on {results.data_name(data)}")
    return groups[0]


def level(group: Group, column: str) -> np.ndarray:
    """Return how each run ended, finite numbers only; one number where a deterministic solver repeated one run on the same data."""
    values = ended(group, column)
    if not len(values) or not np.isfinite(values).all():
        raise Untold(f"{group.solver.label or group.solver.id} has no finite {named(column)} in every run")
    return once(group, values)


def once(group: Group, values: np.ndarray) -> np.ndarray:
    """Return the values, or the first alone where all runs of the group are the same run: repeating it says nothing of its spread."""
    traces = group.traces("primal")
    same = all(len(trace) == len(traces[0]) and np.array_equal(trace, traces[0], equal_nan=True) for trace in traces)
    return values[:1] if same else values


def differences(mine: Group, other: Group, column: str) -> np.ndarray:
    """Return mine − other run by run: runs of the same number share their draw of the data."""
    a, b = level(mine, column), level(other, column)
    if len(a) == 1 or len(b) == 1:
        shorter, longer = sorted((len(a), len(b)))
        if longer > 1:  # one of them is deterministic on data that are not redrawn
            return np.asarray(np.broadcast_to(a, longer) - np.broadcast_to(b, longer))
        return np.asarray(a[:shorter] - b[:shorter])
    runs = {row["run"]: place for place, row in enumerate(other.rows)}
    pairs = [(place, runs[row["run"]]) for place, row in enumerate(mine.rows) if row["run"] in runs]
    if not pairs:
        raise Untold(f"{mine.solver.label or mine.solver.id} and {other.solver.label or other.solver.id} have no run in common")
    return np.array([a[i] - b[j] for i, j in pairs])


def as_names(value: str | Iterable[str]) -> list[str]:
    """One name or several."""
    return [value] if isinstance(value, str) else list(value)


def together(answers: dict[str, Answer]) -> Answer:
    """One answer for several data sets: it holds where all hold, and does not where any does not."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    numbers = {f"{name}: {key}": value for name, answer in answers.items() for key, value in answer.numbers.items()}
    asked = "; ".join(dict.fromkeys(answer.asked for answer in answers.values() if answer.asked))
    why = "\n".join(f"{name}: {answer.why}" for name, answer in answers.items())
    return Answer(all_of(answer.holds for answer in answers.values()), why, numbers, asked)


def for_each_data_set(function: Check) -> Check:
    """Return a check of one data set as a check of several: its answers on them, taken together."""

    @wraps(function)
    def each(results: Results, *, data: str | Iterable[str], **options: Any) -> Answer:
        def one(name: str) -> Answer:
            try:
                return function(results, data=name, **options)
            except Untold as lacking:
                return Answer(None, f"{lacking}.")

        answers = {results.data_name(name): one(name) for name in as_names(data)}
        return together(answers)

    return each


def percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.3g} %" if np.isfinite(value) else "–"


def in_percent(found: Spread) -> str:
    """Return a spread of shares as percentages."""
    if found.runs < 2:
        return f"{percent(found.mean)} (one run)"
    return f"{percent(found.mean)} ({percent(found.low)} to {percent(found.high)})"


def unsure(answer: bool | None, found: Spread) -> str:
    """Return the words that end a sentence whose claim cannot be told."""
    if answer is not None:
        return ""
    return "; one run has no spread to judge by" if found.runs < 2 else "; the interval over runs reaches across that border"
