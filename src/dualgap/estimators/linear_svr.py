"""LinearSVR: a linear regression with a certificate. Training is the driver's and the solvers'; here are parameters and attributes."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from dualgap.core import kept
from dualgap.estimators.fitting import run_over, signed_dual, solve_tasks
from dualgap.estimators.linear import LinearModel
from dualgap.estimators.model import Kept, fit_of
from dualgap.estimators.parameters import Loss, checked, estimator, invalid_parameters, regression_loss
from dualgap.estimators.progress import with_callbacks
from dualgap.estimators.proof import TargetProof, prediction_bounds, target_parts
from dualgap.estimators.samples import NUMERIC, Duals, Numbers, Rows, is_store, store_targets, validated
from dualgap.proof import ProofError, Table, TargetPart
from dualgap.solvers import get_solver

if TYPE_CHECKING:
    from dualgap.store import Store

__all__ = ["LinearSVR"]


@estimator
class LinearSVR(RegressorMixin, LinearModel):
    """Linear support vector regression whose fit ends on a certified duality gap.

    Minimises, for targets t and the weights s of the samples,

        C · Σ sᵢ φ(xᵢ·w + b − tᵢ) + l1_ratio·‖w‖₁ + (1 − l1_ratio)/2·‖w‖²

    divided by C·Σs, which changes no model. With several targets, one such problem for each of them over the same rows.

    Parameters
    ----------
    epsilon : float
        ε: the residual up to which the two ε-insensitive losses are 0. Other losses do not use it.
    loss : name or a `dualgap.ResidualLoss`
        φ(r) of a residual r: "epsilon_insensitive", (|r| − ε)₊; "squared_epsilon_insensitive", its square; "absolute", |r|;
        "squared_error", r²; "huber", r²/(2·delta) up to |r| = delta and |r| − delta/2 beyond; "quantile", quantile·|r| where the
        prediction is below its target and (1 − quantile)·|r| where it is above.
    delta : float, optional
        Residual at which loss="huber" becomes linear (1.35 by default).
    quantile : float, optional
        The quantile that loss="quantile" estimates (0.5 by default).

    Attributes
    ----------
    coef_ : array of shape (d,), or (targets, d) where y has two dimensions
    intercept_ : array of shape (1,) or (targets,)
    n_features_in_, feature_names_in_ : the columns seen in training
    n_iter_ : int, the most epochs that any problem took
    objective_, dual_gap_ : float, or one a target
        The objective (the mean of scikit-learn's: that one divided by C·Σs), and how far above the least possible one it is at most.
    certificate_ : Certificate, or a list of them, one a target
    history_ : Trace, or a list of them: objective, gap, seconds at each evaluation
    status_ : "converged" (where every certified gap is within `tol`), else as in `LinearSVC`
    support_ : rows with a dual variable other than 0
    n_support_ : how many of them each target has
    dual_coef_ : array of shape (targets, number of support vectors)
        C·sᵢ·βᵢ, positive where the prediction is below its target: for l1_ratio=0 and no bounds on
        coefficients, coef_ is dual_coef_ @ X[support_].

    Notes
    -----
    Ctrl-C ends a fit early: the best model so far is kept with its certificate, and a warning tells the gap.

    Examples
    --------
    >>> from dualgap import LinearSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=100.0, random_state=0).fit(X, y)
    >>> model.status_, model.certificate_.relative_gap <= 1e-4
    ('converged', True)
    """

    epsilon: float = 0.0
    loss: Loss = "epsilon_insensitive"
    delta: float | None = None
    quantile: float | None = None

    _flat: bool = field(init=False)  # whether y was one-dimensional
    _proof = TargetProof
    prediction_bounds = prediction_bounds

    @with_callbacks
    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with targets y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a `dualgap.store.Store`, which has its own targets
            Dask collections are for `dualgap.dask.LinearSVR`.
        y : array of n numbers, or of shape (n, targets)
        sample_weight : n numbers, optional
        """
        parameters = checked(self)
        with invalid_parameters():
            get_solver(self.solver)
        data = Numbers(*self._checked(X, y), sample_weight)
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            self._train(
                Kept(X, y, sample_weight), data, parameters, partial(solve_tasks, budget=parameters.budget, run=run_over(X))
            )
            return self

    def _checked(self, X: object, y: object) -> tuple[Rows | Store, np.ndarray]:
        return (X, store_targets(self, X, y)) if is_store(X) else validated(self, X, y, **NUMERIC)

    def _targets(self, X: object, y: np.ndarray) -> Numbers:
        return Numbers(X, y, None)

    def _parts(self, X: object, y: object, sample_weight: ArrayLike | None, duals: Duals) -> tuple[Table, list[TargetPart]]:
        data, parameters = Numbers(*validated(self, X, y, reset=False, **NUMERIC), sample_weight), checked(self)
        if (n := fit_of(self).n_rows) != data.n:
            raise ProofError(f"the model was trained on {n} rows; X has {data.n}")
        found = duals or [signed_dual(self, j, data.weights, parameters.C) for j in range(data.count)]
        make = self._maker(data, parameters)
        return target_parts(self, [make(j) for j in range(data.count)], list(np.atleast_2d(self.coef_)), found, duals is not None)

    def predict(self, X: object) -> np.ndarray:
        """Return the predictions for samples: one each, or a column for each target."""
        scores = self._scores(X)
        return scores[:, 0] if self._flat else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _loss(self) -> Any:
        return regression_loss(self)
