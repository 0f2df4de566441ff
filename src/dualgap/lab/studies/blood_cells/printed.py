"""Mini-batch Pegasos as the text prints it. It is no method to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import whole_number
from dualgap.lab.studies.printed import PointState, dense_hinge
from dualgap.problem import Problem
from dualgap.solvers import Solver, Support, Warm

__all__ = ["ALGORITHMS", "PrintedPegasos"]


@dataclass(frozen=True)
class PrintedPegasos(Solver):
    """Mini-batch Pegasos in epochs with η = 1/(λn) and η/k, where k is the number of the epoch, as printed.

    The text counts epochs from 0, and would divide by it; here they count from 1.
    """

    batch_size: int = 100

    name: ClassVar[str] = "printed_pegasos"
    summary: ClassVar[str] = "mini-batch Pegasos with a misprinted step"

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)

    def supports(self, problem: Problem) -> Support:
        return dense_hinge(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PointState:
        return PointState(w=np.zeros(problem.d))

    def epoch(self, problem: Problem, state: PointState, rng: np.random.Generator) -> None:
        eta = 1.0 / (problem.l2 * problem.n)
        state.steps += 1
        order = rng.permutation(problem.n)
        for first in range(0, problem.n, self.batch_size):
            batch = order[first : first + self.batch_size]
            X, y = problem.X[batch], problem.y[batch]
            violated = y * (X @ state.w) < 1.0
            state.w = (1.0 - eta * problem.l2) * state.w + eta / state.steps * (X[violated].T @ y[violated])
        state.passes += 1.0

    def model(self, problem: Problem, state: PointState) -> tuple[np.ndarray, float]:
        return state.w.copy(), 0.0


ALGORITHMS: tuple[type[Solver], ...] = (PrintedPegasos,)
