"""Pegasos: stochastic subgradient descent on the hinge with step 1/(l2·t), in batches, projected, on kernels.

Shalev-Shwartz et al. 2011 (docs/references.md#shalev-shwartz-2011). For each batch, with k the mean size of a batch:

    1) violators   V = rows of the batch with margin y·(x·w) < 1
    2) decay       t ← t + 1,   w ← (1 − 1/t)·w
    3) step        w ← w + 1/(l2·t·k)·Σ over V of n·cᵢ·yᵢxᵢ
    4) project     w ← w·min(1, 1/(√l2·‖w‖)), if asked for
    5) average     S ← S + ω_t·w, the sum behind output="average" (ω_t = 1) and "weighted" (ω_t = t)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import Hinge, WithBias, compiled, draw, fresh_seed, kernel, natural_order, one_of, shuffle, whole_number
from dualgap.kernels import load_block, split_order
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.gradient.primal import OUTPUTS, IterateWeights, record
from dualgap.solvers.suffix import SecondHalf

__all__ = ["Pegasos"]


class PegasosIterate(NamedTuple):
    """w = scale·v with v = Σ aᵢyᵢxᵢ, and S = Σ ω_τ·w_τ = Σ (seen·aᵢ − zᵢ)yᵢxᵢ.

    `a` counts violations, each times the sample's relative weight; the model and its dual point are rebuilt from it. An entry e that
    joins aᵢ is part of every later iterate, and adds e·(seen now − seen then) to S: `z` sums up e·(seen then).

    numbers
        t: steps taken. scale: see above. sqnorm: ‖v‖², kept where w is projected. seen: Σ ω_τ·scale_τ. weight: Σ ω_τ.
    """

    v: np.ndarray
    a: np.ndarray
    z: np.ndarray
    numbers: np.recarray


@compiled
class WholeSpace(NamedTuple):
    """No projection."""

    root_l2: float

    def add_to_norm(self, rows, i, entry, y, iterate):
        pass

    def scale_into(self, scale, iterate):
        return scale


@compiled
class Ball(NamedTuple):
    """The ball of radius 1/√l2, in which the optimum lies."""

    root_l2: float

    def add_to_norm(self, rows, i, entry, y, iterate):
        """Update ‖v‖² for v + entry·y·xᵢ, before v changes."""
        iterate.numbers[0].sqnorm += entry * (2.0 * y * rows.dot(i, iterate.v) + entry * rows.sqnorm(i))

    def scale_into(self, scale, iterate):
        """Return the scale with which scale·v lies in the ball."""
        ratio = scale * np.sqrt(max(iterate.numbers[0].sqnorm, 0.0)) * self.root_l2
        return scale / ratio if ratio > 1.0 else scale


class PegasosPlan(NamedTuple):
    """How an epoch steps."""

    batch: int  # rows a batch
    batches: int  # batches an epoch
    region: WholeSpace | Ball
    weights: IterateWeights


@dataclass(kw_only=True)
class PegasosState(State):
    # fixed by start
    rows: Any  # the problem's, with a constant column for a penalised intercept
    region: WholeSpace | Ball
    # changed by every epoch
    iterate: PegasosIterate
    order: np.ndarray
    violated: np.ndarray  # scratch: rows of a batch
    half: SecondHalf | None  # the sums S of the second half, for output="average"


@register
@dataclass(frozen=True)
class Pegasos(Solver):
    """Stochastic subgradient descent on the hinge with step 1/(l2·t), margins taken before the decay.

        w ← (1 − 1/t)·w + (1/(l2·t·k)) Σ over the batch's rows with margin below 1 of y·x

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
        The last iterate, the average of the iterates of the second half, or the average of all with weights proportional to t. After T
        epochs the half begins after T₀ = ⌊T/2⌋ of them; see `SDCA` for what it costs.

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
        one_of("output", self.output, tuple(OUTPUTS))

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
        return PegasosState(
            rows=rows,
            region=(Ball if self.project else WholeSpace)(np.sqrt(problem.l2)),
            iterate=PegasosIterate(
                np.zeros(problem.size + biased),
                np.zeros(n),
                np.zeros(n),
                record(t=0.0, scale=1.0, sqnorm=0.0, seen=0.0, weight=0.0),
            ),
            order=natural_order(n),
            violated=np.empty(min(self.batch_size, n), dtype=np.int64),
            half=SecondHalf() if self.output == "average" else None,
        )

    def epoch(self, problem: Problem, state: PegasosState, rng: np.random.Generator) -> None:
        if self.sampling == "permutation":
            shuffle(state.order, fresh_seed(rng))
        else:
            draw(state.order, problem.n, fresh_seed(rng))
        batch = min(self.batch_size, problem.n)
        pieces = split_order(state.rows, state.order)
        batches = sum(-(-len(piece) // batch) for piece in pieces)
        plan = PegasosPlan(batch, batches, state.region, OUTPUTS[self.output])
        for piece in pieces:
            rows = load_block(state.rows, piece)
            descend(rows, problem.samples, problem.l2, plan, state.iterate, piece, state.violated)
        state.passes += 1.0
        if state.half is not None:
            state.half.add(*_sums(state.iterate))

    def _expansion(self, problem: Problem, state: PegasosState) -> np.ndarray:
        """Return the aᵢ of the output w = Σ aᵢyᵢxᵢ."""
        if self.output == "last":
            return np.asarray(state.iterate.numbers[0].scale * state.iterate.a)
        total, weight = _sums(state.iterate)
        if state.half is not None and (then := state.half.since()[1]) is not None:
            total, weight = total - then[0], weight - float(then[1])
        return total / max(weight, 1e-300)

    def model(self, problem: Problem, state: PegasosState) -> tuple[np.ndarray, float]:
        a = problem.y * self._expansion(problem, state)
        coef = problem.combine(a) if problem.kernel is None else a
        return coef, (problem.intercept_scale**2 * float(a.sum()) if problem.intercept == "penalised" else 0.0)

    def dual(self, problem: Problem, state: PegasosState) -> np.ndarray:
        counted = problem.c > 0
        return np.where(counted, problem.l2 * self._expansion(problem, state) / np.where(counted, problem.c, 1.0), 0.0)


def _sums(iterate: PegasosIterate) -> tuple[np.ndarray, float]:
    """Return the coefficients of S = Σ ω_τ·w_τ over all iterates, and Σ ω_τ."""
    now = iterate.numbers[0]
    return now.seen * iterate.a - iterate.z, float(now.weight)


@kernel
def descend(rows, samples, l2, plan, iterate, order, violated):
    """Take the steps of an epoch over the rows of `order`."""
    n = order.shape[0]
    now = iterate.numbers[0]
    for b in range((n + plan.batch - 1) // plan.batch):
        # 1) violators, by the margins before anything moves
        count = 0
        scale = now.scale
        for s in range(b * plan.batch, min((b + 1) * plan.batch, n)):
            i = order[s]
            if samples.c[i] > 0.0 and samples.y[i] * scale * rows.dot(i, iterate.v) < 1.0:
                violated[count] = i
                count += 1
        # 2) decay; the first step would make the scale zero, and w is zero anyway
        now.t += 1.0
        if now.t > 1.0:
            scale *= 1.0 - 1.0 / now.t
        # 3) step: a violator enters w with (1/(l2·t))·(n·c)/(n/batches), and v = w/scale with `entry`
        for k in range(count):
            i = violated[k]
            entry = samples.c[i] * plan.batches / (l2 * now.t * scale)
            plan.region.add_to_norm(rows, i, entry, samples.y[i], iterate)
            rows.add(i, entry * samples.y[i], iterate.v)
            iterate.a[i] += entry
            iterate.z[i] += now.seen * entry
        # 4) project
        scale = plan.region.scale_into(scale, iterate)
        now.scale = scale
        # 5) average
        weight = plan.weights.weight_at(now.t)
        now.seen += weight * scale
        now.weight += weight
        if scale < plan.weights.smallest_scale:
            fold(iterate)


@kernel
def fold(iterate):
    """Multiply the scale into the vectors, before it underflows or its sum runs out of digits. Projections make it fall fast."""
    now = iterate.numbers[0]
    for k in range(iterate.v.shape[0]):
        iterate.v[k] *= now.scale
    for i in range(iterate.a.shape[0]):
        iterate.z[i] -= now.seen * iterate.a[i]
        iterate.a[i] *= now.scale
    now.sqnorm *= now.scale * now.scale
    now.scale = 1.0
    now.seen = 0.0
