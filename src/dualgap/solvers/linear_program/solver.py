"""LinearProgram: row and column generation for the hinge with an l1 penalty alone. README.md has the steps that comments number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import Hinge, SmoothHinge
from dualgap.problem import Problem
from dualgap.proof import best_intercept, scores_of
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.linear_program.restricted import RestrictedDual, solve_restricted
from dualgap.solvers.newton import ProxNewton

__all__ = ["LinearProgram", "is_small_program"]

ALL_ROWS, ALL_COLUMNS = 2000, 100  # rows and features up to which all are in the first program
SMOOTH = 0.3  # width of the smooth hinge of the start: a narrower one is nearer the hinge, and takes more steps
SETTLED = 0.01  # part by which a step of the start has to lower the objective for another one to follow …
START_STEPS = 25  # … and steps at most
NEAR_L1 = 0.95  # |uⱼ|/l1 from which a feature that is not in use is in the first program
ROWS_PER_COLUMN = 4  # rows of the first program for each of its features
LEAST_ROWS, LEAST_COLUMNS = 300, 50  # that may join in a round, however few there are


@dataclass(kw_only=True)
class LinearProgramState(State):
    """The start, then the rows and features of the restricted program; and the model and β of the last step or round."""

    # the start: set by `start`, None from the first round on
    smooth: Problem | None
    inner: Any = None  # state of prox_newton on `smooth`
    value: float = math.inf  # its objective after the last step
    steps: int = 0
    # the restricted program: set by the end of the start, changed by every round
    rows: np.ndarray  # whether a row is in it
    shared: np.ndarray  # whether a row has the β of its class
    columns: np.ndarray  # whether a feature is in it
    # changed by every step and every round
    coef: np.ndarray
    intercept: float
    beta: np.ndarray


@register
@dataclass(frozen=True)
class LinearProgram(Solver):
    """Row and column generation over HiGHS, for the hinge with an l1 penalty alone: the optimum to the precision of its simplex method.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(200, 30, random_state=0), l2=0.0, l1=0.02, intercept="free")
    >>> dualgap.solve(problem, "linear_program", tol=1e-6).status
    'converged'
    """

    name: ClassVar[str] = "linear_program"
    summary: ClassVar[str] = "row and column generation over a simplex method, for the hinge with l1 alone"
    sparse_cost: ClassVar[str] = "all rows"
    stall_steps: ClassVar[float] = 60  # the start and some tens of rounds

    def supports(self, problem: Problem) -> Support:
        if not isinstance(problem.loss, Hinge) or problem.l2 > 0:
            return no("only the hinge with an l1 penalty alone (l2 = 0) is a linear program; use 'auto'")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> LinearProgramState:
        n, d = problem.n, problem.d
        state = LinearProgramState(
            smooth=None,
            rows=problem.c > 0.0 if n <= ALL_ROWS else np.zeros(n, dtype=bool),
            shared=np.zeros(n, dtype=bool),
            columns=np.full(d, d <= ALL_COLUMNS),
            coef=np.zeros(d) if warm is None or warm.coef is None else warm.coef.copy(),
            intercept=0.0 if warm is None else warm.intercept,
            beta=np.zeros(n) if warm is None or warm.dual is None else warm.dual.copy(),
        )
        if warm is not None and warm.coef is not None and warm.dual is not None:
            self._first_sets(problem, state)
        elif not is_small_program(problem):
            state.smooth = _smoothed(problem)
            state.inner = ProxNewton().start(state.smooth, rng, warm)
        return state

    def epoch(self, problem: Problem, state: LinearProgramState, rng: np.random.Generator) -> None:
        if state.smooth is not None:
            self._start_step(problem, state, rng)
        else:
            self._round(problem, state)

    def _start_step(self, problem: Problem, state: LinearProgramState, rng: np.random.Generator) -> None:
        """Carry out step 1 and, once that has settled, 2 and 3."""
        assert state.smooth is not None
        method, before, value = ProxNewton(), state.inner.passes, state.value
        method.epoch(state.smooth, state.inner, rng)
        state.passes += state.inner.passes - before
        state.steps += 1
        state.coef, state.beta = method.model(state.smooth, state.inner)[0], method.dual(state.smooth, state.inner)
        state.intercept, state.value = float(state.inner.b), float(state.inner.value)
        if state.value >= (1.0 - SETTLED) * value or state.steps >= START_STEPS:
            state.smooth = state.inner = None
            self._first_sets(problem, state)

    def _first_sets(self, problem: Problem, state: LinearProgramState) -> None:
        # 2) features
        u = problem.combine(problem.c * problem.y * state.beta)
        state.columns |= (state.coef != 0.0) | (np.abs(u) >= NEAR_L1 * problem.l1)
        if not state.columns.any():
            state.columns[np.argmax(np.abs(u))] = True
        # 3) rows
        margins = problem.y * (scores_of(problem, state.coef) + state.intercept)
        most = max(ROWS_PER_COLUMN * int(np.count_nonzero(state.columns)), ALL_ROWS)
        if problem.n > most:
            distance = np.where(problem.c > 0.0, np.abs(1.0 - margins), np.inf)
            state.rows[np.argpartition(distance, most)[:most]] = True
        else:
            state.rows[:] = True
        state.rows &= problem.c > 0.0
        state.shared = (margins < 1.0) & ~state.rows & (problem.c > 0.0)

    def _round(self, problem: Problem, state: LinearProgramState) -> None:
        """Carry out steps 4 to 6."""
        # 4) restricted dual
        found = solve_restricted(problem, RestrictedDual.of(problem, state.rows, state.shared, state.columns))
        if found is None:
            return  # HiGHS gave up: the model and β stay as they are, and the run stalls
        state.coef, state.intercept, state.beta = found
        # 5) all rows and features
        scores = scores_of(problem, state.coef)
        if problem.intercept == "free":
            state.intercept = best_intercept(problem, scores)
        margins = problem.y * (scores + state.intercept)
        u = np.abs(problem.combine(problem.c * problem.y * state.beta))
        primal = float((problem.c * np.maximum(1.0 - margins, 0.0)).sum()) + problem.l1 * float(np.abs(state.coef).sum())
        scale = min(1.0, problem.l1 / max(float(u.max(initial=0.0)), problem.l1))
        dual = scale * float((problem.c * state.beta).sum())
        state.gap = (primal - dual) / primal if primal > 0.0 else math.inf
        state.passes += 2.0 + np.count_nonzero(state.rows) / problem.n
        # 6) rows and features that join
        outside = ~state.rows & (problem.c > 0.0)
        violation = np.where(state.shared, margins - 1.0, 1.0 - margins)
        joining = _worst(np.where(outside, violation, 0.0), max(int(np.count_nonzero(state.rows)), LEAST_ROWS))
        state.rows[joining], state.shared[joining] = True, False
        excess = np.where(state.columns, 0.0, u - problem.l1)
        state.columns[_worst(excess, max(int(np.count_nonzero(state.columns)), LEAST_COLUMNS))] = True

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, LinearProgramState]:
        if not is_small_program(problem):
            ProxNewton().warm_up(_smoothed(problem), rng)
        small = problem.head(4)
        state = self.start(small, rng, Warm(np.zeros(small.d), 0.0, np.zeros(small.n)))
        self.epoch(small, state, rng)
        return small, state

    def plan(self, problem: Problem) -> str:
        return "no start" if is_small_program(problem) else "start"

    def model(self, problem: Problem, state: LinearProgramState) -> tuple[np.ndarray, float | None]:
        return state.coef.copy(), None if problem.intercept == "free" else 0.0

    def dual(self, problem: Problem, state: LinearProgramState) -> np.ndarray:
        return state.beta.copy()

    def intercept(self, problem: Problem, state: LinearProgramState) -> float:
        return state.intercept

    def gap_estimate(self, problem: Problem, state: LinearProgramState) -> float:
        return state.gap


def is_small_program(problem: Problem) -> bool:
    """Return whether the first program has all rows and all features, so that it is the only one."""
    return problem.n <= ALL_ROWS and problem.d <= ALL_COLUMNS


def _smoothed(problem: Problem) -> Problem:
    return problem.replace(loss=SmoothHinge(SMOOTH))


def _worst(violation: np.ndarray, most: int) -> np.ndarray:
    """Return the places with the largest positive violations, up to the number given."""
    found = np.flatnonzero(violation > 0.0)
    return found if len(found) <= most else found[np.argpartition(-violation[found], most)[:most]]
