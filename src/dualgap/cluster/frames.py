"""Dask data frames with columns that are not numbers: prepared on the workers as the columns of table files are.

A random sample of the rows teaches the preparation; every worker then applies it to its own rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.cluster.inputs import delayed_parts
from dualgap.core import needs
from dualgap.data import Notes, Preparation

__all__ = ["has_words", "prepare_frame", "to_polars"]

SAMPLE_ROWS = 200_000  # rows that a preparation is learned from; a smaller frame is used whole
TARGET = "the labels"  # stands where a table file has the name of its label column


def has_words(X: Any) -> bool:
    """Return whether X is a data frame with a column that is not numeric: text, categories, dates."""
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return False
    from pandas.api.types import is_numeric_dtype

    return not all(is_numeric_dtype(kind) for kind in X.dtypes)


def prepare_frame(X: Any, y: Any, sample_weight: Any, client: Any, seed: int, task: str) -> tuple[list[Any], Preparation]:
    """Return delayed parts (features, y) or (features, y, sample_weight), and the preparation that made them for classes or targets."""
    import dask

    parts = delayed_parts(X, y, sample_weight)
    most = -(-SAMPLE_ROWS // len(parts))
    drawn = [dask.delayed(_draw)(part[0], part[1], most, [seed, k]) for k, part in enumerate(parts)]
    preparation = _learn(client.gather(client.compute(drawn)), seed, task)
    shared = dask.delayed(preparation)
    return [dask.delayed(_encode)(shared, *part) for part in parts], preparation


def to_polars(frame: Any) -> Any:
    """Return a pandas data frame as one of polars, without its index."""
    try:
        import polars as pl
    except ImportError:
        raise ImportError(f"{needs('preparing columns that are not numbers', 'polars')}, here and on the workers") from None
    return frame if isinstance(frame, pl.DataFrame) else pl.from_pandas(frame.rename(columns=str), include_index=False)


def _draw(frame: Any, y: Any, most: int, seed: list[int]) -> tuple[int, Any, np.ndarray]:
    """Return how many rows a part has, and at most `most` of them drawn at random, with their labels."""
    labels = np.asarray(y).reshape(-1)
    chosen = np.arange(len(labels))
    if len(chosen) > most:
        chosen = np.random.default_rng(seed).choice(chosen, most, replace=False)
    return len(labels), to_polars(frame.iloc[chosen]), labels[chosen]


def _learn(drawn: list[tuple[int, Any, np.ndarray]], seed: int, task: str) -> Preparation:
    """Learn from rows of all parts, each part by the share that it has of all rows."""
    import polars as pl

    rate = min((len(labels) / rows for rows, _, labels in drawn if rows), default=0.0)
    if rate == 0.0:
        raise ValueError("the data frame has no rows")
    frames, labels = [], []
    for k, (rows, frame, own) in enumerate(drawn):
        kept = np.random.default_rng([seed, k, 1]).permutation(len(own))[: max(round(rate * rows), min(rows, 1))]
        frames.append(frame[np.sort(kept)])
        labels.append(own[np.sort(kept)])
    whole = pl.concat([frame for frame in frames if frame.height], how="vertical_relaxed")
    return Preparation(TARGET).fit(whole, np.concatenate(labels))


def _encode(preparation: Preparation, frame: Any, *vectors: Any) -> tuple[Any, ...]:
    """Return the features of a part beside its labels and weights."""
    return preparation.apply(to_polars(frame), Notes()), *vectors
