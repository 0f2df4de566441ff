"""Step 2 of README.md, Newton steps on all free dual variables at once: a quadratic problem in a box, by block principal pivoting.

    maximise  g·d − ½ dᵀMd   subject to  low ≤ d ≤ high,  and Σd = 0 in each group that keeps its sum

Pair steps soon find which variables are free, then take long to find their values, which depend on each other. One Cholesky factor
gives them at once (Scheinberg 2006, docs/references.md):

    a) take the free variables and the worst violators at a bound; M is their kernel matrix with a larger diagonal, factored once
    b) fix variables beyond a bound at it, free fixed ones whose multiplier has the wrong sign, all in one round (Júdice and Pires 1994),
       until the sets stay the same; a fixed variable costs one column of M⁻¹ (a Schur complement), not a new factor
    c) move along d as far as the dual objective rises: rounding in float32 may make the full step too long

With its added diagonal the step is one of the proximal-point method (Rockafellar 1976): rows that are there twice leave K singular.
"""

from __future__ import annotations

import math

import numpy as np

from dualgap.core import blas_alone, machine
from dualgap.problem import Problem
from dualgap.solvers.quadratic import ADDED_DIAGONAL, BoxQP
from dualgap.solvers.working_set.dual_box import Box, argtop, bias_weight, by_group, choose_sides, kkt_slack
from dualgap.solvers.working_set.state import GAP_MARGIN, WorkingSetState, update_gap, update_gradient

__all__ = ["ADDED_DIAGONAL", "BoxQP", "newton_step", "pair_step_cost", "pays_off"]

MIN_FREE = 16  # free variables below which pair steps are as good
MAX_CHANGED = 0.1  # changes of the free set in an epoch / its size, above which it is not yet known
EXPECTED_RATIO = 30.0  # gap before / gap after that a step is expected to reach
GOOD_RATIO = 4.0  # the ratio it must reach: after two failures in a row, the expected saving must be larger by this factor
VIOLATORS = 8  # free variables / violators at a bound that join them, at most
STEPS_PER_FACTOR = 2  # steps d with one factor of M
MAX_FIXED = 4  # variables of a step / those among them that may end at a bound
PIVOT_FLOPS = 0.4  # × m³, for columns of M⁻¹: about m/10 variables end at a bound, and these flops take twice as long


# ------------------------------------------------------------------------------------------------------- in the working-set solver


def pair_step_cost(steps: int, size: int, computed: int, active: int) -> float:
    """Return about the nanoseconds of an epoch: `steps` pair steps in sets of `size` rows, `computed` kernel rows over the active rows."""
    return machine.PAIR_STEP * steps * size + machine.KERNEL_VALUE * computed * active


def pays_off(problem: Problem, state: WorkingSetState) -> bool:
    """Decide whether a Newton step reduces the gap by more than working sets in the same time.

    Its reduction is EXPECTED_RATIO, or what is left to the tolerance. Working sets are expected to go on as in the last epoch."""
    last = state.progress
    if last is None or state.sampled < problem.n:
        return False
    free = int(np.count_nonzero(state.box.free()))
    if free < MIN_FREE or last.changed > MAX_CHANGED * free:
        return False
    ratio = min(EXPECTED_RATIO, GAP_MARGIN * state.relative_gap / state.tol) if state.tol > 0 else EXPECTED_RATIO
    epochs = math.log(max(ratio, 1.0)) / max(-math.log(last.gap_ratio), 1e-3) if 0.0 < last.gap_ratio < 1.0 else math.inf
    cost = (
        machine.CALL
        + machine.FLOP * (1 / 3 + PIVOT_FLOPS) * free**3
        + machine.MATRIX_ENTRY * free**2
        + 3 * machine.KERNEL_VALUE * free * len(state.active)
    )
    return epochs * last.cost > GOOD_RATIO ** max(state.failures - 1, 0) * cost


def newton_step(problem: Problem, state: WorkingSetState) -> bool:
    """Move the free variables and the worst violators together. Return False if there was no memory, or the gap did not fall."""
    # a) the variables and their matrix
    box, cache, groups, before = state.box, state.cache, state.groups, state.gap
    choose_sides(problem, box, state.groups)
    free = box.free()
    slack = kkt_slack(box, by_group(box, [_middle(box, free & (box.group == group)) for group in range(groups)]))
    violators = np.flatnonzero((slack < 0.0) & ~free)
    violators = violators[argtop(-slack[violators], 1 + int(np.count_nonzero(free)) // VIOLATORS)]
    rows = np.sort(np.concatenate([np.flatnonzero(free), violators]))
    m, fixed = len(rows), len(rows) // MAX_FIXED + groups
    memory = cache.reserve(m * (m + fixed), m)
    if memory is None or m == 0:
        return False
    slots = cache.fetch(rows, state.at_bound())
    M = cache.matrix(rows, slots, bias_weight(problem), out=memory[: m * m])
    diagonal = M.diagonal() + box.r[rows]
    M[np.diag_indices(m)] = diagonal + state.added_diagonal * float(diagonal.mean())
    # b), c) On a busy machine the BLAS's own threads, which spin while they wait, took three times as long as one.
    with blas_alone:
        qp = BoxQP(M, memory[m * m :].reshape(fixed, m), [box.group[rows] == group for group in range(groups)])
        for _ in range(STEPS_PER_FACTOR if qp.factored else 0):
            d = qp.solve(box.g[rows], (box.low - box.a)[rows], (box.high - box.a)[rows])
            if d is None or not _move(problem, state, rows, slots, d):
                break
    cache.release()
    if not qp.factored:
        state.added_diagonal *= 10.0
    update_gap(problem, state)
    state.passes += m / problem.n
    # A gap that has hardly fallen may be that of a few rows at a bound, which join the next step.
    state.failures = 0 if state.gap * GOOD_RATIO < before else state.failures + 1
    return state.gap < before


def _middle(box: Box, rows: np.ndarray) -> float:
    """Return the median gradient of the given rows, and 0 for an empty list."""
    return float(np.median(box.g[rows])) if rows.any() else 0.0


def _move(problem: Problem, state: WorkingSetState, rows: np.ndarray, slots: np.ndarray, d: np.ndarray) -> bool:
    """Add the best multiple of d, at most 1, to a. Return whether the dual objective rose."""
    box = state.box
    a, low, high, g = box.a[rows], box.low[rows], box.high[rows], box.g[rows]
    update_gradient(problem, state, rows, slots, d)
    slope = float(d @ g)
    curvature = slope - float(d @ box.g[rows])
    length = 0.0 if not slope > 0.0 else min(slope / curvature, 1.0) if curvature > 0.0 else 1.0
    if length < 1.0:
        update_gradient(problem, state, rows, slots, (length - 1.0) * d)
        box.a[rows] = a + length * d
    else:  # a variable that goes to its bound is put there exactly
        box.a[rows] = np.where(d == low - a, low, np.where(d == high - a, high, a + d))
    state.dual_value += length * slope - 0.5 * length * length * curvature
    return length > 0.0
