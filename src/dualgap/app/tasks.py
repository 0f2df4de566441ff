"""The two kinds of model that the commands train: classes or numbers. Each has the same methods."""

from __future__ import annotations

from typing import Any

from dualgap.app.classification import Classification
from dualgap.app.regression import Regression

__all__ = ["TASKS", "task_of"]

TASKS: dict[str, Any] = {kind.name: kind() for kind in (Classification, Regression)}


def task_of(estimator: Any) -> Any:
    """Return the kind of a fitted estimator."""
    return next(task for task in TASKS.values() if isinstance(estimator, task.estimator))
