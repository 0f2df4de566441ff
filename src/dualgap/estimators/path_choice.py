"""Cross-validation over a path: the point that scores best, or the one that is proven to have the fewest errors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from dualgap.answers import Fold, Outcome, contest
from dualgap.core import number
from dualgap.estimators.fitting import ConvergenceWarning, Fit, Kept, warn_unless_converged
from dualgap.estimators.path import Given, Limits, Machine, Path, trace
from dualgap.run import Trained

__all__ = ["PathChoice", "contest_solver", "held_out"]

OF_THE_MODEL = ("certificate_", "objective_", "dual_gap_", "status_")


class PathChoice(Path):
    """Choice of a point by cross-validation. Subclasses make the data and machines of a fold, and say which rows are decided."""

    cv: Any
    n_jobs: int | None
    scoring: Any = None
    certified: bool = False

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _part(self, given: Given, train: Any) -> Any:
        """Return the training data of a fold."""
        raise NotImplementedError

    def _fold(self, given: Given, machines: list[Machine], train: Any, test: Any, points: Any, limits: Limits) -> Fold:
        """Return a fold of the contest of a certified choice."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------------------- fitting

    def _run(self, given: Given, limits: Limits) -> None:
        splits = list(check_cv(self.cv, given.labels, classifier=is_classifier(self)).split(given.data.X, given.labels))
        if self.certified:
            self._choose_certified(given, limits, splits)
        else:
            self._choose_by_score(given, limits, splits)

    def _choose_by_score(self, given: Given, limits: Limits, splits: Sequence[tuple[Any, Any]]) -> None:
        points = self._run_grid(given, limits, stacklevel=6)
        scorer = check_scoring(self._chosen, scoring=self.scoring)

        def scores(train: Any, test: Any) -> list[list[float]]:
            data = self._part(given, train)
            own = Limits(limits.max_epochs, self.max_time, limits.seed)
            found = trace(self._machines(data), self.Cs_, self.l1_ratios_, self.tol, own, self.screen)
            X, y = _safe_indexing(given.data.X, test), given.labels[test]
            alike = [zip(*rows, strict=True) for rows in zip(*found, strict=True)]  # all machines at one place of the grid
            bare = given._replace(data=data)
            return [
                [scorer(self._model(bare, C, ratio, here), X, y) for C, here in zip(self.Cs_, row, strict=True)]
                for ratio, row in zip(self.l1_ratios_, alike, strict=True)
            ]

        self.scores_ = np.array(
            Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(scores)(train, test) for train, test in splits)
        )
        mean = self.scores_.mean(axis=0)
        # By columns of C, so that among equals the smallest C, the strongest penalty, comes first.
        j, i = (int(place) for place in np.unravel_index(int(np.argmax(mean.T)), mean.T.shape))
        self.C_, self.l1_ratio_ = float(self.Cs_[j]), float(self.l1_ratios_[i])
        self._use(given, points, i, j)

    def _choose_certified(self, given: Given, limits: Limits, splits: Sequence[tuple[Any, Any]]) -> None:
        """Choose a point by a proof, and train its model on all the data."""
        if self.scoring not in (None, "accuracy"):
            raise ValueError(f"scoring={self.scoring!r} must be None with certified=True: what is proven is the accuracy")
        tol = number("tol", self.tol, "[0, 1]")
        for ratio in np.atleast_1d(np.asarray(self.l1_ratios, dtype=float)):
            wanted = "a number in [0, 1) with certified=True: without an l2 part a gap does not say where the exact model is"
            number("l1_ratios", float(ratio), "[0, 1)", wanted)
        machines = self._grid(given.data)
        # Among equals the smallest C comes first, and of its ratios the first one.
        points = [(float(C), float(ratio)) for C in self.Cs_ for ratio in self.l1_ratios_]
        folds = [self._fold(given, machines, train, test, points, limits) for train, test in splits]
        outcome = contest(folds, len(points), self.n_jobs, limits.end)
        self._keep_outcome(outcome, points)
        everything = Limits(limits.max_epochs, None, limits.seed)
        results = [machine.solve(self.C_, self.l1_ratio_, None, tol, everything) for machine in machines]
        self._fit = Fit(kept=Kept(*given[:3], [result.dual for result in results]))
        self.n_iter_ = max(result.epochs for result in results)
        self._choose(self._model(given, self.C_, self.l1_ratio_, results))
        status = warn_unless_converged(type(self).__name__, results, tol, stacklevel=5)
        self._chosen.status_ = status
        for name in OF_THE_MODEL:
            setattr(self, name, getattr(self._chosen, name))

    def _keep_outcome(self, outcome: Outcome, points: list[tuple[float, float]]) -> None:
        shape, many = (len(outcome.sizes), len(self.Cs_), len(self.l1_ratios_)), len(self.l1_ratios_) > 1
        names = [f"C = {C:.6g}" + (f", l1_ratio = {ratio:g}" if many else "") for C, ratio in points]
        self.proven_, self.verdict_ = outcome.proven, outcome.verdict(names)
        self.intervals_ = np.moveaxis(outcome.intervals.reshape(*shape, 2), 1, 2)
        self.gaps_ = np.moveaxis(outcome.gaps.reshape(shape), 1, 2)
        self.winners_: list[Any] = [points[k] for k in outcome.left]
        self.C_, self.l1_ratio_ = points[outcome.best]
        if not outcome.proven and outcome.status in ("max_epochs", "max_seconds"):
            tried = "max_iter" if outcome.status == "max_epochs" else "max_time"
            text = f"{type(self).__name__}: {self.verdict_} What to try: raise {tried}."
            warnings.warn(text, ConvergenceWarning, stacklevel=5)


def contest_solver(machines: Sequence[Machine], points: Sequence[tuple[float, float]], limits: Limits) -> Any:
    """Return how a fold of a contest trains a setting: all its machines, each started from its last model."""

    def solve(k: int, warm: Any, tol: float, seconds: float | None) -> list[Trained]:
        starts = [None] * len(machines) if warm is None else warm
        until = None if seconds is None else Limits(1, seconds, 0).end
        return [machine.solve(*points[k], start, tol, limits, until) for machine, start in zip(machines, starts, strict=True)]

    return solve


def held_out(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the codes of validation labels among the classes of the training rows; −1 for a class that these lack."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)
