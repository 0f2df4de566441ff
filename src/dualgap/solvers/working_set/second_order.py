"""Steps on all dual variables between their bounds at once, for a working-set solver whose rows no longer come and go.

Pair steps settle which variables are between their bounds, and then take long to settle how far: thousands of them, all coupled. One
Cholesky factor of their kernel matrix does that in one go, at a cost that is known beforehand, as is the pace of the pair steps.
"""

from __future__ import annotations

import math

import numpy as np

from dualgap.core import blas_alone
from dualgap.problem import Problem
from dualgap.solvers.working_set.dual_box import bias_weight, largest, reluctance
from dualgap.solvers.working_set.free_step import FreeStep, gather_lower
from dualgap.solvers.working_set.state import WorkingSetState, inside, measure, settled, subtract

__all__ = ["all_at_once", "epoch_cost", "worth_it"]

FEWEST = 16  # variables below which there is no point
SETTLED = 0.1  # of those between, the part that may have left a bound or come to one in an epoch for all of them to be moved
FALL = 30.0  # what such a step is expected to divide the gap by,
USEFUL = 4.0  # and what it has to: after two in a row that did not, the next must promise so many times more
PATIENCE = 1.0  # how many times over it has to pay
LEAVING = 8  # of the rows at a bound that want to leave it, the keenest are moved too, as many as variables between divided by this
TURNS = 2  # steps with one matrix
HELD = 4  # of the variables moved, no more may end at a bound than their number divided by this
# About what these take in ns: a pair step by row, a kernel value read, one put into a matrix, a flop, and Python.
STEP, VALUE, PUT, FLOP, CALL = 1.5, 1.0, 6.0, 0.015, 1e6
SOLVES = 0.4  # flops for columns of the inverse, of m³: a tenth of the variables end at a bound, and those flops take twice as long


def epoch_cost(steps: int, touched: int, size: int, count: int) -> float:
    """About the nanoseconds of so many pair steps in sets of some size, which touched so many of `count` open rows."""
    return STEP * steps * size + VALUE * touched * count


def worth_it(problem: Problem, state: WorkingSetState, margin: float) -> bool:
    """Whether a step on all variables between their bounds should bring the gap down by more than working sets at the same cost; `margin`
    is how many times below the tolerance the gap has to be for a certificate."""
    pace = state.pace
    if pace is None or state.reach < problem.n:
        return False
    count = int(np.count_nonzero(inside(state)))
    if count < FEWEST or pace.changed > SETTLED * count:
        return False
    wanted = min(FALL, margin * state.relative_gap / state.tol) if state.tol > 0 else FALL
    epochs = math.log(max(wanted, 1.0)) / max(-math.log(pace.fall), 1e-3) if 0.0 < pace.fall < 1.0 else math.inf
    cost = CALL + FLOP * (1 / 3 + SOLVES) * count**3 + PUT * count**2 + 3 * VALUE * count * len(state.open)
    return epochs * pace.cost > PATIENCE * USEFUL ** max(state.useless - 1, 0) * cost


def all_at_once(problem: Problem, state: WorkingSetState) -> bool:
    """A step on all variables between their bounds and some that want to leave one. False: no memory for it, or it was of no use."""
    box, cache, tied, before = state.box, state.cache, problem.intercept == "free", state.gap
    between = inside(state)
    level = float(np.median(box.e[between])) if tied and between.any() else 0.0
    wish = reluctance(problem, box, level)
    keen = np.flatnonzero((wish < 0.0) & ~between)
    keen = keen[largest(-wish[keen], 1 + int(np.count_nonzero(between)) // LEAVING)]
    rows = np.sort(np.concatenate([np.flatnonzero(between), keen]))
    m = len(rows)
    memory = cache.lend(m * m + m * (m // HELD), m)
    if memory is None or m == 0:
        return False
    slots = cache.fetch(rows, settled(state))
    K = memory[: m * m].reshape(m, m)
    gather_lower(cache.store, slots, rows, K)
    if problem.intercept == "penalised":
        K += bias_weight(problem)
    diagonal = K.diagonal() + box.r[rows]
    K[np.diag_indices(m)] = diagonal + state.ridge * float(diagonal.mean())
    # On a busy machine the BLAS's threads, which wait for each other at full speed, took three times as long as one.
    with blas_alone:
        step = FreeStep(K, memory[m * m :].reshape(m // HELD, m), tied)
        for _ in range(TURNS if step.fine else 0):
            d = step.direction(box.e[rows], (box.low - box.a)[rows], (box.high - box.a)[rows])
            if d is None or not _move(problem, state, rows, slots, d):
                break
    cache.give_back()
    if not step.fine:
        state.ridge *= 10.0
    measure(problem, state)
    state.passes += m / problem.n
    # A gap that has hardly fallen may be that of a few rows at a bound, which are among those moved the next time.
    state.useless = 0 if state.gap * USEFUL < before else state.useless + 1
    return state.gap < before


def _move(problem: Problem, state: WorkingSetState, rows: np.ndarray, slots: np.ndarray, d: np.ndarray) -> bool:
    """a += d, or as much of it as is best; whether the dual objective has risen. With rounding in d, it need not be best itself."""
    box = state.box
    a, low, high, before, _ = (part[rows] for part in box)
    subtract(problem, state, rows, slots, d)
    slope = float(d @ before)
    curve = slope - float(d @ box.e[rows])
    part = 0.0 if not slope > 0.0 else min(slope / curve, 1.0) if curve > 0.0 else 1.0
    if part < 1.0:
        subtract(problem, state, rows, slots, (part - 1.0) * d)
        box.a[rows] = a + part * d
    else:
        # A variable that goes to its bound is put there exactly.
        box.a[rows] = np.where(d == low - a, low, np.where(d == high - a, high, a + d))
    state.ascent += part * slope - 0.5 * part * part * curve
    return part > 0.0
