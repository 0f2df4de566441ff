"""Problem: the one objective that everything here minimises.

    P(w, b) = Σ cᵢ φ(yᵢ(xᵢ·w + b)) + l1·‖w‖₁ + (l2/2)·‖w‖²            cᵢ = sᵢ / Σ s

with labels yᵢ = ±1 and sample weights sᵢ. The intercept b is absent ("none"), "free" of any penalty, or "penalised" by
(l2/2)·(b/intercept_scale)², which is how LIBLINEAR treats it. Class weights, C, alpha all end up in c and in the penalty here; no
kernel has a branch for them. For a kernel machine w lives in the kernel's space and is given by its expansion a, w = Σ aⱼ φ(xⱼ).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import LOSSES, make_loss, make_penalty, number, one_of, scores_in_threads, sqnorms_in_threads, total_value
from dualgap.core import rows as storage
from dualgap.kernels import BlockedGram, Expansion, Kernel, add_rows, as_bytes, expansion, make_kernel
from dualgap.problem.inputs import all_finite, as_features, as_labels, as_vector, as_weights, encode_labels

__all__ = ["INTERCEPTS", "Problem", "Samples"]

INTERCEPTS = ("none", "penalised", "free")


class Samples(NamedTuple):
    """What every solver knows of a sample besides its row: label ±1 and weight c."""

    y: np.ndarray
    c: np.ndarray


class Problem:
    """A regularised binary classification problem over samples X with labels y.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        One row a sample. float32 and float64 arrays in C order and CSR matrices are used as they are, without a copy.
    y : array-like of n labels
        Any two values, numbers or strings. The larger one is the positive class.
    loss : {"hinge", "smooth_hinge", "squared_hinge", "logistic"} or a loss object
    delta : float, optional
        Width of the smoothed part of loss="smooth_hinge" (1 by default).
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

    Examples
    --------
    >>> import dualgap
    >>> problem = dualgap.Problem([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"], l2=0.1)
    >>> problem
    Problem(2 × 2 dense, hinge, l2=0.1, intercept='none')
    """

    streaming: ClassVar[bool] = False  # whether the rows are read block by block and are never all at hand

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: Any = "hinge",
        delta: float | None = None,
        l2: float = 1e-4,
        l1: float = 0.0,
        sample_weight: Any = None,
        intercept: str = "none",
        *,
        intercept_scale: float = 1.0,
        classes: Any = None,
        kernel: Any = None,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_memory: Any = None,
    ) -> None:
        self.loss = make_loss(loss, delta)
        self.penalty = make_penalty(l2, l1)
        self.l2, self.l1 = float(l2), float(l1)
        self.intercept = check_intercept(intercept, self.l2)
        self.intercept_scale = number("intercept_scale", intercept_scale)
        self.X = as_features(X)
        self.n, self.d = self.X.shape
        labels = as_labels(y, self.n)
        if classes is None:
            self.classes, self.y = encode_labels(labels)
        else:
            self.classes = as_labels(classes, 2, "classes")
            if self.classes[0] == self.classes[1]:
                raise ValueError(f"classes={self.classes.tolist()} must be two different labels")
            self.y = self.signs(labels, self.n)
        self.sample_weight = None if sample_weight is None else as_weights(sample_weight, self.n)
        self.c = self._normalised_weights()
        self.kernel: Kernel | None = None
        if kernel is not None:
            self._check_kernel(kernel)
            self.kernel = make_kernel(kernel, self.X, gamma, degree, coef0)
            if self.kernel.function is not None:
                # A function that does not return a kernel matrix is refused now, not in training.
                self.kernel(self.X[:2], self.X[:2])
        # What is computed once for the rows and kernel, and shared by every variant of this problem.
        self._shared: dict[str, Any] = {}
        memory = None if kernel_memory is None else as_bytes(kernel_memory)
        if self.kernel is not None and memory is not None and self.kernel.name != "precomputed" and 8 * self.n**2 > memory:
            self._shared["rows"] = BlockedGram(self.kernel, self.X, self.kernel.diagonal(self.X), memory)

    # ------------------------------------------------------------------------------------------------------- construction

    def _normalised_weights(self) -> np.ndarray:
        if self.sample_weight is None:
            return np.full(self.n, 1.0 / self.n)
        # Divided by the largest first: a sum of huge weights must not overflow.
        scaled = self.sample_weight / self.sample_weight.max()
        for label, sign in zip(self.classes, (-1.0, 1.0), strict=True):
            weights = scaled[self.y == sign]
            if len(weights) and not weights.max() > 0:
                given = "zero" if not self.sample_weight[self.y == sign].any() else "nothing beside the other class's in float64"
                raise ValueError(f"sample_weight is {given} for every sample of class {label!r}; that leaves one class only")
        return scaled / scaled.sum()

    def _check_kernel(self, kernel: Any) -> None:
        if self.l1 > 0:
            raise ValueError(f"l1={self.l1:g} with a kernel: the l1 penalty needs coordinates of w; use l1=0, or kernel=None")
        if isinstance(kernel, str) and kernel == "precomputed":
            if sparse.issparse(self.X) or self.n != self.d:
                raise ValueError(f"kernel='precomputed' takes X as a square array of kernel values; X has shape {self.X.shape}")
            if not np.allclose(self.X, self.X.T, rtol=1e-6, atol=1e-8 * np.abs(self.X).max()):
                raise ValueError("kernel='precomputed': the kernel matrix X is not symmetric")

    @cached_property
    def rows(self) -> Any:
        """The samples as kernels read them. A kernel matrix is formed when it is first asked for: not every solver needs it."""
        if self.kernel is None:
            return storage.csr(self.X) if sparse.issparse(self.X) else storage.dense(self.X)
        if "rows" not in self._shared:
            self._shared["rows"] = storage.gram(self.kernel(self.X, self.X))
        return self._shared["rows"]

    @property
    def formed(self) -> bool:
        """Whether `rows` are there; those of a kernel matrix are formed when first asked for."""
        return self.kernel is None or "rows" in self.__dict__ or "rows" in self._shared

    # ------------------------------------------------------------------------------------------------------------ vectors

    @property
    def samples(self) -> Samples:
        """Labels and weights, as kernels take them."""
        return Samples(self.y, self.c)

    @property
    def size(self) -> int:
        """Length of w as a solver stores it: d, or n scores for a kernel machine. Also the length of `coef`."""
        return self.d if self.kernel is None else self.n

    @property
    def blocked(self) -> bool:
        """Whether rows come in blocks, as those of a kernel matrix beyond the memory given do."""
        return self.formed and isinstance(self.rows, BlockedGram)

    @cached_property
    def sqnorms(self) -> np.ndarray:
        """‖xᵢ‖² of every row."""
        if self.kernel is not None and not self.formed:
            out = self.kernel.diagonal(self.X)
        elif isinstance(self.rows, BlockedGram):
            out = self.rows.diagonal.copy()
        else:
            out = np.empty(self.n)
            sqnorms_in_threads(self.rows, out)
        if not all_finite(out):
            row = int(np.argmin(np.isfinite(out)))
            raise ValueError(f"row {row} of X is too large: its squared length is {out[row]} in float64; scale the features down")
        return out

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Σ aᵢ xᵢ as stored, summed in float64 (for a kernel machine: the scores K·a)."""
        a = np.ascontiguousarray(a, dtype=np.float64)
        if self.kernel is not None and (not self.formed or (self.blocked and self.rows.computed == 0)):
            return self._expanded(a)
        v = np.zeros(self.size)
        add_rows(self.rows, a, v)
        return v

    def _expanded(self, a: np.ndarray) -> np.ndarray:
        assert self.kernel is not None
        if "expansion" not in self._shared:
            self._shared["expansion"] = Expansion(self.kernel, self.X)
        return self._shared["expansion"].scores(a)

    def stored(self, coef: np.ndarray) -> np.ndarray:
        """w as solvers store it, from `coef` as a user sees it: itself, or the scores of a kernel expansion."""
        return coef if self.kernel is None else self.combine(coef)

    def scores(self, stored: np.ndarray) -> np.ndarray:
        """xᵢ·w for every training row, without the intercept, from w as stored."""
        if self.kernel is not None:
            return stored
        out = np.empty(self.n)
        scores_in_threads(self.rows, stored, out)
        return out

    # ------------------------------------------------------------------------------------------------------- the objective

    def regulariser(self, coef: np.ndarray, intercept: float, stored: np.ndarray | None = None) -> float:
        """The penalty of a model: R(w), and the intercept's part where it is penalised."""
        if self.kernel is None:
            value = self.penalty.total_penalty(coef)
        else:
            value = 0.5 * self.l2 * float(coef @ (self.stored(coef) if stored is None else stored))
        if self.intercept == "penalised":
            ratio = intercept / self.intercept_scale
            value += 0.5 * self.l2 * ratio * ratio  # a product overflows to infinity, where a power of a Python float raises
        return value

    def objective(self, coef: Any, intercept: float = 0.0) -> float:
        """P(w, b).

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

    def features(self, X: Any, name: str = "X") -> Any:
        """New samples, checked and converted as the training data were."""
        return as_features(X, name, columns=self.d)

    def decision(self, X: Any, coef: np.ndarray, intercept: float = 0.0) -> np.ndarray:
        """Scores of new samples: x·w + b, positive for the second class. With kernel="precomputed", X is K(new, training)."""
        matrix = self.features(X)
        if self.kernel is None:
            return np.asarray(matrix @ coef).reshape(-1) + intercept
        return expansion(self.kernel, matrix, self.X, coef) + intercept

    def predict(self, X: Any, coef: np.ndarray, intercept: float = 0.0) -> np.ndarray:
        """Labels of new samples."""
        return self.classes[(self.decision(X, coef, intercept) > 0).astype(int)]

    def signs(self, y: Any, length: int, name: str = "y") -> np.ndarray:
        """±1 for labels of new samples; a label that training did not have is an error."""
        labels = as_labels(y, length, name)
        known = (labels == self.classes[0]) | (labels == self.classes[1])
        if not known.all():
            place = int(np.flatnonzero(~known)[0])
            raise ValueError(
                f"{name}[{place}] is {labels[place]!r}, which is not a label of the training data {self.classes.tolist()}"
            )
        return np.where(labels == self.classes[1], 1.0, -1.0)

    def variant(self, y: Any = None, sample_weight: Any = None, *, l2: float | None = None, l1: float | None = None) -> Problem:
        """The same rows, loss and kind of intercept with other labels, weights or penalties, without another look at X.

        One class against the rest, and the points of a path, are made so. What is None stays as it is.

        Examples
        --------
        >>> import dualgap
        >>> problem = dualgap.Problem([[0.0], [1.0], [2.0]], [0, 1, 1], l2=0.1)
        >>> problem.variant([0, 0, 1], l2=0.5)
        Problem(3 × 1 dense, hinge, l2=0.5, intercept='none')
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if y is not None:
            other.classes, other.y = encode_labels(as_labels(y, self.n))
        if y is not None or sample_weight is not None:
            other.sample_weight = self.sample_weight if sample_weight is None else as_weights(sample_weight, self.n)
            other.c = other._normalised_weights()
        if l2 is not None or l1 is not None:
            other.l2, other.l1 = (float(old if new is None else new) for new, old in ((l2, self.l2), (l1, self.l1)))
            other.penalty = make_penalty(other.l2, other.l1)
            check_intercept(other.intercept, other.l2)
        return other

    def head(self, count: int) -> Problem:
        """The same kind of problem (types, loss, penalty, intercept) over the first rows, both classes among them.

        The driver runs a solver on it to have its kernels compiled before the clock starts.
        """
        small = object.__new__(Problem)
        small.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("sqnorms", "rows")})
        small.n = min(count, self.n)
        small.y = np.where(np.arange(small.n) % 2 == 0, 1.0, -1.0)
        small.c = np.full(small.n, 1.0 / small.n)
        small.sample_weight = None
        small._shared = {}
        if self.formed:
            small.rows = self.rows.head(small.n) if isinstance(self.rows, BlockedGram) else storage.part(self.rows, 0, small.n)
        if self.kernel is not None and self.kernel.name == "precomputed":
            small.X = np.ascontiguousarray(self.X[: small.n, : small.n])
        elif self.kernel is not None or not sparse.issparse(self.X):
            small.X = self.X[: small.n]
        return small

    def subset(self, indices: np.ndarray, weights: np.ndarray) -> Problem:
        """The same kind of problem over some of the rows, without a copy of them, with weights of their own (normalised here)."""
        small = object.__new__(Problem)
        small.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("sqnorms", "X")})
        small.n = len(indices)
        small.y = self.y[indices]
        small.c = weights / weights.sum()
        small.rows = storage.some(self.rows, indices)
        return small

    def __repr__(self) -> str:
        kind = f"{self.kernel.name} kernel" if self.kernel else ("sparse" if sparse.issparse(self.X) else "dense")
        loss = next((name for name, cls in LOSSES.items() if type(self.loss) is cls), type(self.loss).__name__)
        delta = f"(delta={self.loss.delta:g})" if hasattr(self.loss, "delta") else ""
        l1 = f", l1={self.l1:g}" if self.l1 else ""
        weights = ", weighted" if self.sample_weight is not None else ""
        return f"Problem({self.n} × {self.d} {kind}, {loss}{delta}, l2={self.l2:g}{l1}, intercept={self.intercept!r}{weights})"


def check_intercept(intercept: Any, l2: float) -> str:
    """Check the kind of intercept against its names and the penalty that it needs."""
    one_of("intercept", intercept, INTERCEPTS)
    if intercept == "penalised" and l2 == 0:
        raise ValueError("intercept='penalised' needs l2 > 0, which is its penalty; use intercept='free' or give l2 > 0")
    return intercept
