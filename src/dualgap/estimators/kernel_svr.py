"""SVR: kernel regression with a certificate, its attributes laid out as scikit-learn's. One problem for each target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from dualgap.core import kept, one_of
from dualgap.estimators.fitting import Task, keep, signed_dual, solve_tasks
from dualgap.estimators.kernel_model import KernelModel
from dualgap.estimators.model import Fit, Kept, fit_of
from dualgap.estimators.parameters import Loss, estimator, invalid_parameters, regression_loss
from dualgap.estimators.progress import with_callbacks
from dualgap.estimators.proof import TargetProof, prediction_bounds, target_parts
from dualgap.estimators.samples import NUMERIC, Duals, Numbers, supports
from dualgap.problem import Problem
from dualgap.proof import ProofError, Table, TargetPart
from dualgap.run import Trained, minimise

__all__ = ["SVR", "KernelRegression"]


class KernelRegression(RegressorMixin, KernelModel):
    """What SVR and NuSVR share: the fit of a problem for each target, and predictions. `_loss` makes the loss of the problems."""

    _flat: bool  # whether y was one-dimensional

    # -------------------------------------------------------------------------------------------------------------- fitting

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with targets y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
            With a callable kernel anything that has a length and takes an index, as long as the kernel understands it.
        y : array of n numbers, or of shape (n, targets)
        sample_weight : n numbers, optional
        """
        with invalid_parameters():
            C, budget = self._limits()
            one_of("indefinite", self.indefinite, ("error", "clip", "shift"))  # a stationary point, "uncertified", is for SVC alone
        given = Kept(X, y, sample_weight)
        X, y = self._checked(X, y, **NUMERIC)
        table, treated = self._table(X, len(y))
        data = Numbers(table, y, sample_weight)
        problems = self._problems(data, C)
        tasks = [Task(name, partial(problems.__getitem__, j), self._warm(data, j, C)) for j, name in enumerate(data.names())]
        solve = partial(solve_tasks, budget=budget, run=self._run())
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            self._train(given, X, data, tasks, budget, solve, treated, partial(self._keep, X, data))
            return self

    def _keep(self, X: object, data: Numbers, results: list[Trained]) -> None:
        """Set the fitted attributes."""
        signed = np.stack([r.coef for r in results])
        rows, counts = supports(signed)
        found = self._expansion_attributes(X, signed, rows.astype(np.int32))
        keep(self, results, Fit(data.n), n_support_=counts, _flat=data.flat, **found)

    def _run(self) -> Callable[..., Trained]:
        """Return what solves one problem, as `minimise` does."""
        return minimise

    def _problems(self, data: Numbers, C: float) -> list[Problem]:
        """Return the problem of each target, over one copy of the rows."""
        first = self._problem_over(self._square(data.X), data.values[:, 0], self._loss(), C, data.total, data.weights)
        return [first, *(first.variant(data.values[:, j]) for j in range(1, data.count))]

    def _warm(self, data: Numbers, j: int, C: float) -> Any:
        fitted = self.warm_start and fit_of(self).n_rows == data.n and len(self.intercept_) == data.count
        return (None, float(self.intercept_[j]), signed_dual(self, j, data.weights, C)) if fitted else None

    # ----------------------------------------------------------------------------------------------------------- prediction

    def _coefficients(self) -> np.ndarray:
        dual = self.dual_coef_
        return np.asarray(dual.toarray() if hasattr(dual, "toarray") else dual).T

    def predict(self, X: object) -> np.ndarray:
        """Return the predictions for samples: one each, or a column for each target.

        With kernel="precomputed", X has a column for each training row. Only the columns `support_` count; the others may be 0.
        """
        scores = self._scores(X)
        return scores[:, 0] if self._flat else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@estimator
class SVR(KernelRegression):
    """Support vector regression with kernels, whose fit ends on a certified duality gap.

    Minimises C·Σ sᵢ φ(f(xᵢ) − tᵢ) + ½‖f‖² over f(x) = Σ aⱼ k(xⱼ, x) + b, for targets t and the weights s of the samples.

    Parameters
    ----------
    warm_start : bool
        Whether `fit` starts from the dual variables of the last fit, if the numbers of rows and targets are the same.
    epsilon : float
        ε: the residual up to which the two ε-insensitive losses are 0. Other losses do not use it.
    loss, delta, quantile
        As in `LinearSVR`: "epsilon_insensitive" as in scikit-learn, or a squared, Huber, absolute or quantile loss.

    Attributes
    ----------
    support_ : rows of the support vectors, of any target
    support_vectors_ : those rows; empty for a precomputed kernel
    n_support_ : how many each target has
    dual_coef_ : array of shape (targets, number of support vectors), sparse where X was
        C·sᵢ·βᵢ, positive where the prediction is below its target.
    intercept_ : one for each target
    coef_ : for kernel="linear", one row for each target; read-only
    n_features_in_, feature_names_in_, shape_fit_, fit_status_
    n_iter_ : int, the most epochs that any target took
    objective_, dual_gap_, certificate_, history_ : of the problem, or one for each target
        The objective is scikit-learn's divided by C·Σs.
    indefinite_ : None, or what was done with a kernel that is not positive semidefinite, as in `SVC`
    status_ : "converged" where every certified gap is within `tol`; else as in `LinearSVC`

    Examples
    --------
    >>> from dualgap import SVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SVR(C=100.0).fit(X, y)
    >>> model.status_, model.dual_coef_.shape[0], model.certificate_.relative_gap <= 1e-4
    ('converged', 1, True)
    """

    epsilon: float = 0.1
    loss: Loss = "epsilon_insensitive"
    delta: float | None = None
    quantile: float | None = None
    warm_start: bool = False

    _proof = TargetProof
    prediction_bounds = prediction_bounds

    def _parts(self, X: object, y: object, sample_weight: ArrayLike | None, duals: Duals) -> tuple[Table, list[TargetPart]]:
        rows, y = self._checked(X, y, **NUMERIC)
        data = Numbers(self._trained_on(X, rows, len(y)), y, sample_weight)
        if (n := fit_of(self).n_rows) != data.n:
            raise ProofError(f"the model was trained on {n} rows; X has {data.n}")
        found = duals or [signed_dual(self, j, data.weights, float(self.C)) for j in range(data.count)]
        return target_parts(self, self._problems(data, float(self.C)), list(self._over_all_rows().T), found, duals is not None)

    def _loss(self) -> Any:
        return regression_loss(self)
