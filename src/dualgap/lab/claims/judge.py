"""Claims: what a text says, judged from the results. A verdict is computed, with its numbers and one sentence why.

Words such as "similar" or "converged" have no number. The study takes one and prints it. The claim is also judged at half and at twice that
number; where these contradict each other, the verdict is that it cannot be told.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import numpy as np

from dualgap.core import suggest
from dualgap.lab.claims import facts, levels, speed, trends
from dualgap.lab.claims.verdicts import CALIBRATED, CHECKS, FAILS, HOLDS, NOT_JUDGED, OPEN, SIGNS, Answer, Check, Untold, Verdict
from dualgap.lab.results import Results
from dualgap.lab.schema import StudyError
from dualgap.lab.study import Claim

__all__ = ["SIGNS", "Verdict", "facts", "judge", "levels", "speed", "tally", "trends"]


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
