"""Bounds of the exact model's predictions, and the dual variables that are settled, for every kind of regression here."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.core import ROUNDOFF, make_loss
from dualgap.estimators.balls import BallsMixin
from dualgap.estimators.common import invalid_parameters, validated_rows
from dualgap.estimators.proving import ProvableMixin, refuse_function
from dualgap.estimators.targets import FittedPart, Targets
from dualgap.problem import as_features
from dualgap.proof import Table, TargetPart, row_status

__all__ = ["LinearPredictionMixin", "ProvableRegressionMixin", "RegressionBoundsMixin", "regression_loss"]

WITH_EPSILON = ("epsilon_insensitive", "squared_epsilon_insensitive")


@invalid_parameters()
def regression_loss(model: Any) -> Any:
    """Return the loss object of an estimator; refuse one of classification."""
    takes_epsilon = isinstance(model.loss, str) and model.loss in WITH_EPSILON  # others do not use it, as kernels their `degree`
    loss = make_loss(model.loss, model.delta, model.epsilon if takes_epsilon else None, model.quantile)
    if not getattr(loss, "regression", False):
        raise ValueError(
            f"loss={model.loss!r} is a loss of classification; {type(model).__name__} takes 'epsilon_insensitive', "
            "'squared_epsilon_insensitive', 'huber', 'absolute', 'quantile', 'squared_error' or a ResidualLoss"
        )
    return loss


class RegressionBoundsMixin(BallsMixin):
    """`prediction_bounds` and `support_status` of regressions."""

    _flat: bool  # whether y was one-dimensional

    def prediction_bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Bound the predictions of the exact model for new samples.

        The exact model is the minimiser of the objective that `fit` was asked to minimise. `fit` stops at a certified gap, which says
        how far each prediction can be from the exact one. The bounds say nothing of the noise in the targets.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        low, high : arrays of the shape of `predict`

        Examples
        --------
        >>> from dualgap import LinearSVR
        >>> from sklearn.datasets import make_regression
        >>> X, y = make_regression(100, 5, noise=1.0, random_state=0)
        >>> model = LinearSVR(tol=1e-8).fit(X, y)
        >>> low, high = model.prediction_bounds(X)
        >>> bool((low <= model.predict(X)).all()), bool((high - low).max() < 1.0)
        (True, True)
        """
        return self._shaped(*self._bounds(X))

    def _shaped(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (low[:, 0], high[:, 0]) if self._flat else (low, high)

    def support_status(self, X: Any = None, y: Any = None) -> np.ndarray:
        """Say for each training row what is certain of its dual variable at the optimum.

        "out": it is 0, so the row is no support vector of the exact model: its residual is within ε. "bound": it is at one of its bounds,
        which it has unless the loss is squared. "free": a support vector between them. "open": this gap does not tell.

        Parameters
        ----------
        X, y : the training rows, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.

        Returns
        -------
        array of n strings, or of shape (n, targets)
            Rows of weight 0 are "out".

        Examples
        --------
        >>> from dualgap import LinearSVR
        >>> from sklearn.datasets import make_regression
        >>> X, y = make_regression(100, 5, noise=1.0, random_state=0)
        >>> status = LinearSVR(epsilon=0.5, tol=1e-10).fit(X, y).support_status()
        >>> sorted(set(status.tolist()))[0]
        'bound'
        """
        check_is_fitted(self)
        weights = None
        if X is None:
            kept = self._kept_data("support_status")
            X, y, weights = kept.X, kept.y, kept.sample_weight
        elif y is None:
            raise ValueError("support_status needs the targets of the rows: give y beside X, or neither")
        low, high = self._training_bounds(X)
        values = Targets(X, y, None, len(low)).values
        loss = self._loss()
        columns = [row_status(loss, *residual_bounds(values[:, j], low[:, j], high[:, j])) for j in range(low.shape[1])]
        found = np.stack(columns, axis=1)
        if weights is not None:
            found[np.asarray(weights) == 0.0] = "out"
        return found[:, 0] if self._flat else found

    def _bound_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[FittedPart]:
        return self._parts(X, y, sample_weight, duals)

    def _parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[FittedPart]:
        """Return the problem of each target with its model; the dual variables are those given, or those of dual_coef_."""
        raise NotImplementedError

    def _training_bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the predictions for the training rows, a column for each target."""
        return self._bounds(X)

    def _loss(self) -> Any:
        return regression_loss(self)


class ProvableRegressionMixin(ProvableMixin):
    """`save_proof` of regressions."""

    def _proof_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> tuple[Table, list[Any]]:
        refuse_function(self)
        parts: list[FittedPart] = self._parts(X, y, sample_weight, duals)  # type: ignore[attr-defined]
        table = Table(parts[0].problem.X, np.stack([part.problem.targets for part in parts], axis=1), [])
        made = [
            TargetPart(part.problem, part.coef, part.intercept, part.dual, part.gap, j, f"target {j}", part.objective)
            for j, part in enumerate(parts)
        ]
        return table, made


class LinearPredictionMixin(RegressionBoundsMixin):
    """Predictions of linear regressions."""

    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions for samples: one each, or a column for each target."""
        rows = self._new_rows(X)
        scores = np.asarray(rows @ np.atleast_2d(self.coef_).T) + self.intercept_
        return scores[:, 0] if self._flat else scores

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return as_features(validated_rows(self, X), columns=self.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


def residual_bounds(targets: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the residuals, prediction − target, from bounds of the predictions; the rounding of the differences is added."""
    off = 4.0 * ROUNDOFF
    return low - targets - off * (np.abs(low) + np.abs(targets)), high - targets + off * (np.abs(high) + np.abs(targets))
