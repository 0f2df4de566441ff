"""What LinearSVC and LinearSVR share: their problems over the same rows, where a warm start begins, and what is kept of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.extmath import safe_sparse_dot

from dualgap.core import is_sparse
from dualgap.estimators.coefficients import coefficient_bounds
from dualgap.estimators.common import check_fitted, linear_rows, plain_rows
from dualgap.estimators.constructors import estimator
from dualgap.estimators.fitted import Fit, Later, fit_of, keep, row_of, signed_dual, signed_duals
from dualgap.estimators.fitting import Solve, Task, train
from dualgap.estimators.model import Model
from dualgap.estimators.on_store import problem_over
from dualgap.estimators.parameters import Parameters, checked
from dualgap.estimators.progress import Callbacks
from dualgap.estimators.targets import Targets
from dualgap.problem import Problem
from dualgap.run import Trained

__all__ = ["LinearModel"]


@estimator
class LinearModel(Model):
    """A linear estimator: its parameters, its problems over the same rows, and its scores. `_loss` makes the loss of the problems.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as in scikit-learn.
    fit_intercept : bool
        Whether there is an intercept b.
    n_jobs : int, optional
        Threads over the problems, of which each class or target has one; -1 for all processors. None is 1.
    callbacks : list of functions, optional
        Each is called with a `dualgap.Progress` at every evaluation; one that returns True ends the fit.
    dual : ignored
        Accepted for code written for scikit-learn: in which space to work is the solver's business.
    intercept : {"free", "penalised"}
        Whether the intercept is left out of the penalty, or is the coefficient of a constant column `intercept_scaling`, as in
        LIBLINEAR and so in scikit-learn.
    intercept_scaling : float
        The constant of that column; without effect where intercept="free".
    l1_ratio : float in [0, 1]
        Share of the l1 penalty.
    warm_start : bool
        Whether `fit` starts from the model and the dual variables of the last fit.
    positive : bool
        Whether all coefficients must be at least 0.
    bounds : (low, high), optional
        The least and the largest value of the coefficients: two numbers, or two arrays with one number a feature; infinite or None where
        there is no such bound. low = high fixes a coefficient. They hold for each class against the rest, or for each target.
    monotonic_cst : array of -1, 0 or 1 for each feature, or dict of feature names, optional
        The sign of each coefficient: with 1 the score of the second of two classes, or the prediction, never falls if the feature rises,
        with -1 it never rises; 0 leaves it open. `positive`, `bounds` and `monotonic_cst` hold at the same time. The intercept has no
        bounds; l1_ratio must be below 1.
    """

    C: float = 1.0
    fit_intercept: bool = True
    n_jobs: int | None = None
    callbacks: Callbacks = None
    dual: object = "auto"
    intercept: str = "free"
    intercept_scaling: float = 1.0
    l1_ratio: float = 0.0
    warm_start: bool = False
    positive: bool = False
    bounds: tuple[ArrayLike | None, ArrayLike | None] | None = None
    monotonic_cst: ArrayLike | Mapping[str, int] | None = None

    coef_: Any = field(init=False)
    intercept_: np.ndarray = field(init=False)
    n_features_in_: int = field(init=False)
    support_, n_support_, dual_coef_ = Later(), Later(), Later()

    def _train(self, given: tuple[Any, Any, Any], data: Targets, parameters: Parameters, solve: Solve) -> None:
        """Solve the problems of a fit, and set the fitted attributes."""
        make, C = self._maker(data, parameters), parameters.C
        tasks = [Task(name, partial(make, j), self._warm(data, j, C)) for j, name in enumerate(data.names())]
        keep_all, tol = partial(self._keep, data, C), parameters.budget.tol
        train(self, given, data.shown(), tasks, solve, keep_all, tol, rebuilt=partial(self._rebuilt, data))

    def _maker(self, data: Targets, parameters: Parameters) -> Callable[[int], Problem]:
        """Return a function from a problem's number to the problem. All share the rows."""
        side = data.side(0)
        first = problem_over(
            data.X,
            side.y,
            self._loss(),
            None,
            *parameters.strengths(side.total),
            side.weights,
            parameters.intercept,
            intercept_scale=parameters.scale,
            bounds=coefficient_bounds(self, data.X.shape[1]),
        )

        def make(j: int) -> Problem:
            if j == 0:
                return first
            side = data.side(j)
            return data.moved(first, side, *parameters.strengths(side.total))

        return make

    def _warm(self, data: Targets, j: int, C: float) -> Any:
        """Return the model of problem j of the last fit, with its dual variables if the number of rows is the same."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = self.coef_ if self.coef_.ndim == 2 else self.coef_[None, :]
        if coef.shape != (data.count, data.X.shape[1]) or not data.matches(self):
            return None
        return row_of(coef, j), float(self.intercept_[j]), self._dual(data, j, C)

    def _dual(self, data: Targets, j: int, C: float) -> np.ndarray | None:
        """Return the dual variables of problem j, to rounding; None if the number of rows has changed, or another problem was trained."""
        if fit_of(self).n_rows != data.n or self.dual_coef_.shape[0] != data.count:
            return None
        side = data.side(j)
        return np.asarray(side.signs * signed_dual(self, j, side.weights, C))

    def _objectives(self, X: Any, y: np.ndarray) -> list[tuple[Problem, np.ndarray | None]]:
        """Return the problems of this model on rows that are checked, with the dual variables of the fit if it had as many rows."""
        data, parameters = self._targets(X, y), checked(self)
        make = self._maker(data, parameters)
        return [(make(j), self._dual(data, j, parameters.C)) for j in range(data.count)]

    def _targets(self, X: Any, y: np.ndarray) -> Targets:
        """Return other rows with labels, or with numbers, as those of the fit were."""
        raise NotImplementedError

    def _keep(self, data: Targets, C: float, results: list[Trained]) -> None:
        coef, later = np.stack([r.coef for r in results]), data.later(signed_duals(results, C))
        keep(self, results, Fit(data.n, later), **data.attributes(coef))

    def _rebuilt(self, data: Targets, progress: Any) -> dict[str, Any]:
        """Return what makes the estimator ready to predict as if the fit had ended at this evaluation."""
        attributes = data.attributes(np.atleast_2d(progress.coef).copy())
        return {**attributes, "intercept_": np.atleast_1d(progress.intercept), "n_iter_": progress.epoch}

    # ----------------------------------------------------------------------------------------------------------- prediction

    def _scores(self, X: object) -> np.ndarray:
        """Return the scores, or predictions, of samples: a column for each problem."""
        check_fitted(self)
        rows, coef = plain_rows(self, X), self.coef_
        if rows is None:
            rows = linear_rows(self, X)
        coef = coef if is_sparse(coef) else np.atleast_2d(coef)  # a user may have made it sparse, or flattened it
        return np.asarray(safe_sparse_dot(rows, coef.T, dense_output=True)) + self.intercept_

    def _rows_for_bounds(self, X: object, diagonal: object, training: bool) -> tuple[Any, None]:
        check_fitted(self)
        return linear_rows(self, X, diagonal), None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
