"""Training data of a regression: targets, a column each, and sample weights; and the fitted attributes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from dualgap.core import is_sparse
from dualgap.problem import Problem, as_vector, as_weights
from dualgap.proof import Table, TargetPart

__all__ = ["NUMERIC", "Targets", "supports", "target_parts"]

NUMERIC = {"multi_output": True, "y_numeric": True}  # options of scikit-learn's check_X_y


class Targets:
    """X with targets of shape (n, k) and weights, checked; `flat` says that y was one-dimensional, or one column."""

    def __init__(self, X: Any, y: Any, sample_weight: Any, n: int | None = None) -> None:
        self.X, self.n = X, X.shape[0] if n is None else n
        y = y.toarray() if is_sparse(y) else np.asarray(y)
        if y.ndim not in (1, 2):
            raise ValueError(f"y has shape {y.shape}; it must have one target a sample, or a column for each target")
        if y.ndim == 2 and y.shape[1] == 1:  # scikit-learn warns of it, and predicts in one dimension
            y = column_or_1d(y, warn=True)
        self.flat = y.ndim == 1
        columns = [as_vector(column, "y", self.n) for column in np.atleast_2d(y.T)]
        self.values = np.stack(columns, axis=1)
        self.weights = None if sample_weight is None else as_weights(sample_weight, self.n)
        self.total = float(self.n if self.weights is None else self.weights.sum())

    @property
    def count(self) -> int:
        """How many targets there are."""
        return self.values.shape[1]

    def names(self) -> list[str]:
        """Return what the problems of a fit are called."""
        return ["fit"] if self.count == 1 else [f"target {j}" for j in range(self.count)]

    def shown(self) -> dict[str, Any]:
        """Return the data as scikit-learn's callbacks take them."""
        y = self.values[:, 0] if self.flat else self.values
        return {"X": self.X, "y": y, "metadata": {} if self.weights is None else {"sample_weight": self.weights}}


def supports(signed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with a dual variable other than 0 for some target, and how many each target has."""
    return np.flatnonzero(signed.any(axis=0)), np.count_nonzero(signed, axis=1).astype(np.int32)


def target_parts(
    model: Any, problems: Sequence[Problem], coefs: Sequence[np.ndarray], duals: Sequence[np.ndarray], kept: bool
) -> tuple[Table, list[TargetPart]]:
    """Return the data as a proof describes them, and the parts of a regression. The gaps are those of the fit if its duals were kept."""
    gaps, objectives = np.atleast_1d(model.dual_gap_), np.atleast_1d(model.objective_)
    found = zip(problems, coefs, model.intercept_.tolist(), duals, gaps.tolist(), objectives.tolist(), strict=True)
    parts = [
        TargetPart(problem, coef, b, dual, gap if kept else None, j, f"target {j}", objective)
        for j, (problem, coef, b, dual, gap, objective) in enumerate(found)
    ]
    return Table(problems[0].X, np.stack([problem.targets for problem in problems], axis=1), []), parts
