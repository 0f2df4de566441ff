"""X and y of a fit, checked: rows in memory or a store; labels or numbers, with sample weights; and the problems that follow from them.

`Targets` is the interface that a fit needs; `Labelled` is that of classifiers, `Numbers` that of regressions.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dualgap.core import number
from dualgap.estimators.parameters import invalid_parameters
from dualgap.problem import Problem, all_finite, as_features, as_vector, as_weights, is_dask
from dualgap.run import Pairs, pairs_of

if TYPE_CHECKING:
    from dualgap.store import Store


__all__ = [
    "NUMERIC",
    "ClassWeight",
    "Duals",
    "Labelled",
    "Numbers",
    "Rows",
    "Side",
    "Targets",
    "as_csr",
    "check_fitted",
    "class_support",
    "coded",
    "is_store",
    "linear_rows",
    "plain_rows",
    "problem_over",
    "refuse_dask",
    "small_as_dense",
    "store_labels",
    "store_targets",
    "support",
    "supports",
    "target_support",
    "validated",
    "validated_rows",
    "weights_by_class",
]

Rows = np.ndarray | sparse.csr_matrix  # samples as `validated` returns them
ClassWeight = Mapping[Any, float] | str | None
Duals = Sequence[Any] | None  # dual variables of the problems of a fit; None where they are gone

SMALL = 32_768  # values of a table: 256 kB


# Problem looks for NaN and infinity, and says where they are.
_ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}


def validated(estimator: BaseEstimator, X: object, y: object, *, reset: bool = True, **options: Any) -> tuple[Rows, np.ndarray]:
    """Return X and y as kernels can take them, after scikit-learn's checks; n_features_in_ and feature_names_in_ are set or compared.

    `options` are those of scikit-learn's `check_X_y`.

    Plain arrays that those checks would return as they are do not go through them: on a small problem they take a fifth of a fit.
    """
    if reset and _is_table(X) and _is_plain(y, len(X)):
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    refuse_dask(estimator, X)
    checked: tuple[Rows, np.ndarray] = validate_data(estimator, X, y, reset=reset, **_ACCEPTED, **options)
    return checked


def small_as_dense(X: Rows) -> Rows:
    """Return a small sparse table as an array, so that its model has the same bits as that of an array; other X as they are.

    The smallest dense tables have a method of their own, see `solvers.newton`. It is faster than those for sparse rows, too.
    """
    return X.toarray() if sparse.issparse(X) and X.shape[0] * X.shape[1] <= SMALL else X


def validated_rows(estimator: BaseEstimator, X: object, **options: Any) -> Rows:
    """Return new rows as scikit-learn checks them: names and number of the columns must be those of training.

    `options` are those of scikit-learn's `check_array`. Plain arrays are not looked at for NaN.
    """
    if _is_plain_table(X, estimator):
        return X
    refuse_dask(estimator, X)
    checked: Rows = validate_data(estimator, X, reset=False, **{**_ACCEPTED, **options})
    return checked


def refuse_dask(estimator: BaseEstimator, X: object) -> None:
    """Raise where X is a Dask collection: it would be drawn into this process without a word."""
    if is_dask(X):
        name = type(estimator).__name__
        own = f"dualgap.dask.{name}" if name in ("LinearSVC", "LinearSVR") else "LinearSVC or LinearSVR of dualgap.dask"
        raise TypeError(
            f"X is a Dask collection, and {name} works on rows in this process: train and predict on a cluster's workers with {own}, "
            "or bring the rows here with X.compute()"
        )


def linear_rows(estimator: BaseEstimator, X: object, diagonal: object = None) -> Rows:
    """Return new rows of a linear model as features, checked."""
    if diagonal is not None:
        raise ValueError("diagonal goes with kernel='precomputed' alone; the rows of a linear model say what k(x, x) is")
    rows: Rows = as_features(validated_rows(estimator, X), columns=estimator.n_features_in_)
    return rows


def plain_rows(estimator: BaseEstimator, X: object) -> np.ndarray | None:
    """Return new rows that scikit-learn's checks would return as they are; None for others, which have to go through them."""
    return X if _is_plain_table(X, estimator) and all_finite(X.reshape(-1)) else None


def check_fitted(estimator: BaseEstimator) -> None:
    """Raise NotFittedError unless fitted. scikit-learn's check builds all tags first, so it runs only if `intercept_` is missing."""
    if "intercept_" not in vars(estimator):
        check_is_fitted(estimator)


def _is_plain_table(X: object, estimator: BaseEstimator) -> TypeGuard[np.ndarray]:
    """Return whether X is a plain table with the columns of training, which had no names."""
    return _is_table(X) and X.shape[1] == getattr(estimator, "n_features_in_", -1) and "feature_names_in_" not in vars(estimator)


def _is_plain(y: object, n: int) -> TypeGuard[np.ndarray]:
    """Return whether y is an array of n labels of a plain type."""
    if type(y) is not np.ndarray or y.ndim != 1 or len(y) != n:
        return False
    return y.dtype.kind in "iub" or (y.dtype.kind == "f" and bool(np.isfinite(y).all()))


def _is_table(X: object) -> TypeGuard[np.ndarray]:
    """Return whether X is a C-ordered array of floats that is not empty."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0 or X.dtype not in (np.float64, np.float32):
        return False
    return bool(X.dtype.isnative and X.flags.c_contiguous and X.flags.aligned)


def check_labels(y: np.ndarray) -> None:
    """Refuse targets of a regression. Most labels are told by their type; scikit-learn's slower check takes the rest."""
    if y.dtype.kind in "iubSU" or (y.dtype.kind == "f" and np.array_equal(y, np.trunc(y))):
        return
    check_classification_targets(y)


def is_store(X: object) -> TypeGuard[Store]:
    """Whether X is a store. The room is not imported for the question: without it there is no store."""
    room = sys.modules.get("dualgap.store")
    return room is not None and isinstance(X, room.Store)


def problem_over(X: Any, signs: np.ndarray, *args: Any, **options: Any) -> Problem:
    """A problem over what an estimator was given: rows in memory, or a store."""
    if not is_store(X):
        return Problem(small_as_dense(X), signs, *args, **options)
    from dualgap.store import StoreProblem

    return StoreProblem(X, *args, y=signs, **options)


def store_labels(estimator: BaseEstimator, store: Store, y: object) -> np.ndarray:
    """The labels of a store, after a look at what does not go with one."""
    _begin(estimator, store, y, "classification")
    if estimator.multi_class != "ovr":
        raise ValueError(f"multi_class={estimator.multi_class!r} needs all rows in memory; a store takes 'ovr'")
    return store.labels()


def store_targets(estimator: BaseEstimator, store: Store, y: object) -> np.ndarray:
    """The targets of a store, after a look at what does not go with one."""
    _begin(estimator, store, y, "regression")
    return store.labels()


def _begin(estimator: BaseEstimator, store: Store, y: object, task: str) -> None:
    if y is not None:
        raise ValueError("y beside a store: a store has its own labels; leave y out")
    if store.task != task:
        name = type(estimator).__name__
        raise ValueError(f"{name} is for {task}, and {store!r} was converted for {store.task}: convert the data with task={task!r}")
    estimator.n_features_in_ = store.shape[1]
    estimator.__dict__.pop("feature_names_in_", None)


NUMERIC = {"multi_output": True, "y_numeric": True}  # options of scikit-learn's check_X_y


class Side(NamedTuple):
    """One problem's y: labels ±1 or numbers; the signs of its dual variables; weights (None: all 1) and their sum."""

    y: np.ndarray
    signs: np.ndarray | float
    weights: np.ndarray | None
    total: float


class Targets(ABC):
    """X with what is to be learnt of its n rows, and sample weights (None: all 1); a problem for each class or column.

    X are `Rows`, a Store, or whatever a function as kernel takes.
    """

    def __init__(self, X: Any, sample_weight: ArrayLike | None, n: int) -> None:
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
    def matches(self, model: BaseEstimator) -> bool:
        """Return whether a fitted model is one of as many problems, for the same classes."""

    @abstractmethod
    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        """Return what makes support_, n_support_ and dual_coef_ from signed dual variables, a row for each problem."""

    @abstractmethod
    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes of a linear model from the coefficients, a row for each problem."""

    @abstractmethod
    def part(self, rows: np.ndarray) -> Targets:
        """Return some of the rows with what is to be learnt of them, as if there were no others."""

    def _metadata(self) -> dict[str, Any]:
        return {} if self.weights is None else {"sample_weight": self.weights}


class Labelled(Targets):
    """Labels coded 0, 1, … in sorted order, checked: one problem for two classes, else one for each class against the rest.

    Parameters
    ----------
    classes : array, optional
        The labels, where they are known beforehand and y need not have them all.
    """

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        sample_weight: ArrayLike | None,
        class_weight: ClassWeight,
        classes: np.ndarray | None = None,
    ) -> None:
        super().__init__(X, sample_weight, X.shape[0])
        self._members: dict[int, np.ndarray] = {}
        self.class_weight = class_weight
        if classes is None:
            self.classes = np.unique(y)
            self.codes = np.searchsorted(self.classes, y)
            if len(self.classes) < 2:
                raise ValueError(f"y has one class only, {self.classes.tolist()[0]!r}; a classifier needs at least two classes")
        else:
            self.classes, self.codes = classes, coded(y, classes)
        if self.weights is not None and classes is None:
            self._leave_out_classes_without_weight()
        self.by_class = None
        if class_weight is not None:
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

    def matches(self, model: BaseEstimator) -> bool:
        return np.array_equal(model.classes_, self.classes)

    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        return partial(class_support, signed, self.codes)

    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef, "classes_": self.classes}

    def part(self, rows: np.ndarray) -> Labelled:
        return self.over(_safe_indexing(self.X, rows), rows)

    def over(self, X: Any, rows: np.ndarray) -> Labelled:
        """Return some of the rows as `part` does, with an X of their own."""
        return Labelled(X, self.classes[self.codes[rows]], None if self.weights is None else self.weights[rows], self.class_weight)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of classes, the positive one first."""
        return [(1, 0)] if len(self.classes) == 2 else list(combinations(range(len(self.classes)), 2))

    @cached_property
    def all_pairs(self) -> Pairs:
        """The rows of all pairs of classes."""
        return pairs_of(self.codes, len(self.classes))

    def pair_name(self, pair: tuple[int, int]) -> str:
        """Return what the problem of two classes is called."""
        if len(self.classes) == 2:
            return "fit"
        first, second = self.classes[list(pair)].tolist()
        return f"classes {first!r} and {second!r}"

    def sides(self, pair: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the rows of two classes, +1 for those of the first and −1 for the others, and their weights (None: all 1)."""
        positive = self.members(pair[0])
        rows = np.flatnonzero(positive | self.members(pair[1]))
        unweighted = self.weights is None and self.by_class is None
        return rows, np.where(positive[rows], 1.0, -1.0), None if unweighted else self.own_weights()[rows]

    def own_weights(self) -> np.ndarray:
        """Weight of each sample with that of its own class."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        return weights if self.by_class is None else weights * self.by_class[self.codes]


class Numbers(Targets):
    """Targets of a regression of shape (n, k), checked: one problem for each column.

    `flat` says that y was one-dimensional, or one column.
    """

    def __init__(self, X: Any, y: object, sample_weight: ArrayLike | None, n: int | None = None) -> None:
        super().__init__(X, sample_weight, X.shape[0] if n is None else n)
        values = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
        if values.ndim not in (1, 2):
            raise ValueError(f"y has shape {values.shape}; it must have one target a sample, or a column for each target")
        if values.ndim == 2 and values.shape[1] == 1:  # scikit-learn warns of it, and predicts in one dimension
            values = column_or_1d(values, warn=True)
        self.flat = values.ndim == 1
        columns = [as_vector(column, "y", self.n) for column in np.atleast_2d(values.T)]
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

    def matches(self, model: BaseEstimator) -> bool:
        return len(model.intercept_) == self.count

    def later(self, signed: np.ndarray) -> Callable[[], dict[str, Any]]:
        return partial(target_support, signed)

    def attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef[0] if self.flat else coef, "_flat": self.flat}

    def part(self, rows: np.ndarray) -> Numbers:
        values = self.values[rows, 0] if self.flat else self.values[rows]
        return Numbers(_safe_indexing(self.X, rows), values, None if self.weights is None else self.weights[rows])


def coded(y: np.ndarray, classes: np.ndarray, weights: ArrayLike | None = None) -> np.ndarray:
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


@invalid_parameters()
def weights_by_class(
    class_weight: ClassWeight, classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None
) -> np.ndarray | None:
    """One weight a class: None, "balanced" (total weight / (number of classes · the class's weight)), or a mapping of labels."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight={class_weight!r} is unknown; give 'balanced', a dict of weights by label, or None")
        counts = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        if not (counts > 0).all():
            raise ValueError("class_weight='balanced' needs every class to have some sample of positive weight")
        return counts.sum() / (len(classes) * counts)
    if not hasattr(class_weight, "items"):
        raise ValueError(f"class_weight={class_weight!r} must be 'balanced', a dict of weights by label, or None")
    weights, given = np.ones(len(classes)), np.zeros(len(classes), dtype=bool)
    absent = []
    for label, value in class_weight.items():
        checked = number(f"class_weight[{label!r}]", value, "[0, inf)")
        place = np.flatnonzero(classes == label)
        if len(place) == 0:
            absent.append(label)
        weights[place], given[place] = checked, True
    if absent and not given.all():  # perhaps misspelt; a part of the rows may lack a class, as scikit-learn allows
        raise ValueError(
            f"class_weight has the label {absent[0]!r}, which is not one of the classes {classes.tolist()}, and no weight for "
            f"{classes[~given].tolist()[0]!r}"
        )
    return weights
