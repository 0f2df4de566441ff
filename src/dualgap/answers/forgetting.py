"""Forget rows of a fitted linear model, with a receipt: what is proven of the model on the rows that stay, or a retrained one.

The model (w, b) is kept. What changes is what is proven of it, in time proportional to the rows forgotten and their features, and d:

    P on the rows that stay      P(w, b) minus the forgotten rows' losses
    dual point β'                the forgotten rows' β dropped: u' = u − Σ cβyx over them. With a free intercept what is left of Σ cβy is
                                 taken from a `Reservoir` of rows that stay
    gap                          the gap over the rows minus that of the forgotten ones, plus the reservoir's cost, plus
                                 R(w) + R*(u') − u'·w, of which only u' is new
    distance                     w* of the rows that stay is within √(gap/l2 − ‖w − w(β')‖²/4) of (w + w(β'))/2
    b*                           inequality (2) of changed.py with q = 0

A preparation, one pass over the data, is made once a fit. Calls add up: all of it is about all rows forgotten since the fit.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dualgap.answers.changed import UP, Evidence, Reservoir, Step, evidence_of, largest_excess, without_rows
from dualgap.core import ROUNDOFF, Bounded, accumulate, exact_sum, gamma, kernel, length_bound, some
from dualgap.problem import Problem
from dualgap.proof import (
    UNKNOWN,
    Certificate,
    Enclosed,
    RowSums,
    assemble,
    balance,
    bias_terms,
    certificate_of_pair,
    margins_of,
    penalty_excess,
    penalty_value,
    row_sums,
)
from dualgap.run import Trained, minimise

__all__ = ["Forgettable", "Receipt", "row_numbers"]

LEVELS = (1e-3, 1e-2, 1e-1)  # masses of reservoirs, as shares of Σ cβ over one class
RETRAIN_EPOCHS = 1000  # of a retraining, at most


@dataclass(frozen=True)
class Receipt:
    """What is proven of a model after rows were forgotten: of this model, on the rows that stay, at the C of the fit.

    Attributes
    ----------
    rows : array of row numbers
        The rows that this call forgot, as numbered in the data of the fit.
    forgotten, remaining : int
        How many rows are forgotten since the fit, and how many stay.
    certificate : Certificate
        Of the model on the rows that stay.
    distance : float
        The exact model of the rows that stay, as training to the end without the forgotten rows would find it, has coefficients w* with
        ‖w − w*‖ ≤ distance. With a penalised intercept, b/intercept_scaling is one of the coordinates.
    intercept : (low, high)
        An interval that contains its intercept.
    length : float
        ‖w‖ of the model, beside which `distance` can be read.
    retrained : bool
        Whether the model was trained again. If not, coefficients and intercept are those from before.
    seconds : float
        What the call took, for all classes. `preparation_seconds` is not in it: the first call after a fit evaluates all rows once.

    Examples
    --------
    >>> from dualgap import LinearSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(loss="hinge", C=0.01, random_state=0).fit(scale(X), y)
    >>> receipt = model.proof_.forget([3, 141])
    >>> receipt.retrained, receipt.remaining, receipt.certificate.relative_gap <= 0.01
    (False, 567, True)
    """

    rows: np.ndarray
    forgotten: int
    remaining: int
    certificate: Certificate
    distance: float
    intercept: tuple[float, float]
    length: float
    retrained: bool
    seconds: float
    preparation_seconds: float = 0.0
    label: str = ""

    @property
    def relative_distance(self) -> float:
        """distance / ‖w‖"""
        return self.distance / self.length if self.length > 0.0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain numbers, lists and words, for JSON and the like."""
        c = self.certificate
        return {
            "label": self.label,
            "rows": self.rows.tolist(),
            "forgotten": self.forgotten,
            "remaining": self.remaining,
            "retrained": self.retrained,
            "primal": c.primal,
            "dual": c.dual,
            "gap": c.gap,
            "relative_gap": c.relative_gap,
            "distance": self.distance,
            "length": self.length,
            "intercept": list(self.intercept),
            "seconds": self.seconds,
            "preparation_seconds": self.preparation_seconds,
        }

    def __str__(self) -> str:
        name = f"{self.label}: " if self.label else ""
        kept = "trained again on them" if self.retrained else "kept as it was"
        took = f"{self.seconds:.3g} s" + (
            f", after {self.preparation_seconds:.3g} s of preparation" if self.preparation_seconds else ""
        )
        count = f"{len(self.rows)} rows forgotten ({self.forgotten} since the fit); {self.remaining} rows stay"
        return "\n".join(
            [
                f"{name}{count}; the model was {kept}.",
                f"  On the rows that stay: {self.certificate}",
                f"  Retraining to the end moves the coefficients by at most {self.distance:.3g} (their length is {self.length:.3g}),",
                f"  and puts the intercept between {self.intercept[0]:.6g} and {self.intercept[1]:.6g}.",
                f"  {took}",
            ]
        )


def row_numbers(rows: Any, n: int, gone: np.ndarray) -> np.ndarray:
    """Return the numbers of rows to forget, given as numbers or as a mask; check them."""
    found = np.asarray(rows)
    if found.ndim != 1:
        raise ValueError(f"rows must be one list of row numbers, or a mask with an entry for each row; it has shape {found.shape}")
    if found.dtype == bool:
        if len(found) != n:
            raise ValueError(f"rows is a mask with {len(found)} entries; the model was trained on {n} rows")
        found = np.flatnonzero(found)
    elif found.size == 0:
        found = np.zeros(0, dtype=np.intp)
    elif not np.issubdtype(found.dtype, np.integer):
        raise TypeError(f"rows has entries of type {found.dtype}; give row numbers as integers, or a mask of booleans")
    outside = (found < 0) | (found >= n)
    if outside.any():
        raise IndexError(
            f"rows has {found[outside][0]}, which is not a row of the training data; they are numbered from 0 to {n - 1}"
        )
    found = found.astype(np.intp)
    ordered = np.sort(found)
    if (ordered[1:] == ordered[:-1]).any():
        raise ValueError(f"rows has {ordered[1:][ordered[1:] == ordered[:-1]][0]} twice; give each row once")
    if gone[found].any():
        raise ValueError(f"row {found[gone[found]][0]} is forgotten already; rows keep the numbers that they had in the fit")
    return found


class Forgettable:
    """A fitted linear problem whose rows can be forgotten. Its result is about the rows that stay; row numbers are those of the fit."""

    def __init__(self, result: Trained) -> None:
        self.whole = result.problem
        self.result = result
        self.gone = np.zeros(self.whole.n, dtype=bool)
        self.left = _of_each_class(self.whole, np.arange(self.whole.n))  # rows that stay and have a weight, by class
        self._remaining: Remaining | None = None

    def checked(self, rows: Any) -> np.ndarray:
        """Return the numbers of rows to forget; both classes must have rows left."""
        found = row_numbers(rows, self.whole.n, self.gone)
        left = self.left - _of_each_class(self.whole, found)
        if not left.all():
            label = self.whole.classes.tolist()[int(np.argmin(left))]
            raise ValueError(f"rows has all that is left of class {label!r}; two classes must stay")
        return found

    def forget(self, rows: np.ndarray, max_relative_gap: float, tol: float, label: str = "") -> tuple[Forgettable, Receipt]:
        """Return the same without some rows, and the receipt; what was there stays as it is."""
        prepared = 0.0
        if self._remaining is None:
            began = time.perf_counter()
            self._remaining = self._prepare(self.result)
            prepared = time.perf_counter() - began
        began = time.perf_counter()
        after = object.__new__(Forgettable)
        after.whole, after.gone = self.whole, self.gone.copy()
        after.gone[rows] = True
        after.left = self.left - _of_each_class(self.whole, rows)
        after._remaining = self._remaining.without(rows)
        proof = after._remaining.prove()
        retrained = bool(proof.certificate.relative_gap > max_relative_gap)
        problem = without_rows(self.whole, np.flatnonzero(after.gone))
        if retrained:
            start = (self.result.coef, self.result.intercept, after._remaining.dual())
            after.result = minimise(problem, "auto", min(tol, max_relative_gap), RETRAIN_EPOCHS, warm_start=start)
            after._remaining = after._prepare(after.result)
            proof = after._remaining.prove()
        else:
            after.result = Trained(
                problem=problem,
                solver=self.result.solver,
                coef=self.result.coef,
                intercept=self.result.intercept,
                dual=after._remaining.dual(),
                certificate=proof.certificate,
                status=self.result.status,
            )
        length = float(np.linalg.norm(after.result.coef))
        figures = proof.certificate, proof.distance, proof.intercept, length, retrained, time.perf_counter() - began, prepared
        gone = int(np.count_nonzero(after.gone))
        return after, Receipt(rows, gone, len(after.gone) - gone, *figures, label)

    def _prepare(self, result: Trained) -> Remaining:
        return remaining_of(result.problem, result.coef, float(result.intercept), result.dual)


def _of_each_class(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return how many of the rows have a weight, for the negative and the positive class."""
    return np.bincount((problem.y[rows] > 0.0).astype(np.intp), weights=problem.c[rows] > 0.0, minlength=2)


# --------------------------------------------------------------------------------------------------------------------- proofs


class RemainingProof(NamedTuple):
    """What is proven of the kept model on the rows that stay.

    `distance` bounds ‖w − w*‖ (with a penalised intercept, b/intercept_scale is one of the coordinates), and `intercept` contains b*.
    """

    certificate: Certificate
    distance: float
    intercept: tuple[float, float]


class Dropped(NamedTuple):
    """D = Σ cβyx over the rows forgotten, Σ cβ‖x‖, and how many they are."""

    vector: np.ndarray
    mass: float
    rows: int

    @property
    def error(self) -> float:
        return gamma(self.rows + 32) * self.mass


@dataclass(frozen=True)
class Remaining:
    """A model and a dual point, evaluated once, without the rows that were forgotten since."""

    evidence: Evidence
    sums: RowSums  # over the rows that stay
    base: float  # A of (2)
    rest: Bounded  # Σ cβy over the rows that stay
    reservoirs: tuple[Reservoir, ...]
    gone: np.ndarray  # which rows are forgotten
    dropped: Dropped

    def without(self, rows: np.ndarray) -> Remaining:
        """Return the same with more rows forgotten; they must not be forgotten yet."""
        evidence, problem = self.evidence, self.evidence.problem
        rows = np.sort(rows)  # neighbours in memory are read one after the other
        c, y = problem.c[rows], problem.y[rows]
        own, vector, gone, most = c * evidence.point.beta[rows], self.dropped.vector.copy(), self.gone.copy(), np.empty(len(rows))
        accumulate(some(problem.rows, rows), own * y, vector)
        gone[rows] = True
        _largest_losses(problem.loss, y * evidence.scores[rows], evidence.off[rows], c, most)
        least, gap = (exact_sum(each[rows].tolist()) * (1.0 - 1e-12) for each in (evidence.losses, evidence.gaps))
        largest = exact_sum(most.tolist()) * UP
        losses = Bounded(0.5 * (least + largest), 0.5 * (largest - least) * UP)
        taken = Bounded(exact_sum((own * y).tolist()), 8.0 * ROUNDOFF * float(own.sum()))
        left = (each.without(problem, rows) for each in self.reservoirs)
        return replace(
            self,
            sums=RowSums(self.sums.loss - losses, (self.sums.gap - gap).nonnegative()),
            base=max(self.base - gap, 0.0) * UP,
            rest=self.rest - taken if problem.intercept != "none" else self.rest,
            reservoirs=tuple(each for each in left if each is not None),
            gone=gone,
            dropped=Dropped(vector, self.dropped.mass + float(own @ problem.norms[rows]), self.dropped.rows + len(rows)),
        )

    def prove(self) -> RemainingProof:
        """Return the certificate of the kept model on the rows that stay, and where the exact model is."""
        l2, best, gap = self.evidence.problem.l2, self._best, self._best.found.gap_bound
        certificate = certificate_of_pair(best.found, "solver")
        squared = max(gap / l2 * UP - 0.25 * best.least_apart**2, 0.0)
        radius = math.sqrt(squared) * UP if math.isfinite(squared) else math.inf
        distance = min(0.5 * best.apart + radius, math.sqrt(2.0 * gap / l2) if math.isfinite(gap) else math.inf) * UP
        if best.zero:
            certificate = replace(certificate, dual=0.0)
        return RemainingProof(certificate, distance, self._intercept(radius, best.zero))

    @cached_property
    def _best(self) -> _Pair:
        best = min(self._pairs(), key=lambda pair: pair.found.gap_bound)
        return best if best.found.dual >= 0.0 else self._zero()

    def _zero(self) -> _Pair:
        """Return the kept model with β = 0, whose model is w = 0 and whose bound is 0."""
        evidence, problem = self.evidence, self.evidence.problem
        objective = self.sums.loss + self._penalty
        apart = length_bound(evidence.coef - problem.penalty.primal(np.zeros(problem.d)))
        if problem.intercept == "penalised":
            apart = math.hypot(apart, evidence.intercept / problem.intercept_scale)
        return _Pair(Enclosed(objective, objective), None, 0.0, apart * UP, apart * (1.0 - gamma(problem.d + 16)), zero=True)

    def _pairs(self) -> list[_Pair]:
        """Enclose the kept model with the dropped dual point, balanced by each reservoir that can."""
        rest, off = self.rest
        if self.evidence.problem.intercept != "free":
            return [self._pair(None, 0.0, 0.0, 0.0)]
        side, found = (1.0 if rest > 0.0 else -1.0), []
        if abs(rest) <= 4.0 * off:
            # The sign of what is left is not known: its size counts as an error on both sides.
            usable = [each for each in self.reservoirs if each.left > 8.0 * off]
            if len({each.side for each in usable}) == 2 or rest == off == 0.0:
                longest = max((each.mean.length + each.mean.drift for each in usable), default=0.0)
                cost = max([0.0, *(each.slope for each in usable)]) * 5.0 * off
                found.append(self._pair(None, 0.0, cost, 5.0 * off * longest))
        for each in self.reservoirs:
            if each.side == side and each.left * (1.0 - 1e-9) > abs(rest) + off:
                cost, length = max(each.slope, 0.0) * (abs(rest) + off), each.mean.length + each.mean.drift
                found.append(self._pair(each, abs(rest), cost, off * length))
        return found or [_Pair(Enclosed(self.sums.loss + self._penalty, UNKNOWN), None, 0.0, math.inf, 0.0)]

    def _pair(self, at: Reservoir | None, tau: float, cost: float, shift: float) -> _Pair:
        evidence, problem = self.evidence, self.evidence.problem
        assert evidence.point.v is not None
        moved, error = self.dropped.vector, self.dropped.error + shift
        if at is not None:
            moved = moved + at.side * tau * at.mean.vector
            error += tau * (at.mean.drift + 8.0 * ROUNDOFF * at.mean.length)
        v = evidence.point.v - moved / problem.l2
        error = error / problem.l2 + evidence.point.error
        error = (error + 8.0 * ROUNDOFF * (length_bound(v) + length_bound(moved) / problem.l2)) * UP
        excess = penalty_excess(problem.penalty, evidence.coef, v, np.zeros(1), error)
        apart, bias = length_bound(evidence.coef - problem.penalty.primal(v)), 0.0
        if problem.intercept == "penalised":
            excess += bias_terms(problem.l2, problem.intercept_scale, evidence.intercept, self.rest)[1]
            bias = abs(evidence.intercept / problem.intercept_scale - problem.intercept_scale * self.rest.value / problem.l2)
            error += problem.intercept_scale * self.rest.radius / problem.l2
            error += 8.0 * ROUNDOFF * abs(evidence.intercept) / problem.intercept_scale
        error += 8.0 * ROUNDOFF * (length_bound(evidence.coef) + problem.penalty.threshold() * math.sqrt(problem.d) + bias)
        distance = math.hypot(apart, bias)
        found = assemble(self.sums, self._penalty, excess, cost)
        return _Pair(found, at, tau, distance * UP + error, max(distance * (1.0 - gamma(problem.d + 16)) - error, 0.0))

    @cached_property
    def _penalty(self) -> Bounded:
        evidence, problem = self.evidence, self.evidence.problem
        penalty = penalty_value(problem.l1, problem.l2, evidence.coef)
        if problem.intercept == "penalised":
            penalty += bias_terms(problem.l2, problem.intercept_scale, evidence.intercept, Bounded(0.0))[0]
        return penalty

    def _intercept(self, radius: float, zero: bool) -> tuple[float, float]:
        """Return an interval of b* for the rows that stay; `zero`: the radius is that of β = 0."""
        problem, b = self.evidence.problem, self.evidence.intercept
        if problem.intercept == "none":
            return 0.0, 0.0
        if problem.intercept == "penalised":
            scale = problem.intercept_scale
            middle = ((Bounded(0.0) if zero else self.rest) * scale * scale / problem.l2 + b) * 0.5
            found = middle.wider(scale * radius * UP + middle.radius)  # the radius is that of the computed centre
            return float(found.lower), float(found.upper)
        base, steps = self._question()
        ends = [float(largest_excess(base, -self.rest.wider(self.evidence.moved), steps, side)) for side in (-1.0, 1.0)]
        slack = 8.0 * ROUNDOFF * abs(b)
        return b - ends[0] - slack, b + ends[1] + slack

    def _question(self) -> tuple[float, list[Step]]:
        """Return A + ½e·D + ‖D‖²/(4·l2) of (2) with q = 0, and what each reservoir brings."""
        evidence, problem, l2 = self.evidence, self.evidence.problem, self.evidence.problem.l2
        if not math.isfinite(self.base):
            return math.inf, []
        longest = float(problem.norms[evidence.fixed]) if evidence.fixed >= 0 else 0.0
        D, error = self.dropped.vector, self.dropped.error + l2 * evidence.drift + evidence.moved * longest
        size, inner = length_bound(D) + error, gamma(problem.d + 16)
        base = self.base + size * size / (4.0 * l2) * UP + evidence.drift * size
        if evidence.apart is not None:
            apart = length_bound(evidence.apart)
            base += 0.5 * (float(evidence.apart @ D) + inner * apart * size + apart * error)
        steps = []
        for at in self.reservoirs:
            mean, length = at.mean, at.mean.length + at.mean.drift
            along = Bounded(at.side * float(D @ mean.vector), inner * size * length + error * length + size * mean.drift)
            slope = (along / (2.0 * l2) + evidence.apart_at(at) * (0.5 * at.side) + at.slope).upper
            steps.append(Step(at.side, slope, length * length / (4.0 * l2) * UP, at.left))
        return max(base, 0.0) * UP, steps

    def dual(self) -> np.ndarray:
        """Return the dual point of the certificate that `prove` returns."""
        best, problem, beta = self._best, self.evidence.problem, self.evidence.point.beta.copy()
        beta[self.gone] = 0.0
        if best.zero:
            return np.zeros_like(beta)
        if best.reservoir is not None:
            at = best.reservoir
            change = at.side * problem.y[at.rows] * at.masses / problem.c[at.rows] * (best.tau / at.left)
            beta[at.rows] = np.clip(beta[at.rows] - change, 0.0, problem.loss.upper_bound())
        return beta


class _Pair(NamedTuple):
    """The kept model with a dual point: the enclosure, the reservoir with the mass taken from it, and bounds of ‖w − w(β')‖."""

    found: Enclosed
    reservoir: Reservoir | None
    tau: float
    apart: float
    least_apart: float
    zero: bool = False  # whether β = 0


def remaining_of(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Remaining:
    """Prepare a linear model and a dual point for rows to be forgotten: one pass over the data, and some over n numbers."""
    evidence = evidence_of(problem, coef, intercept, beta)
    reservoirs: list[Reservoir] = []
    if problem.intercept == "free" and math.isfinite(evidence.base):
        mass = 0.5 * float(problem.c @ evidence.point.beta)
        reservoirs = [each for side in (-1.0, 1.0) for each in evidence.reservoirs_of(side, mass, LEVELS)]
    return Remaining(
        evidence=evidence,
        sums=row_sums(problem.loss, problem.samples, margins_of(problem, coef, intercept), evidence.point.beta),
        base=evidence.base,
        rest=balance(problem, evidence.point) if problem.intercept != "none" else Bounded(0.0),
        reservoirs=tuple(reservoirs),
        gone=np.zeros(problem.n, dtype=bool),
        dropped=Dropped(np.zeros(problem.d), 0.0, 0),
    )


@kernel
def _largest_losses(loss, margins, off, c, out):
    """Upper bounds of c·φ(m): φ falls with the margin."""
    u = 1.1102230246251565e-16
    for i in range(margins.shape[0]):
        value = loss.value(margins[i] - off[i] - 8.0 * u * (1.0 + abs(margins[i])))
        out[i] = c[i] * value * (1.0 + 64.0 * u)
