"""LinearSVC on a store, whose rows stay on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.problem import Problem

if TYPE_CHECKING:
    from dualgap.store import Store

__all__ = ["is_store", "problem_over", "store_labels"]


def is_store(X: Any) -> bool:
    """Whether X is a store. The room is not imported for the question: without it there is no store."""
    room = sys.modules.get("dualgap.store")
    return room is not None and isinstance(X, room.Store)


def problem_over(X: Any, signs: np.ndarray, *args: Any, **options: Any) -> Problem:
    """A problem over what an estimator was given: rows in memory, or a store."""
    if not is_store(X):
        return Problem(X, signs, *args, **options)
    from dualgap.store import StoreProblem

    return StoreProblem(X, *args, y=signs, **options)


def store_labels(estimator: Any, store: Store, y: Any) -> np.ndarray:
    """The labels of a store, after a look at what does not go with one."""
    if y is not None:
        raise ValueError("y beside a store: a store has its own labels; leave y out")
    if estimator.multi_class != "ovr":
        raise ValueError(f"multi_class={estimator.multi_class!r} needs all rows in memory; a store takes 'ovr'")
    estimator.n_features_in_ = store.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)
    return store.labels()
