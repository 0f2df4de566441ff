"""One batch of a stream: the model moves as little as it must to do well on the batch.

    minimise over w, b    ½‖w − w_before‖² + (b − b_before)²/(2·scale²) + C · Σ over the batch of sᵢ φ(yᵢ(xᵢ·w + b))

solved by dual coordinate ascent on the batch's own dual variables, those of earlier batches held as they are. (With an l1 part,
u = Σ C·s·β·y·x stands for w in the first term, and w = soft(u, l1_ratio)/(1 − l1_ratio).)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dualgap.core import ROUNDOFF, Bounded, fresh_seed, gamma, inner, kept, length_bound, natural_order, shuffle
from dualgap.estimators.fitting import keep_attributes
from dualgap.estimators.model import Fit, Model, fit_of
from dualgap.estimators.parameters import Parameters
from dualgap.estimators.samples import Labelled, Side
from dualgap.problem import Problem
from dualgap.proof import Certificate, assemble, certificate_of_pair, penalty_value, plain_margins, row_sums
from dualgap.run import Evaluation, Stepper, drive
from dualgap.solvers.coordinate import Ascent, free_scale

__all__ = ["BatchRun", "Stream", "absorb", "partial_fit"]


@dataclass
class Stream:
    """What one linear model carries from batch to batch: v = Σ C·s·β·y·x / (1 − l1_ratio) over all that was seen, and b."""

    v: np.ndarray
    intercept: float = 0.0

    def coef(self, problem: Problem) -> np.ndarray:
        """w of that v."""
        return np.array(problem.penalty.primal(self.v))


class BatchRun(Stepper):
    """Coordinate ascent on the dual variables of one batch, as the driver steps it; those of earlier batches stay as they are.

    Its certificate is for the batch's problem. `evaluate` sets it; `move` then changes the stream.
    """

    at_zero = np.inf  # far from the model before, w = 0 is no measure of divergence
    recorded = False

    def __init__(self, stream: Stream, problem: Problem, rng: np.random.Generator) -> None:
        self.stream, self.problem, self.rng = stream, problem, rng
        self.ascent = Ascent(problem)
        self.ascent.rows = self.ascent.bias.rows(problem.rows, stream.intercept)
        self.ascent.v[: problem.d] = stream.v
        self.before = self.ascent.v.copy()
        self.order = natural_order(problem.n)
        self.found = Certificate(np.inf, 0.0, "solver")

    def step(self) -> None:
        shuffle(self.order, fresh_seed(self.rng))
        self.ascent.epoch(self.order)

    def evaluate(self) -> Evaluation:
        """The gap is Σ c[φ(m) − ψ(β) + βm] over the batch, each term at least 0, at the v that belongs to β."""
        problem, ascent = self.problem, self.ascent
        ascent.rebuild()
        ascent.v += self.before
        coef, b = problem.penalty.primal(ascent.v[: problem.d]), self._intercept()
        norms = problem.norms
        margins = plain_margins(problem.scores(coef), problem.y, b, norms, problem.longest, length_bound(coef))
        sums = row_sums(problem.loss, problem.samples, margins, ascent.beta)
        error = gamma(problem.n + 8) * float(np.abs(ascent.coords.factor * ascent.beta) @ norms) + ROUNDOFF * length_bound(ascent.v)
        penalty = penalty_value(0.0, problem.l2, ascent.v - self.before)
        self.found = certificate_of_pair(assemble(sums, penalty, Bounded(0.0), 2.0 * problem.l2 * error * error), "solver")
        return Evaluation(self.found, coef, b, 0.0, {})

    def certificate(self) -> Certificate:
        return self.found

    def _intercept(self) -> float:
        return self.stream.intercept + self.ascent.intercept()  # the column's centre is 0; that of `ascent.rows` is the b before

    def move(self) -> None:
        """Give the stream the model that the batch has led to."""
        self.stream.v, self.stream.intercept = self.ascent.v[: self.problem.d].copy(), self._intercept()


def _due(epoch: int) -> bool:
    return epoch & (epoch - 1) == 0 or epoch % 8 == 0


def absorb(stream: Stream, problem: Problem, tol: float, max_epochs: int, rng: np.random.Generator) -> tuple[float, int]:
    """Move the model by one batch. Returns the certified relative gap of the batch's problem, and the epochs it took.

    Ctrl-C leaves the stream as it was and ends the caller's loop over batches, too.
    """
    run = BatchRun(stream, problem, rng)
    ended = drive(run, tol, max_epochs, evaluate=_due, stall=False)
    if ended.status == "interrupted":
        raise KeyboardInterrupt
    run.move()
    return run.found.relative_gap, ended.epochs


def partial_fit(model: Model, data: Labelled, parameters: Parameters) -> None:
    """Train every model of an estimator on one batch; sets coef_, intercept_, n_iter_, status_ and what the next batch needs."""
    budget = parameters.budget
    before: list[Stream] = [*fit_of(model).streams] or _streams_of(model, parameters.ratio)
    streams = [
        replace(stream) for stream in before
    ]  # the model's own stay as they are until all have moved: Ctrl-C moves all or none
    coef, intercept = model.coef_.copy(), model.intercept_.copy()
    rng = np.random.default_rng(budget.seed)
    gaps, epochs = [], []
    with kept() as ctrl_c:
        for j, stream in enumerate(streams):
            side = data.side(j)
            if side.total == 0.0:
                continue  # a batch without weight says nothing
            problem = _batch_problem(model, data, side, parameters)
            gap, taken = absorb(stream, problem, budget.tol, budget.max_epochs, rng)
            gaps.append(gap)
            epochs.append(taken)
            coef[j], intercept[j] = stream.coef(problem), stream.intercept
        status = "converged" if max(gaps, default=0.0) <= budget.tol else "max_epochs"
        found = {
            "classes_": data.classes,
            "coef_": coef,
            "intercept_": intercept,
            "n_iter_": max(epochs, default=0),
            "status_": status,
        }
        keep_attributes(model, Fit(streams=streams), found)
        if ctrl_c.take():
            raise KeyboardInterrupt  # ends the caller's loop over batches


def _streams_of(model: Model, ratio: float) -> list[Stream]:
    """The state behind fitted models: of all u with w = soft(u, l1_ratio)/(1 − l1_ratio), the one nearest to zero."""
    lift = ratio / (1.0 - ratio)
    return [Stream(w + lift * np.sign(w), float(b)) for w, b in zip(model.coef_, model.intercept_, strict=True)]


def _batch_problem(model: Model, data: Labelled, side: Side, parameters: Parameters) -> Problem:
    """The batch's problem; a free intercept moves from batch to batch as a penalised one with the scale of the coordinate solvers."""
    kind, scale = ("none" if parameters.intercept == "none" else "penalised"), parameters.scale
    strengths = parameters.strengths(side.total)
    problem = Problem(data.X, side.signs, model.loss, model.delta, *strengths, side.weights, kind, classes=(-1.0, 1.0))
    if kind == "none":
        return problem
    return problem.replace(
        intercept_scale=scale
        if parameters.intercept == "penalised"
        else free_scale(float(inner(problem.c, problem.sqnorms)), problem.l2)
    )
