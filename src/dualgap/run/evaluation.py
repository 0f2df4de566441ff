"""The run of a solver on a two-class problem, as the driver steps it: certificates, held-out sets, the best model and bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualgap.problem import Problem, all_finite
from dualgap.proof import DualPoint, best_intercept, dual_from_margins, dual_point, primal_value
from dualgap.run.stepper import Best, Evaluation, Stepper
from dualgap.solvers import Solver, State, Warm

__all__ = ["SolverRun", "Watched", "make_watched"]


class Watched:
    """A held-out set, checked and converted once."""

    def __init__(self, problem: Problem, name: str, X: Any, y: Any) -> None:
        self.name, self.problem = name, problem
        self.X = problem.features(X, f"{name} X")
        self.y = problem.signs(y, self.X.shape[0], f"{name} y")

    def measure(self, coef: np.ndarray, intercept: float) -> dict[str, float]:
        wrong = (self.problem.decision(self.X, coef, intercept) > 0) != (self.y > 0)
        per_class = [1.0 - wrong[self.y == sign].mean() for sign in (1.0, -1.0) if (self.y == sign).any()]
        return {f"{self.name}_error": float(wrong.mean()), f"{self.name}_balanced_accuracy": float(np.mean(per_class))}


def make_watched(problem: Problem, watch: Any) -> list[Watched]:
    if watch is None:
        return []
    sets = watch if isinstance(watch, Mapping) else {"test": watch}
    for name, pair in sets.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"watch: {name!r} must be a pair (X, y); got {type(pair).__name__}")
    return [Watched(problem, str(name), X, y) for name, (X, y) in sets.items()]


class SolverRun(Stepper):
    """A solver on a problem.

    Sets: `state` in `start`, changed by `step`; `best` in `evaluate`.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        rng: np.random.Generator,
        tol: float = 0.0,
        warm: Warm | None = None,
        watched: list[Watched] | None = None,
    ) -> None:
        self.problem, self.solver, self.rng, self.tol, self.warm, self.watched = problem, solver, rng, tol, warm, watched or []
        self.state: Any = None  # whatever the solver's `start` returns
        self.at_zero = float(problem.loss.value(0.0))  # the weights add up to 1
        self.best = Best(np.zeros(problem.size), 0.0, self.at_zero, "margins")

    def start(self) -> None:
        self.state = self.solver.start(self.problem, self.rng, self.warm)
        if isinstance(self.state, State):
            self.state.tol = self.tol

    def step(self) -> None:
        self.solver.epoch(self.problem, self.state, self.rng)

    def gap_estimate(self) -> float | None:
        return self.solver.gap_estimate(self.problem, self.state)

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges is answered by its status
    def evaluate(self) -> Evaluation:
        problem, state, best = self.problem, self.state, self.best
        own = self._own_point()
        if own is not None:
            best.offer_bound(own.value, own.beta)
        coef, intercept = self.solver.model(problem, state)
        scores = None
        if coef is not None:
            stored = problem.stored(coef)
            scores = self.solver.scores(problem, state)
        elif own is not None and own.coef is not None and own.stored is not None:
            coef, stored = own.coef, own.stored
        else:  # neither a model nor a finite dual point: the run has diverged
            coef = stored = np.full(problem.size, np.nan)
        if scores is None:
            scores = problem.scores(stored)
        finite = all_finite(scores)
        best_b = intercept is None
        if intercept is None:
            intercept = best_intercept(problem, scores) if finite else math.nan
        margins = scores + intercept
        margins *= problem.y
        primal = primal_value(problem, coef, intercept, stored, margins) if finite else math.inf
        if finite and math.isfinite(primal):
            # The hinge's slope is a coin toss at its kink, where the support vectors are: a solver's own β is better there.
            # On a store the slopes would cost another reading of all rows, and where the solver's bound will do they are not needed.
            best.offer_model(coef, intercept, primal)
            smooth = math.isfinite(problem.loss.curvature()) and not problem.streaming
            if own is None or (smooth and not best.certificate().relative_gap <= self.tol):
                bound = self._margin_bound(scores, margins, best_b)
                best.offer_bound(bound.value, bound.beta, "margins")
        beta = best.beta if own is None else own.beta
        columns = {
            # As `predict` would have it: a score of exactly 0 is the first class, so a margin of 0 need not be an error.
            "train_error": self._wrong(margins) / problem.n,
            "support_vectors": 0.0 if beta is None else float(np.count_nonzero(beta > 0)),
            "nonzeros": float(np.count_nonzero(coef)),
        }
        for held_out in self.watched:
            columns.update(held_out.measure(coef, intercept))
        return Evaluation(best.certificate(primal), coef, float(intercept), float(state.passes), columns)

    def _wrong(self, margins: np.ndarray) -> int:
        on_line = margins == 0.0
        right = np.count_nonzero(margins > 0.0) + (np.count_nonzero(self.problem.y[on_line] < 0.0) if on_line.any() else 0)
        return len(margins) - int(right)

    def _own_point(self) -> DualPoint | None:
        beta = self.solver.dual(self.problem, self.state)
        if beta is None:
            return None
        beta = np.array(beta, dtype=np.float64)  # the best one is kept, and a solver may go on writing to its own
        if not all_finite(beta):
            return None
        return dual_point(self.problem, beta, lambda a: self.solver.combine(self.problem, self.state, a))

    def _margin_bound(self, scores: np.ndarray, margins: np.ndarray, best_b: bool) -> DualPoint:
        if self.problem.intercept == "free" and not best_b:
            # At the best b for this w the slopes nearly balance, so that little is lost in making them do so exactly.
            margins = self.problem.y * (scores + best_intercept(self.problem, scores))
        return dual_from_margins(self.problem, margins)
