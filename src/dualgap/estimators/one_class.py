"""OneClassSVM: the region where most samples lie, with a certificate; attributes as scikit-learn's."""

from __future__ import annotations

import warnings
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import validate_data

from dualgap.core import is_sparse, kept, number
from dualgap.estimators.fitting import Task, keep, solve_tasks
from dualgap.estimators.kernel_model import ACCEPTED, KernelModel
from dualgap.estimators.model import Fit, Kept
from dualgap.estimators.nu_machine import expanded, hinge_problem, nu_run
from dualgap.estimators.parameters import estimator, invalid_parameters
from dualgap.estimators.progress import Callbacks, with_callbacks
from dualgap.estimators.samples import Labelled, refuse_dask
from dualgap.run import SUCCESSES, NuResult

__all__ = ["OneClassSVM"]

_CLASSES = np.array([-1, 1])

ZERO = (
    "for nu={:g} the objective is 0 up to rounding, or atol: the model is f = 0, ρ = 0, which tells no sample from another, and no other "
    "objective is below {:.2g}. The origin lies among the samples, as it does where features were centred. Use kernel='rbf', do not centre "
    "the features, or give a larger nu"
)


@estimator
class OneClassSVM(OutlierMixin, KernelModel):
    """One-class support vector machine: finds the region of most samples, and outliers, with a certified duality gap.

    Minimises ½‖f‖² − ν(Σs)ρ + Σ sᵢ max(0, ρ − f(xᵢ)) over f(x) = Σ aⱼ k(xⱼ, x) and ρ, which is scikit-learn's problem. A sample with
    f(x) < ρ is an outlier.

    Parameters
    ----------
    nu : float in (0, 1]
        Upper bound on the share of training samples that are outliers, lower bound on the share of support vectors.
    kernel
        As in `SVC`. "linear" is trained on X itself where rows are many, in time proportional to its size: the problem of scikit-learn's
        SGDOneClassSVM and of LIBLINEAR's one-class machine.
    solver : "auto", "working_set" or a WorkingSet
        As in `NuSVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_ : the support vectors, as in `SVC`
    dual_coef_ : array of shape (1, number of support vectors): sᵢβᵢ, which add up to ν·Σs
    offset_ : the threshold ρ, an array of one number
    intercept_ : −ρ
    coef_ : for kernel="linear", the weights of the features
    n_iter_ : epochs
    objective_, dual_gap_, certificate_, history_
        The objective is scikit-learn's divided by (Σs)². It is negative.
    status_ : "converged" where the certified gap is within `tol`; else as in `LinearSVC`
    n_features_in_, feature_names_in_, shape_fit_, fit_status_

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = OneClassSVM(nu=0.1, gamma=0.5, random_state=0).fit(X)
    >>> model.status_, model.certificate_.relative_gap <= 1e-4, model.predict([[0.0, 0.0], [4.0, 4.0]]).tolist()
    ('converged', True, [1, -1])
    """

    nu: float = 0.5

    # of an SVC, and not of this one
    C: float = field(default=1.0, init=False)
    fit_intercept: bool = field(default=True, init=False)
    n_jobs: int | None = field(default=None, init=False)
    callbacks: Callbacks = field(default=None, init=False)
    indefinite: str = field(default="error", init=False)

    offset_: np.ndarray = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> OneClassSVM:
        """Train on samples X.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
            With a callable kernel anything that has a length and takes an index, as long as the kernel understands it.
        y : ignored
        sample_weight : n numbers, optional
        """
        with invalid_parameters():
            nu = number("nu", self.nu, "(0, 1]")
            _, budget = self._limits()
        given = Kept(X, y, sample_weight)
        if not callable(self.kernel):
            if is_sparse(X) and self.kernel == "precomputed":
                raise TypeError("Sparse precomputed kernels are not supported: give X as an array of kernel values")
            refuse_dask(self, X)
            X = validate_data(self, X, **ACCEPTED)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        table, _ = self._table(X, n)
        data = Labelled(table, np.ones(n, dtype=np.int64), sample_weight, None, classes=_CLASSES)
        task = Task("fit", partial(hinge_problem, self, table, np.ones(n), data.weights, "none"))
        solve = partial(solve_tasks, budget=budget, run=nu_run(nu))
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            self._train(given, X, data, [task], budget, solve, None, partial(self._keep, X, n))
            return self

    def _keep(self, X: object, n: int, results: list[NuResult]) -> None:
        (found,) = results
        if found.zero and found.status in SUCCESSES:
            warnings.warn(ZERO.format(self.nu, found.certificate.dual), UserWarning, stacklevel=7)
        total = found.problem.total_weight
        rho = total * found.rho
        result = expanded(found, total, -rho)
        rows = np.flatnonzero(result.coef).astype(np.int32)
        laid_out = self._expansion_attributes(X, result.coef[None, :], rows)
        keep(self, [result], Fit(n), offset_=np.array([rho]), n_support_=np.array([len(rows)], dtype=np.int32), **laid_out)

    def _coefficients(self) -> np.ndarray:
        dual = self.dual_coef_
        return np.asarray(dual.toarray() if is_sparse(dual) else dual).T

    def decision_function(self, X: object) -> np.ndarray:
        """f(x) − ρ for each sample: negative for an outlier.

        With kernel="precomputed", X has a column for each training row. Only the columns `support_` count; the others may be 0.
        """
        return self._scores(X)[:, 0]

    def score_samples(self, X: object) -> np.ndarray:
        """f(x) for each sample, without the threshold."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: object) -> np.ndarray:
        """1 for an inlier, −1 for an outlier."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
