"""Machine: one of the problems of an estimator at any C, over one set of rows: a class against the rest, a pair of classes, a target.

Paths, cross-validations and ν-machines are made of these. Here is how rows and labels become machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import gram, is_sparse, number, one_of
from dualgap.estimators.common import check_labels, invalid_parameters, penalties
from dualgap.estimators.kernel import SVC
from dualgap.estimators.kernel_model import called_kernel
from dualgap.estimators.targets import Labelled, Numbers
from dualgap.kernels import Kernel, make_kernel
from dualgap.problem import Problem
from dualgap.proof import require_semidefinite
from dualgap.run import Trained, minimise
from dualgap.solvers import WorkingSet

__all__ = [
    "Limits",
    "Machine",
    "checked_kernel",
    "checked_rows",
    "intercept_of",
    "kernel_machines",
    "linear_machines",
    "target_machines",
]


class Limits:
    """What the runs of a fit may cost: epochs for each, seconds for all of them, shared out; and their seed."""

    def __init__(self, max_epochs: int, max_seconds: float | None, seed: int) -> None:
        self.max_epochs, self.seed = max_epochs, seed
        self.end = None if max_seconds is None else time.perf_counter() + number("max_time", max_seconds)

    def share(self, parts: int) -> float | None:
        """Return until when the next of so many parts may take."""
        now = time.perf_counter()
        return None if self.end is None else now + max(self.end - now, 0.0) / max(parts, 1)


@dataclass(frozen=True)
class Machine:
    """The problem that certificates are for, the one that solvers work on, and the sum of the weights of the samples.

    The two differ for a kernel whose matrix is held: solvers take it as a precomputed one, and certificates take their sums from it,
    with bounds on the rounding that are those of the kernel.
    """

    proven: Problem
    solved: Problem
    total: float
    solver: Any

    def strengths(self, C: float, ratio: float = 0.0) -> tuple[float, float]:
        """Return (l2, l1) for a C and a share of l1."""
        return penalties(C, ratio, self.total)

    def problem(self, C: float, ratio: float = 0.0) -> Problem:
        """Return the problem that certificates are for."""
        l2, l1 = self.strengths(C, ratio)
        return self.proven.variant(l2=l2, l1=l1)

    def solve(
        self,
        C: float,
        ratio: float,
        warm: Any,
        tol: float,
        limits: Limits,
        until: float | None = None,
        halt: Callable[[], bool] | None = None,
        features: np.ndarray | None = None,
    ) -> Trained:
        """Solve for one C and share of l1; with `features`, a mask, over these columns alone."""
        l2, l1 = self.strengths(C, ratio)
        seconds = None if until is None else max(until - time.perf_counter(), 1e-9)
        solved = self.solved.variant(l2=l2, l1=l1)
        if features is not None:
            columns = solved.X[:, np.flatnonzero(features)]
            columns = columns if is_sparse(columns) else np.ascontiguousarray(columns)
            solved = solved.replace(X=columns, d=columns.shape[1])
        result = minimise(solved, self.solver, tol, limits.max_epochs, seconds, limits.seed, warm_start=warm, halt=halt)
        return result if self.solved is self.proven else Trained.of(result, problem=self.proven.variant(l2=l2, l1=l1))


def intercept_of(model: Any) -> str:
    """Return the kind of intercept that an estimator asks for."""
    kind: str = one_of("intercept", model.intercept, ("free", "penalised"))
    return kind if model.fit_intercept else "none"


# ---------------------------------------------------------------------------------------------------------------------- linear


def linear_machines(model: Any, data: Labelled) -> list[Machine]:
    """Return the machines of the classes: of the second of two, or of each against the rest."""
    scale, kind = number("intercept_scaling", model.intercept_scaling), intercept_of(model)
    sides = [data.side(j) for j in range(data.count)]
    first = Problem(data.X, sides[0].signs, model.loss, model.delta, 1.0, 0.0, sides[0].weights, kind, intercept_scale=scale)
    problems = [first, *(first.variant(side.signs, side.weights, l2=1.0, l1=0.0) for side in sides[1:])]
    return [Machine(problem, problem, side.total, model.solver) for problem, side in zip(problems, sides, strict=True)]


def target_machines(model: Any, data: Numbers, loss: Any) -> list[Machine]:
    """Return the machines of the targets."""
    scale, kind = number("intercept_scaling", model.intercept_scaling), intercept_of(model)
    weights = data.weights
    first = Problem(data.X, data.values[:, 0], loss, l2=1.0, sample_weight=weights, intercept=kind, intercept_scale=scale)
    problems = [first, *(first.variant(data.values[:, j]) for j in range(1, data.count))]
    return [Machine(problem, problem, data.total, model.solver) for problem in problems]


# --------------------------------------------------------------------------------------------------------------------- kernels


def kernel_machines(model: Any, kernel: Kernel, data: Labelled, matrix: np.ndarray | None = None) -> Iterator[Machine]:
    """Yield the machine of each pair of classes; the kernel matrix of all rows is computed once, if it fits, unless it is given."""
    table = kernel.function is not None or kernel.name == "precomputed"
    if table and data.X.shape[0] != data.X.shape[1]:
        raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {data.X.shape}")
    kernel = make_kernel("precomputed") if table else kernel
    memory = int(1e6 * number("cache_size", model.cache_size))
    unweighted = data.weights is None and data.by_class is None
    for pair in data.pairs():
        rows = np.flatnonzero((data.codes == pair[0]) | (data.codes == pair[1]))
        whole = len(rows) == data.n
        if not whole and not table and matrix is None and 8 * data.n**2 <= memory:
            matrix = kernel(data.X, data.X)
        X = data.X if whole else data.X[np.ix_(rows, rows)] if table else data.X[rows]
        signs = np.where(data.codes[rows] == pair[0], 1.0, -1.0)
        weights = None if unweighted else data.own_weights()[rows]
        problem = Problem(X, signs, model.loss, model.delta, 1.0, 0.0, weights, intercept_of(model), kernel=kernel)
        own = matrix if matrix is None or whole else np.ascontiguousarray(matrix[np.ix_(rows, rows)])
        yield _over_kernel(problem, model.solver, memory, own)


def _over_kernel(problem: Problem, solver: Any, memory: int, matrix: np.ndarray | None) -> Machine:
    """Return the machine of a kernel problem; its matrix is held if it fits into the memory."""
    kernel, n = problem.kernel, problem.n
    assert kernel is not None
    if isinstance(solver, str) and solver == "auto":
        working_set = WorkingSet(cache_size=memory / 1e6)
        solver = working_set if working_set.supports(problem) else "auto"
    weights = problem.sample_weight
    total = float(n if weights is None else weights.sum())
    if kernel.name == "precomputed" or 8 * n * n > memory:
        return Machine(problem, problem, total, solver)
    values = kernel(problem.X, problem.X) if matrix is None else matrix
    proven = problem.replace(rows=gram(values))
    require_semidefinite(proven)
    solved = proven.replace(X=values, d=n, kernel=make_kernel("precomputed"))
    solved.shared.semidefinite = True  # the kernel is, and the values are its values
    return Machine(proven, solved, total, solver)


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
