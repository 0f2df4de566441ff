"""Training data of a classifier: coded labels, sample and class weights, and the sides of one class against the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.estimators.common import weights_by_class
from dualgap.problem import as_weights

__all__ = ["Labelled", "Side", "coded"]


class Side(NamedTuple):
    """Labels ±1, weights (None: all 1) and their sum, for one class against the rest."""

    signs: np.ndarray
    weights: np.ndarray | None
    total: float


class Labelled:
    """X with the labels coded 0, 1, … in sorted order, and weights, checked.

    Parameters
    ----------
    classes : array, optional
        The labels, where they are known beforehand and y need not have them all.
    """

    def __init__(self, X: Any, y: np.ndarray, sample_weight: Any, class_weight: Any, classes: np.ndarray | None = None) -> None:
        self.X, self.n = X, X.shape[0]
        self._members: dict[int, np.ndarray] = {}
        if classes is None:
            self.classes = np.unique(y)
            self.codes = np.searchsorted(self.classes, y)
            if len(self.classes) < 2:
                raise ValueError(f"y has one class only, {self.classes.tolist()[0]!r}; a classifier needs at least two classes")
        else:
            self.classes, self.codes = classes, coded(y, classes)
        self.weights = None if sample_weight is None else as_weights(sample_weight, self.n)
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

    def one_against_rest(self, k: int) -> Side:
        """Class k against the rest, which keeps weight 1; with two classes both have their class weights."""
        signs = np.where(self.members(k), 1.0, -1.0)
        if self.by_class is None:
            weights = self.weights
        else:
            rest = self.by_class if len(self.classes) == 2 else np.ones(len(self.classes))
            weights = np.where(np.arange(len(self.classes)) == k, self.by_class, rest)[self.codes]
            if self.weights is not None:
                weights = weights * self.weights
        return Side(signs, weights, float(self.n if weights is None else weights.sum()))

    def own_weights(self) -> np.ndarray:
        """Weight of each sample with that of its own class."""
        weights = np.ones(self.n) if self.weights is None else self.weights
        return weights if self.by_class is None else weights * self.by_class[self.codes]


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
