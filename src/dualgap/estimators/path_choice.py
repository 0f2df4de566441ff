"""The point of a path that does best in cross-validation, for classes and for targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import _safe_indexing

from dualgap.estimators.guaranteed_fit import forget_path
from dualgap.estimators.linear_path import LinearPath, Point
from dualgap.estimators.proving import Kept

__all__ = ["OF_THE_CHOICE", "PathChoice"]

OF_THE_CHOICE = ("cv", "scoring", "n_jobs", "certified")  # parameters that a path does not have


class PathChoice(LinearPath):
    """Cross-validation over the points of a path. Subclasses make the folds, the path of a fold and the model of a point."""

    n_jobs: int | None

    def _splits(self, X: Any, y: np.ndarray) -> list[tuple[Any, Any]]:
        """Return the training and the validation rows of each fold."""
        raise NotImplementedError

    def _scorer(self) -> Any:
        """Return what scores a model on validation rows."""
        raise NotImplementedError

    def _path(self) -> Any:
        """Return the path estimator of a fold, with the same parameters."""
        raise NotImplementedError

    def _model_of(self, path: Any, points: Sequence[Point]) -> Any:
        """Return an estimator as if it had been fitted at these points of a path, one for each of its problems; for scorers."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train the path on all the data, choose a point by cross-validation, and keep its model."""
        given = (X, y, sample_weight)
        X, y = self._checked(X, y)
        forget_path(self)
        splits = self._splits(X, y)
        points = self._trace(X, y, sample_weight)
        scorer = self._scorer()
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
        part = self._path()
        part.Cs = self.Cs_
        points = part._trace(_safe_indexing(X, train), y[train], None if weights is None else weights[train])
        held_X, held_y = _safe_indexing(X, test), y[test]
        alike = [
            zip(*rows, strict=True) for rows in zip(*points, strict=True)
        ]  # the points of all problems at one place of the grid
        return [[scorer(self._model_of(part, here), held_X, held_y) for here in row] for row in alike]
