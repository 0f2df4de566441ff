"""The dual of a ν-problem by working sets: the sum of the dual variables of each class is kept, as that of all is with a free intercept.

1. Start: solve the same problem for a sample of the rows; β = 1 for the rows of least margin under its model, as many as have the mass νT.
   A few rows start from the model of equal β.
2. Epochs of the working-set solver on D_ν, at the l2 that the sample's threshold suggests: it is only the scale of the dual variables.
3. Go over to an interior-point method once working sets have taken a good part of its cost, or no longer move: where hardly a function
   of the kernel separates the rows, D_ν is flat, and steps on pairs of variables take millions.
4. Certify β as a solution of the ν-problem, at the threshold that is best for it, once the gap estimate is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dualgap.core import machine
from dualgap.kernels import expansion
from dualgap.problem import Problem
from dualgap.proof import LARGEST_PART, Certificate, dual_mass, kernel_scores, largest_nu, nu_threshold
from dualgap.run.driver import drive, prepare_solver
from dualgap.run.nu_candidate import (
    AIM,
    Budget,
    Candidate,
    NuResult,
    better_of,
    certified_candidate,
    equal_beta,
    expansion_of,
    filled,
    nearly_zero,
    sampled,
    settled_mass,
)
from dualgap.run.stepper import Evaluation, Stepper
from dualgap.solvers import InteriorPoint, Warm, WorkingSet, get_solver, interior_point_cost

__all__ = ["solve_dual", "takes_dual"]

SAMPLE, SAMPLE_PARTS = 500, 5  # rows of a sample, at least, and n / rows of a sample
SAMPLE_GAIN = 4  # rows / rows of a sample, at least, for a sample to pay
SAMPLE_TOL = 1e-2  # relative gap of the sample's problem
INTERIOR_SHARE = 0.1  # cost of working sets / cost of an interior-point run, at which that begins
STILL, STILL_EPOCHS = 1e-6, 5  # change of the gap in an epoch, and epochs in a row of less, at which it begins, too
INTERIOR_MARGIN = 3.0  # gap estimate / gap of the interior-point method: variables near a bound are put there
SLOW = 30  # epochs in which the gap does not halve, at which a run without memory for that method ends
MATRICES = 3  # that the interior-point method has in memory: the kernel's, the one it factors, another for a moment


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
    epochs = 1 if stopped else max(budget.max_epochs - spent, 1)
    ended = drive(run, budget.tol, epochs, budget.seconds(), halt=lambda: run.slow)
    if run.slow and ended.status == "interrupted":
        ended = ended._replace(status="stalled")
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
        return nu * float(problem.sqnorms.max()) or 1.0, settled_mass(problem, equal_beta(problem, nu), aim), found
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
        self.problem, self.nu, self.solver, self.beta, self.report = problem.remembering(), nu, solver, beta, report
        self.tol, self.atol = budget.tol, budget.atol
        self.rng = np.random.default_rng(budget.seed)
        self.aim = AIM * nu * dual_mass(problem)[0]
        self.found: Candidate | None = None
        self.interior: InteriorPoint | None = None
        self.rows = np.flatnonzero(problem.c > 0.0)  # the interior-point method's
        fits = 8 * MATRICES * len(self.rows) ** 2 <= 1e6 * solver.cache_size
        self.left = INTERIOR_SHARE * interior_point_cost(len(self.rows)) if fits else math.inf  # nanoseconds for working sets
        self.still = self.epochs = 0  # epochs in a row without a change of the gap, and all
        self.goal = math.inf, 0  # half the gap of the last time it was reached, and the epoch of that
        self.slow = False  # whether the run ends here
        self.limit = False  # whether the interior-point method has come to the limit of rounding

    def start(self) -> None:
        self.state = self.solver.start(self.problem, self.rng, Warm(dual=self.beta), nu=self.nu)
        self.state.tol = self.tol

    def step(self) -> None:
        self.epochs += 1
        if self.interior is not None:
            self.limit = self.limit or not self.interior.step()
            if self.interior.indefinite:  # working sets go on where they were
                self.interior, self.limit, self.goal = None, False, (math.inf, self.epochs)
            return
        before, steps = self.state.gap, self.state.steps
        self.solver.epoch(self.problem, self.state, self.rng)
        state = self.state
        self.left -= machine.PAIR_STEP * (state.steps - steps) * min(len(state.active), self.solver.size)
        self.still = self.still + 1 if abs(state.gap - before) <= STILL * before else 0
        if self.left < 0.0 or (self.still >= STILL_EPOCHS and self.left < math.inf):
            self._go_inside()
        if state.gap <= self.goal[0]:
            self.goal = 0.5 * state.gap, self.epochs
        self.slow = self.interior is None and self.left == math.inf and self.epochs >= self.goal[1] + SLOW

    def _go_inside(self) -> None:
        """Step 3: go over to the interior-point method, for which the kernel matrix must be positive semidefinite."""
        problem, rows, self.left = self.problem, self.rows, math.inf
        K = np.empty((problem.n, problem.n))
        blocks = problem.kernel_blocks(np.float64)
        blocks.write_rows(blocks.own(np.arange(problem.n)), K, np.arange(problem.n))
        K = K if len(rows) == problem.n else K[np.ix_(rows, rows)]
        y, c = problem.y[rows], problem.c[rows]
        # Between the bounds also where ν is the largest feasible one, and all β of a class are 1.
        start = y * c * np.minimum(equal_beta(problem, self.nu)[rows], 1.0 - 1e-9)
        classes = [y > 0.0, y < 0.0] if problem.intercept == "free" else [y > 0.0]
        interior = InteriorPoint(K, start, np.where(y > 0.0, 0.0, -c), np.where(y > 0.0, c, 0.0), classes)
        if interior.step():
            self.interior, self.restarted_at = interior, self.epochs
            self.handovers = [(self.epochs, "steps on pairs of variables are slow: interior-point method")]
            self.report(f"{problem.n} rows: interior-point method from epoch {self.epochs}")

    def gap_estimate(self) -> float | None:
        state, problem, interior = self.state, self.problem, self.interior
        value = problem.l2 * (problem.l2 * (state.mass - state.dual_value)) if interior is None else interior.value  # no overflow
        if self.limit or value <= self.atol or nearly_zero(problem, self.nu, value):  # the gap of w = 0 is at most that
            return 0.0
        if interior is not None:
            gap = INTERIOR_MARGIN * interior.gap
            return gap / (interior.value - gap) if gap < interior.value else math.inf
        return self.solver.gap_estimate(self.problem, self.state)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self) -> Evaluation:
        problem, state, interior = self.problem, self.state, self.interior
        if interior is None:
            new = self._candidate(self.solver.dual(problem, state))
        else:
            new = self._candidate(self._beta(interior.rounded()))
            if not self.reached(new.certificate):
                new = better_of(new, self._candidate(self._beta(interior.a)))
        self.found = better_of(self.found, new)
        if self.limit:
            self.resolution = self.found.certificate.gap
        count = np.count_nonzero(new.beta)
        self.report(f"{problem.n} rows, {count} support vectors: {new.certificate}")
        state.tol = self.relative_tolerance()
        columns = {"support_vectors": float(count), "nonzeros": float(np.count_nonzero(new.coef))}
        passes = float(state.passes) + (0 if interior is None else self.epochs - self.restarted_at)
        return Evaluation(new.certificate, new.coef, new.intercept, passes, columns)

    def _beta(self, a: np.ndarray) -> np.ndarray:
        """Return β of all rows from the signed variables of the interior-point method."""
        beta = np.zeros(self.problem.n)
        beta[self.rows] = np.abs(a) / self.problem.c[self.rows]
        return beta

    def _candidate(self, beta: np.ndarray) -> Candidate:
        """Step 4: certify β, whose mass is νT up to rounding."""
        problem = self.problem
        beta = settled_mass(problem, beta, self.aim)
        scores = kernel_scores(problem, expansion_of(problem, beta))
        return certified_candidate(problem, self.nu, beta, [(problem.l2, scores)], problem.l2, self.tol, self.atol)

    def certificate(self) -> Certificate:
        assert self.found is not None
        return self.found.certificate

    def at_floor(self, certificate: Certificate) -> bool:
        return certificate.primal == 0.0 and nearly_zero(self.problem, self.nu, -certificate.dual)

    def relative_tolerance(self) -> float:
        size = abs(self.found.certificate.primal) if self.found is not None else 0.0
        return max(self.tol, self.atol / size if size > 0.0 else 0.0)
