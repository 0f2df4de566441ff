"""What several studies share of the algorithms as their texts print them, in plain NumPy. None is a method to use.

Each has the parameter `misprint`: which of the text's misprints it has, by name. Without one it is the corrected method, in the same code
and with the same order of the rows, so that what a misprint costs is a comparison of two runs that differ in one line. "all" is the text.
The texts write α = yβ for the dual variables of SDCA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import one_of
from dualgap.problem import Problem
from dualgap.solvers import Solver, State, Support, Warm

__all__ = ["ALGORITHMS", "PointState", "PrintedSDCA", "dense_hinge"]


def dense_hinge(problem: Problem) -> Support:
    """Return yes for the one problem that the texts have: the hinge with l2, dense rows, without an intercept."""
    plain = problem.kernel is None and problem.l1 == 0 and problem.intercept == "none" and isinstance(problem.X, np.ndarray)
    return Support(plain, "" if plain else "an algorithm as printed runs on dense rows, with l2 alone and without an intercept")


@dataclass(kw_only=True)
class PointState(State):
    w: np.ndarray
    b: float = 0.0
    steps: int = 0


@dataclass(kw_only=True)
class PrintedSDCAState(State):
    alpha: np.ndarray
    w: np.ndarray


@dataclass(frozen=True)
class PrintedSDCA(Solver):
    """SDCA-perm with the coordinate step as two texts print it.

    misprint
        "one-sided": Δ = max(−1, min((y − x·w)/(‖x‖²/(λn)) + α)) − α. A minimum of one number bounds nothing, and y is missing: α may grow
        beyond the box. "label-outside": Δ = y·max(0, min(1, λn(1 − x·w)y/‖x‖² + αy)) − α, where y multiplies 1 − x·w and not x·w alone.
    """

    misprint: str = ""

    name: ClassVar[str] = "printed_sdca"
    summary: ClassVar[str] = "SDCA with the step as texts print it"

    def __post_init__(self) -> None:
        one_of("misprint", self.misprint, ("", "one-sided", "label-outside"))

    def supports(self, problem: Problem) -> Support:
        return dense_hinge(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PrintedSDCAState:
        return PrintedSDCAState(alpha=np.zeros(problem.n), w=np.zeros(problem.d))

    def epoch(self, problem: Problem, state: PrintedSDCAState, rng: np.random.Generator) -> None:
        X, y, scale = problem.X, problem.y, problem.l2 * problem.n
        squares, alpha, w = problem.sqnorms, state.alpha, state.w
        for i in rng.permutation(problem.n):
            if squares[i] == 0.0:
                continue
            score = float(X[i] @ w)
            missing = (1.0 - score) * y[i] if self.misprint == "label-outside" else 1.0 - y[i] * score
            change = y[i] * max(0.0, min(1.0, scale * missing / squares[i] + alpha[i] * y[i])) - alpha[i]
            if self.misprint == "one-sided":
                change = max(-1.0, (y[i] - score) * scale / squares[i] + alpha[i]) - alpha[i]
            alpha[i] += change
            w += change / scale * X[i]
        state.passes += 1.0

    def model(self, problem: Problem, state: PrintedSDCAState) -> tuple[np.ndarray, float]:
        return state.w.copy(), 0.0


ALGORITHMS: tuple[type[Solver], ...] = (PrintedSDCA,)
