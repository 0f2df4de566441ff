"""LinearSVC and LinearSVR on a store, whose rows stay on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.estimators.common import small_as_dense
from dualgap.problem import Problem

if TYPE_CHECKING:
    from dualgap.store import Store

__all__ = ["is_store", "problem_over", "store_labels", "store_targets"]


def is_store(X: Any) -> bool:
    """Whether X is a store. The room is not imported for the question: without it there is no store."""
    room = sys.modules.get("dualgap.store")
    return room is not None and isinstance(X, room.Store)


def problem_over(X: Any, signs: np.ndarray, *args: Any, **options: Any) -> Problem:
    """A problem over what an estimator was given: rows in memory, or a store."""
    if not is_store(X):
        return Problem(small_as_dense(X), signs, *args, **options)
    from dualgap.store import StoreProblem

    return StoreProblem(X, *args, y=signs, **options)


def store_labels(estimator: Any, store: Store, y: Any) -> np.ndarray:
    """The labels of a store, after a look at what does not go with one."""
    _begin(estimator, store, y, "classification")
    if estimator.multi_class != "ovr":
        raise ValueError(f"multi_class={estimator.multi_class!r} needs all rows in memory; a store takes 'ovr'")
    return store.labels()


def store_targets(estimator: Any, store: Store, y: Any) -> np.ndarray:
    """The targets of a store, after a look at what does not go with one."""
    _begin(estimator, store, y, "regression")
    return store.labels()


def _begin(estimator: Any, store: Store, y: Any, task: str) -> None:
    if y is not None:
        raise ValueError("y beside a store: a store has its own labels; leave y out")
    if store.task != task:
        name = type(estimator).__name__
        raise ValueError(f"{name} is for {task}, and {store!r} was converted for {store.task}: convert the data with task={task!r}")
    estimator.n_features_in_ = store.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)
