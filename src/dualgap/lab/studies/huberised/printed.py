"""SGD with sign(w) as the text ran it, and SAGA and SVRG as it prints them: these two have errors and are no methods to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import number, slopes, whole_number
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

    An iteration is one batch; an epoch of the driver is `iterations` of them.
    """

    rate: float = 1.5
    batch_size: int = 50
    iterations: int = 1
    start_deviation: float = 0.1

    name: ClassVar[str] = "text_sgd"
    summary: ClassVar[str] = "mini-batch SGD with sign(w) for the l1 part, from a random start"

    def __post_init__(self) -> None:
        number("rate", self.rate)
        whole_number("batch_size", self.batch_size)
        whole_number("iterations", self.iterations)

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PointState:
        return PointState(w=self.start_deviation * rng.standard_normal(problem.d))

    def epoch(self, problem: Problem, state: PointState, rng: np.random.Generator) -> None:
        size = min(self.batch_size, problem.n)
        for _ in range(self.iterations):
            batch = rng.choice(problem.n, size, replace=False)
            slopes = row_slopes(problem, batch, state.w, state.b) / size
            gradient = problem.X[batch].T @ slopes + problem.l1 * np.sign(state.w) + problem.l2 * state.w
            state.w = state.w - self.rate * gradient
            if problem.intercept != "none":
                state.b -= self.rate * float(slopes.sum())
        state.passes += self.iterations * size / problem.n

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
    """SAGA as printed: the table starts at w⁰ instead of gradients, and the penalty's gradient, with sign(w), is divided by N."""

    rate: float = 1.5
    start_deviation: float = 0.1

    name: ClassVar[str] = "printed_saga"
    summary: ClassVar[str] = "SAGA with its table started at w and the penalty divided by n"

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> TableState:
        w = self.start_deviation * rng.standard_normal(problem.d)
        table = np.tile(w, (problem.n, 1))
        return TableState(w=w, table=table, table_b=np.zeros(problem.n), total=table.sum(axis=0), total_b=0.0)

    def epoch(self, problem: Problem, state: TableState, rng: np.random.Generator) -> None:
        n = problem.n
        for m in rng.integers(n, size=n):
            slope = float(row_slopes(problem, np.array([m]), state.w, state.b)[0])
            new = slope * problem.X[m]
            penalty = problem.l1 * np.sign(state.w) + problem.l2 * state.w
            state.w = state.w - self.rate * (new - state.table[m] + (state.total + penalty) / n)
            if problem.intercept != "none":
                state.b -= self.rate * (slope - state.table_b[m] + state.total_b / n)
            state.total += new - state.table[m]
            state.total_b += slope - state.table_b[m]
            state.table[m], state.table_b[m] = new, slope
        state.passes += 1.0

    def model(self, problem: Problem, state: TableState) -> tuple[np.ndarray, float]:
        return state.w.copy(), state.b


@dataclass(kw_only=True)
class HistoryState(PointState):
    history: np.ndarray  # Σ of all w so far
    history_b: float


@dataclass(frozen=True)
class PrintedSVRG(Solver):
    """SVRG as printed: w̃ is the mean of all w so far, and the penalty enters by its value, a number, divided by N.

    The full gradient at w̃ is taken anew in each step, which is what made it slow. An epoch is `iterations` steps.
    """

    rate: float = 1.5
    start_deviation: float = 0.1
    iterations: int = 100

    name: ClassVar[str] = "printed_svrg"
    summary: ClassVar[str] = "SVRG around the mean of all iterates, with norms in place of gradients"

    def supports(self, problem: Problem) -> Support:
        return linear_dense(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> HistoryState:
        w = self.start_deviation * rng.standard_normal(problem.d)
        return HistoryState(w=w, history=w.copy(), history_b=0.0, steps=1)

    def epoch(self, problem: Problem, state: HistoryState, rng: np.random.Generator) -> None:
        n, every = problem.n, np.arange(problem.n)
        for m in rng.integers(n, size=self.iterations):
            row = np.array([m])
            mean, mean_b = state.history / state.steps, state.history_b / state.steps
            full = row_slopes(problem, every, mean, mean_b)
            change = float(row_slopes(problem, row, state.w, state.b)[0] - row_slopes(problem, row, mean, mean_b)[0])
            penalty = problem.l1 * np.abs(state.w).sum() + 0.5 * problem.l2 * float(state.w @ state.w)
            state.w = state.w - self.rate * (change * problem.X[m] + (problem.X.T @ full + penalty) / n)
            if problem.intercept != "none":
                state.b -= self.rate * (change + float(full.sum()) / n)
            state.history = state.history + state.w
            state.history_b += state.b
            state.steps += 1
        state.passes += self.iterations * (n + 2) / n

    def model(self, problem: Problem, state: HistoryState) -> tuple[np.ndarray, float]:
        return state.w.copy(), state.b


ALGORITHMS: tuple[type[Solver], ...] = (TextSGD, PrintedSAGA, PrintedSVRG)
