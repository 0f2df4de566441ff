"""Scores K·a of all rows: float64 where a certificate needs it, float32 with an error bound elsewhere.

The hinge losses are 0 beyond the margin. A row whose margin is proven to be at least 1 adds nothing to the primal objective, whatever its
score. The dual objective needs the scores of rows with a ≠ 0 only. So a certificate needs float64 for the support vectors and for rows
near or within the margin, and float32 for the rest.

Bound (Higham 2002, docs/references.md): with unit roundoff u, the exponent γ‖x − z‖² computed from rounded rows of d features is off by
at most δ = γu(d + 10)(‖x‖ + ‖z‖)², the kernel value by a factor in [e^−δ, e^δ] and by the error of the exponential. Kernel values are
positive: a sum over weights of one sign bounds its own error. Sums are taken over blocks of support vectors of similar norm. Other
kernels and sparse rows have no bound here; all their scores are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dualgap.core import is_sparse
from dualgap.kernels import SUPPORTS, KernelBlocks, expansion, own_expansion, squares
from dualgap.problem import Problem
from dualgap.proof import best_intercept
from dualgap.solvers.working_set.pair_steps import subtract_rows
from dualgap.solvers.working_set.row_cache import RowCache

__all__ = ["BoundedScores", "Scores", "exact_scores", "float32_error"]

MIN_VALUES = 1 << 20  # kernel values below which all scores are computed exactly
EXP_ERROR = {"float32": 5e-7, "float64": 5e-14}  # relative error of the exponential in kernels/gaussian.py
MAX_DELTA = 0.5  # δ above which a score has no bound
SECOND_ORDER = 1.01  # factor on δ that covers terms of second order in u
UNDERFLOW = 1e-37  # absolute error of the smallest exponential, and of a sum of the smallest numbers
SAME_WEIGHT = 1e-13  # relative difference of weights that counts as rounding
MAX_CHANGED = 1.1  # number of changed weights / non-zero weights up to which the change is summed: small terms leave small errors
SAMPLE = 1000  # rows from which the mean squared distance to the mean is estimated
NEAR_MARGIN = 1e-3  # rows with a margin bound below 1 + this are recomputed along with the doubtful ones: b may still change


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


class Scores(NamedTuple):
    """K·a of all rows at a, and `radius`, bounds on |errors|; `certified`: exact on rows with a ≠ 0 or a loss at the best intercept."""

    a: np.ndarray
    values: np.ndarray
    radius: np.ndarray
    certified: bool


class BoundedScores:
    """K·a of the rows of one problem, from the last result where that saves work.

    Sets: `last`, the last result that `certified` computed or `remember` was given. It changes the cost and the rounding of later calls,
    nothing else. The methods can be called in any order.
    """

    def __init__(self, problem: Problem, blocks: KernelBlocks) -> None:
        self.problem, self.blocks = problem, blocks
        zeros = np.zeros(problem.n)
        self.last = Scores(zeros, zeros, zeros, certified=False)

    def remember(self, a: np.ndarray, values: np.ndarray, radius: np.ndarray | None = None, *, certified: bool) -> None:
        """Keep scores that are known from elsewhere; without a radius they are exact."""
        self.last = Scores(a.copy(), values, np.zeros(len(a)) if radius is None else radius, certified)

    def rounded(self, a: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (K·a)[rows] in the precision of the steps, and bounds on the errors: infinite where there is none."""
        last, blocks = self.last, self.blocks
        terms = a - last.a
        if np.abs(terms).sum() < np.abs(a).sum() and np.count_nonzero(terms) <= MAX_CHANGED * np.count_nonzero(a):
            scores, radius = last.values[rows], last.radius[rows]
        else:
            terms, scores, radius = a, np.zeros(len(rows)), np.zeros(len(rows))
        some, total = blocks.take(rows), np.empty(len(rows))
        rounding = np.finfo(blocks.dtype).eps / 2
        norms, support_norms = some.norms, blocks.norms
        for sign, part in _of_one_sign(support_norms, terms):
            total[:] = 0.0
            weights = np.abs(terms[part])
            some.add_sums(blocks.own(part), weights, total)
            scores += sign * total
            if norms is not None:
                delta = rounding * blocks.kernel.gamma * (self.problem.d + 10) * (norms + float(support_norms[part].max())) ** 2
                delta *= SECOND_ORDER
                off = delta + delta * delta + 2.0 * EXP_ERROR[blocks.dtype.name] + (SUPPORTS + 8) * rounding  # δ + δ² ≥ e^δ − 1
                radius += np.where(delta < MAX_DELTA, off * total + UNDERFLOW * (1.0 + float(weights.sum())), np.inf)
        if norms is None:
            radius[:] = np.inf
        return scores, radius

    def certified(self, a: np.ndarray, cache: RowCache | None = None) -> np.ndarray:
        """Return K·a, exact on every row with a ≠ 0 or a loss at the best intercept; the others provably have no loss.

        `cache` may have kernel rows over all rows of the problem."""
        problem, last = self.problem, self.last
        if last.certified and (np.abs(a - last.a) <= SAME_WEIGHT * np.abs(a)).all():
            return np.array(last.values)
        support = a != 0.0
        count = int(np.count_nonzero(support))
        if self.blocks.norms is None or (problem.n - count) * count < MIN_VALUES:
            scores = None if cache is None else _from_cache(cache, a)
            self.remember(a, problem.combine(a) if scores is None else scores, certified=True)
            return np.array(self.last.values)
        rest = np.flatnonzero(~support)
        scores, radius = np.empty(problem.n), np.zeros(problem.n)
        scores[rest], radius[rest] = self.rounded(a, rest)
        scores[support] = exact_scores(problem, a, np.flatnonzero(support))
        while True:
            least_margins = problem.y * (scores + best_intercept(problem, scores)) - radius
            inexact = radius != 0.0
            if (least_margins[inexact] >= 1.0).all():
                self.remember(a, scores, radius, certified=True)
                return scores.copy()
            doubtful = np.flatnonzero(inexact & ~(least_margins >= 1.0 + NEAR_MARGIN))
            scores[doubtful] = exact_scores(problem, a, doubtful)
            radius[doubtful] = 0.0


def _of_one_sign(norms: np.ndarray | None, terms: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield (sign, rows) for blocks of non-zero terms of one sign, whose rows have similar norms."""
    for sign in (1.0, -1.0):
        own = np.flatnonzero(terms * sign > 0.0)
        if norms is not None:
            own = own[np.argsort(norms[own], kind="stable")]
        for start in range(0, len(own), SUPPORTS):
            yield sign, own[start : start + SUPPORTS]


def _from_cache(cache: RowCache, a: np.ndarray) -> np.ndarray | None:
    """Return K·a from cached kernel rows if they are in float64 and there for every a ≠ 0; else None."""
    support = np.flatnonzero(a)
    if cache.store.dtype != np.float64 or (cache.slot_of[support] < 0).any():
        return None
    out = np.zeros(len(a))
    subtract_rows(cache.store, cache.slot_of[support], -a[support], out, 0, len(out))
    return out


def exact_scores(problem: Problem, a: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (K·a)[rows] in float64; if most support vectors are among the rows, each value between two of them is computed once."""
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
