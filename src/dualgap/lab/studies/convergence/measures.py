"""How the boundary of a model lies in the plane: beside the parabola that parts the third data set, and beside a straight line."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.problem import Problem

__all__ = ["MEASURES"]


def _signs(problem: Problem, data: Any, coef: np.ndarray, intercept: float) -> np.ndarray:
    return np.where(problem.decision(data.X_test, coef, intercept) > 0, 1.0, -1.0)


def off_parabola(problem: Problem, data: Any, coef: np.ndarray, intercept: float) -> float:
    """Return the share of the test rows that the model puts on the other side than the parabola x₂ = x₁² − 1 without its blur."""
    above = data.X_test[:, 1] > data.X_test[:, 0] ** 2 - 1.0
    return float(np.mean((_signs(problem, data, coef, intercept) > 0) != above))


def off_line(problem: Problem, data: Any, coef: np.ndarray, intercept: float) -> float:
    """Return the share of the test rows that a line, fitted to the model's signs by the hinge without a penalty, puts on the other side.

    It is 0 where some line has every row on the model's side: the smallest sum of hinges, a linear programme, is then 0.
    """
    from scipy.optimize import linprog

    signs, rows = _signs(problem, data, coef, intercept), np.column_stack([data.X_test, np.ones(len(data.X_test))])
    count, width = rows.shape
    least = np.hstack([signs[:, None] * rows, np.eye(count)])  # y (w·x + b) + hinge ≥ 1
    bounds = [(None, None)] * width + [(0.0, None)] * count
    found = linprog(np.repeat([0.0, 1.0], [width, count]), -least, -np.ones(count), bounds=bounds)
    return float(np.mean((rows @ np.asarray(found.x)[:width] > 0) != (signs > 0)))


MEASURES = {"error_off_parabola": off_parabola, "error_off_line": off_line}
