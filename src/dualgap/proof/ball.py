"""Ball: where the exact model is. What strong convexity says of a model and a dual point with a known gap.

P is l2-strongly convex in w, and R* is smooth with constant 1/l2, so that for a model (w, b) and a dual point β (Fercoq, Gramfort and
Salmon 2015; the second part by co-coercivity of the gradient w(β) of R*, for an elastic net and bounds too)

    ‖w − w*‖² + ‖w(β) − w*‖² ≤ 2·gap/l2
    ‖w* − centre‖² ≤ gap/l2 − ‖w − w(β)‖²/4              centre = (w + w(β))/2

A penalised intercept is one more coordinate of w. A free one is not: b* is bounded by moving β. For δᵢ = cᵢyᵢ(βᵢ − β'ᵢ) with β' in the
box, μ = Σ δᵢ > 0 and the weighted mean row x̄ = Σ δᵢxᵢ/μ, the inequality of Fenchel and Young at β' gives

    μ·(x̄·w* + b*) ≤ gap + Σ cᵢ[ψ(βᵢ) − ψ(β'ᵢ)]              with an offset o: ψ(β) − βyo in place of ψ(β)

and the same with both signs changed for μ < 0. So the exact score of x̄ is known up to gap/μ, and that of any row x up to
radius·‖x − x̄‖ besides. β' = −φ'(m ± T), the slopes at an intercept moved by T, has the best bound T, which Dinkelbach's iteration finds.

All numbers are upper or lower bounds: rounding is accounted for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dualgap.core import L2, ROUNDOFF, SMALLEST, exact_sum, gamma, is_sparse, kernel, length_bound
from dualgap.kernels import expansion, product_terms, squares
from dualgap.problem import Problem, as_features, as_vector
from dualgap.proof.bounded_scores import kernel_scores
from dualgap.proof.certified import balance, enclose_sharply, scores_of
from dualgap.proof.dual_points import DualPoint, dual_point
from dualgap.proof.enclosure import Enclosed, total_psi_bound

__all__ = [
    "Ball",
    "MeanRow",
    "Reference",
    "Space",
    "ball_of",
    "best_move",
    "bounds_of",
    "lens_of",
    "margin_slopes",
    "mean_row",
    "without_data",
]

ITERATIONS = 40  # of Dinkelbach's method, which takes about six; doublings of its first T count too
ENOUGH = 0.97  # factor between two bounds T above which the iteration ends
FIRST = 1e-2  # the first T, in units of the margin


@dataclass(frozen=True)
class Space:
    """What bounds of new rows need of a problem: the kind of intercept and, with a kernel, the rows of the expansions.

    `X` has these rows and `norms` their lengths √k(x, x); a linear model and kernel="precomputed" need no rows.
    """

    d: int
    intercept: str
    intercept_scale: float
    kernel: Any = None
    X: Any = field(default=None, repr=False)
    norms: Any = field(default=None, repr=False)

    def features(self, X: Any, name: str = "X") -> Any:
        """Return new samples, checked and converted as the training data were."""
        return as_features(X, name, columns=self.d)


class MeanRow(NamedTuple):
    """A weighted mean of training rows: coordinates or, with a kernel, the weights of an expansion.

    `length` bounds that of the vector, and `drift` the distance of the exact mean from it.
    """

    vector: np.ndarray
    length: float
    drift: float


@dataclass(frozen=True)
class Reference:
    """A weighted mean x̄ of training rows with a bound of its exact score: side·(x̄·w* + b*) ≤ side·level.

    `vector`, `length` and `drift` are those of a `MeanRow`; `score` is x̄·centre, off by at most `radius`.
    """

    side: float
    vector: np.ndarray
    length: float
    score: float
    radius: float
    level: float
    drift: float


@dataclass(frozen=True)
class Ball:
    """Where the exact model is: w* is at most `radius` from `centre`, and b* between the two ends of `intercept`.

    Attributes
    ----------
    centre : array of d numbers (for a kernel problem: the n coefficients of the kernel expansion)
    radius : float
        Bounds ‖w* − centre‖. With a penalised intercept, the coordinate b/intercept_scale is part of both.
    intercept : (low, high)
    gap : the gap it was made from

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, random_state=0)
    >>> problem = dualgap.Problem(X, y, l2=0.1, intercept="free")
    >>> rough, fine = (dualgap.solve(problem, tol=tol) for tol in (1e-2, 1e-10))
    >>> low, high = rough.ball.bounds(X)
    >>> scores = fine.decision(X)
    >>> bool((low <= scores).all() and (scores <= high).all())
    True
    """

    problem: Problem | Space = field(repr=False)
    centre: np.ndarray = field(repr=False)
    radius: float
    intercept: tuple[float, float]
    gap: float
    references: tuple[Reference, ...] = field(default=(), repr=False)  # of a free intercept: one for each side

    def bounds(self, X: Any, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return a lower and an upper bound of the exact model's score x·w* + b* for each row of X.

        `diagonal` has k(x, x) of each row; it is needed for kernel="precomputed" alone, where X is K(new, training).
        """
        low, high = bounds_of([self], X, diagonal)
        return low[:, 0], high[:, 0]

    def training_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the same bounds for the training rows, without another check or conversion."""
        assert isinstance(self.problem, Problem)
        return self._bounds(_TrainingRows(self.problem))

    def training_margins(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the exact model's margins y(x·w* + b* + o) on the training rows: of a regression, of its residuals."""
        assert isinstance(self.problem, Problem)
        low, high = self.training_bounds()
        y, shift = self.problem.y, self.problem.offset.added(np.zeros(len(low)))
        rounding = 2.0 * ROUNDOFF * np.abs(shift)  # of the sums below, beside that of the bounds, which is accounted for there
        low = low + shift - rounding - 2.0 * ROUNDOFF * np.abs(low) * (shift != 0.0)
        high = high + shift + rounding + 2.0 * ROUNDOFF * np.abs(high) * (shift != 0.0)
        return np.where(y > 0.0, low, -high), np.where(y > 0.0, high, -low)

    def vectors(self) -> list[np.ndarray]:
        """Return the vectors whose products with a row its bounds are made of."""
        return [self.centre, *(at.vector for at in self.references if math.isfinite(at.level))]

    def _bounds(self, rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
        problem, lengths = self.problem, rows.lengths
        if not math.isfinite(self.radius):
            return np.full(len(lengths), -np.inf), np.full(len(lengths), np.inf)
        scores, off = rows.scores(self.centre)
        if problem.intercept != "free":
            b = 0.5 * (self.intercept[0] + self.intercept[1])
            scale = problem.intercept_scale if problem.intercept == "penalised" else 0.0
            wide = self.radius * np.hypot(lengths, scale) * (1.0 + 1e-12) + off
            wide += 32.0 * ROUNDOFF * (np.abs(scores) + abs(b) + self.intercept[1] - self.intercept[0])
            return scores + b - wide, scores + b + wide
        ends = [self._one_side(rows, scores, off, each) for each in self.references]
        return ends[0], ends[1]

    def _one_side(self, rows: _Rows, scores: np.ndarray, off: np.ndarray, at: Reference) -> np.ndarray:
        """Return the bound (x − x̄)·w* + level of each row's exact score: a lower one for side −1, an upper one for +1."""
        if not math.isfinite(at.level):
            return np.full(len(scores), at.side * np.inf)
        wide = self.radius * _distances(rows, at) + off + at.radius + at.drift * (rows.centre_length(self.centre) + self.radius)
        wide += 16.0 * ROUNDOFF * (np.abs(scores) + abs(at.score) + abs(at.level))
        return (scores - at.score) + at.level + at.side * (1.0 + 1e-12) * wide


def bounds_of(balls: Sequence[Ball], X: Any, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of several balls over the same rows, such as one for each class against the rest: a column for each ball.

    The balls share their `problem`, or have problems over the same rows and kernel.
    """
    first = balls[0].problem
    rows = _NewRows(first, first.features(X), diagonal)
    rows.prepare([w for ball in balls for w in ball.vectors()])
    found = [ball._bounds(rows) for ball in balls]
    return np.stack([low for low, _ in found], axis=1), np.stack([high for _, high in found], axis=1)


def without_data(balls: Sequence[Ball], X: Any = None, places: Sequence[np.ndarray] | None = None) -> list[Ball]:
    """Return the same balls in one `Space`, which is all that a saved model needs for bounds of new rows.

    A linear model keeps the centre and, with a free intercept, two mean rows: up to three vectors of d numbers. A kernel machine keeps
    the rows in its expansions, once for all balls, and up to three weights for each of them. Where the problems of a kernel machine are
    over parts of the training rows X, `places` has the numbers of these rows for each ball.
    """
    first = balls[0].problem
    space = Space(first.d, first.intercept, first.intercept_scale)
    if first.kernel is None:
        return [replace(ball, problem=space) for ball in balls]
    if X is None or places is None:
        X, places = first.X, [np.arange(len(ball.centre)) for ball in balls]
    norms, used = np.zeros(X.shape[0]), np.zeros(X.shape[0], dtype=bool)
    for ball, rows in zip(balls, places, strict=True):
        norms[rows] = ball.problem.norms
        used[rows] |= np.any([w != 0.0 for w in ball.vectors()], axis=0)
    if first.kernel.name == "precomputed":  # the columns of new rows are all training rows
        used[:] = True
        space = replace(space, d=X.shape[0], kernel=first.kernel, norms=norms)
    else:
        used[0] |= not used.any()  # a model that is zero has a row, too
        space = replace(space, kernel=first.kernel, X=X[np.flatnonzero(used)], norms=norms[used])

    def spread(w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        whole = np.zeros(len(used))
        whole[rows] = w
        return whole[used]

    made = []
    for ball, rows in zip(balls, places, strict=True):
        references = tuple(replace(at, vector=spread(at.vector, rows)) for at in ball.references)
        made.append(replace(ball, problem=space, centre=spread(ball.centre, rows), references=references))
    return made


def _distances(rows: _Rows, at: Reference) -> np.ndarray:
    """Return upper bounds of ‖x − x̄‖."""
    products, off = rows.scores(at.vector)
    squared = rows.lengths**2 - 2.0 * products + at.length**2
    # Squares of upper bounds are too large, which is allowed; the product may be off, and x̄ by its drift.
    squared += 2.0 * off + 16.0 * ROUNDOFF * (rows.lengths + at.length) ** 2
    return np.sqrt(np.maximum(squared, 0.0)) * (1.0 + 1e-12) + at.drift


class Lens(NamedTuple):
    """The gap; the squared radius of the ball around (w + w(β))/2, without what rounding adds to the radius; the radius; how far rounding
    moves w(β); the size of the numbers that make the centre."""

    gap: float
    squared: float
    radius: float
    drift: float
    size: float


def lens_of(problem: Problem, coef: np.ndarray, point: DualPoint, found: Enclosed) -> Lens:
    """Return the radius that an enclosed model and dual point prove; infinite where they prove nothing."""
    assert point.coef is not None
    gap = min(found.gap_bound, max(found.upper - found.dual, 0.0) * (1.0 + 1e-12) + 1e-300)
    drift = found.drift
    apart = math.sqrt(2.0 * found.excess / problem.l2) * (1.0 - 1e-12)
    if problem.kernel is None:
        size = length_bound(coef) + length_bound(point.coef)
        if not isinstance(problem.penalty, L2):
            # The threshold l1/l2 is rounded, and R(w) + R*(u) − u·w is more than the squared distance.
            drift += 8.0 * ROUNDOFF * (problem.penalty.threshold() * math.sqrt(problem.d) + size)
            apart = float(np.linalg.norm(coef - point.coef)) * (1.0 - gamma(problem.d + 8)) - 4.0 * ROUNDOFF * size
    else:
        size = float(np.abs(coef + point.coef) @ problem.norms) + float(np.abs(coef) @ problem.norms)
    apart = max(apart - drift, 0.0)
    squared = max((gap / problem.l2) * (1.0 + 1e-12) - 0.25 * apart * apart, 0.0)
    radius = math.sqrt(squared) * (1.0 + 1e-12) + 0.5 * drift + 4.0 * ROUNDOFF * size
    return Lens(gap, squared, radius, drift, size)


def ball_of(problem: Problem, coef: np.ndarray, intercept: float, beta: np.ndarray) -> Ball:
    """Return the ball that a model and a dual point prove. Its radius is infinite where the two prove nothing."""
    if problem.l2 == 0.0:
        raise ValueError("l2=0: without an l2 penalty the gap does not bound the distance from the exact model; give l2 > 0")
    given, problem = problem, problem.remembering()
    point = dual_point(problem, beta)
    assert point.coef is not None
    found, _ = enclose_sharply(problem, coef, intercept, point, tol=SMALLEST)  # sharp sums wherever rounding would show
    gap, _, radius, _, _ = lens_of(problem, coef, point, found)
    centre = 0.5 * (coef + point.coef)
    if not math.isfinite(radius):
        return Ball(given, centre, math.inf, (-math.inf, math.inf), gap, _nowhere(problem))
    if problem.intercept != "free":
        return Ball(given, centre, radius, _penalised(problem, intercept, point, radius), gap)
    references = tuple(_reference(problem, (coef, intercept), centre, point.beta, side, gap, found.row) for side in (-1.0, 1.0))
    ends = [at.level - at.score + at.side * (radius * (at.length + at.drift) + _slack(problem, at, centre)) for at in references]
    return Ball(given, centre, radius, (ends[0], ends[1]), gap, references)


def _penalised(problem: Problem, intercept: float, point: DualPoint, radius: float) -> tuple[float, float]:
    """Return the interval of b* if the intercept is penalised: that coordinate of the ball. Zero if there is none."""
    if problem.intercept == "none":
        return 0.0, 0.0
    scale = problem.intercept_scale
    other = scale * scale * balance(problem, point).value / problem.l2  # its error is part of the radius
    middle = 0.5 * (intercept + other)
    wide = scale * radius * (1.0 + 1e-12) + 16.0 * ROUNDOFF * (abs(intercept) + abs(other))
    return middle - wide, middle + wide


def _nowhere(problem: Problem) -> tuple[Reference, ...]:
    if problem.intercept != "free":
        return ()
    none = np.zeros(problem.size)
    return tuple(Reference(side, none, 0.0, 0.0, 0.0, side * math.inf, 0.0) for side in (-1.0, 1.0))


def _slack(problem: Problem, at: Reference, centre: np.ndarray) -> float:
    """Return what rounding may add to level − x̄·centre."""
    rows = _TrainingRows(problem)
    return at.radius + at.drift * rows.centre_length(centre) + 8.0 * ROUNDOFF * (abs(at.level) + abs(at.score))


def _reference(
    problem: Problem, model: tuple[np.ndarray, float], centre: np.ndarray, beta: np.ndarray, side: float, gap: float, fixed: int
) -> Reference:
    """Find the mean row x̄ with the best bound of its exact score on one side; the β of row `fixed` stays as it is."""
    training = _TrainingRows(problem)
    scores, _ = training.scores(model[0])
    margins = problem.y * (problem.offset.added(scores) + model[1])
    moved = best_move(problem, margins, beta, side, gap, fixed)
    rows = np.flatnonzero(moved != beta)
    c = problem.c[rows]
    delta = c * np.abs(moved[rows] - beta[rows])  # of one sign: y(β − β') has the sign of `side`
    mu = exact_sum(delta.tolist())
    if not mu > 1e-290:
        return _nowhere(problem)[0 if side < 0 else 1]
    before, after = (total_psi_bound(problem.loss, problem.some_samples(rows), at[rows]) for at in (beta, moved))
    top = (before - after + gap).upper
    level = side * (top / mu + 16.0 * ROUNDOFF * abs(top / mu))
    mean = mean_row(problem, rows, delta / mu)
    if problem.kernel is None:
        score, radius = _dot(mean.vector, centre)
    else:
        other, error = training.scores(centre)
        score = float(mean.vector @ other)
        radius = float(mean.vector @ error) + gamma(problem.n + 16) * float(mean.vector @ np.abs(other))
    return Reference(side, mean.vector, mean.length, score, radius, level, mean.drift)


def mean_row(problem: Problem, rows: np.ndarray, shares: np.ndarray) -> MeanRow:
    """Return the mean of some rows with weights that add up to 1."""
    weights = np.zeros(problem.n)
    weights[rows] = shares
    mass = float((weights * problem.norms).sum())  # not a product of vectors, which would wake the threads of the BLAS
    if problem.kernel is None:
        mean = problem.combine(weights)
        return MeanRow(mean, length_bound(mean), gamma(len(rows) + 32) * mass)
    found = kernel_scores(problem, weights)
    squared = float(weights @ found.values) + float(weights @ found.radius)
    squared += gamma(problem.n + 16) * float(weights @ np.abs(found.values))
    return MeanRow(weights, math.sqrt(max(squared, 0.0)) * (1.0 + 1e-12), 32.0 * ROUNDOFF * mass)


def _dot(x: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    return float(x @ w), gamma(len(x) + 8) * length_bound(x) * length_bound(w)


def best_move(problem: Problem, margins: np.ndarray, beta: np.ndarray, side: float, gap: float, fixed: int) -> np.ndarray:
    """Return the β' with about the least (gap + cost of the move)/mass of the move (Dinkelbach 1967)."""
    best, found, bound = math.inf, beta.copy(), FIRST * float(problem.offset.scale)
    for _ in range(ITERATIONS):
        moved = np.empty(problem.n)
        mass, cost = margin_slopes(problem.loss, problem.samples, margins, beta, side, bound, fixed, moved)
        if mass <= 0.0:
            bound *= 8.0
            continue
        bound = max(gap + cost, 0.0) / mass
        if bound >= ENOUGH * best:
            return moved if bound < best else found
        best, found = bound, moved
    return found


@kernel
def margin_slopes(loss, samples, margins, beta, side, T, fixed, moved):
    """Move β towards the slopes at an intercept that is larger by side·T, where that lowers side·Σ cβy; return mass and cost of it."""
    mass, cost = 0.0, 0.0
    for i in range(beta.shape[0]):
        along, old = side * samples.y[i], beta[i]
        target = loss.slope(margins[i] + along * T)
        new = min(old, target) if along > 0.0 else max(old, target)
        if i == fixed or samples.c[i] == 0.0:
            new = old
        moved[i] = new
        if new != old:
            short = loss.reference() - margins[i]
            mass += samples.c[i] * abs(new - old)
            cost += samples.c[i] * (loss.gap_terms(short, new)[1] - loss.gap_terms(short, old)[1])
    return mass, cost


class _Rows:
    """Rows whose scores are wanted: upper bounds of their lengths, and x·w with bounds on the errors."""

    problem: Problem | Space
    lengths: np.ndarray

    def scores(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x·w of every row, w as `Ball.centre` has it, and bounds on the errors."""
        raise NotImplementedError

    def centre_length(self, w: np.ndarray) -> float:
        """Return an upper bound of ‖w‖."""
        return length_bound(w) if self.problem.kernel is None else float(np.abs(w) @ self.problem.norms) * (1.0 + 1e-9)


class _TrainingRows(_Rows):
    problem: Problem

    def __init__(self, problem: Problem) -> None:
        self.problem, self.lengths = problem.remembering(), problem.norms

    def scores(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        problem = self.problem
        if problem.kernel is not None:
            found = kernel_scores(problem, w)
            return found.values, found.radius
        # scores_of has the fixed part of each score, too
        products = problem.products(w) if problem.is_regression else scores_of(problem, w)
        return products, gamma(problem.longest + 8) * length_bound(w) * self.lengths


class _NewRows(_Rows):
    def __init__(self, problem: Problem | Space, X: Any, diagonal: ArrayLike | None = None) -> None:
        self.problem, self.X = problem, X
        self.known: dict[int, np.ndarray] = {}  # kernel sums by the id of their weights
        if problem.kernel is None:
            squared = squares(X)
        elif problem.kernel.name == "precomputed":
            if diagonal is None:
                raise ValueError(
                    "kernel='precomputed': give diagonal, the values k(x, x) of the new rows; a matrix of kernel values with the "
                    "training rows does not have them"
                )
            squared = as_vector(diagonal, "diagonal", X.shape[0])
        else:
            squared = problem.kernel.diagonal(X)
        self.lengths = np.sqrt(np.maximum(squared, 0.0)) * (1.0 + gamma(problem.d + 16)) * (1.0 + 1e-9) + 1e-150
        if problem.kernel is None:
            empty = np.diff(X.indptr) == 0 if is_sparse(X) else ~X.any(axis=1)
            self.lengths[empty] = 0.0  # the score of a zero row is the intercept, without any rounding

    def scores(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        problem = self.problem
        if problem.kernel is None:
            values = np.asarray(self.X @ w).reshape(-1)
            return values, gamma(problem.d + 8) * length_bound(w) * self.lengths
        values = self.known[id(w)] if id(w) in self.known else expansion(problem.kernel, self.X, problem.X, w)
        return values, self._kernel_errors(w)

    def prepare(self, vectors: list[np.ndarray]) -> None:
        """Compute the sums with several weights at once, so that each kernel value is computed once."""
        problem = self.problem
        if problem.kernel is not None:
            sums = expansion(problem.kernel, self.X, problem.X, np.stack(vectors, axis=1))
            self.known = {id(w): np.ascontiguousarray(sums[:, k]) for k, w in enumerate(vectors)}

    def _kernel_errors(self, w: np.ndarray) -> np.ndarray:
        """Bound the errors of kernel sums over new rows, as `bounded_scores` does for the training rows."""
        problem, kernel = self.problem, self.problem.kernel
        assert kernel is not None
        support = w != 0.0
        mass, count = float(np.abs(w).sum()), int(np.count_nonzero(support))
        size = float(problem.norms[support].max(initial=0.0))
        lengths, rounding = self.lengths, gamma(count + 64)
        terms = 0 if kernel.name == "precomputed" else max(product_terms(problem.X), product_terms(self.X))
        if kernel.function is not None or kernel.name == "precomputed":  # whose values count as exact
            value = np.zeros(len(lengths))
        elif kernel.name == "rbf":
            # Rows may be moved by an origin, which is a mean of training rows, so that no length grows by more than the longest of them.
            longest = float(np.sqrt(squares(problem.X).max(initial=0.0)))
            own = np.sqrt(squares(self.X)) + 3.0 * longest
            delta = 1.01 * ROUNDOFF * (kernel.gamma * (terms + 20) * 1.000001 * own * own + 16.0)
            value = np.where(delta < 0.5, 2.0 * delta, 1.0)
        elif kernel.name == "linear":
            value = gamma(terms + 8) * lengths * size
        elif kernel.name == "poly":
            value = 1.01 * ROUNDOFF * (kernel.degree * (terms + 8) + 16) * self._inner(kernel) ** kernel.degree
        else:
            value = gamma(terms + 8) * self._inner(kernel) + 16.0 * ROUNDOFF
        return 1.000001 * mass * (value + rounding * lengths * size) + 1e-300

    def _inner(self, kernel: Any) -> np.ndarray:
        """Bound |γ x·z + coef0| of new rows x and training rows z."""
        longest = float(np.sqrt(squares(self.problem.X).max(initial=0.0)))
        return kernel.gamma * np.sqrt(squares(self.X)) * longest * 1.000001 + abs(kernel.coef0)
