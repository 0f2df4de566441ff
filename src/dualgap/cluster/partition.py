"""Partition: the rows that one worker keeps, their dual variables, and the local half of a round. Knows nothing of a cluster.

CoCoA+ (Ma et al., 2015; Smith et al., 2018) with K partitions. By convexity, with σ = K,

    R*(u + Σ Δₖ) ≤ (1/K) Σ R*(u + K·Δₖ)

so that each partition may raise its own part, Σ cψ(β) − R*(u + σΔₖ)/σ, with the coordinate steps that SDCA takes: its v begins at the
common one, and its rows enter v σ times as long, q = σc‖x‖²/l2. What all gain together is at least the sum of what each believes it
gains. This holds for every penalty with l2 > 0 and for the bias column of an intercept.

A partition answers with its *share* Σ cᵢβᵢyᵢxᵢ/l2 of v rather than with the change of it: shares add up to v whatever was lost on the
way, so that v never drifts and a partition that starts again from zero needs no special case.

σ = K keeps steps short where partitions resemble each other, and rounds many. Momentum between rounds made up for most of that: on
census data with 4 partitions, 66 rounds in place of 709 for the smooth hinge, 24 in place of 92 for the logistic loss.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import (
    SMALLEST,
    Bounded,
    NoOffset,
    Offset,
    accumulate,
    gamma,
    is_sparse,
    length_bound,
    natural_order,
    nbytes,
    rows_ahead,
    settle,
    shuffle,
    signed_sum,
    total,
    total_psi,
    total_value,
)
from dualgap.core import rows as storage
from dualgap.problem import Samples, as_features, as_labels, as_vector, as_weights
from dualgap.proof import (
    Enclosed,
    RowSums,
    assemble,
    balance_row,
    bias_terms,
    penalty_excess,
    penalty_value,
    plain_margins,
    row_sums,
)
from dualgap.solvers.coordinate import BiasColumn, Coordinates, NoSums, ascend
from dualgap.solvers.newton import LossSums, Prox, Values

SAVED = "beta-{:05d}.npy"
TARGETS = "targets of a regression"  # stands where a classification has its labels

__all__ = [
    "SAVED",
    "TARGETS",
    "Answer",
    "Curve",
    "Description",
    "NotConfigured",
    "Objective",
    "Others",
    "Partition",
    "Product",
    "Proof",
    "Request",
    "Trial",
    "lower_triangle",
    "symmetric",
]


@dataclass(frozen=True)
class Objective:
    """What is minimised, with all that depends on the whole data: each partition makes its labels and weights from it."""

    loss: Any
    penalty: Any
    l2: float
    intercept: str
    scale: float  # of the bias column
    positive: Any  # the label that counts as +1
    class_weight: dict[Any, float]  # weight of each label, already divided by the total weight; of targets that of TARGETS
    partitions: int
    features: int = 0
    unit: float = 1.0  # size of a typical margin: of targets their mean distance from the median
    at_zero: float | None = None  # the objective of w = 0; None: that of two classes

    def sides(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return the signs of rows with these labels or targets, factors on their weights, and the fixed part of their scores."""
        if TARGETS in self.class_weight:
            values = -as_vector(labels, "y", len(labels))
            return np.ones(len(labels)), np.full(len(labels), self.class_weight[TARGETS]), Offset(values, self.unit)
        factor = np.zeros(len(labels))
        for label, weight in self.class_weight.items():
            factor[labels == label] = weight
        return np.where(labels == self.positive, 1.0, -1.0), factor, NoOffset()

    def box(self) -> tuple[float, float]:
        """Return the bounds of β."""
        return self.loss.lower_bound(), self.loss.upper_bound()

    def model(self, v: np.ndarray, centre: float) -> tuple[np.ndarray, float]:
        """Return w and b of a common v; its last entry is the bias column's, and `centre` is the b of a free intercept."""
        width = len(v) - (self.intercept != "none")
        w = np.ascontiguousarray(self.penalty.primal(v[:width]))
        return w, self.scale * float(v[-1]) if self.intercept == "penalised" else centre

    def regulariser(self, w: np.ndarray, b: float) -> float:
        """Return R(w), with the intercept's part where it is penalised."""
        own = 0.5 * self.l2 * (b / self.scale) ** 2 if self.intercept == "penalised" else 0.0
        return float(self.penalty.total_penalty(w)) + own

    def enclose(self, w: np.ndarray, b: float, proofs: list[Proof], share: np.ndarray) -> Enclosed:
        """Enclose P(w, b) and the gap from the parts of all partitions and the sum of their shares, added up in any order."""
        sums = RowSums(total(proof.sums.loss for proof in proofs), total(proof.sums.gap for proof in proofs))
        penalty, v = penalty_value(getattr(self.penalty, "l1", 0.0), self.l2, w), np.ascontiguousarray(share[: len(w)])
        adding = gamma(len(proofs) + 4) * sum(proof.length for proof in proofs)
        error = 1.000001 * (adding + sum(proof.error + proof.shift for proof in proofs))
        excess = penalty_excess(self.penalty, w, v, np.zeros(1), error)
        if self.intercept == "penalised":
            own, more = bias_terms(self.l2, self.scale, b, total(proof.rest for proof in proofs))
            penalty, excess = penalty + own, excess + more
        return assemble(sums, penalty, excess, sum(proof.cost for proof in proofs) * (1.0 + 1e-12))

    def conjugate(self, v: np.ndarray) -> float:
        """Return R*(l2·v), with the intercept's part where it is penalised."""
        width = len(v) - (self.intercept != "none")
        own = 0.5 * self.l2 * float(v[-1]) ** 2 if self.intercept == "penalised" else 0.0
        return float(self.penalty.total_conjugate(v[:width], self.l2)) + own


class Description(NamedTuple):
    """What the coordinator needs to know of a partition's rows. Sums go by label: weights, and weights times ‖x‖²."""

    rows: int
    features: int
    nbytes: int
    weights: dict[Any, float]
    squares: dict[Any, float]
    digest: str = ""  # of rows, labels and weights: tells whether a source that is read again gives the same
    distance: float = 0.0  # of targets: Σ of weights times their distance from their median
    at_zero: float | None = None  # of targets: Σ of weights times the loss of w = 0


class Request(NamedTuple):
    """One round: where the intercept's centre is, and how much to do; v travels beside it."""

    number: int
    centre: float
    epochs: int
    seed: int
    momentum: float = 0.0
    single: bool = False  # whether the share is sent in float32


class Answer(NamedTuple):
    """A partition's state: its share of v, Σ cψ(β), Σ cβ of each class, and Σ cφ at the v of the request (NaN: it was made anew)."""

    share: np.ndarray
    psi: float
    positive: float
    negative: float
    loss: float = math.nan
    bias: float = 0.0  # the share's last entry before momentum carried β on: by this the centre of a free intercept moves
    seconds: float = 0.0


class Trial(NamedTuple):
    """A point that Newton's method asks about: the round's number, δ, whether the last β becomes the centre first, the next δ,
    whether all rows are to have the largest curvature there is, so that a full step is never too long, and whether the diagonal of the
    matrix is asked for alone."""

    number: int
    delta: float
    recentre: bool = False
    next_delta: float = 0.0
    majorise: bool = False
    diagonal: bool = False


class Curve(NamedTuple):
    """A partition's sums at a trial point of Newton's method; see `second_order`.

    u = Σ cβyx, with the bias column's entry; the lower triangle, row by row, of the matrix Σ c·curvature·xxᵀ, or its diagonal; Σ cβ of each
    class. `push` is Σ c(β − centre)yx over the free variables: where u goes if the centre moves to β; `moved` is ΣcM with that centre and
    the δ that `Trial.next_delta` names. Both are empty where δ is 0.
    """

    values: Values
    moved: float
    u: np.ndarray
    push: np.ndarray
    matrix: np.ndarray
    positive: float
    negative: float


class Product(NamedTuple):
    """A partition's part of the product of Newton's matrix with a vector."""

    product: np.ndarray


class Others(NamedTuple):
    """For the partition that balances the others: its number, and Σ cβy of the others."""

    last: int
    rest: Bounded


class Proof(NamedTuple):
    """A partition's part of a certificate, computed from its rows, its β and the model. See `proof.enclosure`.

    The sums over its rows; its share of v, rebuilt from β, its length, and a bound on the share's error; Σ cβy, which must be zero over all
    partitions. The partition that balances the others also has what that costs: in the gap, and in v.
    """

    sums: RowSums
    share: np.ndarray
    length: float  # a bound on the length of the share, bias column aside
    error: float
    rest: Bounded
    cost: float = 0.0
    shift: float = 0.0


@dataclass
class Partition:
    """Rows, labels and weights of one worker; `step` does the local half of a round.

    Order of calls: `configure` with the objective, then `step` for every round and `prove` for a certificate, then `save`.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    objective: Objective | None = field(default=None, init=False)
    done: int = field(default=0, init=False)  # number of the last round taken part in

    def __post_init__(self) -> None:
        n = self.X.shape[0]
        if n == 0:  # as the last chunk of a filtered frame may be: it takes part, and adds nothing
            self.X, self.labels, self.weights = _no_rows(self.X), np.empty(0), np.empty(0)
        else:
            self.X = as_features(self.X)
            self.labels = as_labels(self.y, n)
            self.weights = np.ones(n) if self.sample_weight is None else as_weights(self.sample_weight, n)
        self.rows = storage.of_matrix(self.X)
        self.sqnorms = np.empty(n)
        storage.sqnorms(self.rows, self.sqnorms)
        self.ahead = rows_ahead(self.rows)

    def describe(self, loss: Any = None) -> Description:
        """Return what the coordinator needs to know of these rows; with a loss of regression, their labels are targets."""
        if getattr(loss, "regression", False):
            return self._describe_targets(loss)
        classes, codes = np.unique(self.labels, return_inverse=True)
        weights = np.bincount(codes, self.weights, len(classes))
        squares = np.bincount(codes, self.weights * self.sqnorms, len(classes))
        names = classes.tolist()
        return Description(
            len(self.labels),
            int(self.X.shape[1]),
            nbytes(self.rows),
            dict(zip(names, weights.tolist(), strict=True)),
            dict(zip(names, squares.tolist(), strict=True)),
            self.digest(),
        )

    def _describe_targets(self, loss: Any) -> Description:
        if self.labels.dtype.kind not in "iufb":
            raise ValueError(f"y holds {self.labels.tolist()[0]!r}, and a regression needs numbers as targets")
        t = self.labels.astype(np.float64)
        middle = float(np.median(t)) if len(t) else 0.0
        return Description(
            len(t),
            int(self.X.shape[1]),
            nbytes(self.rows),
            {TARGETS: float(self.weights.sum())},
            {TARGETS: float(self.weights @ self.sqnorms)},
            self.digest(),
            float(self.weights @ np.abs(t - middle)),
            float(total_value(loss, -t, self.weights)),
        )

    def digest(self) -> str:
        """Return a digest of the rows, labels and weights."""
        made = hashlib.blake2b(digest_size=16)
        values = [self.X.data, self.X.indices, self.X.indptr] if is_sparse(self.X) else [self.X]
        for array in (*values, self.weights):
            made.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        made.update(repr(self.labels.tolist() if self.labels.dtype == object else self.labels.tobytes()).encode())
        return made.hexdigest()

    # ------------------------------------------------------------------------------------------------------------- rounds

    def configure(self, objective: Objective, saved: str | None = None, number: int = 0, digest: str | None = None) -> Answer:
        """Take the objective, as partition `number` of all, with β = 0 or as a file has it. `digest`: of the rows that are expected."""
        if digest is not None and digest != self.digest():
            raise ValueError(
                f"partition {number} was read again, and its rows are not those of the first time: the source must give the same rows "
                "every time it is read; sort it, fix its seed, or write the data to a store first"
            )
        self.objective, self.number, self.done = objective, number, 0
        n = len(self.labels)
        self.signs, factor, self.offset = objective.sides(self.labels)
        self.c = self.weights * factor
        sigma, squares = float(objective.partitions), BiasColumn(objective.intercept, objective.scale).squares(self.sqnorms)
        step = self.c * self.signs / objective.l2
        self.at = Coordinates(self.signs, self.c, sigma * self.c * squares / objective.l2, sigma * step, self.offset)
        self.order = natural_order(n)
        beta = np.zeros(n) if saved is None else np.load(saved)
        if beta.shape != (n,):
            raise ValueError(f"{saved} has {beta.size} dual variables for a partition of {n} rows; it is of other data")
        return self.take_over(beta)

    def take_over(self, beta: np.ndarray) -> Answer:
        """Go on from a β, of a file or of a worker that had these rows before."""
        self.beta = np.clip(beta, *self._configured().box())
        self.reached = self.beta.copy()
        self.share = self._share_of(self.beta)
        return self.answer()

    def answer(self, **extra: Any) -> Answer:
        """Describe the present state."""
        objective = self._configured()
        psi = float(total_psi(objective.loss, self.beta, self._samples()))
        return Answer(self.share, psi, *self._both_sides(), **extra)

    def _samples(self, at: slice = slice(None)) -> Samples:
        """Return signs, weights and fixed parts of some rows."""
        return Samples(self.signs[at], self.c[at], self.offset.some(at))

    def _both_sides(self) -> tuple[float, float]:
        """Return the sum of the positive and that of the negative cβy, both as positive numbers: for classes, Σ cβ of each class."""
        v = self.c * self.beta * self.signs
        return float(v[v > 0.0].sum()), -float(v[v < 0.0].sum())

    def ready(self) -> None:
        """Raise NotConfigured where the partition was made anew."""
        self._configured()

    def step(self, request: Request, common: np.ndarray) -> Answer:
        """Run local epochs from the common v. The same request again is answered again, and nothing is done."""
        began = time.perf_counter()
        objective = self._configured()
        if request.number == self.done:
            return self.answer()
        common = common.astype(np.float64, copy=False)
        loss = self._loss(*objective.model(common, request.centre))
        v = common.copy()
        rows = self._biased(request.centre, self.rows)
        for epoch in range(request.epochs):
            shuffle(self.order, np.int64((request.seed + 7919 * epoch) & (2**62 - 1)))
            ascend(rows, objective.loss, objective.penalty, self.at, self.beta, v, self.order, self.ahead, NoSums(), 0)
        self.share = self.share + (v - common) / objective.partitions
        bias = float(self.share[-1])
        self._extrapolate(request.momentum)
        self.done = request.number
        answer = self.answer(loss=loss, bias=bias, seconds=time.perf_counter() - began)
        return answer._replace(share=answer.share.astype(np.float32)) if request.single else answer

    def _extrapolate(self, momentum: float) -> None:
        """Move β further along the way that it has come since the last round, and the share with it."""
        reached = self.beta
        if momentum > 0.0:
            further = np.clip(reached + momentum * (reached - self.reached), *self._configured().box())
            self.share = self.share + self._share_of(further - reached)
            self.beta = further
        self.reached = reached.copy() if self.beta is reached else reached

    def _loss(self, coef: np.ndarray, b: float) -> float:
        scores = np.empty(len(self.labels))
        storage.scores(self.rows, np.ascontiguousarray(coef), scores)
        return float(total_value(self._configured().loss, self.signs * (self.offset.added(scores) + b), self.c))

    # ----------------------------------------------------------------------------------------------------- Newton's method

    def curve(self, trial: Trial, z: np.ndarray) -> Curve:
        """Evaluate the sums of Newton's method at z = (w, b/scale), and make the β of that point the present one. Reads the rows once."""
        objective = self._configured()
        self._recentre(trial)
        n, size, parts, moved = len(self.labels), len(z), [], 0.0
        self.beta, self.weight = np.zeros(n), np.empty(n)
        u_and_diagonal, push = np.zeros((2, size)), np.zeros(size if trial.delta > 0.0 else 0)
        matrix = np.zeros((0, 0) if trial.diagonal else (size, size))
        for at, rows in self.blocks():
            sums = self._sums(at, rows, trial.delta)
            sums.go_to(z)
            parts.append(sums.dual())
            weight = self._steepest(at, trial.delta) if trial.majorise else sums.weigh(np.empty(rows.length()))
            self.beta[at], self.weight[at] = sums.beta, weight
            if trial.diagonal:
                sums.add_with_diagonal(weight, u_and_diagonal)
            else:
                accumulate(sums.rows, sums.work, u_and_diagonal[0])
                matrix += sums.hessian(weight, size)
            if trial.delta > 0.0:
                sums.prox = Prox(self.beta[at], trial.delta)
                accumulate(sums.rows, sums.predicted(), push)
                sums.prox = Prox(self.beta[at], trial.next_delta)
                moved += sums.dual().envelope
        u, diagonal = u_and_diagonal
        self.share = u / objective.l2
        values = Values(*(math.fsum(column) for column in zip(*parts, strict=True)))
        return Curve(values, moved, u, push, diagonal if trial.diagonal else lower_triangle(matrix), *self._both_sides())

    def _sums(self, at: slice, rows: Any, delta: float = 0.0) -> LossSums:
        """Return the row sums of a block, around the centre."""
        scratch, centre = np.zeros((3, rows.length())), Prox(self.reached[at], delta)
        return LossSums(self._configured().loss, self._biased(0.0, rows), self._samples(at), centre, *scratch)

    def _steepest(self, at: slice, delta: float) -> np.ndarray:
        """Return the weights of some rows in the matrix if all have the largest curvature there is."""
        most = self._configured().loss.curvature()
        return self.c[at] * (most / (1.0 + delta * most) if math.isfinite(most) else 1.0 / delta)

    def product(self, vector: np.ndarray) -> Product:
        """Multiply the matrix of the last `curve` with a vector. Reads the rows once."""
        total = np.zeros(len(vector))
        for at, rows in self.blocks():
            self._sums(at, rows).add_product(np.flatnonzero(self.weight[at]), self.weight[at], vector, total)
        return Product(total)

    def _recentre(self, trial: Trial) -> None:
        """Make the last β the centre, if that is asked for; a request that comes again finds it moved."""
        if trial.recentre and self.done != trial.number:
            self.reached = self.beta
        self.done = trial.number

    def row_squares(self) -> tuple[int, float]:
        """Return the number of rows, and Σ c‖x‖²."""
        self._configured()
        return len(self.labels), float(self.c @ self.sqnorms)

    def along(self, trial: Trial, points: np.ndarray, way: tuple[float, ...]) -> np.ndarray:
        """Return Σ cM at some points of the way from points[0] to points[1]. Nothing but the centre may change."""
        self._recentre(trial)
        totals = np.zeros(len(way))
        for at, rows in self.blocks():
            sums, ends = self._sums(at, rows, trial.delta), []
            for z in points:
                sums.go_to(z)
                ends.append(sums.margins.copy())
            for place, t in enumerate(way):
                sums.margins = (1.0 - t) * ends[0] + t * ends[1]
                totals[place] += sums.dual().envelope
        return totals

    # -------------------------------------------------------------------------------------------------------- certificates

    def prove(
        self, coef: np.ndarray, b: float, positive: float = 1.0, negative: float = 1.0, others: Others | None = None
    ) -> Proof:
        """Compute this partition's part of the certificate of (w, b), with β of either side scaled; nothing here is taken on trust.

        Where the intercept is free, Σ cβy over all partitions must be zero. Scaling one class leaves a rounding error; the partition
        that `others` names takes it out of its own β.
        """
        objective = self._configured()
        if others is not None and others.last != self.number:
            others = None
        beta = self.beta * np.where(self.signs * self.beta > 0.0, positive, negative)
        norms = np.sqrt(self.sqnorms) * (1.0 + 1e-9) + 1e-150
        if others is not None:
            settle(self.c, self.signs, beta, others.rest.value)
        scores, share, longest = self._scores_and_share(np.ascontiguousarray(coef), beta)
        shown, reference = self.offset.added(scores), objective.loss.reference()
        samples, margins = self._samples(), plain_margins(shown, self.signs, b, norms, longest, length_bound(coef), reference)
        sums = row_sums(objective.loss, samples, margins, beta)
        cost = shift = 0.0
        if others is not None:
            left = signed_sum(self.c, self.signs, beta, others.rest.value).wider(others.rest.radius)
            row, cost = balance_row(objective.loss, samples, margins, beta, left.value, left.radius)
            shift = 1.000001 * abs(left).upper * float(norms[row]) / objective.l2 if row >= 0 else 0.0
        weights = self.c * beta / objective.l2
        error = 1.000001 * gamma(np.count_nonzero(weights) + 8) * float(np.abs(weights) @ norms) + SMALLEST
        length = length_bound(share[: self.X.shape[1]])
        return Proof(sums, share, length, error, signed_sum(self.c, self.signs, beta), cost, shift)

    def dual(self) -> np.ndarray:
        """β, as it is now."""
        self._configured()
        return self.beta.copy()

    def save(self, folder: str) -> int:
        """Write β to a file of its own, whole or not at all; returns the number of the last round that is in it."""
        self._configured()
        path = os.path.join(folder, SAVED.format(self.number))
        with open(f"{path}.partial", "wb") as stream:
            np.save(stream, self.beta)
        os.replace(f"{path}.partial", path)
        return self.done

    # ------------------------------------------------------------------------------------------------------------- inside

    def _configured(self) -> Objective:
        if self.objective is None:
            raise NotConfigured("this partition has no objective; call configure first")
        return self.objective

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield all rows in order: their numbers, and the rows as kernels read them. In memory they are one block."""
        yield slice(0, len(self.labels)), self.rows

    def _biased(self, centre: float, rows: Any) -> Any:
        objective = self._configured()
        return BiasColumn(objective.intercept, objective.scale, centre).rows(rows)

    def _share_of(self, beta: np.ndarray) -> np.ndarray:
        objective = self._configured()
        share = np.zeros(self.X.shape[1] + (objective.intercept != "none"))
        if beta.any():
            weights = self.c * beta * self.signs / objective.l2
            for at, rows in self.blocks():
                accumulate(self._biased(0.0, rows), weights[at], share)
        return share

    def _scores_and_share(self, coef: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Return x·w of every row, the share of β, and how many numbers the longest row stores; reads the rows once."""
        objective = self._configured()
        scores, share = np.empty(len(self.labels)), np.zeros(self.X.shape[1] + (objective.intercept != "none"))
        weights, longest = self.c * beta * self.signs / objective.l2, 0
        for at, rows in self.blocks():
            storage.scores(rows, coef, scores[at])
            accumulate(self._biased(0.0, rows), weights[at], share)
            longest = max(longest, storage.longest(rows))
        return scores, share, longest


def lower_triangle(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangle of a square matrix, row by row: half the bytes of a symmetric one."""
    return np.concatenate([matrix[i, : i + 1] for i in range(len(matrix))])


def symmetric(triangle: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix that has a lower triangle."""
    matrix, first = np.empty((size, size)), 0
    for i in range(size):
        matrix[i, : i + 1] = matrix[: i + 1, i] = triangle[first : first + i + 1]
        first += i + 1
    return matrix


def _no_rows(X: Any) -> Any:
    """Return an empty matrix of the same width and storage."""
    if is_sparse(X):
        return sparse.csr_matrix((0, X.shape[1]), dtype=np.float64)
    return np.empty((0, X.shape[1]))


class NotConfigured(RuntimeError):
    """A partition has rows and no objective: it was made anew since `configure`, and its β is gone."""
