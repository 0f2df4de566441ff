"""ASDCA: accelerated mini-batch stochastic dual coordinate ascent (Shalev-Shwartz & Zhang 2013b, docs/references.md).

    s = γ·l2·n/R²,   θ = ¼·min{1, √(s/m), s, s^(2/3)/m^(1/3)},   φ is 1/γ-smooth,   R² = max n·cᵢ‖xᵢ‖²,   batch m
    z = (1−θ)w + θv;   i in the batch: βᵢ⁺ = (1−θ)βᵢ + θ·slope(yᵢxᵢ·z);   v += Σ cᵢ(βᵢ⁺−βᵢ)yᵢxᵢ/l2;   w = (1−θ)w + θv

v is always w(β). Sparse form: w = v + s·p, so that z = v + (1−θ)s·p, and a batch does p −= Δv/s, then s *= 1−θ. An update therefore
touches no vector of length d, except that p is multiplied by s, and s set to 1, once s has become tiny.

Averages: p is Σ cᵢπᵢyᵢxᵢ/l2 as v is Σ cᵢβᵢyᵢxᵢ/l2, so that w = w(β + s·π), and the mean of the w is w(mean of β + s·π): a sum of n numbers,
brought up to date where βᵢ changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import accumulate, compiled, fresh_seed, kernel, natural_order, one_of, shuffle, total_psi, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.ascent import first_beta
from dualgap.solvers.coordinate.bias import BiasColumn
from dualgap.solvers.suffix import SecondHalf

__all__ = ["ASDCA"]

TINY = 1e-250  # s below which p is multiplied by s and s set to 1: entries of p, changes of v over s, are then far from overflow
SMALL = 1e-4  # the same where sums over the iterates are kept: it costs them at most 4 of their 16 digits
FIRST_MULTIPLIER = 4.0  # of the θ that theory proves, at the start: the proof is pessimistic
ROUNDING = 1e-12  # relative to 1 + |D|: a fall of D by less counts as rounding


class Iterate(NamedTuple):
    """β, v = w(β), and p and s[0] with w = v + s[0]·p."""

    beta: np.ndarray
    v: np.ndarray
    p: np.ndarray
    s: np.ndarray


@compiled
class NoIterateSums(NamedTuple):
    """In place of IterateSums where no average is wanted."""

    smallest: float = TINY

    def record(self, i, beta, step):
        pass

    def end_batch(self, s):
        pass

    def renormalise(self, s):
        pass


@compiled
class IterateSums(NamedTuple):
    """Σ over the batches of each βᵢ and of each βᵢ + s·πᵢ, up to date as of the batches `done` and their sum of s, `seen`."""

    betas: np.ndarray
    scaled: np.ndarray  # Σ s·πᵢ
    pi: np.ndarray
    done: np.ndarray  # batches that betas[i] counts
    seen: np.ndarray  # Σ of s over the batches that scaled[i] counts
    now: np.ndarray  # batches in all; Σ of s over those since s was last set to 1, or since the epoch began
    smallest: float = SMALL

    def record(self, i, beta, step):
        """Count βᵢ and πᵢ up to here, before βᵢ changes; πᵢ moves by the step."""
        self.betas[i] += beta * (self.now[0] - self.done[i])
        self.scaled[i] += self.pi[i] * (self.now[1] - self.seen[i])
        self.done[i], self.seen[i] = self.now[0], self.now[1]
        self.pi[i] += step

    def end_batch(self, s):
        self.now[0] += 1.0
        self.now[1] += s

    def renormalise(self, s):
        for i in range(self.pi.shape[0]):
            self.scaled[i] += self.pi[i] * (self.now[1] - self.seen[i])
            self.seen[i] = 0.0
            self.pi[i] *= s
        self.now[1] = 0.0


def _no_sums_yet(n: int) -> IterateSums:
    return IterateSums(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(2))


def _settle(sums: IterateSums, beta: np.ndarray) -> None:
    """Bring every sum up to date."""
    sums.betas[:] += beta * (sums.now[0] - sums.done)
    sums.scaled[:] += sums.pi * (sums.now[1] - sums.seen)
    sums.done[:] = sums.now[0]
    sums.seen[:] = sums.now[1] = 0.0


class Plan(NamedTuple):
    """How an epoch steps: θ, batch size, and l2."""

    theta: float
    batch: int
    l2: float


@dataclass(kw_only=True)
class ASDCAState(State):
    """The iterate, and the point to go back to should D fall."""

    # fixed by start
    rows: Any  # the problem's, with the bias column of a penalised intercept
    theta: float  # θ as proved
    target: np.ndarray  # slopes of a batch, to work in
    # changed by every epoch
    iterate: Iterate
    order: np.ndarray
    kept: np.ndarray | None  # β after the last epoch in which D did not fall; None: falls are let pass
    dual_value: float  # D at `kept`
    multiplier: float  # of θ
    sums: NoIterateSums | IterateSums
    half: SecondHalf  # the sums at the ends of the epochs of the second half; empty without sums


@register
@dataclass(frozen=True)
class ASDCA(Solver):
    """Accelerated mini-batch dual coordinate ascent, for smooth losses.

    Parameters
    ----------
    batch_size : int
        Rows whose slopes are taken at one point z.
    sampling : {"permutation", "random"}
        Batches are a fresh random partition of the rows each epoch, or drawn anew for each step; without replacement either way.
    adaptive : bool
        Whether to multiply θ, which theory proves to be small enough, by 4 at first (but never above 1). After an epoch in which the
        dual objective fell, β goes back to where it was, w starts again at w(β), and the multiplier is halved, down to 1, from where
        on falls are accepted. The epoch that was undone and the pass that rebuilds w are counted in `passes`.
    output : {"last", "average"}
        The last w, or the average of the w after each batch of the second half: after T epochs it begins after T₀ = ⌊T/2⌋ of them. The dual
        point is the average of β over the same batches. An epoch that was undone does not count. See `SDCA` for what it costs.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> problem = dualgap.Problem(X, y, loss="smooth_hinge", l2=1e-2)
    >>> dualgap.solve(problem, dualgap.ASDCA(batch_size=8), max_epochs=1000).status
    'converged'
    """

    batch_size: int = 8
    sampling: str = "permutation"
    adaptive: bool = True
    output: str = "last"

    name: ClassVar[str] = "asdca"
    summary: ClassVar[str] = "accelerated mini-batch dual coordinate ascent"

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        one_of("sampling", self.sampling, ("permutation", "random"))
        one_of("output", self.output, ("last", "average"))

    def supports(self, problem: Problem) -> Support:
        if not problem.loss.is_smooth():
            return no("its step θ needs a smooth loss; loss='smooth_hinge' with a small delta approximates the hinge")
        if problem.l1 > 0:
            return no("its w is a linear combination of past models w(β); with an l1 part w(β) is not linear. Use l1=0, or 'sdca'")
        if problem.intercept == "free":
            return no(
                "its θ is proved for a strongly convex penalty on every coordinate, the intercept too; use intercept='penalised'"
            )
        if problem.kernel is not None:
            return no("its w is not the w(β) of its dual variables, and would need a second kernel expansion over all rows")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ASDCAState:
        rows = BiasColumn.of(problem).rows(problem.rows)
        beta = first_beta(problem, None if warm is None else warm.dual)
        iterate = _at(problem, rows, beta)
        batch = min(self.batch_size, problem.n)
        return ASDCAState(
            rows=rows,
            theta=proved_theta(problem, batch),
            target=np.empty(batch),
            iterate=iterate,
            order=natural_order(problem.n),
            kept=beta.copy() if self.adaptive else None,
            dual_value=_dual_value(problem, iterate),
            multiplier=FIRST_MULTIPLIER if self.adaptive else 1.0,
            sums=_no_sums_yet(problem.n) if self.output == "average" else NoIterateSums(),
            half=SecondHalf(),
        )

    def epoch(self, problem: Problem, state: ASDCAState, rng: np.random.Generator) -> None:
        batch = len(state.target)
        if self.sampling == "permutation":
            shuffle(state.order, fresh_seed(rng))
        else:
            state.order[:] = _drawn_batches(problem.n, batch, rng)
        plan = Plan(min(1.0, state.multiplier * state.theta), batch, problem.l2)
        accelerate(state.rows, problem.loss, problem.samples, plan, state.iterate, state.order, state.target, state.sums)
        state.passes += 1.0
        undone = state.kept is not None and self._adapt(problem, state, state.kept)
        if isinstance(state.sums, IterateSums):
            if undone:
                state.sums = _sums_before(state.half, problem.n)
            else:
                _settle(state.sums, state.iterate.beta)
            state.half.add(state.sums.betas, state.sums.scaled, state.sums.now[0])

    def _adapt(self, problem: Problem, state: ASDCAState, kept: np.ndarray) -> bool:
        """Keep β if D has not fallen; else go back to the β before and halve the multiplier of θ. Return whether it went back."""
        value = _dual_value(problem, state.iterate)
        # Written so that NaN counts as a fall.
        if not value >= state.dual_value - ROUNDING * (1.0 + abs(state.dual_value)):
            state.multiplier *= 0.5
            state.iterate = _at(problem, state.rows, kept)
            state.passes += 1.0
            state.kept = kept.copy() if state.multiplier > 1.0 else None
            return True
        state.dual_value = value
        kept[:] = state.iterate.beta
        return False

    def model(self, problem: Problem, state: ASDCAState) -> tuple[np.ndarray, float]:
        iterate = state.iterate
        w = iterate.v + iterate.s[0] * iterate.p
        if (mean := _means(state)) is not None:
            w = _at(problem, state.rows, mean[0] + mean[1]).v
        return w[: problem.d], (problem.intercept_scale * float(w[-1]) if problem.intercept == "penalised" else 0.0)

    def dual(self, problem: Problem, state: ASDCAState) -> np.ndarray:
        mean = _means(state)
        return state.iterate.beta.copy() if mean is None else mean[0]


def _means(state: ASDCAState) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the means of β and of s·π over the batches of the second half; None where the last iterate is wanted, or all there is."""
    if not isinstance(state.sums, IterateSums):
        return None
    betas, scaled, batches = state.sums.betas, state.sums.scaled, float(state.sums.now[0])
    if (then := state.half.since()[1]) is not None:
        betas, scaled, batches = betas - then[0], scaled - then[1], batches - float(then[2])
    return None if batches == 0.0 else (betas / batches, scaled / batches)


def _sums_before(half: SecondHalf, n: int) -> IterateSums:
    """Return the sums as they were before the last epoch, with w = w(β) from here on."""
    sums = _no_sums_yet(n)
    if half.last is not None:
        sums.betas[:], sums.scaled[:], sums.now[0] = half.last
        sums.done[:] = sums.now[0]
    return sums


def proved_theta(problem: Problem, batch: int) -> float:
    """θ as proved. With weights, sample i's loss is n·cᵢφ, which is n·cᵢ/γ-smooth: R² is the largest n·cᵢ‖xᵢ‖²."""
    longest = float(np.max(problem.n * problem.c * BiasColumn.of(problem).squares(problem.sqnorms)))
    if longest == 0.0:
        return 0.25
    s = problem.l2 * problem.n / (problem.loss.curvature() * longest)
    return 0.25 * min(1.0, (s / batch) ** 0.5, s, s ** (2 / 3) / batch ** (1 / 3))


def _at(problem: Problem, rows: Any, beta: np.ndarray) -> Iterate:
    """The iterate with w = v = w(β)."""
    v = np.zeros(problem.d + (problem.intercept == "penalised"))
    accumulate(rows, problem.c * problem.y * beta / problem.l2, v)
    return Iterate(beta, v, np.zeros_like(v), np.ones(1))


def _drawn_batches(n: int, batch: int, rng: np.random.Generator) -> np.ndarray:
    draws = [rng.choice(n, size=min(batch, n - first), replace=False, shuffle=False) for first in range(0, n, batch)]
    return np.concatenate(draws)


def _dual_value(problem: Problem, iterate: Iterate) -> float:
    return float(total_psi(problem.loss, iterate.beta, problem.samples)) - 0.5 * problem.l2 * float(iterate.v @ iterate.v)


@kernel
def accelerate(rows, loss, samples, plan, iterate, order, target, sums):
    """An epoch of batches in the given order."""
    theta = plan.theta
    n = order.shape[0]
    for first in range(0, n, plan.batch):
        last = min(first + plan.batch, n)
        s = iterate.s[0]
        # Slopes of the whole batch at z = v + (1−θ)s·p, before anything moves.
        for k in range(first, last):
            i = order[k]
            score = rows.dot(i, iterate.v) + samples.offset.at(i)
            if theta < 1.0:
                score += (1.0 - theta) * s * rows.dot(i, iterate.p)
            target[k - first] = loss.slope(samples.y[i] * score)
        for k in range(first, last):
            i = order[k]
            change = theta * (target[k - first] - iterate.beta[i])
            if change != 0.0:
                sums.record(i, iterate.beta[i], -change / s if theta < 1.0 else 0.0)
                iterate.beta[i] += change
                a = samples.c[i] * samples.y[i] * change / plan.l2
                rows.add(i, a, iterate.v)
                if theta < 1.0:
                    rows.add(i, -a / s, iterate.p)
        # θ = 1 makes w = v: p is left alone, and counts for nothing.
        s *= 1.0 - theta
        sums.end_batch(s)
        if s < sums.smallest and theta < 1.0:
            for j in range(iterate.p.shape[0]):
                iterate.p[j] *= s
            sums.renormalise(s)
            s = 1.0
        iterate.s[0] = s
