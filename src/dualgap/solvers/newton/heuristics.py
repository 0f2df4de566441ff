"""What makes newton and ssnal faster and changes no solution: a sample, shrinking, cheap systems, tangents, a working set of features.

A constant names a benchmark cell (`benchmarks.ablation`: set, loss, C, tolerance) and how much longer it takes without the heuristic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dualgap.core import add_in_threads, inner, is_dense, kernel, machine, natural_order
from dualgap.problem import Problem
from dualgap.solvers.newton.proximal import Prox, fenchel_gap, line_search
from dualgap.solvers.newton.state import ROWS_PER_FEATURE, ActiveRows, NewtonState
from dualgap.solvers.newton.unknowns import gap_part, subgradient_ends

__all__ = [
    "SAMPLE_GAP",
    "SHRINK_STEPS",
    "UNSHRINK_AT",
    "is_wide",
    "precision",
    "shrink",
    "start_from_sample",
    "tangent_gap",
    "unshrink",
    "working_set",
]

# The start from a sample: campaign, hinge, C=100, 1e-3: 2.5
SAMPLE_ONE_IN = 8  # one row in 8 …
SAMPLE_LEAST = 500  # … if these are at least 500 rows …
SMOOTH_PER_FEATURE = 16  # … and ROWS_PER_FEATURE for each feature; 16 for a smooth loss: signals, logistic, C=100, 1e-3: 1.8 with 4
SAMPLE_GAP = 1e-2  # relative gap at which the sample's w is taken; its distance from the full problem's w is larger anyway

# The first δ after a sample: creditcard, hinge, C=100, 1e-3: 1.6
FREE_ONE_IN = (
    20  # one row in 20 is free then, but at least ROWS_PER_FEATURE for each feature. Fewer make cheaper systems, which know less
)

SINGLE_SHARE = 0.1  # of l2 that the rounding error of a system in float32 may be: pictures 20k × 784, logistic, C=1, 1e-3: 1.6

# Shrinking: campaign, hinge, C=1, 1e-6: 2.1
SHRINK_STEPS = 4.0  # shrink a row at a bound if its gradient exceeds the change of margins in this many steps like the last
SHRINK_SHARE = 0.5  # shrink only if at least this share of the active rows goes: the others are copied
UNSHRINK_AT = 1e-3  # unshrink all rows when the gap of the active rows is this part of the gap after the last full pass
UNSHRINK_ERROR = 10.0  # rows were shrunk too early if the gap of all rows exceeds that of the active ones by this factor

# The working set of ssnal
FEATURES = 500  # features up to which all are in it, and that may join it at a time in any case
NEAR = 0.9  # |uⱼ|/l1 from which a feature that is not in use is in it


# ------------------------------------------------------------------------------------------------------------------ the sample


def start_from_sample(
    problem: Problem, rows: ActiveRows, x: np.ndarray, rng: np.random.Generator, solve: Callable[[Problem], NewtonState]
) -> tuple[np.ndarray, float, float]:
    """Return x and δ of a sample of the rows, half of each class where that can be, and its passes; as they are where rows are few.

    `solve` returns the last state on a sample.

    Sets: the margins of `rows` and, for a loss with a kink, their centre: amid the jump of β.
    """
    size, smooth, delta = problem.n // SAMPLE_ONE_IN, not problem.loss.has_kink(), rows.prox.delta
    if size < max((SMOOTH_PER_FEATURE if smooth else ROWS_PER_FEATURE) * problem.d, SAMPLE_LEAST):
        rows.go_to(x)
        return x, delta, 0.0
    part = problem.subset(*draw(problem, size, rng))
    state = solve(part)
    x, delta = state.x, state.rows.prox.delta
    if smooth and problem.bounds is None:  # a multiple of x need not be within bounds
        # A sample with few rows of a rare feature may overrate it: go along its x as far as the losses of all rows fall.
        zero = np.zeros(len(x))
        rows.go_to(zero)
        rows.prox = Prox(rows.prox.centre, 0.0)
        t = line_search(rows.along(x, zero, state.ridge), math.nan)
        rows.step(t)
        x = t * x
    else:
        rows.go_to(x)
        if x.any() and not smooth:
            delta = min(delta, first_delta(problem, rows.margins)) or delta
            jump_middles(problem.loss, rows.margins, rows.prox.centre)
    return x, delta, state.passes * part.n / problem.n


def draw(problem: Problem, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw about `size` rows, at most about twice as many, half of them from each class as far as it has rows; return them and weights.

    Rows with more than the mean of c‖x‖² are drawn more often, in proportion to it, and weigh less for it (Drineas, Kannan & Mahoney
    2006): a few long rows may be all that is known of a rare feature. Without it campaign, logistic, C=100, 1e-6 takes 2.4 times as long.
    """
    sides = [np.flatnonzero((problem.y == sign) & (problem.c > 0)) for sign in (1.0, -1.0)]
    sides = [members for members in sides if len(members)]
    chosen, weights = [], []
    for members in sides:
        squares = problem.c[members] * problem.sqnorms[members]
        mean = float(squares.mean())
        longer = np.maximum(squares / mean, 1.0) if 0.0 < mean < math.inf else np.ones(len(members))
        likely = np.minimum(size / (len(sides) * len(members)) * longer, 1.0)
        drawn = rng.random(len(members)) < likely
        weight = problem.c[members[drawn]] / likely[drawn]
        chosen.append(members[drawn])
        weights.append(weight * (problem.c[members].sum() / weight.sum()))
    return np.concatenate(chosen).astype(natural_order(0).dtype), np.concatenate(weights)


def first_delta(problem: Problem, margins: np.ndarray) -> float:
    """Return the δ that leaves a given number of variables free: with a centre amid the jump of β, those within δ/2 of the kink.

    The sample's w has put the margins nearly where they belong, so that the rows near the kink are to be decided. It is 0 where that many
    are at the kink.
    """
    distance = np.empty(problem.n)
    kink_distances(problem.loss, margins, distance)
    count = min(problem.n - 1, max(ROWS_PER_FEATURE * problem.d, problem.n // FREE_ONE_IN))
    distance.partition(count)
    return 2.0 * float(distance[count])


@kernel
def kink_distances(loss, margins, out):
    """out[i] = distance of a margin from the kink of the loss"""
    for i in range(margins.shape[0]):
        out[i] = loss.kink_distance(margins[i])


@kernel
def jump_middles(loss, margins, out):
    """out[i] = the middle of the values of β at the kink nearest to a margin"""
    for i in range(margins.shape[0]):
        out[i] = loss.jump_middle(margins[i])


# ------------------------------------------------------------------------------------------------------------------- shrinking


def shrink(problem: Problem, state: NewtonState, t: float) -> None:
    """Shrink rows that some steps like the last, t times the one in `work`, would not free. Sets: rows, all_beta."""
    rows, shrunk = state.rows, np.empty(len(state.rows.which), dtype=np.bool_)
    # Margins near the kink move by about δ when δ is halved.
    least = state.shrink_steps / SHRINK_STEPS * rows.prox.delta
    steps = state.shrink_steps * t
    count, loss = find_shrinkable(problem.loss, rows.margins, rows.beta, rows.work, steps, least, rows.samples.c, shrunk)
    if count < SHRINK_SHARE * len(shrunk):
        return
    keep = ~shrunk
    state.all_beta[rows.which] = rows.beta
    left = ActiveRows.among(problem, rows.which[keep], Prox(rows.prox.centre[keep], rows.prox.delta), rows.shrunk_loss + loss)
    left.margins, left.beta = rows.margins[keep], rows.beta[keep]
    state.rows = left


def unshrink(problem: Problem, state: NewtonState) -> None:
    """Make all rows active, with one full gradient pass. Sets: rows, all_beta, unshrink_gap, shrink_steps, and as `update`."""
    rows, active_gap = state.rows, max(state.gap, state.tol)
    state.all_beta[rows.which] = rows.beta
    centre = state.all_beta.copy()  # that of a shrunk row is its β, to which it would have been moved
    centre[rows.which] = rows.prox.centre
    everything = ActiveRows.among(problem, natural_order(problem.n), Prox(centre, rows.prox.delta))
    everything.go_to(state.x)
    everything.beta[:] = state.all_beta
    state.rows = everything
    state.passes += 1.0
    state.update(problem)
    state.unshrink_gap = UNSHRINK_AT * state.gap
    if state.gap > UNSHRINK_ERROR * active_gap:
        state.shrink_steps *= SHRINK_STEPS


@kernel
def find_shrinkable(loss, margins, beta, margin_step, t, least, c, shrink):
    """shrink[i] if β is not free and its slack is more than `least`, t·|its margin step| and t·their RMS.

    Returns how many such rows there are, and Σ cφ over them.
    """
    n = margins.shape[0]
    square = 0.0
    for i in range(n):
        square += margin_step[i] * margin_step[i]
    typical = max(least, t * math.sqrt(square / n))
    count, value = 0, 0.0
    for i in range(n):
        shrink[i] = False
        if loss.is_free(beta[i]):
            continue
        shrink[i] = loss.slack(beta[i], margins[i]) > max(typical, t * abs(margin_step[i]))
        if shrink[i]:
            count += 1
            value += c[i] * loss.value(margins[i])
    return count, value


# --------------------------------------------------------------------------------------------------------------- plain steps


def is_wide(problem: Problem) -> bool:
    """Return whether rows are dense and so wide that the BLAS multiplies them, and a system takes much longer than a pass over the rows."""
    return is_dense(problem.rows) and problem.d > machine.NARROW


def precision(problem: Problem) -> Any:
    """Return the type in which rows are multiplied: float32 where the errors of a system, a random sum over the rows, are far below l2."""
    if not is_dense(problem.rows) or not problem.loss.is_smooth():
        return np.float64
    trace = problem.loss.curvature() * float(inner(problem.c, problem.sqnorms))
    return np.float32 if 2.0**-24 * trace / math.sqrt(problem.n) <= SINGLE_SHARE * problem.l2 else np.float64


def tangent_gap(problem: Problem, state: NewtonState, curved: np.ndarray, t: float) -> float:
    """Put the tangents' β after a step of t into `all_beta`; return its gap, P − D.

    With t = 1 its u is ridge·x: no gradient is left, whose square would be divided by l2, but an error of second order in β. Without it
    campaign, logistic, C=100, 1e-6 takes 1.8 times as long.
    """
    rows, clipped = state.rows, np.zeros(len(state.x))
    if tangent_points(problem.loss, rows.beta, curved, rows.work, t, rows.samples, state.all_beta):
        add_in_threads(rows.rows, rows.work, clipped)
    rest = gap_part((1.0 - t) * state.residual - clipped, state.ridge)
    return rest + float(fenchel_gap(problem.loss, rows.margins, state.all_beta, rows.samples.c))


@kernel
def tangent_points(loss, beta, curved, step, t, samples, out):
    """out = β − t·curvature·margin step, the tangents' β after a step, clipped to its box; return whether some were clipped.

    `curved` are the weighted curvatures of the Newton system. `step` is the margin step, and afterwards what clipping adds to cyβ.
    """
    bottom, top, some = loss.lower_bound(), loss.upper_bound(), False
    for i in range(beta.shape[0]):
        c = samples.c[i]
        new = beta[i] - t * curved[i] * step[i] / c if c > 0.0 else 0.0
        out[i] = min(max(new, bottom), top)
        step[i] = c * samples.y[i] * (out[i] - new)
        some |= step[i] != 0.0
    return some


# -------------------------------------------------------------------------------------------------- the features of ssnal


def working_set(problem: Problem, w: np.ndarray, u: np.ndarray, kept: np.ndarray | None = None) -> np.ndarray:
    """Return the features that are kept or in use, and the worst of those whose u is near or beyond the end of its interval.

    The others are at most as many as are in use, or FEATURES.
    """
    if problem.d <= FEATURES:
        return np.arange(problem.d)
    least, most = subgradient_ends(problem, np.zeros(problem.d))
    reached = np.where(w != 0.0, np.inf, np.maximum(u / most, u / least))
    if kept is not None:
        reached[kept] = np.inf
    room = int(np.count_nonzero(np.isinf(reached))) + max(int(np.count_nonzero(w)), FEATURES)
    near = np.flatnonzero(reached >= NEAR)
    if len(near) > room:
        near = np.sort(near[np.argpartition(-reached[near], room)[:room]])
    return near
