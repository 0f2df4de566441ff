"""From the descriptions of all partitions and a user's options to the one objective that they share."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.cluster.partition import TARGETS, Description, Objective
from dualgap.cluster.worker_pool import WorkerPool
from dualgap.core import make_loss, make_penalty, number
from dualgap.problem import as_bounds, check_intercept
from dualgap.solvers import NotSupported
from dualgap.solvers.coordinate import free_scale

__all__ = ["DataStatistics", "make_objective"]


class DataStatistics:
    """Rows, features, and sums over the rows of all partitions by label; of targets, all under one name."""

    distance = 0.0  # of targets: their mean distance from the median
    at_zero: float | None = None  # of targets: the loss of w = 0

    def __init__(self, descriptions: dict[int, Description]) -> None:
        parts = [descriptions[k] for k in sorted(descriptions)]
        widths = sorted({part.features for part in parts})
        if len(widths) > 1:
            raise ValueError(f"partitions have {widths[0]} and {widths[-1]} features; all must have the same columns")
        self.features = widths[0]
        self.rows = [part.rows for part in parts]
        self.nbytes = sum(part.nbytes for part in parts)
        names = {label for part in parts for label in part.weights}
        if names == {TARGETS}:
            self._add_targets(parts)
            return
        try:
            self.classes = np.array(sorted(names))
        except TypeError:
            raise ValueError("labels mix numbers and text over the partitions; they must be of one kind") from None
        if len(names) < 2:
            raise ValueError(f"y has one class only, {self.classes.tolist()}; two are needed to train a classifier")
        labels = self.classes.tolist()
        self.weights = {label: sum(part.weights.get(label, 0.0) for part in parts) for label in labels}
        self.squares = {label: sum(part.squares.get(label, 0.0) for part in parts) for label in labels}
        empty = [label for label in labels if not self.weights[label] > 0]
        if empty:
            raise ValueError(f"sample_weight is zero for every sample of class {empty[0]!r}; leave those samples out")

    def _add_targets(self, parts: list[Description]) -> None:
        total = sum(part.weights[TARGETS] for part in parts)
        if not total > 0.0:
            raise ValueError("there is no row with a positive weight to train on")
        self.classes, self.weights = np.empty(0), {TARGETS: total}
        self.squares = {TARGETS: sum(part.squares[TARGETS] for part in parts)}
        self.distance = sum(part.distance for part in parts) / total
        self.at_zero = sum(part.at_zero or 0.0 for part in parts) / total


def make_objective(
    pool: WorkerPool,
    loss: Any = "hinge",
    delta: float | None = None,
    l2: float = 1e-4,
    l1: float = 0.0,
    intercept: str = "none",
    *,
    intercept_scale: float = 1.0,
    class_weight: dict[Any, float] | None = None,
    positive: Any = None,
    statistics: DataStatistics | None = None,
    bounds: Any = None,
    epsilon: float | None = None,
    quantile: float | None = None,
) -> tuple[Objective, np.ndarray]:
    """Make the objective over a pool's rows, and its two classes (none for a regression); parameters as for `dualgap.Problem`.

    Parameters
    ----------
    class_weight : mapping of labels to weights, optional
        On top of the samples' own; a label that is not in it has weight 1.
    positive : label, optional
        Of more than two classes, the one against the rest.
    statistics : DataStatistics, optional
        Of the same pool, where they have been collected already.
    """
    make_penalty(l2, l1)  # checks both
    if l2 == 0:
        raise NotSupported(
            "l1 alone (l2 = 0) leaves w undetermined by the dual variables that the workers hold; rounds need l2 > 0"
        )
    check_intercept(intercept, l2)
    made = make_loss(loss, delta, epsilon, quantile)
    statistics = statistics or DataStatistics(pool.call("describe", made))
    labels = statistics.classes.tolist() or [TARGETS]
    if positive is None and labels != [TARGETS]:
        if len(labels) != 2:
            raise ValueError(f"y has {len(labels)} classes; give positive=, the one against the rest, or use dualgap.LinearSVC")
        positive = labels[1]
    factors = {label: float((class_weight or {}).get(label, 1.0)) for label in labels}
    total = sum(factors[label] * statistics.weights[label] for label in labels)
    scale = number("intercept_scale", intercept_scale)
    if intercept == "free":
        mean_square = sum(factors[label] * statistics.squares[label] for label in labels) / total
        scale = free_scale(mean_square, float(l2), statistics.distance or 1.0)
    objective = Objective(
        loss=made,
        penalty=make_penalty(l2, l1, as_bounds(bounds, statistics.features)),
        l2=float(l2),
        intercept=intercept,
        scale=scale,
        positive=positive,
        class_weight={label: factors[label] / total for label in labels},
        partitions=pool.count,
        features=statistics.features,
        unit=statistics.distance or 1.0,
        at_zero=statistics.at_zero,
    )
    if labels == [TARGETS]:
        return objective, statistics.classes
    rest = [label for label in labels if label != positive]
    return objective, np.array([rest[0], positive]) if len(labels) == 2 else np.array([False, True])
