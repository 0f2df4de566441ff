"""Scores K·a of a kernel machine's rows, with bounds on their errors: float64 where a certificate needs it, float32 for rows beyond doubt.

The hinge losses are 0 beyond the margin. A row whose margin is proven to be at least 1 adds nothing to the primal objective, whatever its
score. So a certificate needs float64 for the support vectors and for rows near or within the margin, and float32 for the rest.

Bounds (Higham 2002, docs/references.md), with unit roundoff u, for rows of d features:

    product x·z             γ(d)·‖x‖‖z‖
    Gaussian exponent t     δ = γu(d + 20)(‖x‖ + ‖z‖)² + 16u with the exponential's own error, so that a value is off by a factor of e^±δ
    polynomial of degree p  (p(d + 8) + 16)·u·(γ‖x‖‖z‖ + |coef0|)ᵖ
    sum of m values         γ(m)·Σ|aⱼ|·max |k|, m the longest chain of additions
    linear kernel           that of x·w, and ‖x‖·γ(m)·Σ|aⱼ|‖xⱼ‖ for the rounding of w = Σ aⱼxⱼ

Values of a precomputed matrix or a callable count as exact. In float32 kernel values are positive and sums are over weights of one sign, so
that a sum bounds its own error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, gamma, is_sparse, kernel, length_bound, precise_accumulate, strict
from dualgap.kernels import (
    SUPPORTS,
    SURE_RELATIVE,
    Distances,
    Kernel,
    KernelBlocks,
    distances_of,
    expansion,
    own_expansion,
)
from dualgap.problem import Problem
from dualgap.proof.intercepts import best_intercept

__all__ = [
    "UNDERFLOW_64",
    "BoundedScores",
    "Scores",
    "carry_scores",
    "exact_scores",
    "keep_rows",
    "kernel_scores",
    "rounded_up",
    "value_errors_of_products",
]

MIN_VALUES = 1 << 20  # kernel values below which all scores are computed in float64
EXP_ERROR = {"float32": 5e-7, "float64": 5e-14}  # relative error of the exponential in kernels/gaussian.py
MAX_DELTA = 0.5  # δ above which a score in float32 has no bound
SECOND_ORDER = 1.01  # factor on δ that covers terms of second order in u
UNDERFLOW_64 = 1e-300  # the same in float64
UNDERFLOW = 1e-37  # absolute error of the smallest exponential, and of a sum of the smallest numbers
SAME_WEIGHT = 1e-13  # relative difference of weights that counts as none
MAX_CHANGED = 1.1  # number of changed weights / non-zero weights up to which the change is summed: small terms leave small errors
FEW_CHANGED = 0.25  # the same for scores in float64
FLOAT64_RADIUS = 1e-10  # error of a score / Σ |a|·max |k| up to which it counts as one in float64: those of float32 are at 1e-7
COARSE = 1e-11  # error of a score from the rounding of w above which w is summed in double-double numbers
NEAR_MARGIN = (
    1e-3  # rows nearer to a loss than this, in units of a margin, are recomputed along with the doubtful ones: b may still change
)


class Scores(NamedTuple):
    """K·a of all rows at a, and `radius`, bounds on the errors; `certified`: in float64 where a ≠ 0 or there is a loss at the best b."""

    a: np.ndarray
    values: np.ndarray
    radius: np.ndarray
    certified: bool


def kernel_scores(problem: Problem, a: np.ndarray) -> Scores:
    """Return K·a with its error bounds, certified, not to be written to; a problem with a memory keeps the last result."""
    return _scores_of(problem).certified(a)


def _scores_of(problem: Problem) -> BoundedScores:
    """Return what a problem remembers."""
    memory = problem.memory
    if memory is None:
        return BoundedScores(problem)
    if memory.kernel_scores is None:
        memory.kernel_scores = BoundedScores(memory.problem)
    found: BoundedScores = memory.kernel_scores
    return found


def carry_scores(problem: Problem, a: np.ndarray, factor: float, known: Scores) -> None:
    """Let later scores of a problem with a memory start from K·a = factor·K·known.a of the same kernel and rows.

    `a` must be factor·known.a up to rounding; where it is not, nothing is carried over.
    """
    assert problem.memory is not None
    scores = BoundedScores(problem.memory.problem)
    if known.certified and scores.scale(a, factor, known):
        problem.memory.kernel_scores = scores


def keep_rows(problem: Problem, rows: Callable[[np.ndarray], np.ndarray]) -> None:
    """Let later scores of a problem with a memory be computed from rows of K in float64, as KernelBlocks computes them from X.

    rows(i) returns the kernel values of the rows i with all rows."""
    _scores_of(problem).at_hand = rows


class BoundedScores:
    """K·a of the rows of one problem, from the last result where that saves work.

    Sets: `last`, the last result that `certified` computed or `remember` was given. It changes the cost and the rounding of later calls,
    nothing else. The methods can be called in any order.
    """

    def __init__(self, problem: Problem, blocks: KernelBlocks | None = None) -> None:
        self.problem, self._blocks = problem, blocks
        zeros = np.zeros(problem.n)
        self.last = Scores(zeros, zeros, zeros, certified=False)
        self._distances: Distances | None = None
        self.at_hand: Callable[[np.ndarray], np.ndarray] | None = None  # what `keep_rows` was given

    @property
    def blocks(self) -> KernelBlocks:
        """Kernel values in the precision for rows beyond doubt."""
        if self._blocks is None:
            self._blocks = self.problem.kernel_blocks(np.float32)
        return self._blocks

    def remember(self, a: np.ndarray, values: np.ndarray, radius: np.ndarray, *, certified: bool) -> None:
        """Keep scores that are known from elsewhere, with bounds on their errors."""
        self.last = Scores(a.copy(), values, radius, certified)

    def rounded(self, a: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (K·a)[rows] in the precision of `blocks`, and bounds on the errors: infinite where there is none."""
        last, blocks = self.last, self.blocks
        terms, dropped = self._changed(a)
        if np.abs(terms).sum() < np.abs(a).sum() and np.count_nonzero(terms) <= MAX_CHANGED * np.count_nonzero(a):
            scores, radius = last.values[rows], last.radius[rows] + 4.0 * ROUNDOFF * np.abs(last.values[rows])
            if dropped > 0.0:
                radius += dropped * self._sizes(a)[rows]
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

    def _changed(self, a: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a − last.a without the changes that are rounding, and a bound on the sum of their sizes."""
        terms = a - self.last.a
        same = np.abs(terms) <= SAME_WEIGHT * np.abs(a)  # those of scores that were scaled differ so
        dropped = 1.000001 * float(np.abs(terms[same]).sum())
        terms[same] = 0.0
        return terms, dropped

    def certified(self, a: np.ndarray) -> Scores:
        """Return K·a: every row with a ≠ 0, or with a loss at the best intercept, in float64."""
        problem, last = self.problem, self.last
        assert problem.kernel is not None
        if last.certified and (a == last.a).all():
            return last
        if last.certified and ((change := np.abs(a - last.a)) <= SAME_WEIGHT * np.abs(a)).all():
            return last._replace(a=a, radius=last.radius + 1.000001 * float(change.sum()) * self._sizes(a))
        if problem.kernel.name == "linear" and not problem.formed:
            self.last = Scores(a.copy(), *self._by_weights(a), certified=True)
            return self._frozen()
        support = a != 0.0
        count = int(np.count_nonzero(support))
        at_hand = problem.formed and not problem.blocked  # a matrix that is held: no value needs to be computed again
        if at_hand or (problem.n - count) * count < MIN_VALUES or not self._bounded_in_float32():
            values, sizes = self._in_float64(a, None)
            self.last = Scores(a.copy(), values, self._radius(a, sizes, None), certified=True)
            return self._frozen()
        rest, some = np.flatnonzero(~support), np.flatnonzero(support)
        values, radius, exact = np.empty(problem.n), np.zeros(problem.n), support.copy()
        values[rest], radius[rest] = self.rounded(a, rest)
        self._sharpen(a, values, radius, exact, some)
        return self._frozen()

    def scale(self, a: np.ndarray, factor: float, known: Scores) -> bool:
        """Set `last` to K·a = factor·known.values, in float64 where a certificate needs it. Return whether a is factor·known.a."""
        change = np.abs(a - factor * known.a)
        if not (change <= SAME_WEIGHT * np.abs(a)).all():
            return False
        values, mass, rounding = factor * known.values, float(np.abs(factor * known.a).sum()), gamma(6)
        radius = abs(factor) * known.radius + rounding * np.abs(values)
        radius = 1.000001 * (radius + (float(change.sum()) + rounding * mass) * self._sizes(known.a))
        exact = radius <= FLOAT64_RADIUS * mass * self._sizes(known.a)
        self._sharpen(a, values, radius, exact, np.flatnonzero(~exact & (a != 0.0)))
        return True

    def _sharpen(self, a: np.ndarray, values: np.ndarray, radius: np.ndarray, exact: np.ndarray, some: np.ndarray) -> None:
        """Set `last` from scores with error bounds: those of the rows `some` are computed in float64, and of rows that have a loss.

        The arrays are written to. `exact` says which scores are in float64.
        """
        problem = self.problem
        while True:
            if len(some):
                values[some], radius[some] = self._updated(a, some)
                exact[some] = True
            scores, beyond = problem.offset.added(values), np.empty(problem.n)
            _beyond_loss(problem.loss, problem.y * (scores + best_intercept(problem, scores)), radius, beyond)
            if (beyond[~exact] >= 0.0).all():
                break
            some = np.flatnonzero(~exact & ~(beyond >= NEAR_MARGIN * problem.offset.scale))
        self.last = Scores(a.copy(), values, radius, certified=True)

    def _frozen(self) -> Scores:
        for array in (self.last.values, self.last.radius):
            array.flags.writeable = False
        return self.last

    def _bounded_in_float32(self) -> bool:
        kernel = self.problem.kernel
        return kernel is not None and kernel.name == "rbf" and not is_sparse(self.problem.X) and self.blocks.norms is not None

    # --------------------------------------------------------------------------------------------------------- linear kernel

    def _by_weights(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K·a = X·w with w = Σ aⱼxⱼ, and bounds on the errors: two passes over X instead of a value for each pair of rows."""
        data = self.problem.on_data
        mass, count = float(np.abs(a) @ data.norms), int(np.count_nonzero(a))
        w, error = data.combine(a), 1.00001 * gamma(count + 8) * mass + SMALLEST
        if error * float(data.norms.max()) > COARSE:  # large weights that nearly cancel
            w, low, ones = np.zeros(data.d), np.zeros(data.d), np.ones(data.n)
            precise_accumulate(data.rows, a, ones, ones, w, low)
            w += low
            error = gamma(2.0 * (count + 8)) ** 2 * mass + 4.0 * ROUNDOFF * length_bound(w) + SMALLEST
        scores, sizes = data.bounded_products(w)
        if sizes is None:
            own = gamma(data.longest + 4) * length_bound(w) * data.norms
        else:
            own = ROUNDOFF * (1.0 + gamma(4.0 * data.longest + 8.0)) * sizes
        return scores, 1.000001 * (own + error * data.norms) + SMALLEST

    # -------------------------------------------------------------------------------------------------------------- float64

    def _updated(self, a: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (K·a)[rows] in float64 with error bounds: from the last ones if these are in float64 and few weights changed."""
        last, mass = self.last, float(np.abs(a).sum())
        terms, dropped = self._changed(a)
        few = last.certified and np.count_nonzero(terms) <= FEW_CHANGED * np.count_nonzero(a)
        known = np.zeros(len(rows), dtype=bool)
        if few:
            known = np.asarray(last.radius[rows] <= FLOAT64_RADIUS * mass * self._sizes(a)[rows])
        values, radius = np.empty(len(rows)), np.empty(len(rows))
        for part, new in ((known, terms), (~known, a)):
            if part.any():
                values[part], sizes = self._in_float64(new, rows[part])
                radius[part] = self._radius(new, sizes, rows[part])
        if few:
            before = last.values[rows[known]]
            values[known] += before
            radius[known] += last.radius[rows[known]] + dropped * self._sizes(a)[rows[known]]
            radius[known] += 4.0 * ROUNDOFF * (np.abs(before) + np.abs(values[known]))
        return values, radius

    def _in_float64(self, a: np.ndarray, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return (K·a)[rows] (None: of all rows), and bounds of Σ |aⱼ|·|k(xᵢ, xⱼ)|, which the errors are relative to.

        Values of a Gaussian are positive, so that sums over the positive and over the negative weights give both.
        """
        if self.problem.kernel is None or self.problem.kernel.name != "rbf":
            values = self._scores(a, rows)
            return values, float(np.abs(a).sum()) * self._sizes(a)[slice(None) if rows is None else rows]
        if rows is None and self.at_hand is not None:
            support = np.flatnonzero(a)
            weights = a[support]
            positive, negative = np.maximum([weights, -weights], 0.0) @ self.at_hand(support)
        else:
            positive, negative = self._scores(np.stack([np.maximum(a, 0.0), np.maximum(-a, 0.0)], axis=1), rows).T
        return positive - negative, positive + negative

    def _scores(self, a: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Return (K·a)[rows], one column for each column of `a`."""
        problem, kernel = self.problem, self.problem.kernel
        assert kernel is not None
        if rows is not None:
            return exact_scores(problem, a, rows)
        if self.at_hand is not None:
            if kernel.function is not None or kernel.name == "precomputed":  # Kᵀ may be off from K by rounding of the user's
                return np.asarray(self.at_hand(np.arange(problem.n)) @ a)
            support = np.flatnonzero(a)
            return np.asarray(a[support] @ self.at_hand(support))
        if problem.formed:
            return _by_column(problem.combine, a)
        return _by_column(lambda column: expansion(kernel, problem.X, problem.X, column), a)

    def _sizes(self, a: np.ndarray) -> np.ndarray:
        """Return bounds of |k(xᵢ, xⱼ)| over the rows j with a ≠ 0: √k(x, x)·√k(z, z) for a positive semidefinite kernel."""
        lengths = self.problem.norms
        return lengths * float(lengths[a != 0.0].max(initial=0.0)) + 1e-300

    def _radius(self, a: np.ndarray, sizes: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Return bounds on the errors of (K·a)[rows] in float64 (None: of all rows), from bounds of Σ |aⱼ|·|k(xᵢ, xⱼ)|."""
        problem, kernel, support = self.problem, self.problem.kernel, np.flatnonzero(a)
        count, mass = len(support), float(np.abs(a).sum())
        chain = count + 8 if problem.formed or self.at_hand is not None else min(count, 2048 + count / 64) + 64
        if kernel is None or kernel.function is not None or kernel.name == "precomputed":
            return 1.000001 * gamma(chain) * sizes + 1e-300
        distances = self._distances_among_rows()
        norms, terms = distances.norms, distances.terms
        longest = float(norms[support].max(initial=0.0))
        if rows is not None:
            norms = norms[rows]
        if kernel.name != "rbf":
            return 1.000001 * (mass * value_errors_of_products(kernel, norms * longest, terms) + gamma(chain) * sizes) + 1e-300
        # kernels/distances.py: where δ is large, distances are summed from differences
        sure = 2.0 * ROUNDOFF * (problem.d + 20) * mass if distances.sure else math.inf
        radius = np.empty(len(sizes))
        _gaussian_radius(norms, longest, sizes, kernel.gamma, terms + 20, gamma(chain), mass, sure, radius)
        return radius

    def _distances_among_rows(self) -> Distances:
        """Return what bounds the errors of values."""
        problem = self.problem
        assert problem.kernel is not None
        if self._distances is None:
            self._distances = rounded_up(distances_of(problem.kernel, problem.X), problem.d)
        return self._distances


def rounded_up(distances: Distances, columns: int) -> Distances:
    """Return the same with norms that are bounds, their rounding included."""
    return Distances(distances.norms * (1.0 + gamma(columns + 16)) + 1e-150, distances.terms, distances.sure)


def value_errors_of_products(kernel: Kernel, products: np.ndarray, terms: int) -> np.ndarray:
    """Return bounds on the errors of values of a kernel other than the Gaussian, from bounds of the inner products."""
    if kernel.name == "linear":
        return np.asarray(gamma(terms + 8) * products)
    inner = kernel.gamma * products + abs(kernel.coef0)
    if kernel.name == "poly":
        return np.asarray(1.01 * ROUNDOFF * (kernel.degree * (terms + 8) + 16) * inner**kernel.degree)
    return np.asarray(gamma(terms + 8) * inner + 16.0 * ROUNDOFF)


@strict
def _gaussian_radius(norms, longest, sizes, rate, terms, rounding, mass, sure, out):
    """out = bounds on the errors of sums of Gaussian values, the least of three, from bounds of Σ |aⱼ|·k(xᵢ, xⱼ)

    a) Relative to each value: e^δ − 1 ≤ 2δ up to δ = 1; beyond, a value lies between 0 and 1 and nothing more is known.
    b) Where some support vectors are far from the origin and most rows are not: with r = ‖x − z‖ and ‖z‖ ≤ ‖x‖ + r,
       δ ≤ 1.01u·(γ(d + 20)(8‖x‖² + 2r²) + 16). A value k = e^(−γr²) has k·γr² ≤ 1/e, so that Σ |a|·2δ·k is at most
       2.02u·(8γ(d + 20)‖x‖² + 16)·Σ |a|k + 4.04u·(d + 20)/e·Σ |a|. Computed values differ from k by a factor below 1.02 where δ ≤ 0.01.
    c) SURE_RELATIVE of each value and `sure`, if that is finite.
    """
    for i in range(sizes.shape[0]):
        reach = norms[i] + longest
        delta = 1.01 * ROUNDOFF * (rate * terms * (reach * reach) + 16.0)
        radius = 1.000001 * (2.0 * delta + rounding) * sizes[i]
        if not (delta < 1.0 and radius <= 2.0 * mass):
            radius = 2.0 * mass
        near = 2.02 * ROUNDOFF * (8.0 * terms * rate * (norms[i] * norms[i]) + 16.0)
        if delta <= 0.01:
            radius = min(radius, 1.000001 * ((near + rounding) * sizes[i] + 1.6 * ROUNDOFF * terms * mass))
        out[i] = min(radius, 1.000001 * ((SURE_RELATIVE + rounding) * (sizes[i] + sure) + sure)) + UNDERFLOW_64 * mass


@kernel
def _beyond_loss(loss, margins, radius, out):
    """out[i] = by how much margin i, off by at most radius[i], satisfies the KKT condition of β = 0; negative: it may have a loss"""
    for i in range(margins.shape[0]):
        out[i] = loss.slack(0.0, margins[i]) - radius[i]


def _of_one_sign(norms: np.ndarray | None, terms: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield (sign, rows) for blocks of non-zero terms of one sign, whose rows have similar norms."""
    for sign in (1.0, -1.0):
        own = np.flatnonzero(terms * sign > 0.0)
        if norms is not None:
            own = own[np.argsort(norms[own], kind="stable")]
        for start in range(0, len(own), SUPPORTS):
            yield sign, own[start : start + SUPPORTS]


def _by_column(scores: Callable[[np.ndarray], np.ndarray], a: np.ndarray) -> np.ndarray:
    """Return scores(column) for each column of `a`: the fast sums are over one set of weights, and each value is needed for one of them."""
    return scores(a) if a.ndim == 1 else np.stack([scores(np.ascontiguousarray(column)) for column in a.T], axis=1)


def exact_scores(problem: Problem, a: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (K·a)[rows] in float64, one column for each column of `a`.

    If most support vectors are among the rows, each value between two of them is computed once.
    """
    kernel, X = problem.kernel, problem.X
    assert kernel is not None
    support = np.asarray(a != 0.0 if a.ndim == 1 else a.any(axis=1))
    weighted = support[rows]
    if is_sparse(X) or kernel.name == "precomputed" or 2 * np.count_nonzero(weighted) <= np.count_nonzero(support):
        return _by_column(lambda column: expansion(kernel, X[rows], X, column), a)
    places = np.flatnonzero(support)
    out = np.empty((len(rows), *a.shape[1:]))
    own = own_expansion(kernel, X[places], a[places], near=X)
    out[weighted] = own[np.searchsorted(places, rows[weighted])]
    if not weighted.all():
        out[~weighted] = _by_column(lambda column: expansion(kernel, X[rows[~weighted]], X, column), a)
    return out
