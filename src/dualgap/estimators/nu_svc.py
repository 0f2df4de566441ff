"""NuSVC: the ν-classifier with a certificate, its attributes laid out as scikit-learn's. One problem for each pair of classes."""

from __future__ import annotations

import warnings
from dataclasses import field
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from dualgap.core import kept, number, one_of
from dualgap.estimators.fitting import Task, keep, solve_tasks
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_model import KernelModel
from dualgap.estimators.model import Fit, Kept
from dualgap.estimators.nu_machine import expanded, hinge_problem, nu_run
from dualgap.estimators.parameters import estimator, invalid_parameters
from dualgap.estimators.probability import calibrate, check_probability, predict_log_proba, predict_proba
from dualgap.estimators.progress import Callbacks, with_callbacks
from dualgap.estimators.samples import ClassWeight, Labelled, check_labels
from dualgap.problem import Problem
from dualgap.run import SUCCESSES, NuResult

__all__ = ["NuSVC"]

ZERO = (
    "for nu={:g} and some pair of classes the objective is 0 up to rounding, or atol: the model is f = 0, ρ = 0, which tells no sample "
    "from another, and no other objective is below {:.2g}. No function of this kernel separates enough samples. Use a larger nu, or "
    "another kernel"
)


@estimator
class NuSVC(ClassifierMixin, KernelModel):
    """Support vector classifier whose parameter bounds the share of margin errors, with a certified duality gap.

    Minimises ½‖f‖² − νρ + mean of max(0, ρ − yᵢ(f(xᵢ) + b)) over f, b and ρ, for every pair of classes. The model is then divided by
    ρ: it is that of `SVC` with C = 1/(ρ·Σs).

    Parameters
    ----------
    nu : float in (0, 1]
        Upper bound on the share of rows within the margin, lower bound on the share of support vectors. At most
        2·(weight of the lighter class)/(weight of both classes), for every pair of classes; a larger one is an error that says how much.
    kernel, class_weight, decision_function_shape, break_ties
        As in `SVC`. Weights of classes multiply those of their samples. "linear" is trained on X itself.
    solver : "auto", "working_set" or a WorkingSet
        How the working sets are to run. "auto" trains a linear kernel on rows much longer than wide by Newton's method.
    probability : bool
        Whether `fit` also fits `temperature_` for `predict_proba`, as in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_, n_features_in_, feature_names_in_,
    class_weight_, shape_fit_, fit_status_
        As in `SVC`, of the model divided by ρ.
    C_ : the C with which `SVC` has the same solution, or one for each pair of classes
    rho_ : the thresholds ρ, one for each pair of classes, in the scale of scikit-learn's ν-problem: 1/C_
    n_iter_ : epochs for each pair
    objective_, dual_gap_, certificate_, history_ : of the ν-problem above, or one for each pair
        The objective is negative.
    status_ : "converged" where every certified gap is within `tol`; else as in `LinearSVC`

    Examples
    --------
    >>> from dualgap import NuSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NuSVC(nu=0.2, random_state=0).fit(X, y)
    >>> model.status_, max(c.relative_gap for c in model.certificate_) <= 1e-4, model.score(X, y) > 0.95
    ('converged', True, True)
    """

    nu: float = 0.5
    class_weight: ClassWeight = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    probability: bool | str = False

    # of an SVC, and not of this one
    C: float = field(default=1.0, init=False)
    fit_intercept: bool = field(default=True, init=False)
    n_jobs: int | None = field(default=None, init=False)
    callbacks: Callbacks = field(default=None, init=False)
    indefinite: str = field(default="error", init=False)

    C_: float | np.ndarray = field(init=False)
    rho_: np.ndarray = field(init=False)
    _layout, _coefficients, _class_scores = SVC._layout, SVC._coefficients, SVC._class_scores
    decision_function, predict, _refuse_ties = SVC.decision_function, SVC.predict, SVC._refuse_ties
    predict_proba, predict_log_proba = predict_proba, predict_log_proba

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> NuSVC:
        """Train on samples X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
            With a callable kernel anything that has a length and takes an index, as long as the kernel understands it.
        y : n labels
        sample_weight : n numbers, optional
        """
        with invalid_parameters():
            nu = number("nu", self.nu, "(0, 1]")
            one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
            if self.probability is not False:
                check_probability(self, X)
            _, budget = self._limits()
        given = Kept(X, y, sample_weight)
        X, y = self._checked(X, y)
        check_labels(y)
        check_feasible(nu, Labelled(y[:, None], y, sample_weight, self.class_weight))  # before any kernel value is computed
        table, _ = self._table(X, len(y))
        data = Labelled(table, y, sample_weight, self.class_weight)
        tasks = [Task(data.pair_name(pair), partial(self._problem, data, pair)) for pair in data.pairs()]
        solve = partial(solve_tasks, budget=budget, run=nu_run(nu))
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            self._train(given, X, data, tasks, budget, solve, None, partial(self._keep, X, data))
            if self.probability is not False:
                calibrate(self, X, y, data.weights)
            return self

    def _problem(self, data: Labelled, pair: tuple[int, int]) -> Problem:
        rows, signs, weights = data.sides(pair)
        return hinge_problem(self, self._rows_of(data.X, rows), signs, weights, "free")

    def _keep(self, X: object, data: Labelled, results: list[NuResult]) -> None:
        if zero := [r.certificate.dual for r in results if r.zero and r.status in SUCCESSES]:
            warnings.warn(ZERO.format(self.nu, min(zero)), UserWarning, stacklevel=7)
        results = [expanded(r, 1.0 / r.problem.l2, r.intercept) for r in results]
        keep(self, results, Fit(data.n), **self._layout(X, data, results))
        Cs = np.array([1.0 / (r.problem.l2 * r.problem.total_weight) for r in results])
        self.C_, self.rho_ = float(Cs[0]) if len(Cs) == 1 else Cs, 1.0 / Cs


def check_feasible(nu: float, data: Labelled) -> None:
    """Refuse a ν that some pair of classes has no feasible point for."""
    weights = np.bincount(data.codes, weights=data.own_weights(), minlength=len(data.classes))
    parts = [
        (2.0 * min(weights[i], weights[j]) / (weights[i] + weights[j]), i, j) for i, j in combinations(range(len(data.classes)), 2)
    ]
    largest, i, j = min(parts)
    if nu > largest * (1.0 + 1e-12):
        labels = data.classes.tolist()
        raise ValueError(
            f"nu={nu!r} is infeasible for these classes: the largest feasible value is {largest:.6g}, twice the part of the lighter of "
            f"the classes {labels[i]!r} and {labels[j]!r} in their weight; give a smaller nu, or weights of classes"
        )
