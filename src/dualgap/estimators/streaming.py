"""One batch of a stream: the model moves as little as it must to do well on the batch.

    minimise over w, b    ½‖w − w_before‖² + (b − b_before)²/(2·scale²) + C · Σ over the batch of sᵢ φ(yᵢ(xᵢ·w + b))

solved by dual coordinate ascent on the batch's own dual variables, those of earlier batches held as they are. (With an l1 part,
u = Σ C·s·β·y·x stands for w in the first term, and w = soft(u, l1_ratio)/(1 − l1_ratio).)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import fresh_seed, natural_order, shuffle, total_psi, total_value
from dualgap.estimators.common import penalties
from dualgap.estimators.labelled import Labelled, Side
from dualgap.estimators.multiclass import Budget
from dualgap.problem import Problem
from dualgap.solvers.coordinate import Ascent, free_scale

__all__ = ["Stream", "absorb", "partial_fit"]


@dataclass
class Stream:
    """What one linear model carries from batch to batch: v = Σ C·s·β·y·x / (1 − l1_ratio) over all that was seen, and b."""

    v: np.ndarray
    intercept: float = 0.0

    def coef(self, problem: Problem) -> np.ndarray:
        """w of that v."""
        return np.array(problem.penalty.primal(self.v))


def absorb(stream: Stream, problem: Problem, tol: float, max_epochs: int, rng: np.random.Generator) -> tuple[float, int]:
    """Move the model by one batch. Returns the certified relative gap of the batch's problem, and the epochs it took."""
    ascent = Ascent(problem)
    ascent.rows = ascent.bias.rows(problem.rows, stream.intercept)
    before = np.zeros_like(ascent.v)
    before[: problem.d] = stream.v
    ascent.v[:] = before
    order = natural_order(problem.n)
    gap, epoch = np.inf, 0
    for epoch in range(1, max_epochs + 1):
        shuffle(order, fresh_seed(rng))
        ascent.epoch(order)
        if epoch & (epoch - 1) == 0 or epoch % 8 == 0 or epoch == max_epochs:
            gap = _relative_gap(ascent, before, stream.intercept)
            if gap <= tol:
                break
    stream.v = ascent.v[: problem.d].copy()
    stream.intercept += _moved(ascent)
    return gap, epoch


def _moved(ascent: Ascent) -> float:
    return ascent.intercept()  # the column's centre is 0: the b before the batch is in the scores alone


def _relative_gap(ascent: Ascent, before: np.ndarray, intercept: float) -> float:
    """Σ c[φ(m) − ψ(β) + βm] over the batch, each term at least 0, against the batch's objective."""
    problem = ascent.problem
    scores = problem.scores(np.asarray(problem.penalty.primal(ascent.v[: problem.d])))
    margins = problem.y * (scores + intercept + _moved(ascent))
    loss = float(total_value(problem.loss, margins, problem.c))
    gap = loss - float(total_psi(problem.loss, ascent.beta, problem.c)) + float(problem.c @ (ascent.beta * margins))
    objective = loss + 0.5 * problem.l2 * float(np.sum((ascent.v - before) ** 2))
    return max(gap, 0.0) / objective if objective > 0 else 0.0


def partial_fit(model: Any, data: Labelled, C: float, ratio: float, budget: Budget) -> None:
    """One batch for every model of an estimator; sets coef_, intercept_, n_iter_, status_ and what the next batch needs."""
    streams: list[Stream] = getattr(model, "_streams", None) or _streams_of(model, ratio)
    rng = np.random.default_rng(budget.seed)
    gaps, epochs = [], []
    for j, stream in enumerate(streams):
        side = data.one_against_rest(1 if len(streams) == 1 else j)
        if side.total == 0.0:
            continue  # a batch without weight says nothing
        problem = _batch_problem(model, data, side, penalties(C, ratio, side.total))
        gap, taken = absorb(stream, problem, budget.tol, budget.max_epochs, rng)
        gaps.append(gap)
        epochs.append(taken)
        model.coef_[j], model.intercept_[j] = stream.coef(problem), stream.intercept
    model._streams = streams
    model.n_iter_ = max(epochs, default=0)
    model.status_ = "converged" if max(gaps, default=0.0) <= budget.tol else "max_epochs"


def _streams_of(model: Any, ratio: float) -> list[Stream]:
    """The state behind fitted models: of all u with w = soft(u, l1_ratio)/(1 − l1_ratio), the one nearest to zero."""
    lift = ratio / (1.0 - ratio)
    return [Stream(w + lift * np.sign(w), float(b)) for w, b in zip(model.coef_, model.intercept_, strict=True)]


def _batch_problem(model: Any, data: Labelled, side: Side, strengths: tuple[float, float]) -> Problem:
    kind = "penalised" if model.fit_intercept else "none"
    problem = Problem(data.X, side.signs, model.loss, model.delta, *strengths, side.weights, kind, classes=(-1.0, 1.0))
    if kind == "penalised":
        problem.intercept_scale = (
            model.intercept_scaling if model.intercept == "penalised" else free_scale(problem.c @ problem.sqnorms)
        )
    return problem
