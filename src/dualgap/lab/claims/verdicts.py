"""Verdicts: holds, does not hold, cannot be told; and the statistics that checks share.

A check is a function of the results and of a claim's options; `checks` and `trends` have them, `judge` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

from dualgap.lab.figures import ended
from dualgap.lab.results import Group, Results
from dualgap.lab.study import Claim

__all__ = ["CHECKS", "FAILS", "HOLDS", "OPEN", "SIGNS", "Answer", "Untold", "Verdict", "check", "clearly_less"]

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?"}


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, the numbers that say so, and why: a sentence, or a line for each data set."""

    claim: Claim
    verdict: str
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)


class Untold(Exception):
    """The results cannot decide a claim; the message says what is missing."""


@dataclass
class Answer:
    """What a check found: True, False or None (cannot be told), a sentence, and the numbers."""

    holds: bool | None
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)


Check = Callable[..., Answer]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Make a check known by the function's name; its keyword arguments are the options that a claim may give."""
    CHECKS[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------------------------------- helpers


def pick(results: Results, race: str, data: str, solver: str, settings: dict[str, Any] | None = None) -> Group:
    """Return the one group that is asked for; raise Untold where it has no run."""
    groups = results.select(race, data, [solver], settings)
    if not groups:
        raise Untold(f"There is no finished run of {results.label(solver)} on {results.data_name(data)}")
    return groups[0]


def as_names(value: str | Iterable[str]) -> list[str]:
    """One name or several."""
    return [value] if isinstance(value, str) else list(value)


def level(group: Group, column: str) -> np.ndarray:
    """Return how each run ended, finite numbers only."""
    values = ended(group, column)
    if not len(values) or not np.isfinite(values).all():
        raise Untold(f"{group.solver.label or group.solver.id} has no finite {column.replace('_', ' ')}")
    return values


def clearly_less(a: np.ndarray, b: np.ndarray) -> bool | None:
    """Return whether a's mean is below b's by more than the spread over runs explains; None where it is too close to tell."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if np.isinf(a).any() or np.isinf(b).any():  # infinity: the level was not reached
        return bool(np.median(a) < np.median(b))
    error = 2.0 * float(np.sqrt(a.var() / max(len(a) - 1, 1) + b.var() / max(len(b) - 1, 1)))
    difference = float(b.mean() - a.mean())
    if abs(difference) <= error and difference != 0.0:
        return None
    return difference > 0.0


def together(answers: dict[str, Answer]) -> Answer:
    """One answer for several data sets: it holds where all hold, and does not where any does not."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    states = [answer.holds for answer in answers.values()]
    holds = None if None in states and False not in states else all(state is True for state in states)
    numbers = {f"{name}: {key}": value for name, answer in answers.items() for key, value in answer.numbers.items()}
    return Answer(holds, "\n".join(f"{name}: {answer.why}" for name, answer in answers.items()), numbers)


def for_each_data_set(function: Check) -> Check:
    """Return a check of one data set as a check of several: its answers on them, taken together."""

    @wraps(function)
    def each(results: Results, *, data: str | Iterable[str], **options: Any) -> Answer:
        return together({results.data_name(name): function(results, data=name, **options) for name in as_names(data)})

    return each


def percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.3g} %"
