"""NuSVR: the ν-regression with a certificate, its attributes laid out as scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dualgap.core import ResidualLoss, number
from dualgap.estimators.kernel_svr import KernelRegression
from dualgap.estimators.nu_machine import nu_run
from dualgap.estimators.parameters import estimator, invalid_parameters
from dualgap.estimators.samples import Numbers
from dualgap.run import Trained

__all__ = ["NuSVR"]


@estimator
class NuSVR(KernelRegression):
    """Support vector regression that chooses its ε, with a certified duality gap.

    Minimises ½‖f‖² + C·Σ sᵢ·(νε + (|f(xᵢ) − tᵢ| − ε)₊) over f(x) = Σ aⱼ k(xⱼ, x) + b and ε ≥ 0, for targets t and the weights s of the
    samples: about a part ν of the rows lies outside the tube of half width ε. The model is that of `SVR` with this ε.

    Parameters
    ----------
    nu : float in (0, 1]
        Upper bound on the share of rows outside the tube, lower bound on the share of support vectors.
    fit_intercept : bool
        Must be True: half of ν lies above the tube, and half below.
    solver : "auto", "working_set" or a WorkingSet
        As in `NuSVC`.
    tol : float
        Bound on the relative duality gap, gap / objective, of the problem over f, b and ε. It must be above 0.

    Attributes
    ----------
    epsilon_ : float, or one for each target
        The half width of the tube.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, n_features_in_, feature_names_in_, n_iter_, shape_fit_,
    fit_status_, indefinite_
        As in `SVR`.
    objective_, dual_gap_, certificate_, history_ : of the problem, or one for each target
        The objective is scikit-learn's divided by C·Σs.
    status_ : "converged" where every certified gap is within `tol`; else as in `LinearSVC`

    Examples
    --------
    >>> from dualgap import NuSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NuSVR(nu=0.3, C=100.0).fit(X, y)
    >>> outside = abs(model.predict(X) - y) > model.epsilon_ * (1 + 1e-3)
    >>> model.status_, float(outside.mean()) <= 0.3
    ('converged', True)
    """

    nu: float = 0.5

    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with targets y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
        y : array of n numbers, or of shape (n, targets)
        sample_weight : n numbers, optional
        """
        with invalid_parameters():
            number("nu", self.nu, "(0, 1]")
            number("tol", self.tol, "(0, 1]")
            if not self.fit_intercept:
                raise ValueError(
                    "fit_intercept=False: NuSVR needs an intercept, with which half of nu lies above the tube; use SVR"
                )
        super().fit(X, y, sample_weight)
        return self

    def _keep(self, X: object, data: Numbers, results: list[Trained]) -> None:
        super()._keep(X, data, results)
        widths = np.array([result.problem.loss.epsilon for result in results])
        self.epsilon_ = float(widths[0]) if self._flat else widths

    def _run(self) -> Callable[..., Trained]:
        return nu_run(float(self.nu))

    def _loss(self) -> Any:
        return ResidualLoss()
