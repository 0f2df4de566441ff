"""The run of a solver on a two-class problem, as the driver steps it: certificates, held-out sets, the best model and bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualgap.problem import Problem, all_finite
from dualgap.proof import (
    DualPoint,
    best_intercept,
    certify_pair,
    dual_from_margins,
    dual_point,
    kernel_scores,
    objective_floor,
    scores_of,
    zero_model,
    zero_point,
)
from dualgap.run.deciding import Deciding
from dualgap.run.stepper import Best, Evaluation, Stepper
from dualgap.solvers import Solver, State, Warm

__all__ = ["SolverRun", "Watched", "make_watched"]


class Watched:
    """A held-out set, checked and converted once."""

    def __init__(self, problem: Problem, name: str, X: object, y: object) -> None:
        self.name, self.problem = name, problem
        self.X = problem.features(X, f"{name} X")
        self.y = problem.signs(y, self.X.shape[0], f"{name} y")

    def measure(self, coef: np.ndarray, intercept: float) -> dict[str, float]:
        wrong = (self.problem.decision(self.X, coef, intercept) > 0) != (self.y > 0)
        per_class = [1.0 - wrong[self.y == sign].mean() for sign in (1.0, -1.0) if (self.y == sign).any()]
        return {f"{self.name}_error": float(wrong.mean()), f"{self.name}_balanced_accuracy": float(np.mean(per_class))}


def make_watched(problem: Problem, watch: Any) -> list[Watched]:
    sets = watch if isinstance(watch, Mapping) else {"test": watch}
    for name, pair in sets.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"watch: {name!r} must be a pair (X, y); got {type(pair).__name__}")
    return [Watched(problem, str(name), X, y) for name, (X, y) in sets.items()]


def _first_candidate(problem: Problem) -> tuple[Best, float]:
    """Return w = 0, or where bounds exclude 0 what is nearest to it within them, with its best intercept; and its objective with b = 0."""
    coef = np.zeros(problem.size)
    intercept, objective, at_zero = zero_model(problem)
    if not problem.penalty.contains_point(coef):
        coef = problem.penalty.nearest_point(coef)
        best = best_intercept(problem, scores_of(problem, coef))
        objectives = [certify_pair(problem, coef, b, zero_point(problem), "margins").certificate.primal for b in (best, 0.0)]
        intercept, (objective, at_zero) = (best if objectives[0] < objectives[1] else 0.0), (min(objectives), objectives[1])
    return Best(coef, intercept, objective, "margins"), at_zero


class SolverRun(Stepper):
    """A solver on a problem.

    Sets: `state` in `start`, changed by `step`; `best` in `evaluate`; `first`, the warm start until it has been evaluated.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        rng: np.random.Generator,
        tol: float = 0.0,
        warm: Warm | None = None,
        watched: list[Watched] | None = None,
        *,
        atol: float = 0.0,
        deciding: Deciding | None = None,
    ) -> None:
        self.deciding = deciding
        self.problem, self.solver, self.rng, self.warm, self.watched = problem.remembering(), solver, rng, warm, watched or []
        self.tol, self.atol = tol, atol
        self.state: Any = None  # whatever the solver's `start` returns
        if problem.is_regression:
            self.floor = objective_floor(problem)
        # No run ends worse than it began: w = 0 with its best intercept is the first candidate, a warm start as it was given the second.
        self.best, self.at_zero = _first_candidate(self.problem)
        self.first = warm

    def start(self) -> None:
        self.state = self.solver.start(self.problem, self.rng, self.warm)
        if isinstance(self.state, State):
            self.state.tol = self.tol

    def step(self) -> None:
        self.solver.epoch(self.problem, self.state, self.rng)
        self._follow_handovers()

    def change_method(self) -> bool:
        changed = bool(self.solver.change_method(self.problem, self.state, self.rng))
        self._follow_handovers()
        return changed

    def _follow_handovers(self) -> None:
        if isinstance(self.state, State) and len(self.state.handovers) > len(self.handovers):
            self.handovers = tuple(self.state.handovers)
            self.restarted_at = self.handovers[-1][0]

    def gap_estimate(self) -> float | None:
        return self.solver.gap_estimate(self.problem, self.state)

    def evaluate(self) -> Evaluation:
        problem, state = self.problem, self.state
        if self.first is not None:
            self._offer_warm_start(self.first)
        own = self._own_point()
        coef, intercept = self._model(own)
        if problem.kernel is None:
            scores = scores_of(problem, coef)
        else:
            stored = own.stored if own is not None and coef is own.coef else kernel_scores(problem, coef).values
            scores = problem.offset.added(stored)
        finite = all_finite(scores)
        best_b = intercept is None
        if intercept is None:
            intercept = best_intercept(problem, scores) if finite else math.nan
        margins = scores + intercept
        margins *= problem.y
        primal = math.inf
        if finite and math.isfinite(intercept):
            primal = self._certify(coef, intercept, own) if own is not None else math.inf
            # The hinge's slope is a coin toss at its kink, where the support vectors are: a solver's own β is better there.
            # On a store the slopes would cost another reading of all rows, and where the solver's bound will do they are not needed.
            smooth = not problem.loss.has_kink() and not problem.streaming
            if own is None or (smooth and not self.reached(self.best.certificate())):
                primal = self._certify(coef, intercept, self._margin_point(scores, margins, best_b), "margins")
        beta = self.best.beta if own is None else own.beta
        columns = {
            # As `predict` would have it: a score of exactly 0 is the first class, so a margin of 0 need not be an error.
            "train_error": float(np.abs(margins).mean()) if problem.is_regression else self._wrong(margins) / problem.n,
            "support_vectors": 0.0 if beta is None else float(np.count_nonzero(beta)),
            "nonzeros": float(np.count_nonzero(coef)),
        }
        for held_out in self.watched:
            columns.update(held_out.measure(coef, intercept))
        columns.update(self.decide())
        if isinstance(state, State):
            state.tol = self.relative_tolerance()
        return Evaluation(self.best.certificate(primal), coef, float(intercept), float(state.passes), columns)

    def _offer_warm_start(self, first: Warm) -> None:
        """Make the model of a warm start a candidate, once."""
        self.first = None
        if first.coef is not None and not self.problem.streaming:
            self._certify(self._copy(first.coef, "warm start", self.problem.size), first.intercept, zero_point(self.problem))

    def _model(self, own: DualPoint | None) -> tuple[np.ndarray, float | None]:
        """Return the solver's model, or w(β); NaN where there is neither a model nor a finite dual point: the run has diverged."""
        coef, intercept = self.solver.model(self.problem, self.state)
        if coef is not None:
            return self._copy(coef, "model", self.problem.size), intercept
        if own is not None and own.coef is not None:
            return own.coef, intercept
        return np.full(self.problem.size, np.nan), intercept

    def _copy(self, given: ArrayLike, method: str, size: int) -> np.ndarray:
        """Copy what a solver hands over: the best is kept, and a solver may go on writing to its own."""
        array = np.array(given, dtype=np.float64)
        if array.shape != (size,):
            raise ValueError(f"{self.solver.label()}: {method} returned an array of shape {array.shape}; it must be ({size},)")
        return array

    def _certify(self, coef: np.ndarray, intercept: float, point: DualPoint, source: str = "solver") -> float:
        """Certify a model by a dual point, offer both to the best so far, and return the model's objective."""
        proven = certify_pair(self.problem, coef, intercept, point, source, self.tol, self.atol)
        c = proven.certificate
        if math.isfinite(c.primal):
            self.best = self.best.after(coef, intercept, point.beta, c)
        # A pair that is far from the best one says nothing of how near the best one may come.
        self.resolution = proven.resolution if c.gap <= 2.0 * self.best.certificate().gap else 0.0
        return c.primal

    def _wrong(self, margins: np.ndarray) -> int:
        right = np.count_nonzero(margins > 0.0)
        if right < len(margins) and np.count_nonzero(on_line := margins == 0.0):
            right += np.count_nonzero(self.problem.y[on_line] < 0.0)
        return len(margins) - int(right)

    def _own_point(self) -> DualPoint | None:
        beta = self.solver.dual(self.problem, self.state)
        if beta is None:
            return None
        beta = self._copy(beta, "dual", self.problem.n)
        if not all_finite(beta):
            return None
        return dual_point(self.problem, beta)

    def _margin_point(self, scores: np.ndarray, margins: np.ndarray, best_b: bool) -> DualPoint:
        if self.problem.intercept == "free" and not best_b:
            # At the best b for this w the slopes nearly balance, so that little is lost in making them do so exactly.
            margins = self.problem.y * (scores + best_intercept(self.problem, scores))
        return dual_from_margins(self.problem, margins)
