"""LinearKernel: the problem of a linear kernel, solved on the rows of X by the methods for linear models.

Both problems have the same dual, β for β. The kernel machine's model is the expansion a = cβy/l2 of that β, so that support vectors and
dual coefficients are those of any kernel. What the method has for a w of its own only steers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, can, get_solver, no

__all__ = ["LinearKernel"]


@dataclass(kw_only=True)
class LinearKernelState(State):
    """The problem without its kernel, and the state of the method that solves it."""

    data: Problem
    inner: State


@dataclass(frozen=True)
class LinearKernel(Solver):
    """Solves a problem with a linear kernel on the rows of X; `method` names the solver."""

    method: str = "auto"

    name: ClassVar[str] = "linear_kernel"
    sparse_cost: ClassVar[str] = "as its method"
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "a linear kernel's problem by the methods for linear models"

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is None or problem.kernel.name != "linear" or problem.X is None:
            return no("it is made for problems with kernel='linear' over rows X")
        return can(self._solver(), problem.on_data) and YES

    def _solver(self) -> Solver:
        return get_solver(self.method)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> LinearKernelState:
        data = problem.on_data
        if warm is not None and warm.coef is not None:
            warm = warm._replace(coef=data.combine(warm.coef))
        inner = self._solver().start(data, rng, warm)
        return LinearKernelState(data=data, inner=inner, passes=inner.passes)

    def epoch(self, problem: Problem, state: LinearKernelState, rng: np.random.Generator) -> None:
        state.inner.tol = state.tol
        self._solver().epoch(state.data, state.inner, rng)
        self._follow(state)

    def _follow(self, state: LinearKernelState) -> None:
        state.passes, state.gap, state.handovers = state.inner.passes, state.inner.gap, state.inner.handovers

    def change_method(self, problem: Problem, state: LinearKernelState, rng: np.random.Generator) -> bool:
        changed = self._solver().change_method(state.data, state.inner, rng)
        self._follow(state)
        return changed

    def dual(self, problem: Problem, state: LinearKernelState) -> np.ndarray | None:
        return self._solver().dual(state.data, state.inner)

    def gap_estimate(self, problem: Problem, state: LinearKernelState) -> float | None:
        return self._solver().gap_estimate(state.data, state.inner)

    def plan(self, problem: Problem) -> str:
        return self._solver().plan(problem.on_data)

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, LinearKernelState]:
        data, inner = self._solver().warm_up(problem.on_data, rng)
        return problem.head(data.n), LinearKernelState(data=data, inner=inner)
