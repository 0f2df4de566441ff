"""Scores of all rows where most need not be exact: float32 sums with a bound on their error, and float64 where that leaves a doubt.

Beyond the margin the losses are flat: a row that surely lies there adds nothing to the primal objective, however little is known of
its score. The dual objective asks for the scores of rows with a weight alone. So a certificate needs float64 for those, and float32 for
the rest.

With u the unit roundoff, γ‖x − z‖² from rounded rows, a product of d terms and rounded squares is off by no more than
δ = γu(d + 10)(‖x‖ + ‖z‖)², and the kernel value by a factor between e^−δ and e^δ and the error of the exponential. Values are
positive: sums over weights of one sign, in blocks of support vectors of like length, bound what they are off by themselves.

For sparse rows float64 costs little more than float32, and all scores are exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualgap.core import is_sparse
from dualgap.kernels import SUPPORTS, expansion, own_expansion, squares
from dualgap.problem import Problem
from dualgap.proof import best_intercept
from dualgap.solvers.working_set.pair_steps import subtract_rows
from dualgap.solvers.working_set.state import Known, WorkingSetState

__all__ = ["exact_scores", "rough_scores", "single_error", "sure_scores"]

FEWEST = 1 << 20  # kernel values below which all may as well be exact
EXPONENTIAL = {"float32": 5e-7, "float64": 5e-14}  # relative error of an exponential
DOUBT = 0.5  # δ beyond which a bound is of no use
SPARE = 1.01  # for what is of second order in u
LEAST = 1e-37  # what the smallest exponential, and a sum of the smallest numbers, may be off by
ROUNDING = 1e-13  # relative differences of weights that leave their sum the same but for rounding
MORE = 1.1  # changes are summed even if they are so many times more than what is changed: being small, they leave smaller errors
SAMPLE = 1000  # rows from which the mean squared distance from the mean is estimated
CLOSE = 1e-3  # rows so close to the margin are made exact with those in doubt: the intercept may yet move a little


def single_error(problem: Problem) -> float:
    """Estimate how far off one kernel value in float32 is.

    A value has its own rounding, and a Gaussian that of its exponent: δ as above, for two rows at the usual distance from the mean.
    A precomputed matrix is taken as it was given.
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


def rough_scores(problem: Problem, state: WorkingSetState, a: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K·a) of some rows in the precision of the steps, and how far off they are at most; infinite where there is no bound.

    Summed is what has changed since scores were last known, unless that is more than all of it."""
    known, panels = state.known, state.panels
    terms = a - known.a
    if np.abs(terms).sum() < np.abs(a).sum() and np.count_nonzero(terms) <= MORE * np.count_nonzero(a):
        scores, radius = known.scores[rows], known.radius[rows]
    else:
        terms, scores, radius = a, np.zeros(len(rows)), np.zeros(len(rows))
    some = panels if len(rows) == panels.count else panels.take(rows)
    total = np.empty(len(rows))
    rounding = np.finfo(panels.dtype).eps / 2
    lengths, reach = some.lengths, panels.lengths
    for sign, part in _blocks(reach, terms):
        total[:] = 0.0
        weights = np.abs(terms[part])
        some.add(panels.own(part), weights, total)
        scores += sign * total
        if lengths is not None:
            delta = SPARE * rounding * panels.kernel.gamma * (problem.d + 10) * (lengths + float(reach[part].max())) ** 2
            off = delta + delta * delta + 2.0 * EXPONENTIAL[panels.dtype.name] + (SUPPORTS + 8) * rounding  # δ + δ² ≥ e^δ − 1
            radius += np.where(delta < DOUBT, off * total + LEAST * (1.0 + float(weights.sum())), np.inf)
    if lengths is None:
        radius[:] = np.inf
    return scores, radius


def _blocks(lengths: np.ndarray | None, terms: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Terms of one sign, of rows of about one length."""
    for sign in (1.0, -1.0):
        own = np.flatnonzero(terms * sign > 0.0)
        if lengths is not None:
            own = own[np.argsort(lengths[own], kind="stable")]
        for start in range(0, len(own), SUPPORTS):
            yield sign, own[start : start + SUPPORTS]


def sure_scores(problem: Problem, state: WorkingSetState, a: np.ndarray) -> np.ndarray:
    """K·a, exact on every row with a weight in a or a loss at the best intercept; the others are near enough to be sure of that."""
    known = state.known
    if known.sure and (np.abs(a - known.a) <= ROUNDING * np.abs(a)).all():
        return np.array(known.scores)
    support = a != 0.0
    count = int(np.count_nonzero(support))
    if state.panels.lengths is None or (problem.n - count) * count < FEWEST:
        scores = _from_cache(state, a)
        state.known = Known(a.copy(), problem.combine(a) if scores is None else scores, np.zeros(problem.n), sure=True)
        return np.array(state.known.scores)
    rest = np.flatnonzero(~support)
    scores, radius = np.empty(problem.n), np.zeros(problem.n)
    scores[rest], radius[rest] = rough_scores(problem, state, a, rest)
    scores[support] = exact_scores(problem, a, np.flatnonzero(support))
    while True:
        margins = problem.y * (scores + best_intercept(problem, scores))
        margins -= radius
        inexact = radius != 0.0
        if (margins[inexact] >= 1.0).all():
            state.known = Known(a.copy(), scores, radius, sure=True)
            return scores.copy()
        doubtful = np.flatnonzero(inexact & ~(margins >= 1.0 + CLOSE))
        scores[doubtful] = exact_scores(problem, a, doubtful)
        radius[doubtful] = 0.0


def _from_cache(state: WorkingSetState, a: np.ndarray) -> np.ndarray | None:
    """K·a from kernel rows in float64 that are at hand, all of them; else None."""
    cache, support = state.cache, np.flatnonzero(a)
    if cache.store.dtype != np.float64 or len(state.open) < state.panels.count or (cache.slot_of[support] < 0).any():
        return None
    out = np.zeros(len(a))
    subtract_rows(cache.store, cache.slot_of[support], -a[support], out, 0, len(out))
    return out


def exact_scores(problem: Problem, a: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(K·a) of some rows in float64; where most support vectors are among them, their values with each other are computed once."""
    assert problem.kernel is not None
    weighted = a[rows] != 0.0
    if is_sparse(problem.X) or problem.kernel.name == "precomputed" or 2 * np.count_nonzero(weighted) <= np.count_nonzero(a):
        return expansion(problem.kernel, problem.X[rows], problem.X, a)
    support = np.flatnonzero(a)
    out = np.empty(len(rows))
    own = own_expansion(problem.kernel, problem.X[support], a[support])
    out[weighted] = own[np.searchsorted(support, rows[weighted])]
    if not weighted.all():
        out[~weighted] = expansion(problem.kernel, problem.X[rows[~weighted]], problem.X, a)
    return out
