"""DataSet: samples and labels with their name and provenance, their splits, scaling and balance; and the error that `data/` raises.

Nothing here reads, fetches or makes data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualgap.core import is_sparse, number

__all__ = [
    "DataError",
    "DataSet",
    "MissingFile",
    "hold_out",
    "integer_labels",
    "split_indices",
    "standardise",
    "undersample",
]


class DataError(ValueError):
    """Data that cannot be read, found or trusted; the message says which, where, and what would be right.

    Examples
    --------
    >>> from dualgap.data.dataset import DataError
    >>> from dualgap.data import load
    >>> try:
    ...     load("breast-cancre")
    ... except DataError as error:
    ...     print(error)
    there is no data set 'breast-cancre'; did you mean 'breast-cancer'? dualgap.data.names() lists them all
    """


class MissingFile(DataError):
    """A file of a known data set is nowhere to be found; the message says what to fetch, from where, and where to put it."""


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Samples with labels, perhaps a test part, and where they come from.

    Parameters
    ----------
    name : str
        What figures and tables call it.
    X : array or CSR matrix of shape (n, d)
    y : array of n labels
        As the source has them: numbers or strings, two classes or more.
    X_test, y_test : optional
        The test part that the source itself sets apart; None where there is none.
    description, source, licence : str
    generated : bool
        True for data drawn from a random generator rather than measured; figures say so.
    feature_names : tuple of str, optional

    Examples
    --------
    >>> from dualgap.data.dataset import DataSet
    >>> data = DataSet("tiny", [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], ["a", "b", "b"])
    >>> data
    DataSet('tiny', 3 × 2, 2 classes)
    >>> data.counts
    {'a': 1, 'b': 2}
    """

    name: str
    X: Any
    y: Any
    X_test: Any = None
    y_test: Any = None
    description: str = ""
    source: str = ""
    licence: str = ""
    generated: bool = False
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for part in ("X", "X_test"):
            value = getattr(self, part)
            if value is not None and not is_sparse(value):
                object.__setattr__(self, part, np.asarray(value))
        for part in ("y", "y_test"):
            if getattr(self, part) is not None:
                object.__setattr__(self, part, np.asarray(getattr(self, part)))
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(str(name) for name in self.feature_names))
        self._check()

    def _check(self) -> None:
        if (self.X_test is None) != (self.y_test is None):
            raise DataError(f"{self.name}: give both X_test and y_test, or neither")
        for X, y, part in ((self.X, self.y, ""), (self.X_test, self.y_test, "_test")):
            if X is None:
                continue
            if X.ndim != 2:
                raise DataError(f"{self.name}: X{part} has {X.ndim} dimension(s); it must have two, one row a sample")
            if y.shape != (X.shape[0],):
                raise DataError(f"{self.name}: y{part} has shape {y.shape}, but X{part} has {X.shape[0]} rows")
            if X.shape[1] != self.X.shape[1]:
                raise DataError(f"{self.name}: X_test has {X.shape[1]} columns, but X has {self.X.shape[1]}")
        if self.feature_names is not None and len(self.feature_names) != self.X.shape[1]:
            raise DataError(f"{self.name}: {len(self.feature_names)} feature names for {self.X.shape[1]} columns")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return is_sparse(self.X)

    @property
    def has_test(self) -> bool:
        """Whether the source sets a test part apart."""
        return self.X_test is not None

    @property
    def classes(self) -> np.ndarray:
        """The distinct labels of y, sorted."""
        return np.unique(self.y)

    @property
    def counts(self) -> dict[Any, int]:
        """How many samples each class has in y."""
        classes, counts = np.unique(self.y, return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    @property
    def label(self) -> str:
        """The name as a figure shows it: generated data are marked as such."""
        return f"{self.name} (generated)" if self.generated else self.name

    def with_(self, **changes: Any) -> DataSet:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        rows, columns = self.shape
        parts = [f"{rows:,} × {columns:,}" + (" sparse" if self.is_sparse else ""), f"{len(self.classes)} classes"]
        if self.has_test:
            parts.append(f"{self.X_test.shape[0]:,} test rows")
        if self.generated:
            parts.append("generated")
        return f"DataSet({self.name!r}, {', '.join(parts)})"


def integer_labels(y: np.ndarray) -> np.ndarray:
    """Return labels as int64 where all of them are whole, so that a class is called 1 and not 1.0."""
    if y.dtype.kind == "f" and y.size and np.isfinite(y).all() and (y == np.round(y)).all() and np.abs(y).max() < 2**53:
        return y.astype(np.int64)
    return y


# ------------------------------------------------- learned from the training part alone, then applied to any other


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
