"""Bounds of the exact model's scores, and labels that cannot change at the optimum, for every kind of classifier here.

What is proven about a label follows from the intervals of the scores:

- two classes: the interval does not contain 0;
- one against the rest: the lower end of the winner is above the upper end of every other class;
- pairs: the votes that are certain are counted for the winner, those that are open for the other class, which must then have fewer (or
  as many, if the tie goes to the winner; with break_ties, if the sums of scores that decide the tie are certain, too);
- Crammer and Singer: the differences between the winner's score and every other one are above 0 (`joint_ball`).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.balls import BallsMixin
from dualgap.estimators.labelled import coded
from dualgap.proof import JointPart, ProofError, bounds_of, feature_status, margins_of, row_status

__all__ = ["BoundsMixin", "FeatureMixin", "Pairs", "class_winners_proven"]


class BoundsMixin(BallsMixin):
    """`decision_bounds`, `predict_proven`, `support_status` of classifiers."""

    classes_: np.ndarray

    def decision_bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Bound the scores that the exact model gives to new samples.

        The exact model is the minimiser of the objective that `fit` was asked to minimise. `fit` stops at a certified gap, which says
        how far each score can be from the exact one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        low, high : arrays of the shape of `decision_function`
            With Crammer and Singer's problem and a free intercept, scores are known up to a number that is the same for all classes;
            it is chosen so that the intercepts have the mean of `intercept_`.

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> low, high = LinearSVC(C=0.1, tol=1e-6).fit(X, y).decision_bounds(X)
        >>> float((high - low).max()) < 0.05
        True
        """
        low, high = self._bounds(X)
        return (low[:, 0], high[:, 0]) if low.shape[1] == 1 else (low, high)

    def predict_proven(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predict labels, and say which of them cannot change at the optimum.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        labels : array of n labels, as of `predict`
        proven : array of n bools
            True where the exact model is proven to give the same label. False says that this gap does not tell; a smaller `tol` may.

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> labels, proven = LinearSVC(C=0.1, tol=1e-6).fit(X, y).predict_proven(X)
        >>> float(proven.mean()) > 0.95
        True
        """
        check_is_fitted(self)
        labels = self.predict(X)  # type: ignore[attr-defined]
        return labels, self._proven(np.searchsorted(self.classes_, labels), X)

    def support_status(self, X: Any = None, y: Any = None) -> np.ndarray:
        """Say for each training row what is certain of its dual variable at the optimum.

        "out": it is 0, so the row is no support vector of the exact model. "bound": it is at its upper bound, which it has with the hinge
        and the smooth hinge. "free": a support vector below its bound. "open": this gap does not tell. With the logistic loss all rows
        are "free". With Crammer and Singer's problem "out" is a row without loss, "bound" one whose own class is not among the best.

        Parameters
        ----------
        X, y : the training rows, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        array of n strings, or of shape (n, classes) or (n, pairs of classes), a column for each problem
            Rows that have no part in a problem, or weight 0, are "out" there.

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> status = LinearSVC(C=0.1, loss="hinge", tol=1e-8).fit(X, y).support_status()
        >>> sorted(set(status.tolist()))[:2]
        ['bound', 'open']
        """
        check_is_fitted(self)
        weights = None
        if X is None:
            kept = self._kept_data("support_status")
            X, y, weights = kept.X, kept.y, kept.sample_weight
        elif y is None:
            raise ValueError("support_status needs the labels of the rows: give y beside X, or neither")
        codes = coded(np.asarray(y).ravel(), self.classes_, weights)
        found = self._row_statuses(X, codes)
        if weights is not None:
            found[np.asarray(weights) == 0.0] = "out"
        return found[:, 0] if found.shape[1] == 1 else found

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _proven(self, codes: np.ndarray, X: Any) -> np.ndarray:
        """Return which of the labels with these codes are proven."""
        balls = self._ready_balls()
        if hasattr(balls, "proven"):
            return np.asarray(balls.proven(codes, self._new_rows(X)))
        low, high = self._bounds(X)
        if low.shape[1] == 1:
            return np.where(codes == 1, low[:, 0] > 0.0, high[:, 0] <= 0.0)
        return class_winners_proven(codes, low, high)

    def _row_statuses(self, X: Any, codes: np.ndarray) -> np.ndarray:
        """Return the status of training rows, a column for each problem."""
        balls = self._ready_balls()
        if hasattr(balls, "row_status"):
            return np.asarray(balls.row_status(codes, self._new_rows(X)))[:, None]
        low, high = bounds_of(balls, self._new_rows(X))
        loss = self._loss()
        columns = []
        for k in range(low.shape[1]):
            y = np.where(codes == (1 if low.shape[1] == 1 else k), 1.0, -1.0)
            columns.append(row_status(loss, *margins_of(y, low[:, k], high[:, k])))
        return np.stack(columns, axis=1)


class FeatureMixin:
    """`feature_status` of linear models."""

    def feature_status(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Say for each feature whether its coefficient in the exact model is "zero" or "nonzero"; "open" where this gap does not tell.

        An l1 penalty (l1_ratio > 0) or a bound of 0 makes coefficients zero. With any penalty, a feature has the coefficient zero if only
        rows have it that are no support vectors.

        Parameters
        ----------
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        array of d strings, or of shape (classes, d)

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> status = LinearSVC(C=0.05, l1_ratio=0.9, tol=1e-8).fit(X, y).feature_status()
        >>> sorted(set(status.tolist()))
        ['nonzero', 'zero']
        """
        check_is_fitted(self)
        duals = None
        if X is None:
            kept = self._kept_data("feature_status")  # type: ignore[attr-defined]
            X, y, sample_weight, duals = kept.X, kept.y, kept.sample_weight, kept.duals
        parts = self._bound_parts(X, y, sample_weight, duals)  # type: ignore[attr-defined]
        if isinstance(parts[0], JointPart):
            raise ProofError(
                "feature_status: a problem over all classes has no l1 penalty, and no coefficient of it is zero for certain"
            )
        found = [feature_status(part.problem, part.coef, part.intercept, part.dual) for part in parts]
        return found[0] if len(found) == 1 else np.stack(found)


# --------------------------------------------------------------------------------------------------------------------------- labels


def class_winners_proven(codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return in which rows the lower end of the class given is above the upper ends of all others."""
    rows = np.arange(len(codes))
    others = high.copy()
    others[rows, codes] = -np.inf
    return low[rows, codes] > others.max(axis=1)


class Pairs:
    """Bounds of the scores of all pairs of K classes, positive for the first of a pair, and what they prove about votes."""

    def __init__(self, low: np.ndarray, high: np.ndarray, K: int) -> None:
        self.least, self.most = np.zeros((len(low), K), dtype=np.intp), np.zeros((len(low), K), dtype=np.intp)
        self.low, self.high = np.zeros((len(low), K)), np.zeros((len(low), K))
        for k, (i, j) in enumerate(combinations(range(K), 2)):
            # A score of exactly 0 is a vote for one class in `predict` and for the other in `decision_function`: it counts as open.
            first, second = low[:, k] > 0.0, high[:, k] < 0.0
            self.least[:, i] += first
            self.least[:, j] += second
            self.most[:, i] += ~second
            self.most[:, j] += ~first
            for at, down, up in ((i, low[:, k], high[:, k]), (j, -high[:, k], -low[:, k])):
                self.low[:, at] += down
                self.high[:, at] += up
        slack = 4.0 * K * 2.0**-52 * np.maximum(np.abs(self.low), np.abs(self.high))
        self.low, self.high = self.low - slack, self.high + slack

    def proven(self, codes: np.ndarray, break_ties: bool) -> np.ndarray:
        """Return in which rows the class given wins, however the open pairs fall."""
        rows, K = np.arange(len(codes)), self.least.shape[1]
        found = np.ones(len(codes), dtype=bool)
        for j in range(K):
            ahead = self.least[rows, codes] - self.most[:, j]
            tie = self.low[rows, codes] > self.high[:, j] if break_ties else codes < j
            found &= (codes == j) | (ahead > 0) | ((ahead == 0) & tie)
        return found

    def by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of scikit-learn's score of each class: its votes plus s/(3(|s| + 1)) of the sum s of its pairs' scores."""

        def squeezed(s: np.ndarray) -> np.ndarray:
            return s / (3.0 * (np.abs(s) + 1.0))

        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(self.low), squeezed(self.low), -1.0 / 3.0)
            high = np.where(np.isfinite(self.high), squeezed(self.high), 1.0 / 3.0)
        return self.least + low - 1e-12, self.most + high + 1e-12
