"""The dual of a ν-problem over long rows of X itself: the thresholds of the groups are coefficients of further columns.

A regression is a problem of labels over its rows taken twice, y = 1 and y = −1, with o = −t as the fixed part of their scores and ρ = −ε.
With a threshold θ of each group, ρ − b and ρ + b, and half of ν for each,

    minimise  (l2/2)‖w‖² − Σ ν_g θ_g + Σ cᵢ(θ_g − yᵢ(xᵢ·w + oᵢ))₊

has no penalty on θ. The proximal-point method (Rockafellar 1976, docs/references.md) adds (l2/2)(θ − θ₀)²/κ² and moves θ₀ to the solution.
With θ = θ₀ + κ²ν_g/l2 + κv the linear term is part of (l2/2)v²: each step is a regression with the loss max(0, t − x·w) on rows (yᵢxᵢ, −κ)
and targets θ₀ + κ²ν_g/l2 − yᵢoᵢ, which `auto` solves by Newton's method. In the dual the sum of each group comes to ν_g by a factor of
about (max ‖x‖/κ)² in each step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import Offset, ResidualLoss, is_sparse
from dualgap.problem import Problem, target_offset
from dualgap.run.driver import Ended, minimise
from dualgap.run.nu_dual import FLAT_STILL, LabelRun, NuRun, TubeRun, largest_square
from dualgap.solvers import Newton

__all__ = ["LongLabelRun", "LongTubeRun", "is_long"]

LONG = 4  # n / d from which rows are long
COLUMN = 30.0  # κ² / (l2 · spread of the scores / ν), squared: a step leaves about the inverse of that of the error of a sum
FIRST_GAP = 1e-3  # gap of the first step / ν · spread of the scores
MOST_EPOCHS = 1_000  # of a step; the next one goes on from its model
SOLVED_SHARE = 0.2  # gap of a later step / gap that is asked for


def is_long(problem: Problem) -> bool:
    """Return whether X has many more rows than columns, and Newton's method can solve for these."""
    on_data = problem.kernel is None or problem.kernel.name == "linear"
    return on_data and problem.X is not None and problem.n >= LONG * problem.d and problem.d < Newton.most_features


class ThresholdColumns(NuRun):
    """A ν-run whose epochs are steps of the proximal-point method.

    Sets: `rows`, the regression with its columns, in `start`; `theta`, the centres, `last`, the model, and `beta` in `step`.
    """

    last: Any = None

    def scale(self) -> float:
        """Return the penalty l2 of the ν-problem."""
        raise NotImplementedError

    def signs(self) -> np.ndarray:
        """Return the labels of the rows that the columns are added to."""
        raise NotImplementedError

    def spread(self) -> float:
        """Return a typical distance of scores from each other."""
        raise NotImplementedError

    def first(self) -> tuple[Problem, np.ndarray, Ended | None]:
        return self.problem, np.zeros(0), None

    def compile(self) -> float:
        return 0.0

    def start(self) -> None:
        data, y = self.problem.on_data, self.signs()
        times, free = len(y) // data.n, data.intercept == "free"
        self.groups = [y > 0.0, y < 0.0] if free else [y > 0.0]
        self.kappa = COLUMN * math.sqrt(self.scale() * self.spread() / self.nu) or 1.0
        columns = -self.kappa * np.stack(self.groups, axis=1)
        X: Any = data.X.astype(np.float64, copy=False)
        if is_sparse(X):
            X = sparse.hstack([sparse.diags(y) @ sparse.vstack([X] * times), sparse.csr_matrix(columns)]).tocsr()
        else:
            X = np.hstack([np.vstack([X] * times) * y[:, None], columns])
        self.fixed = y * np.concatenate([data.offset.added(np.zeros(data.n))] * times)
        self.rows = data.replace(
            X=X,
            d=X.shape[1],
            y=np.ones(len(y)),
            c=np.concatenate([data.c] * times),
            sample_weight=None,
            loss=ResidualLoss(low=0.0),
            offset=Offset(self.fixed),
            l2=self.scale(),
            intercept="none",
        )
        self.theta, self.beta = np.zeros(len(self.groups)), np.zeros(data.n)

    def step(self) -> None:
        self.epochs += 1
        budget, kappa, count = self.budget, self.kappa, len(self.groups)
        centre = self.theta + kappa**2 * self.nu * float(self.problem.c.sum()) / count / self.rows.l2
        targets = sum(theta * group for theta, group in zip(centre, self.groups, strict=True)) - self.fixed
        gap = FIRST_GAP * self.nu * self.spread()
        if self.found is not None:
            least = self.least_value(self.found.beta)
            gap = SOLVED_SHARE * max(self.tol * abs(self.found.certificate.primal), self.atol, least)
            if self.found.certificate.gap <= self.goal[0]:
                self.goal = 0.5 * self.found.certificate.gap, self.epochs
        found = minimise(
            self.rows.replace(offset=target_offset(targets, len(targets))),
            "auto",
            0.0,
            MOST_EPOCHS,
            budget.seconds(),
            budget.seed,
            warm_start=self.last,
            atol=gap,
        )
        self.theta, self.last = centre + kappa * found.coef[-count:], (found.coef, 0.0, found.dual)
        self.beta = self.signed(found.dual)
        self.flat = self.epochs >= self.goal[1] + FLAT_STILL

    def signed(self, beta: np.ndarray) -> np.ndarray:
        """Return the β of the ν-problem from that of the regression."""
        return beta

    def gap_estimate(self) -> float | None:
        return None

    def own_beta(self) -> np.ndarray:
        return self.beta

    def passes(self) -> float:
        return float(self.epochs)


class LongLabelRun(ThresholdColumns, LabelRun):
    """Labels over long rows."""

    def scale(self) -> float:
        return 1.0

    def signs(self) -> np.ndarray:
        return self.problem.y

    def spread(self) -> float:
        return self.nu * largest_square(self.problem)


class LongTubeRun(ThresholdColumns, TubeRun):
    """A regression over long rows."""

    def signs(self) -> np.ndarray:
        return np.repeat([1.0, -1.0], self.problem.n)

    def scale(self) -> float:
        return self.problem.l2

    def signed(self, beta: np.ndarray) -> np.ndarray:
        return beta[: self.problem.n] - beta[self.problem.n :]

    def spread(self) -> float:
        return float(self.problem.offset.scale)
