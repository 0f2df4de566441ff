"""The dual of a ν-problem by working sets: the sum of the dual variables of each class is kept, as that of all is with a free intercept.

1. Start: solve the same problem for a sample of the rows; β = 1 for the rows of least margin under its model, as many as have the mass νT.
   A few rows start from the model of equal β.
2. Epochs of the working-set solver on D_ν, at the l2 that the sample's threshold suggests: it is only the scale of the dual variables.
3. Certify β as a solution of the ν-problem, at the threshold that is best for it, once the gap estimate is small enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualgap.kernels import expansion
from dualgap.problem import Problem
from dualgap.proof import LARGEST_PART, Certificate, dual_mass, forget_scores, kernel_scores, largest_nu, nu_threshold
from dualgap.run.driver import drive, prepare_solver
from dualgap.run.nu_candidate import (
    AIM,
    Budget,
    Candidate,
    NuResult,
    certified_candidate,
    equal_beta,
    expansion_of,
    filled,
    nearly_zero,
    sampled,
    settled_mass,
)
from dualgap.run.stepper import Evaluation, Stepper
from dualgap.solvers import Warm, WorkingSet, get_solver

__all__ = ["solve_dual", "takes_dual"]

SAMPLE, SAMPLE_PARTS = 500, 5  # rows of a sample, at least, and n / rows of a sample
SAMPLE_GAIN = 4  # rows / rows of a sample, at least, for a sample to pay
SAMPLE_TOL = 1e-2  # relative gap of the sample's problem


def takes_dual(problem: Problem, solver: object) -> bool:
    """Return whether the solver maximises D_ν itself: working sets do where each sum to keep is that of rows of one class."""
    chosen = get_solver(solver).chosen(problem)
    one_class = problem.intercept == "none" and bool((problem.y > 0.0).all())
    return isinstance(chosen, WorkingSet) and chosen.supports(problem).ok and (one_class or problem.intercept == "free")


def solve_dual(problem: Problem, nu: float, budget: Budget, report: Callable[[str], None]) -> NuResult:
    """Maximise D_ν until the certified gap is small enough or the budget is spent."""
    l2, beta, before = _start(problem, nu, budget, report)
    here = problem.variant(l2=l2)
    solver, seconds = prepare_solver(here.replace(intercept="free"), budget.solver)
    assert isinstance(solver, WorkingSet)
    run = DualRun(here, nu, solver, beta, budget, report)
    stopped = before is not None and before.status == "interrupted"
    spent = 0 if before is None else before.epochs
    ended = drive(run, budget.tol, 1 if stopped else max(budget.max_epochs - spent, 1), budget.seconds())
    assert run.found is not None
    fields = ended._replace(epochs=ended.epochs + spent, status="interrupted" if stopped else ended.status)._asdict()
    return run.found.result(solver=solver, nu=nu, compile_seconds=seconds, **fields)


def _start(problem: Problem, nu: float, budget: Budget, report: Callable[[str], None]) -> tuple[float, np.ndarray, NuResult | None]:
    """Step 1: return an l2, a β of mass νT, and the result for a sample if there was one."""
    aim = AIM * nu * dual_mass(problem)[0]
    rows, found = max(SAMPLE, problem.n // SAMPLE_PARTS), None
    if problem.n >= SAMPLE_GAIN * rows:
        index, small = sampled(problem, rows, np.random.default_rng(budget.seed))
        found = solve_dual(small, min(nu, LARGEST_PART * largest_nu(small)), budget._replace(tol=SAMPLE_TOL), report)
        if not found.zero:
            assert problem.kernel is not None
            X = problem.X[:, index] if problem.kernel.name == "precomputed" else problem.X
            scores = expansion(problem.kernel, X, small.X, found.coef) + found.intercept
            return found.rho, filled(problem, np.zeros(problem.n), problem.y * scores, aim), found
    a = problem.c * equal_beta(problem, nu) * problem.y
    scores = problem.scores(problem.combine(a))
    rho, b = nu_threshold(problem, nu, scores)
    if nearly_zero(problem, nu, 0.5 * float(a @ scores)):  # rows that were centred
        return nu * float(problem.norms.max()) ** 2 or 1.0, settled_mass(problem, equal_beta(problem, nu), aim), found
    beta = filled(problem, np.zeros(problem.n), problem.y * (scores + b), aim)
    return rho if rho > 0.0 else float(a @ scores) / nu, beta, found


class DualRun(Stepper):
    """The working-set solver on the dual of a ν-problem.

    Sets: `state` in `start`, changed by `step`; `found`, the best certified candidate, in `evaluate`.
    """

    at_zero = 1.0  # no model that is evaluated has an objective above 0, that of w = 0

    def __init__(
        self, problem: Problem, nu: float, solver: WorkingSet, beta: np.ndarray, budget: Budget, report: Callable[[str], None]
    ) -> None:
        self.problem, self.nu, self.solver, self.beta, self.report = problem, nu, solver, beta, report
        self.tol, self.atol = budget.tol, budget.atol
        self.rng = np.random.default_rng(budget.seed)
        self.aim = AIM * nu * dual_mass(problem)[0]
        self.found: Candidate | None = None

    def start(self) -> None:
        self.state = self.solver.start(self.problem, self.rng, Warm(dual=self.beta), nu=self.nu)
        self.state.tol = self.tol

    def step(self) -> None:
        self.solver.epoch(self.problem, self.state, self.rng)

    def gap_estimate(self) -> float | None:
        state, problem = self.state, self.problem
        if nearly_zero(problem, self.nu, problem.l2**2 * (state.mass - state.dual_value)):
            return 0.0
        return self.solver.gap_estimate(self.problem, self.state)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self) -> Evaluation:
        problem, state = self.problem, self.state
        beta = settled_mass(problem, self.solver.dual(problem, state), self.aim)
        scores = kernel_scores(problem, expansion_of(problem, beta))
        new = certified_candidate(problem, self.nu, beta, [(problem.l2, scores)], problem.l2, self.tol, self.atol)
        if self.found is None or new.certificate.gap < self.found.certificate.gap:
            self.found = new
        self.report(f"{problem.n} rows, {np.count_nonzero(beta)} support vectors: {new.certificate}")
        state.tol = self.relative_tolerance()
        columns = {"support_vectors": float(np.count_nonzero(beta)), "nonzeros": float(np.count_nonzero(new.coef))}
        return Evaluation(new.certificate, new.coef, new.intercept, float(state.passes), columns)

    def certificate(self) -> Certificate:
        assert self.found is not None
        return self.found.certificate

    def reached(self, certificate: Certificate) -> bool:
        return super().reached(certificate) or (certificate.primal == 0.0 and nearly_zero(self.problem, self.nu, -certificate.dual))

    def relative_tolerance(self) -> float:
        size = abs(self.found.certificate.primal) if self.found is not None else 0.0
        return max(self.tol, self.atol / size if size > 0.0 else 0.0)

    def finish(self) -> None:
        forget_scores(self.problem)
