"""LinearSVC: a linear classifier with a certificate. Training is the driver's and the solvers'; here are parameters and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model._base import SparseCoefMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from dualgap.core import classification_loss, is_sparse, kept, one_of
from dualgap.estimators.deciding import ClassVotes, check_decide, solve_until_decided
from dualgap.estimators.fitting import Solve, Task, keep, row_of, run_over, signed_dual, signed_duals, solve_tasks, train
from dualgap.estimators.joint_fit import JOINT, is_joint, joint_deciding, joint_fit, joint_part
from dualgap.estimators.model import Fit, Kept, Later, Model, fit_of
from dualgap.estimators.parameters import (
    Loss,
    Parameters,
    checked,
    coefficient_bounds,
    estimator,
    invalid_parameters,
    is_bounded,
    refusal_of_bounds,
)
from dualgap.estimators.probability import (
    agreed,
    calibrate,
    calibrated,
    check_probability,
    is_calibrated,
    predict_log_proba,
    wants_probability,
)
from dualgap.estimators.progress import Callbacks, with_callbacks
from dualgap.estimators.proof import ClassProof, binary_part, decision_bounds, predict_proven, table_of
from dualgap.estimators.samples import (
    ClassWeight,
    Duals,
    Labelled,
    Rows,
    Targets,
    check_fitted,
    check_labels,
    is_store,
    linear_rows,
    plain_rows,
    problem_over,
    store_labels,
    validated,
    validated_rows,
)
from dualgap.estimators.streaming import partial_fit
from dualgap.problem import Problem, as_features
from dualgap.run import Progress, Trained
from dualgap.solvers import get_solver

__all__ = ["LinearModel", "LinearSVC"]


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

    penalty: str | None = field(default=None, init=False)  # a parameter of LinearSVC
    coef_: Any = field(init=False)
    intercept_: np.ndarray = field(init=False)
    n_features_in_: int = field(init=False)
    support_, n_support_, dual_coef_ = Later(), Later(), Later()

    def _train(self, given: Kept, data: Targets, parameters: Parameters, solve: Solve) -> None:
        """Solve the problems of a fit, and set the fitted attributes."""
        make, C = self._maker(data, parameters), parameters.C
        tasks = [Task(name, partial(make, j), self._warm(data, j, C)) for j, name in enumerate(data.names())]
        keep_all, tol = partial(self._keep, data, C), parameters.budget.tol
        train(self, given, data.shown, tasks, solve, keep_all, tol, rebuilt=partial(self._rebuilt, data))

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
            bounds=coefficient_bounds(self, data.X.shape[1]) if is_bounded(self) else None,
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

    def _objectives(self, X: object, y: np.ndarray) -> list[tuple[Problem, np.ndarray | None]]:
        """Return the problems of this model on rows that are checked, with the dual variables of the fit if it had as many rows."""
        data, parameters = self._targets(X, y), checked(self)
        make = self._maker(data, parameters)
        return [(make(j), self._dual(data, j, parameters.C)) for j in range(data.count)]

    def _targets(self, X: object, y: np.ndarray) -> Targets:
        """Return other rows with labels, or with numbers, as those of the fit were."""
        raise NotImplementedError

    def _keep(self, data: Targets, C: float, results: list[Trained]) -> None:
        coef, later = np.stack([r.coef for r in results]), data.later(signed_duals(results, C))
        keep(self, results, Fit(data.n, later), **data.attributes(coef))

    def _rebuilt(self, data: Targets, progress: Progress) -> dict[str, Any]:
        """Return what makes the estimator ready to predict as if the fit had ended at this evaluation."""
        attributes = data.attributes(np.atleast_2d(progress.coef).copy())
        return {**attributes, "intercept_": np.atleast_1d(progress.intercept), "n_iter_": progress.epoch}

    # ----------------------------------------------------------------------------------------------------------- prediction

    def _scores(self, X: object) -> np.ndarray:
        """Return the scores, or predictions, of samples: a column for each problem."""
        check_fitted(self)
        plain, coef = plain_rows(self, X), self.coef_
        rows = linear_rows(self, X) if plain is None else plain
        coef = coef if is_sparse(coef) else np.atleast_2d(coef)  # a user may have made it sparse, or flattened it
        return np.asarray(safe_sparse_dot(rows, coef.T, dense_output=True)) + self.intercept_

    def _rows_for_bounds(self, X: object, diagonal: object, training: bool) -> tuple[Rows, None]:
        check_fitted(self)
        return linear_rows(self, X, diagonal), None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _takes_batches(estimator: BaseEstimator) -> bool:
    if wants_probability(estimator):
        raise AttributeError("partial_fit does not go with probability=True: a batch that is forgotten cannot be held out")
    if estimator.multi_class != "ovr":
        raise AttributeError(f"partial_fit works with multi_class='ovr', not with multi_class={estimator.multi_class!r}")
    if is_bounded(estimator):
        raise AttributeError(refusal_of_bounds(estimator, "partial_fit keeps no bounds on coefficients; use fit"))
    return True


@estimator
class LinearSVC(ClassifierMixin, LinearModel):
    """Linear support vector classifier whose fit ends on a certified duality gap.

    Minimises, for labels y = ±1 and the weights s of the samples,

        C · Σ sᵢ φ(yᵢ(xᵢ·w + b)) + l1_ratio·‖w‖₁ + (1 − l1_ratio)/2·‖w‖²

    divided by C·Σs, which changes no model. With more than two classes, one such problem for each class against the rest, or a single
    problem for all classes: Crammer and Singer's, or multinomial logistic regression.

    Parameters
    ----------
    penalty : {None, "l1", "l2"}
        scikit-learn's way to say l1_ratio=1 or l1_ratio=0. None leaves it to `l1_ratio`.
    loss : {"squared_hinge", "hinge", "smooth_hinge", "log_loss"} or a loss object
        φ. The default is scikit-learn's. "log_loss" gives probabilities of its own, the others with probability=True.
    multi_class : {"ovr", "crammer_singer", "multinomial"}
        "crammer_singer" has a loss of its own: `loss` is then ignored, as in scikit-learn. "multinomial" needs loss="log_loss" and
        minimises C·Σ sᵢ(log Σₖ exp(gᵢₖ) − gᵢ,yᵢ) + ½ Σₖ‖wₖ‖² over the scores gᵢₖ = xᵢ·wₖ + bₖ of all classes, as scikit-learn's
        LogisticRegression does; with two classes it is the logistic problem. Both need l1_ratio=0, and choose their method themselves.
    class_weight : dict, "balanced" or None
        Weight of each class on top of the samples' own. One against the rest weights the one class and leaves the rest at 1, as
        LIBLINEAR does.
    delta : float, optional
        Width of the smoothed part of loss="smooth_hinge" (1 by default).
    probability : bool
        Whether `fit` also fits `temperature_` for `predict_proba`, by five more fits on parts of the rows. Without effect for
        loss="log_loss".

    Attributes
    ----------
    coef_ : array of shape (1, d) or (number of classes, d)
    intercept_ : array of shape (1,) or (number of classes,)
    classes_ : the labels
    n_features_in_, feature_names_in_ : the columns seen in training
    n_iter_ : int, the most epochs that any problem took
    objective_, dual_gap_ : float, or one a class
        The objective (the mean of scikit-learn's: that one divided by C·Σs), and how far above the least possible one it is at most.
    certificate_ : Certificate, or a list of them, one a class
    history_ : Trace, or a list of them: objective, gap, seconds at each evaluation
    status_ : "converged" (where every certified gap is within `tol` or `atol`), "decided" (by `decide` of `fit`), "max_epochs",
        "max_seconds", "interrupted", "stalled", "rounding_limit" (as near as float64 can tell), "diverged"
    support_ : rows with a dual variable above 0
    n_support_ : how many of them each class has
    temperature_ : with probability=True, the factor of the scores in `predict_proba`
    dual_coef_ : array of shape (1, number of support vectors), or a sparse one with a row for each class
        yᵢ·C·sᵢ·βᵢ: for l1_ratio=0 and no bounds on coefficients, coef_ is dual_coef_ @ X[support_].

    Notes
    -----
    Ctrl-C ends a fit early: the best model so far is kept with its certificate, and a warning tells the gap.

    Examples
    --------
    >>> from dualgap import LinearSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(loss="hinge", random_state=0).fit(scale(X), y)
    >>> model.status_, model.certificate_.relative_gap <= 1e-4
    ('converged', True)
    """

    penalty: str | None = field(default=None, kw_only=False)
    loss: Loss = field(default="squared_hinge", kw_only=False)
    multi_class: str = "ovr"
    delta: float | None = None
    class_weight: ClassWeight = None
    probability: bool = False

    classes_: np.ndarray = field(init=False)

    # -------------------------------------------------------------------------------------------------------------- fitting

    @with_callbacks
    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None, decide: object = None) -> LinearSVC:
        """Train on samples X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a Store, which has its own labels
            Dask collections are for `dualgap.dask.LinearSVC`.
        y : n labels, of any number of classes of at least two
        sample_weight : n numbers, optional
        decide : samples, optional
            Stop once the labels of these samples are proven to be those of the exact model (`status_` is then "decided", and
            `predict_proven` proves them all), or at `tol` if that comes first. It needs an l2 penalty and the rows in memory.
        """
        parameters = checked(self)
        with invalid_parameters():
            get_solver(self.solver)
            self._loss()
            if self.multi_class != "ovr":
                self._check_multi_class(parameters)
            if self.probability is not False:
                check_probability(self, X)
        given, rows = Kept(X, y, sample_weight), None
        if decide is not None:
            check_decide(X, parameters.ratio)
        X, y = (X, store_labels(self, X, y)) if is_store(X) else validated(self, X, y)
        check_labels(y)
        if decide is not None:
            rows = as_features(validated_rows(self, decide), "decide", self.n_features_in_)
        data, budget = Labelled(X, y, sample_weight, self.class_weight), parameters.budget
        joint = self.multi_class != "ovr" and is_joint(self, len(data.classes))
        if is_bounded(self):
            self._check_bounds(joint, len(data.classes))
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            if joint:
                self._train_jointly(given, data, parameters, rows)
            elif rows is None or data.count == 1:
                self._train(given, data, parameters, partial(solve_tasks, budget=budget, decide=rows, run=run_over(X)))
            else:
                self._train(given, data, parameters, partial(solve_until_decided, budget=budget, rows=rows, votes=ClassVotes()))
            if self.probability is not False:
                calibrate(self, X, y, data.weights)
            return self

    def _train_jointly(self, given: Kept, data: Labelled, parameters: Parameters, rows: Rows | None) -> None:
        base = self._joint_base(data, parameters)
        deciding = None if rows is None else partial(joint_deciding, rows=rows)
        solve, keep_result = joint_fit(self, data, base, parameters.budget, deciding)
        task, rebuilt = Task("fit", lambda: base), partial(self._rebuilt, data)
        train(self, given, data.shown, [task], solve, keep_result, parameters.budget.tol, rebuilt=rebuilt)

    def _check_bounds(self, joint: bool, classes: int) -> None:
        """Refuse bounds on coefficients where they mean nothing."""
        if joint:
            raise ValueError(
                refusal_of_bounds(self, f"multi_class={self.multi_class!r} keeps no bounds on coefficients; use multi_class='ovr'")
            )
        if classes > 2 and self.monotonic_cst is not None:
            raise ValueError(
                f"monotonic_cst with {classes} classes: a sign is that of the score of the second of two classes; give `bounds`, which "
                "hold for each class against the rest"
            )

    def _check_multi_class(self, parameters: Parameters) -> None:
        kind = one_of("multi_class", self.multi_class, ("ovr", *JOINT))
        if kind != "ovr" and parameters.ratio != 0.0:
            raise ValueError(f"multi_class={kind!r} takes the l2 penalty alone; l1_ratio={parameters.ratio:g} must be 0")
        if kind == "multinomial" and self.loss not in ("log_loss", "logistic"):
            raise ValueError(f"multi_class='multinomial' is logistic regression; loss={self.loss!r} must be 'log_loss'")

    def _joint_base(self, data: Labelled, parameters: Parameters) -> Problem:
        """Return the rows, weights and penalty of a joint problem; its labels and loss are not used."""
        weights, kind = data.own_weights(), parameters.intercept
        l2, _ = parameters.strengths(float(weights.sum()))
        signs = np.where(data.codes == 0, -1.0, 1.0)
        return Problem(data.X, signs, "hinge", None, l2, 0.0, weights, kind, intercept_scale=parameters.scale)

    def _targets(self, X: object, y: np.ndarray) -> Labelled:
        return Labelled(X, y, None, self.class_weight, self.classes_)

    def _parts(self, X: object, y: object, sample_weight: ArrayLike | None, duals: Duals) -> tuple[Any, list[Any]]:
        X, y = validated(self, X, y, reset=False)
        data, parameters = Labelled(X, y, sample_weight, self.class_weight), checked(self)
        table, K = table_of(self, data), len(data.classes)
        if is_joint(self, K):
            return table, [joint_part(self, data, self._joint_base(data, parameters), duals)]
        make, parts = self._maker(data, parameters), []
        for j in range(data.count):
            dual = duals[j] if duals is not None else self._dual(data, j, parameters.C)
            sides, title = ((1, 0), "") if K == 2 else ((j, None), f"class {data.classes[j]} against the rest")
            found = row_of(self.coef_, j), float(self.intercept_[j]), dual
            parts.append(binary_part(self, j, make(j), found, duals is not None, sides, title))
        return table, parts

    def _keeps_all_rows(self) -> str | None:
        if is_joint(self, len(self.classes_)):
            return f"is not there for multi_class={self.multi_class!r}, which trains the classes jointly; use 'ovr'"
        return None

    def _loss(self) -> Any:
        return classification_loss(self.loss, self.delta)

    # -------------------------------------------------------------------------------------------------------------- streams

    @available_if(_takes_batches)
    def partial_fit(
        self, X: object, y: object, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> LinearSVC:
        """Move the model by one batch of a stream, which is then forgotten.

        The model minimises ½‖w − w_before‖² + C·Σ over the batch of the loss, to a relative gap of `tol` or for `max_iter` epochs on
        the batch: it moves as little as it must, and a batch that comes again counts again. That gap is all that is certified. How
        far the model is from the best one for the whole stream cannot be known while earlier batches are out of sight, so the
        attributes that say so after `fit` (certificate_, objective_, dual_gap_, …) are absent; `dualgap.certify` certifies the model
        on any data kept.

        Parameters
        ----------
        X, y : a batch
        classes : all labels that the stream may bring; needed at the first call
        sample_weight : n numbers, optional
        """
        parameters = checked(self)
        if parameters.ratio == 1.0 or self.class_weight == "balanced":
            raise ValueError(
                f"partial_fit needs l1_ratio < 1 and class weights that are known; got l1_ratio={parameters.ratio:g}, "
                f"class_weight={self.class_weight!r}"
            )
        first = not hasattr(self, "classes_")
        X, y = validated(self, X, y, reset=first)
        check_labels(y)
        if first and classes is None:
            raise ValueError("classes must be given at the first call of partial_fit: the labels that the stream may bring")
        if classes is not None and not first and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} differ from those of earlier calls, {self.classes_.tolist()}")
        if first:
            self.classes_ = np.unique(np.asarray(classes))
            models = 1 if len(self.classes_) == 2 else len(self.classes_)
            self.coef_, self.intercept_ = np.zeros((models, X.shape[1])), np.zeros(models)
        data = Labelled(X, y, sample_weight, self.class_weight, self.classes_)
        partial_fit(self, data, parameters)
        return self

    # --------------------------------------------------------------------------------------------------------- predictions

    def decision_function(self, X: object) -> np.ndarray:
        """Return the scores of samples: for two classes one each, else one for each class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: object) -> np.ndarray:
        """Return the labels of samples: those of the largest score."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)])

    @available_if(is_calibrated)
    def predict_proba(self, X: object) -> np.ndarray:
        """Return probabilities of the classes; the most probable class is the label that `predict` returns.

        With loss="log_loss" they are the model's own; with more than two classes, those of each class against the rest, scaled to sum to
        one, or with multi_class="multinomial" exp(gₖ)/Σⱼ exp(gⱼ) of the scores g. Other losses need probability=True before `fit`, which
        then fits on five folds, too.
        """
        check_fitted(self)
        if self.loss not in ("log_loss", "logistic"):
            return calibrated(self, X)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            found = np.stack([expit(-scores), expit(scores)], axis=1)
        elif self.multi_class == "multinomial":
            found = softmax(scores, axis=1)
        else:
            found = np.maximum(expit(scores), np.finfo(np.float64).tiny)  # where all are 0, all are equal
            found /= found.sum(axis=1, keepdims=True)
        return agreed(found, np.searchsorted(self.classes_, self.predict(X)))

    _proof = ClassProof
    predict_log_proba = predict_log_proba
    predict_proven, decision_bounds = predict_proven, decision_bounds
    sparsify, densify = SparseCoefMixin.sparsify, SparseCoefMixin.densify
