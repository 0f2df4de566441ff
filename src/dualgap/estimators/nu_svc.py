"""NuSVC: the ν-classifier with a certificate, its attributes laid out as scikit-learn's. One problem for each pair of classes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dualgap.core import kept, number, one_of
from dualgap.estimators.fitting import TimeShare, warn_unless_converged
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_model import checked_kernel, fit_status
from dualgap.estimators.nu_machine import expanded, hinge_problem, keep_machine, machine_rows, nu_budget, solve_nu
from dualgap.estimators.parameters import invalid_parameters
from dualgap.estimators.probability import calibrate, check_probability, predict_log_proba, predict_proba
from dualgap.estimators.progress import log_to_screen
from dualgap.estimators.samples import Labelled, check_labels
from dualgap.kernels import Kernel
from dualgap.problem import Problem
from dualgap.run import SUCCESSES, NuResult

__all__ = ["NuSVC"]

ZERO = (
    "for nu={:g} and some pair of classes the objective is 0 up to rounding, or atol: the model is f = 0, ρ = 0, which tells no sample "
    "from another, and no other objective is below {:.2g}. No function of this kernel separates enough samples. Use a larger nu, or "
    "another kernel"
)


class NuSVC(ClassifierMixin, BaseEstimator):
    """Support vector classifier whose parameter bounds the share of margin errors, with a certified duality gap.

    Minimises ½‖f‖² − νρ + mean of max(0, ρ − yᵢ(f(xᵢ) + b)) over f, b and ρ, for every pair of classes. The model is then divided by
    ρ: it is that of `SVC` with C = 1/(ρ·Σs).

    Parameters
    ----------
    nu : float in (0, 1]
        Upper bound on the share of rows within the margin, lower bound on the share of support vectors. At most
        2·(weight of the lighter class)/(weight of both classes), for every pair of classes; a larger one is an error that says how much.
    kernel, degree, gamma, coef0, cache_size, class_weight, decision_function_shape, break_ties, max_time
        As in `SVC`. Weights of classes multiply those of their samples. "linear" is trained on X itself.
    tol : float
        Bound on the relative duality gap of every ν-problem, gap / |objective|.
    max_iter : int
        Epochs for each pair of classes; -1 for no limit.
    solver : "auto", "working_set" or a WorkingSet
        How the working sets are to run. "auto" trains a linear kernel on rows much longer than wide by Newton's method.
    random_state : int, RandomState or None
        None always trains the same model.
    verbose : int
        Above 0, each evaluation is logged at level INFO by the logger "dualgap".
    atol : float
        Bound on the gap itself, in the units of `certificate_`: a fit has converged if it or `tol` is met.
    shrinking : ignored
        Accepted for code written for scikit-learn: whether to shrink is the solver's business.
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

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-4,
        cache_size: float = 1000,
        class_weight: Any = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        solver: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
        atol: float = 0.0,
        shrinking: Any = True,
        probability: bool | str = False,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose
        self.atol = atol
        self.shrinking = shrinking
        self.probability = probability

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuSVC:
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
            check_probability(self, X)
        budget = nu_budget(self)
        X, y = SVC._checked(self, X, y)
        check_labels(y)
        check_feasible(nu, Labelled(y[:, None], y, sample_weight, self.class_weight))  # before any kernel value is computed
        kernel, table = checked_kernel(self, X, len(y))
        data = Labelled(table, y, sample_weight, self.class_weight)
        y = data.classes[data.codes]
        pairs, labels = data.pairs(), data.classes.tolist()
        seconds = TimeShare(budget.max_seconds, len(pairs))
        with kept() as ctrl_c, log_to_screen(self.verbose):
            found: list[NuResult] = []
            for pair in pairs:
                label = f"classes {labels[pair[0]]!r} and {labels[pair[1]]!r}"
                if found and found[-1].status == "interrupted":
                    budget = replace(budget, max_epochs=1)  # a model with a certificate for each pair
                found.append(solve_nu(self, self._problem(kernel, data, pair), nu, budget, seconds.next(), label))
            if zero := [r.certificate.dual for r in found if r.zero and r.status in SUCCESSES]:
                warnings.warn(ZERO.format(nu, min(zero)), UserWarning, stacklevel=2)
            results = [expanded(r, 1.0 / r.problem.l2, r.intercept) for r in found]
            shape = {"decision_function_shape": self.decision_function_shape, "break_ties": self.break_ties}
            keep_machine(self, kernel, X, data, pairs, results, **shape)
            Cs = np.array([1.0 / (r.problem.l2 * _total(r.problem)) for r in found])
            self.C_, self.rho_ = float(Cs[0]) if len(pairs) == 1 else Cs, 1.0 / Cs
            self.status_ = warn_unless_converged(type(self).__name__, results, budget.tol)
            if ctrl_c.take():
                self.status_ = "interrupted"
        calibrate(self, X, y, data.weights)
        return self

    def _problem(self, kernel: Kernel, data: Labelled, pair: tuple[int, int]) -> Problem:
        rows = np.flatnonzero((data.codes == pair[0]) | (data.codes == pair[1]))
        X = data.X
        if len(rows) < data.n:
            X = X[np.ix_(rows, rows)] if kernel.function is not None or kernel.name == "precomputed" else X[rows]
        weights = None if data.weights is None and data.by_class is None else data.own_weights()[rows]
        return hinge_problem(self, kernel, X, np.where(data.codes[rows] == pair[0], 1.0, -1.0), weights, "free")

    fit_status_ = property(fit_status)
    predict_proba, predict_log_proba = predict_proba, predict_log_proba

    @property
    def coef_(self) -> Any:
        """Weights of the features; kernel="linear" only."""
        check_is_fitted(self)
        return self._machine.coef_

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, as those of `SVC`: with two classes one, positive for the second; else a column for each class or pair of classes."""
        return self._machine.decision_function(machine_rows(self, X))

    def _class_scores(self, X: Any) -> np.ndarray:
        return self._machine._class_scores(machine_rows(self, X))

    def predict(self, X: Any) -> np.ndarray:
        """Labels: with more than two classes the one with most votes of the pairs."""
        check_is_fitted(self)
        self._machine._refuse_ties()
        return self._machine.predict(machine_rows(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


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


def _total(problem: Problem) -> float:
    return float(problem.n if problem.sample_weight is None else problem.sample_weight.sum())
