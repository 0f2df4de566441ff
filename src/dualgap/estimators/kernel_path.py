"""SVCPath: kernel machines for every C of a range, each proven within a guarantee; kernel values are computed once for all C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dualgap.core import gram, kept, number, one_of, whole_number
from dualgap.estimators.common import check_labels, fit_seed, invalid_parameters, penalties
from dualgap.estimators.guaranteed_fit import (
    Deadline,
    check_guarantee,
    check_range,
    draw_guarantee,
    fitted_at,
    forget_path,
    guaranteed_paths,
    keep_guaranteed,
)
from dualgap.estimators.guaranteed_path import SOLVED_SHARE, walk
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_model import called_kernel
from dualgap.estimators.labelled import Labelled
from dualgap.kernels import Kernel, make_kernel
from dualgap.problem import Problem
from dualgap.proof import Certificate, require_semidefinite
from dualgap.run import Result, Trace, minimise
from dualgap.solvers import WorkingSet

__all__ = [
    "KernelMachines",
    "KernelProblems",
    "SVCPath",
    "Shape",
    "as_Cs",
    "checked_kernel",
    "checked_rows",
    "each_pair",
    "pairs_of",
    "svc_like",
]


class Shape:
    """What `KernelProblems` needs to know of an estimator: the loss, the intercept, the kernel, the memory, the solver."""

    def __init__(self, model: Any, kernel: Any) -> None:
        self.loss, self.delta = model.loss, model.delta
        self.intercept = one_of("intercept", model.intercept, ("free", "penalised")) if model.fit_intercept else "none"
        self.kernel = make_kernel("precomputed") if kernel.function is not None else kernel
        self.memory = int(1e6 * number("cache_size", model.cache_size))
        self.solver = model.solver


class KernelProblems:
    """The problems of two classes for any C, over one kernel matrix.

    If the matrix fits into the memory, solvers work on it as a precomputed one, and certificates take their sums from it, with bounds on
    the errors of its values. Else every solve computes the kernel rows that it needs.

    `X` are the rows, or the kernel matrix of a precomputed kernel; `matrix` the kernel matrix, where it is known.
    """

    def __init__(
        self, shape: Shape, X: Any, signs: np.ndarray, weights: np.ndarray | None, matrix: np.ndarray | None = None
    ) -> None:
        self.total = float(len(signs) if weights is None else weights.sum())
        self.solver = shape.solver
        self.proven = Problem(X, signs, shape.loss, shape.delta, 1.0, 0.0, weights, shape.intercept, kernel=shape.kernel)
        self.solved = self.proven
        if isinstance(self.solver, str) and self.solver == "auto":
            working_set = WorkingSet(cache_size=shape.memory / 1e6)
            self.solver = working_set if working_set.supports(self.proven) else "auto"
        n = self.proven.n
        assert self.proven.kernel is not None
        if self.proven.kernel.name != "precomputed" and 8 * n * n <= shape.memory:
            values = self.proven.kernel(X, X) if matrix is None else matrix
            self.proven = self.proven.replace(rows=gram(values))
            require_semidefinite(self.proven)
            self.solved = self.proven.replace(X=values, d=n, kernel=make_kernel("precomputed"))
            self.solved.shared.semidefinite = True  # the kernel is, and the values are its values

    @property
    def matrix(self) -> np.ndarray | None:
        """The kernel matrix, where it is held."""
        return None if self.solved is self.proven else self.solved.X

    def strengths(self, C: float) -> tuple[float, float]:
        """Return (l2, l1) for a C."""
        return penalties(C, 0.0, self.total)

    def solve(self, C: float, warm: Any, tol: float, max_epochs: int, seconds: float | None, seed: int) -> Result:
        """Solve for one C; the result is one of the problem that certificates are for."""
        l2, _ = self.strengths(C)
        result = minimise(self.solved.variant(l2=l2), self.solver, tol, max_epochs, seconds, seed, warm_start=warm)
        return result if self.solved is self.proven else Result.of(result, problem=self.proven.variant(l2=l2))


class KernelMachines(ClassifierMixin, BaseEstimator):
    """What estimators of kernel machines at several values of C share: parameters, their checks, and predictions.

    Sets: a subclass sets `_chosen` in `fit`, the fitted SVC that predicts.
    """

    _chosen: SVC

    def __init__(
        self,
        Cs: Any,
        *,
        kernel: Any,
        degree: int,
        gamma: float | str,
        coef0: float,
        loss: Any,
        delta: float | None,
        fit_intercept: bool,
        intercept: str,
        class_weight: Any,
        cache_size: float,
        max_iter: int,
        max_time: float | None,
        decision_function_shape: str,
        solver: Any,
        random_state: Any,
    ) -> None:
        self.Cs = Cs
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.loss = loss
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.solver = solver
        self.random_state = random_state

    def _checked_Cs(self) -> np.ndarray:
        """Check the parameters that do not depend on the data, and return the values of C in rising order."""
        whole_number("max_iter", self.max_iter)
        one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        return as_Cs(self.Cs)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the model that predicts, as those of `SVC`."""
        check_is_fitted(self)
        return self._chosen.decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Labels by the model that predicts."""
        check_is_fitted(self)
        return self._chosen.predict(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


class SVCPath(KernelMachines):
    """Kernel machines for every C of a range: at each C the model is proven to be within a guarantee of the optimum.

    How many models that takes, and for which C they are trained, is found out. Kernel values are computed once for all C. With more than
    two classes there is such a path for each pair of classes.

    Parameters
    ----------
    Cs : array of two or more numbers
        The range of C goes from the least to the largest.
    guarantee : float
        With 0.01, the objective of `model_at(C)` is proven to be at most 1.01 times the optimum, for every C of the range.
    kernel, degree, gamma, coef0, fit_intercept, class_weight, max_iter, solver, random_state, decision_function_shape
        As in `SVC`.
    loss, delta, intercept
        As in `LinearSVC`.
    cache_size : float
        Megabytes (of 10⁶ bytes) for the kernel matrix. Where it takes more, kernel values are computed again for each solve.
    max_time : float, optional
        Seconds for the whole path.

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

    def __init__(
        self,
        Cs: Any = (0.01, 100.0),
        *,
        guarantee: float = 0.01,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        loss: Any = "hinge",
        delta: float | None = None,
        fit_intercept: bool = True,
        intercept: str = "free",
        class_weight: Any = None,
        cache_size: float = 1000,
        max_iter: int = 1000,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        solver: Any = "auto",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            Cs,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            loss=loss,
            delta=delta,
            fit_intercept=fit_intercept,
            intercept=intercept,
            class_weight=class_weight,
            cache_size=cache_size,
            max_iter=max_iter,
            max_time=max_time,
            decision_function_shape=decision_function_shape,
            solver=solver,
            random_state=random_state,
        )
        self.guarantee = guarantee

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVCPath:
        """Train models for the whole range of C.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
        y : n labels
        sample_weight : n numbers, optional
        """
        epsilon = check_guarantee(self.guarantee)
        low, high = check_range(self._checked_Cs())
        forget_path(self)
        with kept() as ctrl_c:
            kernel, X, data = checked_rows(self, X, y, sample_weight)
            shape = Shape(self, kernel)
            clock, seed = Deadline(self.max_time, len(pairs_of(data))), fit_seed(self.random_state)
            paths, results = [], []
            for here in each_pair(shape, data):
                solve = partial(_timed, here, SOLVED_SHARE * epsilon, self.max_iter, clock.next(), seed)
                path, found = walk(solve, here.strengths, low, high, epsilon)
                paths.append(path)
                results.append(found)
            self.classes_, self._kernel, self._X, self._data = data.classes, kernel, X, data
            keep_guaranteed(self, paths, [result for found in results for result in found])
            self.dual_coefs_ = paths[0].coefs if len(paths) == 1 else [path.coefs for path in paths]
            ends = [found[-1] for found in results]
            self._chosen = self._model(high, [(r.coef, r.intercept) for r in ends], [r.certificate for r in ends])
            if ctrl_c.take():
                self.status_ = "interrupted"
            return self

    def _model(self, C: float, models: list[tuple[np.ndarray, float]], certificates: list[Certificate]) -> SVC:
        """Return a fitted SVC with the given expansion and intercept for each pair of classes."""
        fitted = svc_like(self, C, self._kernel)
        results = [
            Result(
                coef=coef,
                intercept=b,
                certificate=c,
                status="converged",
                trace=Trace(),
                epochs=self.n_iter_,
                cpu_seconds=0.0,
                wall_seconds=0.0,
            )
            for (coef, b), c in zip(models, certificates, strict=True)
        ]
        fitted._keep(self._X, self._data, pairs_of(self._data), results)
        fitted_at(fitted, self, certificates)
        return fitted

    def model_at(self, C: float) -> SVC:
        """Return the model that is proven at C, as a fitted SVC with its certificate.

        Parameters
        ----------
        C : float
            Any value from the least to the largest of `Cs`.
        """
        check_is_fitted(self)
        paths, C = guaranteed_paths(self), number("C", C)
        return self._model(C, [path.model(path.index(C)) for path in paths], [path.certificate(C) for path in paths])

    def plot_guarantee(self, ax: Any = None, label: Any = None) -> Any:
        """Draw how far from the optimum the models are at most, over C; returns matplotlib's axes.

        With more than two classes, `label` says which pair of classes is drawn, such as "0 or 2" (the first one unless told).
        """
        check_is_fitted(self)
        names = self.classes_.tolist()
        titles = [f"{names[i]} or {names[j]}" for i, j in pairs_of(self._data)]
        return draw_guarantee(self, ax, label, titles, titles)


def as_Cs(Cs: Any) -> np.ndarray:
    """Return values of C as an array in rising order, checked."""
    if np.ndim(Cs) != 1 or len(Cs) == 0:
        raise ValueError(f"Cs={Cs!r} must be a list of positive numbers, such as [0.01, 100]")
    return np.sort([number("Cs", float(C) if isinstance(C, (int, np.integer)) else C) for C in Cs])


def svc_like(model: Any, C: float, kernel: Kernel) -> SVC:
    """Return an SVC, not fitted, with the parameters of another kernel estimator."""
    names = (
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
    )
    made = SVC(C=C, decision_function_shape=model.decision_function_shape, **{name: getattr(model, name) for name in names})
    made._kernel, made._gamma = kernel, kernel.gamma
    return made


def checked_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Kernel, Any, Labelled]:
    """Return the kernel of an estimator, X as it was given, checked, and the labelled rows: a matrix if the kernel is a function."""
    X, y = SVC._checked(model, X, y)
    check_labels(y)
    kernel, table = checked_kernel(model, X, len(y))
    return kernel, X, Labelled(table, y, sample_weight, model.class_weight)


def checked_kernel(model: Any, X: Any, n: int) -> tuple[Kernel, Any]:
    """Return the kernel of an estimator for n rows X, and X: its matrix if the kernel is a function."""
    with np.errstate(over="ignore"), invalid_parameters():
        kernel = make_kernel(model.kernel, None if callable(model.kernel) else X, model.gamma, model.degree, model.coef0)
    if not 0.0 < kernel.gamma < np.inf:
        raise ValueError(
            f"gamma={model.gamma!r} comes to {kernel.gamma} on these data: X is too large or too small; scale the features"
        )
    return kernel, called_kernel(model.kernel, X, n) if callable(model.kernel) else X


def pairs_of(data: Labelled) -> list[tuple[int, int]]:
    """Return the pairs of classes, the positive one first."""
    return [(1, 0)] if len(data.classes) == 2 else list(combinations(range(len(data.classes)), 2))


def each_pair(shape: Shape, data: Labelled, matrix: np.ndarray | None = None) -> Iterator[KernelProblems]:
    """Yield the problems of each pair of classes; the kernel matrix of all rows is computed once, if it fits, unless it is given."""
    table = shape.kernel.function is not None or shape.kernel.name == "precomputed"
    if table and data.X.shape[0] != data.X.shape[1]:
        raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {data.X.shape}")
    unweighted = data.weights is None and data.by_class is None
    for pair in pairs_of(data):
        rows = np.flatnonzero((data.codes == pair[0]) | (data.codes == pair[1]))
        whole = len(rows) == data.n
        if not whole and not table and matrix is None and 8 * data.n**2 <= shape.memory:
            matrix = shape.kernel(data.X, data.X)
        X = data.X if whole else data.X[np.ix_(rows, rows)] if table else data.X[rows]
        yield KernelProblems(
            shape,
            X,
            np.where(data.codes[rows] == pair[0], 1.0, -1.0),
            None if unweighted else data.own_weights()[rows],
            matrix if matrix is None or whole else np.ascontiguousarray(matrix[np.ix_(rows, rows)]),
        )


def _timed(here: KernelProblems, tol: float, max_epochs: int, until: float | None, seed: int, C: float, warm: Any) -> Result:
    seconds = None if until is None else max(until - time.perf_counter(), 1e-9)
    return here.solve(C, warm, tol, max_epochs, seconds, seed)
