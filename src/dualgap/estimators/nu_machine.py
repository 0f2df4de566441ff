"""What NuSVC, NuSVR and OneClassSVM share: the run on a ν-problem, and hinge problems for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualgap.core import number
from dualgap.estimators.kernel_model import KernelModel
from dualgap.estimators.samples import Rows, small_as_dense
from dualgap.problem import Problem
from dualgap.run import NuResult, minimise_nu

__all__ = ["expanded", "hinge_problem", "nu_run"]


def nu_run(nu: float) -> Callable[..., NuResult]:
    """Return what solves one ν-problem, called as `minimise` is. It starts anew each time, and decides no rows."""

    def run(problem: Problem, *budget: Any, warm_start: None = None, decide: None = None, **options: Any) -> NuResult:
        return minimise_nu(problem, nu, *budget, **options)

    return run


def hinge_problem(model: KernelModel, X: Rows, signs: np.ndarray, weights: np.ndarray | None, intercept: str) -> Problem:
    """Return the hinge problem over rows, or over their kernel matrix; a linear kernel is trained on X itself. Its l2 is any."""
    linear = model.kernel == "linear"
    automatic = isinstance(model.solver, str) and model.solver == "auto"
    return Problem(
        small_as_dense(X) if linear else model._square(X),
        signs,
        l2=1.0,
        sample_weight=weights,
        intercept=intercept,
        classes=(-1.0, 1.0),
        kernel=None if linear else "precomputed" if model._is_table else model._kernel,
        kernel_memory=None if automatic or linear else int(1e6 * number("cache_size", model.cache_size)),
    )


def expanded(result: NuResult, scale: float, intercept: float) -> NuResult:
    """Return the result with its model as an expansion over the rows: Σ aⱼ k(xⱼ, ·) + intercept, a = scale·cβy, or 0 for the zero model."""
    problem = result.problem
    a = np.zeros(problem.n) if result.zero else scale * problem.c * result.dual * problem.y
    return NuResult.of(result, coef=a, intercept=intercept)
