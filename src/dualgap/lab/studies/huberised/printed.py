"""SGD with sign(w) as the text ran it, and SAGA and SVRG as it prints them: these two have errors and are no methods to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import number, one_of, slopes, whole_number
from dualgap.lab.studies.printed import PointState
from dualgap.problem import Problem
from dualgap.solvers import Solver, Support, Warm

__all__ = ["ALGORITHMS", "PrintedSAGA", "PrintedSVRG", "TextSGD"]


def linear_dense(problem: Problem) -> Support:
    """Return yes for dense rows without a kernel."""
    fine = problem.kernel is None and isinstance(problem.X, np.ndarray)
    return Support(fine, "" if fine else "an algorithm as printed runs on dense rows")


def row_slopes(problem: Problem, rows: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
    """Return y·φ'(margin) of some rows: times x, the gradient of their losses in w; as it is, in b."""
    y = problem.y[rows]
    margins = y * (problem.X[rows] @ w + b)
    beta = np.empty_like(margins)
    slopes(problem.loss, margins, beta)
    return -y * beta


@dataclass(frozen=True)
class TextSGD(Solver):
    """SGD on batches with a constant step as one text ran it: w from N(0, 0.1²), and λ₁·sign(w) for the l1 part.

    An epoch of the driver is one of the text's iterations: one batch.
    """

    rate: float = 1.5
    batch_size: int = 50
    start_deviation: float = 0.1

    name: ClassVar[str] = "text_sgd"
    summary: ClassVar[str] = "mini-batch SGD with sign(w) for the l1 part, from a random start"

    def __post_init__(self) -> None:
        number("rate", self.rate)
        whole_number("batch_size", self.batch_size)

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PointState:
        return PointState(w=self.start_deviation * rng.standard_normal(problem.d))

    def epoch(self, problem: Problem, state: PointState, rng: np.random.Generator) -> None:
        size = min(self.batch_size, problem.n)
        batch = rng.choice(problem.n, size, replace=False)
        slopes = row_slopes(problem, batch, state.w, state.b) / size
        gradient = problem.X[batch].T @ slopes + problem.l1 * np.sign(state.w) + problem.l2 * state.w
        state.w = state.w - self.rate * gradient
        if problem.intercept != "none":
            state.b -= self.rate * float(slopes.sum())
        state.passes += size / problem.n

    def model(self, problem: Problem, state: PointState) -> tuple[np.ndarray, float]:
        return state.w.copy(), state.b


@dataclass(kw_only=True)
class TableState(PointState):
    table: np.ndarray  # the stored gradients of w, a row a sample
    table_b: np.ndarray
    total: np.ndarray
    total_b: float


@dataclass(frozen=True)
class PrintedSAGA(Solver):
    """SAGA with the gradient of the penalty, sign(w) for its l1 part, at a constant rate from a random start.

    misprint
        "table": the table starts with a copy of w in each place, not with the gradients there; "penalty": the gradient of the penalty is
        divided by n; "all": both.
    """

    rate: float = 1.5
    start_deviation: float = 0.1
    misprint: str = ""

    name: ClassVar[str] = "printed_saga"
    summary: ClassVar[str] = "SAGA as a text prints it"

    def __post_init__(self) -> None:
        one_of("misprint", self.misprint, ("", "table", "penalty", "all"))

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> TableState:
        w = self.start_deviation * rng.standard_normal(problem.d)
        first = row_slopes(problem, np.arange(problem.n), w, 0.0)
        table, table_b = first[:, None] * problem.X, first
        if self.misprint in ("table", "all"):
            table, table_b = np.tile(w, (problem.n, 1)), np.zeros(problem.n)
        return TableState(w=w, table=table, table_b=table_b, total=table.sum(axis=0), total_b=float(table_b.sum()), passes=1.0)

    def epoch(self, problem: Problem, state: TableState, rng: np.random.Generator) -> None:
        n = problem.n
        for m in rng.integers(n, size=n):
            slope = float(row_slopes(problem, np.array([m]), state.w, state.b)[0])
            new = slope * problem.X[m]
            penalty = problem.l1 * np.sign(state.w) + problem.l2 * state.w
            penalty = penalty / n if self.misprint in ("penalty", "all") else penalty
            state.w = state.w - self.rate * (new - state.table[m] + state.total / n + penalty)
            if problem.intercept != "none":
                state.b -= self.rate * (slope - state.table_b[m] + state.total_b / n)
            state.total += new - state.table[m]
            state.total_b += slope - state.table_b[m]
            state.table[m], state.table_b[m] = new, slope
        state.passes += 1.0

    def model(self, problem: Problem, state: TableState) -> tuple[np.ndarray, float]:
        return state.w.copy(), state.b


@dataclass(kw_only=True)
class AnchoredState(PointState):
    anchor: PointState  # w̃, with the sum of all w so far where it is their mean
    full: np.ndarray  # the mean gradient at w̃
    full_b: float = 0.0


@dataclass(frozen=True)
class PrintedSVRG(Solver):
    """SVRG with the gradient of the penalty, sign(w) for its l1 part, at a constant rate from a random start; `steps` of it are an epoch.

    misprint
        "anchor": w̃ is the mean of all w so far, its full gradient taken anew in each step, not a snapshot once in n steps; "penalty": its
        value, divided by n, not its gradient; "gradient": each ∂h is divided by n once more; "all": the three.
    """

    rate: float = 1.5
    start_deviation: float = 0.1
    steps: int = 10
    misprint: str = ""

    name: ClassVar[str] = "printed_svrg"
    summary: ClassVar[str] = "SVRG as a text prints it"

    def __post_init__(self) -> None:
        one_of("misprint", self.misprint, ("", "anchor", "penalty", "gradient", "all"))

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> AnchoredState:
        w = self.start_deviation * rng.standard_normal(problem.d)
        return AnchoredState(w=w, anchor=PointState(w=w.copy(), steps=1), full=np.zeros(problem.d))

    def epoch(self, problem: Problem, state: AnchoredState, rng: np.random.Generator) -> None:
        n, anchor = problem.n, state.anchor
        share = 1.0 / n if self.misprint in ("gradient", "all") else 1.0
        mean_of_all = self.misprint in ("anchor", "all")
        for m in rng.integers(n, size=self.steps):
            if mean_of_all or state.steps % n == 0:
                self._move_anchor(problem, state, mean_of_all)
                state.passes += 1.0
            row = np.array([m])
            at_anchor = row_slopes(problem, row, anchor.w / anchor.steps, anchor.b / anchor.steps)
            change = share * float(row_slopes(problem, row, state.w, state.b)[0] - at_anchor[0])
            penalty = problem.l1 * np.sign(state.w) + problem.l2 * state.w
            if self.misprint in ("penalty", "all"):
                penalty = (problem.l1 * np.abs(state.w).sum() + 0.5 * problem.l2 * float(state.w @ state.w)) / n
            state.w = state.w - self.rate * (change * problem.X[m] + share * state.full + penalty)
            if problem.intercept != "none":
                state.b -= self.rate * (change + share * state.full_b)
            state.steps += 1
        state.passes += 2.0 * self.steps / n

    def _move_anchor(self, problem: Problem, state: AnchoredState, mean_of_all: bool) -> None:
        """Set w̃, as a sum with the number of its terms, and the full gradient there."""
        anchor = state.anchor
        if mean_of_all and state.steps:
            anchor.w, anchor.b, anchor.steps = anchor.w + state.w, anchor.b + state.b, anchor.steps + 1
        elif not mean_of_all:
            anchor.w, anchor.b = state.w.copy(), state.b
        slopes = row_slopes(problem, np.arange(problem.n), anchor.w / anchor.steps, anchor.b / anchor.steps)
        state.full, state.full_b = problem.X.T @ slopes / problem.n, float(slopes.sum()) / problem.n

    def model(self, problem: Problem, state: AnchoredState) -> tuple[np.ndarray, float]:
        return state.w.copy(), state.b


ALGORITHMS: tuple[type[Solver], ...] = (TextSGD, PrintedSAGA, PrintedSVRG)
