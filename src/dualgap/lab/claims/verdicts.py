"""Verdicts, and the statistics that every check shares.

A check is a function of the results and of a claim's options; `levels`, `speed`, `trends` and `facts` have them, `judge` applies them. One
principle decides all of them. A claim asks that some quantities, each computed once a run, lie in given ranges. The interval that holds
the mean of a quantity with 95 % confidence (Student's t over the runs) is compared with its range:

- the claim holds where every interval lies inside its range,
- it does not hold where one lies outside. Of m intervals one lies outside by chance m times as often, so this one has 1 − 0.05/m,
- else it cannot be told. One run has no interval.

So the chance of a wrong verdict is at most 5 % for a claim, however many quantities it asks for.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import numpy as np

from dualgap.core import suggest
from dualgap.lab.columns import ended, named, shown_number
from dualgap.lab.results import RESOLUTION, Group, Results
from dualgap.lab.schema import StudyError
from dualgap.lab.study import Claim

__all__ = [
    "CALIBRATED",
    "CHECKS",
    "FAILS",
    "HOLDS",
    "NOT_JUDGED",
    "OPEN",
    "SIGNS",
    "Answer",
    "Asked",
    "Spread",
    "Untold",
    "Verdict",
    "check",
    "judge",
    "judged",
    "judged_ways",
    "spread",
    "tally",
]


HOLDS, FAILS, OPEN, CALIBRATED, NOT_JUDGED = "holds", "does not hold", "cannot be told", "calibrated", "not judged"
SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?", CALIBRATED: "=", NOT_JUDGED: "–"}
WRONG = 0.05  # the chance of a wrong verdict on a claim whose quantities lie on the borders of their ranges

# what a claim may give as an option
Names = Sequence[str]
Settings = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})
# Thresholds for words of a text that have no number ("similar", "converged"). `judge` also tries half and twice of each.
Amount = Annotated[float, "amount"]
Amounts = Annotated[Mapping[str, float], "amount"]
Factor = Annotated[float, "factor"]  # of a cost: half and twice on a logarithmic scale


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, what was asked, the numbers, and why: a sentence, or a line for each data set.

    `readings` says how it comes out at half and at twice the thresholds that are not the text's.
    """

    claim: Claim
    verdict: str
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)
    asked: str = ""
    readings: str = ""


class Untold(Exception):
    """The results cannot decide a claim; the message says what is missing."""


# ---------------------------------------------------------------------------------------------------------------- statistics


@dataclass(frozen=True)
class Spread:
    """The mean over runs of a quantity, and its standard error. `below` and `above` widen its interval by what was not measured.

    slack : why it is widened, as the end of a sentence
    """

    mean: float
    error: float
    runs: int
    below: float = 0.0
    above: float = 0.0
    slack: str = ""

    def interval(self, wrong: float = WRONG) -> tuple[float, float]:
        """Return the interval that misses the mean with that probability; all numbers for one run."""
        if self.runs < 2:
            return -np.inf, np.inf
        half = quantile(1.0 - wrong / 2, self.runs - 1) * self.error
        return self.mean - half - self.below, self.mean + half + self.above

    def bare(self) -> Spread:
        """Return the spread over the runs alone."""
        return Spread(self.mean, self.error, self.runs)

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.interval()[1]

    def in_words(self, show: Callable[[float], str] = shown_number) -> str:
        """Return the mean and the interval as text."""
        return f"{show(self.mean)} ({between(self.low, self.high, show) if self.runs > 1 else 'one run'})"

    def __str__(self) -> str:
        return self.in_words()


def between(low: float, high: float, show: Callable[[float], str]) -> str:
    """Return an interval as text; one without an end says so."""
    if np.isfinite(low) and np.isfinite(high):
        return f"{show(low)} to {show(high)}"
    return f"at least {show(low)}" if np.isfinite(low) else f"at most {show(high)}" if np.isfinite(high) else "not known"


@lru_cache(maxsize=256)
def quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf(share, freedom))


def spread(values: Any) -> Spread:
    """Return the mean of one number a run, and its standard error."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    return Spread(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf, n)


SHARES = ("accuracy", "error", "auc", "recall", "precision")


def in_words(found: Spread, column: str) -> str:
    """Return a spread as text; the interval of a share ends where shares do."""
    if not any(word in column for word in SHARES) or found.runs < 2:
        return str(found)
    return f"{shown_number(found.mean)} ({between(max(found.low, 0.0), min(found.high, 1.0), shown_number)})"


def times(found: Spread) -> str:
    """Return a spread of logarithms as text: factors."""
    return found.in_words(lambda value: shown_number(float(np.exp(value))))


def percent(value: float) -> str:
    """Return a share as a percentage."""
    if 0.0 < abs(value) < RESOLUTION:
        return f"below {100 * RESOLUTION:g} %"
    return f"{100 * value:.3g} %" if abs(value) < 9.995 else f"{shown_number(float(round(100 * value)))} %"


def in_percent(found: Spread) -> str:
    """Return a spread of shares as percentages."""
    return found.in_words(percent)


# ----------------------------------------------------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Asked:
    """A quantity and the range that a claim asks its mean to lie in.

    strict : the borders do not belong to the range, as in "smaller than"; apart : the claim asks for a mean outside of the range;
    doubt : the quantity can contradict the claim and need not confirm it
    """

    found: Spread
    low: float = -np.inf
    high: float = np.inf
    strict: bool = False
    apart: bool = False
    doubt: bool = False

    def confirmed(self, wrong: float = WRONG) -> bool:
        """Return whether the interval, which misses the mean with that probability, lies where the claim asks."""
        return self.doubt or (self._outside(wrong) if self.apart else self._inside(wrong))

    def contradicted(self, wrong: float = WRONG) -> bool:
        """Return whether the interval lies where the claim does not ask."""
        return self._inside(wrong) if self.apart else self._outside(wrong)

    def told(self) -> bool | None:
        """Return whether this quantity alone confirms or contradicts the claim; None where neither."""
        return False if self.contradicted() else True if self.confirmed() else None

    def _inside(self, wrong: float) -> bool:
        low, high = self.found.interval(wrong)
        beyond = low >= self.low and high <= self.high and self.found.runs > 1
        return beyond and not (self.strict and (low == self.low or high == self.high < np.inf))

    def _outside(self, wrong: float) -> bool:
        low, high = self.found.interval(wrong)
        on_border = self.strict and low == high and low in (self.low, self.high)
        return on_border or high < self.low or low > self.high


Parts = Mapping[Any, Asked]


@dataclass
class Answer:
    """What a check found: True, False or None (cannot be told), a sentence, the numbers, and what was asked, with its threshold.

    ways : the quantities that decided it, by name, of each way in which the claim can hold; `judged` sets them
    """

    holds: bool | None
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)
    asked: str = ""
    ways: Sequence[Parts] = ()


def judged(parts: Parts, text: str, numbers: dict[str, Any], asked: str) -> Answer:
    """Return the answer to a claim that asks for all of some quantities; the sentence ends with why it cannot be told, where it cannot."""
    return judged_ways([parts], text, numbers, asked)


def judged_ways(ways: Sequence[Parts], text: str, numbers: dict[str, Any], asked: str) -> Answer:
    """Return the answer to a claim that holds in any of several ways, each of which asks for all of its quantities."""
    holds = decide(ways)
    return Answer(holds, f"{text}{_unsure(ways) if holds is None else ''}.", numbers, asked, ways)


def decide(ways: Sequence[Parts], among: int | None = None) -> bool | None:
    """Return whether a claim holds, does not, or cannot be told (None), by the principle of this module.

    among : how many quantities the claim asks for on all of its data sets; by default those given
    """
    among = among or sum(len(parts) for parts in ways)
    left = [parts for parts in ways if not any(part.contradicted(WRONG / among) for part in parts.values())]
    if not left:
        return False
    return True if any(all(part.confirmed(WRONG / len(ways)) for part in parts.values()) for parts in left) else None


def _unsure(ways: Sequence[Parts]) -> str:
    """Return the end of a sentence whose claim cannot be told."""
    parts = {name: part for way in ways for name, part in way.items()}
    if any(part.found.runs < 2 for part in parts.values()):
        return "; one run has no spread to judge by"
    if len(ways) == 1 and any(part.contradicted() for part in parts.values()):
        return f"; {BY_CHANCE.format(count=len(parts))}"
    doubtful = {name: part for name, part in parts.items() if not part.confirmed()}
    # Of those that the runs alone would decide, what was not measured keeps them open.
    slack = {name: part.found.slack for name, part in doubtful.items() if replace(part, found=part.found.bare()).told() is not None}
    names = list(slack or doubtful)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    of = f" for {'; '.join(map(str, names[:3]))}{more}" if len(parts) > 1 else ""
    return f"; {next(iter(slack.values()), ACROSS)}{of}"


ACROSS = "the interval over runs reaches across that border"
BY_CHANCE = "of {count} comparisons, one as clear as this comes by chance"


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return whether all hold: False where any does not, else None where any cannot be told."""
    answers = list(answers)
    return False if False in answers else None if None in answers else True


def together(answers: dict[str, Answer], some: bool = False) -> Answer:
    """One answer for several data sets: it holds where all hold, and does not where any does not; with `some`, where one holds."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    numbers = {f"{name}: {key}": value for name, answer in answers.items() for key, value in answer.numbers.items()}
    asked = "; ".join(dict.fromkeys(answer.asked for answer in answers.values() if answer.asked))
    lines = [f"{name}: {answer.why}" for name, answer in answers.items()]
    among = sum(len(parts) for answer in answers.values() for parts in answer.ways)
    if some:
        ways = [parts for answer in answers.values() for parts in answer.ways]
        holds = decide(ways) if ways else None
        if holds is False and not all(answer.ways for answer in answers.values()):
            holds = None  # it may hold where runs are missing
        return Answer(holds, "\n".join(lines), numbers, f"{asked}; on one of the data sets at least")
    holds = all_of(decide(answer.ways, among) if answer.ways else answer.holds for answer in answers.values())
    if holds is None and any(answer.holds is False for answer in answers.values()):
        lines.append(f"{BY_CHANCE.format(count=among).capitalize()}.")
    return Answer(holds, "\n".join(lines), numbers, asked)


Check = Callable[..., Answer]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Make a check known by the function's name; its keyword arguments are the options that a claim may give."""
    CHECKS[function.__name__] = function
    return function


def for_each_data_set(function: Check) -> Check:
    """Return a check of one data set as a check of several: its answers on them, taken together.

    `some` is an option of every such check: the claim then holds where it holds on one of the data sets.
    """

    @wraps(function)
    def each(results: Results, *, data: str | Iterable[str], some: bool = False, **options: Any) -> Answer:
        def one(name: str) -> Answer:
            try:
                return function(results, data=name, **options)
            except Untold as lacking:
                return Answer(None, f"{lacking}.")

        answers = {results.data_name(name): one(name) for name in as_names(data)}
        return together(answers, some)

    own = inspect.signature(function)
    some = inspect.Parameter("some", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    each.__signature__ = own.replace(parameters=[*own.parameters.values(), some])  # type: ignore[attr-defined]
    return each


# ------------------------------------------------------------------------------------------------------------------- the runs


def as_names(value: str | Iterable[str]) -> list[str]:
    """One name or several."""
    return [value] if isinstance(value, str) else list(value)


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


def judge(results: Results, claim: Claim) -> Verdict:
    """Return the verdict on a claim; where the results cannot decide it, the sentence says what is missing."""
    if not claim.check:
        return Verdict(claim, NOT_JUDGED, claim.note)
    function = _function(results, claim)
    answer = _answer(results, function, claim.options)
    verdict, why, readings = _name(answer.holds), answer.why, ""
    scaled = [thresholds(function, claim, by) for by in (0.5, 2.0)]
    if any(options != claim.options for options in scaled):
        others = [_name(_answer(results, function, options).holds) for options in scaled]
        readings = f"At half of the threshold: {others[0]}; at twice: {others[1]}"
        if {HOLDS, FAILS} <= {verdict, *others}:
            verdict = OPEN
            why = "\n".join([*why.splitlines(), DEPENDS])
    if verdict == HOLDS and claim.calibrated:
        verdict = CALIBRATED  # the data were made so
    return Verdict(claim, verdict, why, answer.numbers, answer.asked, readings)


DEPENDS = "It depends on the threshold, which the text does not give."


def _name(holds: bool | None) -> str:
    return OPEN if holds is None else HOLDS if holds else FAILS


def _answer(results: Results, function: Check, options: Mapping[str, Any]) -> Answer:
    try:
        return function(results, **options)
    except Untold as lacking:
        return Answer(None, f"{lacking}.")


def thresholds(function: Check, claim: Claim, by: float) -> dict[str, Any]:
    """Return a claim's options with each threshold that is the study's own multiplied, or for factors of a cost raised to that power."""
    hints = get_type_hints(function, include_extras=True)
    kinds = {name: word for name, hint in hints.items() for word in _words(hint)}
    scaled = dict(claim.options)
    for name, value in claim.options.items():
        if name in claim.given or name not in kinds:
            continue
        if isinstance(value, Mapping):
            scaled[name] = {key: inner * by for key, inner in value.items()}
        else:
            scaled[name] = value * by if kinds[name] == "amount" else value**by
    return _around(claim, scaled)


def _words(hint: Any) -> list[str]:
    """Return what an annotation says of a threshold, also where None is allowed."""
    inner = [word for part in getattr(hint, "__args__", ()) for word in getattr(part, "__metadata__", ())]
    return [word for word in (*getattr(hint, "__metadata__", ()), *inner) if word in ("amount", "factor")]


def _around(claim: Claim, scaled: dict[str, Any]) -> dict[str, Any]:
    """Return options in which a range of factors, [low, high] above 1, is scaled around its middle: "about three times"."""
    low, high = claim.options.get("low"), claim.options.get("high")
    if low is None or high is None or not low > 1.0 or "low" in claim.given:
        return scaled
    power = float(np.log(scaled["high"]) / np.log(high))
    middle, half = (low * high) ** 0.5, (high / low) ** 0.5
    return {**scaled, "low": middle / half**power, "high": middle * half**power}


def _function(results: Results, claim: Claim) -> Check:
    """Return the check of a claim; raise an error where there is none, or where it has no such option."""
    where = f"{results.study.name}: claim {claim.id!r}"
    if claim.check not in CHECKS:
        raise StudyError(f"{where}: there is no check {claim.check!r}; {suggest(claim.check, CHECKS)}")
    function = CHECKS[claim.check]
    known = list(inspect.signature(function).parameters)[1:]
    for option in (*claim.options, *claim.given):
        if option not in known:
            raise StudyError(f"{where}: the check {claim.check} has no option {option!r}; {suggest(option, known)}")
    try:
        inspect.signature(function).bind(results, **claim.options)
    except TypeError as error:
        raise StudyError(f"{where}: the check {claim.check}: {error}") from error
    return function


def tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return how many statements there are, how many were judged, and how many came out each way."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    total = sum(counts.values())
    return {"statements": total, "judged": total - counts[NOT_JUDGED], **{name: counts[name] for name in SIGNS}}
