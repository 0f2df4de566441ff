"""OneClassSVM: the region where most samples lie, with a certificate; attributes as scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dualgap.core import kept, number
from dualgap.estimators.fitting import warn_unless_converged
from dualgap.estimators.kernel_model import checked_kernel, fit_status
from dualgap.estimators.nu_machine import expanded, hinge_problem, keep_machine, machine_rows, nu_budget, solve_nu
from dualgap.estimators.parameters import invalid_parameters
from dualgap.estimators.progress import log_to_screen
from dualgap.estimators.samples import Labelled, refuse_dask
from dualgap.run import SUCCESSES

__all__ = ["OneClassSVM"]

_ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
_CLASSES = np.array([-1, 1])


class OneClassSVM(OutlierMixin, BaseEstimator):
    """One-class support vector machine: finds the region of most samples, and outliers, with a certified duality gap.

    Minimises ½‖f‖² − ν(Σs)ρ + Σ sᵢ max(0, ρ − f(xᵢ)) over f(x) = Σ aⱼ k(xⱼ, x) and ρ, which is scikit-learn's problem. A sample with
    f(x) < ρ is an outlier.

    Parameters
    ----------
    nu : float in (0, 1]
        Upper bound on the share of training samples that are outliers, lower bound on the share of support vectors.
    kernel, degree, gamma, coef0, cache_size, max_time
        As in `SVC`. "linear" is trained on X itself where rows are many, in time proportional to its size: the problem of scikit-learn's
        SGDOneClassSVM and of LIBLINEAR's one-class machine.
    tol : float
        Bound on the relative duality gap, gap / |objective|.
    max_iter : int
        Epochs; -1 for no limit.
    solver : "auto", "working_set" or a WorkingSet
        As in `NuSVC`.
    random_state : int, RandomState or None
        None always trains the same model.
    verbose : int
        Above 0, each evaluation is logged at level INFO by the logger "dualgap".
    atol : float
        Bound on the gap itself, in the units of `certificate_`: a fit has converged if it or `tol` is met.
    shrinking : ignored
        Accepted for code written for scikit-learn: whether to shrink is the solver's business.

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

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-4,
        nu: float = 0.5,
        cache_size: float = 1000,
        max_iter: int = 1000,
        max_time: float | None = None,
        solver: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
        atol: float = 0.0,
        shrinking: Any = True,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose
        self.atol = atol
        self.shrinking = shrinking

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassSVM:
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
        budget = nu_budget(self)
        if not callable(self.kernel):
            if sparse.issparse(X) and self.kernel == "precomputed":
                raise TypeError("Sparse precomputed kernels are not supported: give X as an array of kernel values")
            refuse_dask(self, X)
            X = validate_data(self, X, **_ACCEPTED)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        kernel, table = checked_kernel(self, X, n)
        data = Labelled(table, np.ones(n, dtype=np.int64), sample_weight, None, classes=_CLASSES)
        with kept() as ctrl_c, log_to_screen(self.verbose):
            found = solve_nu(
                self, hinge_problem(self, kernel, table, np.ones(n), data.weights, "none"), nu, budget, budget.max_seconds, "fit"
            )
            total = float(n if data.weights is None else data.weights.sum())
            rho = total * found.rho
            result = expanded(found, total, -rho)
            keep_machine(self, kernel, X, data, [(1, 0)], [result])
            del self.classes_, self.class_weight_
            self.offset_, self.n_support_, self.n_iter_ = np.array([rho]), self._machine.n_support_[1:], found.epochs
            if found.zero and found.status in SUCCESSES:
                warnings.warn(ZERO.format(nu, found.certificate.dual), UserWarning, stacklevel=2)
            self.status_ = warn_unless_converged(type(self).__name__, [result], budget.tol)
            if ctrl_c.take():
                self.status_ = "interrupted"
            return self

    fit_status_ = property(fit_status)

    @property
    def coef_(self) -> Any:
        """Weights of the features; kernel="linear" only."""
        check_is_fitted(self)
        return self._machine.coef_

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) − ρ for each sample: negative for an outlier.

        With kernel="precomputed", X has a column for each training row. Only the columns `support_` count; the others may be 0.
        """
        return self._machine.decision_function(machine_rows(self, X))

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x) for each sample, without the threshold."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for an inlier, −1 for an outlier."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


ZERO = (
    "for nu={:g} the objective is 0 up to rounding, or atol: the model is f = 0, ρ = 0, which tells no sample from another, and no other "
    "objective is below {:.2g}. The origin lies among the samples, as it does where features were centred. Use kernel='rbf', do not centre "
    "the features, or give a larger nu"
)
