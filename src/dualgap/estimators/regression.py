"""What regressions share: the loss, and the predictions of linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.core import make_loss
from dualgap.estimators.common import invalid_parameters, linear_rows

__all__ = ["LinearPredictionMixin", "regression_loss"]

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


class LinearPredictionMixin:
    """Predictions of linear regressions."""

    _flat: bool  # whether y was one-dimensional

    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions for samples: one each, or a column for each target."""
        rows, _ = self._rows_for_bounds(X, None, False)
        scores = np.asarray(rows @ np.atleast_2d(self.coef_).T) + self.intercept_
        return scores[:, 0] if self._flat else scores

    def _rows_for_bounds(self, X: Any, diagonal: Any, training: bool) -> tuple[Any, None]:
        check_is_fitted(self)
        return linear_rows(self, X, diagonal), None

    def _loss(self) -> Any:
        return regression_loss(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags
