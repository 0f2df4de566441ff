"""The state of a working-set solver, its gap estimate, and the update of its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dualgap.core import ResidualLoss, is_sparse, machine, share
from dualgap.kernels import KernelBlocks, squares
from dualgap.problem import Problem
from dualgap.proof import BoundedScores
from dualgap.solvers.base import State
from dualgap.solvers.working_set.dual_box import Box, bias_weight, group_gap, max_up_min_low
from dualgap.solvers.working_set.pair_steps import subtract_rows
from dualgap.solvers.working_set.row_cache import RowCache

__all__ = ["Progress", "WorkingSetState", "float32_error", "gap_estimate", "gap_rounding", "update_gap", "update_gradient"]

GAP_MARGIN = 1.5  # gap estimate / gap of the active rows: a certificate that fails costs more than the steps to a smaller gap


SAMPLE = 1000  # rows from which the mean squared distance to the mean is estimated


class Progress(NamedTuple):
    """What one epoch of working sets achieved."""

    gap_ratio: float  # gap after / gap before
    cost: float  # nanoseconds by the cost model of active_set_qp
    changed: int  # variables that became free, or ceased to be


@dataclass(kw_only=True)
class WorkingSetState(State):
    """Fields by what changes them. Values of D and of gaps are divided by l2."""

    # Fixed by start.
    blocks: KernelBlocks  # kernel values with all rows, in the precision of the steps
    scores: BoundedScores  # K·a of all rows; remembers its last result
    shrinks: bool  # whether rows may be shrunk
    sample_order: np.ndarray  # all rows in random order, the classes in turn; empty if the run does not start with a sample
    value_error: float  # estimated error of one kernel value that steps read; 0 in float64
    groups: int  # sums of dual variables that are kept
    nu: float | None = None  # of a ν-problem
    mass: float = 0.0  # Σ |a| of a ν-problem of labels, which is given: D of the ν-problem is D less that

    # Changed together by shrink and unshrink; `all` also by gradient passes.
    all: Box  # all rows: current for shrunk rows; for active rows as of the last write_back, or `box` itself
    active: np.ndarray  # the active rows, ascending
    box: Box  # of the active rows, current
    cache: RowCache  # kernel rows over the active rows
    # Changed by gradient passes (step 1), not by shrink.
    sampled: int  # the leading rows of sample_order that may be active; n: all rows may
    gap_at_pass: float = math.inf  # gap of the active rows after the last pass

    # Reset by exact gradients: a full pass with certified scores, or a refresh of the active rows.
    exact_a: np.ndarray  # a of all rows when g was last computed in float64
    float32_terms: float = 0.0  # largest Σ (terms)² of the sums by which check_shrunk_rows set g since then

    # Changed by every epoch.
    dual_value: float = 0.0  # D
    gap: float = math.inf  # of the active rows, absolute, where State.gap is relative
    steps: int = 0  # pair or single steps so far
    last_set: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # positions among the active rows
    progress: Progress | None = None  # of the last epoch of working sets; None after rows were unshrunk

    # Changed by Newton steps (active_set_qp).
    added_diagonal: float  # to the matrix that is factored, relative to its mean diagonal
    failures: int = 0  # Newton steps in a row that reduced the gap by less than GOOD_RATIO

    @property
    def relative_gap(self) -> float:
        """The gap of the active rows / (D + that gap)."""
        primal = self.primal(self.gap)
        return self.gap / primal if primal > 0 else math.inf

    def primal(self, gap: float) -> float:
        """Return the size of the primal objective at that gap: that of a ν-problem of labels is not positive."""
        return self.mass - self.dual_value - gap if self.mass > 0.0 else self.dual_value + gap

    def levels(self) -> list[float]:
        """Return the intercept of each group: the middle between m and M of its active rows."""
        return [0.5 * float(sum(max_up_min_low(self.box, group))) for group in range(self.groups)]

    def current_a(self) -> np.ndarray:
        """Return a copy of the dual variables of all rows."""
        a = self.all.a.copy()
        if self.box is not self.all:
            a[self.active] = self.box.a
        return a

    def set_active(self, rows: np.ndarray, box: Box, last_set: np.ndarray) -> None:
        """Replace the active rows, whose kernel rows the cache must have been told of: in one statement, which no interrupt divides."""
        self.active, self.box, self.last_set = rows, box, last_set

    def write_back(self) -> None:
        """Copy the active rows to `all`: their a and g, and the sides that they are on."""
        for whole, part in zip(self.all, self.box, strict=True):
            whole[self.active] = part

    def at_bound(self) -> np.ndarray | None:
        """Return the active rows at a bound, whose kernel rows the cache may give up first; None if kernel values are expensive."""
        return (self.box.a == self.box.low) | (self.box.a == self.box.high) if self.blocks.cheap else None


def update_gap(problem: Problem, state: WorkingSetState) -> None:
    """Step 7: compute the gap of the active rows at the best intercept that their gradient allows."""
    samples = problem.samples if len(state.active) == problem.n else problem.some_samples(state.active)
    loss, sides = problem.loss, problem.is_regression and state.groups == 2
    state.gap = 0.0
    for group in range(max(state.groups, 1)):
        if sides:  # the loss beyond one end of the tube
            loss = ResidualLoss(high=1.0 - group, low=float(group))
        state.gap += group_gap(loss, state.box, samples, group, state.groups > 0)


def gap_estimate(problem: Problem, state: WorkingSetState) -> float:
    """Return the relative gap of all rows as the active ones suggest it, with a margin; infinite while they are a sample."""
    gap = state.gap + gap_rounding(problem, state)
    primal = state.primal(gap)
    return GAP_MARGIN * gap / primal if state.sampled == problem.n and primal > 0 else math.inf


def float32_error(problem: Problem) -> float:
    """Estimate the error of one kernel value in float32.

    It is the value's own rounding and, for a Gaussian, δ at two rows of mean distance from the mean. A precomputed matrix counts as exact.
    """
    kernel, X = problem.kernel, problem.X
    assert kernel is not None
    if kernel.name == "precomputed":
        return 0.0
    relative = 1.0
    if kernel.name == "rbf":
        rows = X[:: 1 + problem.n // SAMPLE]
        rows = rows if is_sparse(rows) else rows - rows.mean(axis=0, dtype=np.float64)
        relative += 4.0 * kernel.gamma * float(squares(rows).mean())
    return 0.5 * float(np.finfo(np.float32).eps) * relative * float(problem.sqnorms.max())


def gap_rounding(problem: Problem, state: WorkingSetState) -> float:
    """Estimate by how much rounded kernel values make the gap of the active rows look smaller than it is.

    Kernel values with random errors ε change g by ε‖a − a'‖, where a' is the a at which g was last exact. The gap is a sum of
    (c/l2)(φ(m) − ψ(β) + βm). An error of η in m changes a term by up to η where φ has a kink and 0 < β < 1. For a smooth φ the root of
    the gap is a distance, which η changes by √(κ/2)·η, where κ bounds φ''.
    """
    if state.value_error == 0.0:
        return 0.0
    # Not a product of vectors, which wakes the threads of the BLAS: they take milliseconds on a busy machine.
    moved = float(np.square(state.current_a() - state.exact_a).sum())
    error = state.value_error * math.sqrt(max(moved, state.float32_terms))
    weight = float(problem.c[state.active[state.box.free()]].sum()) / problem.l2
    if not problem.loss.is_smooth():
        return weight * error
    distance = math.sqrt(0.5 * problem.loss.curvature() * weight) * error
    return distance * (distance + 2.0 * math.sqrt(max(state.gap, 0.0)))


def update_gradient(problem: Problem, state: WorkingSetState, rows: np.ndarray, slots: np.ndarray, change: np.ndarray) -> None:
    """Step 6: update g of all active rows after a change of a in `rows`, whose kernel rows are in those slots of the cache."""
    box, store = state.box, state.cache.store
    if np.count_nonzero(change) < len(change):
        moved = np.flatnonzero(change)
        rows, slots, change = rows[moved], slots[moved], change[moved]
    if problem.loss.quadratic_pieces()[2] != 0.0:  # else r is 0
        box.g[rows] -= box.r[rows] * change
    if problem.intercept == "penalised":
        box.g[:] -= bias_weight(problem) * change.sum()
    share(lambda first, last: subtract_rows(store, slots, change, box.g, first, last), len(box.g), machine.THREAD_ROWS)
