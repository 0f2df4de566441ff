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
    """Box-constrained coordinate ascent, λ_k = clip((−1 − (1/c)Σ_{i≠k} λᵢq_ki)/(q_kk/c), −1, 0) with q = YXXᵀY, row after row.

    misprint
        "diagonal": q_kk in place of q_kk/c, as the text has it with its Q = −YXXᵀY: right for c = 1 alone. "sign": 1 in place of −1, and −q
        in place of q, as the text's code has it where its undefined Q is taken for q.
    """

    misprint: str = ""

    name: ClassVar[str] = "printed_coordinate"
    summary: ClassVar[str] = "box-constrained coordinate ascent with the step as a text prints it"

    def __post_init__(self) -> None:
        one_of("misprint", self.misprint, ("", "diagonal", "sign"))

    def supports(self, problem: Problem) -> Support:
        return dense_hinge(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PrintedCoordinateState:
        signed = problem.X * problem.y[:, None]
        return PrintedCoordinateState(lam=np.zeros(problem.n), Q=signed @ signed.T)

    def epoch(self, problem: Problem, state: PrintedCoordinateState, rng: np.random.Generator) -> None:
        lam, Q, c = state.lam, state.Q, problem.l2 * problem.n
        for k in range(problem.n):
            if Q[k, k] != 0.0:
                others = float(Q[k] @ lam) - Q[k, k] * lam[k]
                slope = -1.0 - others / c if self.misprint != "sign" else 1.0 - others / c
                lam[k] = min(0.0, max(-1.0, slope / (Q[k, k] / c if self.misprint != "diagonal" else Q[k, k])))
        state.passes += 1.0

    def dual(self, problem: Problem, state: PrintedCoordinateState) -> np.ndarray:
        return -state.lam


ALGORITHMS: tuple[type[Solver], ...] = (PrintedCoordinate,)
