"""What kernel estimators share: the kernel, the matrix to train on, problems over it, and sums over the support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from dualgap.core import is_sparse, number, whole_number
from dualgap.estimators.fitting import Solve, Task, train
from dualgap.estimators.indefinite import NO_NEW_ROWS, IndefiniteKernel, Treated, treat
from dualgap.estimators.model import Fit, Kept, Model
from dualgap.estimators.parameters import Budget, Loss, budget_of, estimator, finite_C, invalid_parameters
from dualgap.estimators.progress import Callbacks
from dualgap.estimators.samples import (
    Targets,
    check_fitted,
    small_as_dense,
    validated,
    validated_rows,
)
from dualgap.kernels import Kernel, call_kernel, expansion, make_kernel
from dualgap.problem import Problem, check_finite, from_C
from dualgap.proof import ProofError
from dualgap.run import SUCCESSES, Trained
from dualgap.solvers import WorkingSet, get_solver

__all__ = ["ACCEPTED", "BLOCK_VALUES", "UNLIMITED", "KernelModel", "called_kernel", "fit_status", "made_kernel"]

KernelChoice = str | Callable[[Any, Any], ArrayLike]


UNLIMITED = 10**9  # epochs


BLOCK_VALUES = 8_000_000  # kernel values held at a time in prediction: 64 MB


ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


def fit_status(model: Model) -> int:
    """Return 0 for a fit that has reached its tolerance, else 1, as scikit-learn's `fit_status_` is."""
    return int(model.status_ not in SUCCESSES)


@estimator
class KernelModel(Model):
    """Training and prediction with a kernel.

    `fit` sets `_kernel`, `indefinite_` from `_treated`, and the attributes of support vectors; `_coefficients` has the
    coefficients of these, a column for each problem.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as in scikit-learn.
    fit_intercept : bool
        Whether there is an intercept b.
    n_jobs : int, optional
        Threads over the problems, of which each pair of classes or target has one; -1 for all processors. None is 1.
    callbacks : list of functions, optional
        Each is called with a `dualgap.Progress` at every evaluation; one that returns True ends the fit.
    indefinite : {"error", "clip", "shift"}
        As in `SVC`.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        A callable takes two collections of samples (whatever X is; arrays and SciPy matrices are read-only) and returns the matrix
        of their kernel values, real numbers. A precomputed matrix is taken as positive semidefinite up to the rounding of its entries.
        "linear" with solver="auto" is solved by the methods of `LinearSVC` and `LinearSVR`, in about their time.
    degree, gamma, coef0
        The kernel's parameters. gamma is a number, "scale" (1/(d·variance of X)) or "auto" (1/d).
    cache_size : float
        Megabytes (of 10⁶ bytes) for the kernel matrix of a problem. Where it takes more, its rows are computed as they are needed and
        kept while they fit.
    shrinking : ignored
        Accepted for code written for scikit-learn: whether to shrink is the solver's business.
    """

    C: float = 1.0
    fit_intercept: bool = True
    n_jobs: int | None = None
    callbacks: Callbacks = None
    indefinite: str = "error"
    kernel: KernelChoice = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    cache_size: float = 1000
    shrinking: object = True

    warm_start: bool = field(default=False, init=False)  # a parameter of SVC and SVR
    indefinite_: IndefiniteKernel | None = field(default=None, init=False)
    dual_coef_: Any = field(init=False)
    intercept_: np.ndarray = field(init=False)
    support_: np.ndarray = field(init=False)
    support_vectors_: Any = field(init=False)
    _fit: Fit = field(init=False)
    _kernel: Kernel = field(init=False)
    _X_fit: Any = field(init=False)
    _expansion: np.ndarray | None = field(default=None, init=False)  # coefficients of all training rows, of a clipped kernel

    def _limits(self) -> tuple[float, Budget]:
        """Check C, the solver and what a run may cost; draws its seed."""
        get_solver(self.solver)
        most = UNLIMITED if self.max_iter == -1 else whole_number("max_iter", self.max_iter)
        return finite_C(self.C), budget_of(self, self._solver(), most, seed=0)

    def _table(self, X: object, n: int) -> tuple[Any, Treated | None]:
        """Set the kernel; return the rows or the matrix to train on, and what was done with an indefinite kernel."""
        self._kernel = made_kernel(self, X)
        self._gamma = self._kernel.gamma
        table, treated = self._treated(X, n)
        self.indefinite_, self._expansion = None if treated is None else treated.said, None
        return table, treated

    def _train(
        self,
        given: Kept,
        X: object,
        data: Targets,
        tasks: Sequence[Task],
        budget: Budget,
        solve: Solve,
        treated: Treated | None,
        keep: Callable[[list[Trained]], None],
    ) -> None:
        """Solve the problems of a fit on rows X, and set the fitted attributes."""

        def keep_all(results: list[Trained]) -> None:
            keep(results)
            self.indefinite_ = None if treated is None else treated.said
            if treated is not None and treated.clipped is not None:
                self._X_fit, self._expansion = X, treated.clipped.coefficients(self._over_all_rows())

        # Kernel rows are shared out to threads of our own, which those of the BLAS get in the way of; for small products, to set the number
        # of these each time would take longer than the products.
        alone = len(tasks) > 1 or isinstance(budget.solver, WorkingSet)
        train(self, given, lambda: data.shown() | {"X": X}, tasks, solve, keep_all, budget.tol, treated=treated, alone=alone)

    def _treated(self, X: object, n: int) -> tuple[Any, Treated | None]:
        """Return the rows or the matrix to train on, and what was done with an indefinite kernel."""
        table = called_kernel(self.kernel, X, n) if callable(self.kernel) else X
        treated = treat(self.indefinite, self._kernel, table, callable(self.kernel) or self.kernel == "precomputed")
        return (table if treated is None else treated.matrix), treated

    def _trained_on(self, given: Any, X: object, n: int) -> Any:
        """Return X, checked rows, or the matrix that is trained on in place of an indefinite one; `given` is X as `fit` was given it."""
        if not self._on_nearest():
            return X
        kept = self._fit.kept
        return kept.treated.matrix if kept is not None and given is kept.X else self._treated(X, n)[0]

    def _on_nearest(self) -> bool:
        """Return whether the kernel was not positive semidefinite, and another matrix was trained on."""
        return self.indefinite_ is not None

    @property
    def _automatic(self) -> bool:
        return isinstance(self.solver, str) and self.solver == "auto"

    def _solver(self) -> Any:
        if not self._automatic or self.kernel == "linear":
            return self.solver
        return WorkingSet(cache_size=number("cache_size", self.cache_size))

    def _checked(self, X: object, y: object, **options: Any) -> tuple[Any, np.ndarray]:
        """Return X and y, checked; `options` are those of scikit-learn's `check_X_y`."""
        if callable(self.kernel):
            check_consistent_length(X, y)
            return X, np.asarray(y) if options.get("multi_output") else column_or_1d(y, warn=True)
        if sparse.issparse(X) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported: give X as an array of kernel values")
        rows, y = validated(self, X, y, **options)
        check_finite(rows, "X", X)
        return rows, y

    @property
    def _is_table(self) -> bool:
        """Whether a matrix of kernel values is trained on."""
        return callable(self.kernel) or self.kernel == "precomputed" or self._on_nearest()

    def _square(self, X: Any) -> Any:
        """Return X; refuse a kernel matrix that is not square."""
        if self._is_table and X.shape[0] != X.shape[1]:
            raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {X.shape}")
        return X

    def _rows_of(self, X: Any, rows: np.ndarray) -> Any:
        """Return some of the training rows, or their kernel matrix."""
        X = self._square(X)
        if len(rows) == X.shape[0]:
            return X
        return X[np.ix_(rows, rows)] if self._is_table else X[rows]

    def _problem_over(self, X: Any, y: np.ndarray, loss: Loss, C: float, total: float, weights: np.ndarray | None) -> Problem:
        """Return the problem of some rows, or of their kernel matrix; `total` is the sum of the weights."""
        problem = Problem(
            small_as_dense(X) if self.kernel == "linear" else X,
            y,
            loss,
            l2=from_C(C, total)["l2"],
            sample_weight=weights,
            intercept="free" if self.fit_intercept else "none",
            kernel="precomputed" if self._is_table else self._kernel,
            # Working sets keep their kernel rows in a cache of that size themselves.
            kernel_memory=None if self._automatic else int(1e6 * number("cache_size", self.cache_size)),
        )
        if self._on_nearest():
            problem.shared.semidefinite = True  # made so; that of an uncertified fit is not asked for
        return problem

    def _expansion_attributes(self, X: object, signed: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes from coefficients of all rows, a line for each line of dual_coef_, and the support vectors."""
        if callable(self.kernel):
            self._X_fit = X  # a function of two collections may rely on the second being the one it was trained on
        dual = signed[:, rows]
        return {
            "support_": rows,
            "dual_coef_": sparse.csr_matrix(dual) if sparse.issparse(X) else dual,
            "support_vectors_": np.empty((0, 0)) if self._kernel.name == "precomputed" else _rows_of(X, rows),
            "shape_fit_": getattr(X, "shape", (signed.shape[1],)),
        }

    fit_status_ = property(fit_status)

    # ----------------------------------------------------------------------------------------------------------- prediction

    def _coefficients(self) -> np.ndarray:
        """Return the coefficients of the support vectors, a column for each problem."""
        raise NotImplementedError

    @property
    def coef_(self) -> Any:
        """Weights of the features; kernel="linear" only."""
        check_fitted(self)
        if self.kernel != "linear":
            raise AttributeError(f"coef_ is there for kernel='linear' only, not for kernel={self.kernel!r}")
        coef: Any = self._coefficients().T @ self.support_vectors_
        if sparse.issparse(self.support_vectors_):
            coef = sparse.csr_matrix(coef)
        (coef.data if hasattr(coef, "indptr") else coef).flags.writeable = False
        return coef

    def _over_all_rows(self) -> np.ndarray:
        """Return the coefficients of all training rows, 0 where a row is no support vector."""
        coefficients = self._coefficients()
        whole = np.zeros((self._fit.n_rows, coefficients.shape[1]))
        whole[self.support_] = coefficients
        return whole

    def _expansion_over(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the rows that scores are sums over, their numbers, and their coefficients, a column for each problem."""
        if self._expansion is not None:
            return self._X_fit, np.arange(self._fit.n_rows), self._expansion
        return self.support_vectors_, self.support_, self._coefficients()

    def _scores(self, X: object) -> np.ndarray:
        check_fitted(self)
        vectors, rows, coefficients = self._expansion_over()
        if callable(self.kernel):
            return self._kernel_values(X)[:, rows] @ coefficients + self.intercept_
        checked = validated_rows(self, X, ensure_all_finite=True)
        check_finite(checked, "X", X)
        if self.kernel != "precomputed":
            # A single sum is done faster as one: its kernel values need not be written down.
            columns = coefficients[:, 0] if coefficients.shape[1] == 1 else coefficients
            return expansion(self._kernel, checked, vectors, columns).reshape(checked.shape[0], -1) + self.intercept_
        step = max(1, BLOCK_VALUES // max(len(rows), 1))
        blocks = [checked[start : start + step][:, rows] @ coefficients for start in range(0, checked.shape[0], step)]
        return np.concatenate(blocks) + self.intercept_

    def _kernel_values(self, X: object) -> np.ndarray:
        """Return what a function as kernel makes of new rows and the training rows, checked."""
        assert callable(self.kernel)
        values = call_kernel(self.kernel, X, self._X_fit, "the function given as kernel")
        if values.ndim != 2 or values.shape[1] != self._fit.n_rows:
            raise ValueError(
                f"kernel returned shape {values.shape}; a column for each of the {self._fit.n_rows} training rows is needed"
            )
        return values

    def _rows_for_bounds(self, X: object, diagonal: ArrayLike | None, training: bool) -> tuple[Any, Any]:
        """Return new or training rows for bounds of their scores, checked, and their k(x, x) if the kernel is a matrix."""
        check_fitted(self)
        rows = validate_data(self, X, reset=False, **ACCEPTED)
        if not self._on_nearest():
            return rows, np.diag(rows) if training and self.kernel == "precomputed" else diagonal
        treated = self.proof_._kept("bounds of the exact model").treated
        if treated.clipped is None:
            raise ProofError(NO_NEW_ROWS)
        found: tuple[np.ndarray, np.ndarray] = treated.clipped.new_values(
            rows if self.kernel == "precomputed" else self._kernel(rows, self._X_fit)
        )
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


def called_kernel(kernel: Any, X: object, n: int) -> np.ndarray:
    """Return the matrix that a function makes of the training rows, checked."""
    values = call_kernel(kernel, X, X, "the function given as kernel")
    if values.shape != (n, n):
        raise ValueError(
            f"the function given as kernel returned shape {values.shape}; a row and a column for each of the {n} samples is needed"
        )
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"the function given as kernel returned {values[row, column]} for samples {row} and {column}; all values must be finite"
        )
    return values


def _rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some samples of a table or of any collection. scikit-learn's function takes a tenth of a small fit for an array."""
    return X[rows] if isinstance(X, np.ndarray) or is_sparse(X) else _safe_indexing(X, rows)


def made_kernel(model: BaseEstimator, X: object) -> Kernel:
    """Return the kernel of an estimator, with the gamma that its parameter means on rows X."""
    with np.errstate(over="ignore"), invalid_parameters():
        kernel = make_kernel(model.kernel, None if callable(model.kernel) else X, model.gamma, model.degree, model.coef0)
    if not 0.0 < kernel.gamma < np.inf:
        raise ValueError(
            f"gamma={model.gamma!r} comes to {kernel.gamma} on these data: X is too large or too small; scale the features"
        )
    return kernel
