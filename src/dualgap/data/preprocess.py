"""Splits, scaling and balance: what is learned from the training part alone, then applied to any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import is_sparse, number, one_of
from dualgap.data.dataset import DataError, DataSet

__all__ = ["Scaler", "class_weights", "fit_scaler", "hold_out", "split_indices", "standardise", "undersample"]


def split_indices(y: Any, test: float = 0.25, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers of a training and a test part with the classes in equal shares, each part in the original order.

    Every class with two samples or more has one at least in either part.
    """
    number("test", test, "(0, 1)", "a share between 0 and 1")
    y = np.asarray(y)
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        share = min(max(round(len(rows) * test), 1), len(rows) - 1)
        chosen[rng.permutation(rows)[: max(share, 0)]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def hold_out(data: DataSet, test: float = 0.25, seed: int = 0) -> DataSet:
    """Return the data set with a stratified test part taken from its rows; raise DataError if it has a test part."""
    if data.has_test:
        raise DataError(f"{data.name} has a test part of its own; use that one")
    train, held = split_indices(data.y, test, seed)
    return data.with_(X=data.X[train], y=data.y[train], X_test=data.X[held], y_test=data.y[held])


@dataclass(frozen=True)
class Scaler:
    """x ↦ (x − centre) / scale, with a centre of None for data that must stay sparse."""

    centre: np.ndarray | None
    scale: np.ndarray

    def apply(self, X: Any) -> Any:
        """X scaled; in its own float type, sparse if X is."""
        if X.shape[1] != len(self.scale):
            raise ValueError(f"X has {X.shape[1]} columns, but the scaler was fitted on {len(self.scale)}")
        if not is_sparse(X):
            X = np.asarray(X)
            kind = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
            return ((X - (0.0 if self.centre is None else self.centre)) / self.scale).astype(kind, copy=False)
        if self.centre is not None:
            raise ValueError("subtracting a mean would make sparse data dense; fit the scaler by 'max-abs'")
        X = X.tocsr(copy=True)
        X.data = (X.data / self.scale[X.indices]).astype(X.data.dtype, copy=False)
        return X


def fit_scaler(X: Any, method: str = "standard") -> Scaler:
    """Learn a scaling: "standard" to mean 0 and deviation 1 (dense data), "max-abs" to a largest absolute value of 1 (any data).

    A column that does not vary is centred and left at its scale.
    """
    one_of("method", method, ("standard", "max-abs"))
    if method == "max-abs":
        largest = abs(X).max(axis=0)
        scale = np.asarray(largest.toarray() if is_sparse(largest) else largest, dtype=np.float64).reshape(-1)
        return Scaler(None, np.where(scale > 0, scale, 1.0))
    if is_sparse(X):
        raise ValueError("method='standard' would make sparse data dense; use method='max-abs'")
    X = np.asarray(X)
    centre = X.mean(axis=0, dtype=np.float64)
    scale = X.std(axis=0, dtype=np.float64)
    # A column that is constant up to rounding must not have its rounding errors scaled up.
    constant = scale <= 10 * np.finfo(np.float64).eps * np.maximum(np.abs(centre), np.finfo(np.float64).tiny)
    return Scaler(centre, np.where(constant, 1.0, scale))


def standardise(data: DataSet, method: str | None = None) -> DataSet:
    """Scale a data set by its training part: dense data to mean 0 and deviation 1; sparse data stay as they are.

    `method="max-abs"` scales sparse data as well.
    """
    if data.is_sparse and method is None:
        return data
    scaler = fit_scaler(data.X, method or "standard")
    return data.with_(X=scaler.apply(data.X), X_test=scaler.apply(data.X_test) if data.has_test else None)


def undersample(data: DataSet, ratio: float = 1.0, seed: int = 0) -> DataSet:
    """Drop training rows at random until no class has more than `ratio` times the rows of the smallest; the test part stays as it is."""
    number("ratio", ratio, "[1, inf]", "a number of at least 1")
    rng = np.random.default_rng(seed)
    least = min(data.counts.values())
    keep = np.zeros(len(data.y), dtype=bool)
    for label in data.classes:
        rows = np.flatnonzero(data.y == label)
        keep[rng.permutation(rows)[: int(least * ratio)]] = True
    rows = np.flatnonzero(keep)
    return data.with_(X=data.X[rows], y=data.y[rows])


def class_weights(y: Any) -> np.ndarray:
    """Return a weight for every sample that gives each class the same total, with mean one: n / (classes · size of its class)."""
    classes, place, counts = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    return (len(place) / (len(classes) * counts))[place]
