"""Verdicts: what a statement asks, how it is decided, and what is varied before it is.

A statement is a function of an `Ask` and of a claim's options (`statements` has them); `judge` applies it. One principle decides all of
them. A claim asks that some quantities, each measured once a run, lie in given ranges. The interval that holds the mean of a quantity with
95 % confidence (Student's t over the runs, and at least one row of the data on either side) is compared with its range:

- the claim holds where every interval lies inside its range,
- it does not hold where one lies outside. Of m intervals one lies outside by chance m times as often, so this one has 1 − 0.05/m,
- else it cannot be told. One run has no interval, and a tie decides nothing.

So the chance of a wrong verdict is at most 5 % for a claim, however many quantities it asks for.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import numpy as np

from dualgap.core import suggest
from dualgap.lab.claims.measures import WRONG, Quantity, Spread, Untold
from dualgap.lab.columns import named, plain
from dualgap.lab.results import Group, Results
from dualgap.lab.schema import StudyError
from dualgap.lab.study import Claim

__all__ = [
    "CALIBRATED",
    "CHECKS",
    "FAILS",
    "HOLDS",
    "MARKS",
    "MEANING",
    "NOT_JUDGED",
    "OPEN",
    "SIGNS",
    "Answer",
    "Ask",
    "Asked",
    "Verdict",
    "in_words",
    "judge",
    "statement",
    "statement_of_all",
    "tally",
]


HOLDS, FAILS, OPEN, CALIBRATED, NOT_JUDGED = "holds", "does not hold", "cannot be told", "calibrated", "not judged"
SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?", CALIBRATED: "=", NOT_JUDGED: "–"}
MARKS = {HOLDS: "holds", FAILS: "fails", OPEN: "open", CALIBRATED: "calibrated", NOT_JUDGED: "unjudged"}
MEANING = {
    HOLDS: "the numbers of this study bear it out",
    FAILS: "the numbers of this study contradict it",
    OPEN: "the interval over runs reaches across the border, runs are missing, or it depends on a threshold that the text does not give",
    CALIBRATED: "the data were generated so that it comes out; that proves nothing",
    NOT_JUDGED: "no number can decide it; the row says why",
}

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


# ----------------------------------------------------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Asked:
    """A quantity and the range that a claim asks its mean to lie in.

    strict : the borders do not belong to the range, as in "smaller than"; apart : the claim asks for a mean outside of the range;
    doubt : the quantity can contradict the claim and need not confirm it; says : what was found, as part of a sentence
    """

    found: Spread
    low: float = -np.inf
    high: float = np.inf
    strict: bool = False
    apart: bool = False
    doubt: bool = False
    says: str = ""

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
        return high < self.low or low > self.high

    def room(self) -> float:
        """Return how far the mean is inside the range, in widths of its interval: the smaller, the nearer to deciding otherwise."""
        inside = min(self.found.mean - self.low, self.high - self.found.mean) * (-1.0 if self.apart else 1.0)
        return inside / max(self.found.high - self.found.low, 1e-300) if np.isfinite(inside) else np.inf


Parts = Mapping[Any, Asked]


@dataclass
class Answer:
    """What was found: True, False or None (cannot be told), a sentence, the numbers, and what was asked, with its threshold.

    ways : the quantities that decided it, by name, of each way in which the claim can hold
    """

    holds: bool | None
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)
    asked: str = ""
    ways: Sequence[Parts] = ()


class Ask:
    """A statement about some data, as it is asked: it picks runs, measures them, and keeps the numbers and what is asked of them.

    Order of calls: `each` and `pair` for what has to lie in a range, with `another_way` between two ways in which the claim can hold;
    at last `answer`. Sets: `ways` and `numbers`.
    """

    def __init__(self, results: Results, race: str, data: str, settings: Settings = NOTHING) -> None:
        self.results, self.race, self.data, self.settings = results, race, data, dict(settings)
        self.ways: list[dict[tuple[str, ...], Asked]] = [{}]
        self.numbers: dict[str, Any] = {}
        self.x = ""  # a name of the grid, where groups differ in it
        self.several = False  # whether groups are of several data sets
        self.what = ""  # the quantity measured last

    def group(self, solver: str, data: str = "") -> Group:
        """Return the one group that is asked for; raise Untold where it has no run."""
        groups = self.results.select(self.race, data or self.data, [solver], self.settings or None)
        if not groups:
            raise Untold(f"There is no finished run of {self.results.label(solver)} on {self.results.data_name(data or self.data)}")
        return groups[0]

    def along(self, solver: str, x: str) -> list[tuple[float, Group]]:
        """Return the groups of a solver from the smallest value of a name of the grid to the largest."""
        self.x = x
        groups = [(g.setting(x), g) for g in self.results.select(self.race, self.data, [solver])]
        points = sorted(((float(value), g) for value, g in groups if value is not None), key=lambda point: point[0])
        if len(points) < 2:
            data = self.results.data_name(self.data)
            raise Untold(f"{self.results.label(solver)} has fewer than two values of {x} on {data}")
        return points

    def name(self, group: Group) -> str:
        """Return what the sentence calls a group: its solver, and in what the groups asked about differ beside that."""
        more = [self.results.data_name(group.data)] if self.several else []
        more += [f"{named(self.x)} = {plain(group.setting(self.x))}"] if self.x else []
        return self.results.label(group.solver) + (f" ({', '.join(more)})" if more else "")

    def measured(self, quantity: Quantity, group: Group) -> Spread:
        """Return the mean of a quantity over the runs of a group, and show it among the numbers."""
        found, self.what = quantity.of(group).spread(), quantity.name
        self.numbers[f"{self.name(group)}, {quantity.name}"] = found.in_words(quantity.show, quantity.within)
        return found

    def another_way(self) -> None:
        """Start another way in which the claim can hold."""
        self.ways.append({})

    def each(
        self, quantity: Quantity, groups: Iterable[str | Group], low: float = -np.inf, high: float = np.inf, **how: bool
    ) -> None:
        """Ask that a quantity lies in a range, for each solver; `how` as of `Asked`."""
        for one in groups:
            group = self.group(one) if isinstance(one, str) else one
            found = self.measured(quantity, group)
            says = f"{self.name(group)} {quantity.show(found.mean)}"
            self.ways[-1][self.name(group), quantity.name] = Asked(found, low, high, says=says, **how)

    def pair(
        self, quantity: Quantity, one: str | Group, other: str | Group, low: float = -np.inf, high: float = np.inf, **how: bool
    ) -> None:
        """Ask that one solver's quantity less the other's lies in a range; of logarithms, that a factor does."""
        a, b = (self.group(each) if isinstance(each, str) else each for each in (one, other))
        measured = self.measured(quantity, a), self.measured(quantity, b)
        found = (quantity.of(a) - quantity.of(b)).spread()
        if quantity.factor:
            self.numbers[f"{self.name(a)} over {self.name(b)}, times"] = found.in_words(quantity.show)
            ends = np.isfinite(found.below), np.isfinite(found.above)
            bound = "" if ends[0] == ends[1] else "at least " if ends[0] else "at most "
            says = f"{self.name(a)} {bound}{quantity.show(found.mean)} times as much as {self.name(b)}"
        else:
            self.numbers[f"{self.name(a)} − {self.name(b)}, {quantity.name}"] = found.in_words(quantity.show)
            says = " against ".join(f"{self.name(g)} {quantity.show(m.mean)}" for g, m in zip((a, b), measured, strict=True))
        self.ways[-1][self.name(a), self.name(b), quantity.name] = Asked(found, low, high, says=says, **how)

    def answer(self, asked: str, lead: str = "") -> Answer:
        """Return what was found: True, False, or None with the reason at the end of the sentence."""
        ways = [way for way in self.ways if way]
        holds = decide(ways)
        every = {name: part for way in ways for name, part in way.items() if not part.doubt or part.contradicted()}
        telling = [part for part in every.values() if part.told() is holds] if len(ways) == 1 else list(every.values())
        telling = sorted(telling or every.values(), key=Asked.room) if len(telling) > MOST_SHOWN else telling
        said = "; ".join(dict.fromkeys(part.says for part in telling[:MOST_SHOWN]))
        more = f"; and {len(telling) - MOST_SHOWN} more" if len(telling) > MOST_SHOWN else ""
        text = f"{lead or f'{self.what[0].upper()}{self.what[1:]}: '}{said}{more}"
        return Answer(holds, f"{text}{_unsure(ways) if holds is None else ''}.", self.numbers, asked, ways)


MOST_SHOWN = 4  # quantities in a sentence; those nearest to the border come first


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
    # Of those that the runs alone would decide, what was not measured keeps them open.
    doubtful = [part for part in parts.values() if not part.confirmed()]
    slack = [part.found.slack for part in doubtful if replace(part, found=part.found.bare()).told() is not None]
    return f"; {next(filter(None, slack), ACROSS)}"


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


def statement_of_all(function: Check) -> Check:
    """Make a kind of statement known by the function's name: of the results, and of the options that a claim may give."""
    CHECKS[function.__name__] = function
    return function


def statement(function: Check) -> Check:
    """Make a kind of statement about one data set known, a function of an `Ask` and of the claim's other options.

    On several data sets it is asked of each. With the option `some` the claim holds where it holds on one of them.
    """

    @wraps(function)
    def each(
        results: Results, *, race: str, data: str | Iterable[str], settings: Settings = NOTHING, some: bool = False, **options: Any
    ) -> Answer:
        def one(name: str) -> Answer:
            try:
                return function(Ask(results, race, name, settings), **options)
            except Untold as lacking:
                return Answer(None, f"{lacking}.")

        return together({results.data_name(name): one(name) for name in as_names(data)}, some)

    common = [p for p in inspect.signature(each, follow_wrapped=False).parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = [p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(function).parameters.values()][1:]
    each.__signature__ = inspect.Signature([*common, *own])  # type: ignore[attr-defined]
    return statement_of_all(each)


def as_names(value: str | Iterable[str]) -> list[str]:
    """One name or several."""
    return [value] if isinstance(value, str) else list(value)


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


def in_words(verdicts: list[Verdict]) -> str:
    """Return how many statements came out each way, as a sentence."""
    found = tally(verdicts)
    if not found["statements"]:
        return ""
    words = {
        HOLDS: "hold",
        FAILS: "do not hold",
        OPEN: "cannot be told",
        CALIBRATED: "hold by calibration",
        NOT_JUDGED: "not judged",
    }
    if found[HOLDS] == 1:
        words[HOLDS] = "holds"
    if found[FAILS] == 1:
        words[FAILS] = "does not hold"
    parts = [f"{found[name]} {words[name]}" for name in SIGNS if found[name] and name != NOT_JUDGED]
    rest = f" {found[NOT_JUDGED]} more {'is' if found[NOT_JUDGED] == 1 else 'are'} not judged." if found[NOT_JUDGED] else ""
    return f"Of {found['judged']} statements judged: {', '.join(parts)}.{rest}"
