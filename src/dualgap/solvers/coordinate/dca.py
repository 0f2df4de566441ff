"""DCA: dual coordinate ascent made fast.

Four things set it apart from SDCA, whose steps it takes:

    order       random, but by blocks of neighbouring rows as long as the open rows exceed a core's own cache: rows that are read one
                after the other stream in, and a fresh order of the blocks mixes nearly as well as one of the rows
    shrinking   a row at the end of its domain is left out once it lies further beyond it than open rows are, on average, from theirs;
                when the gap of the open ones has fallen tenfold, or to what was asked for, all rows are looked at without a step, in
                threads where that pays, which opens those that no longer rest and gives the gap as it is
    leaps       slow drifts of β are what remains in the end: every few sweeps, a line search along the way that β came
    gap         summed at the margins as they are met, it costs no pass; a certificate is taken only when it says so
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import L2, fresh_seed, kernel, natural_order, nbytes, prefetch, shuffle, shuffle_blocks
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.ascent import Ascent
from dualgap.solvers.coordinate.extrapolation import leap

__all__ = ["DCA"]

REOPEN = 0.1  # all rows are visited again once the gap of the open ones has fallen to this part of what it was with all

OWN_CACHE = 1_000_000  # bytes that a core has to itself; rows beyond it are worth reading in their order
BLOCK, BLOCK_BYTES = 16, 16_384  # rows of a block, at most, and their size: what is read in one go
LEAP_SWEEPS = 5  # sweeps between leaps
LEAP_BELOW = 0.1  # relative gap below which they are tried …
LEAP_AFTER = 8  # … and sweeps after which, so that a short run need not hold where it came from


class Open(NamedTuple):
    """The rows that steps still visit, order[:count], and the bound beyond which one at the end of its domain is left out.

    numbers: count, bound (in, then out: the mean of the projected gradients), and of the pass: Σ c(φ(m) − ψ(β) + βm), Σ c(φ(m) + βm/2)
    """

    order: np.ndarray
    numbers: np.ndarray


COUNT, BOUND, GAP, VALUE = range(4)


@dataclass
class DCAState(State):
    ascent: Any = None
    open: Any = None
    row_bytes: float = 0.0
    tidy: int = 0  # how many rows were open when they were last in their order
    primal: float = math.inf  # Σ c(φ(m) + βm/2) over the last sweep of all rows: P, since l2·‖w‖² = Σ cβm (with l1, less)
    gap: float = math.inf  # relative gap by the last look's or sweep's sum; only a certificate proves it
    full: bool = False  # whether that was over all rows
    scores: Any = None  # of the model, where the last thing done was to look at all rows
    reopen_at: float = 0.0
    aim: float = 1.0  # part of the gap asked for at which the open rows are taken to be good enough
    sweeps: int = 0
    from_beta: Any = None  # where the next leap starts
    from_v: Any = None
    left: int = 0  # sweeps until it is taken


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
        state = DCAState(
            ascent=ascent,
            open=Open(natural_order(problem.n), np.array([float(problem.n), math.inf, 0.0, 0.0])),
            row_bytes=nbytes(problem.rows) / problem.n,
            tidy=problem.n,
        )
        return state

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
        self._arrange(state, count, rng)
        state.scores = None  # before v moves: what interrupts the sweep must not find scores of another model
        sweep(ascent.rows, problem.loss, problem.penalty, ascent.at, ascent.beta, ascent.v, state.open, ascent.ahead)
        ascent.move_centre()
        state.sweeps += 1
        self._follow(state, count == problem.n)
        if not state.full and (numbers[GAP] <= state.reopen_at or state.gap <= state.aim * state.tol or numbers[COUNT] == 0):
            believed = state.gap
            self._look(problem, state)
            count += problem.n
            if believed <= state.tol < state.gap:
                # The rows that were left out made the difference: next time the open ones have to be better still.
                state.aim *= 0.7
        if state.gap < LEAP_BELOW and state.sweeps >= LEAP_AFTER and self._may_leap(problem):
            self._leap(problem, state)
        return count

    def _follow(self, state: DCAState, full: bool) -> None:
        """Take up the sums of a sweep or of a look at all rows."""
        gap, state.full = state.open.numbers[GAP], full
        if full:
            state.reopen_at = REOPEN * gap
            state.primal = state.open.numbers[VALUE]
        state.gap = gap / state.primal if state.primal > 0 else math.inf

    def _look(self, problem: Problem, state: DCAState) -> None:
        """All rows at the present v: those that do not rest are opened, in their order, and the sums are exact."""
        ascent = state.ascent
        stored = problem.penalty.primal(ascent.v[: problem.size])
        scores = problem.scores(stored)
        look(problem.loss, ascent.at, ascent.beta, problem.l2, scores, self.intercept(problem, state), state.open)
        self._follow(state, True)
        state.tidy = int(state.open.numbers[COUNT])
        state.scores = None if problem.kernel is not None else scores

    def _arrange(self, state: DCAState, count: int, rng: np.random.Generator) -> None:
        """A fresh order of the open rows."""
        order = state.open.order[:count]
        block = min(BLOCK, int(BLOCK_BYTES / state.row_bytes)) if count * state.row_bytes > OWN_CACHE else 1
        if block <= 1:
            shuffle(order, fresh_seed(rng))
            return
        if count < 0.8 * state.tidy:
            order.sort()
            state.tidy = count
        shuffle_blocks(order, block, fresh_seed(rng))

    def _may_leap(self, problem: Problem) -> bool:
        return isinstance(problem.penalty, L2) and problem.kernel is None

    def _leap(self, problem: Problem, state: DCAState) -> None:
        ascent = state.ascent
        # Rows that come back bring drifts of their own: the way that β came begins where all were looked at.
        if not state.full and state.from_beta is not None:
            state.left -= 1
            if state.left > 0:
                return
            leap(
                ascent.rows,
                problem.loss,
                ascent.at,
                ascent.beta,
                ascent.v,
                problem.l2,
                ascent.bias.centre * problem.l2 / ascent.bias.scale if problem.intercept == "free" else 0.0,
                state.from_beta,
                state.from_v,
            )
        state.left = LEAP_SWEEPS
        if state.from_beta is None:
            state.from_beta, state.from_v = ascent.beta.copy(), ascent.v.copy()
        else:
            np.copyto(state.from_beta, ascent.beta)
            np.copyto(state.from_v, ascent.v)

    def model(self, problem: Problem, state: DCAState) -> tuple[np.ndarray | None, float | None]:
        if problem.kernel is not None:
            return None, None
        v = state.ascent.v[: problem.size]
        return (v.copy() if isinstance(problem.penalty, L2) else problem.penalty.primal(v)), None

    def scores(self, problem: Problem, state: DCAState) -> np.ndarray | None:
        return state.scores

    def dual(self, problem: Problem, state: DCAState) -> np.ndarray:
        return state.ascent.beta.copy()

    def intercept(self, problem: Problem, state: DCAState) -> float:
        """The intercept as the method carries it, which `model` leaves to the exact minimisation."""
        return float(state.ascent.intercept())

    def gap_estimate(self, problem: Problem, state: DCAState) -> float:
        # The gap of some rows says nothing of the others.
        return state.gap if state.full else math.inf

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, DCAState]:
        small, state = super().warm_up(problem, rng)
        shuffle_blocks(state.open.order, 2, fresh_seed(rng))
        self._look(small, state)
        if self._may_leap(problem):
            state.full, state.from_beta = True, None
            self._leap(small, state)
            state.full, state.left = False, 1
            self._leap(small, state)
        return small, state


@kernel
def sweep(rows, loss, penalty, at, beta, v, open, ahead):
    """One pass over the open rows. The gap is summed at the margins as they are met, so it lags behind; it is ≥ 0 term by term."""
    order, numbers = open.order, open.numbers
    count, bound = np.int64(numbers[COUNT]), numbers[BOUND]
    top, strength = loss.upper_bound(), penalty.strength()
    gap, value, violation = 0.0, 0.0, 0.0
    violated, kept = 0, 0
    for s in range(count):
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
        if old <= 0.0 or old >= top:
            pull = loss.gradient(old, margin)  # dD/dβ, up to the factor c
            if (old <= 0.0) == (pull <= 0.0):  # outwards: the row rests
                if abs(pull) > bound:
                    value += c * (loss.value(margin) + 0.5 * old * margin)
                    continue
            else:
                violation += abs(pull)
                violated += 1
        order[kept] = i
        kept += 1
        phi = loss.value(margin)
        value += c * (phi + 0.5 * old * margin)
        gap += c * (phi - loss.psi(old) + old * margin)
        new = loss.dual_step(old, margin, q)
        if new != old:
            if 0.0 < old < top:
                violation += abs(new - old) / loss.curvature_at(old, q)  # the pull, without what a loss may need to compute it
                violated += 1
            rows.add(i, (new - old) * enters, v)
            beta[i] = new
    numbers[COUNT], numbers[BOUND], numbers[GAP], numbers[VALUE] = kept, violation / max(violated, 1), gap, value


@kernel
def look(loss, at, beta, strength, scores, intercept, open):
    """The same sums without a step, over all rows, whose scores are given; the open ones are named anew, in ascending order."""
    order, numbers = open.order, open.numbers
    bound, top = numbers[BOUND], loss.upper_bound()
    gap, value = 0.0, 0.0
    kept = 0
    for i in range(beta.shape[0]):
        enters, old = at.step[i], beta[i]
        c, margin = abs(enters) * strength, math.copysign(1.0, enters) * (scores[i] + intercept)
        phi = loss.value(margin)
        value += c * (phi + 0.5 * old * margin)
        gap += c * (phi - loss.psi(old) + old * margin)
        if old <= 0.0 or old >= top:
            pull = loss.gradient(old, margin)
            if (old <= 0.0) == (pull <= 0.0) and abs(pull) > bound:
                continue
        order[kept] = i
        kept += 1
    numbers[COUNT], numbers[GAP], numbers[VALUE] = kept, gap, value
