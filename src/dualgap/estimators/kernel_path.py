"""SVCPath: kernel machines for every C of a range; SVCPathCV: the C that does best in cross-validation, proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dualgap.answers import Certain, Fold, Pairs, labels_by_class
from dualgap.core import gram, number, one_of
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_model import KernelChoice, called_kernel, made_kernel
from dualgap.estimators.model import Kept
from dualgap.estimators.parameters import Loss, estimator, intercept_of
from dualgap.estimators.path import Given, Path, Values
from dualgap.estimators.path_choice import choose, contest_solver, held_out
from dualgap.estimators.path_grid import Limits, Machine
from dualgap.estimators.samples import ClassWeight, Labelled, Targets, check_labels
from dualgap.kernels import Kernel, make_kernel
from dualgap.problem import Problem
from dualgap.proof import require_semidefinite
from dualgap.run import Trained
from dualgap.solvers import Solver, WorkingSet

__all__ = ["SVCPath", "SVCPathCV", "checked_rows", "kernel_machines"]

OF_AN_SVC = (
    "kernel",
    "degree",
    "gamma",
    "coef0",
    "fit_intercept",
    "class_weight",
    "cache_size",
    "max_iter",
    "solver",
    "random_state",
    "decision_function_shape",
)


@estimator
class _Pairs(ClassifierMixin, Path):
    """Paths of SVC, one for each pair of classes, over one kernel matrix.

    Sets: `fit` sets the kernel and the training rows, which are those of the expansions.

    Parameters
    ----------
    loss, delta, intercept
        As in `LinearSVC`.
    kernel, degree, gamma, coef0, fit_intercept, class_weight, max_iter, solver, random_state, decision_function_shape
        As in `SVC`.
    cache_size : float
        Megabytes (of 10⁶ bytes) for the kernel matrix. Where it takes more, kernel values are computed again for each solve.
    """

    Cs: Values = field(default=(0.01, 100.0), kw_only=False)
    loss: Loss = "hinge"
    kernel: KernelChoice = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    class_weight: ClassWeight = None
    cache_size: float = 1000
    decision_function_shape: str = "ovr"

    _coefs = "dual_coefs_"
    classes_: np.ndarray = field(init=False)
    _kernel: Kernel = field(init=False)
    _X: Any = field(init=False)
    _data: Labelled = field(init=False)
    _matrix: np.ndarray | None = field(default=None, init=False)  # the kernel matrix of all rows, while `fit` holds it

    def _checked(self, X: object, y: object, sample_weight: ArrayLike | None) -> Given:
        one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        if np.ndim(self.Cs) != 1 or len(self.Cs) == 0:
            raise ValueError(f"Cs={self.Cs!r} must be a list of positive numbers, such as [0.01, 100]")
        for C in self.Cs:
            number("Cs", C)
        self._kernel, self._X, self._data = checked_rows(self, X, y, sample_weight)
        self.classes_ = self._data.classes
        return Given(Kept(X, y, sample_weight), self._data, self.classes_[self._data.codes])

    def _machines(self, data: Targets) -> list[Machine]:
        assert isinstance(data, Labelled)
        return list(kernel_machines(self, self._kernel, data, self._matrix))

    def _model(self, given: Given | None, C: float, ratio: float, results: Sequence[Trained]) -> SVC:
        model = SVC(C=C, **{name: getattr(self, name) for name in OF_AN_SVC})
        model._kernel, model._gamma = self._kernel, self._kernel.gamma
        model._keep(self._X, self._data, list(results))
        model.status_ = "converged"
        for name, value in self._columns().items():
            setattr(model, name, value)
        return model

    def _titles(self) -> tuple[list[Any], list[str]]:
        names = self.classes_.tolist()
        titles = [f"{names[i]} or {names[j]}" for i, j in self._data.pairs()]
        return titles, titles

    def decision_function(self, X: object) -> np.ndarray:
        """Return the scores of the model that is chosen, as those of `SVC`."""
        check_is_fitted(self)
        return self._chosen.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


@estimator
class SVCPath(_Pairs):
    """Kernel machines for every C of a range: at each C the model is proven to be within a guarantee of the optimum.

    How many models that takes, and for which C they are trained, is found out. Kernel values are computed once for all C. With more than
    two classes there is such a path for each pair of classes.

    Parameters
    ----------
    Cs : array of two or more numbers
        The range of C goes from the least to the largest.
    guarantee : float
        With 0.01, the objective of `model_at(C)` is proven to be at most 1.01 times the optimum, for every C of the range.

    Attributes
    ----------
    guarantee_ : the largest relative distance from the optimum that any model may have at any C of its range; infinite if a part of the
        range has no proven model
    breakpoints_ : array of shape (models, 2): the ends of the range of C that each model is proven for; each begins where the last ends
    Cs_, dual_coefs_, intercepts_ : of the models that were trained, in rising order of C; dual_coefs_ has a column for each training row
        (of the two classes)
    mixes_ : a tuple (i, j, t) for each model, which is (1 − t) times trained model i plus t times trained model j
    certificates_ : for each model a `ProvenRange`: certificates at some C of its range, which hold between them, too
    uncovered_ : pairs (low, high): ranges of C without a proven model; empty unless a solve ended early
        With more than two classes, these six are lists with an entry for each pair of classes.
    status_ : "converged" where `uncovered_` is empty, else why the walk ended
    classes_, n_features_in_, feature_names_in_
        `predict` uses the model of the largest C.

    Examples
    --------
    >>> from dualgap import SVCPath
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.3, random_state=0)
    >>> path = SVCPath(Cs=[0.1, 10.0], guarantee=0.01, random_state=0).fit(X, y)
    >>> model = path.model_at(2.5)
    >>> path.status_, model.certificate_.primal <= 1.01 * model.certificate_.dual, model.predict(X).shape
    ('converged', True, (100,))
    """

    guarantee: float | None = 0.01
    tol: float = field(default=1e-4, init=False)

    def _run(self, given: Given, limits: Limits) -> None:
        self._run_every_C(given, limits)


@estimator
class SVCPathCV(_Pairs):
    """The C of a kernel machine that does best in cross-validation, proven to be so where that can be proven.

    Every fold's models are trained on, from gap to gap, until it is proven which validation rows the exact models get right, as far as
    that decides which C is the best; a C that cannot win is dropped early. Kernel values are computed once for all C and folds.

    Parameters
    ----------
    Cs : array
        The values of C to choose from.
    kernel, degree, gamma, coef0, fit_intercept, class_weight, max_iter, tol, solver, random_state, decision_function_shape
        As in `SVC`; `tol` is that of the final model, on all the data. gamma="scale" is computed from all rows.
    cache_size : float
        Megabytes (of 10⁶ bytes) for the kernel matrix of all rows. Where it takes more, kernel values are computed again for each solve.
    max_time : float, optional
        Seconds for the cross-validation.
    cv : int, splitter or list of splits
    n_jobs : int, optional
        Threads over the folds.

    Attributes
    ----------
    C_ : the value chosen; of equally good ones the smallest
    proven_ : whether the exact models of C_ have the least mean validation error of all Cs on these folds, proven
    verdict_ : the outcome in a sentence
    winners_ : values of C that tie with C_ or, unless proven_, cannot be told apart from it
    Cs_ : the values of C, in rising order
    intervals_ : array of shape (folds, Cs, 2): the least and the largest validation error of each exact model; those of a dropped C are as
        wide as they were when it was dropped
    gaps_ : array of shape (folds, Cs): relative gaps that the models were trained to
    best_estimator_ : an `SVC` with C_, fitted on all the data
    certificate_, objective_, dual_gap_, status_, classes_, n_features_in_, feature_names_in_ : of that SVC

    Examples
    --------
    >>> from dualgap import SVCPathCV
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.3, random_state=0)
    >>> model = SVCPathCV([0.1, 1.0, 10.0], cv=3, random_state=0).fit(X, y)
    >>> model.C_ in model.Cs_, model.intervals_.shape
    (True, (3, 3, 2))
    """

    Cs: Values = field(default=(0.01, 0.1, 1.0, 10.0, 100.0), kw_only=False)
    cv: object = 5
    n_jobs: int | None = None
    certified: bool = field(default=True, init=False)

    def _run(self, given: Given, limits: Limits) -> None:
        table = callable(self.kernel) or self.kernel == "precomputed"
        held = not table and 8 * given.data.n**2 <= int(1e6 * number("cache_size", self.cache_size))
        self._matrix = self._kernel(given.data.X, given.data.X) if held else None
        try:
            choose(self, given, limits)
        finally:
            self._matrix = None
        self.best_estimator_ = self._chosen
        self.intervals_, self.gaps_ = self.intervals_[:, 0], self.gaps_[:, 0]  # without an axis of ratios
        self.winners_ = [C for C, _ in self.winners_]

    def _fold(
        self, given: Given, train: np.ndarray, test: np.ndarray, points: Sequence[tuple[float, float]], limits: Limits
    ) -> Fold:
        data, table = self._data, callable(self.kernel) or self.kernel == "precomputed"
        X, labels = data.X, given.labels
        rows = np.ascontiguousarray(X[np.ix_(train, train)]) if table else _safe_indexing(X, train)
        part = data.over(rows, train)
        matrix = None if self._matrix is None else np.ascontiguousarray(self._matrix[np.ix_(train, train)])
        own, pairs = list(kernel_machines(self, self._kernel, part, matrix)), part.pairs()
        members = [np.flatnonzero((part.codes == i) | (part.codes == j)) for i, j in pairs]
        new = [np.ascontiguousarray(X[np.ix_(test, train[each])]) if table else _safe_indexing(X, test) for each in members]
        diagonal = X[test, test] if table else None
        codes = held_out(part.classes, labels[test])

        def decide(results: list[Trained]) -> Certain:
            bounds = [result.ball.bounds(held, diagonal) for result, held in zip(results, new, strict=True)]
            low, high = (np.stack(ends, axis=1) for ends in zip(*bounds, strict=True))
            K = len(part.classes)
            return labels_by_class(codes, low, high) if K == 2 else Pairs(low, high, K).labels(codes)

        return Fold(len(test), contest_solver(own, points, limits), decide)


# --------------------------------------------------------------------------------------------------------------------- kernels


def kernel_machines(model: BaseEstimator, kernel: Kernel, data: Labelled, matrix: np.ndarray | None = None) -> Iterator[Machine]:
    """Yield the machine of each pair of classes; the kernel matrix of all rows is computed once, if it fits, unless it is given."""
    table = kernel.function is not None or kernel.name == "precomputed"
    if table and data.X.shape[0] != data.X.shape[1]:
        raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {data.X.shape}")
    kernel = make_kernel("precomputed") if table else kernel
    memory = int(1e6 * number("cache_size", model.cache_size))
    for pair in data.pairs():
        rows, signs, weights = data.sides(pair)
        whole = len(rows) == data.n
        if not whole and not table and matrix is None and 8 * data.n**2 <= memory:
            matrix = kernel(data.X, data.X)
        X = data.X if whole else data.X[np.ix_(rows, rows)] if table else data.X[rows]
        problem = Problem(X, signs, model.loss, model.delta, 1.0, 0.0, weights, intercept_of(model), kernel=kernel)
        own = matrix if matrix is None or whole else np.ascontiguousarray(matrix[np.ix_(rows, rows)])
        yield _over_kernel(problem, model.solver, memory, own)


def _over_kernel(problem: Problem, solver: str | Solver, memory: int, matrix: np.ndarray | None) -> Machine:
    """Return the machine of a kernel problem; its matrix is held if it fits into the memory."""
    kernel, n = problem.kernel, problem.n
    assert kernel is not None
    if isinstance(solver, str) and solver == "auto":
        working_set = WorkingSet(cache_size=memory / 1e6)
        solver = working_set if working_set.supports(problem) else "auto"
    if kernel.name == "precomputed" or 8 * n * n > memory:
        return Machine(problem, problem, problem.total_weight, solver)
    values = kernel(problem.X, problem.X) if matrix is None else matrix
    proven = problem.replace(rows=gram(values))
    require_semidefinite(proven)
    solved = proven.replace(X=values, d=n, kernel=make_kernel("precomputed"))
    solved.shared.semidefinite = True  # the kernel is, and the values are its values
    return Machine(proven, solved, problem.total_weight, solver)


def checked_rows(model: BaseEstimator, X: object, y: object, sample_weight: ArrayLike | None) -> tuple[Kernel, Any, Labelled]:
    """Return the kernel of an estimator, X as it was given, checked, and the labelled rows: a matrix if the kernel is a function."""
    X, y = SVC._checked(model, X, y)
    check_labels(y)
    kernel, table = made_kernel(model, X), called_kernel(model.kernel, X, len(y)) if callable(model.kernel) else X
    return kernel, X, Labelled(table, y, sample_weight, model.class_weight)
