"""Claims: what a text says, judged from the results. A verdict is computed, with its numbers and one sentence why.

A check is a function of the results and of the claim's options; the general ones are here, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dualgap.lab.fields import StudyError, suggest
from dualgap.lab.results import Results
from dualgap.lab.study import Claim

__all__ = ["CHECKS", "SIGNS", "Verdict", "check", "judge"]

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?"}


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, the numbers that say so, and why."""

    claim: Claim
    verdict: str
    why: str
    numbers: dict[str, Any] = field(default_factory=dict)


class Untold(Exception):
    """The results cannot tell: what they lack is the message."""


Answer = tuple[bool | None, str, dict[str, Any]]
Check = Callable[..., Answer]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Make a check known by the function's name; its keyword arguments are the options that a claim may give."""
    CHECKS[function.__name__] = function
    return function


def judge(results: Results, claim: Claim) -> Verdict:
    """The verdict on a claim; what cannot be computed cannot be told, and the sentence says what is lacking."""
    if claim.check not in CHECKS:
        raise StudyError(
            f"{results.study.name}: claim {claim.id!r}: there is no check {claim.check!r}; {suggest(claim.check, CHECKS)}"
        )
    try:
        answer, why, numbers = CHECKS[claim.check](results, **claim.options)
    except Untold as lacking:
        return Verdict(claim, OPEN, f"{lacking}.", {})
    except TypeError as error:
        raise StudyError(f"{results.study.name}: claim {claim.id!r}: {error}") from error
    return Verdict(claim, OPEN if answer is None else HOLDS if answer else FAILS, why, numbers)
