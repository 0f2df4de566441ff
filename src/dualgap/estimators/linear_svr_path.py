"""LinearSVRPath and LinearSVRPathCV: regressions for a grid of C and l1_ratio, and the one that does best in cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from dualgap.core import number, one_of
from dualgap.estimators.bounds import FeatureMixin
from dualgap.estimators.common import penalties, validated
from dualgap.estimators.guaranteed_fit import fitted_at, guaranteed_paths
from dualgap.estimators.linear_path import LinearPath, Point
from dualgap.estimators.linear_svr import LinearSVR
from dualgap.estimators.path_choice import OF_THE_CHOICE, PathChoice
from dualgap.estimators.regression import LinearPredictionMixin
from dualgap.estimators.targets import NUMERIC, FittedPart, Targets
from dualgap.problem import Problem
from dualgap.proof import ProofError

__all__ = ["LinearSVRPath", "LinearSVRPathCV"]


class LinearSVRPath(LinearPath, LinearPredictionMixin, FeatureMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Linear regressions for a grid of C and l1_ratio, from strong to weak penalty, each started from the last.

    With several targets there is one such path for each, all on the same grid.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take: from where the first feature comes in (for any target), over three decades (for l1_ratio=0
        alone: from 1e-4 to 1e2).
    l1_ratios : float or array
    screen : bool
        Whether features that are proved to be zero are left out. The models are the same to the tolerance.
    loss, epsilon, delta, quantile, fit_intercept, intercept, intercept_scaling, tol, max_iter, solver, random_state
        As in `LinearSVR`, with the squared error as the default loss: C then does not depend on the units of y.
    max_time : float, optional
        Seconds for the whole path, shared out among the points.
    guarantee : float, optional
        With a number such as 0.01, models for every C from the least to the largest of `Cs`, as in `LinearSVCPath`: `model_at(C)` has an
        objective that is proven to be at most 1 + guarantee times the optimum. One l1_ratio below 1; `tol` and `screen` are not used.

    Attributes
    ----------
    Cs_, l1_ratios_ : the grid
    coefs_ : array of shape (l1_ratios, Cs, d)
    intercepts_, objectives_, dual_gaps_, n_iters_, screened_ : arrays of shape (l1_ratios, Cs)
    certificates_ : a list for each l1_ratio, with a Certificate for each C
    statuses_ : array of shape (l1_ratios, Cs) of strings
        With several targets, these have one more axis after that of the Cs, as those of `LinearSVCPath` have for classes.
    coef_, intercept_ : of the last C with the first l1_ratio, which is what `predict` uses; shapes as in `LinearSVR`
    status_ : "converged" where every point is
    guarantee_, breakpoints_, mixes_, uncovered_ : with a guarantee, as in `LinearSVCPath`

    Examples
    --------
    >>> from dualgap import LinearSVRPath
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(100, 30, n_informative=5, noise=1.0, random_state=0)
    >>> path = LinearSVRPath(Cs=5, l1_ratios=[1.0, 0.5], random_state=0).fit(X, y)
    >>> path.coefs_.shape, path.status_
    ((2, 5, 30), 'converged')

    One model for every C, proven to be within 1 % of the optimum:

    >>> path = LinearSVRPath(Cs=[1e-3, 10.0], l1_ratios=0.0, guarantee=0.01, random_state=0).fit(X, y)
    >>> model = path.model_at(0.123)
    >>> model.certificate_.primal <= 1.01 * model.certificate_.dual
    True
    """

    def __init__(
        self,
        Cs: Any = 20,
        *,
        l1_ratios: Any = 0.5,
        screen: bool = True,
        loss: Any = "squared_error",
        epsilon: float = 0.0,
        delta: float | None = None,
        quantile: float | None = None,
        fit_intercept: bool = True,
        intercept: str = "free",
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        max_time: float | None = None,
        solver: Any = "auto",
        random_state: Any = None,
        guarantee: float | None = None,
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.screen = screen
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.quantile = quantile
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.random_state = random_state
        self.guarantee = guarantee

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVRPath:
        """Train every model of the grid.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of n numbers, or of shape (n, targets)
        sample_weight : n numbers, optional
        """
        return self._fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        return validated(self, X, y, **NUMERIC)

    def _data(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        return Targets(X, y, sample_weight)

    def _keep_kind(self, data: Targets) -> None:
        self._flat, self._n_rows = data.flat, data.n

    def _titles(self) -> tuple[list[Any], list[str]]:
        numbers = list(range(len(self.intercept_)))
        return numbers, [f"target {j}" for j in numbers]

    def _set_model(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef[0] if self._flat else coef, intercept

    def _bases(self, data: Targets) -> list[tuple[Problem, float]]:
        one_of("intercept", self.intercept, ("free", "penalised"))
        kind = self.intercept if self.fit_intercept else "none"
        scale = number("intercept_scaling", self.intercept_scaling)
        first = Problem(
            data.X,
            data.values[:, 0],
            self._loss(),
            l2=1.0,
            sample_weight=data.weights,
            intercept=kind,
            intercept_scale=scale,
        )
        bases = [first, *(first.variant(data.values[:, j]) for j in range(1, data.count))]
        return [(base, data.total) for base in bases]

    def _parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[FittedPart]:
        """Return the problems of the point in use, one for each target."""
        if self.guarantee is not None:
            raise ProofError(
                "a path with a guarantee bounds no predictions: its models are within a range of the optimum; fit a LinearSVR"
            )
        if duals is None:
            raise ProofError("this path was loaded from a file without its dual variables; fit it again")
        data = Targets(*validated(self, X, y, reset=False, **NUMERIC), sample_weight)
        i, j = self._place
        parts, coefs = [], np.atleast_2d(self.coef_)
        gaps, objectives = np.atleast_1d(self.dual_gaps_[i, j]), np.atleast_1d(self.objectives_[i, j])
        for k, (base, total) in enumerate(self._bases(data)):
            l2, l1 = penalties(float(self.Cs_[j]), float(self.l1_ratios_[i]), total)
            found = coefs[k], float(self.intercept_[k]), duals[k][i][j]
            parts.append(FittedPart(base.variant(l2=l2, l1=l1), *found, float(gaps[k]), float(objectives[k])))
        return parts

    def model_at(self, C: float) -> LinearSVR:
        """Return the model that is proven at C, as a fitted LinearSVR with its certificate; needs `guarantee`.

        Parameters
        ----------
        C : float
            Any value from the least to the largest of `Cs`.
        """
        check_is_fitted(self)
        paths = guaranteed_paths(self)
        C = number("C", C)
        shared = {name: value for name, value in self.get_params().items() if name in LinearSVR().get_params()}
        model = LinearSVR(**shared | {"C": C, "l1_ratio": float(self.l1_ratios_[0])})
        parts = [path.model(path.index(C)) for path in paths]
        fitted_at(model, self, [path.certificate(C) for path in paths])
        coef = np.stack([coef for coef, _ in parts])
        model.coef_, model.intercept_ = coef[0] if self._flat else coef, np.array([b for _, b in parts])
        model.n_iter_, model._flat = self.n_iter_, self._flat
        return model


class LinearSVRPathCV(PathChoice, LinearSVRPath):
    """The point of a path of regressions that does best in cross-validation.

    Parameters
    ----------
    Cs, l1_ratios, screen, loss, epsilon, delta, quantile, fit_intercept, intercept, intercept_scaling, tol, max_iter, solver, random_state
        As in `LinearSVRPath`. A number of Cs is turned into values on all the data, so that the folds share them.
    max_time : float, optional
        Seconds for each path.
    cv : int, splitter or list of splits
    scoring : str or function, optional
        As in scikit-learn; None is R².
    n_jobs : int, optional
        Threads over the folds.

    Attributes
    ----------
    C_, l1_ratio_ : the point that was chosen; of equally good ones that with the strongest penalty
    scores_ : array of shape (folds, l1_ratios, Cs)
    coef_, intercept_ : its model, trained on all the data
    Further attributes as in `LinearSVRPath`.

    Examples
    --------
    >>> from dualgap import LinearSVRPathCV
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(100, 30, n_informative=5, noise=1.0, random_state=0)
    >>> model = LinearSVRPathCV(Cs=4, l1_ratios=1.0, cv=3, random_state=0).fit(X, y)
    >>> model.scores_.shape, model.C_ in model.Cs_, bool(model.scores_.max() > 0.99)
    ((3, 1, 4), True, True)
    """

    def __init__(
        self,
        Cs: Any = 20,
        *,
        l1_ratios: Any = 0.5,
        screen: bool = True,
        loss: Any = "squared_error",
        epsilon: float = 0.0,
        delta: float | None = None,
        quantile: float | None = None,
        fit_intercept: bool = True,
        intercept: str = "free",
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        max_time: float | None = None,
        solver: Any = "auto",
        random_state: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            Cs,
            l1_ratios=l1_ratios,
            screen=screen,
            loss=loss,
            epsilon=epsilon,
            delta=delta,
            quantile=quantile,
            fit_intercept=fit_intercept,
            intercept=intercept,
            intercept_scaling=intercept_scaling,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            solver=solver,
            random_state=random_state,
        )
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVRPathCV:
        """Train the path on all the data, choose a point by cross-validation, and keep its model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of n numbers, or of shape (n, targets)
        sample_weight : n numbers, optional; used in training, not in scoring
        """
        return self._fit(X, y, sample_weight)

    def _splits(self, X: Any, y: np.ndarray) -> list[tuple[Any, Any]]:
        return list(check_cv(self.cv, y, classifier=False).split(X, y))

    def _scorer(self) -> Any:
        return check_scoring(LinearSVR(), scoring=self.scoring)

    def _path(self) -> LinearSVRPath:
        return LinearSVRPath(**{k: v for k, v in self.get_params().items() if k not in OF_THE_CHOICE})

    def _model_of(self, path: Any, points: Sequence[Point]) -> LinearSVR:
        model, coef = LinearSVR(), np.stack([point.coef for point in points])
        model.coef_, model._flat = coef[0] if path._flat else coef, path._flat
        model.intercept_ = np.array([point.intercept for point in points])
        model.n_features_in_ = coef.shape[1]
        return model
