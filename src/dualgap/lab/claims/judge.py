"""Claims: what a text says, judged from the results. A verdict is computed, with its numbers and one sentence why."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable

from dualgap.lab.claims import facts, levels, speed, trends
from dualgap.lab.claims.verdicts import CALIBRATED, CHECKS, FAILS, HOLDS, NOT_JUDGED, OPEN, SIGNS, Untold, Verdict
from dualgap.lab.results import Results
from dualgap.lab.schema import StudyError, suggest
from dualgap.lab.study import Claim

__all__ = ["SIGNS", "Verdict", "facts", "judge", "levels", "speed", "tally", "trends"]


def judge(results: Results, claim: Claim) -> Verdict:
    """Return the verdict on a claim; where the results cannot decide it, the sentence says what is missing."""
    if not claim.check:
        return Verdict(claim, NOT_JUDGED, claim.note)
    where = f"{results.study.name}: claim {claim.id!r}"
    if claim.check not in CHECKS:
        raise StudyError(f"{where}: there is no check {claim.check!r}; {suggest(claim.check, CHECKS)}")
    function = CHECKS[claim.check]
    known = list(inspect.signature(function).parameters)[1:]
    for option in claim.options:
        if option not in known:
            raise StudyError(f"{where}: the check {claim.check} has no option {option!r}; {suggest(option, known)}")
    try:
        inspect.signature(function).bind(results, **claim.options)
    except TypeError as error:
        raise StudyError(f"{where}: the check {claim.check}: {error}") from error
    try:
        answer = function(results, **claim.options)
    except Untold as lacking:
        return Verdict(claim, OPEN, f"{lacking}.", {})
    verdict = OPEN if answer.holds is None else HOLDS if answer.holds else FAILS
    if verdict == HOLDS and claim.calibrated:
        verdict = CALIBRATED  # the data were made so
    return Verdict(claim, verdict, answer.why, answer.numbers, answer.asked)


def tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return how many statements there are, how many were judged, and how many came out each way."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    total = sum(counts.values())
    return {"statements": total, "judged": total - counts[NOT_JUDGED], **{name: counts[name] for name in SIGNS}}
