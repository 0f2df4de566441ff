"""Bounds of the exact model's scores, and labels that cannot change at the optimum, for every kind of classifier here.

A fitted model keeps a ball for each of its problems (`proof.ball`), made from the training data when it is first needed or when the model
is pickled. It holds no training data but the rows of a kernel machine's expansions.

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

from dualgap.estimators.joint_ball import joint_ball_of
from dualgap.estimators.on_store import is_store
from dualgap.problem import is_dask
from dualgap.proof import (
    JointPart,
    ProofError,
    ball_of,
    bounds_of,
    feature_status,
    forget_scores,
    margins_of,
    row_status,
    without_data,
)

__all__ = ["BoundsMixin", "FeatureMixin", "Pairs", "class_winners_proven"]

CHANGED = 2.0  # gap found again / gap of the fit, above which the training data must have been changed since


class BoundsMixin:
    """`decision_bounds`, `predict_proven`, `support_status`, `feature_status`. `fit` sets `_kept`; `_bound_parts` makes the problems."""

    classes_: np.ndarray
    _balls: Any  # a list of balls, a JointBall, or the reason why there is none

    def __getstate__(self) -> dict[str, Any]:
        if "_kept" in vars(self) and "_balls" not in vars(self):
            try:
                self._made_balls()
            except (ProofError, ValueError) as error:  # a model without a ball is saved all the same, with the reason
                self._balls = str(error)
        return dict(super().__getstate__())  # type: ignore[misc, call-overload]

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
        codes = self._codes(y, len(y))
        found = self._row_statuses(X, codes)
        if weights is not None:
            found[np.asarray(weights) == 0.0] = "out"
        return found[:, 0] if found.shape[1] == 1 else found

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _bound_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[Any]:
        """Return the problems of the model in use, with models and dual variables."""
        return list(self._parts(X, y, sample_weight, duals)[1])  # type: ignore[attr-defined]

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the scores, a column for each column of `decision_function`."""
        X = self._new_rows(X)
        balls = self._ready_balls()
        return balls.bounds(X) if hasattr(balls, "bounds") else bounds_of(balls, X)

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

    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked against those of training."""
        raise NotImplementedError

    def _loss(self) -> Any:
        """Return the loss object of the problems."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------------------------------- balls

    def _ready_balls(self) -> Any:
        """Return the balls of the problems, made now unless they are at hand."""
        check_is_fitted(self)
        if "_balls" not in vars(self):
            self._made_balls()
        if isinstance(self._balls, str):
            raise ProofError(self._balls)
        return self._balls

    def _made_balls(self) -> None:
        kept = self._kept_data("bounds of the exact model")
        parts = self._bound_parts(kept.X, kept.y, kept.sample_weight, kept.duals)
        self._balls = self._without_data(parts, [_ball_of(part) for part in parts], kept)

    def _without_data(self, parts: list[Any], balls: list[Any], kept: Any) -> Any:
        return balls[0] if isinstance(parts[0], JointPart) else without_data(balls)

    def _kept_data(self, what: str) -> Any:
        kept = vars(self).get("_kept")
        if kept is None:
            trained = "a model trained by partial_fit, on a cluster or by an older dualgap has no such bounds"
            raise ProofError(f"{what} need the training data, which this model does not have; {trained}; use fit")
        if is_store(kept.X) or is_dask(kept.X):
            raise ProofError(f"{what} need the training rows in memory; these are in a store or on a cluster")
        return kept

    def _codes(self, y: Any, n: int) -> np.ndarray:
        y = np.asarray(y).ravel()
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if not (self.classes_[codes] == y).all():
            strange = y[self.classes_[codes] != y].tolist()[0]
            raise ValueError(f"y has the label {strange!r}, which is not one of the classes {self.classes_.tolist()}")
        return codes


class FeatureMixin:
    """`feature_status` of linear models."""

    def feature_status(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Say for each feature whether its coefficient in the exact model is "zero" or "nonzero"; "open" where this gap does not tell.

        Only an l1 penalty (l1_ratio > 0), or a bound of 0, makes coefficients zero for certain.

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
                "feature_status: Crammer and Singer's problem has no l1 penalty, and no coefficient of it is zero for certain"
            )
        found = []
        for part in parts:
            found.append(feature_status(part.problem, part.coef, part.intercept, part.dual))
            forget_scores(part.problem)
        return found[0] if len(found) == 1 else np.stack(found)


def _ball_of(part: Any) -> Any:
    if isinstance(part, JointPart):
        return joint_ball_of(part)
    try:
        ball = ball_of(part.problem, part.coef, float(part.intercept), part.dual)
    finally:
        forget_scores(part.problem)
    if part.gap is not None and not ball.gap <= CHANGED * part.gap + 1e-6 * part.objective:
        raise ProofError(
            f"the training data are not those of the fit any more: the gap was {part.gap:.3g} and is {ball.gap:.3g} on what the "
            "arrays hold now; do not change them in place, or ask for bounds (or pickle the model) before"
        )
    return ball


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
