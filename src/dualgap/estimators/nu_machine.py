"""What NuSVC and OneClassSVM share: their hinge problems, the run, and the fitted attributes, which an inner SVC lays out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.core import number, whole_number
from dualgap.estimators.kernel import SVC
from dualgap.estimators.parameters import Budget, fit_seed, invalid_parameters
from dualgap.estimators.samples import Labelled, small_as_dense, validated_rows
from dualgap.kernels import Kernel
from dualgap.problem import Problem
from dualgap.run import NuResult, Trained, minimise_nu
from dualgap.solvers import WorkingSet

__all__ = ["expanded", "hinge_problem", "keep_machine", "machine_rows", "nu_budget", "solve_nu"]

UNLIMITED = 10**9  # epochs
LOGGER = logging.getLogger("dualgap")


@invalid_parameters()
def nu_budget(model: Any) -> Budget:
    """Check the parameters of a run; draws its seed."""
    solver = model.solver
    if isinstance(solver, str) and solver == "auto" and model.kernel != "linear":
        solver = WorkingSet(cache_size=number("cache_size", model.cache_size))
    return Budget(
        solver=solver,
        tol=number("tol", model.tol, "[0, 1)"),
        max_epochs=UNLIMITED if model.max_iter == -1 else whole_number("max_iter", model.max_iter),
        max_seconds=None if model.max_time is None else number("max_time", model.max_time),
        seed=fit_seed(model.random_state, 0),
        n_jobs=None,
        atol=number("atol", model.atol, "[0, inf)"),
    )


def hinge_problem(model: Any, kernel: Kernel, X: Any, signs: np.ndarray, weights: np.ndarray | None, intercept: str) -> Problem:
    """Return the hinge problem over rows, or over their kernel matrix; a linear kernel is trained on X itself. Its l2 is any."""
    table = kernel.function is not None or kernel.name == "precomputed"
    if table and X.shape[0] != X.shape[1]:
        raise ValueError(f"the kernel matrix must be square, one row and one column a sample; it has shape {X.shape}")
    automatic = isinstance(model.solver, str) and model.solver == "auto"
    return Problem(
        small_as_dense(X) if kernel.name == "linear" else X,
        signs,
        l2=1.0,
        sample_weight=weights,
        intercept=intercept,
        classes=(-1.0, 1.0),
        kernel=None if kernel.name == "linear" else "precomputed" if table else kernel,
        kernel_memory=None if automatic or kernel.name == "linear" else int(1e6 * number("cache_size", model.cache_size)),
    )


def solve_nu(model: Any, problem: Problem, nu: float, budget: Budget, seconds: float | None, label: str) -> NuResult:
    """Solve one ν-problem within the budget; each step is logged."""
    level = logging.INFO if model.verbose else logging.DEBUG
    return minimise_nu(
        problem,
        nu,
        budget.solver,
        budget.tol,
        budget.max_epochs,
        seconds,
        budget.seed,
        atol=budget.atol,
        report=lambda text: LOGGER.log(level, "%s: %s", label, text),
    )


def expanded(result: NuResult, scale: float, intercept: float) -> NuResult:
    """Return the result with its model as an expansion over the rows: Σ aⱼ k(xⱼ, ·) + intercept, a = scale·cβy, or 0 for the zero model."""
    problem = result.problem
    a = np.zeros(problem.n) if result.zero else scale * problem.c * result.dual * problem.y
    return NuResult.of(result, coef=a, intercept=intercept)


def keep_machine(
    model: Any, kernel: Kernel, X: Any, data: Labelled, pairs: list[tuple[int, int]], results: Sequence[Trained], **parameters: Any
) -> None:
    """Set the fitted attributes of a model from expansions, and `_machine`, an SVC that has them and predicts."""
    machine = SVC(kernel=model.kernel, degree=model.degree, gamma=model.gamma, coef0=model.coef0, **parameters)
    machine._kernel, machine._gamma = kernel, kernel.gamma
    machine._keep(X, data, pairs, list(results))
    fitted = {name: value for name, value in vars(machine).items() if name.endswith("_")}
    if hasattr(model, "n_features_in_"):
        machine.n_features_in_ = model.n_features_in_
    for name, value in fitted.items():
        setattr(model, name, value)
    model._machine = machine


def machine_rows(model: Any, X: Any) -> Any:
    """Return new rows as `_machine` takes them, checked in the name of the model."""
    check_is_fitted(model)
    return X if callable(model.kernel) else validated_rows(model, X)
