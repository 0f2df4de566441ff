"""What a working-set solver knows between two steps: which rows are open, their dual variables and errors, and how it is getting on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import share
from dualgap.kernels import scratch
from dualgap.problem import Problem
from dualgap.solvers.base import State
from dualgap.solvers.working_set.dual_box import bias_weight, extremes, gap_of
from dualgap.solvers.working_set.pair_steps import gather, subtract_rows

__all__ = ["Known", "Pace", "WorkingSetState", "inside", "matrix_of", "measure", "rounding_gap", "settled", "subtract"]

GATHERED = 1 << 17  # kernel values to be put together that are worth a thread


class Pace(NamedTuple):
    """Of the last epoch of working sets: what the gap has fallen to, what that cost, how many variables came to a bound or left one."""

    fall: float
    cost: float
    changed: int


class Known(NamedTuple):
    """Scores K·a of all rows as they were known at some a, how far off they are at most, and whether that is enough for a certificate."""

    a: np.ndarray
    scores: np.ndarray
    radius: np.ndarray
    sure: bool


@dataclass
class WorkingSetState(State):
    panels: Any = None  # kernel values with all rows
    cache: Any = None  # kernel rows over the open ones
    open: Any = None  # the open rows, ascending
    all: Any = None  # Box of all rows: the truth for those not open; e is exact as of the last certificate
    box: Any = None  # Box of the open rows
    order: Any = None  # all rows at random, the classes in turn
    reach: int = 0  # how many of them, from the first, may be open
    last: Any = None  # the last working set, as places among the open rows
    ascent: float = 0.0  # D/l2
    gap: float = math.inf  # of the open rows, /l2
    gap_then: float = math.inf  # the same when rows were last opened
    rounding: float = 0.0  # error of one kernel value that steps read; 0 in float64
    exact_at: Any = None  # a of all rows when errors were last computed in float64
    summed: float = 0.0  # Σ (terms)² of the float32 sums that gave shrunk rows their errors since then
    known: Any = None  # Known: what looks at all rows, and certificates, have told
    sure: bool = False  # whether the rows not open are left to the certificate
    asked: bool = False  # whether a certificate has been computed since the last epoch
    steps: int = 0
    pace: Any = None  # of the last epoch of working sets; None after rows were opened
    ridge: float = 0.0  # added to the diagonal of matrices that are factored
    useless: int = 0  # steps of second order in a row that were of little use

    @property
    def relative_gap(self) -> float:
        whole = self.ascent + self.gap
        return self.gap / whole if whole > 0 else math.inf


def inside(state: WorkingSetState) -> np.ndarray:
    """Which of the open rows have variables between their bounds."""
    box = state.box
    return np.asarray((box.a > box.low) & (box.a < box.high))


def settled(state: WorkingSetState) -> np.ndarray | None:
    """Rows whose kernel values are not worth memory that has not been in use."""
    box = state.box
    return (box.a == box.low) | (box.a == box.high) if state.panels.cheap else None


def measure(problem: Problem, state: WorkingSetState) -> None:
    """The gap of the open rows."""
    bottom, top = sorted(extremes(state.box)) if problem.intercept == "free" else (0.0, 0.0)
    state.gap = gap_of(problem.loss, state.box, problem.y[state.open], bottom, top)


def rounding_gap(problem: Problem, state: WorkingSetState) -> float:
    """Estimate by how much rounded kernel values make the gap of the open rows, /l2, look smaller than it is.

    With kernel values off by ε, of either sign, e is off by ε‖a − a'‖, where a' is the a at which e was last exact. The gap is a sum of
    (c/l2)(φ(m) − ψ(β) + βm), which an error of η in m changes by up to η where φ has a kink and 0 < β < 1. For a smooth φ its root is
    a distance, which η changes by √(κ/2)·η, where κ bounds φ''.
    """
    if state.rounding == 0.0:
        return 0.0
    moved = state.all.a - state.exact_at
    moved[state.open] = state.box.a - state.exact_at[state.open]
    error = state.rounding * math.sqrt(max(float(moved @ moved), state.summed))
    weight = float(problem.c[state.open[inside(state)]].sum()) / problem.l2
    curvature = problem.loss.curvature()
    if not math.isfinite(curvature):
        return weight * error
    distance = math.sqrt(0.5 * curvature * weight) * error
    return distance * (distance + 2.0 * math.sqrt(max(state.gap, 0.0)))


def matrix_of(problem: Problem, state: WorkingSetState, chosen: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The kernel matrix of the chosen rows: put together from the cache, or the cache itself where it has just these."""
    store = state.cache.store
    if store.shape == (len(chosen), len(chosen)) and problem.intercept != "penalised" and (slots == chosen).all():
        return np.asarray(store)
    K = scratch(len(chosen) ** 2, store.dtype).reshape(len(chosen), len(chosen))
    share(lambda first, last: gather(store, slots, chosen, K, first, last), len(chosen), GATHERED // len(chosen))
    if problem.intercept == "penalised":
        K += bias_weight(problem)
    return K


def subtract(problem: Problem, state: WorkingSetState, rows: np.ndarray, slots: np.ndarray, change: np.ndarray) -> None:
    """Errors of the open rows after a change in the variables of some, whose kernel rows are in those slots of the cache."""
    box, store = state.box, state.cache.store
    box.e[rows] -= box.r[rows] * change
    moved = np.flatnonzero(change)
    slots, change = slots[moved], change[moved]
    if problem.intercept == "penalised":
        box.e[:] -= bias_weight(problem) * change.sum()
    share(lambda first, last: subtract_rows(store, slots, change, box.e, first, last), len(box.e), 1 << 12)
