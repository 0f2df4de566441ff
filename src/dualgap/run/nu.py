"""minimise_nu: one-class machines and ν-classifiers, by their own dual, or by hinge problems whose penalty is searched for.

Working sets maximise the dual of the ν-problem (`nu_dual`). For any other solver, or where they stall, the penalty is searched for: the
ν-problem (`proof.nu`) has the solution of the hinge problem of that l2 at which Σ cᵢβᵢ = νT. This sum, the mass, rises with l2. The search
for it:

1. Guess l2: solve the same problem for a sample of the rows; a few rows start from equal β.
2. Solve the hinge problem at l2, from where the last one ended, to a gap that matches how far off l2 may be.
3. Mix the nearest solutions of smaller and of larger mass, so that the mass is νT. Certify the mixture as a solution of the ν-problem. End
   if its gap is small enough: an error of l2 of relative size δ costs about δ² in the gap.
4. Choose the next l2 by regula falsi (Illinois), or beyond the last one while all masses are on one side. Go on with 2.

Scores of a kernel machine are linear in β, so that those of a mixture cost nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import kept, number
from dualgap.problem import Problem
from dualgap.proof import LARGEST_PART, Scores, dual_mass, kernel_scores, largest_nu, nu_threshold
from dualgap.run.driver import minimise
from dualgap.run.nu_candidate import (
    AIM,
    Budget,
    Candidate,
    NuResult,
    better_of,
    carry,
    certified_candidate,
    equal_beta,
    expansion_of,
    filled,
    nearly_zero,
    own_scores,
    sampled,
)
from dualgap.run.nu_dual import solve_dual, takes_dual
from dualgap.run.trace import Status, Trace
from dualgap.run.trained import Trained

__all__ = ["NuResult", "minimise_nu"]

SAMPLE, SAMPLE_PARTS = 1000, 5  # rows of a sample, at least, and n / rows of a sample, at most
SAMPLE_GAIN = 4  # rows / rows of a sample, at least, for a sample to pay
SAMPLE_TOL = 1e-2  # relative gap of the sample's problem
FIRST_ERROR = 0.1  # relative error of the first l2 that is expected
ERROR_SHARE = 0.1  # gap of a solve / (expected relative error of l2)²: the rest of the gap is that of the mixture
LOOSEST = 1e-2  # relative gap of a solve, at most
SOLVED_SHARE = 0.3  # gap of a solve / gap that is asked for, at first; this part of it after each solve that was not enough
BEYOND = 1.3  # step / expected step while all masses are on one side: a mixture needs both
MAX_STEP = math.log(10.0)  # of log l2
FLAT = 0.05  # change of the mass / its distance from νT, below which l2 moves twice as far as last time
STALLED_SOLVES = 20  # solves in a row without a mixture of a gap that is smaller by 1 %


class Solved(NamedTuple):
    """A solution of the hinge problem at one l2, and the scores of its model, where a kernel machine has them."""

    l2: float
    beta: np.ndarray
    mass: float
    high: bool  # whether the mass is at least νT
    intercept: float
    scores: Scores | None


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
    """Minimise P_ν until its certified gap is at most tol·|P_ν|, or `atol`.

    `problem` is a hinge problem of any l2: without an intercept, or with a free one. Labels that are all +1 make it a one-class machine.
    The budget is for all hinge problems together. `report` is told of every step.
    """
    largest = largest_nu(problem)
    if number("nu", nu, "(0, 1]") > largest * (1.0 + 1e-12):
        raise ValueError(f"nu={nu!r} is infeasible: the weights of the two classes allow at most {largest:.6g}")
    budget = Budget(solver, tol, atol, max_epochs, None if max_seconds is None else time.perf_counter() + max_seconds, seed)
    with kept() as ctrl_c:
        nu, report = min(nu, LARGEST_PART * largest), report or (lambda text: None)
        if takes_dual(problem, solver):
            found = solve_dual(problem, nu, budget, report)
            if found.status in ("stalled", "diverged"):
                found = _searched_on(problem, nu, budget, report, found)
        else:
            found = Search(problem, nu, budget, report).run()
        return NuResult.of(found, status="interrupted") if ctrl_c.take() else found


def _searched_on(problem: Problem, nu: float, budget: Budget, report: Callable[[str], None], before: NuResult) -> NuResult:
    """Search for l2 with what is left of the budget, after a run on the dual that stalled. Return the better model of the two."""
    if before.epochs >= budget.max_epochs or (budget.deadline is not None and time.perf_counter() >= budget.deadline):
        return before
    after = Search(problem, nu, budget._replace(max_epochs=budget.max_epochs - before.epochs), report).run()
    best = better_of(before.candidate(), after.candidate())
    trace = before.trace.followed_by(after.trace)
    trace.handovers.append((before.epochs, "the dual stalled: search for l2"))
    seconds = {name: getattr(before, name) + getattr(after, name) for name in ("cpu_seconds", "wall_seconds", "compile_seconds")}
    return best.result(
        solver=after.solver, status=after.status, trace=trace, epochs=before.epochs + after.epochs, nu=before.nu, **seconds
    )


class Search:
    """The search for l2.

    Sets: `below` and `above`, the nearest solutions of smaller and of larger mass; `best`, the best certified candidate; what was spent.
    """

    def __init__(self, problem: Problem, nu: float, budget: Budget, report: Callable[[str], None]) -> None:
        self.problem, self.nu, self.budget, self.report = problem, nu, budget, report
        self.aim = AIM * nu * dual_mass(problem)[0]
        self.below: Solved | None = None
        self.above: Solved | None = None
        self.last: Solved | None = None
        self.best: Candidate | None = None
        self.results: list[Trained] = []
        self.epochs = 0
        self.interrupted = False  # whether Ctrl-C ended the sample's search: this one gets one epoch
        self.since = 0  # solves since the best gap last fell
        self.share = SOLVED_SHARE  # gap of a solve / gap that is asked for, where l2 is near enough
        self.error = FIRST_ERROR  # relative error of l2 that is expected
        self.slope = 1.0  # of log mass over log l2
        self.stuck = [1.0, 1.0]  # factors of regula falsi on the mass errors of `below` and `above`
        self.size = nu * float(problem.norms.max(initial=0.0))  # bounds ‖u‖

    def run(self) -> NuResult:
        """Solve at one l2 after another until the gap is small enough or the budget is spent."""
        l2 = self.first_guess()
        status: Status | None = None
        while status is None:
            solved = self._solve(l2)
            self._place(solved)
            self._offer(self._parts())
            status = self._ended()
            if status is None:
                l2 = self._next(solved)
            self.last = solved
        if self.best is None:
            self._offer([(1.0, self._raised(solved))])
        return self._result(status)

    # ---------------------------------------------------------------------------------------------------------------- steps

    def first_guess(self) -> float:
        """Step 1: return an l2. Sets the slope of the mass, if a sample tells it."""
        problem, nu = self.problem, self.nu
        rows = max(SAMPLE, problem.n // SAMPLE_PARTS)
        if problem.n >= SAMPLE_GAIN * rows:
            _, small = sampled(problem, rows, np.random.default_rng(self.budget.seed))
            sample = Search(small, min(nu, LARGEST_PART * largest_nu(small)), self.budget._replace(tol=SAMPLE_TOL), self.report)
            found = sample.run()
            self.slope = sample.slope
            if found.status == "interrupted":
                self.budget, self.interrupted = self.budget._replace(max_epochs=1), True
            return float(found.problem.l2)
        a = problem.c * equal_beta(problem, nu) * problem.y
        scores = problem.scores(problem.combine(a))
        rho = nu_threshold(problem, nu, scores).rho
        if not rho > 0.0:
            rho = float(a @ scores) / nu
        return rho if rho > 0.0 else 1e-3 * self.size * float(problem.norms.max(initial=1.0))

    def _solve(self, l2: float) -> Solved:
        """Step 2."""
        problem, budget = self.problem.variant(l2=l2).remembering(), self.budget
        kept_scores: list[Scores] = []
        listen = [lambda progress: kept_scores.append(kernel_scores(problem, progress.coef))] if problem.kernel is not None else []
        found = minimise(
            problem,
            budget.solver,
            self._tolerance(),
            max(budget.max_epochs - self.epochs, 1),
            budget.seconds(),
            budget.seed,
            warm_start=self._warm(problem),
            callbacks=listen,
        )
        self.results.append(found)
        self.epochs += found.epochs
        mass = dual_mass(problem, found.dual)[0]
        self.report(f"l2 {l2:.6g}, mass {mass:.6g} of {self.aim:.6g}, {found.status} after {found.epochs} epochs")
        return Solved(l2, found.dual, mass, mass >= self.aim, found.intercept, self._scores_of(problem, found.dual, kept_scores))

    def _scores_of(self, problem: Problem, beta: np.ndarray, known: list[Scores]) -> Scores | None:
        if problem.kernel is None:
            return None
        a = expansion_of(problem, beta)
        return next((scores for scores in reversed(known) if np.allclose(scores.a, a, 1e-13, 0.0)), None) or kernel_scores(
            problem, a
        )

    def _tolerance(self) -> float:
        """The relative gap of P to solve to: it matches the error of l2, and at the end the gap that is asked for."""
        wanted, atol = self.budget.tol, self.budget.atol
        if self.best is not None and self.results:
            primal = self.results[-1].certificate.primal
            size = abs(self.best.certificate.primal) / self.best.problem.l2
            wanted = max(wanted * size, atol / self.best.problem.l2) / primal if primal > 0.0 else wanted
        by_error = ERROR_SHARE * self.error**2
        if self.share * wanted > by_error:
            tol, self.share = self.share * wanted, SOLVED_SHARE * self.share
        else:
            tol = by_error
        return min(tol, LOOSEST)

    def _warm(self, problem: Problem) -> Any:
        """Where the next solve starts: at the mixture of the nearest solutions, or at the last one."""
        parts = self._parts()
        if parts is None:
            nearest = self.below if self.above is None else self.above
            if nearest is None:
                return None
            parts = [(1.0, nearest)]
        beta = np.sum([t * part.beta for t, part in parts], axis=0)
        carry(problem, beta, _scaled(parts))
        return None, parts[0][1].intercept, beta

    def _parts(self) -> list[tuple[float, Solved]] | None:
        """Step 3: solutions with factors so that the mass of their sum is νT; None where all have less."""
        below, above = self.below, self.above
        if above is None:
            return None
        if below is None:
            return [(self.aim / above.mass, above)]
        t = (self.aim - below.mass) / (above.mass - below.mass)
        return [(1.0 - t, below), (t, above)]

    def _place(self, solved: Solved) -> None:
        """Make a solution one of the two nearest."""
        high = solved.high
        if high:
            self.above = solved
        else:
            self.below = solved
        # A solve that is far from exact may contradict an earlier one; the newer one then counts.
        if self.below is not None and self.above is not None and self.below.l2 >= self.above.l2:
            if high:
                self.below = None
            else:
                self.above = None

    def _offer(self, parts: list[tuple[float, Solved]] | None) -> None:
        """Step 3: certify a mixture at the l2 that is its best threshold; it is the best candidate if its gap is the smallest."""
        if parts is None:
            return
        budget, beta = self.budget, np.minimum(np.sum([t * part.beta for t, part in parts], axis=0), 1.0)
        found = certified_candidate(self.problem, self.nu, beta, _scaled(parts), parts[-1][1].l2, budget.tol, budget.atol)
        certificate = found.certificate
        fell = self.best is None or not certificate.gap >= 0.99 * self.best.certificate.gap
        self.since = 0 if fell else self.since + 1
        self.best = better_of(self.best, found)
        self.report(f"mixture: {certificate}")

    def _raised(self, solved: Solved) -> Solved:
        """Return a solution of too small a mass with β of the rows of least margin raised to 1, until each class has its mass."""
        problem = self.problem
        margins = problem.y * own_scores(problem, solved.beta, _scaled([(1.0, solved)]))
        beta = filled(problem, solved.beta, margins, self.aim)
        return Solved(solved.l2, beta, dual_mass(problem, beta)[0], True, solved.intercept, None)

    def _ended(self) -> Status | None:
        """Return why the search ends, or None. Sets the best candidate to w = 0 where the bound leaves nothing else."""
        last, budget = self.results[-1], self.budget
        if self.best is not None:
            certificate = self.best.certificate
            if certificate.within(budget.tol, budget.atol):
                return "converged"
            if self.best.zero and nearly_zero(self.problem, self.nu, -certificate.dual):
                return "zero_optimum"
        if self.interrupted or last.status in ("interrupted", "max_seconds", "diverged"):
            return "interrupted" if self.interrupted else last.status
        if self.epochs >= budget.max_epochs:
            return "max_epochs"
        if budget.deadline is not None and time.perf_counter() >= budget.deadline:
            return "max_seconds"
        return "stalled" if self.since >= STALLED_SOLVES else None

    def _next(self, solved: Solved) -> float:
        """Step 4: return the next l2. Sets the error of l2 that is expected of it."""
        below, above = self.below, self.above
        if below is None or above is None or not below.mass > 0.0:
            return self._further(solved)
        if self.last is not None and solved.high == self.last.high:
            self.stuck[0 if solved.high else 1] *= 0.5
        else:
            self.stuck = [1.0, 1.0]
        self._learn_slope(below, above)
        down, up = self.stuck[0] * math.log(self.aim / below.mass), self.stuck[1] * math.log(above.mass / self.aim)
        t = min(max(down / (down + up), 0.01), 0.99) if down + up > 0.0 else 0.5
        l2 = below.l2 * (above.l2 / below.l2) ** t
        self.error = abs(l2 - solved.l2) / l2
        return l2

    def _further(self, solved: Solved) -> float:
        """Return an l2 beyond all others, where the mass should come to the other side of νT."""
        before = self.last
        if before is not None:
            self._learn_slope(before, solved)
            if solved.mass > 0.0 and abs(solved.mass - before.mass) < FLAT * abs(
                self.aim - solved.mass
            ):  # all β at a bound, or nearly
                self.slope = 0.5 * abs(math.log(self.aim / solved.mass)) / abs(math.log(solved.l2 / before.l2))
        step = math.log(self.aim / solved.mass) / self.slope if solved.mass > 0.0 else MAX_STEP
        least = 0.3 * math.sqrt(self.budget.tol)
        step = math.copysign(min(max(BEYOND * abs(step), least), MAX_STEP), step)
        self.error = abs(step)
        return solved.l2 * math.exp(step)

    def _learn_slope(self, one: Solved, other: Solved) -> None:
        """Set the slope of log mass over log l2 from two solutions."""
        if min(one.mass, other.mass) > 0.0 and one.l2 != other.l2:
            found = math.log(one.mass / other.mass) / math.log(one.l2 / other.l2)
            self.slope = min(max(found, 1e-3), 10.0)

    def _result(self, status: Status) -> NuResult:
        assert self.best is not None
        best, trace = self.best, Trace()
        for result in self.results:
            trace = trace.followed_by(result.trace)
        return best.result(
            solver=self.results[-1].solver,
            status=status,
            trace=trace,
            epochs=self.epochs,
            cpu_seconds=sum(r.cpu_seconds for r in self.results),
            wall_seconds=sum(r.wall_seconds for r in self.results),
            compile_seconds=sum(r.compile_seconds for r in self.results),
            nu=self.nu,
        )


def _scaled(parts: list[tuple[float, Solved]]) -> list[tuple[float, Scores | None]]:
    """Return factors and scores of the parts, such that the scores of w = Σ cβyx are their sum."""
    return [(t * part.l2, part.scores) for t, part in parts]
