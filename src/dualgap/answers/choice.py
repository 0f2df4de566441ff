"""contest: the best of some settings in cross-validation, proven. Intervals of each fold's validation error at the exact models.

A model with a small gap says where the exact one is (`Result.ball`), and so which validation rows the exact model gets right or wrong;
the rest is open. Every round trains the models on to a smaller gap. A setting whose least possible mean error is above the largest
possible one of another setting cannot win and is dropped. It ends when one setting is left, when all that are left have the same
error, known exactly, or when no open row can be decided any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from dualgap.run import Trained

__all__ = [
    "Contest",
    "Fold",
    "Outcome",
    "contest",
]

GAPS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13)  # relative gaps of the rounds

ATTEMPTS = 2  # further runs after one that has stalled: a method that starts again where it stalled often gets on

Solve = Callable[
    [int, Any, float, float | None], list[Trained]
]  # (setting, warm starts, tol, seconds) -> a result for each problem
Decide = Callable[[list[Trained]], tuple[np.ndarray, np.ndarray]]  # results -> masks of validation rows proven right, proven wrong


@dataclass
class Fold:
    """One fold: how to train a setting on its training rows, and what is known of its validation rows.

    Sets: `refine` changes `right`, `wrong`, `warm`, `gaps`, `late` and `over` of the settings that it is given.
    """

    size: int
    solve: Solve
    decide: Decide
    right: dict[int, np.ndarray] = field(default_factory=dict)
    wrong: dict[int, np.ndarray] = field(default_factory=dict)
    warm: dict[int, Any] = field(default_factory=dict)  # where the next run of a setting starts
    gaps: dict[int, float] = field(default_factory=dict)  # largest relative gap of its models
    late: dict[int, int] = field(default_factory=dict)  # runs in a row that ended before their gap was reached
    over: dict[int, str] = field(default_factory=dict)  # settings that cannot be trained on, and the status that says why

    def bounds(self, setting: int) -> tuple[int, int]:
        """Return the least and the largest number of errors of the exact model."""
        if setting not in self.right:
            return 0, self.size
        return int(np.count_nonzero(self.wrong[setting])), self.size - int(np.count_nonzero(self.right[setting]))

    def is_open(self, setting: int) -> bool:
        """Whether rows are open that further training may decide."""
        low, high = self.bounds(setting)
        return low < high and setting not in self.over

    def refine(self, settings: Sequence[int], tol: float, until: float | None) -> None:
        """Train each setting on to a gap and decide rows; a setting without a model starts from the one before."""
        last: Any = None
        for setting in settings:
            last = self.warm.get(setting, last)
            if not self.is_open(setting):
                continue
            seconds = None if until is None else until - time.perf_counter()
            if seconds is not None and seconds <= 0.0:
                self.over[setting] = "max_seconds"
                continue
            results = self.solve(setting, last, tol, seconds)
            last = self.warm[setting] = [(r.coef, r.intercept, r.dual) for r in results]
            right, wrong = self.decide(results)
            none = np.zeros(self.size, dtype=bool)
            self.right[setting] = right | self.right.get(setting, none)
            self.wrong[setting] = wrong | self.wrong.get(setting, none)
            self.gaps[setting] = max(r.certificate.relative_gap for r in results)
            late = [r.status for r in results if not r.converged]
            self.late[setting] = self.late.get(setting, 0) + 1 if late else 0
            if late and (late[0] in ("max_epochs", "max_seconds", "interrupted") or self.late[setting] > ATTEMPTS):
                self.over[setting] = late[0]

    def forget(self, setting: int) -> None:
        """Free the models of a setting that is out."""
        self.warm.pop(setting, None)


@dataclass(frozen=True)
class Outcome:
    """How a contest ended.

    Attributes
    ----------
    best : the setting that is taken: of those left the first, in the order in which they were given
    left : settings that may be the best: more than one if they tie or cannot be told apart
    proven : whether `best` is proven to have the least mean error, alone or with those that tie
    low, high : arrays of shape (folds, settings): least and largest number of errors of each exact model
    gaps : array of shape (folds, settings): relative gaps that the models were trained to
    status : "converged" if proven; else why training ended
    """

    best: int
    left: list[int]
    proven: bool
    low: np.ndarray
    high: np.ndarray
    gaps: np.ndarray
    status: str
    sizes: np.ndarray

    def mean_errors(self, setting: int) -> tuple[float, float]:
        """Return the least and the largest mean error of a setting."""
        return float((self.low[:, setting] / self.sizes).mean()), float((self.high[:, setting] / self.sizes).mean())

    @property
    def intervals(self) -> np.ndarray:
        """The least and the largest validation error of each exact model, an array of shape (folds, settings, 2)."""
        return np.stack([self.low, self.high], axis=-1) / self.sizes[:, None, None]

    def verdict(self, names: Sequence[str]) -> str:
        """Return the outcome in words."""
        of = f"of {len(names)} settings on these {len(self.sizes)} folds"
        low, high = self.mean_errors(self.best)
        shown = f"{100 * low:.4g} %" if low == high else f"{100 * low:.4g} to {100 * high:.4g} %"
        if self.proven and len(self.left) == 1:
            others = [self.mean_errors(k)[0] for k in range(len(names)) if k != self.best]
            rest = f", of every other one at least {100 * min(others):.4g} %" if others else ""
            return f"{names[self.best]}: proven best {of}. Mean error of the exact models: {shown}{rest}."
        listed = ", ".join(names[k] for k in self.left)
        if self.proven:
            return f"{listed}: proven best {of}, all with the mean error {shown}. The first of them is taken."
        return (
            f"These {len(self.left)} cannot be told apart {of}: {listed}. The others are proven worse. The first one with the least "
            f"upper bound is taken, {names[self.best]}: mean error {shown}. Training ended with status {self.status!r}."
        )


class Contest:
    """The rounds. `left` has the settings that may still win."""

    def __init__(self, folds: list[Fold], count: int) -> None:
        self.folds, self.count, self.left = folds, count, list(range(count))

    def bounds(self, setting: int) -> tuple[Fraction, Fraction]:
        """Return the least and the largest mean error over the folds, exactly; times the number of folds."""
        found = [(fold.bounds(setting), fold.size) for fold in self.folds]
        return sum((Fraction(low, n) for (low, _), n in found), Fraction(0)), sum(
            (Fraction(high, n) for (_, high), n in found), Fraction(0)
        )

    def drop(self) -> None:
        """Drop settings that cannot win."""
        bounds = {k: self.bounds(k) for k in self.left}
        best = min(high for _, high in bounds.values())
        for k, (low, _) in bounds.items():
            if low > best:
                self.left.remove(k)
                for fold in self.folds:
                    fold.forget(k)

    def settled(self) -> bool:
        """Whether one setting is left, or all that are left have the same error, known exactly."""
        bounds = [self.bounds(k) for k in self.left]
        return len(bounds) == 1 or all(low == high for low, high in bounds)

    def run(self, n_jobs: int | None, until: float | None) -> Outcome:
        """Refine until it is settled, or nothing can be refined."""
        for tol in GAPS:
            Parallel(n_jobs=n_jobs, prefer="threads")(delayed(fold.refine)(list(self.left), tol, until) for fold in self.folds)
            self.drop()
            if self.settled() or not any(fold.is_open(k) for k in self.left for fold in self.folds):
                break
        return self._outcome()

    def _outcome(self) -> Outcome:
        proven = self.settled()
        bounds = {k: self.bounds(k) for k in self.left}
        # Among settings that tie or cannot be told apart: the first with the least upper bound.
        best = min(self.left, key=lambda k: (bounds[k][1], k))
        ends = [fold.over[k] for k in self.left for fold in self.folds if k in fold.over]
        every = [[fold.bounds(k) for k in range(self.count)] for fold in self.folds]
        return Outcome(
            best,
            self.left,
            proven,
            np.array([[low for low, _ in row] for row in every]),
            np.array([[high for _, high in row] for row in every]),
            np.array([[fold.gaps.get(k, np.inf) for k in range(self.count)] for fold in self.folds]),
            "converged" if proven else next(iter(ends), "rounding_limit"),
            np.array([fold.size for fold in self.folds]),
        )


def contest(folds: list[Fold], count: int, n_jobs: int | None = None, until: float | None = None) -> Outcome:
    """Find the best of `count` settings, in the order in which ties are resolved."""
    return Contest(folds, count).run(n_jobs, until)
