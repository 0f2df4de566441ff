"""Predictions on Dask arrays and data frames: as lazy as the data, block by block, so that nothing is ever all in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.common import plain_rows
from dualgap.problem import is_dask

__all__ = ["LazyPredictionMixin"]


class LazyPredictionMixin:
    """`decision_function`, `predict` and `score` that return Dask arrays for Dask data; other data go to the classes after it.

    Stands before scikit-learn's LinearClassifierMixin among the bases of a linear classifier.
    """

    coef_: Any
    intercept_: np.ndarray
    classes_: np.ndarray

    def decision_function(self, X: Any) -> Any:
        """Return the scores of samples: for two classes one each, else one for each class. Lazy on Dask data."""
        rows = self._plain(X)
        if rows is not None:
            return _scores(rows, self.coef_, self.intercept_, self.classes_)
        X = self._prepared(X)
        if not is_dask(X):
            return super().decision_function(X)  # type: ignore[misc]
        check_is_fitted(self)
        models = len(self.intercept_)
        return _by_block(self, X, _scores, np.dtype(np.float64), None if models == 1 else models)

    def predict(self, X: Any) -> Any:
        """Return the labels of samples. Lazy on Dask data."""
        X = self._prepared(X)
        if not is_dask(X):
            return super().predict(X)  # type: ignore[misc]
        check_is_fitted(self)
        return _by_block(self, X, _labels, self.classes_.dtype, None)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy. On Dask data it is computed at once, block by block."""
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        import dask.array

        right = self.predict(X) == _as_array(y)
        if sample_weight is None:
            return float(right.mean().compute())
        weights = _as_array(sample_weight)
        total, weight = dask.compute((right * weights).sum(), weights.sum())
        return float(total / weight)

    def _plain(self, X: Any) -> np.ndarray | None:
        """Return rows that need no check, for a fitted model with a matrix of coefficients; else None."""
        coef = getattr(self, "coef_", None)
        return plain_rows(self, X) if type(coef) is np.ndarray and coef.ndim == 2 else None

    def _prepared(self, X: Any) -> Any:
        """Return a data frame's features where the fit has prepared the columns of one; other data as they are."""
        preparation = getattr(self, "preparation_", None)
        if preparation is None or not hasattr(X, "columns"):
            return X
        from dualgap.cluster import to_polars

        return X if is_dask(X) else preparation.apply(to_polars(X))


def _as_array(vector: Any) -> Any:
    return vector.to_dask_array() if hasattr(vector, "to_dask_array") else vector


def _by_block(model: Any, X: Any, compute: Callable[..., np.ndarray], dtype: np.dtype, columns: int | None) -> Any:
    """Return a Dask array of what `compute` makes of every block of rows; with `columns` of them, or one number a row."""
    if not hasattr(X, "ndim") and not hasattr(X, "map_partitions"):
        raise TypeError(
            f"predictions are lazy on Dask arrays and data frames; X is a {type(X).__name__}: call predict on each of its parts"
        )
    preparation = getattr(model, "preparation_", None) if hasattr(X, "map_partitions") else None
    if preparation is None and X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} features")
    settings = {"coef": model.coef_, "intercept": model.intercept_, "classes": model.classes_}
    if hasattr(X, "map_partitions"):
        meta = np.empty((0,) if columns is None else (0, columns), dtype=dtype)
        return X.map_partitions(_of_frame, compute, settings, preparation, meta=meta)
    whole = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    if columns is None:
        return whole.map_blocks(compute, **settings, dtype=dtype, drop_axis=1)
    return whole.map_blocks(compute, **settings, dtype=dtype, chunks=(whole.chunks[0], (columns,)))


def _of_frame(part: Any, compute: Callable[..., np.ndarray], settings: dict[str, Any], preparation: Any) -> np.ndarray:
    if preparation is None:
        return compute(part.to_numpy(), **settings)
    from dualgap.cluster import to_polars

    return compute(preparation.apply(to_polars(part)), **settings)


def _scores(block: Any, coef: Any, intercept: np.ndarray, classes: np.ndarray) -> np.ndarray:
    scores = np.asarray(block @ coef.T) + intercept
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _labels(block: Any, coef: Any, intercept: np.ndarray, classes: np.ndarray) -> np.ndarray:
    scores = _scores(block, coef, intercept, classes)
    codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
    return classes[codes]
