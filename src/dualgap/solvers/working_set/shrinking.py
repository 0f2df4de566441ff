"""Which rows are active: the first sample, full gradient passes and unshrinking (steps 1 and 8 of README.md), shrinking (step 9).

Shrunk rows keep their dual variables, and their gradient is not updated (Joachims 1999, docs/references.md). A full gradient pass computes
it anew, and unshrinks the rows that violate the KKT conditions.
"""

from __future__ import annotations

import numpy as np

from dualgap.problem import Problem
from dualgap.proof import exact_scores, kernel_scores
from dualgap.solvers.working_set.dual_box import (
    Box,
    argtop,
    bias_weight,
    by_group,
    choose_sides,
    intercept_of,
    kkt_slack,
    max_up_min_low,
    may_move,
    set_gradient,
)
from dualgap.solvers.working_set.state import WorkingSetState, gap_estimate, update_gap

GROWTH = 8  # a sample has n/8, n/64, … rows, and grows by this factor
SAMPLE_SETS = 2  # working sets in the smallest sample, at least
SAMPLE_RATIO = 0.3  # gap now / gap after the last pass, at which a sample grows
PASS_RATIO = 1e-2  # the same at which the shrunk rows are checked, once all rows can be active
EXTRA = 4  # n / rows that start active beside those that violate the KKT conditions, at least
MIN_ACTIVE = 16  # rows; fewer are not worth shrinking to
MAX_KEPT = 0.8  # rows kept / rows there are, above which shrinking is not worth moving the cache


def sample_size(n: int, set_size: int) -> int:
    """Return how many rows may be active at first."""
    while n >= GROWTH * SAMPLE_SETS * set_size:
        n //= GROWTH
    return n


def stratified_order(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return all rows in random order, the classes by turns while both last: a prefix is a sample with enough of a rare class."""
    order = rng.permutation(len(y))
    rank_in_class = np.where(y[order] > 0, np.cumsum(y[order] > 0), np.cumsum(y[order] < 0))
    return order[np.argsort(rank_in_class, kind="stable")]


def rows_to_activate(problem: Problem, box: Box, sample: np.ndarray, nu: float | None = None) -> np.ndarray:
    """Return the rows of the sample that are free or violate the KKT conditions, and as many again, or n/EXTRA, with the least slack.

    All rows of the problem are returned if that is nearly all. `box` has all rows."""
    rows = np.arange(problem.n) if len(sample) in (0, problem.n) else np.sort(sample)
    slack = kkt_slack(box, intercept_of(problem, box, nu))[rows]
    count = int(np.count_nonzero(slack < 0.0))
    chosen = np.sort(argtop(-slack, count + max(count, problem.n // EXTRA)))
    chosen = chosen[slack[chosen] < np.inf]
    return rows[chosen] if len(chosen) <= MAX_KEPT * problem.n else np.arange(problem.n)


# ------------------------------------------------------------------------------------------------------------------ gradient passes


def full_pass_due(problem: Problem, state: WorkingSetState) -> bool:
    """Whether the active rows suggest that the tolerance is reached: a certificate is then being computed, from the same scores."""
    return state.gap < state.gap_at_pass and gap_estimate(problem, state) <= state.tol


def full_gradient_pass(problem: Problem, state: WorkingSetState) -> None:
    """Step 1 at the tolerance: compute the gradient of all rows from certified scores, then unshrink."""
    state.write_back()
    state.dual_value = set_gradient(problem, state.all, kernel_scores(problem, state.all.a).values, state.groups)
    state.exact_a, state.float32_terms = state.all.a.copy(), 0.0
    _unshrink_violators(problem, state)


def check_due(problem: Problem, state: WorkingSetState) -> bool:
    """Whether the gap of the active rows has fallen far enough for the shrunk rows to be checked."""
    return (
        len(state.active) < problem.n
        and state.gap <= (PASS_RATIO if state.sampled == problem.n else SAMPLE_RATIO) * state.gap_at_pass
    )


def check_shrunk_rows(problem: Problem, state: WorkingSetState) -> None:
    """Step 1 before that: compute the gradient of the shrunk rows in the precision of the steps, then unshrink."""
    state.write_back()
    a, g, r, p = state.all.a, state.all.g, state.all.r, state.all.p
    shrunk = np.setdiff1d(np.arange(problem.n), state.active, assume_unique=True)
    bias = bias_weight(problem) * a.sum()
    values, radius = p - g - r * a - bias, np.full(problem.n, np.inf)  # no bound for active rows
    terms = a - state.scores.last.a if state.scores.last.certified else a
    state.float32_terms = max(state.float32_terms, min(float(terms @ terms), float(a @ a)))
    values[shrunk], radius[shrunk] = state.scores.rounded(a, shrunk)
    g[shrunk] = (p - values - r * a - bias)[shrunk]
    choose_sides(problem, state.all, state.groups)
    state.scores.remember(a, values, radius, certified=False)
    _unshrink_violators(problem, state)


def refresh_gradient(problem: Problem, state: WorkingSetState) -> None:
    """Step 8: compute the gradient of the active rows in float64, and their gap."""
    a, box = state.current_a(), state.box
    whole = len(state.active) == problem.n  # certified scores are remembered for a certificate of the same point
    scores = kernel_scores(problem, a).values if whole else exact_scores(problem, a, state.active)
    box.g[:] = box.p - scores - box.r * box.a - bias_weight(problem) * a.sum()
    state.exact_a, state.float32_terms = a, 0.0
    update_gap(problem, state)


# -------------------------------------------------------------------------------------------------------------- shrink and unshrink


def shrink_satisfied(problem: Problem, state: WorkingSetState) -> None:
    """Step 9: shrink the rows at a bound that satisfy the KKT conditions at every intercept in question, if they are many."""
    choose_sides(problem, state.box, state.groups)
    kept = may_move(state.box, state.groups)
    if MIN_ACTIVE <= len(kept) <= MAX_KEPT * len(state.active):
        shrink(state, kept)


def shrink(state: WorkingSetState, kept: np.ndarray) -> None:
    """Keep the active rows at these positions, ascending; shrink the others."""
    state.write_back()
    state.cache.restrict(kept)
    state.set_active(state.active[kept], state.box.take(kept), np.empty(0, dtype=np.int64))


def unshrink(state: WorkingSetState, rows: np.ndarray) -> None:
    """Go on with these rows, the active ones among them, at the a and g that `all` has."""
    position = np.searchsorted(rows, state.active)
    state.cache.extend(state.blocks.take(rows), position, state.all.a[state.active] != 0.0)
    state.progress = None
    state.set_active(rows, state.all.take(rows), position[state.last_set])


def _unshrink_violators(problem: Problem, state: WorkingSetState) -> None:
    """Unshrink rows that violate the KKT conditions, and others that may come to; then compute the gap from the g that `all` has."""
    new = state.active[:0]
    if len(state.active) < problem.n:
        new = _of_larger_sample(problem, state) if state.sampled < problem.n else _violators(problem, state)
    if len(new):
        nearly_all = len(state.active) + len(new) > MAX_KEPT * problem.n
        unshrink(state, np.arange(problem.n) if nearly_all else np.union1d(state.active, new))
    else:
        state.set_active(state.active, state.all.take(state.active), state.last_set)
    update_gap(problem, state)
    state.gap_at_pass = state.gap


def _of_larger_sample(problem: Problem, state: WorkingSetState) -> np.ndarray:
    """Let the sample grow, and return the rows of it to activate."""
    state.sampled = problem.n if state.sampled * GROWTH**2 > problem.n else state.sampled * GROWTH
    rows = rows_to_activate(problem, state.all, state.sample_order[: state.sampled], state.nu)
    return np.setdiff1d(rows, state.active, assume_unique=True)


def _violators(problem: Problem, state: WorkingSetState) -> np.ndarray:
    """Return the shrunk rows that violate the KKT conditions, and as many again with the least slack."""
    shrunk = np.setdiff1d(np.arange(problem.n), state.active, assume_unique=True)
    slack = kkt_slack(state.all, intercept_of(problem, state.all, state.nu))[shrunk]
    if not (slack < 0.0).any() and state.groups:
        # None at the intercept that is best for all rows. The active rows may have found another.
        active = state.all.take(state.active)
        middle = [0.5 * sum(max_up_min_low(active, group)) for group in range(state.groups)]
        slack = kkt_slack(state.all, by_group(state.all, middle))[shrunk] if np.isfinite(middle).all() else slack
    count = int(np.count_nonzero(slack < 0.0))
    return np.sort(shrunk[argtop(-slack, 2 * count)]) if count else shrunk[:0]
