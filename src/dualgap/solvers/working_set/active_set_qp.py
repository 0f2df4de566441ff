"""Step 2 of README.md, Newton steps on all free dual variables at once: a quadratic problem in a box, by block principal pivoting.

    maximise  g·d − ½ dᵀMd   subject to  low ≤ d ≤ high,  and Σd = 0 in each group that keeps its sum

Pair steps soon find which variables are free, then take long to find their values, which depend on each other. One Cholesky factor
gives them at once (Scheinberg 2006, docs/references.md):

    a) take the free variables and the worst violator at a bound; M is their kernel matrix with a larger diagonal, factored once
    b) fix variables beyond a bound at it, free fixed ones whose multiplier has the wrong sign, all in one round (Júdice and Pires 1994),
       until the sets stay the same; a fixed variable costs one column of M⁻¹ (a Schur complement), not a new factor
    c) move along d as far as the dual objective rises: rounding in float32 may make the full step too long

With its added diagonal the step is one of the proximal-point method (Rockafellar 1976): rows that are there twice leave K singular.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from dualgap.core import blas_alone, machine
from dualgap.problem import Problem
from dualgap.solvers.working_set.dual_box import Box, argtop, bias_weight, by_group, choose_sides, kkt_slack
from dualgap.solvers.working_set.state import GAP_MARGIN, WorkingSetState, update_gap, update_gradient

__all__ = ["ADDED_DIAGONAL", "BoxQP", "newton_step", "pair_step_cost", "pays_off"]

MAX_CHANGED = 0.1  # changes of the free set in an epoch / its size, above which it is not yet known
EXPECTED_RATIO = 30.0  # gap before / gap after that a step is expected to reach
GOOD_RATIO = 4.0  # the ratio it must reach: after two failures in a row, the expected saving must be larger by this factor
MAX_FIXED = 4  # variables of a step / those among them that may end at a bound
PIVOT_FLOPS = 0.4  # × m³, for columns of M⁻¹: about m/10 variables end at a bound, and these flops take twice as long
MAX_ROUNDS = 10  # of pivoting: the sets stay the same after about five, or a few variables that hardly matter alternate
ROUNDING = 1e-6  # a variable beyond its bound by less than this part of the longest move counts as inside
# relative to the mean diagonal; ×10 when the factorisation fails
ADDED_DIAGONAL = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


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
    if free == 0 or last.changed > MAX_CHANGED * free:
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
    violators = violators[argtop(-slack[violators], 1)]
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
        d = qp.solve(box.g[rows], (box.low - box.a)[rows], (box.high - box.a)[rows]) if qp.factored else None
        if d is not None:
            _move(problem, state, rows, slots, d)
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


def _move(problem: Problem, state: WorkingSetState, rows: np.ndarray, slots: np.ndarray, d: np.ndarray) -> None:
    """Add the best multiple of d, at most 1, to a."""
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


# ----------------------------------------------------------------------------------------------------------- the quadratic problem


class BoxQP:
    """The quadratic problem of one M for several g.

    Order of calls: the constructor factors M; if `factored`, `solve` any number of times. Each starts from the bounds the last one found.

    Parameters
    ----------
    M : square array, float32 or float64; its lower half is read, and overwritten by the factor
    memory : array with as many columns as M, for columns of M⁻¹: one row for each variable that may be at a bound, one more for each group
    groups : masks of variables, none of them in two; Σd = 0 in each group
    """

    def __init__(self, M: np.ndarray, memory: np.ndarray, groups: Sequence[np.ndarray] = ()) -> None:
        lapack: Any = get_lapack_funcs(("potrf", "potrs"), (M,))
        factorise, self._substitute = lapack
        self._factor, failed = factorise(M.T, lower=0, clean=0, overwrite_a=1)
        self.factored = failed == 0  # False: M is not positive definite
        self._groups = [np.asarray(group) for group in groups if np.any(group)]
        self._inverse, self._computed = memory, len(self._groups)  # M⁻¹·mask of each group, then columns of M⁻¹; one a row
        self._row_of = np.full(len(M), -1)  # of `_inverse`, for each variable
        self._side = np.zeros(len(M))  # 1: fixed at its upper bound, −1: at its lower one, 0: free
        if self.factored:
            for row, group in enumerate(self._groups):
                self._inverse[row] = self._times_inverse(group.astype(float))

    def _times_inverse(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self._substitute(self._factor, right.astype(self._factor.dtype, order="F"), lower=0)[0])

    def solve(self, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
        """Return the best d; None if too many variables end at a bound."""
        unbounded = self._times_inverse(g).astype(np.float64)
        for _ in range(MAX_ROUNDS):
            fixed = np.flatnonzero(self._side)
            if not self._compute_columns(fixed):
                return None
            bound = np.where(self._side[fixed] > 0, high[fixed], low[fixed])
            try:
                d, multipliers = self._with_fixed(unbounded, fixed, bound)
            except np.linalg.LinAlgError:
                return None
            slack = ROUNDING * float(np.abs(d).max(initial=0.0))
            beyond = np.where(d > high + slack, 1.0, np.where(d < low - slack, -1.0, 0.0))
            beyond[fixed] = 0.0
            freed = fixed[multipliers * self._side[fixed] < 0.0]
            if not beyond.any() and len(freed) == 0:
                break
            self._side[freed] = 0.0
            self._side[beyond != 0.0] = beyond[beyond != 0.0]
        return _feasible(d, low, high, self._groups)

    def _compute_columns(self, fixed: np.ndarray) -> bool:
        """Compute the columns of M⁻¹ that are missing for these variables; False if the memory is too small."""
        new = fixed[self._row_of[fixed] < 0]
        rows = self._computed + np.arange(len(new))
        if self._computed + len(new) > len(self._inverse):
            return False
        if len(new):
            right = np.zeros((len(self._side), len(new)), dtype=self._factor.dtype, order="F")
            right[new, np.arange(len(new))] = 1.0
            self._inverse[rows] = self._times_inverse(right).T
            self._row_of[new] = rows
            self._computed += len(new)
        return True

    def _with_fixed(self, unbounded: np.ndarray, fixed: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return d with some variables fixed at a bound, and their multipliers, from the Schur complement of those constraints."""
        sums = len(self._groups)
        rows, right = self._row_of[fixed], unbounded[fixed] - bound
        if sums:
            rows = np.append(np.arange(sums), rows)
            right = np.append([unbounded[group].sum() for group in self._groups], right)
        S = np.empty((len(rows), len(rows)))
        S[:, sums:] = self._inverse[np.ix_(rows, fixed)]
        for column, group in enumerate(self._groups):
            S[:sums, column], S[sums:, column] = self._inverse[:sums, group].sum(axis=1, dtype=np.float64), S[column, sums:]
        multipliers = np.linalg.solve(0.5 * (S + S.T), right)
        weights = np.zeros(self._computed, dtype=self._inverse.dtype)
        weights[rows] = multipliers
        d = unbounded - weights @ self._inverse[: self._computed]
        d[fixed] = bound
        return d, multipliers[sums:]


def _feasible(d: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray | None:
    """Remove what rounding left beyond the bounds, and in the sums: from free variables. Return None if these have too little room."""
    d = np.clip(d, low, high)
    for group in groups:
        excess = float(d[group].sum())
        if excess != 0.0:
            room = np.where(group & (d > low) & (d < high), np.minimum(d - low if excess > 0.0 else high - d, abs(excess)), 0.0)
            if room.sum() < abs(excess):
                return None
            d -= excess / room.sum() * room
    return d
