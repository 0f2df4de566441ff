"""LinearSVCPathCV: the point of a path that does best in cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from dualgap.estimators.common import check_labels, validated
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.path import LinearSVCPath, Point
from dualgap.estimators.proving import Kept

__all__ = ["LinearSVCPathCV"]


class LinearSVCPathCV(LinearSVCPath):
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

    Attributes
    ----------
    C_, l1_ratio_ : the point that was chosen; of equally good ones that with the strongest penalty
    scores_ : array of shape (folds, l1_ratios, Cs)
    coef_, intercept_ : its model, trained on all the data
    Further attributes as in `LinearSVCPath`.

    Examples
    --------
    >>> from dualgap import LinearSVCPathCV
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 30, random_state=0)
    >>> model = LinearSVCPathCV(Cs=4, l1_ratios=1.0, cv=3, random_state=0).fit(X, y)
    >>> model.scores_.shape, model.C_ in model.Cs_
    ((3, 1, 4), True)
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVCPathCV:
        """Train the path on all the data, choose a point by cross-validation, and keep its model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : n labels
        sample_weight : n numbers, optional; used in training, not in scoring
        """
        given = (X, y, sample_weight)
        X, y = validated(self, X, y)
        check_labels(y)
        points = self._trace(X, y, sample_weight)
        splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
        scorer = check_scoring(LinearSVC(), scoring=self.scoring)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        self.scores_ = np.array(
            Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(self._fold)(X, y, weights, train, test, scorer) for train, test in splits
            )
        )
        self._keep(points)
        self._kept = Kept(*given, [[[p.dual for p in row] for row in grid] for grid in points])
        mean = self.scores_.mean(axis=0)
        # By columns of C, so that among equals the smallest C, the strongest penalty, comes first.
        j, i = np.unravel_index(int(np.argmax(mean.T)), mean.T.shape)
        self.C_, self.l1_ratio_ = float(self.Cs_[j]), float(self.l1_ratios_[i])
        self._use(int(i), int(j))
        return self

    def _fold(self, X: Any, y: np.ndarray, weights: Any, train: Any, test: Any, scorer: Any) -> list[list[float]]:
        part = LinearSVCPath(**{k: v for k, v in self.get_params().items() if k not in ("cv", "scoring", "n_jobs")})
        part.Cs = self.Cs_
        points = part._trace(_safe_indexing(X, train), y[train], None if weights is None else weights[train])
        held_X, held_y = _safe_indexing(X, test), y[test]
        alike = [
            zip(*rows, strict=True) for rows in zip(*points, strict=True)
        ]  # the points of all classes at one place of the grid
        return [[scorer(_model(part.classes_, here), held_X, held_y) for here in row] for row in alike]


def _model(classes: np.ndarray, points: Sequence[Point]) -> LinearSVC:
    """A LinearSVC as if it had been fitted at these points, one for each of its problems; for scorers."""
    model = LinearSVC()
    model.classes_ = classes
    model.coef_ = np.stack([point.coef for point in points])
    model.intercept_ = np.array([point.intercept for point in points])
    model.n_features_in_ = model.coef_.shape[1]
    return model
