"""LinearSVCPath and LinearSVRPath: linear models over C and l1_ratio; and those whose point is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import Certain, Fold, labels_by_class, mixed_coef
from dualgap.core import classification_loss, number
from dualgap.estimators.fitting import keep, signed_duals
from dualgap.estimators.linear import LinearModel, LinearSVC
from dualgap.estimators.linear_svr import LinearSVR
from dualgap.estimators.model import Fit, Kept, fit_of
from dualgap.estimators.parameters import Loss, estimator, intercept_of, regression_loss
from dualgap.estimators.path import Given, Path, Values
from dualgap.estimators.path_choice import choose, contest_solver, held_out
from dualgap.estimators.path_grid import Limits, Machine
from dualgap.estimators.proof import ClassProof, TargetProof, decision_bounds, predict_proven, prediction_bounds, table_of
from dualgap.estimators.samples import NUMERIC, ClassWeight, Duals, Labelled, Numbers, Targets, check_labels, validated
from dualgap.problem import Problem
from dualgap.proof import BinaryPart, ProofError, Table, bounds_of
from dualgap.run import Trained

__all__ = ["LinearSVCPath", "LinearSVCPathCV", "LinearSVRPath", "LinearSVRPathCV"]


@estimator
class _LinearPath(Path):
    """What paths of classes and of targets share. `_loss` makes the loss of the problems.

    Parameters
    ----------
    l1_ratios : float or array
    screen : bool
        Whether features that are proved to be zero are left out. The models are the same to the tolerance.
    intercept_scaling
        As in the estimator of one C.
    """

    l1_ratios: float | Values = 0.5
    screen: bool = True
    intercept_scaling: float = 1.0

    _one: ClassVar[type[LinearModel]]  # the estimator of one C

    def _loss(self) -> Any:
        raise NotImplementedError

    def _attributes(self, coef: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes of a model without the training data, as those of `Targets.attributes`."""
        raise NotImplementedError

    def _machines(self, data: Targets) -> list[Machine]:
        scale, kind = number("intercept_scaling", self.intercept_scaling), intercept_of(self)
        sides = [data.side(j) for j in range(data.count)]
        first = Problem(data.X, sides[0].y, self._loss(), None, 1.0, 0.0, sides[0].weights, kind, intercept_scale=scale)
        problems = [first, *(data.moved(first, side, 1.0, 0.0) for side in sides[1:])]
        return [Machine(problem, problem, side.total, self.solver) for problem, side in zip(problems, sides, strict=True)]

    def _model(self, given: Given | None, C: float, ratio: float, results: Sequence[Trained]) -> LinearModel:
        mine, theirs = self.get_params(deep=False), self._one().get_params()
        shared = {name: value for name, value in mine.items() if name in theirs}
        model, coef = self._one(**shared | {"C": C, "l1_ratio": ratio}), np.stack([result.coef for result in results])
        if given is None:
            fit, found = Fit(), self._attributes(coef)
        else:
            kept = replace(given.kept, duals=[result.dual for result in results])
            fit, found = Fit(given.data.n, given.data.later(signed_duals(results, C)), kept), given.data.attributes(coef)
        keep(model, results, fit, **found, **self._columns(), status_="converged")
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@estimator
class LinearSVCPath(ClassifierMixin, _LinearPath):
    """Linear models for a grid of C and l1_ratio, from strong to weak penalty, each started from the last.

    With more than two classes there is one such path for each class against the rest, all on the same grid.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take: from where the first feature comes in (for any class), over three decades (for l1_ratio=0
        alone: from 1e-4 to 1e2).
    loss, delta, fit_intercept, intercept, intercept_scaling, class_weight, tol, max_iter, solver, random_state
        As in `LinearSVC`. solver="auto" is prox_newton for smooth losses with an l1 part.
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

    class_weight: ClassWeight = None
    guarantee: float | None = None

    classes_: np.ndarray = field(init=False)
    _one = LinearSVC
    predict_proven, decision_bounds = predict_proven, decision_bounds

    @property
    def proof_(self) -> ClassProof:
        """What is proven of the exact model of the point that is chosen; `save` writes a proof of every model of the path."""
        check_is_fitted(self)
        return _PathProof(self)

    def _loss(self) -> Any:
        return classification_loss(self.loss, self.delta)

    def _checked(self, X: object, y: object, sample_weight: ArrayLike | None) -> Given:
        rows, labels = validated(self, X, y)
        check_labels(labels)
        data = Labelled(rows, labels, sample_weight, self.class_weight)
        self.classes_ = data.classes
        return Given(Kept(X, y, sample_weight), data, data.classes[data.codes])

    def _attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef, "classes_": self.classes_}

    def _titles(self) -> tuple[list[Any], list[str]]:
        labels = self.classes_.tolist()
        return labels, [f"{label} against the rest" for label in labels]

    def decision_function(self, X: object) -> np.ndarray:
        """Return the scores by the model that is chosen."""
        check_is_fitted(self)
        return np.asarray(self._chosen.decision_function(X))

    def _parts(self, X: object, y: object, sample_weight: ArrayLike | None, duals: Duals) -> tuple[Table, list[Any]]:
        """Return a part for each point of a grid, or for each model of a guarantee at both ends of its range.

        Without dual variables, a run from each model finds some.
        """
        X, y = validated(self, X, y, reset=False)
        data = Labelled(X, y, sample_weight, self.class_weight)
        table = table_of(self, data)
        if hasattr(self, "proven_"):  # a certified choice keeps its winner alone
            return self._chosen._parts(X, y, sample_weight, duals)
        machines = self._machines(data)
        proofs = [self._grid_parts, self._range_parts]["_paths" in vars(self)]
        return table, [part for k, machine in enumerate(machines) for part in proofs(data, k, machine, duals)]

    def _grid_parts(self, data: Labelled, k: int, machine: Machine, duals: Duals) -> list[BinaryPart]:
        parts, many = [], self.coefs_.ndim == 4
        for i, ratio in enumerate(self.l1_ratios_.tolist()):
            for j, C in enumerate(self.Cs_.tolist()):
                at = (i, j, k) if many else (i, j)
                coef, b = self.coefs_[at], float(self.intercepts_[at])
                if duals is not None:
                    dual, gap = duals[k][i][j], float(self.dual_gaps_[at])
                else:
                    limits = Limits(self.max_iter, None, 0)
                    dual, gap = machine.solve(C, ratio, (coef, b, None), self.tol, limits).dual, None
                title = f"C = {C:.6g}, l1_ratio = {ratio:g}"
                parts.append(self._part_of(data, k, machine, (C, ratio), (coef, b, dual, gap), title, float(self.objectives_[at])))
        return parts

    def _range_parts(self, data: Labelled, k: int, machine: Machine, duals: Duals) -> list[BinaryPart]:
        """Return two parts for each model of machine k: together they prove it for all C between."""
        path, ratio, parts = self._paths[k], float(self.l1_ratios_[0]), []
        if duals is None:
            raise ProofError("this path was loaded from a file without its dual variables; fit it again to write its proof")
        for m, (each, (i, j, t)) in enumerate(zip(path.ranges, path.mixes, strict=True)):
            coef, b = path.model(m)
            beta = np.clip(mixed_coef(duals[k][i], duals[k][j], t), 0.0, machine.proven.loss.upper_bound())
            for C in (each.Cs[0], each.Cs[-1]):
                title = f"model {m} at C = {C:.17g}, an end of its range"
                parts.append(self._part_of(data, k, machine, (C, ratio), (coef, b, beta, None), title, each.at(C).primal))
        return parts

    def _part_of(
        self, data: Labelled, k: int, machine: Machine, at: tuple[float, float], found: tuple[Any, ...], title: str, primal: float
    ) -> BinaryPart:
        many = len(data.classes) > 2
        sides: tuple[int, int | None] = (k, None) if many else (1, 0)
        of_class = f"class {data.classes[k]} against the rest, " if many else ""
        coef, b, dual, gap = found
        return BinaryPart(machine.problem(*at), coef, b, dual, gap, *sides, of_class + title, primal)


class _PathProof(ClassProof):
    """Proof of the model that a path has chosen; `save` is about all models."""

    def __init__(self, path: LinearSVCPath) -> None:
        super().__init__(path._chosen)
        self.path = path

    def _parts(self, what: str, kept: Kept) -> tuple[Table, list[Any]]:
        if what != "a proof":
            return super()._parts(what, kept)
        own = fit_of(self.path).kept
        duals = own.duals if own is not None and kept.duals is not None else None
        return self.path._parts(kept.X, kept.y, kept.sample_weight, duals)


@estimator
class LinearSVCPathCV(LinearSVCPath):
    """The point of a path that does best in cross-validation.

    Parameters
    ----------
    Cs, l1_ratios, screen, loss, delta, fit_intercept, intercept, intercept_scaling, class_weight, tol, max_iter, solver, random_state
        As in `LinearSVCPath`. A number of Cs is turned into values on all the data, so that the folds share them.
    max_time : float, optional
        Seconds for each path.
    cv : int, splitter or list of splits
    scoring : str or function, optional
        As in scikit-learn; None is the accuracy.
    n_jobs : int, optional
        Threads over the folds.
    certified : bool
        Whether the choice is to be proven. Every fold's models are then trained on, from gap to gap, until it is proven which validation
        rows the exact models get right, as far as that decides which C is the best; a C that cannot win is dropped early. For the
        accuracy alone (scoring=None), l1_ratios below 1, and without `scores_` and the models of the grid.

    Attributes
    ----------
    C_, l1_ratio_ : the point that was chosen; of equally good ones that with the strongest penalty
    scores_ : array of shape (folds, l1_ratios, Cs)
    coef_, intercept_ : its model, trained on all the data
    Further attributes as in `LinearSVCPath`.

    With certified=True there are, in place of those of a grid:

    proven_ : whether the exact models of C_ and l1_ratio_ have the least mean validation error on this grid and these folds, proven
    verdict_ : the outcome in a sentence
    winners_ : list of (C, l1_ratio): those that tie with the chosen point or, unless proven_, cannot be told apart from it
    intervals_ : array of shape (folds, l1_ratios, Cs, 2): the least and the largest validation error of each exact model; those of a
        dropped point are as wide as they were when it was dropped
    gaps_ : array of shape (folds, l1_ratios, Cs): relative gaps that the models were trained to
    certificate_ : of the model on all the data; with more than two classes one for each

    Examples
    --------
    >>> from dualgap import LinearSVCPathCV
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 30, random_state=0)
    >>> model = LinearSVCPathCV(Cs=4, l1_ratios=1.0, cv=3, random_state=0).fit(X, y)
    >>> model.scores_.shape, model.C_ in model.Cs_
    ((3, 1, 4), True)

    A choice that is proven:

    >>> model = LinearSVCPathCV(Cs=[0.01, 0.1, 1.0], l1_ratios=0.0, cv=3, certified=True, random_state=0).fit(X, y)
    >>> print(model.verdict_)
    C = ...: proven best of 3 settings on these 3 folds...
    """

    guarantee: float | None = field(default=None, init=False)
    cv: object = 5
    n_jobs: int | None = None
    scoring: str | Callable[..., float] | None = None
    certified: bool = False

    def _run(self, given: Given, limits: Limits) -> None:
        choose(self, given, limits)

    def _fold(
        self, given: Given, train: np.ndarray, test: np.ndarray, points: Sequence[tuple[float, float]], limits: Limits
    ) -> Fold:
        assert isinstance(given.data, Labelled)
        part = given.data.part(train)
        rows, codes = _safe_indexing(given.data.X, test), held_out(part.classes, given.labels[test])

        def decide(results: list[Trained]) -> Certain:
            return labels_by_class(codes, *bounds_of([result.ball for result in results], rows))

        return Fold(len(test), contest_solver(self._machines(part), points, limits), decide)


@estimator
class LinearSVRPath(RegressorMixin, _LinearPath):
    """Linear regressions for a grid of C and l1_ratio, from strong to weak penalty, each started from the last.

    With several targets there is one such path for each, all on the same grid.

    Parameters
    ----------
    Cs : int or array
        Values of C, or how many to take: from where the first feature comes in (for any target), over three decades (for l1_ratio=0
        alone: from 1e-4 to 1e2).
    loss, epsilon, delta, quantile, fit_intercept, intercept, intercept_scaling, tol, max_iter, solver, random_state
        As in `LinearSVR`, with the squared error as the default loss: C then does not depend on the units of y.
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

    loss: Loss = "squared_error"
    epsilon: float = 0.0
    quantile: float | None = None
    guarantee: float | None = None

    _one = LinearSVR
    _flat: bool = field(init=False)  # whether y was one-dimensional
    prediction_bounds = prediction_bounds

    @property
    def proof_(self) -> TargetProof:
        """What is proven of the exact model of the point that is chosen."""
        check_is_fitted(self)
        return TargetProof(self._chosen)

    def _loss(self) -> Any:
        return regression_loss(self)

    def _checked(self, X: object, y: object, sample_weight: ArrayLike | None) -> Given:
        data = Numbers(*validated(self, X, y, **NUMERIC), sample_weight)
        self._flat = data.flat
        return Given(Kept(X, y, sample_weight), data, data.values[:, 0] if data.flat else data.values)

    def _attributes(self, coef: np.ndarray) -> dict[str, Any]:
        return {"coef_": coef[0] if self._flat else coef, "_flat": self._flat}

    def _titles(self) -> tuple[list[Any], list[str]]:
        numbers = list(range(len(self.intercept_)))
        return numbers, [f"target {j}" for j in numbers]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@estimator
class LinearSVRPathCV(LinearSVRPath):
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

    guarantee: float | None = field(default=None, init=False)
    cv: object = 5
    n_jobs: int | None = None
    scoring: str | Callable[..., float] | None = None

    def _run(self, given: Given, limits: Limits) -> None:
        choose(self, given, limits)
