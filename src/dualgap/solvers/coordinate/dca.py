"""DCA: dual coordinate ascent with shrinking and extrapolation. README.md has its algorithm box; comments repeat the box's numbers.

A sweep is one visit to each active row. Its steps are those of SDCA (ascent.py): "step 1" to "step 3" here are those of the Step box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import L2, fresh_seed, inner, kernel, machine, natural_order, nbytes, shuffle, shuffle_blocks
from dualgap.problem import Problem
from dualgap.proof import scores_of
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.coordinate.ascent import Ascent, needs_l2
from dualgap.solvers.coordinate.extrapolation import Extrapolation

__all__ = ["DCA"]

# 2) sweep
LARGE_MARGIN = 100.0  # a margin at which every loss that is flat somewhere is flat
SAMPLE_ONE_IN, SAMPLE_LEAST = (
    32,
    200,
)  # rows whose gap is computed after a sweep without sums: one in 32, and at least 200 (the same)
# 5) full gradient pass
UNSHRINK = 0.1  # check all rows at this part of the gap over all rows: with 0.01, w8a, hinge, l2 = 1/n, takes 3 times as long


class Sums(NamedTuple):
    """What a pass over rows finds."""

    active: int  # rows that stay active: order[:active]
    violation: float  # mean |gradient| over rows that violate KKT at a bound, or are free and moved (full_pass: bound)
    gap: float  # Σ c(φ(m) − ψ(β) + βm), each term ≥ 0, over the rows that stay active (full_pass: all rows)
    objective: float  # Σ c(φ(m) + β(m − yo)/2) over the rows read; if these are all and w = u/l2, P, as l2·‖w‖² = Σ cβ(m − yo)


@dataclass(kw_only=True)
class DCAState(State):
    """β and v in `ascent`, and the rows that are active."""

    # fixed by start
    ascent: Ascent  # its β and v are changed by every step
    row_bytes: float
    # changed by every sweep and every full gradient pass
    order: np.ndarray  # its first `active` entries are the active rows
    active: int
    bound: float = math.inf  # |gradient| beyond which a row at its bound is shrunk: `violation` of the last sweep
    active_gap: float = 0.0  # gap over the rows of the last pass, as a sum; State.gap is that divided by `primal`
    full: bool = False  # whether the last pass was over all rows: a sweep with all rows active, or a full gradient pass
    # changed by passes over all rows, whether sweeps or full gradient passes
    primal: float = math.inf  # objective
    unshrink_at: float = 0.0  # active_gap at which a full gradient pass follows
    checked: bool = False  # whether the gap of a sample is checked by a full gradient pass before it counts
    # changed by extrapolation steps
    extrapolation: Extrapolation = field(default_factory=Extrapolation)


@register
@dataclass(frozen=True)
class DCA(Solver):
    """Dual coordinate ascent with shrinking.

    A row at a bound is left out of later sweeps if its gradient points outwards by more than a threshold. The steps are those of SDCA, in a
    fresh random order each sweep. All rows are checked again whenever the gap of the active ones has become small, so that rows shrunk
    by mistake come back. A certificate is always over all rows.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(500, random_state=0), l2=1e-3)
    >>> dualgap.solve(problem, "dca", tol=1e-6, max_epochs=5000).status
    'converged'
    """

    name: ClassVar[str] = "dca"
    takes_bounds: ClassVar[bool] = True
    summary: ClassVar[str] = "dual coordinate ascent with shrinking"

    def supports(self, problem: Problem) -> Support:
        return needs_l2(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> DCAState:
        dual, centre = (None, None) if warm is None else (warm.dual, warm.intercept)
        ascent = Ascent(problem, dual, centre)
        ascent.shorten_column()
        return DCAState(
            ascent=ascent,
            row_bytes=nbytes(problem.rows) / problem.n,
            order=natural_order(problem.n),
            active=problem.n,
        )

    def epoch(self, problem: Problem, state: DCAState, rng: np.random.Generator) -> None:
        visited = 0
        while visited < problem.n and (visited == 0 or state.gap > state.tol):
            visited += self._sweep(problem, state, rng)
        state.passes += visited / problem.n

    def _sweep(self, problem: Problem, state: DCAState, rng: np.random.Generator) -> int:
        """Carry out steps 1 to 6 of the box; return how many rows were read."""
        if stays_free(problem.loss):
            return self._sweep_free(problem, state, rng)
        ascent, visited = state.ascent, state.active
        order, partial = state.order[:visited], visited < problem.n
        # 1) order
        self._shuffle(state, order, rng)
        # 2) sweep
        args = (ascent.rows, problem.loss, problem.penalty, ascent.coords, ascent.beta, ascent.v)
        sums = sweep(*args, order, state.bound, ascent.ahead)
        # 3) centre
        ascent.move_centre()
        # 4) bound and gap
        self._take(problem, state, sums, full=not partial)
        # 5) full gradient pass
        if not state.full and (state.active_gap <= state.unshrink_at or state.gap <= state.tol or state.active == 0):
            self._full_pass(problem, state)
            visited += problem.n
        # 6) extrapolation
        if partial and self._extrapolates(problem):
            state.extrapolation.count(problem, ascent, state.order[: state.active])
        return visited

    def _sweep_free(self, problem: Problem, state: DCAState, rng: np.random.Generator) -> int:
        """Carry out steps 1 to 5 for a loss whose β stay between their bounds: all rows are active, and a sample gives the gap."""
        ascent, visited = state.ascent, problem.n
        # The last gap was small enough, and yet the run goes on: a few rows with large terms are not in the sample.
        state.checked |= 0.0 < state.gap <= state.tol
        self._shuffle(state, state.order, rng)  # 1)
        ascent.steps(state.order)  # 2)
        ascent.move_centre()  # 3)
        args = (ascent.rows, problem.loss, problem.penalty, ascent.coords, ascent.beta, ascent.v)
        sums = Sums(*sampled_sums(*args, state.order, max(1, min(SAMPLE_ONE_IN, visited // SAMPLE_LEAST))))
        sums = sums._replace(gap=sums.gap + imbalance_gap(problem, ascent))
        self._take(problem, state, sums, full=True)  # 4)
        if state.checked and state.gap <= state.tol:  # 5)
            self._full_pass(problem, state)
            visited += problem.n
        return visited

    def _shuffle(self, state: DCAState, order: np.ndarray, rng: np.random.Generator) -> None:
        """Put the active rows into a fresh random order: row by row, or block by block where they exceed a core's cache."""
        too_large = len(order) * state.row_bytes > machine.OWN_CACHE
        block = min(machine.BLOCK_ROWS, int(machine.BLOCK_BYTES / state.row_bytes)) if too_large else 1
        if block <= 1:
            shuffle(order, fresh_seed(rng))
            return
        shuffle_blocks(order, block, fresh_seed(rng))

    def _take(self, problem: Problem, state: DCAState, sums: tuple[Any, float, float, float], full: bool) -> None:
        """Enter the Sums of a pass into the state."""
        active, bound, gap, objective = sums
        own_gap, own_objective = state.ascent.intercept_terms()
        gap += own_gap
        state.active, state.bound, state.active_gap, state.full = active, bound, gap, full
        if full:
            state.unshrink_at, state.primal = UNSHRINK * gap, objective + own_objective
            if not isinstance(problem.penalty, L2):  # R(w) is not u·w/2, which the sum has in its place
                v = state.ascent.v[: problem.d]
                w = problem.penalty.primal(v)
                state.primal += problem.penalty.total_penalty(w) - 0.5 * problem.l2 * float(v @ w)
        state.gap = gap / state.primal if state.primal > 0 else math.inf

    def _full_pass(self, problem: Problem, state: DCAState) -> None:
        """Compute all gradients at the present v, in threads where that pays: unshrink rows, in ascending order, and sum the exact gap."""
        ascent = state.ascent
        stored = problem.penalty.primal(ascent.v[: problem.size])
        scores = scores_of(problem, stored) if problem.kernel is None else problem.scores(stored)
        args = (problem.loss, ascent.coords, ascent.beta, problem.l2, scores, ascent.intercept(), state.order)
        self._take(problem, state, Sums(*full_pass(*args, state.bound)), full=True)
        state.extrapolation.restart()  # rows that are unshrunk move in ways of their own

    def _extrapolates(self, problem: Problem) -> bool:
        """Return whether D is quadratic in β where the loss is linear: w(β) is linear in β, and has coordinates."""
        return isinstance(problem.penalty, L2) and problem.kernel is None

    def model(self, problem: Problem, state: DCAState) -> tuple[np.ndarray | None, float | None]:
        if problem.kernel is not None:
            return None, None
        return problem.penalty.primal(state.ascent.v[: problem.size]).copy(), None

    def dual(self, problem: Problem, state: DCAState) -> np.ndarray:
        return state.ascent.beta.copy()

    def intercept(self, problem: Problem, state: DCAState) -> float:
        return state.ascent.intercept()

    def gap_estimate(self, problem: Problem, state: DCAState) -> float:
        # The gap of some rows says nothing of the others.
        return state.gap if state.full else math.inf

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, DCAState]:
        small, state = super().warm_up(problem, rng)
        shuffle_blocks(state.order, 2, fresh_seed(rng))
        self._full_pass(small, state)
        if self._extrapolates(problem) and not stays_free(problem.loss):
            state.extrapolation.count(small, state.ascent, state.order)
            state.extrapolation.step(small, state.ascent)
        return small, state


def stays_free(loss: Any) -> bool:
    """Return whether every β ends strictly between its bounds, as with the logistic loss, whose slope is nowhere 0: no row is shrunk."""
    return loss.is_smooth() and loss.slope(LARGE_MARGIN) != 0.0


def imbalance_gap(problem: Problem, ascent: Ascent) -> float:
    """Return about how much the dual point loses when it is made to satisfy the constraint s = Σ cᵢβᵢyᵢ = 0 of a free intercept.

    β changes by about s, and u by s times a row: D loses s²·‖x‖²/(2·l2), and s²/2 times −ψ'', which is at least 4 for the logistic loss.
    """
    if problem.intercept != "free":
        return 0.0
    imbalance = float(ascent.v[-1]) * problem.l2 / ascent.bias.scale
    return imbalance**2 * (0.5 * float(inner(problem.c, problem.sqnorms)) / problem.l2 + 0.5 / problem.loss.curvature())


@kernel
def sweep(rows, loss, penalty, coords, beta, v, order, bound, ahead):
    """Take a step on each row of `order`, move the rows that stay active to its front, and return Sums; `ahead` as in Ascent.

    The gap is summed at the margins as they are met, so that it lags behind v. It is ≥ 0 term by term.
    """
    count, l2 = order.shape[0], penalty.strength()
    gap, value, violation = 0.0, 0.0, 0.0
    violated, kept = 0, 0
    for s in range(count):
        if ahead > 0 and s + ahead < count:
            coords.prefetch_step(order[s + ahead], rows, beta)
        i = order[s]
        # y and c come from factor = c·y/l2: on short rows, an array that is read at a random place costs as much as the row.
        old, q, factor = beta[i], coords.q[i], coords.factor[i]
        y, c = math.copysign(1.0, factor), abs(factor) * l2
        # 2a) margin: step 1
        fixed = coords.offset.at(i)
        margin = y * (penalty.score(rows, i, v) + fixed)
        # 2b) shrink; full_pass repeats this test
        free = loss.is_free(old)
        if not free:
            slack = loss.slack(old, margin)  # |dD/dβ|, up to the factor c, where it points outwards: the KKT conditions hold
            if slack > bound:
                value += c * (loss.value(margin) + 0.5 * old * (margin - y * fixed))
                continue
            if slack < 0.0:
                violation -= slack
                violated += 1
        order[kept] = i
        kept += 1
        # 2c) sums
        phi = loss.value(margin)
        value += c * (phi + 0.5 * old * (margin - y * fixed))
        gap += c * (phi - loss.psi(old) + old * margin)
        # 2d) steps 2 and 3
        new = loss.dual_step(old, margin, q)
        if new != old:
            if free:
                # |gradient|, without the logarithms that a loss may need for it
                violation += abs(new - old) / loss.curvature_at(old, q)
                violated += 1
            rows.add(i, (new - old) * factor, v)
            beta[i] = new
    return kept, violation / max(violated, 1), gap, value


@kernel
def sampled_sums(rows, loss, penalty, coords, beta, v, order, one_in):
    """Return Sums of all rows, whose gap and objective are estimated by one row in some, at the present v; no row is shrunk."""
    l2, count = penalty.strength(), 0
    gap, value = 0.0, 0.0
    for s in range(0, order.shape[0], one_in):
        i = order[s]
        old, factor, fixed = beta[i], coords.factor[i], coords.offset.at(i)
        y, c = math.copysign(1.0, factor), abs(factor) * l2
        margin = y * (penalty.score(rows, i, v) + fixed)
        phi = loss.value(margin)
        gap += c * (phi - loss.psi(old) + old * margin)
        value += c * (phi + 0.5 * old * (margin - y * fixed))
        count += 1
    all_rows = order.shape[0]
    return all_rows, math.inf, gap * all_rows / count, value * all_rows / count


@kernel
def full_pass(loss, coords, beta, l2, scores, intercept, order, bound):
    """Sum over all rows, whose scores are given, without a step; rebuild the active set by test 2b, in ascending order; return Sums."""
    gap, value, kept = 0.0, 0.0, 0
    for i in range(beta.shape[0]):
        factor, old = coords.factor[i], beta[i]
        c, y = abs(factor) * l2, math.copysign(1.0, factor)
        margin = y * (scores[i] + intercept)
        phi = loss.value(margin)
        value += c * (phi + 0.5 * old * (margin - y * coords.offset.at(i)))
        gap += c * (phi - loss.psi(old) + old * margin)
        if not loss.is_free(old) and loss.slack(old, margin) > bound:
            continue
        order[kept] = i
        kept += 1
    return kept, bound, gap, value
