"""Solvers of other packages, raced beside ours: LIBLINEAR and libsvm through scikit-learn, and its SGDClassifier.

The lab certifies their models like any other: by the objective of the model, and a bound. They give no dual variables, and the slopes of
the hinge at a model make a poor dual point; so the dual point is that of dualgap's own solver on the same problem, found off the clock.
LIBLINEAR and libsvm give one model a run, at the tolerance asked for.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dualgap.core import Hinge, Logistic, SquaredHinge, is_sparse
from dualgap.problem import Problem
from dualgap.run import minimise
from dualgap.solvers import Solver, State, Support, Warm

__all__ = ["LibLinear", "LibSVM", "SklearnSGD"]

BOUND_SECONDS = 20.0  # seconds for the bound; whatever it has become by then is a bound
FREE_COLUMN = (
    10.0  # LIBLINEAR's constant column for a free intercept b: the penalty on b is then a hundredth of that on a coefficient
)
MANY = 10**6  # iterations that LIBLINEAR may take: its tolerance ends it


@dataclass(kw_only=True)
class FittedState(State):
    coef: np.ndarray
    intercept: float = 0.0
    model: Any = None
    beta: np.ndarray | None = None  # a dual point of the problem, found when it is first asked for
    X: Any = None  # with a constant column, where the package has no penalised intercept


@dataclass(frozen=True)
class Outside(Solver):
    """A solver of another package: its bound comes from dualgap's own solver, which is no part of what is timed."""

    def dual(self, problem: Problem, state: FittedState) -> np.ndarray | None:
        if state.beta is None:
            state.beta = minimise(problem, "auto", tol=1e-7, max_epochs=5000, max_seconds=BOUND_SECONDS).dual
        return None if state.beta is None else np.array(state.beta)

    def model(self, problem: Problem, state: FittedState) -> tuple[np.ndarray, float]:
        return state.coef.copy(), state.intercept


def fitted_quietly(model: Any, problem: Problem, X: Any) -> Any:
    """Fit a scikit-learn model; what it says of convergence the certificate says better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, problem.y, sample_weight=problem.c * problem.n)


@dataclass(frozen=True)
class LibLinear(Outside):
    """LIBLINEAR's dual coordinate descent, by scikit-learn: one model at its tolerance `tol`.

    It penalises an intercept. For a free one its constant column is 10, which leaves little of the penalty.
    """

    tol: float = 1e-4

    name: ClassVar[str] = "liblinear"
    summary: ClassVar[str] = "LIBLINEAR through scikit-learn"
    one_shot: ClassVar[bool] = True

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None or problem.l1 > 0 or problem.l2 == 0:
            return Support(False, "LIBLINEAR is raced on linear problems with an l2 penalty")
        fine = isinstance(problem.loss, (Hinge, SquaredHinge, Logistic))
        return Support(fine, "" if fine else "LIBLINEAR has the hinge, the squared hinge and the logistic loss")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> FittedState:
        seed = int(rng.integers(2**31))
        C = 1.0 / (problem.l2 * problem.n)
        column = {"none": 1.0, "penalised": problem.intercept_scale, "free": FREE_COLUMN}[problem.intercept]
        shared = {"C": C, "tol": self.tol, "fit_intercept": problem.intercept != "none", "intercept_scaling": column}
        shared |= {"random_state": seed, "max_iter": MANY}
        if isinstance(problem.loss, Logistic):
            from sklearn.linear_model import LogisticRegression

            model = LogisticRegression(solver="liblinear", dual=True, **shared)
        else:
            from sklearn.svm import LinearSVC

            model = LinearSVC(loss="hinge" if isinstance(problem.loss, Hinge) else "squared_hinge", dual=True, **shared)
        return FittedState(coef=np.zeros(problem.d), model=model)

    def epoch(self, problem: Problem, state: FittedState, rng: np.random.Generator) -> None:
        model = fitted_quietly(state.model, problem, problem.X)
        state.coef = np.asarray(model.coef_[0], dtype=np.float64)
        state.intercept = float(np.ravel(model.intercept_)[0]) if problem.intercept != "none" else 0.0
        state.passes += float(np.max(model.n_iter_))


@dataclass(frozen=True)
class LibSVM(Outside):
    """libsvm, by scikit-learn's SVC: one kernel model at its tolerance `tol`."""

    tol: float = 1e-3

    name: ClassVar[str] = "libsvm"
    summary: ClassVar[str] = "libsvm through scikit-learn"
    one_shot: ClassVar[bool] = True

    def supports(self, problem: Problem) -> Support:
        fine = problem.kernel is not None and isinstance(problem.loss, Hinge) and problem.intercept == "free"
        return Support(fine, "" if fine else "libsvm is raced on kernel problems with the hinge and a free intercept")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> FittedState:
        from sklearn.svm import SVC

        kernel: Any = problem.kernel
        options = {name: getattr(kernel, name) for name in ("gamma", "degree", "coef0") if hasattr(kernel, name)}
        model = SVC(kernel=kernel.name, C=1.0 / (problem.l2 * problem.n), tol=self.tol, cache_size=500, **options)
        return FittedState(coef=np.zeros(problem.n), model=model)

    def epoch(self, problem: Problem, state: FittedState, rng: np.random.Generator) -> None:
        model = fitted_quietly(state.model, problem, problem.X)
        state.coef = np.zeros(problem.n)
        state.coef[model.support_] = model.dual_coef_[0]
        state.intercept = float(model.intercept_[0])
        state.passes += float(np.max(model.n_iter_)) / problem.n


@dataclass(frozen=True)
class SklearnSGD(Outside):
    """scikit-learn's SGDClassifier with its own schedule, a pass an epoch."""

    average: bool = False

    name: ClassVar[str] = "sklearn_sgd"
    summary: ClassVar[str] = "scikit-learn's SGDClassifier"

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None or problem.l2 == 0:
            return Support(False, "SGDClassifier is raced on linear problems with l2 > 0")
        if problem.intercept == "penalised" and problem.l1 > 0:
            return Support(False, "SGDClassifier penalises an intercept as it does a coefficient, by l1 too")
        fine = isinstance(problem.loss, (Hinge, SquaredHinge, Logistic))
        return Support(fine, "" if fine else "SGDClassifier has no smooth hinge")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> FittedState:
        from sklearn.linear_model import SGDClassifier

        loss = {Hinge: "hinge", SquaredHinge: "squared_hinge", Logistic: "log_loss"}[type(problem.loss)]
        # Its penalty is alpha·((1−l1_ratio)/2·‖w‖² + l1_ratio·‖w‖₁).
        alpha = problem.l2 + problem.l1
        model = SGDClassifier(
            loss=loss,
            penalty="elasticnet" if problem.l1 else "l2",
            alpha=alpha,
            l1_ratio=problem.l1 / alpha,
            fit_intercept=problem.intercept == "free",
            average=self.average,
            random_state=int(rng.integers(2**31)),
        )
        X: Any = problem.X
        if problem.intercept == "penalised":
            column = np.full((problem.n, 1), problem.intercept_scale)
            X = sparse.hstack([X, sparse.csr_matrix(column)]).tocsr() if is_sparse(X) else np.hstack([X, column])
        return FittedState(coef=np.zeros(problem.d), model=model, X=X)

    def epoch(self, problem: Problem, state: FittedState, rng: np.random.Generator) -> None:
        weights = problem.c * problem.n
        state.model.partial_fit(state.X, problem.y, classes=np.array([-1.0, 1.0]), sample_weight=weights)
        state.passes += 1.0

    def model(self, problem: Problem, state: FittedState) -> tuple[np.ndarray, float]:
        model = state.model
        if not hasattr(model, "coef_"):
            return state.coef.copy(), 0.0
        coef = np.array(model.coef_[0], dtype=np.float64)
        if problem.intercept == "penalised":
            return coef[:-1], problem.intercept_scale * float(coef[-1])
        return coef, float(model.intercept_[0])
