"""LinearSVCPath: models for a grid of C and l1_ratio, each with its certificate, each warm from the one before.

Features that the dual point at hand proves to be zero in the next model are left out of its problem (for smooth losses with an l1
part); the certificate of every model is taken on the whole problem.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dualgap.core import classification_loss, is_sparse, kept, number, one_of, slopes, whole_number
from dualgap.estimators.bounds import BoundsMixin, FeatureMixin
from dualgap.estimators.common import check_labels, fit_seed, penalties, validated, validated_rows, warn_unless_converged
from dualgap.estimators.guaranteed_fit import (
    Deadline,
    check_guarantee,
    check_range,
    draw_guarantee,
    fitted_at,
    forget_path,
    guaranteed_paths,
    keep_guaranteed,
    solve_at,
)
from dualgap.estimators.guaranteed_path import SOLVED_SHARE, walk
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.proving import Kept, ProvableMixin, path_parts, table_of
from dualgap.problem import Problem, as_features
from dualgap.proof import BinaryPart, ProofError, best_intercept, forget_scores, mixed_coef, scores_of, zero_features
from dualgap.run import Result, certify, minimise

__all__ = ["LinearSVCPath", "Point"]


@dataclass(frozen=True, kw_only=True)
class Point(Result):
    """One model of a path."""

    screened: int = 0  # features that were proved to be zero before it was trained


class LinearSVCPath(BoundsMixin, FeatureMixin, ProvableMixin, LinearClassifierMixin, BaseEstimator):
    """Linear models for a grid of C and l1_ratio, from strong to weak penalty, each started from the last.

    With more than two classes there is one such path for each class against the rest, all on the same grid.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take: from where the first feature comes in (for any class), over three decades (for l1_ratio=0
        alone: from 1e-4 to 1e2).
    l1_ratios : float or array
    screen : bool
        Whether features that are proved to be zero are left out. The models are the same to the tolerance.
    loss, delta, fit_intercept, intercept, intercept_scaling, class_weight, tol, max_iter, solver, random_state
        As in `LinearSVC`. solver="auto" is prox_newton for smooth losses with an l1 part.
    max_time : float, optional
        Seconds for the whole path, shared out among the points.
    guarantee : float, optional
        With a number such as 0.01, the models are for every C from the least to the largest of `Cs`, not for these values alone: at each C
        there is a model, `model_at(C)`, whose objective is proven to be at most 1 + guarantee times the optimum. How many models that
        takes, and for which C, is found out. One l1_ratio below 1; `tol` and `screen` are not used.

    Attributes
    ----------
    Cs_, l1_ratios_ : the grid
    coefs_ : array of shape (l1_ratios, Cs, d)
    intercepts_, objectives_, dual_gaps_, n_iters_, screened_ : arrays of shape (l1_ratios, Cs)
        screened_ counts the features that were proved to be zero before the model was trained.
    certificates_ : a list for each l1_ratio, with a Certificate for each C
    statuses_ : array of shape (l1_ratios, Cs) of strings
        With more than two classes, the arrays above have one more axis after that of the Cs, with an entry for each class (coefs_ has
        shape (l1_ratios, Cs, classes, d)), and each C has a list of certificates.
    classes_, coef_, intercept_ : of the last C with the first l1_ratio, which is what `predict` uses
    status_ : "converged" where every point is

    With a guarantee there are, in place of those of a grid:

    guarantee_ : the largest relative distance from the optimum that any model may have at any C of its range; infinite if a part of the
        range has no proven model
    breakpoints_ : array of shape (models, 2): the ends of the range of C that each model is proven for; each begins where the last ends
    Cs_, coefs_, intercepts_ : of the models that were trained, in rising order of C
    mixes_ : a tuple (i, j, t) for each model, which is (1 − t) times trained model i plus t times trained model j
    certificates_ : for each model a `ProvenRange`: certificates at some C of its range, which hold between them, too
    uncovered_ : pairs (low, high): ranges of C without a proven model; empty unless a solve ended early
    status_ : "converged" where `uncovered_` is empty, else why the walk ended
        With more than two classes, the last five are lists with an entry for each class against the rest.

    Examples
    --------
    >>> from dualgap import LinearSVCPath
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 30, random_state=0)
    >>> path = LinearSVCPath(Cs=5, l1_ratios=[1.0, 0.5], random_state=0).fit(X, y)
    >>> path.coefs_.shape, path.status_
    ((2, 5, 30), 'converged')

    One model for every C, proven to be within 1 % of the optimum:

    >>> path = LinearSVCPath(Cs=[1e-3, 10.0], l1_ratios=0.0, guarantee=0.01, random_state=0).fit(X, y)
    >>> model = path.model_at(0.123)
    >>> model.certificate_.primal <= 1.01 * model.certificate_.dual
    True
    """

    classes_: np.ndarray
    coefs_: Any

    def __init__(
        self,
        Cs: Any = 20,
        *,
        l1_ratios: Any = 0.5,
        screen: bool = True,
        loss: Any = "squared_hinge",
        delta: float | None = None,
        fit_intercept: bool = True,
        intercept: str = "free",
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        max_time: float | None = None,
        solver: Any = "auto",
        random_state: Any = None,
        guarantee: float | None = None,
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.screen = screen
        self.loss = loss
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.random_state = random_state
        self.guarantee = guarantee

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVCPath:
        """Train every model of the grid.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : n labels
        sample_weight : n numbers, optional
        """
        given = (X, y, sample_weight)
        X, y = validated(self, X, y)
        check_labels(y)
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

    def _parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> tuple[Any, list[Any]]:
        X, y = validated(self, X, y, reset=False)
        data = Labelled(X, y, sample_weight, self.class_weight)
        if "_paths" in vars(self):
            return self._guaranteed_parts(data, duals)
        made = [
            [
                [base.variant(**dict(zip(("l2", "l1"), penalties(float(C), float(ratio), total), strict=True))) for C in self.Cs_]
                for ratio in self.l1_ratios_
            ]
            for base, total in self._bases(data)
        ]
        return path_parts(self, made, data, duals)

    def _guaranteed_parts(self, data: Labelled, duals: Any) -> tuple[Any, list[Any]]:
        """Return a part for each model at both ends of its range: together they prove it for all C between."""
        if duals is None:
            raise ProofError("this path was loaded from a file without its dual variables; fit it again to write its proof")
        parts, many = [], len(self._paths) > 1
        for k, ((base, total), path, betas) in enumerate(zip(self._bases(data), self._paths, duals, strict=True)):
            sides: tuple[int, int | None]
            sides, of_class = ((k, None), f"class {data.classes[k]} against the rest, ") if many else ((1, 0), "")
            for number_, (each, (i, j, t)) in enumerate(zip(path.ranges, path.mixes, strict=True)):
                coef, b = path.model(number_)
                beta = np.clip(mixed_coef(betas[i], betas[j], t), 0.0, base.loss.upper_bound())
                for C in (each.Cs[0], each.Cs[-1]):
                    l2, l1 = penalties(C, float(self.l1_ratios_[0]), total)
                    title = f"{of_class}model {number_} at C = {C:.17g}, an end of its range"
                    parts.append(
                        BinaryPart(base.variant(l2=l2, l1=l1), coef, b, beta, None, sides[0], sides[1], title, each.at(C).primal)
                    )
        return table_of(self, data), parts

    def _fit_every_C(self, X: Any, y: np.ndarray, sample_weight: Any) -> list[list[np.ndarray]]:
        """Train models for a whole range of C; return the dual variables of the trained ones, for each class."""
        epsilon = check_guarantee(self.guarantee)
        whole_number("max_iter", self.max_iter)
        data = Labelled(X, y, sample_weight, self.class_weight)
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
        self.classes_ = data.classes
        keep_guaranteed(self, [path for path, _ in found], [result for _, results in found for result in results])
        coefs = [path.coefs for path, _ in found]
        self.coefs_ = coefs[0] if len(found) == 1 else coefs
        self.coef_ = np.stack([each[-1] for each in coefs])
        self.intercept_ = np.array([path.intercepts[-1] for path, _ in found])
        return [[result.dual for result in results] for _, results in found]

    def model_at(self, C: float) -> LinearSVC:
        """Return the model that is proven at C, as a fitted LinearSVC with its certificate; needs `guarantee`.

        Parameters
        ----------
        C : float
            Any value from the least to the largest of `Cs`.
        """
        check_is_fitted(self)
        paths = guaranteed_paths(self)
        C = number("C", C)
        model = LinearSVC(
            C=C,
            l1_ratio=float(self.l1_ratios_[0]),
            loss=self.loss,
            delta=self.delta,
            fit_intercept=self.fit_intercept,
            intercept=self.intercept,
            intercept_scaling=self.intercept_scaling,
            class_weight=self.class_weight,
            max_iter=self.max_iter,
            solver=self.solver,
            random_state=self.random_state,
        )
        parts = [path.model(path.index(C)) for path in paths]
        fitted_at(model, self, [path.certificate(C) for path in paths])
        model.coef_, model.intercept_ = np.stack([coef for coef, _ in parts]), np.array([b for _, b in parts])
        model.n_iter_ = self.n_iter_
        return model

    def plot_guarantee(self, ax: Any = None, label: Any = None) -> Any:
        """Draw how far from the optimum the models are at most, over C; returns matplotlib's axes. Needs `guarantee`.

        With more than two classes, `label` says which class against the rest is drawn (the first one unless told).
        """
        check_is_fitted(self)
        return draw_guarantee(self, ax, label)

    def _trace(self, X: Any, y: np.ndarray, sample_weight: Any) -> list[list[list[Point]]]:
        """The points of the path of each class against the rest (of two classes: of one), for each l1_ratio those of every C.

        Sets the grid and the classes.
        """
        tol, seed = number("tol", self.tol, "[0, 1]"), fit_seed(self.random_state)
        whole_number("max_iter", self.max_iter)
        data = Labelled(X, y, sample_weight, self.class_weight)
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        for ratio in self.l1_ratios_:
            number("l1_ratios", float(ratio), "[0, 1]")
        bases = self._bases(data)
        self.classes_ = data.classes
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

    def _bases(self, data: Labelled) -> list[tuple[Problem, float]]:
        """The problem of all points of each class against the rest but for its penalty, and the sum of its weights."""
        one_of("intercept", self.intercept, ("free", "penalised"))
        kind = self.intercept if self.fit_intercept else "none"
        scale = number("intercept_scaling", self.intercept_scaling)
        sides = [data.one_against_rest(k) for k in ([1] if len(data.classes) == 2 else range(len(data.classes)))]
        first = Problem(data.X, sides[0].signs, self.loss, self.delta, 1.0, 0.0, sides[0].weights, kind, intercept_scale=scale)
        bases = [first, *(first.variant(side.signs, side.weights, l2=1.0, l1=0.0) for side in sides[1:])]
        return [(base, side.total) for base, side in zip(bases, sides, strict=True)]

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
        slopes(base.loss, base.y * best_intercept(base, zero), beta)
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
        self.status_ = warn_unless_converged(type(self).__name__, flat, self.tol, stacklevel=4)

    def _bound_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[Any]:
        """Return the problems of the point in use, one for each class against the rest."""
        if getattr(self, "guarantee", None) is not None:
            raise ProofError(
                "a path with a guarantee proves no labels: its models are within a range of the optimum; fit a LinearSVC at one C"
            )
        parts = self._parts(X, y, sample_weight, duals)[1]
        if hasattr(self, "proven_"):  # a certified cross-validation, which trains its winner alone on all rows
            return parts
        i, j = self._place
        return parts[i * len(self.Cs_) + j :: len(self.l1_ratios_) * len(self.Cs_)]

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return as_features(validated_rows(self, X), columns=self.n_features_in_)

    def _loss(self) -> Any:
        return classification_loss(self.loss, self.delta)

    def _use(self, i: int, j: int) -> None:
        self._place = i, j
        self.__dict__.pop("_balls", None)  # of another point
        self.coef_ = self.coefs_[i, j].reshape(-1, self.coefs_.shape[-1]).copy()
        self.intercept_ = np.atleast_1d(self.intercepts_[i, j]).copy()

    def plot_path(self, l1_ratio: float | None = None, ax: Any = None, label: Any = None) -> Any:
        """Draw the coefficients over C for one l1_ratio (the first one unless told); returns matplotlib's axes.

        With more than two classes, `label` says which class against the rest is drawn (the first one unless told).
        """
        import matplotlib.pyplot as plt

        i = 0 if l1_ratio is None else int(np.argmin(np.abs(self.l1_ratios_ - l1_ratio)))
        coefs, gaps, of_class = self.coefs_[i], self.dual_gaps_[i] / self.objectives_[i], ""
        if coefs.ndim == 3:
            labels = self.classes_.tolist()
            k = labels.index(one_of("label", labels[0] if label is None else label, labels))
            coefs, gaps, of_class = coefs[:, k], gaps[:, k], f"{labels[k]} against the rest, "
        ax = ax or plt.gca()
        ax.semilogx(self.Cs_, coefs)
        ax.axhline(0.0, color="0.7", linewidth=0.8)
        ax.set_xlabel("C")
        ax.set_ylabel("coefficient")
        ax.set_title(f"{of_class}l1_ratio = {self.l1_ratios_[i]:g}; relative gaps at most {float(np.max(gaps)):.0e}")
        return ax

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _kept(problem: Problem, last: Point) -> np.ndarray:
    """Return which features may be other than zero in the minimiser, by what the last model and dual point prove."""
    b = best_intercept(problem, scores_of(problem, last.coef))
    kept = ~zero_features(problem, last.coef, b, last.dual)
    forget_scores(problem)
    return kept
