"""Training data of a fit: labels or numbers, with sample weights, and the problems and fitted attributes that follow from them.

`Targets` is the interface that a fit needs; `Labelled` is that of classifiers, `Numbers` that of regressions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from dualgap.core import is_sparse
from dualgap.estimators.common import weights_by_class
from dualgap.problem import Problem, as_vector, as_weights
from dualgap.proof import Table, TargetPart

__all__ = [
    "NUMERIC",
    "Labelled",
    "Numbers",
    "Side",
    "Targets",
    "as_csr",
    "class_support",
    "coded",
    "support",
    "supports",
    "target_parts",
    "target_support",
]

NUMERIC = {"multi_output": True, "y_numeric": True}  # options of scikit-learn's check_X_y


class Side(NamedTuple):
    """One problem's y: labels ±1 or numbers; the signs of its dual variables; weights (None: all 1) and their sum."""

    y: np.ndarray
    signs: Any
    weights: np.ndarray | None
    total: float


class Targets(ABC):
    """X with what is to be learnt of its n rows, and sample weights (None: all 1); a problem for each class or column."""

    def __init__(self, X: Any, sample_weight: Any, n: int) -> None:
        self.X, self.n = X, n
        self.weights = None if sample_weight is None else as_weights(sample_weight, n)

    @property
    @abstractmethod
    def count(self) -> int:
        """How many problems there are."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return what the problems of a fit are called."""

    @abstractmethod
    def shown(self) -> dict[str, Any]:
        """Return the data as scikit-learn's callbacks take them."""

    @abstractmethod
    def side(self, j: int) -> Side:
        """Return y and weights of problem j."""

    @abstractmethod
    def moved(self, first: Problem, side: Side, l2: float, l1: float) -> Problem:
        """Return the problem of another side over the rows of the first one."""

    @abstractmethod
    def matches(self, model: Any) -> bool:
        """Return whether a fitted model is one of as many problems, for the same classes."""

    @abstractmethod
    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        """Return what makes support_, n_support_ and dual_coef_ from signed dual variables, a row for each problem."""

    @abstractmethod
    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes of a linear model from the coefficients, a row for each problem."""

    def _metadata(self) -> dict[str, Any]:
        return {} if self.weights is None else {"sample_weight": self.weights}


class Labelled(Targets):
    """Labels coded 0, 1, … in sorted order, checked: one problem for two classes, else one for each class against the rest.

    Parameters
    ----------
    classes : array, optional
        The labels, where they are known beforehand and y need not have them all.
    """

    def __init__(self, X: Any, y: np.ndarray, sample_weight: Any, class_weight: Any, classes: np.ndarray | None = None) -> None:
        super().__init__(X, sample_weight, X.shape[0])
        self._members: dict[int, np.ndarray] = {}
        if classes is None:
            self.classes = np.unique(y)
            self.codes = np.searchsorted(self.classes, y)
            if len(self.classes) < 2:
                raise ValueError(f"y has one class only, {self.classes.tolist()[0]!r}; a classifier needs at least two classes")
        else:
            self.classes, self.codes = classes, coded(y, classes)
        if self.weights is not None and classes is None:
            self._leave_out_classes_without_weight()
        self.by_class = weights_by_class(class_weight, self.classes, self.codes, self.weights)
        if self.by_class is not None and classes is None and not self.by_class.all():
            label = self.classes.tolist()[int(np.argmin(self.by_class))]
            raise ValueError(f"class_weight is zero for class {label!r}; leave its samples out of X and y")

    def _leave_out_classes_without_weight(self) -> None:
        """Leave out classes whose rows all have weight 0, as if these rows were not there. The rows get code 0, which changes nothing."""
        has = np.bincount(self.codes, weights=self.weights, minlength=len(self.classes)) > 0
        if has.all():
            return
        self.codes = np.where(has, np.cumsum(has) - 1, 0)[self.codes]
        self.classes = self.classes[has]
        if len(self.classes) < 2:
            raise ValueError(
                f"sample_weight is 0 for all rows but those of class {self.classes.tolist()[0]!r}; a classifier needs two classes"
            )

    def members(self, k: int) -> np.ndarray:
        """Return which rows are of class k; a mask that is made once."""
        if k not in self._members:
            self._members[k] = self.codes == k
        return self._members[k]

    @property
    def count(self) -> int:
        return 1 if len(self.classes) == 2 else len(self.classes)

    def names(self) -> list[str]:
        return ["fit"] if self.count == 1 else [f"class {label!r}" for label in self.classes.tolist()]

    def shown(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.classes[self.codes], "metadata": self._metadata()}

    def side(self, j: int) -> Side:
        """Return the second of two classes, or class j, against the rest, which keeps weight 1; two classes both have their weights."""
        k = 1 if len(self.classes) == 2 else j
        signs = np.where(self.members(k), 1.0, -1.0)
        if self.by_class is None:
            weights = self.weights
        else:
            rest = self.by_class if len(self.classes) == 2 else np.ones(len(self.classes))
            weights = np.where(np.arange(len(self.classes)) == k, self.by_class, rest)[self.codes]
            if self.weights is not None:
                weights = weights * self.weights
        return Side(signs, signs, weights, float(self.n if weights is None else weights.sum()))

    def moved(self, first: Problem, side: Side, l2: float, l1: float) -> Problem:
        if side.weights is None:
            return first.replace(y=side.y, c=first.c)
        return first.replace(y=side.y, sample_weight=side.weights, l2=l2, l1=l1)

    def matches(self, model: Any) -> bool:
        return np.array_equal(model.classes_, self.classes)

    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        return partial(class_support, signed, self.codes)

    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef, "classes_": self.classes}

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of classes, the positive one first."""
        return [(1, 0)] if len(self.classes) == 2 else list(combinations(range(len(self.classes)), 2))

    def own_weights(self) -> np.ndarray:
        """Weight of each sample with that of its own class."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        return weights if self.by_class is None else weights * self.by_class[self.codes]


class Numbers(Targets):
    """Targets of a regression of shape (n, k), checked: one problem for each column.

    `flat` says that y was one-dimensional, or one column.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any, n: int | None = None) -> None:
        super().__init__(X, sample_weight, X.shape[0] if n is None else n)
        y = y.toarray() if is_sparse(y) else np.asarray(y)
        if y.ndim not in (1, 2):
            raise ValueError(f"y has shape {y.shape}; it must have one target a sample, or a column for each target")
        if y.ndim == 2 and y.shape[1] == 1:  # scikit-learn warns of it, and predicts in one dimension
            y = column_or_1d(y, warn=True)
        self.flat = y.ndim == 1
        columns = [as_vector(column, "y", self.n) for column in np.atleast_2d(y.T)]
        self.values = np.stack(columns, axis=1)
        self.total = float(self.n if self.weights is None else self.weights.sum())

    @property
    def count(self) -> int:
        return self.values.shape[1]

    def names(self) -> list[str]:
        return ["fit"] if self.count == 1 else [f"target {j}" for j in range(self.count)]

    def shown(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.values[:, 0] if self.flat else self.values, "metadata": self._metadata()}

    def side(self, j: int) -> Side:
        return Side(self.values[:, j], 1.0, self.weights, self.total)

    def moved(self, first: Problem, side: Side, l2: float, l1: float) -> Problem:
        return first.variant(side.y)

    def matches(self, model: Any) -> bool:
        return len(model.intercept_) == self.count

    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        return partial(target_support, signed)

    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef[0] if self.flat else coef, "_flat": self.flat}


def coded(y: np.ndarray, classes: np.ndarray, weights: Any = None) -> np.ndarray:
    """Return the codes of labels. A row of weight 0 may have a label that is none of the classes; its code is then 0."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    strange = classes[codes] != y
    if weights is not None:
        codes[strange] = 0
        strange &= np.asarray(weights) > 0
    if strange.any():
        raise ValueError(f"y has the label {y[strange].tolist()[0]!r}, which is not one of the classes {classes.tolist()}")
    return codes


def supports(signed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with a dual variable other than 0 for some target, and how many each target has."""
    return np.flatnonzero(signed.any(axis=0)), np.count_nonzero(signed, axis=1).astype(np.int32)


def target_support(signed: np.ndarray) -> dict[str, Any]:
    """Make support_, n_support_ and dual_coef_ from signed dual variables, a row for each target."""
    rows, counts = supports(signed)
    return {"support_": rows, "n_support_": counts, "dual_coef_": signed[:, rows]}


def support(signed: np.ndarray, codes: np.ndarray) -> dict[str, Any]:
    """Make support_, n_support_ and dual_coef_ (dense) from signed dual variables, a row for each problem."""
    found = np.flatnonzero(signed.any(axis=0))
    return {"support_": found, "n_support_": np.bincount(codes[found], minlength=codes.max() + 1), "dual_coef_": signed[:, found]}


def class_support(signed: np.ndarray, codes: np.ndarray) -> dict[str, Any]:
    """Make those attributes of linear models, one against the rest."""
    found = support(signed, codes)
    if len(signed) > 1:
        found["dual_coef_"] = as_csr(found["dual_coef_"])
    return found


def as_csr(dense: np.ndarray) -> sparse.csr_matrix:
    """Return the non-zeros of a dense matrix; SciPy's own conversion goes through coordinates and takes three times as long."""
    rows, columns = np.nonzero(dense)
    indptr = np.zeros(len(dense) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(dense)), out=indptr[1:])
    return sparse.csr_matrix((dense[rows, columns], columns.astype(np.int32), indptr), dense.shape)


def target_parts(
    model: Any, problems: Sequence[Problem], coefs: Sequence[np.ndarray], duals: Sequence[np.ndarray], kept: bool
) -> tuple[Table, list[TargetPart]]:
    """Return the data as a proof describes them, and the parts of a regression. The gaps are those of the fit if its duals were kept."""
    gaps, objectives = np.atleast_1d(model.dual_gap_), np.atleast_1d(model.objective_)
    found = zip(problems, coefs, model.intercept_.tolist(), duals, gaps.tolist(), objectives.tolist(), strict=True)
    parts = [
        TargetPart(problem, coef, b, dual, gap if kept else None, j, f"target {j}", objective)
        for j, (problem, coef, b, dual, gap, objective) in enumerate(found)
    ]
    return Table(problems[0].X, np.stack([problem.targets for problem in problems], axis=1), []), parts
