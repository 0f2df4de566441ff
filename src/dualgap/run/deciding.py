"""Deciding: rows that end a run once all of their labels are proven to be those of the exact model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualgap.problem import Problem
from dualgap.proof import ball_of
from dualgap.run.stepper import Best

__all__ = ["Deciding", "decide_rows"]

# Relative gap above which no ball is computed; at 0.05 it proved at most 1 % of the labels of breast cancer, of a9a none.
HOPELESS = 0.3


class Deciding:
    """Which rows are open. An evaluation looks at these alone; once none is left, at all rows again, with the model of the moment.

    Sets: `open`, `share` in `update`. The exact model does not move, so a row that was decided stays so; but the label of the model that
    is returned must be the decided one, which the last look makes sure of.

    Parameters
    ----------
    X : the rows, checked
    prove : function from the best model so far to a function that says which labels of some rows are proven
    """

    def __init__(self, X: Any, prove: Callable[[Best], Callable[[Any], np.ndarray]]) -> None:
        self.X, self.prove = X, prove
        self.open = np.ones(X.shape[0], dtype=bool)

    @property
    def share(self) -> float:
        """The share of rows whose labels are proven."""
        return 1.0 - float(self.open.mean())

    def update(self, best: Best, relative_gap: float) -> bool:
        """Look at the open rows; return whether the labels of all rows are proven."""
        if not relative_gap <= HOPELESS:
            return False
        proven = self.prove(best)
        rows = np.flatnonzero(self.open)
        self.open[rows] = ~proven(self.X if len(rows) == len(self.open) else self.X[rows])
        if not self.open.any() and len(rows) < len(self.open):
            self.open = ~proven(self.X)
        return not self.open.any()


def decide_rows(problem: Problem, X: object) -> Deciding:
    """Return the rows that decide the end of a run on a problem with two classes, after a look at what does not go with it."""
    if problem.is_regression:
        raise ValueError("decide is for classification: it ends a run once labels are proven, and a regression has none")
    if problem.l2 == 0.0:
        raise ValueError("decide needs l2 > 0: without an l2 penalty the gap does not bound the distance from the exact model")
    if problem.streaming:
        raise ValueError("decide needs the training rows in memory; a store has them on disk")
    if problem.kernel is not None and problem.kernel.name == "precomputed":
        raise ValueError("decide does not go with a kernel matrix, which has no k(x, x) of the rows; give the rows and the kernel")

    def prove(best: Best) -> Callable[[Any], np.ndarray]:
        beta = np.zeros(problem.n) if best.beta is None else best.beta
        ball = ball_of(problem, best.coef, float(best.intercept), beta)

        def proven(rows: Any) -> np.ndarray:
            low, high = ball.bounds(rows)
            return np.where(problem.decision(rows, best.coef, float(best.intercept)) > 0.0, low > 0.0, high <= 0.0)

        return proven

    return Deciding(problem.features(X, "decide"), prove)
