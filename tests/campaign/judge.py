"""Judge: what a certificate claims against P and D in exact fractions, by the checker of proof files.

"converged" means that the relative gap is at most `tol`, or the gap at most the `atol` that was given: in the certificate, and exactly.

The rule for free intercepts: a certificate claims its bound for a β that differs from the one given in one row, which balances Σ cβy. The
checker takes the row that costs least by its own sums. Before a claim counts as false, all rows that can balance are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dualgap import Certificate, Problem
from dualgap.proof import BinaryPart, JointPart, Table, TargetPart, canonical_text, verify


def table_of(problem: Problem) -> Table:
    """Return the data of a problem of two classes or of a regression."""
    if problem.is_regression:
        return Table(problem.X, problem.targets[:, None], [])
    return Table(problem.X, (problem.y > 0).astype(int), problem.classes.tolist())


def part_of(problem: Problem, coef: Any, b: float, beta: np.ndarray) -> BinaryPart | TargetPart:
    """Return a model and a dual point as a proof file would have them."""
    return (TargetPart if problem.is_regression else BinaryPart)(problem, coef, b, beta, None)


@dataclass
class Judged:
    """What a kind of case has judged by itself: a name, and what is wrong, in words."""

    name: str
    wrong: list[str]


@dataclass
class Claimed:
    """A certificate with the model and the dual point that it is about; `part.gap` is not used."""

    certificate: Certificate
    part: BinaryPart | JointPart | TargetPart
    table: Table
    status: str = ""
    tol: float = 0.0
    atol: float = 0.0
    pair: bool = False  # whether the certificate is of this model and this dual point, so that its radius can be judged, too
    name: str = ""
    values: tuple[Fraction, Fraction] | None = field(default=None, init=False)  # exact P and D


def violations(claimed: Claimed | Judged) -> list[str]:
    """Return what is wrong with a claim, in words; an empty list if all of it is true. Sets `values`."""
    if isinstance(claimed, Judged):
        return claimed.wrong
    c = claimed.certificate
    found = false_words(c, claimed.status, claimed.tol, claimed.atol)
    if found or not math.isfinite(c.primal):
        return found  # nothing more is claimed
    if c.dual < 0.0 and not claimed.pair:
        found.append(f"a bound of {c.dual!r}, below the trivial one of 0")
    text = canonical_text(claimed.table)
    data, _ = verify.parse_data(text)
    primal, dual = claimed.values = verify.evaluate(claimed.part.claim(data), data)
    if not _holds(c, primal, dual):
        dual = max((values[1] for values in _by_other_rows(claimed, data)), default=dual)
        claimed.values = primal, dual
    found += _false(c, primal, dual)
    if claimed.status == "converged" and primal - dual > max(Fraction(claimed.tol) * primal, Fraction(claimed.atol)):
        found.append(f"converged, but the exact relative gap is {float((primal - dual) / primal):.3g}, tol {claimed.tol:g}")
    if claimed.pair and math.isfinite(c.gap) and _wide(claimed, primal - dual):
        found.append(f"radius: the exact gap {float(primal - dual)!r} is below gap − 2·radius, {c.gap!r} − 2·{c.radius!r}")
    return found


def false_words(c: Certificate, status: str, tol: float, atol: float) -> list[str]:
    """Return what is wrong with the numbers of a certificate alone."""
    if math.isnan(c.primal) or math.isnan(c.dual) or math.isnan(c.gap) or math.isnan(c.relative_gap) or math.isnan(c.radius):
        return [f"not a number: {c!r}"]
    if c.gap < 0 or c.radius < 0:
        return [f"negative: gap {c.gap!r}, radius {c.radius!r}"]
    if status == "converged" and not (c.relative_gap <= tol or c.gap <= atol):
        return [
            f"converged, but the certificate says relative gap {c.relative_gap:.3g}, gap {c.gap:.3g}; tol {tol:g}, atol {atol:g}"
        ]
    return []


def _holds(c: Certificate, primal: Fraction, dual: Fraction) -> bool:
    return not _false(c, primal, dual)


def _false(c: Certificate, primal: Fraction, dual: Fraction) -> list[str]:
    found = []
    if Fraction(c.primal) < primal:
        found.append(f"primal {c.primal!r} is below the exact one by {_share(primal - Fraction(c.primal), primal)}")
    if math.isfinite(c.dual) and Fraction(c.dual) > dual:
        found.append(f"dual {c.dual!r} is above the exact {float(dual)!r} by {_share(Fraction(c.dual) - dual, primal)}")
    if math.isfinite(c.gap) and Fraction(c.gap) < primal - dual:
        found.append(
            f"gap {c.gap!r} is below the exact {float(primal - dual)!r} by {_share(primal - dual - Fraction(c.gap), primal)}"
        )
    return found


def _share(value: Fraction, of: Fraction) -> str:
    return f"{float(value / of) if of else float(value):.2g} of P"


def _wide(claimed: Claimed, gap: Fraction) -> bool:
    """Whether the exact gap is below what the radius allows. Which row balances is not known, so free intercepts are left out."""
    c, problem = claimed.certificate, claimed.part.problem
    return problem.intercept != "free" and problem.l2 > 0 and gap < Fraction(c.gap) - 2 * Fraction(c.radius)


def _by_other_rows(claimed: Claimed, data: Any) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield exact values for every row that can balance a free intercept."""
    part = claimed.part
    if isinstance(part, JointPart) or part.problem.intercept != "free":
        return
    claim = part.claim(data)
    claim.beta = [exact_point(part)]
    for row in range(part.problem.n):
        claim.balance = [row]
        try:
            yield verify.evaluate(claim, data)
        except verify.Refused:
            continue


def exact_point(part: BinaryPart | TargetPart) -> dict[int, Fraction]:
    """Return β of a part as fractions, as it was given."""
    beta = np.clip(part.dual, part.problem.loss.lower_bound(), part.problem.loss.upper_bound())
    return {int(i): Fraction(float(beta[i])) for i in np.flatnonzero(beta)}
