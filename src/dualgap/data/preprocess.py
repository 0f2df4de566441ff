"""Splits, scaling and balance: what is learned from the training part alone, then applied to any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core import number
from dualgap.data.dataset import DataError, DataSet

__all__ = ["hold_out", "split_indices", "standardise", "undersample"]


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


def standardise(data: DataSet) -> DataSet:
    """Scale a data set by its training part: dense data to mean 0 and deviation 1; sparse data stay as they are."""
    from sklearn.preprocessing import StandardScaler

    if data.is_sparse:
        return data
    scaler = StandardScaler().fit(data.X)
    return data.with_(X=scaler.transform(data.X), X_test=scaler.transform(data.X_test) if data.has_test else None)


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
