"""Paths of linear models: for a grid of C and l1_ratio, or for every C of a range, each model warm from the one before.

Classes and targets differ in the problems that a path is traced for; those are made by the subclasses. Features that the dual point at hand
proves to be zero in the next model are left out of its problem (for smooth losses with an l1 part); the certificate of every model is taken
on the whole problem.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.core import is_sparse, kept, number, slopes, whole_number
from dualgap.estimators.common import fit_seed, penalties, validated_rows, warn_unless_converged
from dualgap.estimators.guaranteed_fit import (
    Deadline,
    check_guarantee,
    check_range,
    draw_guarantee,
    forget_path,
    keep_guaranteed,
    known_label,
    solve_at,
)
from dualgap.estimators.guaranteed_path import SOLVED_SHARE, walk
from dualgap.estimators.proving import Kept
from dualgap.problem import Problem, as_features
from dualgap.proof import best_intercept, forget_scores, scores_of, zero_features
from dualgap.run import Result, certify, minimise

__all__ = ["LinearPath", "Point"]


@dataclass(frozen=True, kw_only=True)
class Point(Result):
    """One model of a path."""

    screened: int = 0  # features that were proved to be zero before it was trained


class LinearPath:
    """Tracing and fitted attributes of a path. Subclasses check the data, and make and name the problems."""

    Cs: Any
    l1_ratios: Any
    screen: bool
    fit_intercept: bool
    intercept: str
    intercept_scaling: float
    tol: float
    max_iter: int
    max_time: float | None
    solver: Any
    random_state: Any
    guarantee: float | None
    n_features_in_: int
    coefs_: Any

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return X and y after scikit-learn's checks."""
        raise NotImplementedError

    def _data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return the training data, with weights."""
        raise NotImplementedError

    def _bases(self, data: Any) -> list[tuple[Problem, float]]:
        """Return the problems but for their penalties, each with the sum of its weights."""
        raise NotImplementedError

    def _keep_kind(self, data: Any) -> None:
        """Set the fitted attributes that tell classes or targets."""
        raise NotImplementedError

    def _titles(self) -> tuple[list[Any], list[str]]:
        """Return the labels that select one of several problems, and what a figure calls it."""
        raise NotImplementedError

    def _set_model(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Set coef_ and intercept_ from a row and a number for each problem."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------------------- fitting

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train every model of the grid, or models for every C of a range."""
        given = (X, y, sample_weight)
        X, y = self._checked(X, y)
        forget_path(self)
        with kept() as ctrl_c:
            if self.guarantee is not None:
                self._kept = Kept(*given, self._fit_every_C(X, y, sample_weight))
            else:
                points = self._trace(X, y, sample_weight)
                self._keep(points)
                self._kept = Kept(*given, [[[p.dual for p in row] for row in grid] for grid in points])
            if ctrl_c.take():
                self.status_ = "interrupted"
            return self

    def _fit_every_C(self, X: Any, y: np.ndarray, sample_weight: Any) -> list[list[np.ndarray]]:
        """Train models for a whole range of C; return the dual variables of the trained ones, for each problem."""
        epsilon = check_guarantee(self.guarantee)
        whole_number("max_iter", self.max_iter)
        data = self._data(X, y, sample_weight)
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        if len(self.l1_ratios_) != 1 or not 0.0 <= self.l1_ratios_[0] < 1.0:
            raise ValueError(
                f"l1_ratios={self.l1_ratios!r} must be one number in [0, 1) with a guarantee: each ratio has ranges of its own, and with "
                "l1_ratio=1 no dual point of one C is feasible at a larger one"
            )
        bases, ratio = self._bases(data), float(self.l1_ratios_[0])
        Cs = np.concatenate([self._grid(base, total) for base, total in bases])
        clock = Deadline(self.max_time, len(bases))
        seed, found = fit_seed(self.random_state), []
        for base, total in bases:
            strengths = partial(penalties, l1_ratio=ratio, total=total)
            solve = partial(solve_at, base, strengths, self.solver, SOLVED_SHARE * epsilon, self.max_iter, clock.next(), seed)
            found.append(walk(solve, strengths, *check_range(Cs), epsilon))
        self._keep_kind(data)
        keep_guaranteed(self, [path for path, _ in found], [result for _, results in found for result in results], stacklevel=5)
        coefs = [path.coefs for path, _ in found]
        self.coefs_ = coefs[0] if len(found) == 1 else coefs
        self._set_model(np.stack([each[-1] for each in coefs]), np.array([path.intercepts[-1] for path, _ in found]))
        return [[result.dual for result in results] for _, results in found]

    def plot_guarantee(self, ax: Any = None, label: Any = None) -> Any:
        """Draw how far from the optimum the models are at most, over C; returns matplotlib's axes. Needs `guarantee`.

        With several problems, `label` says which is drawn (the first one unless told).
        """
        check_is_fitted(self)
        return draw_guarantee(self, ax, label, *self._titles())

    def _trace(self, X: Any, y: np.ndarray, sample_weight: Any) -> list[list[list[Point]]]:
        """The points of the path of each problem, for each l1_ratio those of every C. Sets the grid, and what `_keep_kind` sets."""
        tol, seed = number("tol", self.tol, "[0, 1]"), fit_seed(self.random_state)
        whole_number("max_iter", self.max_iter)
        data = self._data(X, y, sample_weight)
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        for ratio in self.l1_ratios_:
            number("l1_ratios", float(ratio), "[0, 1]")
        bases = self._bases(data)
        self._keep_kind(data)
        self.Cs_ = min((self._grid(base, total) for base, total in bases), key=lambda Cs: float(Cs[0]))
        deadline = None if self.max_time is None else time.perf_counter() + number("max_time", self.max_time)
        left = len(self.Cs_) * len(self.l1_ratios_) * len(bases)
        found = []
        stop = Event()  # after Ctrl-C: one epoch each for the points that are left
        for base, total in bases:
            grid = []
            for ratio in self.l1_ratios_:
                row: list[Point] = []
                for C in self.Cs_:
                    l2, l1 = penalties(float(C), float(ratio), total)
                    seconds = None if deadline is None else max((deadline - time.perf_counter()) / left, 1e-9)
                    row.append(self._point(base.variant(l2=l2, l1=l1), row[-1] if row else None, tol, seconds, seed, stop.is_set))
                    left -= 1
                    if row[-1].status == "interrupted":
                        stop.set()
                grid.append(row)
            found.append(grid)
        return found

    def _grid(self, base: Problem, total: float) -> np.ndarray:
        if np.ndim(self.Cs) > 0:
            Cs = np.sort(np.asarray(self.Cs, dtype=float))
            for C in Cs:
                number("Cs", float(C))
            return Cs
        count = whole_number("Cs", self.Cs)
        positive = self.l1_ratios_[self.l1_ratios_ > 0]
        if len(positive) == 0:
            return np.geomspace(1e-4, 1e2, count)
        # At w = 0 the first feature comes in where l1 = ratio/(C·Σs) has come down to the largest |u|.
        zero = np.zeros(base.n)
        beta = np.empty(base.n)
        scores = base.offset.added(zero)
        slopes(base.loss, base.y * (scores + best_intercept(base, scores)), beta)
        largest = float(np.abs(base.combine(base.c * base.y * beta)).max())
        lowest = float(positive.min()) / (total * max(largest, 1e-300))
        return np.geomspace(lowest, 1e3 * lowest, count)

    def _point(
        self, problem: Problem, last: Point | None, tol: float, seconds: float | None, seed: int, halt: Callable[[], bool]
    ) -> Point:
        start = (None, 0.0, None) if last is None else (last.coef, last.intercept, last.dual)
        keep = _kept(problem, last) if self.screen and last is not None else np.ones(problem.d, dtype=bool)
        screened = problem.d - int(np.count_nonzero(keep))
        reduced, warm = problem, start
        if 0 < screened < problem.d:
            columns = problem.X[:, np.flatnonzero(keep)]
            reduced = problem.replace(X=columns if is_sparse(columns) else np.ascontiguousarray(columns), d=columns.shape[1])
            warm = (None if start[0] is None else start[0][keep], *start[1:])
        elif screened == problem.d:
            screened, keep = 0, np.ones(problem.d, dtype=bool)
        budget = (self.solver, tol, self.max_iter, seconds, seed)
        result = minimise(reduced, *budget, warm_start=None if last is None else warm, halt=halt)
        if not screened:
            return Point.of(result)
        coef = np.zeros(problem.d)
        coef[keep] = result.coef
        certificate = certify(problem, coef, result.intercept, result.dual)
        if result.converged and certificate.relative_gap > tol:  # nearly never: go on with all features
            result = minimise(problem, *budget, warm_start=(coef, result.intercept, result.dual), halt=halt)
            return Point.of(result, screened=screened)
        dual = result.dual if certificate.dual > 0.0 else np.zeros(problem.n)  # β of the bound, for a proof
        return Point.of(result, problem=problem, coef=coef, dual=dual, certificate=certificate, screened=screened)

    def _keep(self, points: list[list[list[Point]]]) -> None:
        def gathered(of: Callable[[Point], Any]) -> np.ndarray:
            values = np.array([[[of(p) for p in row] for row in grid] for grid in points])
            return values[0] if len(points) == 1 else np.moveaxis(values, 0, 2)

        self.coefs_ = gathered(lambda p: p.coef)
        self.intercepts_ = gathered(lambda p: p.intercept)
        self.objectives_ = gathered(lambda p: p.certificate.primal)
        self.dual_gaps_ = gathered(lambda p: p.certificate.gap)
        self.n_iters_ = gathered(lambda p: p.epochs)
        self.screened_ = gathered(lambda p: p.screened)
        self.statuses_ = gathered(lambda p: p.status)
        alike = [[[p.certificate for p in each] for each in zip(*rows, strict=True)] for rows in zip(*points, strict=True)]
        self.certificates_ = [[each[0] if len(points) == 1 else each for each in row] for row in alike]
        self._use(0, len(self.Cs_) - 1)
        flat = [p for grid in points for row in grid for p in row]
        self.n_iter_ = max(p.epochs for p in flat)
        self.status_ = warn_unless_converged(type(self).__name__, flat, self.tol, stacklevel=5)

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return as_features(validated_rows(self, X), columns=self.n_features_in_)

    def _use(self, i: int, j: int) -> None:
        self._place = i, j
        self.__dict__.pop("_balls", None)  # of another point
        self._set_model(self.coefs_[i, j].reshape(-1, self.coefs_.shape[-1]).copy(), np.atleast_1d(self.intercepts_[i, j]).copy())

    def plot_path(self, l1_ratio: float | None = None, ax: Any = None, label: Any = None) -> Any:
        """Draw the coefficients over C for one l1_ratio (the first one unless told); returns matplotlib's axes.

        With several problems, `label` says which is drawn (the first one unless told): a class, or the number of a target.
        """
        import matplotlib.pyplot as plt

        i = 0 if l1_ratio is None else int(np.argmin(np.abs(self.l1_ratios_ - l1_ratio)))
        coefs, gaps, of_class = self.coefs_[i], self.dual_gaps_[i] / self.objectives_[i], ""
        if coefs.ndim == 3:
            labels, titles = self._titles()
            k = labels.index(labels[0] if label is None else known_label(label, labels))
            coefs, gaps, of_class = coefs[:, k], gaps[:, k], f"{titles[k]}, "
        ax = ax or plt.gca()
        ax.semilogx(self.Cs_, coefs)
        ax.axhline(0.0, color="0.7", linewidth=0.8)
        ax.set_xlabel("C")
        ax.set_ylabel("coefficient")
        ax.set_title(f"{of_class}l1_ratio = {self.l1_ratios_[i]:g}; relative gaps at most {float(np.max(gaps)):.0e}")
        return ax

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


def _kept(problem: Problem, last: Point) -> np.ndarray:
    """Return which features may be other than zero in the minimiser, by what the last model and dual point prove."""
    b = best_intercept(problem, scores_of(problem, last.coef))
    kept = ~zero_features(problem, last.coef, b, last.dual)
    forget_scores(problem)
    return kept
