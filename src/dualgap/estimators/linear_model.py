"""What LinearSVC and LinearSVR share: their problems over the same rows, where a warm start begins, and what is kept of a fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dualgap.estimators.coefficients import coefficient_bounds
from dualgap.estimators.constructors import LinearParameters
from dualgap.estimators.fitted import Later, keep, row_of, signed_dual, signed_duals
from dualgap.estimators.fitting import Solve, Task, train
from dualgap.estimators.on_store import problem_over
from dualgap.estimators.parameters import Parameters
from dualgap.estimators.targets import Targets
from dualgap.problem import Problem
from dualgap.run import Trained

__all__ = ["LinearModel"]


class LinearModel(LinearParameters):
    """A linear estimator. `_loss` makes the loss of its problems."""

    coef_: Any
    intercept_: np.ndarray
    _n_rows: int
    _loss: Callable[[], Any]
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
        if getattr(self, "_n_rows", None) != data.n or self.dual_coef_.shape[0] != data.count:
            return None
        side = data.side(j)
        return np.asarray(side.signs * signed_dual(self, j, side.weights, C))

    def _keep(self, data: Targets, C: float, results: list[Trained]) -> None:
        coef, later = np.stack([r.coef for r in results]), data.later(signed_duals(results, C))
        keep(self, results, **data.attributes(coef), _n_rows=data.n, _later=later)

    def _rebuilt(self, data: Targets, progress: Any) -> dict[str, Any]:
        """Return what makes the estimator ready to predict as if the fit had ended at this evaluation."""
        attributes = data.attributes(np.atleast_2d(progress.coef).copy())
        return {**attributes, "intercept_": np.atleast_1d(progress.intercept), "n_iter_": progress.epoch}
