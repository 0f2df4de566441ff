"""Proof: what the certificate of a fitted estimator proves of the exact model. `model.proof_` is one.

The exact model is the minimiser of the objective that `fit` was asked to minimise. `fit` stops at a certified gap, which says in which
ball the exact model is, a ball for each problem of the fit. The balls are made from the training data when they are first asked for, or
when the model is pickled; they hold no training data but the rows of a kernel machine's expansions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import LeaveOneOut, Pairs, Receipt, bounds_of_margins, feature_status, labels_by_class, row_status
from dualgap.core import ROUNDOFF
from dualgap.estimators.fitting import refuse_uncertified
from dualgap.estimators.forgetting import forget_rows, leave_one_out
from dualgap.estimators.joint_fit import JointBall, joint_ball_of
from dualgap.estimators.model import Kept, Model, fit_of
from dualgap.estimators.samples import Labelled, Numbers, coded, is_store
from dualgap.problem import Problem
from dualgap.proof import BinaryPart, JointPart, ProofError, Table, TargetPart, ball_of, bounds_of, make_proof, without_data

__all__ = [
    "ClassProof",
    "PairProof",
    "Proof",
    "TargetProof",
    "binary_part",
    "decision_bounds",
    "predict_proven",
    "prediction_bounds",
    "table_of",
    "target_parts",
]

CHANGED = 2.0  # gap found again / gap of the fit, above which the training data must have been changed since


NO_FUNCTION = (
    "{} cannot be had for a function as kernel, which a checker does not have and whose rounding errors are unknown; give the kernel "
    "matrix as X with kernel='precomputed'"
)


class Proof:
    """What a fitted estimator's certificate proves of the exact model. It reads the model and has no state of its own.

    The model has `_fit`, see `fitted`, and three methods: `_parts` makes the problems of the fit again, with models and dual
    variables; `_rows_for_bounds` checks rows; `_loss` returns the loss of the problems.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    # -------------------------------------------------------------------------------------------------------------------- answers

    def scores(self, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Bound the scores, or predictions, that the exact model gives to new samples.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            With kernel="precomputed", the kernel values with all training rows.
        diagonal : array of n numbers, for kernel="precomputed" alone
            The values k(x, x) of the new samples, which the matrix X does not have.

        Returns
        -------
        low, high : arrays of the shape of `decision_function`, or of `predict` of a regression
            With Crammer and Singer's problem and a free intercept, scores are known up to a number that is the same for all classes;
            it is chosen so that the intercepts have the mean of `intercept_`. An SVC's score of the shape "ovr" is a number of votes plus
            a part in (−1/3, 1/3), and so are its bounds.

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> low, high = LinearSVC(C=0.1, tol=1e-6).fit(X, y).proof_.scores(X)
        >>> float((high - low).max()) < 0.05
        True
        """
        return self._shaped(*self._bounds(X, diagonal))

    def support(self, X: object = None, y: object = None) -> np.ndarray:
        """Say for each training row what is certain of its dual variable at the optimum.

        "out": it is 0, so the row is no support vector of the exact model. "bound": it is at one of its bounds, which it has unless the
        loss is squared. "free": a support vector between them. "open": this gap does not tell. With the logistic loss all rows are
        "free". With Crammer and Singer's problem "out" is a row without loss, "bound" one whose own class is not among the best.

        Parameters
        ----------
        X, y : the training rows, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        array of n strings, or with a column for each class, pair of classes or target
            Rows that have no part in a problem, or weight 0, are "out" there.

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> status = LinearSVC(C=0.1, loss="hinge", tol=1e-8).fit(X, y).proof_.support()
        >>> sorted(set(status.tolist()))[:2]
        ['bound', 'open']
        """
        check_is_fitted(self.model)
        weights = None
        if X is None:
            kept = self._kept("support")
            X, y, weights = kept.X, kept.y, kept.sample_weight
        elif y is None:
            raise ValueError("support needs the labels or targets of the rows: give y beside X, or neither")
        found = self._statuses(X, y, weights)
        if weights is not None:
            found[np.asarray(weights) == 0.0] = "out"
        return found[:, 0] if self._is_flat(found) else found

    def features(self, X: object = None, y: object = None, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Say for each feature whether its coefficient in the exact model is "zero" or "nonzero"; "open" where this gap does not tell.

        An l1 penalty (l1_ratio > 0) or a bound of 0 makes coefficients zero. With any penalty, a feature has the coefficient zero if only
        rows have it that are no support vectors. For linear models.

        Parameters
        ----------
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        array of d strings, or of shape (classes, d) or (targets, d)

        Examples
        --------
        >>> from dualgap import LinearSVC
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(100, random_state=0)
        >>> status = LinearSVC(C=0.05, l1_ratio=0.9, tol=1e-8).fit(X, y).proof_.features()
        >>> sorted(set(status.tolist()))
        ['nonzero', 'zero']
        """
        if hasattr(self.model, "kernel"):
            raise ProofError("features are for linear models; the expansion of a kernel machine has rows in place of features")
        _, parts = self._parts("features", self._kept("features", X, y, sample_weight))
        if isinstance(parts[0], JointPart):
            raise ProofError("features: a problem over all classes has no l1 penalty, and no coefficient of it is zero for certain")
        found = [feature_status(part.problem, part.coef, part.intercept, part.dual) for part in parts]
        return found[0] if len(found) == 1 else np.stack(found)

    def save(
        self,
        path: str | os.PathLike[str],
        X: object = None,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        preparation: Sequence[str] = (),
        check: bool = True,
    ) -> None:
        """Write a proof of the certified gaps that anybody can check without dualgap.

        `dualgap verify PROOF DATA` checks it, and so does dualgap/proof/verify.py, a single file for plain Python. The proof is about the
        data that the estimator was fitted on: after the preparation, in a pipeline. With several classes the file has a proof for each
        problem, for a path for each model.

        Parameters
        ----------
        path : path
            The file to write; docs/proof-format.md describes it.
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.
        data : path, optional
            Write the data there too, in the format's own canonical text.
        preparation : sequence of str
            How the training data were made from what others have, a step each, in words.
        check : bool
            Whether to evaluate the claims in exact arithmetic first, which takes some seconds for each million non-zeros.
        """
        table, parts = self._parts("a proof", self._kept("a proof", X, y, sample_weight))
        make_proof(table, parts, preparation, check).save(path, data)

    def balls(self) -> Any:
        """Return the balls of the exact models, one for each problem of the fit; for a joint problem one object for all classes."""
        check_is_fitted(self.model)
        refuse_uncertified(self.model, "bounds of the exact model")
        fit = fit_of(self.model)
        if fit.balls is None:
            kept = self._kept("bounds of the exact model")
            _, parts = self._parts("bounds of the exact model", kept)
            fit.balls = self._without_data(parts, [_ball_of(part) for part in parts], kept)
        if isinstance(fit.balls, str):  # the reason why a saved model has none
            raise ProofError(fit.balls)
        return fit.balls

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _shaped(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds in the shape of the model's scores."""
        return (low[:, 0], high[:, 0]) if self._is_flat(low) else (low, high)

    def _is_flat(self, columns: np.ndarray) -> bool:
        """Return whether the model gives one number a row."""
        return columns.shape[1] == 1

    def _statuses(self, X: object, y: object, weights: ArrayLike | None) -> np.ndarray:
        """Return the status of training rows, a column for each problem."""
        raise NotImplementedError

    def _without_data(self, parts: list[Any], balls: list[Any], kept: Kept) -> Any:
        """Return the balls without the training data."""
        return balls[0] if isinstance(parts[0], JointPart) else without_data(balls)

    # --------------------------------------------------------------------------------------------------------------- training data

    def _kept(self, what: str, X: object = None, y: object = None, sample_weight: ArrayLike | None = None) -> Kept:
        """Return the training data: those given, or those of the fit."""
        check_is_fitted(self.model)
        refuse_uncertified(self.model, what)
        kept = fit_of(self.model).kept if X is None else Kept(X, y, sample_weight, None)
        if kept is None:
            raise ProofError(
                f"{what} needs the training data, which this model has not: it was loaded from a file, or trained by partial_fit or on a "
                "cluster; fit it again, or give X, y and sample_weight as in fit where the method takes them"
            )
        if is_store(kept.X):
            raise ProofError(f"{what} needs the rows in memory; these are in a store")
        if not hasattr(self.model, "certificate_") and not hasattr(self.model, "certificates_"):
            raise ProofError(
                f"{what} needs a certificate for all training data; this model was trained by partial_fit or on a cluster"
            )
        return kept

    def _parts(self, what: str, kept: Kept) -> tuple[Table, list[Any]]:
        if callable(getattr(self.model, "kernel", None)):
            raise ProofError(NO_FUNCTION.format(what))
        found: tuple[Table, list[Any]] = self.model._parts(kept.X, kept.y, kept.sample_weight, kept.duals)
        return found

    def _bounds(self, X: object, diagonal: ArrayLike | None = None, training: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the scores, a column for each problem."""
        balls = self.balls()
        rows, diagonal = self.model._rows_for_bounds(X, diagonal, training)
        return balls.bounds(rows) if isinstance(balls, JointBall) else bounds_of(balls, rows, diagonal)


class ClassProof(Proof):
    """Proof of a classifier, one class against the rest or jointly."""

    def labels(self, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Predict labels, and say which of them cannot change at the optimum.

        Parameters
        ----------
        X, diagonal : as of `scores`

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
        >>> labels, proven = LinearSVC(C=0.1, tol=1e-6).fit(X, y).proof_.labels(X)
        >>> float(proven.mean()) > 0.95
        True
        """
        check_is_fitted(self.model)
        labels = self.model.predict(X)
        return labels, self._proven(np.searchsorted(self.model.classes_, labels), X, diagonal)

    def leave_one_out(self, X: object = None, y: object = None, sample_weight: ArrayLike | None = None) -> LeaveOneOut:
        """Bound the leave-one-out error of the exact model at the C of the fit, from this one fit.

        Parameters
        ----------
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        LeaveOneOut
            `low` and `high` bound the error, `status` says for each row whether its label is proven "right" or "wrong" or is "open", and
            `exact()` settles the open rows.
        """
        return leave_one_out(self.model, *self._parts("leave_one_out", self._kept("leave_one_out", X, y, sample_weight)))

    def forget(self, rows: ArrayLike, max_relative_gap: float = 0.01) -> Receipt | list[Receipt]:
        """Forget training rows: certify the model on the rows that stay, and return a receipt of how far retraining could take it.

        The certificate and the distance take time proportional to the rows forgotten and their features. Coefficients and intercept are
        kept while the certified relative gap is at most `max_relative_gap`; beyond it the model is trained again on the rows that stay,
        from where it is, to the relative gap `tol`. C and the weights of the rows that stay are those of the fit. Attributes such as
        `certificate_`, `support_` and `dual_coef_` are then about the rows that stay, but `support_` keeps the row numbers of the fit.
        Until the model is trained again, `status_` is still about the fit: `max_relative_gap` bounds the gap now, and not `tol`.

        The caller's arrays are not changed: delete the rows there, too. For linear models.

        Parameters
        ----------
        rows : numbers of rows, or a mask
            Rows of the data that `fit` was given. Later calls use the same numbers.
        max_relative_gap : float
            0 trains again in any case, infinity never.

        Returns
        -------
        Receipt, or a list of them, one for each class against the rest
        """
        return forget_rows(self.model, rows, max_relative_gap, lambda: self._parts("forget", self._kept("forget")))

    def _proven(self, codes: np.ndarray, X: object, diagonal: ArrayLike | None) -> np.ndarray:
        """Return which of the labels with these codes are proven."""
        balls = self.balls()
        if isinstance(balls, JointBall):
            return np.asarray(balls.proven(codes, self.model._rows_for_bounds(X, diagonal, False)[0]))
        return self._certain(codes, *self._bounds(X, diagonal))

    def _certain(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return labels_by_class(codes, low, high)[0]

    def _statuses(self, X: object, y: object, weights: ArrayLike | None) -> np.ndarray:
        codes, balls = coded(np.asarray(y).ravel(), self.model.classes_, weights), self.balls()
        if isinstance(balls, JointBall):
            return np.asarray(balls.row_status(codes, self.model._rows_for_bounds(X, None, True)[0]))[:, None]
        low, high = self._bounds(X, training=True)
        found = np.full(low.shape, "out", dtype="U5")
        for k, (rows, signs) in enumerate(self._sides(codes)):
            found[rows, k] = row_status(self.model._loss(), *bounds_of_margins(signs, low[rows, k], high[rows, k]))
        return found

    def _sides(self, codes: np.ndarray) -> list[tuple[Any, np.ndarray]]:
        """Return the rows of each problem and their signs."""
        K = len(self.model.classes_)
        return [(slice(None), np.where(codes == k, 1.0, -1.0)) for k in ([1] if K == 2 else range(K))]


class PairProof(ClassProof):
    """Proof of an SVC: with more than two classes, pairs of classes vote.

    A label is then proven if its class wins however the pairs fall that this gap leaves open.
    """

    def _shaped(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if low.shape[1] == 1 or self.model.decision_function_shape == "ovo":
            return super()._shaped(low, high)
        return Pairs(low, high, len(self.model.classes_)).by_class()

    def _certain(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        if low.shape[1] == 1:
            return super()._certain(codes, low, high)
        return Pairs(low, high, len(self.model.classes_)).labels(codes, self.model.break_ties)[0]

    def _sides(self, codes: np.ndarray) -> list[tuple[Any, np.ndarray]]:
        K, sides = len(self.model.classes_), []
        for i, j in [(1, 0)] if K == 2 else combinations(range(K), 2):
            rows = np.flatnonzero((codes == i) | (codes == j))
            sides.append((rows, np.where(codes[rows] == i, 1.0, -1.0)))
        return sides

    def _without_data(self, parts: list[Any], balls: list[Any], kept: Kept) -> Any:
        X, y = self.model._checked(kept.X, kept.y)
        codes = coded(y, self.model.classes_, kept.sample_weight)
        places = [np.flatnonzero((codes == part.positive) | (codes == part.negative)) for part in parts]
        return without_data(balls, self.model._trained_on(kept.X, X, len(y)), places)


class TargetProof(Proof):
    """Proof of a regression. The bounds say nothing of the noise in the targets."""

    def _is_flat(self, columns: np.ndarray) -> bool:
        return bool(self.model._flat)

    def _statuses(self, X: object, y: object, weights: ArrayLike | None) -> np.ndarray:
        low, high = self._bounds(X, training=True)
        values, loss = Numbers(X, y, None, len(low)).values, self.model._loss()
        off = 4.0 * ROUNDOFF * (np.maximum(np.abs(low), np.abs(high)) + np.abs(values))  # of the differences
        columns = [
            row_status(loss, low[:, j] - values[:, j] - off[:, j], high[:, j] - values[:, j] + off[:, j])
            for j in range(low.shape[1])
        ]
        return np.stack(columns, axis=1)

    def _without_data(self, parts: list[Any], balls: list[Any], kept: Kept) -> Any:
        return without_data(balls)


# ------------------------------------------------------------------------------------------------------------- on the estimators


# Methods of the estimators, without a base class for them: the questions that are asked most.
def predict_proven(self: Any, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Predict labels, and say which of them cannot change at the optimum: `proof_.labels(X)`."""
    labels, proven = self.proof_.labels(X, diagonal)
    return labels, proven


def decision_bounds(self: Any, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Bound the scores that the exact model gives to new samples: `proof_.scores(X)`."""
    low, high = self.proof_.scores(X, diagonal)
    return low, high


def prediction_bounds(self: Any, X: object, diagonal: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Bound the predictions of the exact model for new samples: `proof_.scores(X)`."""
    low, high = self.proof_.scores(X, diagonal)
    return low, high


# ------------------------------------------------------------------------------------------------------------------------- parts


def binary_part(
    model: Model, j: int, problem: Problem, found: tuple[Any, float, Any], kept: bool, sides: Any, title: str
) -> BinaryPart:
    """Return the part of problem j of a classifier: the gap is that of the fit if its dual variables were kept, else the exact one."""
    coef, b, dual = found
    if dual is None:
        raise ProofError(f"the model was trained on {fit_of(model).n_rows} rows; X has {problem.n}")
    gap, objective = (float(np.atleast_1d(value)[j]) for value in (model.dual_gap_, model.objective_))
    return BinaryPart(problem, coef, b, dual, gap if kept else None, sides[0], sides[1], title, objective)


def table_of(model: Model, data: Labelled) -> Table:
    """Return the data as a proof describes them; refuse other classes than the model's."""
    if not np.array_equal(model.classes_, data.classes):
        raise ProofError(f"y has the classes {data.classes.tolist()}, the model was trained on {model.classes_.tolist()}")
    return Table(data.X, data.codes, data.classes.tolist())


def _ball_of(part: Any) -> Any:
    if isinstance(part, JointPart):
        return joint_ball_of(part)
    ball = ball_of(part.problem, part.coef, float(part.intercept), part.dual)
    if part.gap is not None and not ball.gap <= CHANGED * part.gap + 1e-6 * part.objective:
        raise ProofError(
            f"the training data are not those of the fit any more: the gap was {part.gap:.3g} and is {ball.gap:.3g} on what the "
            "arrays hold now; do not change them in place, or ask for bounds (or pickle the model) before"
        )
    return ball


def target_parts(
    model: Model, problems: Sequence[Problem], coefs: Sequence[np.ndarray], duals: Sequence[np.ndarray], kept: bool
) -> tuple[Table, list[TargetPart]]:
    """Return the data as a proof describes them, and the parts of a regression. The gaps are those of the fit if its duals were kept."""
    gaps, objectives = np.atleast_1d(model.dual_gap_), np.atleast_1d(model.objective_)
    found = zip(problems, coefs, model.intercept_.tolist(), duals, gaps.tolist(), objectives.tolist(), strict=True)
    parts = [
        TargetPart(problem, coef, b, dual, gap if kept else None, j, f"target {j}", objective)
        for j, (problem, coef, b, dual, gap, objective) in enumerate(found)
    ]
    return Table(problems[0].X, np.stack([problem.targets for problem in problems], axis=1), []), parts
