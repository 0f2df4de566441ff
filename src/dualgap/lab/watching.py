"""Watching a run: its models along the way, on a plane that can be drawn: two features, or two principal components of more."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dualgap.lab.prepare import Prepared
from dualgap.problem import Problem
from dualgap.run import Progress

__all__ = ["Watching"]

MOST_POINTS = 300  # rows that are shown
MOST_LOOKS = 40  # models that are shown
MOST_FEATURES = 2000  # of dense data whose components are computed


class Watching:
    """Collects, at each evaluation, the line score = 0 of the model on the plane, and which rows are inside the margin.

    With more than two features the plane passes through the mean of the rows along their first two principal components; the line is
    where the model's score is zero on that plane. Kernel models and wide or sparse data have no such picture: `seen` is then None.
    """

    def __init__(self, problem: Problem, data: Prepared) -> None:
        X = data.X
        self.able = problem.kernel is None and not sparse.issparse(X) and X.shape[1] <= MOST_FEATURES and X.shape[1] >= 2
        self.looks: list[dict[str, Any]] = []
        if not self.able:
            return
        d = X.shape[1]
        if d == 2:
            self.centre, self.axes, self.names = np.zeros(2), np.eye(2), ["x₁", "x₂"]
        else:
            self.centre = np.asarray(X.mean(axis=0), dtype=np.float64)
            covariance = np.cov(np.asarray(X, dtype=np.float64), rowvar=False)
            _, vectors = np.linalg.eigh(covariance)
            self.axes, self.names = vectors[:, ::-1][:, :2].T, ["first principal component", "second principal component"]
        chosen = np.sort(np.random.default_rng(0).permutation(len(data.y))[:MOST_POINTS])
        self.rows = np.asarray(X[chosen], dtype=np.float64)
        self.y = np.where(data.y[chosen] == 1, 1, -1)
        self.points = (self.rows - self.centre) @ self.axes.T
        self.problem = problem

    def look(self, progress: Progress) -> None:
        """Keep the model that was just evaluated."""
        if not self.able or not np.isfinite(progress.coef).all():
            return
        w, b = np.asarray(progress.coef, dtype=np.float64), float(progress.intercept)
        margins = self.y * (self.rows @ w + b)
        c = progress.certificate
        self.looks.append(
            {
                "epoch": progress.epoch,
                "line": [float(v) for v in self.axes @ w] + [float(w @ self.centre + b)],
                "inside": np.flatnonzero(margins <= 1.0 + 1e-9).tolist(),
                "primal": c.primal,
                "dual": c.dual,
                "test_error": progress.record.get("test_error"),
            }
        )

    def seen(self) -> dict[str, Any] | None:
        """Return what a page shows: the points, and at most MOST_LOOKS models, more of them early in the run."""
        if not self.able or not self.looks:
            return None
        count = len(self.looks)
        places = np.arange(count)
        if count > MOST_LOOKS:
            places = np.unique(np.round(np.geomspace(1, count, MOST_LOOKS)).astype(int)) - 1
        return {
            "names": self.names,
            "points": np.round(self.points, 4).tolist(),
            "y": self.y.tolist(),
            "looks": [self.looks[place] for place in places],
        }
