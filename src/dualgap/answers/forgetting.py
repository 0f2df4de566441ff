"""Forget rows of a fitted linear model, with a receipt: what is proven of the model on the rows that stay, or a retrained one."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.answers.leave_one_out import without_rows
from dualgap.answers.remaining import Remaining, remaining_of
from dualgap.problem import Problem
from dualgap.proof import Certificate
from dualgap.run import Trained, minimise

__all__ = ["Forgettable", "Receipt", "row_numbers"]

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
