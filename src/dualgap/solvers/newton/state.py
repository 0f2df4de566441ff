"""The state of newton: the active rows, and what a run knows of the inner problem and of its gap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import factor_and_solve, solve_with, some
from dualgap.problem import Problem
from dualgap.solvers.newton.loss_sums import LossSums, bias_column
from dualgap.solvers.newton.proximal import Prox
from dualgap.solvers.newton.systems import Box
from dualgap.solvers.newton.unknowns import Unknowns, penalty_gap

__all__ = ["ROWS_PER_FEATURE", "ActiveRows", "NewtonState", "WideSystems"]

# Plain steps on dense rows so wide that the BLAS multiplies them: pictures 20k × 784, squared hinge, C=100, 1e-3: 2.3 and 1.4
REUSED = 0.5  # the last factor is used again while it makes the decrement, a square, fall to this part
FIRST_ONE_IN, ROWS_PER_FEATURE = (
    16,
    4,
)  # rows in the first system: one in 16, then in 4, unless these are fewer than 4 for each feature


@dataclass
class ActiveRows(LossSums):
    """The sums over the active rows; those of the shrunk rows, whose β are constant, change with x alone."""

    which: np.ndarray  # the rows' numbers in the problem
    shrunk_loss: float = 0.0  # Σ cφ over the shrunk rows when they were shrunk

    @classmethod
    def among(cls, problem: Problem, which: np.ndarray, prox: Prox, loss: float = 0.0) -> ActiveRows:
        """Return the sums over some rows of a problem; β is zero, the margins are not set."""
        rows, count = bias_column(problem, some(problem.rows, which)), len(which)
        samples = problem.samples if count == problem.n else problem.some_samples(which)
        return cls(problem.loss, rows, samples, prox, np.empty(count), np.zeros(count), np.empty(count), which, loss)


@dataclass
class WideSystems:
    """The plain systems of wide rows: the first ones of some rows, and their last factor."""

    one_in: int  # the next system is of one row in this number
    factor: np.ndarray | None = None
    decrement: float = math.inf  # rhs·direction of the last step

    @classmethod
    def of(cls, problem: Problem) -> WideSystems:
        """Return those of a problem, whose first systems are of at least ROWS_PER_FEATURE rows a feature."""
        one_in = FIRST_ONE_IN
        while one_in > 1 and problem.n < one_in * ROWS_PER_FEATURE * problem.d:
            one_in //= 4
        return cls(max(one_in, 1))

    def again(self, rhs: np.ndarray) -> np.ndarray | None:
        """Return the direction by the last factor; None where it makes the decrement fall too little."""
        if self.factor is None:
            return None
        direction = solve_with(self.factor, rhs)
        decrement = float(rhs @ direction)
        if not decrement <= REUSED * self.decrement:
            return None
        self.decrement = decrement
        return direction

    def thin(self, weight: np.ndarray) -> None:
        """Let one row in `one_in` stand for all, in place."""
        if self.one_in > 1:
            weight[np.arange(len(weight)) % self.one_in != 0] = 0.0
            weight *= self.one_in
            self.one_in //= 4

    def solve(self, H: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Return the direction, and keep the factor."""
        self.factor, direction = factor_and_solve(H, rhs)
        self.decrement = float(rhs @ direction)
        return direction


@dataclass(kw_only=True)
class NewtonState(Unknowns):
    """Where a run is."""

    # The inner problem, and the steps on it; set by `step`
    rows: ActiveRows  # margins, β⁺, centre and δ
    steps: int = 0  # those since the one that moved the centre, which does not count
    no_descent: bool = False  # whether the last line search returned t = 0
    box: Box | None = None  # bounds of x, where coefficients have bounds
    # The gap, and the sums that it is made of; set by `update`
    u: np.ndarray  # Σ cβyx over all rows
    residual: np.ndarray  # ridge·x − u, the gradient of F
    penalty_gap: float = math.inf  # R(w) + R*(u) − u·w: the gap part of the residual
    prox_term: float = 0.0  # (δ/2) Σ c(β − centre)² over the active rows
    primal: float = math.inf  # P at x
    # Heuristics: shrinking
    all_beta: np.ndarray  # β of all rows; stale for active ones
    unshrink_gap: float = 0.0  # relative gap of the active rows at which all rows are active again
    shrink_steps: float  # steps like the last that a row must be away from a free β to be shrunk
    # Heuristics: plain steps; `curved` and `tangent_gap` are set by `step`
    products: Any  # type in which dense rows are multiplied
    wide: WideSystems | None = None
    curved: np.ndarray | None = None  # the weighted curvatures of the last system; None with a proximal term, or not of all rows
    tangent_gap: float = (
        math.inf
    )  # relative gap of x and the tangents' β, which is in `all_beta` then; infinite where it was not tried

    def all_active(self) -> bool:
        return len(self.rows.which) == len(self.all_beta)

    def update(self, problem: Problem) -> None:
        """Update the dual variables of the active rows to their margins, and the gap."""
        rows = self.rows
        if self.all_active() and (self.steps == 0 or not problem.loss.has_kink()):
            # u afresh, with each inner problem: at first it is so large that its rounding would not let a small P be reached. The β of a
            # smooth loss all change in every step, so that this costs nothing.
            self.u[:], rows.beta[:] = 0.0, 0.0
        values = rows.update(self.u)
        if self.all_active() and not rows.beta.any():
            self.u[:] = 0.0  # what rounding leaves of it would carry a free b, which has no curvature here, far away
        self.residual, self.prox_term = self.ridge * self.x - self.u, values.proximal
        # P(w) − D(β) = Σ c·(Fenchel–Young gap) + ‖l2·w − u‖²/(2·l2). A free b asks for Σ cβy = 0: gap_part has its size as an estimate.
        self.primal = values.loss + rows.shrunk_loss + 0.5 * float(self.ridge * self.x @ self.x)
        self.penalty_gap = penalty_gap(problem.penalty, self.x, self.u, self.ridge)
        self.gap = (values.fenchel + self.penalty_gap) / self.primal if self.primal > 0 else math.inf
