"""ASDCA: accelerated mini-batch stochastic dual coordinate ascent (Shalev-Shwartz and Zhang, 2013).

    s = γ·l2·n/R²,   θ = ¼·min{1, √(s/m), s, s^(2/3)/m^(1/3)},   φ is 1/γ-smooth,   R² = max n·cᵢ‖xᵢ‖²,   batch m
    z = (1−θ)w + θv;   i in the batch: βᵢ⁺ = (1−θ)βᵢ + θ·slope(yᵢxᵢ·z);   v += Σ cᵢ(βᵢ⁺−βᵢ)yᵢxᵢ/l2;   w = (1−θ)w + θv

v is always w(β). Sparse form: w = v + s·p, so that z = v + (1−θ)s·p, and a batch does p −= Δv/s, then s *= 1−θ. Nothing of length d
is touched by an update; p and s are put back to scale once s has become tiny.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import accumulate, fresh_seed, kernel, natural_order, one_of, shuffle, total_psi, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.bias import BiasColumn

__all__ = ["ASDCA"]

TINY = 1e-250  # below it, s is put back to 1 and p scaled; entries of p, changes of v over s, are then still far from overflow
FIRST_MULTIPLIER = 4.0
ROUNDING = 1e-12  # a fall of D by less, relative to 1 + |D|, is rounding


class Iterate(NamedTuple):
    """β, v = w(β), and p and s[0] with w = v + s[0]·p."""

    beta: np.ndarray
    v: np.ndarray
    p: np.ndarray
    s: np.ndarray


class Plan(NamedTuple):
    """How an epoch steps: θ, batch size, and l2."""

    theta: float
    batch: int
    l2: float


@dataclass
class ASDCAState(State):
    rows: Any = None
    iterate: Any = None
    kept: Any = None  # β of the last epoch at which D had not fallen, to go back to; None once the multiplier is 1
    dual_value: float = 0.0
    multiplier: float = FIRST_MULTIPLIER
    theta: float = 0.0
    order: Any = None
    target: Any = None


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
        θ as proved is cautious. It is multiplied by 4 at first (but never above 1). After an epoch in which the dual objective fell, β
        goes back to where it was, w starts again at w(β), and the multiplier is halved, down to 1, where theory takes over and falls
        are let pass. The epoch that was undone and the pass that rebuilds w are counted in `passes` like any other.

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

    name: ClassVar[str] = "asdca"
    summary: ClassVar[str] = "accelerated mini-batch dual coordinate ascent"

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        one_of("sampling", self.sampling, ("permutation", "random"))

    def supports(self, problem: Problem) -> Support:
        if not np.isfinite(problem.loss.curvature()):
            return no("its θ needs a smooth loss; loss='smooth_hinge' with a small delta is the hinge's smooth neighbour")
        if problem.l1 > 0:
            return no("its w mixes past dual models linearly, which an l1 part, nonlinear in the dual variables, does not allow")
        if problem.intercept == "free":
            return no("its θ is proved for a strongly convex penalty on every coordinate; use intercept='penalised'")
        if problem.kernel is not None:
            return no("its w is no dual model w(β), and would need a second expansion over all rows")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ASDCAState:
        rows = BiasColumn.of(problem).rows(problem.rows)
        beta = np.zeros(problem.n)
        if warm is not None and warm.dual is not None:
            beta = np.clip(warm.dual, 0.0, problem.loss.upper_bound())
        iterate = _at(problem, rows, beta)
        state = ASDCAState(rows=rows, iterate=iterate, order=natural_order(problem.n))
        state.target = np.empty(min(self.batch_size, problem.n))
        state.multiplier = FIRST_MULTIPLIER if self.adaptive else 1.0
        state.theta = cautious_theta(problem, len(state.target))
        state.kept = beta.copy() if self.adaptive else None
        state.dual_value = _dual_value(problem, iterate)
        return state

    def epoch(self, problem: Problem, state: ASDCAState, rng: np.random.Generator) -> None:
        batch = len(state.target)
        if self.sampling == "permutation":
            shuffle(state.order, fresh_seed(rng))
        else:
            state.order[:] = _drawn_batches(problem.n, batch, rng)
        plan = Plan(min(1.0, state.multiplier * state.theta), batch, problem.l2)
        accelerate(state.rows, problem.loss, problem.samples, plan, state.iterate, state.order, state.target)
        state.passes += 1.0
        if state.kept is not None:
            self._judge(problem, state)

    def _judge(self, problem: Problem, state: ASDCAState) -> None:
        value = _dual_value(problem, state.iterate)
        # Written so that NaN counts as a fall.
        if not value >= state.dual_value - ROUNDING * (1.0 + abs(state.dual_value)):
            state.multiplier *= 0.5
            state.iterate = _at(problem, state.rows, state.kept)
            state.passes += 1.0
            state.kept = state.kept.copy() if state.multiplier > 1.0 else None
            return
        state.dual_value = value
        state.kept[:] = state.iterate.beta

    def model(self, problem: Problem, state: ASDCAState) -> tuple[np.ndarray, float]:
        iterate = state.iterate
        w = iterate.v + iterate.s[0] * iterate.p
        return w[: problem.d], (problem.intercept_scale * float(w[-1]) if problem.intercept == "penalised" else 0.0)

    def dual(self, problem: Problem, state: ASDCAState) -> np.ndarray:
        return state.iterate.beta.copy()


def cautious_theta(problem: Problem, batch: int) -> float:
    """θ as proved. With weights, sample i's loss is n·cᵢφ, which is n·cᵢ/γ-smooth: R² is the largest n·cᵢ‖xᵢ‖².

    Examples
    --------
    >>> import dualgap
    >>> from dualgap.solvers.coordinate.asdca import cautious_theta
    >>> problem = dualgap.Problem([[1.0], [-2.0]], [1, 0], loss="smooth_hinge", l2=1.0)
    >>> cautious_theta(problem, 1)  # s = 2/4
    0.125
    """
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
    return float(total_psi(problem.loss, iterate.beta, problem.c)) - 0.5 * problem.l2 * float(iterate.v @ iterate.v)


@kernel
def accelerate(rows, loss, samples, plan, iterate, order, target):
    """An epoch of batches in the given order."""
    theta = plan.theta
    n = order.shape[0]
    for first in range(0, n, plan.batch):
        last = min(first + plan.batch, n)
        s = iterate.s[0]
        # Slopes of the whole batch at z = v + (1−θ)s·p, before anything moves.
        for k in range(first, last):
            i = order[k]
            score = rows.dot(i, iterate.v)
            if theta < 1.0:
                score += (1.0 - theta) * s * rows.dot(i, iterate.p)
            target[k - first] = loss.slope(samples.y[i] * score)
        for k in range(first, last):
            i = order[k]
            change = theta * (target[k - first] - iterate.beta[i])
            if change != 0.0:
                iterate.beta[i] += change
                a = samples.c[i] * samples.y[i] * change / plan.l2
                rows.add(i, a, iterate.v)
                if theta < 1.0:
                    rows.add(i, -a / s, iterate.p)
        # θ = 1 makes w = v: p is left alone, and counts for nothing.
        s *= 1.0 - theta
        if s < TINY and theta < 1.0:
            for j in range(iterate.p.shape[0]):
                iterate.p[j] *= s
            s = 1.0
        iterate.s[0] = s
