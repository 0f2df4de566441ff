"""Problem: the one objective that everything here minimises.

    P(w, b) = Σ cᵢ φ(yᵢ(xᵢ·w + b + oᵢ)) + l1·‖w‖₁ + (l2/2)·‖w‖²            cᵢ = sᵢ / Σ s

with labels yᵢ = ±1 and sample weights sᵢ. The offset o is 0 for classification. A regression on targets t has y = 1 and o = −t, so that
a margin is the residual xᵢ·w + b − tᵢ; solvers and proofs know margins alone. Bounds on the coefficients, low ≤ w ≤ high, are part of the
penalty: it is infinite beyond them. The intercept b is absent ("none"), "free" of any penalty, or "penalised" by
(l2/2)·(b/intercept_scale)², which is how LIBLINEAR treats it. Class weights, C, alpha all end up in c and in the penalty here; no
kernel has a branch for them. For a kernel machine w lives in the kernel's space and is given by its expansion a, w = Σ aⱼ φ(xⱼ).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dualgap.core import (
    LOSSES,
    NoOffset,
    Offset,
    add_in_threads,
    bounded_scores_in_threads,
    make_loss,
    make_penalty,
    number,
    one_of,
    scores_in_threads,
    sqnorms_in_threads,
    total_value,
)
from dualgap.core import rows as storage
from dualgap.kernels import BlockedGram, Expansion, Kernel, KernelBlocks, add_rows, as_bytes, expansion, make_kernel
from dualgap.problem.inputs import (
    all_finite,
    as_bounds,
    as_features,
    as_labels,
    as_matrix,
    as_vector,
    as_weights,
    check_finite,
    encode_labels,
)

__all__ = ["INTERCEPTS", "Problem", "Samples", "normalised", "target_offset"]

INTERCEPTS = ("none", "penalised", "free")

SHORT_ROW = (
    64  # numbers in the longest sparse row up to which Σ|xⱼwⱼ| takes longer to sum than a bound by ‖x‖‖w‖ loses digits (a9a)
)
NORM_SLACK = 2e-9  # more than the relative rounding error of ‖x‖² for rows of up to 10⁷ numbers


NONE = NoOffset()
DERIVED = {"n", "penalty", "shared", "memory"}  # attributes that follow from others
SETS_ROWS, SETS_PENALTY, SETS_WEIGHTS = {"X", "kernel", "rows"}, {"l2", "l1", "bounds"}, {"y", "sample_weight"}  # from these


class Samples(NamedTuple):
    """What every solver knows of a sample besides its row: label ±1, weight c and the fixed part of its score."""

    y: np.ndarray
    c: np.ndarray
    offset: Any = NONE  # a number for each row, or none


@dataclass
class Shared:
    """What is computed at most once for given rows and kernel. A problem and its copies over the same rows refer to one holder.

    Every entry is None until it is first asked for. No entry changes the value of an attribute or the result of a method.
    """

    rows: Any = None  # the samples as compiled kernels read them; a kernel matrix in blocks is set by the constructor
    sqnorms: np.ndarray | None = None  # ‖xᵢ‖² of every row
    norms: np.ndarray | None = None  # upper bounds of ‖xᵢ‖
    longest: int | None = None  # how many numbers the longest row stores
    expansion: Expansion | None = None  # computes K·a without K, and remembers the last a and K·a
    blocks: dict[Any, KernelBlocks] = field(default_factory=dict)  # kernel values with all rows, by their precision
    semidefinite: bool | None = None  # whether the kernel matrix is; set by dualgap.proof.require_semidefinite
    of_data: Shared | None = None  # the same for the rows of X without their kernel


@dataclass
class Memory:
    """The last scores that were computed over a problem: those that a certificate needs are often those of a solver's last pass.

    A copy of a problem that `remembering` returns has one. It goes with the copy, and changes the cost of calls, nothing else.
    """

    problem: Problem  # the one without a memory
    scores: tuple[bytes, np.ndarray, np.ndarray | None] | None = (
        None  # the bytes of w, xᵢ·w + oᵢ of every row, what bounds their rounding
    )
    kernel_scores: Any = None  # a dualgap.proof.BoundedScores


class Problem:
    """A regularised problem over samples X with two labels or targets y. Immutable: `variant` and `replace` return copies.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        One row a sample. float32 and float64 arrays in C order and CSR matrices are used as they are, without a copy.
    y : array-like of n labels
        Any two values, numbers or strings. The larger one is the positive class. For a loss of regression, n numbers: the targets.
    loss : name or a loss object
        Of classification: "hinge", "smooth_hinge", "squared_hinge", "logistic". Of regression: "epsilon_insensitive",
        "squared_epsilon_insensitive", "huber", "absolute", "quantile", "squared_error".
    delta : float, optional
        Width of the smoothed part of loss="smooth_hinge" (1 by default); residual at which loss="huber" becomes linear (1.35).
    l2, l1 : float
        Strength of (l2/2)·‖w‖² and of l1·‖w‖₁; not both zero.
    sample_weight : array-like of n numbers, optional
    intercept : {"none", "penalised", "free"}
    intercept_scale : float
        With intercept="penalised", the value of the constant column whose coefficient is penalised.
    classes : the negative and the positive label, optional
        For data that may lack one of them, such as a batch of a stream.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, optional
        None trains on X itself. With a kernel the problem is over its feature space; "precomputed" takes X as the kernel matrix.
    gamma, degree, coef0
        The kernel's parameters, as in scikit-learn.
    kernel_memory : number of bytes or words such as "500 MB", optional
        Memory for the kernel matrix. Where its n² numbers take more, blocks of rows are computed as they are needed and kept while
        they fit. None holds the whole matrix.
    epsilon : float, optional
        Residual up to which the two ε-insensitive losses are 0 (0.1 by default).
    quantile : float, optional
        The quantile that loss="quantile" estimates (0.5 by default).
    bounds : (low, high), optional
        The least and the largest value of the coefficients w: two numbers, or two vectors with one number a feature; infinite (or None)
        where there is no such bound. low = high fixes a coefficient. The intercept has no bounds. Bounds need l2 > 0.

    Examples
    --------
    >>> import dualgap
    >>> problem = dualgap.Problem([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"], l2=0.1)
    >>> problem
    Problem(2 × 2 dense, hinge, l2=0.1, intercept='none')
    """

    streaming: ClassVar[bool] = False  # whether the rows are read block by block and are never all in memory

    # Set by the constructor and by `replace`, and never changed. A subclass sets attributes of its own through vars(self).
    X: Any
    n: int
    d: int
    classes: np.ndarray  # the negative and the positive label
    y: np.ndarray  # ±1
    sample_weight: np.ndarray | None
    c: np.ndarray  # sample weights divided by their sum
    offset: Any  # Offset: the fixed part of each score; NoOffset for classification
    loss: Any
    penalty: Any
    l2: float
    l1: float
    bounds: tuple[np.ndarray, np.ndarray] | None = None  # None: no coefficient has a bound
    intercept: str
    intercept_scale: float
    kernel: Kernel | None
    shared: Shared
    memory: Memory | None

    def __init__(
        self,
        X: object,
        y: object,
        loss: Any = "hinge",
        delta: float | None = None,
        l2: float = 1e-4,
        l1: float = 0.0,
        sample_weight: ArrayLike | None = None,
        intercept: str = "none",
        *,
        intercept_scale: float = 1.0,
        classes: ArrayLike | None = None,
        kernel: Any = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_memory: float | str | None = None,
        epsilon: float | None = None,
        quantile: float | None = None,
        bounds: Any = None,
    ) -> None:
        loss = make_loss(loss, delta, epsilon, quantile)
        matrix = as_matrix(X)
        sqnorms = None
        if kernel is None:
            # Where all ‖xᵢ‖² are finite, all values are, and every solver and certificate reads ‖xᵢ‖: one pass serves both.
            rows = storage.of_matrix(matrix)
            sqnorms_in_threads(rows, sqnorms := np.empty(matrix.shape[0]))
        if sqnorms is None or not all_finite(sqnorms):
            check_finite(matrix, "X", X)
            sqnorms = None  # values whose squares overflow are refused when ‖xᵢ‖ is needed
        n = matrix.shape[0]
        offset: Offset | NoOffset = NONE
        if getattr(loss, "regression", False):
            labels, offset = (np.empty(0), np.ones(n)), target_offset(y, n, sample_weight)
        elif classes is None:
            labels = encode_labels(as_labels(y, n))
        else:
            y, classes = as_labels(y, n), as_labels(classes, 2, "classes")
            if classes[0] == classes[1]:
                raise ValueError(f"classes={classes.tolist()} must be two different labels")
            labels = classes, _signs(y, classes, "y")
        self._set(matrix, labels, sample_weight, offset, loss, l2, l1, bounds, intercept, intercept_scale)
        if kernel is None:
            self.shared.rows, self.shared.sqnorms = rows, sqnorms
        else:
            self._set_kernel(kernel, gamma, degree, coef0, None if kernel_memory is None else as_bytes(kernel_memory))

    # ------------------------------------------------------------------------------------------------------- construction

    def _set(
        self,
        X: Any,
        labels: tuple[np.ndarray, np.ndarray],
        sample_weight: ArrayLike | None,
        offset: Offset | NoOffset,
        loss: Any,
        l2: float,
        l1: float,
        bounds: Any,
        intercept: str,
        intercept_scale: float,
    ) -> None:
        """Set all attributes, the loss and the labels, (classes, y), checked before; those of a kernel are set by `_set_kernel`."""
        (classes, y), weights = labels, None if sample_weight is None else as_weights(sample_weight, len(labels[1]))
        bounds = None if bounds is None else as_bounds(bounds, X.shape[1])
        vars(self).update(
            X=X,
            n=len(y),
            d=X.shape[1],
            classes=classes,
            y=y,
            sample_weight=weights,
            c=_normalised(weights, y, classes),
            offset=offset,
            loss=loss,
            penalty=make_penalty(l2, l1, bounds),
            l2=float(l2),
            l1=float(l1),
            bounds=bounds,
            intercept=check_intercept(intercept, l2),
            intercept_scale=number("intercept_scale", intercept_scale),
            kernel=None,
            shared=Shared(),
            memory=None,
        )

    def _set_kernel(self, kernel: Any, gamma: float | str, degree: int, coef0: float, memory: int | None) -> None:
        self._check_kernel(kernel)
        made = make_kernel(kernel, self.X, gamma, degree, coef0)
        if made.function is not None:
            # A function that does not return a kernel matrix is refused now, not in training.
            made(self.X[:2], self.X[:2])
        vars(self)["kernel"] = made
        if memory is not None and made.name != "precomputed" and 8 * self.n**2 > memory:
            self.shared.rows = BlockedGram(made, self.X, made.diagonal(self.X), memory)

    def _check_kernel(self, kernel: Any) -> None:
        if self.l1 > 0:
            raise ValueError(f"l1={self.l1:g} with a kernel: the l1 penalty needs coordinates of w; use l1=0, or kernel=None")
        _check_bounds(self.bounds, kernel)
        if isinstance(kernel, str) and kernel == "precomputed":
            if sparse.issparse(self.X) or self.n != self.d:
                raise ValueError(f"kernel='precomputed' takes X as a square array of kernel values; X has shape {self.X.shape}")
            if not np.allclose(self.X, self.X.T, rtol=1e-6, atol=1e-8 * np.abs(self.X).max()):
                raise ValueError("kernel='precomputed': the kernel matrix X is not symmetric")

    # --------------------------------------------------------------------------------------------------- copies and pickles

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; problem.replace({name}=…) returns a copy with another {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name} cannot be deleted")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other attributes, given by name and taken as they are; `variant` checks labels and weights of a user.

        What follows from an attribute follows from the new one: n from y, c from y and sample_weight (unless c is given), penalty from l2,
        l1 and bounds. With another X, kernel or rows nothing that was computed for the old ones is kept.

        Examples
        --------
        >>> import dualgap
        >>> problem = dualgap.Problem([[0.0], [1.0]], [0, 1], l2=0.1)
        >>> problem.replace(loss=dualgap.Logistic(), intercept="free")
        Problem(2 × 1 dense, logistic, l2=0.1, intercept='free')
        """
        fields = {**vars(self), **changes}
        if len(fields) > len(vars(self)) + ("rows" in changes):
            unknown = min(changes.keys() - vars(self).keys() - {"rows"})
            raise TypeError(f"a {type(self).__name__} has no {unknown!r} to replace; it has {[*vars(self), 'rows']}")
        if not DERIVED.isdisjoint(changes):
            derived = sorted(changes.keys() & DERIVED)
            raise TypeError(f"{derived[0]} follows from other attributes and cannot be replaced; replace y, l2, l1 or bounds, or X")
        if "loss" in changes:
            fields["loss"] = make_loss(fields["loss"])
        if not SETS_ROWS.isdisjoint(changes):
            fields["shared"] = Shared(fields.pop("rows", None))
        if not SETS_PENALTY.isdisjoint(changes):
            if fields["bounds"] is not None:
                fields["bounds"] = as_bounds(fields["bounds"], fields["d"])
                _check_bounds(fields["bounds"], fields["kernel"])
            fields["penalty"] = make_penalty(fields["l2"], fields["l1"], fields["bounds"])
        if not SETS_WEIGHTS.isdisjoint(changes):
            fields["n"] = len(fields["y"])
            if "c" not in changes:
                fields["c"] = _normalised(fields["sample_weight"], fields["y"], fields["classes"])
        if ("X" in changes or "kernel" in changes) and "rows" not in changes:
            if self.blocked and fields["kernel"] is not None:
                raise ValueError(
                    "X or kernel cannot be replaced beside kernel_memory, which is for the old ones; make a new Problem"
                )
            if fields["X"].shape != (fields["n"], fields["d"]):
                raise ValueError(f"X has shape {fields['X'].shape}, but y has {fields['n']} labels and d is {fields['d']}")
        if "intercept" in changes or "l2" in changes:
            check_intercept(fields["intercept"], fields["l2"])
        made = self._of(fields | {"memory": None})
        return made if self.memory is None else made.remembering()

    def remembering(self) -> Self:
        """Return a copy that keeps the last scores computed over it, as a run needs it; itself if it does so already."""
        return self if self.memory is not None else self._of({**vars(self), "memory": Memory(self)})

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        made = object.__new__(cls)
        vars(made).update(fields)
        return made

    def variant(
        self, y: object = None, sample_weight: ArrayLike | None = None, *, l2: float | None = None, l1: float | None = None
    ) -> Self:
        """Return the problem of the same rows, loss and kind of intercept with other labels, weights or penalties; X is not checked again.

        Problems of one class against the rest, and the points of a path, are made so. What is None stays as it is.

        Examples
        --------
        >>> import dualgap
        >>> problem = dualgap.Problem([[0.0], [1.0], [2.0]], [0, 1, 1], l2=0.1)
        >>> problem.variant([0, 0, 1], l2=0.5)
        Problem(3 × 1 dense, hinge, l2=0.5, intercept='none')
        """
        changes: dict[str, Any] = {name: float(value) for name, value in (("l2", l2), ("l1", l1)) if value is not None}
        if y is not None and self.is_regression:
            changes["offset"] = target_offset(y, self.n, self.sample_weight if sample_weight is None else sample_weight)
        elif y is not None:
            changes["classes"], changes["y"] = encode_labels(as_labels(y, self.n))
        if sample_weight is not None:
            changes["sample_weight"] = as_weights(sample_weight, self.n)
        return self.replace(**changes)

    def head(self, count: int) -> Problem:
        """Return a problem of the same kind (types, loss, penalty, intercept) over the first rows, labels of two classes by turns.

        The driver runs a solver on it to have the solver's kernels compiled before the clock starts.
        """
        n = min(count, self.n)
        X, rows = self.X, None
        if self.formed:
            rows = self.rows.head(n) if self.blocked else storage.part(self.rows, 0, n)
        if self.kernel is not None and self.kernel.name == "precomputed":
            X = np.ascontiguousarray(X[:n, :n])
        elif self.kernel is not None or not sparse.issparse(X):
            X = X[:n]
        return self.replace(X=X, rows=rows, **self._first_labels(n), sample_weight=None)

    def _first_labels(self, n: int) -> dict[str, Any]:
        """Return labels +1 and −1 by turns for n rows; of a regression, the offset of its first n rows."""
        return {"y": np.ones(n) if self.is_regression else by_turns(n), "offset": self.offset.some(slice(0, n))}

    def subset(self, indices: np.ndarray, weights: np.ndarray) -> Problem:
        """Return a problem of the same kind over some of the rows, which are not copied, with sample weights of its own. Its X is None."""
        return self.replace(
            X=None,
            rows=storage.some(self.rows, indices),
            y=self.y[indices],
            offset=self.offset.some(indices),
            sample_weight=weights,
            c=weights / weights.sum(),
        )

    # --------------------------------------------------------------------------------------------------------------- rows

    @property
    def rows(self) -> Any:
        """The samples as compiled kernels read them. A kernel matrix is formed when it is first asked for: not every solver needs it."""
        shared = self.shared
        if shared.rows is None:
            if self.kernel is not None:
                shared.rows = storage.gram(self.kernel(self.X, self.X))
            else:
                shared.rows = storage.of_matrix(self.X)
        return shared.rows

    @property
    def formed(self) -> bool:
        """Whether `rows` can be had without computing a kernel matrix."""
        return self.kernel is None or self.shared.rows is not None

    @property
    def blocked(self) -> bool:
        """Whether the rows are those of a kernel matrix in blocks, which is larger than the memory given."""
        return isinstance(self.shared.rows, BlockedGram)

    @property
    def on_data(self) -> Self:
        """The problem over the rows of X itself, without its kernel: for a linear kernel, one with the same dual."""
        if self.shared.of_data is None:
            self.shared.of_data = Shared()
        return self._of({**vars(self), "kernel": None, "shared": self.shared.of_data})

    # ------------------------------------------------------------------------------------------------------------ vectors

    @property
    def samples(self) -> Samples:
        """Labels, weights and offset, as kernels take them."""
        return Samples(self.y, self.c, self.offset)

    def some_samples(self, which: Any) -> Samples:
        """Return the labels, weights and offset of some rows."""
        return Samples(self.y[which], self.c[which], self.offset.some(which))

    @property
    def total_weight(self) -> float:
        """The sum of the sample weights."""
        return float(self.n if self.sample_weight is None else self.sample_weight.sum())

    @property
    def is_regression(self) -> bool:
        """Whether y holds targets, and margins are residuals."""
        return bool(getattr(self.loss, "regression", False))

    @property
    def targets(self) -> np.ndarray:
        """The targets of a regression."""
        if not self.is_regression:
            raise AttributeError("a classification has labels y, and no targets")
        return -self.offset.values

    @property
    def size(self) -> int:
        """Length of w as a solver stores it: d, or n scores for a kernel machine. Also the length of `coef`."""
        return self.d if self.kernel is None else self.n

    @property
    def sqnorms(self) -> np.ndarray:
        """‖xᵢ‖² of every row."""
        if self.shared.sqnorms is None:
            self.shared.sqnorms = self._sqnorms()
        return self.shared.sqnorms

    def _sqnorms(self) -> np.ndarray:
        if self.kernel is not None and not self.formed:
            out = self.on_data.sqnorms if self.kernel.name == "linear" else self.kernel.diagonal(self.X)
        elif self.blocked:
            out = self.rows.diagonal.copy()
        else:
            out = np.empty(self.n)
            sqnorms_in_threads(self.rows, out)
        if not all_finite(out):
            row = int(np.argmin(np.isfinite(out)))
            raise ValueError(f"row {row} of X is too large: its squared length is {out[row]} in float64; scale the features down")
        return out

    @property
    def norms(self) -> np.ndarray:
        """Upper bounds of ‖xᵢ‖, rounding included (of √k(xᵢ, xᵢ) for a kernel machine)."""
        if self.shared.norms is None:
            norms = np.sqrt(np.maximum(self.sqnorms, 0.0))  # a negative k(x, x) is refused by the certificate
            norms *= 1.0 + NORM_SLACK
            norms += 1e-150  # squares of smaller numbers underflow
            self.shared.norms = norms
        return self.shared.norms

    @property
    def longest(self) -> int:
        """How many numbers the longest row stores: as many products are summed up in a score."""
        if self.shared.longest is None:
            self.shared.longest = self.d if self.kernel is not None else storage.longest(self.rows)
        return self.shared.longest

    def kernel_blocks(self, dtype: Any) -> KernelBlocks:
        """Return kernel values of any rows with all rows, in float32 or float64; what they need of X is kept for the next call."""
        assert self.kernel is not None
        dtype = np.dtype(dtype)
        if dtype not in self.shared.blocks:
            self.shared.blocks[dtype] = KernelBlocks(self.kernel, self.X, dtype)
        return self.shared.blocks[dtype]

    def every_block(self) -> Iterator[storage.Block]:
        """Yield all rows of data, once and in order, in blocks with their numbers; not for kernel machines."""
        yield storage.Block(slice(0, self.n), self.rows)

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Return Σ aᵢ xᵢ as stored, summed in float64 (for a kernel machine: the scores K·a)."""
        a = np.ascontiguousarray(a, dtype=np.float64)
        if self.kernel is not None and (not self.formed or (self.blocked and self.rows.computed == 0)):
            if self.shared.expansion is None:
                self.shared.expansion = Expansion(self.kernel, self.X)
            return self.shared.expansion.scores(a)
        v = np.zeros(self.size)
        (add_in_threads if self.kernel is None else add_rows)(self.rows, a, v)
        return v

    def stored(self, coef: np.ndarray) -> np.ndarray:
        """Return w as solvers store it for `coef` as a user sees it: coef itself, or the scores of a kernel expansion."""
        return coef if self.kernel is None else self.combine(coef)

    def scores(self, stored: np.ndarray) -> np.ndarray:
        """Return xᵢ·w + oᵢ for every training row, without the intercept, from w as stored."""
        return self.offset.added(self.products(stored))

    def products(self, stored: np.ndarray) -> np.ndarray:
        """Return xᵢ·w for every training row, from w as stored."""
        if self.kernel is not None:
            return stored
        out = np.empty(self.n)
        scores_in_threads(self.rows, stored, out)
        return out

    def bounded_scores(self, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return xᵢ·w + oᵢ and numbers that, times 2⁻⁵³, bound the rounding of xᵢ·w; None for them where ‖xᵢ‖‖w‖ serves as well.

        A problem with a memory keeps those of the last w, which are not to be written to.
        """
        w = None if self.memory is None else stored.tobytes()
        if self.memory is not None and self.memory.scores is not None and self.memory.scores[0] == w:
            return self.memory.scores[1:]
        products, sizes = self.bounded_products(stored)
        scores = self.offset.added(products)
        if self.memory is not None and w is not None:
            scores.flags.writeable = False
            self.memory.scores = w, scores, sizes
        return scores, sizes

    def bounded_products(self, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the same without the offset."""
        if storage.is_sparse_data(self.rows) and self.longest <= SHORT_ROW:
            return self.products(stored), None
        out, sizes = np.empty(self.n), np.empty(self.n)
        bounded_scores_in_threads(self.rows, stored, out, sizes)
        return out, sizes

    # ------------------------------------------------------------------------------------------------------- the objective

    def regulariser(self, coef: np.ndarray, intercept: float, stored: np.ndarray | None = None) -> float:
        """Return the penalty of a model: R(w), and the penalty of the intercept where it has one."""
        if self.kernel is None:
            value = self.penalty.total_penalty(coef)
        else:
            value = 0.5 * self.l2 * float(coef @ (self.stored(coef) if stored is None else stored))
        if self.intercept == "penalised":
            ratio = intercept / self.intercept_scale
            value += 0.5 * self.l2 * ratio * ratio  # ratio**2 would raise where the product overflows to infinity
        return value

    def objective(self, coef: ArrayLike, intercept: float = 0.0) -> float:
        """Return P(w, b).

        Examples
        --------
        >>> import dualgap
        >>> dualgap.Problem([[1.0], [-1.0]], [1, 0], l2=0.5).objective([1.0])
        0.25
        """
        coef = as_vector(coef, "coef", self.size)
        stored = self.stored(coef)
        margins = self.y * (self.scores(stored) + intercept)
        return total_value(self.loss, margins, self.c) + self.regulariser(coef, intercept, stored)

    # ----------------------------------------------------------------------------------------------------------- new data

    def features(self, X: object, name: str = "X") -> Any:
        """Return new samples, checked and converted as the training data were."""
        return as_features(X, name, columns=self.d)

    def decision(self, X: object, coef: np.ndarray, intercept: float = 0.0) -> np.ndarray:
        """Return the scores of new samples: x·w + b, positive for the second class. With kernel="precomputed", X is K(new, training)."""
        matrix = self.features(X)
        if self.kernel is None:
            return np.asarray(matrix @ coef).reshape(-1) + intercept
        return expansion(self.kernel, matrix, self.X, coef) + intercept

    def predict(self, X: object, coef: np.ndarray, intercept: float = 0.0) -> np.ndarray:
        """Return the labels of new samples; of a regression, its predictions."""
        if self.is_regression:
            return self.decision(X, coef, intercept)
        return self.classes[(self.decision(X, coef, intercept) > 0).astype(int)]

    def signs(self, y: object, length: int, name: str = "y") -> np.ndarray:
        """Return ±1 for labels of new samples; a label that training did not have is an error."""
        return _signs(as_labels(y, length, name), self.classes, name)

    def _storage(self) -> str:
        return f"{self.kernel.name} kernel" if self.kernel else ("sparse" if sparse.issparse(self.X) else "dense")

    def __repr__(self) -> str:
        loss = next((name for name, cls in LOSSES.items() if type(self.loss) is cls), type(self.loss).__name__)
        delta = f"(delta={self.loss.delta:g})" if hasattr(self.loss, "delta") else ""
        if self.is_regression:
            loss, delta = repr(self.loss), ""
        l1 = (f", l1={self.l1:g}" if self.l1 else "") + (", bounded" if self.bounds is not None else "")
        weights = ", weighted" if self.sample_weight is not None else ""
        size = f"{self.n} × {self.d} {self._storage()}"
        return f"{type(self).__name__}({size}, {loss}{delta}, l2={self.l2:g}{l1}, intercept={self.intercept!r}{weights})"


def check_intercept(intercept: str, l2: float) -> str:
    """Check the kind of intercept against its names and the penalty that it needs."""
    one_of("intercept", intercept, INTERCEPTS)
    if intercept == "penalised" and l2 == 0:
        raise ValueError("intercept='penalised' needs l2 > 0, which is its penalty; use intercept='free' or give l2 > 0")
    return intercept


def _check_bounds(bounds: Any, kernel: Any) -> None:
    if bounds is not None and kernel is not None:
        raise ValueError("bounds with a kernel: they need coordinates of w; use bounds=None, or kernel=None")


def by_turns(n: int) -> np.ndarray:
    """Return n labels, +1 and −1 by turns: both classes are there from two rows on."""
    return np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


LEAST_SCALE = 1e-290  # of targets: other numbers divided by a smaller one overflow


def target_offset(targets: object, n: int, sample_weight: ArrayLike | None = None) -> Offset:
    """Return the offset of a regression: minus its targets, checked. Targets of rows without weight do not tell its scale."""
    values = -as_vector(targets, "y", n)
    own, parts = values, None
    if sample_weight is not None:
        weights = as_weights(sample_weight, n)
        own, parts = values[weights > 0.0], weights[weights > 0.0] / weights.max()
    scale = float(np.average(np.abs(own - np.median(own)), weights=parts))
    if not np.isfinite(scale):
        raise ValueError("y has targets so large that their differences overflow float64; divide y by a constant")
    return Offset(values, scale if scale > LEAST_SCALE else 1.0)


def _signs(labels: np.ndarray, classes: np.ndarray, name: str) -> np.ndarray:
    known = (labels == classes[0]) | (labels == classes[1])
    if not known.all():
        place = int(np.flatnonzero(~known)[0])
        raise ValueError(f"{name}[{place}] is {labels[place]!r}, which is not a label of the training data {classes.tolist()}")
    return np.where(labels == classes[1], 1.0, -1.0)


def _normalised(sample_weight: np.ndarray | None, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return c = s/Σs, after a check that no class has lost all of its weight; a regression has no classes."""
    if sample_weight is None:
        c = np.empty(len(y))
        c.fill(1.0 / len(y))
        return c
    scaled = sample_weight / sample_weight.max()
    for label, sign in zip(classes, (-1.0, 1.0), strict=False):
        weights = scaled[y == sign]
        if len(weights) and not weights.max() > 0:
            given = "zero" if not sample_weight[y == sign].any() else "nothing beside the other class's in float64"
            raise ValueError(f"sample_weight is {given} for every sample of class {label!r}; that leaves one class only")
    return normalised(sample_weight)


def normalised(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; by the largest first: a sum of huge weights must not overflow."""
    scaled = weights / weights.max()
    return np.asarray(scaled / scaled.sum())
