"""LinearSVCPathCV: the point of a path that does best in cross-validation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from dualgap.core import number, whole_number
from dualgap.estimators.certified_cv import Fold, contest, decide_one_against_rest, forget_outcome, held_out, keep_outcome
from dualgap.estimators.common import fit_seed, penalties, validated, warn_unless_converged
from dualgap.estimators.guaranteed_fit import fitted_at, forget_path
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.linear_path import Point
from dualgap.estimators.path import LinearSVCPath
from dualgap.estimators.path_choice import OF_THE_CHOICE, PathChoice
from dualgap.estimators.proving import Kept, table_of
from dualgap.proof import BinaryPart, ProofError
from dualgap.run import Result, minimise

__all__ = ["LinearSVCPathCV"]


class LinearSVCPathCV(PathChoice, LinearSVCPath):
    """The point of a path that does best in cross-validation.

    Parameters
    ----------
    Cs, l1_ratios, screen, loss, delta, fit_intercept, intercept, intercept_scaling, class_weight, tol, max_iter, solver, random_state
        As in `LinearSVCPath`. A number of Cs is turned into values on all the data, so that the folds share them.
    max_time : float, optional
        Seconds for each path.
    cv : int, splitter or list of splits
    scoring : str or function, optional
        As in scikit-learn; None is the accuracy.
    n_jobs : int, optional
        Threads over the folds.
    certified : bool
        Whether the choice is to be proven. Every fold's models are then trained on, from gap to gap, until it is proven which validation
        rows the exact models get right, as far as that decides which C is the best; a C that cannot win is dropped early. For the
        accuracy alone (scoring=None), l1_ratios below 1, and without `scores_` and the models of the grid.

    Attributes
    ----------
    C_, l1_ratio_ : the point that was chosen; of equally good ones that with the strongest penalty
    scores_ : array of shape (folds, l1_ratios, Cs)
    coef_, intercept_ : its model, trained on all the data
    Further attributes as in `LinearSVCPath`.

    With certified=True there are, in place of those of a grid:

    proven_ : whether the exact models of C_ and l1_ratio_ have the least mean validation error on this grid and these folds, proven
    verdict_ : the outcome in a sentence
    winners_ : list of (C, l1_ratio): those that tie with the chosen point or, unless proven_, cannot be told apart from it
    intervals_ : array of shape (folds, l1_ratios, Cs, 2): the least and the largest validation error of each exact model; those of a
        dropped point are as wide as they were when it was dropped
    gaps_ : array of shape (folds, l1_ratios, Cs): relative gaps that the models were trained to
    certificate_ : of the model on all the data; with more than two classes one for each

    Examples
    --------
    >>> from dualgap import LinearSVCPathCV
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 30, random_state=0)
    >>> model = LinearSVCPathCV(Cs=4, l1_ratios=1.0, cv=3, random_state=0).fit(X, y)
    >>> model.scores_.shape, model.C_ in model.Cs_
    ((3, 1, 4), True)

    A choice that is proven:

    >>> model = LinearSVCPathCV(Cs=[0.01, 0.1, 1.0], l1_ratios=0.0, cv=3, certified=True, random_state=0).fit(X, y)
    >>> print(model.verdict_)
    C = ...: proven best of 3 settings on these 3 folds...
    """

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
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
        certified: bool = False,
    ) -> None:
        super().__init__(
            Cs,
            l1_ratios=l1_ratios,
            screen=screen,
            loss=loss,
            delta=delta,
            fit_intercept=fit_intercept,
            intercept=intercept,
            intercept_scaling=intercept_scaling,
            class_weight=class_weight,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            solver=solver,
            random_state=random_state,
        )
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.certified = certified

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVCPathCV:
        """Train the path on all the data, choose a point by cross-validation, and keep its model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : n labels
        sample_weight : n numbers, optional; used in training, not in scoring
        """
        forget_outcome(self)
        return self._fit_proven(X, y, sample_weight) if self.certified else self._fit(X, y, sample_weight)

    def _fit_proven(self, X: Any, y: Any, sample_weight: Any) -> Self:
        given = (X, y, sample_weight)
        X, y = self._checked(X, y)
        forget_path(self)
        self._kept = Kept(*given, self._fit_certified(X, y, sample_weight, self._splits(X, y)))
        return self

    def _splits(self, X: Any, y: np.ndarray) -> list[tuple[Any, Any]]:
        return list(check_cv(self.cv, y, classifier=True).split(X, y))

    def _scorer(self) -> Any:
        return check_scoring(LinearSVC(), scoring=self.scoring)

    def _path(self) -> LinearSVCPath:
        return LinearSVCPath(**{k: v for k, v in self.get_params().items() if k not in OF_THE_CHOICE})

    def _model_of(self, path: Any, points: Sequence[Point]) -> LinearSVC:
        model = LinearSVC()
        model.classes_ = path.classes_
        model.coef_ = np.stack([point.coef for point in points])
        model.intercept_ = np.array([point.intercept for point in points])
        model.n_features_in_ = model.coef_.shape[1]
        return model

    def _fit_certified(self, X: Any, y: np.ndarray, sample_weight: Any, splits: list[tuple[Any, Any]]) -> list[np.ndarray]:
        """Choose a point by a proof, and train its model; return the model's dual variables, for each class."""
        if self.scoring not in (None, "accuracy"):
            raise ValueError(f"scoring={self.scoring!r} must be None with certified=True: what is proven is the accuracy")
        number("tol", self.tol, "[0, 1]")
        max_epochs, seed = whole_number("max_iter", self.max_iter), fit_seed(self.random_state)
        until = None if self.max_time is None else time.perf_counter() + number("max_time", self.max_time)
        data = Labelled(X, y, sample_weight, self.class_weight)
        self.l1_ratios_ = np.atleast_1d(np.asarray(self.l1_ratios, dtype=float))
        for ratio in self.l1_ratios_:
            wanted = "a number in [0, 1) with certified=True: without an l2 part a gap does not say where the exact model is"
            number("l1_ratios", float(ratio), "[0, 1)", wanted)
        bases = self._bases(data)
        self.Cs_ = min((self._grid(base, total) for base, total in bases), key=lambda Cs: float(Cs[0]))
        # Among equals the smallest C comes first, and of its ratios the first one.
        points = [(float(C), float(ratio)) for C in self.Cs_ for ratio in self.l1_ratios_]
        weights = data.weights
        folds = [self._certified_fold(X, y, weights, train, test, points, (max_epochs, seed)) for train, test in splits]
        outcome = contest(folds, len(points), self.n_jobs, until)
        keep_outcome(
            self, outcome, [f"C = {C:.6g}" + (f", l1_ratio = {r:g}" if len(self.l1_ratios_) > 1 else "") for C, r in points]
        )
        shape = (len(splits), len(self.Cs_), len(self.l1_ratios_))
        self.intervals_ = np.moveaxis(outcome.intervals.reshape(*shape, 2), 1, 2)
        self.gaps_ = np.moveaxis(outcome.gaps.reshape(shape), 1, 2)
        self.winners_ = [points[k] for k in outcome.left]
        self.C_, self.l1_ratio_ = points[outcome.best]
        self.classes_ = data.classes
        results = []
        for base, total in bases:
            l2, l1 = penalties(self.C_, self.l1_ratio_, total)
            results.append(minimise(base.variant(l2=l2, l1=l1), self.solver, self.tol, max_epochs, None, seed))
        self.n_iter_ = max(r.epochs for r in results)
        fitted_at(self, self, [r.certificate for r in results])
        self.coef_, self.intercept_ = np.stack([r.coef for r in results]), np.array([r.intercept for r in results])
        self.status_ = warn_unless_converged(type(self).__name__, results, self.tol, stacklevel=5)
        return [r.dual for r in results]

    def _certified_fold(
        self, X: Any, y: np.ndarray, weights: Any, train: Any, test: Any, points: list[tuple[float, float]], budget: tuple[int, int]
    ) -> Fold:
        """Return a fold of the contest: its problems of every class against the rest, its validation rows."""
        data = Labelled(_safe_indexing(X, train), y[train], None if weights is None else weights[train], self.class_weight)
        bases, rows, codes = self._bases(data), _safe_indexing(X, test), held_out(data.classes, y[test])
        max_epochs, seed = budget

        def solve(k: int, warm: Any, tol: float, seconds: float | None) -> list[Result]:
            found = []
            for m, (base, total) in enumerate(bases):
                l2, l1 = penalties(*points[k], total)
                start = None if warm is None else warm[m]
                found.append(minimise(base.variant(l2=l2, l1=l1), self.solver, tol, max_epochs, seconds, seed, warm_start=start))
            return found

        def decide(results: list[Result]) -> tuple[np.ndarray, np.ndarray]:
            return decide_one_against_rest([r.decision_bounds(rows) for r in results], codes)

        return Fold(len(test), solve, decide)

    def _parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> tuple[Any, list[Any]]:
        if not hasattr(self, "proven_"):
            return super()._parts(X, y, sample_weight, duals)
        X, y = validated(self, X, y, reset=False)
        data = Labelled(X, y, sample_weight, self.class_weight)
        if duals is None:
            raise ProofError("this model was loaded from a file without its dual variables; fit it again to write its proof")
        parts, many = [], len(data.classes) > 2
        for k, (base, total) in enumerate(self._bases(data)):
            l2, l1 = penalties(self.C_, self.l1_ratio_, total)
            sides, title = ((k, None), f"class {data.classes[k]} against the rest") if many else ((1, 0), "")
            primal = float(np.atleast_1d(self.objective_)[k])
            model = self.coef_[k], float(self.intercept_[k]), duals[k]
            parts.append(BinaryPart(base.variant(l2=l2, l1=l1), *model, None, sides[0], sides[1], title, primal))
        return table_of(self, data), parts
