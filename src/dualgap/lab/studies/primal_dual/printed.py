"""Box-constrained coordinate ascent as the text prints it, with λ = −β for its dual variables. It is no method to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import one_of
from dualgap.lab.studies.printed import dense_hinge
from dualgap.problem import Problem
from dualgap.solvers import Solver, State, Support, Warm

__all__ = ["ALGORITHMS", "PrintedCoordinate"]


@dataclass(kw_only=True)
class PrintedCoordinateState(State):
    lam: np.ndarray
    Q: np.ndarray


@dataclass(frozen=True)
class PrintedCoordinate(Solver):
    """Box-constrained coordinate ascent with the step λ_k = clip((1 − (1/c)Σ_{i≠k} λᵢQ_ki)/Q_kk, −1, 0) as printed.

    reading
        "defined": Q = −YXXᵀY, as the text defines it. The derivative then lacks 1/c on the diagonal: right for c = 1 alone.
        "gram": Q = YXXᵀY, as a reader of the code alone would take it. The step then has the wrong sign.
    """

    reading: str = "defined"

    name: ClassVar[str] = "printed_coordinate"
    summary: ClassVar[str] = "box-constrained coordinate ascent with a misprinted step"

    def __post_init__(self) -> None:
        one_of("reading", self.reading, ("defined", "gram"))

    def supports(self, problem: Problem) -> Support:
        return dense_hinge(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PrintedCoordinateState:
        signed = problem.X * problem.y[:, None]
        gram = signed @ signed.T
        return PrintedCoordinateState(lam=np.zeros(problem.n), Q=gram if self.reading == "gram" else -gram)

    def epoch(self, problem: Problem, state: PrintedCoordinateState, rng: np.random.Generator) -> None:
        lam, Q, c = state.lam, state.Q, problem.l2 * problem.n
        for k in range(problem.n):
            if Q[k, k] != 0.0:
                others = float(Q[k] @ lam) - Q[k, k] * lam[k]
                lam[k] = min(0.0, max(-1.0, (1.0 - others / c) / Q[k, k]))
        state.passes += 1.0

    def dual(self, problem: Problem, state: PrintedCoordinateState) -> np.ndarray:
        return -state.lam


ALGORITHMS: tuple[type[Solver], ...] = (PrintedCoordinate,)
