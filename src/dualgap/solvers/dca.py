"""DCA: dual coordinate ascent made fast: random order, shrinking, and a running estimate of the gap that costs no extra pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.ascent import Ascent, fresh_seed, natural_order, shuffle
from dualgap.certificate import dual_point
from dualgap.jit import kernel, prefetch
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register

__all__ = ["DCA"]

REOPEN = 0.1  # all rows are visited again once the gap of the open ones has fallen to this part of what it was with all


class Open(NamedTuple):
    """The rows that steps still visit, order[:count], and the bounds beyond which one at the end of its domain is left out.

    numbers: count, and of the pass: largest and smallest projected gradient (in, then out), Σ c(φ(m) − ψ(β) + βm), gain of D
    """

    order: np.ndarray
    numbers: np.ndarray


COUNT, MOST, LEAST, GAP, GAIN = range(5)


@dataclass
class DCAState(State):
    ascent: Any = None
    open: Any = None
    dual_value: float = 0.0  # D(β), followed step by step
    gap: float = math.inf  # relative gap by the last pass's running sum; only a certificate proves it
    reopen_at: float = 0.0


@register
@dataclass(frozen=True)
class DCA(Solver):
    """Dual coordinate ascent with shrinking: rows at a bound that pull firmly outwards are left out until the rest is solved.

    The same steps as SDCA in a fresh random order each pass. All rows are opened again whenever the gap of the open ones has become
    small, so that what was left out wrongly comes back; a certificate is always over all rows.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(500, random_state=0), l2=1e-3)
    >>> dualgap.solve(problem, "dca", tol=1e-6, max_epochs=5000).status
    'converged'
    """

    name: ClassVar[str] = "dca"
    summary: ClassVar[str] = "dual coordinate ascent with shrinking"

    def supports(self, problem: Problem) -> Support:
        if problem.l2 == 0:
            return no("l1 alone (l2 = 0) leaves w undetermined by the dual variables; dual coordinate steps need l2 > 0")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> DCAState:
        warm = warm or Warm()
        ascent = Ascent(problem, warm.dual, warm.intercept)
        state = DCAState(ascent=ascent, open=Open(natural_order(problem.n), np.zeros(5)))
        if ascent.beta.any():
            state.dual_value = dual_point(problem, ascent.beta).value
        self._reopen(problem, state)
        return state

    def _reopen(self, problem: Problem, state: DCAState) -> None:
        state.open.numbers[:3] = problem.n, math.inf, -math.inf

    def epoch(self, problem: Problem, state: DCAState, rng: np.random.Generator) -> None:
        # Sweeps over the open rows that together visit as many rows as there are, or fewer where the gap has halved by then: the
        # driver should hear of that.
        before, visited = state.gap, 0
        while visited < problem.n and (visited == 0 or state.gap > 0.5 * before):
            visited += self._sweep(problem, state, rng)
        state.passes += visited / problem.n

    def _sweep(self, problem: Problem, state: DCAState, rng: np.random.Generator) -> int:
        ascent, numbers = state.ascent, state.open.numbers
        count = int(numbers[COUNT])
        shuffle(state.open.order[:count], fresh_seed(rng))
        sweep(ascent.rows, problem.loss, problem.penalty, ascent.at, ascent.beta, ascent.v, state.open, ascent.ahead)
        if problem.intercept == "free":
            ascent.move_centre()
        state.dual_value += numbers[GAIN]
        gap = numbers[GAP]
        state.gap = gap / (state.dual_value + gap) if state.dual_value + gap > 0 else math.inf
        if count == problem.n:
            state.reopen_at = REOPEN * gap
        elif gap <= state.reopen_at or numbers[COUNT] == 0:
            self._reopen(problem, state)
        return max(count, 1)

    def dual(self, problem: Problem, state: DCAState) -> np.ndarray:
        return state.ascent.beta.copy()

    def intercept(self, problem: Problem, state: DCAState) -> float:
        """The intercept as the method carries it, which `model` leaves to the exact minimisation."""
        ascent = state.ascent
        return 0.0 if problem.intercept == "none" else float(ascent.centre + ascent.scale * ascent.v[-1])

    def hint(self, problem: Problem, state: DCAState) -> float:
        return state.gap


@kernel
def sweep(rows, loss, penalty, at, beta, v, open, ahead):
    """One pass over the open rows. The gap is summed at the margins as they are met, so it lags behind; it is ≥ 0 term by term."""
    order, numbers = open.order, open.numbers
    most_before = numbers[MOST] if numbers[MOST] > 0.0 else np.inf
    least_before = numbers[LEAST] if numbers[LEAST] < 0.0 else -np.inf
    count = np.int64(numbers[COUNT])
    top, strength = loss.ceiling(), penalty.strength()
    most, least, gap, gain = -np.inf, np.inf, 0.0, 0.0
    s = 0
    while s < count:
        if ahead > 0 and s + ahead < count:
            j = order[s + ahead]
            rows.prefetch(j)
            prefetch(beta, j)
            prefetch(at.q, j)
            prefetch(at.step, j)
        i = order[s]
        # y and c are read off step = c·y/l2: on short rows every array that is looked up at a random place costs as much as the row.
        old, q, enters = beta[i], at.q[i], at.step[i]
        y, c = math.copysign(1.0, enters), abs(enters) * strength
        margin = y * penalty.score(rows, i, v)
        pull = loss.pull(old, margin)  # dD/dβ, up to the factor c
        if (old <= 0.0 and pull < -most_before) or (old >= top and pull > -least_before):
            count -= 1
            order[s], order[count] = order[count], order[s]
            continue
        s += 1
        gap += c * (loss.value(margin) - loss.psi(old) + old * margin)
        new = loss.dual_step(old, margin, q)
        if new != old:
            step = new - old
            gain += c * (loss.psi(new) - loss.psi(old) - step * (margin + 0.5 * q * step))
            rows.add(i, step * enters, v)
            beta[i] = new
        if (old > 0.0 or pull > 0.0) and (old < top or pull < 0.0):
            most, least = max(most, -pull), min(least, -pull)
    numbers[COUNT], numbers[MOST], numbers[LEAST], numbers[GAP], numbers[GAIN] = count, most, least, gap, gain
