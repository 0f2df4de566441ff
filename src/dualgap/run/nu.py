"""minimise_nu, minimise_nu_regression: the ν-classifier, the one-class machine and the ν-regression, each by one run on its own dual."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import kept, number
from dualgap.problem import Problem
from dualgap.proof import LARGEST_PART, largest_nu
from dualgap.run.nu_dual import Budget, LabelRun, TubeRun
from dualgap.run.nu_linear import LongLabelRun, LongTubeRun, is_long
from dualgap.run.trained import Trained
from dualgap.solvers import NotSupported, WorkingSet, get_solver

__all__ = ["NuResult", "minimise_nu", "minimise_nu_regression"]


@dataclass(frozen=True, kw_only=True)
class NuResult(Trained):
    """The solution of a ν-problem, in the scale of the hinge problem `problem`: coef, intercept and dual are those of P, and ρ = 1.

    The certificate is that of the ν-problem, for the model (l2·w, l2·b, l2). `zero`: the model is w = 0, ρ = 0.
    """

    nu: float
    zero: bool = False

    @property
    def rho(self) -> float:
        """The threshold ρ of the ν-problem."""
        return 0.0 if self.zero else float(self.problem.l2)


def minimise_nu(
    problem: Problem,
    nu: float,
    solver: Any,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    seed: int = 0,
    *,
    atol: float = 0.0,
    report: Callable[[str], None] | None = None,
) -> NuResult:
    """Minimise P_ν of labels until its certified gap is at most tol·|P_ν|, or `atol`.

    `problem` is a hinge problem of any l2: with a free intercept, or of labels that are all +1 without one, a one-class machine. `solver`
    is "auto" or the working sets. `report` is told of every evaluation.
    """
    largest = largest_nu(problem)
    if number("nu", nu, "(0, 1]") > largest * (1.0 + 1e-12):
        raise ValueError(f"nu={nu!r} is infeasible: the weights of the two classes allow at most {largest:.6g}")
    if problem.intercept != "free" and not (problem.intercept == "none" and bool((problem.y > 0.0).all())):
        raise NotSupported("a ν-problem of two classes needs intercept='free', one of a single class, +1, intercept='none'")
    budget = _budget(problem, solver, tol, atol, max_epochs, max_seconds, seed)
    run = (LongLabelRun if solver == "auto" and is_long(problem) else LabelRun)(
        problem, min(nu, LARGEST_PART * largest), budget, report or (lambda text: None)
    )
    with kept() as ctrl_c:
        ended, seconds = run.solve()
        if ctrl_c.take():
            ended = ended._replace(status="interrupted")
        best = run.best_found()
        return NuResult(
            problem=best.problem,
            solver=budget.solver,
            coef=np.zeros_like(best.coef) if best.zero else best.coef,
            intercept=0.0 if best.zero else float(best.intercept),
            dual=best.beta,
            certificate=best.certificate,
            zero=best.zero,
            nu=run.nu,
            compile_seconds=seconds,
            **ended._asdict(),
        )


def minimise_nu_regression(
    problem: Problem,
    nu: float,
    solver: Any,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    seed: int = 0,
    *,
    callbacks: Iterable[Callable[[Any], Any]] = (),
    halt: Callable[[], bool] | None = None,
    atol: float = 0.0,
) -> Trained:
    """Minimise νε + P_ε(w, b) over w, b and ε ≥ 0. The result has the ε in its problem's loss, and the certificate of the ν-problem.

    `problem` is ε-insensitive, of any ε, with a free intercept.
    """
    if problem.intercept != "free":
        raise NotSupported("a ν-regression needs a free intercept: half of ν lies above the tube, and half below")
    budget = _budget(problem, solver, tol, atol, max_epochs, max_seconds, seed)
    run = (LongTubeRun if solver == "auto" and is_long(problem) else TubeRun)(problem, number("nu", nu, "(0, 1]"), budget)
    ended, seconds = run.solve(callbacks, halt)
    best = run.best_found()
    return Trained(
        problem=best.problem,
        solver=budget.solver,
        coef=best.coef,
        intercept=float(best.intercept),
        dual=best.beta,
        certificate=best.certificate,
        compile_seconds=seconds,
        **ended._asdict(),
    )


def _budget(problem: Problem, solver: Any, tol: float, atol: float, max_epochs: int, seconds: float | None, seed: int) -> Budget:
    chosen = WorkingSet() if solver == "auto" else get_solver(solver).chosen(problem)
    if not isinstance(chosen, WorkingSet):
        raise NotSupported(f"{chosen.label()} cannot solve ν-problems, which are trained by working sets: use solver='auto'")
    return Budget(chosen, tol, atol, max_epochs, None if seconds is None else time.perf_counter() + seconds, seed)
