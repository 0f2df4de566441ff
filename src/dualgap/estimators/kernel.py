"""SVC: a kernel machine with a certificate, its attributes laid out as scikit-learn's. One problem for each pair of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import validate_data

from dualgap.core import Hinge, kept, one_of
from dualgap.estimators.deciding import PairVotes, solve_until_decided
from dualgap.estimators.fitting import Solve, Task, Tasks, keep, keep_attributes, solve_tasks
from dualgap.estimators.indefinite import stationary_points
from dualgap.estimators.kernel_model import ACCEPTED, BLOCK_VALUES, KernelModel
from dualgap.estimators.model import Fit, Kept, fit_of
from dualgap.estimators.parameters import Budget, estimator, invalid_parameters
from dualgap.estimators.probability import calibrate, check_probability, predict_log_proba, predict_proba
from dualgap.estimators.progress import has_listeners, with_callbacks
from dualgap.estimators.proof import PairProof, binary_part, decision_bounds, predict_proven, table_of
from dualgap.estimators.samples import ClassWeight, Duals, Labelled, check_fitted, check_labels, support, validated_rows
from dualgap.problem import Problem, as_features, check_finite, from_C, normalised
from dualgap.proof import MOST_ROWS, ProofError
from dualgap.run import Trained, minimise_pairs
from dualgap.solvers.working_set import StationaryPoint

__all__ = ["SVC"]

MANY_CLASSES = 6  # from which scores are sums by class: of few classes, those of all pairs are one product


@estimator
class SVC(ClassifierMixin, KernelModel):
    """Support vector classifier with kernels, whose fit ends on a certified duality gap.

    Minimises C·Σ sᵢ max(0, 1 − yᵢ f(xᵢ)) + ½‖f‖² over f(x) = Σ aⱼ k(xⱼ, x) + b, for every pair of classes.

    Parameters
    ----------
    indefinite : {"error", "clip", "shift", "uncertified"}
        What to do where the kernel matrix K of the training rows is not positive semidefinite, as that of "sigmoid" need not be: it
        has no certificate. Elsewhere this has no effect. "error" refuses.
        "clip" trains on the nearest semidefinite matrix, with the negative eigenvalues of K set to 0, and "shift" on K − λ_min·I; both are
        certified for that matrix. "uncertified" returns a stationary point, as LIBSVM does, with `certificate_` None. All but "error" hold
        the matrix in memory and compute its eigenvalues, in time n³. docs/kernels.md has the scores of new rows.
    probability : bool
        Whether `fit` also fits `temperature_` for `predict_proba`, by five more fits on parts of the rows.
    class_weight : dict, "balanced" or None
    decision_function_shape : {"ovr", "ovo"}
        A column for each class, or for each pair of classes. With two classes there is one column in any case.
    break_ties : bool
        With more than two classes and "ovr": predict the class of the largest decision value, not the first of those with most votes.
    warm_start : bool
        Whether `fit` starts from the dual variables of the last fit, if the numbers of rows and classes are the same.

    Attributes
    ----------
    support_ : rows of the support vectors, class by class
    support_vectors_ : those rows; empty for a precomputed kernel
    n_support_ : how many each class has
    dual_coef_ : array of shape (number of classes − 1, number of support vectors), sparse where X was
        With two classes yᵢ·C·sᵢ·βᵢ, else scikit-learn's arrangement of the pairs' coefficients.
    intercept_ : one for each pair of classes
    coef_ : for kernel="linear", one row for each pair of classes; read-only
    classes_, n_features_in_, feature_names_in_
    class_weight_ : the weight of each class
    shape_fit_ : the shape of X in `fit`
    fit_status_ : 0 where `status_` is "converged" or "decided", else 1
    n_iter_ : epochs for each pair
    objective_, dual_gap_, certificate_, history_ : of the problem, or one for each pair
        The objective is scikit-learn's divided by C·Σs.
    temperature_ : with probability=True, the factor of the scores in `predict_proba`
    indefinite_ : None, or what was done with a kernel that is not positive semidefinite: its treatment and extreme eigenvalues
        With "clip", `dual_coef_` and `support_` are about the clipped kernel; scores of new rows are sums over all training rows.
    status_ : "converged" where every certified gap is within `tol`, "decided" by fit's argument `decide`; else as in `LinearSVC`
        "uncertified" where `indefinite` has said so and the kernel is not positive semidefinite: `certificate_`, `objective_`, `dual_gap_`
        and `history_` are then None.

    Examples
    --------
    >>> from dualgap import SVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(random_state=0).fit(X, y)
    >>> model.status_, model.dual_coef_.shape[0], max(c.relative_gap for c in model.certificate_) <= 1e-4
    ('converged', 2, True)
    """

    class_weight: ClassWeight = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    warm_start: bool = False
    probability: bool | str = False

    _proof = PairProof
    predict_proba, predict_log_proba = predict_proba, predict_log_proba
    predict_proven, decision_bounds = predict_proven, decision_bounds

    # -------------------------------------------------------------------------------------------------------------- fitting

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None, decide: object = None) -> SVC:
        """Train on samples X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
            With a callable kernel anything that has a length and takes an index, as long as the kernel understands it.
        y : n labels
        sample_weight : n numbers, optional
        decide : samples, optional
            Stop once the labels of these samples are proven to be those of the exact model (`status_` is then "decided", and
            `predict_proven` proves them all), or at `tol` if that comes first. Not with a kernel matrix or a function as kernel.
        """
        if decide is not None and (callable(self.kernel) or self.kernel == "precomputed"):
            raise ValueError(
                f"decide does not go with kernel={self.kernel!r}, which says nothing of k(x, x) of new rows; name a kernel"
            )
        with invalid_parameters():
            C, budget = self._limits()
            one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
            if self.probability is not False:
                check_probability(self, X)
        given = Kept(X, y, sample_weight)
        X, y = self._checked(X, y)
        check_labels(y)
        rows = None
        if decide is not None:
            rows = as_features(validate_data(self, decide, reset=False, **ACCEPTED), "decide", self.n_features_in_)
        table, treated = self._table(X, len(y))
        if treated is not None and decide is not None:
            raise ValueError(f"decide does not go with a kernel that is not positive semidefinite: {treated.said}")
        data = Labelled(table, y, sample_weight, self.class_weight)
        pairs = data.pairs()
        with kept():  # to the return, so that Ctrl-C after the training loses no model
            if treated is not None and not treated.certified:
                self._fit_uncertified(X, data, budget)
            else:

                def task(k: int) -> Task:
                    return Task(
                        data.pair_name(pairs[k]), partial(self._problem, data, pairs[k], C), self._warm(data, pairs[k], k, C)
                    )

                together = self._at_once(data, C, budget) if rows is None else None
                tasks = Tasks(len(pairs), task)
                solve: Solve = partial(solve_tasks, budget=budget, decide=rows, at_once=together)
                if rows is not None and len(pairs) > 1:
                    votes = PairVotes(len(data.classes), self.break_ties)
                    solve = partial(solve_until_decided, budget=budget, rows=rows, votes=votes)
                self._train(given, X, data, tasks, budget, solve, treated, partial(self._keep, X, data))
            if self.probability is not False:
                calibrate(self, X, y, data.weights)
            return self

    def _fit_uncertified(self, X: object, data: Labelled, budget: Budget) -> None:
        said = self.indefinite_
        problems = [self._problem(data, pair, self.C) for pair in data.pairs()]
        points = stationary_points(type(self).__name__, problems, budget.tol, budget.max_epochs)
        attributes = self._layout(X, data, points)
        found = {"intercept_": np.array([p.intercept for p in points]), "status_": "uncertified"}
        nothing = dict.fromkeys(("certificate_", "history_", "objective_", "dual_gap_"))  # numbers that would be part of a proof
        keep_attributes(self, Fit(data.n), nothing | attributes | found | {"indefinite_": said})

    def _parts(self, X: object, y: object, sample_weight: ArrayLike | None, duals: Duals) -> tuple[Any, list[Any]]:
        rows, y = self._checked(X, y)
        data = Labelled(self._trained_on(X, rows, len(y)), y, sample_weight, self.class_weight)
        table, K = table_of(self, data), len(data.classes)
        if (n := fit_of(self).n_rows) != data.n:
            raise ProofError(f"the model was trained on {n} rows; X has {data.n}")
        signed, parts = self._over_all_rows(), []
        for k, (i, j) in enumerate(data.pairs()):
            problem = self._problem(data, (i, j), float(self.C))
            coef = signed[data.members(i) | data.members(j), k]
            if duals is not None:
                dual = duals[k]
            else:
                dual = np.divide(np.abs(coef) * problem.l2, problem.c, out=np.zeros(len(coef)), where=problem.c > 0)
            title = "" if K == 2 else f"class {data.classes[i]} against class {data.classes[j]}"
            parts.append(binary_part(self, k, problem, (coef, float(self.intercept_[k]), dual), duals is not None, (i, j), title))
        return table, parts

    def _keeps_all_rows(self) -> str | None:
        if self.indefinite_ is not None:
            return (
                f"is not there for indefinite={self.indefinite_.treatment!r}: the kernel trained on was made from all training rows, "
                "those left out among them"
            )
        if (K := len(self.classes_)) > 2:
            return f"of an SVC is for two classes; this one has {K}, which pairs of classes vote on. LinearSVC has it for several classes"
        return None

    def _loss(self) -> Hinge:
        return Hinge()

    def _problem(self, data: Labelled, pair: tuple[int, int], C: float) -> Problem:
        """Class pair[0] against class pair[1]."""
        rows, signs, weights = data.sides(pair)
        return self._problem_over(
            self._rows_of(data.X, rows), signs, "hinge", C, len(rows) if weights is None else float(weights.sum()), weights
        )

    def _at_once(self, data: Labelled, C: float, budget: Budget) -> Callable[[], list[Trained | None]] | None:
        """Return what solves all pairs of classes in one compiled call; None where that does not serve.

        It needs one kernel matrix of all rows in memory, and pairs of few rows, of which each is one working set.
        """
        largest = int(np.sort(np.bincount(data.codes))[-2:].sum())
        plain = (
            len(data.classes) > 2 and self._automatic and not self._is_table and self._kernel.semidefinite and self.fit_intercept
        )
        fits = largest <= MOST_ROWS and 8 * data.n**2 <= 1e6 * self.cache_size
        if (
            not (plain and fits and budget.tol > 0.0 == budget.atol)
            or budget.max_seconds is not None
            or self.warm_start
            or has_listeners(self)
        ):
            return None
        weights = None if data.weights is None and data.by_class is None else data.own_weights()
        if weights is not None and not weights.min() > 0.0:
            return None

        def solve() -> list[Trained | None]:
            pairs = data.all_pairs
            sizes = np.diff(pairs.starts)
            if weights is None:
                totals, c = sizes.astype(np.float64), np.repeat(1.0 / sizes, sizes)
            else:
                each = [weights[pairs.rows[first:last]] for first, last in pairwise(pairs.starts.tolist())]
                totals, c = np.array([part.sum() for part in each]), np.concatenate([normalised(part) for part in each])
            l2 = {total: from_C(C, total)["l2"] for total in set(totals.tolist())}
            strengths = np.array([l2[total] for total in totals.tolist()])
            return minimise_pairs(self._kernel, data.X, data.codes, pairs, c, strengths, budget.tol, budget.max_epochs)

        return solve

    def _warm(self, data: Labelled, pair: tuple[int, int], k: int, C: float) -> Any:
        fitted = self.warm_start and fit_of(self).n_rows == data.n and np.array_equal(self.classes_, data.classes)
        if not fitted:
            return None
        signed = np.zeros(data.n)
        signed[self.support_] = self._coefficients()[:, k]
        rows = np.flatnonzero(data.members(pair[0]) | data.members(pair[1]))
        scale = C * data.own_weights()[rows]
        beta = np.divide(np.abs(signed[rows]), scale, out=np.zeros(len(rows)), where=scale > 0)
        return None, float(self.intercept_[k]), beta

    def _keep(self, X: object, data: Labelled, results: list[Trained]) -> None:
        """Set the fitted attributes from the results."""
        keep(self, results, Fit(data.n), **self._layout(X, data, results))

    def _layout(self, X: object, data: Labelled, results: Sequence[Trained | StationaryPoint]) -> dict[str, Any]:
        """Return the fitted attributes from the models of the pairs, expansions over their rows, in scikit-learn's layout."""
        signed, every = np.zeros((len(data.classes) - 1, data.n)), data.all_pairs
        signed[every.lines, every.rows] = np.concatenate([result.coef for result in results])  # scikit-learn's arrangement
        found = support(signed, data.codes)
        rows = found["support_"]
        rows = rows[np.argsort(data.codes[rows], kind="stable")].astype(np.int32)
        return {
            "classes_": data.classes,
            "class_weight_": np.ones(len(data.classes)) if data.by_class is None else data.by_class,
            "n_support_": found["n_support_"].astype(np.int32),
            "n_iter_": np.array([result.epochs for result in results], dtype=np.int32),
            **self._expansion_attributes(X, signed, rows),
        }

    # ----------------------------------------------------------------------------------------------------------- prediction

    def _coefficients(self) -> np.ndarray:
        """Return the coefficients of the support vectors, a column for each pair of classes."""
        dual, K = _dense(self.dual_coef_), len(self.classes_)
        if K == 2:
            return dual.T
        ends = np.cumsum(self.n_support_).tolist()
        of_class = [slice(end - count, end) for end, count in zip(ends, self.n_support_.tolist(), strict=True)]
        columns = np.zeros((K * (K - 1) // 2, dual.shape[1]))
        for column, (i, j) in zip(columns, combinations(range(K), 2), strict=True):
            column[of_class[i]], column[of_class[j]] = dual[j - 1, of_class[i]], dual[i, of_class[j]]
        return columns.T

    def _scores(self, X: object) -> np.ndarray:
        """Return the scores of the pairs. Of many classes each has a sum over its support vectors for each of the others."""
        K, named = len(self.classes_), not callable(self.kernel) and self.kernel != "precomputed"
        pairs = K * (K - 1) // 2
        if K < MANY_CLASSES or not named or self._on_nearest():
            return super()._scores(X)
        check_fitted(self)
        rows = validated_rows(self, X, ensure_all_finite=True)
        check_finite(rows, "X", X)
        dual, ends, scores = (
            np.asarray(_dense(self.dual_coef_)),
            np.cumsum(self.n_support_).tolist(),
            np.empty((rows.shape[0], pairs)),
        )
        starts, step = np.cumsum([0, *range(K - 1, -1, -1)]), max(1, BLOCK_VALUES // max(dual.shape[1], pairs))
        for first in range(0, rows.shape[0], step):
            values, part = self._kernel(rows[first : first + step], self.support_vectors_), scores[first : first + step]
            part[:] = self.intercept_
            for i, (end, count) in enumerate(zip(ends, self.n_support_.tolist(), strict=True)):
                own = values[:, end - count : end] @ dual[:, end - count : end].T
                part[:, starts[i] : starts[i + 1]] += own[:, i:]  # against the classes after it
                part[:, starts[:i] + i - 1 - np.arange(i)] += own[:, :i]
        return scores

    def decision_function(self, X: object) -> np.ndarray:
        """Scores: with two classes one, positive for the second; else a column for each class or pair of classes.

        With kernel="precomputed", X has a column for each training row. Only the columns `support_` count; the others may be 0.
        """
        check_fitted(self)
        if len(self.classes_) == 2 or self.decision_function_shape == "ovr":
            return self._class_scores(X)
        return self._scores(X)

    def _class_scores(self, X: object) -> np.ndarray:
        pairs = self._scores(X)
        return pairs.ravel() if len(self.classes_) == 2 else _ovr_decision_function(pairs < 0, -pairs, len(self.classes_))

    def _refuse_ties(self) -> None:
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")

    def predict(self, X: object) -> np.ndarray:
        """Labels: with more than two classes the one with most votes of the pairs."""
        check_fitted(self)
        self._refuse_ties()
        if len(self.classes_) == 2:
            codes = (self.decision_function(X) > 0).astype(np.intp)
        elif self.break_ties:
            codes = np.argmax(self.decision_function(X), axis=1)
        else:
            codes = np.argmax(_votes(self._scores(X) > 0, len(self.classes_)), axis=1)
        return self.classes_[codes]


def _votes(won: np.ndarray, K: int) -> np.ndarray:
    """Return how many pairs each class has won, from whether the first class of each pair (0, 1), (0, 2), … has; a line for each row."""
    votes, start = np.zeros((len(won), K), dtype=np.intp), 0
    for i in range(K - 1):
        of_first = won[:, start : start + K - 1 - i]
        votes[:, i] += of_first.sum(axis=1)
        votes[:, i + 1 :] += ~of_first
        start += K - 1 - i
    return votes


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix
