"""What the text guesses of gradients, measured at the output of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.problem import Problem

__all__ = ["MEASURES"]

BATCH = 100  # rows of which the text takes a subgradient


def gradient_noise(problem: Problem, data: Any, coef: np.ndarray, intercept: float) -> float:
    """Return the standard deviation of a batch's subgradient of the loss over the size of the whole subgradient of the loss."""
    X, y = np.asarray(problem.X, dtype=np.float64), problem.y
    inside = np.where(y * (X @ coef + intercept) < 1.0, 1.0, 0.0)
    whole = X.T @ (inside * y) / len(y)
    spread = float(np.mean(inside * problem.sqnorms)) - float(whole @ whole)
    return float(np.sqrt(max(spread, 0.0) / BATCH) / np.linalg.norm(whole))


MEASURES = {"gradient_noise": gradient_noise}
