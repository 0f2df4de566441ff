"""Mini-batch Pegasos as the text prints it. It is no method to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import one_of, whole_number
from dualgap.lab.studies.printed import PointState, dense_hinge
from dualgap.problem import Problem
from dualgap.solvers import Solver, Support, Warm

__all__ = ["ALGORITHMS", "PrintedPegasos"]


@dataclass(frozen=True)
class PrintedPegasos(Solver):
    """Mini-batch Pegasos in epochs, whose text has n in the step and the number of the epoch under it.

    misprint
        "rate": η = 1/(λn), not 1/(λt); "divisor": η/k with the number k of the epoch, not η/m with the size m of a batch. The text counts
        epochs from 0, and would divide by it; here they count from 1. "all": both.
    """

    batch_size: int = 100
    misprint: str = ""

    name: ClassVar[str] = "printed_pegasos"
    summary: ClassVar[str] = "mini-batch Pegasos with the step as a text prints it"

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        one_of("misprint", self.misprint, ("", "rate", "divisor", "all"))

    def supports(self, problem: Problem) -> Support:
        return dense_hinge(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PointState:
        return PointState(w=np.zeros(problem.d))

    def epoch(self, problem: Problem, state: PointState, rng: np.random.Generator) -> None:
        epoch = 1 + state.steps // -(-problem.n // self.batch_size)
        order = rng.permutation(problem.n)
        for first in range(0, problem.n, self.batch_size):
            batch = order[first : first + self.batch_size]
            X, y = problem.X[batch], problem.y[batch]
            violated = y * (X @ state.w) < 1.0
            state.steps += 1
            eta = 1.0 / (problem.l2 * (problem.n if self.misprint in ("rate", "all") else state.steps))
            divisor = epoch if self.misprint in ("divisor", "all") else len(batch)
            state.w = (1.0 - eta * problem.l2) * state.w + eta / divisor * (X[violated].T @ y[violated])
        state.passes += 1.0

    def model(self, problem: Problem, state: PointState) -> tuple[np.ndarray, float]:
        return state.w.copy(), 0.0


ALGORITHMS: tuple[type[Solver], ...] = (PrintedPegasos,)
