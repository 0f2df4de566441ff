"""LinearSVCPath: models of classes for a grid of C and l1_ratio, each with its certificate, each warm from the one before."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dualgap.core import classification_loss, number, one_of
from dualgap.estimators.bounds import BoundsMixin, FeatureMixin
from dualgap.estimators.common import check_labels, penalties, validated
from dualgap.estimators.guaranteed_fit import fitted_at, guaranteed_paths
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.linear import LinearSVC
from dualgap.estimators.linear_path import LinearPath
from dualgap.estimators.proving import ProvableMixin, path_parts, table_of
from dualgap.problem import Problem
from dualgap.proof import BinaryPart, ProofError, mixed_coef

__all__ = ["LinearSVCPath"]


class LinearSVCPath(LinearPath, BoundsMixin, FeatureMixin, ProvableMixin, LinearClassifierMixin, BaseEstimator):
    """Linear models for a grid of C and l1_ratio, from strong to weak penalty, each started from the last.

    With more than two classes there is one such path for each class against the rest, all on the same grid.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take: from where the first feature comes in (for any class), over three decades (for l1_ratio=0
        alone: from 1e-4 to 1e2).
    l1_ratios : float or array
    screen : bool
        Whether features that are proved to be zero are left out. The models are the same to the tolerance.
    loss, delta, fit_intercept, intercept, intercept_scaling, class_weight, tol, max_iter, solver, random_state
        As in `LinearSVC`. solver="auto" is prox_newton for smooth losses with an l1 part.
    max_time : float, optional
        Seconds for the whole path, shared out among the points.
    guarantee : float, optional
        With a number such as 0.01, the models are for every C from the least to the largest of `Cs`, not for these values alone: at each C
        there is a model, `model_at(C)`, whose objective is proven to be at most 1 + guarantee times the optimum. How many models that
        takes, and for which C, is found out. One l1_ratio below 1; `tol` and `screen` are not used.

    Attributes
    ----------
    Cs_, l1_ratios_ : the grid
    coefs_ : array of shape (l1_ratios, Cs, d)
    intercepts_, objectives_, dual_gaps_, n_iters_, screened_ : arrays of shape (l1_ratios, Cs)
        screened_ counts the features that were proved to be zero before the model was trained.
    certificates_ : a list for each l1_ratio, with a Certificate for each C
    statuses_ : array of shape (l1_ratios, Cs) of strings
        With more than two classes, the arrays above have one more axis after that of the Cs, with an entry for each class (coefs_ has
        shape (l1_ratios, Cs, classes, d)), and each C has a list of certificates.
    classes_, coef_, intercept_ : of the last C with the first l1_ratio, which is what `predict` uses
    status_ : "converged" where every point is

    With a guarantee there are, in place of those of a grid:

    guarantee_ : the largest relative distance from the optimum that any model may have at any C of its range; infinite if a part of the
        range has no proven model
    breakpoints_ : array of shape (models, 2): the ends of the range of C that each model is proven for; each begins where the last ends
    Cs_, coefs_, intercepts_ : of the models that were trained, in rising order of C
    mixes_ : a tuple (i, j, t) for each model, which is (1 − t) times trained model i plus t times trained model j
    certificates_ : for each model a `ProvenRange`: certificates at some C of its range, which hold between them, too
    uncovered_ : pairs (low, high): ranges of C without a proven model; empty unless a solve ended early
    status_ : "converged" where `uncovered_` is empty, else why the walk ended
        With more than two classes, the last five are lists with an entry for each class against the rest.

    Examples
    --------
    >>> from dualgap import LinearSVCPath
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 30, random_state=0)
    >>> path = LinearSVCPath(Cs=5, l1_ratios=[1.0, 0.5], random_state=0).fit(X, y)
    >>> path.coefs_.shape, path.status_
    ((2, 5, 30), 'converged')

    One model for every C, proven to be within 1 % of the optimum:

    >>> path = LinearSVCPath(Cs=[1e-3, 10.0], l1_ratios=0.0, guarantee=0.01, random_state=0).fit(X, y)
    >>> model = path.model_at(0.123)
    >>> model.certificate_.primal <= 1.01 * model.certificate_.dual
    True
    """

    classes_: np.ndarray
    coefs_: Any

    def __init__(
        self,
        Cs: Any = 20,
        *,
        l1_ratios: Any = 0.5,
        screen: bool = True,
        loss: Any = "squared_hinge",
        delta: float | None = None,
        fit_intercept: bool = True,
        intercept: str = "free",
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
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
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.random_state = random_state
        self.guarantee = guarantee

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVCPath:
        """Train every model of the grid.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : n labels
        sample_weight : n numbers, optional
        """
        return self._fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validated(self, X, y)
        check_labels(y)
        return X, y

    def _data(self, X: Any, y: Any, sample_weight: Any) -> Labelled:
        return Labelled(X, y, sample_weight, self.class_weight)

    def _keep_kind(self, data: Labelled) -> None:
        self.classes_ = data.classes

    def _titles(self) -> tuple[list[Any], list[str]]:
        labels = self.classes_.tolist()
        return labels, [f"{label} against the rest" for label in labels]

    def _set_model(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, intercept

    def _parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> tuple[Any, list[Any]]:
        X, y = validated(self, X, y, reset=False)
        data = Labelled(X, y, sample_weight, self.class_weight)
        if "_paths" in vars(self):
            return self._guaranteed_parts(data, duals)
        made = [
            [
                [base.variant(**dict(zip(("l2", "l1"), penalties(float(C), float(ratio), total), strict=True))) for C in self.Cs_]
                for ratio in self.l1_ratios_
            ]
            for base, total in self._bases(data)
        ]
        return path_parts(self, made, data, duals)

    def _guaranteed_parts(self, data: Labelled, duals: Any) -> tuple[Any, list[Any]]:
        """Return a part for each model at both ends of its range: together they prove it for all C between."""
        if duals is None:
            raise ProofError("this path was loaded from a file without its dual variables; fit it again to write its proof")
        parts, many = [], len(self._paths) > 1
        for k, ((base, total), path, betas) in enumerate(zip(self._bases(data), self._paths, duals, strict=True)):
            sides: tuple[int, int | None]
            sides, of_class = ((k, None), f"class {data.classes[k]} against the rest, ") if many else ((1, 0), "")
            for number_, (each, (i, j, t)) in enumerate(zip(path.ranges, path.mixes, strict=True)):
                coef, b = path.model(number_)
                beta = np.clip(mixed_coef(betas[i], betas[j], t), 0.0, base.loss.upper_bound())
                for C in (each.Cs[0], each.Cs[-1]):
                    l2, l1 = penalties(C, float(self.l1_ratios_[0]), total)
                    title = f"{of_class}model {number_} at C = {C:.17g}, an end of its range"
                    parts.append(
                        BinaryPart(base.variant(l2=l2, l1=l1), coef, b, beta, None, sides[0], sides[1], title, each.at(C).primal)
                    )
        return table_of(self, data), parts

    def model_at(self, C: float) -> LinearSVC:
        """Return the model that is proven at C, as a fitted LinearSVC with its certificate; needs `guarantee`.

        Parameters
        ----------
        C : float
            Any value from the least to the largest of `Cs`.
        """
        check_is_fitted(self)
        paths = guaranteed_paths(self)
        C = number("C", C)
        model = LinearSVC(
            C=C,
            l1_ratio=float(self.l1_ratios_[0]),
            loss=self.loss,
            delta=self.delta,
            fit_intercept=self.fit_intercept,
            intercept=self.intercept,
            intercept_scaling=self.intercept_scaling,
            class_weight=self.class_weight,
            max_iter=self.max_iter,
            solver=self.solver,
            random_state=self.random_state,
        )
        parts = [path.model(path.index(C)) for path in paths]
        fitted_at(model, self, [path.certificate(C) for path in paths])
        model.coef_, model.intercept_ = np.stack([coef for coef, _ in parts]), np.array([b for _, b in parts])
        model.n_iter_ = self.n_iter_
        return model

    def _bases(self, data: Labelled) -> list[tuple[Problem, float]]:
        """The problem of all points of each class against the rest but for its penalty, and the sum of its weights."""
        one_of("intercept", self.intercept, ("free", "penalised"))
        kind = self.intercept if self.fit_intercept else "none"
        scale = number("intercept_scaling", self.intercept_scaling)
        sides = [data.one_against_rest(k) for k in ([1] if len(data.classes) == 2 else range(len(data.classes)))]
        first = Problem(data.X, sides[0].signs, self.loss, self.delta, 1.0, 0.0, sides[0].weights, kind, intercept_scale=scale)
        bases = [first, *(first.variant(side.signs, side.weights, l2=1.0, l1=0.0) for side in sides[1:])]
        return [(base, side.total) for base, side in zip(bases, sides, strict=True)]

    def _bound_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[Any]:
        """Return the problems of the point in use, one for each class against the rest."""
        if getattr(self, "guarantee", None) is not None:
            raise ProofError(
                "a path with a guarantee proves no labels: its models are within a range of the optimum; fit a LinearSVC at one C"
            )
        parts = self._parts(X, y, sample_weight, duals)[1]
        if hasattr(self, "proven_"):  # a certified cross-validation, which trains its winner alone on all rows
            return parts
        i, j = self._place
        return parts[i * len(self.Cs_) + j :: len(self.l1_ratios_) * len(self.Cs_)]

    def _loss(self) -> Any:
        return classification_loss(self.loss, self.delta)
