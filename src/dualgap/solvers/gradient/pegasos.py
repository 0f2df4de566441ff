"""Pegasos: primal estimated subgradient solver (Shalev-Shwartz, Singer, Srebro and Cotter, 2011), in batches, projected, on kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import Hinge, WithBias, draw, fresh_seed, kernel, natural_order, one_of, shuffle, whole_number
from dualgap.kernels import loaded, parts
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register

__all__ = ["Pegasos"]


class Iterate(NamedTuple):
    """w = scale·v with v = Σ aᵢ yᵢ xᵢ, and the running sum of iterates as Σ_τ ω_τ w_τ = (seen·a − z)ᵢ over the same rows.

    `a` counts violations (times the sample's relative weight); with it the model and its dual point are rebuilt exactly.
    scalars: step t, scale, ‖v‖², Σ ω_τ scale_τ, Σ ω_τ
    """

    v: np.ndarray
    a: np.ndarray
    z: np.ndarray
    scalars: np.ndarray


T, SCALE, SQNORM, SEEN, WEIGHT = range(5)
SMALL_SCALE, SMALL_SCALE_OF_SUMS = 1e-100, 1e-4  # below them the scale is carried into the vectors


class Plan(NamedTuple):
    """How an epoch steps: batch size, batches in all of it, whether to project, and how iterates weigh in their average (0, 1 or t)."""

    batch: int
    batches: int
    project: bool
    average: int


@dataclass
class PegasosState(State):
    rows: Any = None
    iterate: Any = None
    order: Any = None
    violated: Any = None


@register
@dataclass(frozen=True)
class Pegasos(Solver):
    """Stochastic subgradient descent on the hinge with step 1/(l2·t).

        w ← (1 − 1/t)·w + (1/(l2·t·k)) Σ over the batch's rows with margin below 1 of y·x        margins taken before the decay

    Parameters
    ----------
    batch_size : int
        Rows a step.
    project : bool
        Scale w back into the ball of radius 1/√l2, where the optimum lies, after each step.
    sampling : {"permutation", "random"}
        A fresh random partition into batches each epoch, or independent draws. The batches of a partition share n rows, so that the
        last may be short; each step divides by their mean size, and an epoch weighs every row alike.
    output : {"last", "average", "weighted"}
        The last iterate, the average of all, or their average with weights proportional to t.

    On kernel rows it is kernel Pegasos: f(x) = 1/(l2·T) Σ αⱼ yⱼ k(xⱼ, x) with αⱼ the number of violations. With a permutation each
    epoch, βⱼ = violations/epochs is feasible and w(β) = w: the certificate costs nothing.

    A warm start changes nothing: the first step multiplies w by 1 − 1/1, whatever it was.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(200, random_state=0), l2=1e-1)
    >>> dualgap.solve(problem, dualgap.Pegasos(batch_size=10), tol=2e-2, max_epochs=1000).status
    'converged'
    """

    batch_size: int = 1
    project: bool = False
    sampling: str = "permutation"
    output: str = "last"

    name: ClassVar[str] = "pegasos"
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "stochastic subgradient, step 1/(l2·t)"

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        one_of("sampling", self.sampling, ("permutation", "random"))
        one_of("output", self.output, ("last", "average", "weighted"))

    def supports(self, problem: Problem) -> Support:
        if not isinstance(problem.loss, Hinge):
            return no("Pegasos is made for the hinge; SGD takes any loss")
        if problem.l1 > 0:
            return no("Pegasos is made for the l2 penalty alone; SGD takes an l1 part by its prox")
        if problem.intercept == "free":
            return no("its step 1/(l2·t) rests on strong convexity, which a free intercept lacks; use intercept='penalised'")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> PegasosState:
        biased = problem.intercept == "penalised"
        rows = WithBias(problem.rows, problem.intercept_scale, 0.0) if biased else problem.rows
        n = problem.n
        iterate = Iterate(np.zeros(problem.size + biased), np.zeros(n), np.zeros(n), np.array([0.0, 1.0, 0.0, 0.0, 0.0]))
        batch = min(self.batch_size, n)
        return PegasosState(rows=rows, iterate=iterate, order=natural_order(n), violated=np.empty(batch, dtype=np.int64))

    def epoch(self, problem: Problem, state: PegasosState, rng: np.random.Generator) -> None:
        if self.sampling == "permutation":
            shuffle(state.order, fresh_seed(rng))
        else:
            draw(state.order, problem.n, fresh_seed(rng))
        batch = min(self.batch_size, problem.n)
        pieces = parts(state.rows, state.order)
        batches = sum(-(-len(piece) // batch) for piece in pieces)
        plan = Plan(batch, batches, self.project, ("last", "average", "weighted").index(self.output))
        for piece in pieces:
            rows = loaded(state.rows, piece)
            descend(rows, problem.samples, problem.l2, plan, state.iterate, piece, state.violated)
        state.passes += 1.0

    def _expansion(self, problem: Problem, state: PegasosState) -> np.ndarray:
        """The aᵢ of the output: w = Σ aᵢ yᵢ xᵢ."""
        iterate = state.iterate
        if self.output == "last":
            return iterate.scalars[SCALE] * iterate.a
        return (iterate.scalars[SEEN] * iterate.a - iterate.z) / max(iterate.scalars[WEIGHT], 1e-300)

    def model(self, problem: Problem, state: PegasosState) -> tuple[np.ndarray, float]:
        a = problem.y * self._expansion(problem, state)
        coef = problem.combine(a) if problem.kernel is None else a
        return coef, (problem.intercept_scale**2 * float(a.sum()) if problem.intercept == "penalised" else 0.0)

    def dual(self, problem: Problem, state: PegasosState) -> np.ndarray:
        counted = problem.c > 0
        return np.where(counted, problem.l2 * self._expansion(problem, state) / np.where(counted, problem.c, 1.0), 0.0)


@kernel
def descend(rows, samples, l2, plan, iterate, order, violated):
    n = order.shape[0]
    for b in range((n + plan.batch - 1) // plan.batch):
        # Margins of the whole batch before anything moves.
        count = 0
        scale = iterate.scalars[SCALE]
        for s in range(b * plan.batch, min((b + 1) * plan.batch, n)):
            i = order[s]
            if samples.c[i] > 0.0 and samples.y[i] * scale * rows.dot(i, iterate.v) < 1.0:
                violated[count] = i
                count += 1
        iterate.scalars[T] += 1.0
        t = iterate.scalars[T]
        if t > 1.0:
            scale *= 1.0 - 1.0 / t
        # Each violator enters w with (1/(l2·t))·(n·c)/(n/batches); `entry` is that for v = w/scale.
        for k in range(count):
            i = violated[k]
            entry = samples.c[i] * plan.batches / (l2 * t * scale)
            if plan.project:
                cross = samples.y[i] * rows.dot(i, iterate.v)
                iterate.scalars[SQNORM] += entry * (2.0 * cross + entry * rows.sqnorm(i))
            rows.add(i, entry * samples.y[i], iterate.v)
            iterate.a[i] += entry
            iterate.z[i] += iterate.scalars[SEEN] * entry
        if plan.project:
            norm = scale * np.sqrt(max(iterate.scalars[SQNORM], 0.0))
            if norm * np.sqrt(l2) > 1.0:
                scale /= norm * np.sqrt(l2)
        iterate.scalars[SCALE] = scale
        if plan.average > 0:
            weight = 1.0 if plan.average == 1 else t
            iterate.scalars[SEEN] += weight * scale
            iterate.scalars[WEIGHT] += weight
        if scale < (SMALL_SCALE if plan.average == 0 else SMALL_SCALE_OF_SUMS):
            fold(iterate)


@kernel
def fold(iterate):
    """Carry the scale into the vectors. Projections shrink it fast, and it would underflow, or its sum run out of digits."""
    scale, seen = iterate.scalars[SCALE], iterate.scalars[SEEN]
    for k in range(iterate.v.shape[0]):
        iterate.v[k] *= scale
    for i in range(iterate.a.shape[0]):
        iterate.z[i] -= seen * iterate.a[i]
        iterate.a[i] *= scale
    iterate.scalars[SCALE] = 1.0
    iterate.scalars[SQNORM] *= scale * scale
    iterate.scalars[SEEN] = 0.0
