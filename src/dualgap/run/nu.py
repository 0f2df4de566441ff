"""minimise_nu: the ν-classifier, the one-class machine and the ν-regression, each by one run on its own dual."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import kept, number
from dualgap.problem import Problem
from dualgap.proof import LARGEST_PART, largest_nu
from dualgap.run.driver import Progress
from dualgap.run.nu_dual import Budget, LabelRun, NuRun, TubeRun
from dualgap.run.nu_linear import LongLabelRun, LongTubeRun, is_long
from dualgap.run.trained import Trained
from dualgap.solvers import NotSupported, Solver, WorkingSet, get_solver

__all__ = ["NuResult", "minimise_nu"]


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
    solver: str | Solver,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    seed: int = 0,
    *,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    halt: Callable[[], bool] | None = None,
    atol: float = 0.0,
) -> NuResult:
    """Minimise P_ν of labels, or νε + P_ε over w, b and ε ≥ 0 of targets, until its certified gap is at most tol·|P_ν|, or `atol`.

    `problem` is a hinge problem of any l2: with a free intercept, or of labels that are all +1 without one, a one-class machine. Or it is
    ε-insensitive, of any ε, with a free intercept: the result has the ε in its problem's loss. `solver` is "auto" or the working sets.
    """
    number("nu", nu, "(0, 1]")
    _check_intercept(problem)
    budget = _budget(problem, solver, tol, atol, max_epochs, max_seconds, seed)
    long = solver == "auto" and is_long(problem)
    run: NuRun
    if problem.is_regression:
        run = (LongTubeRun if long else TubeRun)(problem, nu, budget)
    else:
        largest = largest_nu(problem)
        if nu > largest * (1.0 + 1e-12):
            raise ValueError(f"nu={nu!r} is infeasible: the weights of the two classes allow at most {largest:.6g}")
        run = (LongLabelRun if long else LabelRun)(problem, min(nu, LARGEST_PART * largest), budget)
    with kept() as ctrl_c:
        ended, seconds = run.solve(callbacks, halt)
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


def _check_intercept(problem: Problem) -> None:
    if problem.intercept == "free":
        return
    if problem.is_regression:
        raise NotSupported("a ν-regression needs a free intercept: half of ν lies above the tube, and half below")
    if problem.intercept != "none" or not bool((problem.y > 0.0).all()):
        raise NotSupported("a ν-problem of two classes needs intercept='free', one of a single class, +1, intercept='none'")


def _budget(
    problem: Problem, solver: str | Solver, tol: float, atol: float, max_epochs: int, seconds: float | None, seed: int
) -> Budget:
    chosen = WorkingSet() if solver == "auto" else get_solver(solver).chosen(problem)
    if not isinstance(chosen, WorkingSet):
        raise NotSupported(f"{chosen.label()} cannot solve ν-problems, which are trained by working sets: use solver='auto'")
    return Budget(chosen, tol, atol, max_epochs, None if seconds is None else time.perf_counter() + seconds, seed)
