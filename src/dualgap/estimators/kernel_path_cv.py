"""SVCPathCV: the C of a kernel machine that does best in cross-validation, proven."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from dualgap.core import number
from dualgap.estimators.certified_cv import Fold, contest, decide_pairs, forget_outcome, held_out, keep_outcome
from dualgap.estimators.common import fit_seed, warn_unless_converged
from dualgap.estimators.guaranteed_fit import fitted_at
from dualgap.estimators.kernel_path import KernelMachines, Shape, checked_rows, each_pair, pairs_of, svc_like
from dualgap.estimators.labelled import Labelled
from dualgap.run import Result

__all__ = ["SVCPathCV"]


class SVCPathCV(KernelMachines):
    """The C of a kernel machine that does best in cross-validation, proven to be so where that can be proven.

    Every fold's models are trained on, from gap to gap, until it is proven which validation rows the exact models get right, as far as
    that decides which C is the best; a C that cannot win is dropped early. Kernel values are computed once for all C and folds.

    Parameters
    ----------
    Cs : array
        The values of C to choose from.
    kernel, degree, gamma, coef0, fit_intercept, class_weight, max_iter, tol, solver, random_state, decision_function_shape
        As in `SVC`; `tol` is that of the final model, on all the data. gamma="scale" is computed from all rows.
    loss, delta, intercept
        As in `LinearSVC`.
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

    def __init__(
        self,
        Cs: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        *,
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
        tol: float = 1e-4,
        max_iter: int = 1000,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        solver: Any = "auto",
        random_state: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
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
        self.tol = tol
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVCPathCV:
        """Choose C by a proof, and train its model on all the data.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); for kernel="precomputed" the kernel matrix
        y : n labels
        sample_weight : n numbers, optional; used in training, not in scoring
        """
        self.Cs_ = self._checked_Cs()
        number("tol", self.tol, "[0, 1]")
        budget = self.max_iter, fit_seed(self.random_state)
        until = None if self.max_time is None else time.perf_counter() + number("max_time", self.max_time)
        forget_outcome(self)
        kernel, given, data = checked_rows(self, X, y, sample_weight)
        shape = Shape(self, kernel)
        table = shape.kernel.name == "precomputed"
        matrix = None
        if not table and 8 * data.n**2 <= shape.memory:
            matrix = kernel(data.X, data.X)
        labels = data.classes[data.codes]
        splits = list(check_cv(self.cv, labels, classifier=True).split(data.X, labels))
        folds = [self._fold(shape, data, matrix, train, test, budget) for train, test in splits]
        outcome = contest(folds, len(self.Cs_), self.n_jobs, until)
        keep_outcome(self, outcome, [f"C = {C:.6g}" for C in self.Cs_])
        self.intervals_, self.gaps_ = outcome.intervals, outcome.gaps
        self.C_, self.winners_ = float(self.Cs_[outcome.best]), [float(self.Cs_[k]) for k in outcome.left]
        problems = each_pair(shape, data, matrix)
        results = [here.solve(self.C_, None, self.tol, budget[0], None, budget[1]) for here in problems]
        self.classes_, self.n_iter_ = data.classes, max(r.epochs for r in results)
        self._chosen = self.best_estimator_ = svc_like(self, self.C_, kernel)
        self.best_estimator_._keep(given, data, pairs_of(data), results)
        for model in (self.best_estimator_, self):
            fitted_at(model, self, [r.certificate for r in results])
        self.status_ = self.best_estimator_.status_ = warn_unless_converged(type(self).__name__, results, self.tol)
        return self

    def _fold(self, shape: Shape, data: Labelled, matrix: Any, train: Any, test: Any, budget: tuple[int, int]) -> Fold:
        """Return a fold of the contest: its problems of every pair of classes, its validation rows."""
        X, labels, table = data.X, data.classes[data.codes], shape.kernel.name == "precomputed"
        rows = np.ascontiguousarray(X[np.ix_(train, train)]) if table else _safe_indexing(X, train)
        weights = None if data.weights is None else data.weights[train]
        part = Labelled(rows, labels[train], weights, self.class_weight)
        values = None if matrix is None else np.ascontiguousarray(matrix[np.ix_(train, train)])
        problems, pairs = list(each_pair(shape, part, values)), pairs_of(part)
        members = [np.flatnonzero((part.codes == i) | (part.codes == j)) for i, j in pairs]
        new = [np.ascontiguousarray(X[np.ix_(test, train[own])]) if table else _safe_indexing(X, test) for own in members]
        diagonal = X[test, test] if table else None
        codes = held_out(part.classes, labels[test])

        def solve(k: int, warm: Any, tol: float, seconds: float | None) -> list[Result]:
            starts = [None] * len(problems) if warm is None else warm
            return [
                here.solve(float(self.Cs_[k]), start, tol, budget[0], seconds, budget[1])
                for here, start in zip(problems, starts, strict=True)
            ]

        def decide(results: list[Result]) -> tuple[np.ndarray, np.ndarray]:
            bounds = [r.decision_bounds(held, diagonal) for r, held in zip(results, new, strict=True)]
            return decide_pairs(bounds, pairs, codes, len(part.classes))

        return Fold(len(test), solve, decide)
