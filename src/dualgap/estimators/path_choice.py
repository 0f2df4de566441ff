"""Cross-validation over a path: the point that scores best, or the one that is proven to have the fewest errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from dualgap.answers import Outcome, contest
from dualgap.core import number
from dualgap.estimators.fitting import ConvergenceWarning, warn_unless_converged
from dualgap.estimators.model import Fit
from dualgap.estimators.path import Given, Path
from dualgap.estimators.path_grid import Limits, Machine, trace
from dualgap.run import Trained

__all__ = ["choose", "contest_solver", "held_out"]

OF_THE_MODEL = ("certificate_", "objective_", "dual_gap_", "status_")
Splits = Sequence[tuple[np.ndarray, np.ndarray]]  # training and validation rows


def choose(path: Path, given: Given, limits: Limits) -> None:
    """Choose a point of a path by cross-validation, train its model on all the data, and set the fitted attributes."""
    splits = list(check_cv(path.cv, given.labels, classifier=is_classifier(path)).split(given.data.X, given.labels))
    (_choose_certified if path.certified else _choose_by_score)(path, given, limits, splits)


def _choose_by_score(path: Path, given: Given, limits: Limits, splits: Splits) -> None:
    points = path._run_grid(given, limits, stacklevel=7)
    scorer = check_scoring(path._chosen, scoring=path.scoring)

    def scores(train: np.ndarray, test: np.ndarray) -> list[list[float]]:
        bare = given._replace(data=given.data.part(train))
        own = Limits(limits.max_epochs, path.max_time, limits.seed)
        found = trace(path._machines(bare.data), path.Cs_, path.l1_ratios_, path.tol, own, path.screen)
        X, y = _safe_indexing(given.data.X, test), given.labels[test]
        alike = [zip(*rows, strict=True) for rows in zip(*found, strict=True)]  # all machines at one place of the grid
        return [
            [scorer(path._model(bare, C, ratio, here), X, y) for C, here in zip(path.Cs_, row, strict=True)]
            for ratio, row in zip(path.l1_ratios_, alike, strict=True)
        ]

    path.scores_ = np.array(Parallel(n_jobs=path.n_jobs, prefer="threads")(delayed(scores)(train, test) for train, test in splits))
    mean = path.scores_.mean(axis=0)
    # By columns of C, so that among equals the smallest C, the strongest penalty, comes first.
    j, i = (int(place) for place in np.unravel_index(int(np.argmax(mean.T)), mean.T.shape))
    path.C_, path.l1_ratio_ = float(path.Cs_[j]), float(path.l1_ratios_[i])
    path._use(given, points, i, j)


def _choose_certified(path: Path, given: Given, limits: Limits, splits: Splits) -> None:
    if path.scoring not in (None, "accuracy"):
        raise ValueError(f"scoring={path.scoring!r} must be None with certified=True: what is proven is the accuracy")
    tol = number("tol", path.tol, "[0, 1]")
    for ratio in np.atleast_1d(np.asarray(path.l1_ratios, dtype=float)):
        wanted = "a number in [0, 1) with certified=True: without an l2 part a gap does not say where the exact model is"
        number("l1_ratios", float(ratio), "[0, 1)", wanted)
    machines = path._grid(given.data)
    # Among equals the smallest C comes first, and of its ratios the first one.
    points = [(float(C), float(ratio)) for C in path.Cs_ for ratio in path.l1_ratios_]
    folds = [path._fold(given, train, test, points, limits) for train, test in splits]
    _keep_outcome(path, contest(folds, len(points), path.n_jobs, limits.end), points)
    everything = Limits(limits.max_epochs, None, limits.seed)
    results = [machine.solve(path.C_, path.l1_ratio_, None, tol, everything) for machine in machines]
    path._fit = Fit(kept=replace(given.kept, duals=[result.dual for result in results]))
    path.n_iter_ = max(result.epochs for result in results)
    path._choose(path._model(given, path.C_, path.l1_ratio_, results))
    path._chosen.status_ = warn_unless_converged(type(path).__name__, results, tol, stacklevel=6)
    for name in OF_THE_MODEL:
        setattr(path, name, getattr(path._chosen, name))


def _keep_outcome(path: Path, outcome: Outcome, points: list[tuple[float, float]]) -> None:
    shape, many = (len(outcome.sizes), len(path.Cs_), len(path.l1_ratios_)), len(path.l1_ratios_) > 1
    names = [f"C = {C:.6g}" + (f", l1_ratio = {ratio:g}" if many else "") for C, ratio in points]
    path.proven_, path.verdict_ = outcome.proven, outcome.verdict(names)
    path.intervals_ = np.moveaxis(outcome.intervals.reshape(*shape, 2), 1, 2)
    path.gaps_ = np.moveaxis(outcome.gaps.reshape(shape), 1, 2)
    path.winners_ = [points[k] for k in outcome.left]
    path.C_, path.l1_ratio_ = points[outcome.best]
    if not outcome.proven and outcome.status in ("max_epochs", "max_seconds"):
        tried = "max_iter" if outcome.status == "max_epochs" else "max_time"
        text = f"{type(path).__name__}: {path.verdict_} What to try: raise {tried}."
        warnings.warn(text, ConvergenceWarning, stacklevel=6)


def contest_solver(
    machines: Sequence[Machine], points: Sequence[tuple[float, float]], limits: Limits
) -> Callable[[int, list[Any] | None, float, float | None], list[Trained]]:
    """Return how a fold of a contest trains a setting: all its machines, each started from its last model."""

    def solve(k: int, warm: list[Any] | None, tol: float, seconds: float | None) -> list[Trained]:
        starts = [None] * len(machines) if warm is None else warm
        until = None if seconds is None else Limits(1, seconds, 0).end
        return [machine.solve(*points[k], start, tol, limits, until) for machine, start in zip(machines, starts, strict=True)]

    return solve


def held_out(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the codes of validation labels among the classes of the training rows; −1 for a class that these lack."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)
