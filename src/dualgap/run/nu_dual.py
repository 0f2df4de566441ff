"""ν-machines by working sets on their own dual: the classifier, the one-class machine and the regression, and the start of a run.

The dual variables form two groups whose sums ν gives: the classes, or the variables above and below the tube; of one class, one group.

1. Start: β = 1 for the rows of least margin, or farthest from the middle of the tube, up to the sum of each group. Margins are those of a
   model of a sample of the rows; where rows are few, of that of equal β, or of w = 0.
2. Epochs of working sets, whose pairs are of one group (Chang and Lin 2011, docs/references.md: LIBSVM's Solver_NU).
3. Regression: once the intercepts of the groups cross, the best tube is ε = 0, and Σ c|β| may be smaller. Go on with that problem, until
   Σ c|β| is ν again; then with 2 from there.
4. Certify β: the threshold, or tube, that is best for its model makes it one of a problem whose certificates are those of the ν-problem.

Long rows of X itself, without a kernel or with the linear one, go to `nu_linear`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, ResidualLoss, gamma, weighted_balance
from dualgap.kernels import expansion, make_kernel
from dualgap.problem import Problem
from dualgap.proof import (
    LARGEST_PART,
    Certificate,
    DualPoint,
    best_tube,
    carry_scores,
    certificate_of,
    certify_pair,
    dual_mass,
    dual_point,
    kernel_scores,
    largest_nu,
    nu_certificate,
    nu_regression_certificate,
    nu_threshold,
    objective_floor,
    size_of_dual,
    zero_certificate,
)
from dualgap.run.driver import Ended, drive, prepare_solver
from dualgap.run.stepper import Evaluation, Stepper
from dualgap.run.trace import Status
from dualgap.solvers import Warm, WorkingSet

__all__ = ["FLAT_STILL", "Budget", "Candidate", "LabelRun", "NuRun", "TubeRun", "largest_square"]

AIM = 1.0 + 6e-15  # Σ cβ of labels / νT: above 1 by more than rounding
WITHIN = 1.0 - 1e-14  # Σ c|β| of a regression / ν: below 1 by more than rounding
SAMPLE, SAMPLE_PARTS = 500, 5  # rows of a sample, at least, and n / rows of a sample
SAMPLE_GAIN = 4  # rows / rows of a sample, at least, for a sample to pay
SAMPLE_TOL = 1e-2  # relative gap of the sample's problem
STILL = 20  # epochs in which the gap does not halve, at which a run ends
# ½‖u‖² / ½(ν·max ‖x‖)² below which the dual is flat, and those epochs there, where pair steps no longer tell, and of proximal-point steps.
FLAT, FLAT_STILL = 1e-8, 5
CROSSED = 0.1  # gap / |D| below which the intercepts of the groups are believed to cross
MOST_TURNS = 20  # changes between ε > 0 and ε = 0
UNDERFLOW = 1e-140  # a dual value above minus this is 0: all rows are; and the least l2, whose inverse has a square
# ½‖u‖² / ½(Σ cβ‖x‖)² below which the optimum is w = 0, ρ = 0 up to rounding: at least, and for a kernel machine, whose ‖u‖² is a sum of
# kernel values; more where sums are long, in units of the rounding error of a sum.
NEARLY_ZERO, KERNEL_ZERO, ROUNDING = 1e-24, 1e-12, 32.0


class Budget(NamedTuple):
    """How to run: the working sets, the gap that ends the run, its limits, the seed."""

    solver: WorkingSet
    tol: float
    atol: float
    max_epochs: int
    deadline: float | None
    seed: int

    def seconds(self) -> float | None:
        """Return how many seconds are left; None where there is no limit."""
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 1e-9)


@dataclass(frozen=True)
class Candidate:
    """A feasible β, the problem of the best threshold or tube for it, the model w(β) with its intercept, and what is proven.

    `resolution` is the gap that float64 cannot tell from zero.
    """

    problem: Problem
    coef: np.ndarray
    intercept: float
    beta: np.ndarray
    certificate: Certificate
    resolution: float
    zero: bool = False

    def better(self, other: Candidate | None) -> Candidate:
        """Return the candidate of the lower objective, of equal ones that of the smaller gap, with the better bound of the two."""
        if other is None:
            return self
        first, second = self.certificate, other.certificate
        best, rest = (self, second) if (first.primal, first.gap) <= (second.primal, second.gap) else (other, first)
        own = best.certificate
        if own.dual < rest.dual <= own.primal:  # not so where an indefinite kernel makes them contradict each other
            joined = certificate_of(own.primal, rest.dual, rest.source, own.radius + rest.radius)
            return replace(best, certificate=joined) if joined.gap < own.gap else best
        return best


class NuRun(Stepper):
    """Working sets on the dual of a ν-problem. A subclass certifies, and says where to start.

    Sets: `here`, the problem whose D the epochs maximise, and `state` in `start`; `state` is changed by `step`, `found`, the best
    certified candidate, by `evaluate`.
    """

    at_zero = math.inf  # no step lowers D: a run cannot diverge

    def __init__(self, problem: Problem, nu: float, budget: Budget) -> None:
        self.problem, self.nu, self.budget = problem, nu, budget
        self.tol, self.atol = budget.tol, budget.atol
        self.rng = np.random.default_rng(budget.seed)
        self.here = problem
        self.warm = np.zeros(0)  # the β of the start
        self.found: Candidate | None = None
        self.epochs, self.goal = 0, (math.inf, 0)  # half the gap when it last halved, and the epoch of that
        self.flat = False  # whether the run ends here

    def first(self) -> tuple[Problem, np.ndarray, Ended | None]:
        """Step 1: return the problem to work on, a feasible β, and how the run on a sample ended if there was one."""
        raise NotImplementedError

    def certified(self, beta: np.ndarray) -> Candidate:
        """Step 4: make β feasible beyond rounding and certify its model."""
        raise NotImplementedError

    def solve(self, callbacks: Iterable[Any] = (), halt: Callable[[], bool] | None = None) -> tuple[Ended, float]:
        """Run to the end; return how it ended, and the seconds of compilation."""
        here, self.warm, before = self.first()
        self.here = (here if here.kernel is not None else here.replace(kernel=make_kernel("linear"))).remembering()
        seconds = self.compile()
        stopped, spent = before is not None and before.status == "interrupted", 0 if before is None else before.epochs
        epochs = 1 if stopped else max(self.budget.max_epochs - spent, 1)
        ended = drive(
            self,
            self.tol,
            epochs,
            self.budget.seconds(),
            callbacks=callbacks,
            halt=lambda: self.flat or (halt is not None and halt()),
        )
        status: Status = "interrupted" if stopped else ended.status
        if self.flat and status == "interrupted" and not stopped:
            status = "rounding_limit" if self.certificate().gap <= self.resolution else "stalled"
        return ended._replace(epochs=ended.epochs + spent, status=status), seconds

    def compile(self) -> float:
        """Have everything compiled; return the seconds that took."""
        return prepare_solver(self.here.replace(intercept="free"), self.budget.solver)[1]

    def start(self) -> None:
        self._start_from(self.warm, self.nu)

    def _start_from(self, beta: np.ndarray | None, nu: float | None) -> None:
        self.state = self.budget.solver.start(self.here, self.rng, Warm(dual=beta), nu=nu)
        self.goal = math.inf, self.epochs

    def step(self) -> None:
        self.epochs += 1
        self.state.tol = self.relative_tolerance()
        self.budget.solver.epoch(self.here, self.state, self.rng)
        if self.state.gap <= self.goal[0]:
            self.goal = 0.5 * self.state.gap, self.epochs
        self.flat = self.epochs >= self.goal[1] + (FLAT_STILL if self.is_flat() else STILL)

    def is_flat(self) -> bool:
        """Return whether D is next to nothing beside its natural size."""
        return False

    def least_value(self, beta: np.ndarray) -> float:
        """Return the size of an objective that float64 cannot tell from 0, at that β."""
        raise NotImplementedError

    def gap_estimate(self) -> float | None:
        return self.budget.solver.gap_estimate(self.here, self.state)

    def own_beta(self) -> np.ndarray:
        """Return the β of the last epoch."""
        return self.budget.solver.dual(self.here, self.state)

    def passes(self) -> float:
        """Return how many passes over the rows the epochs made."""
        return float(self.state.passes)

    def evaluate(self) -> Evaluation:
        with np.errstate(over="ignore", invalid="ignore"):
            new = self.certified(self.own_beta())
        self.found, self.resolution = new.better(self.found), new.resolution
        count = float(np.count_nonzero(new.beta))
        columns = {"support_vectors": count, "nonzeros": float(np.count_nonzero(new.coef))}
        return Evaluation(new.certificate, new.coef, new.intercept, self.passes(), columns)

    def best_found(self) -> Candidate:
        """Return the best candidate; that of the start where Ctrl-C came before the first evaluation."""
        if self.found is None:
            self.found = self.certified(self.warm if len(self.warm) else np.zeros(self.problem.n))
        return self.found

    def certificate(self) -> Certificate:
        return self.best_found().certificate

    def relative_tolerance(self) -> float:
        size = abs(self.found.certificate.primal) if self.found is not None else 0.0
        return max(self.tol, self.atol / size if size > 0.0 else 0.0)

    def sample(self, run: type[NuRun]) -> tuple[np.ndarray, Candidate, Ended] | None:
        """Solve for a sample of the rows; return the scores of its model on all rows and how that ended; None where rows are few."""
        problem, count = self.problem, max(SAMPLE, self.problem.n // SAMPLE_PARTS)
        if problem.n < SAMPLE_GAIN * count:
            return None
        index, small = _sampled(problem, count, self.rng)
        nu = min(self.nu, LARGEST_PART * largest_nu(small)) if run is LabelRun else self.nu
        inner = run(small, nu, self.budget._replace(tol=SAMPLE_TOL, atol=0.0))
        ended, _ = inner.solve()
        found = inner.best_found()
        if problem.kernel is None:
            return problem.products(found.coef) + found.intercept, found, ended
        X = problem.X[:, index] if problem.kernel.name == "precomputed" else problem.X
        return expansion(problem.kernel, X, small.X, found.coef) + found.intercept, found, ended


class LabelRun(NuRun):
    """A ν-problem of labels, over a hinge problem whose l2 is the scale of the dual variables."""

    def __init__(self, problem: Problem, nu: float, budget: Budget) -> None:
        super().__init__(problem, nu, budget)
        self.mass = AIM * nu * dual_mass(problem)[0]  # Σ cβ
        self.classes = [np.arange(problem.n)]
        if problem.intercept == "free":
            self.classes = [np.flatnonzero(problem.y > 0.0), np.flatnonzero(problem.y < 0.0)]

    def first(self) -> tuple[Problem, np.ndarray, Ended | None]:
        problem = self.problem
        sampled, ended = self.sample(LabelRun), None
        if sampled is not None:
            scores, found, ended = sampled
            if not found.zero:
                return problem.variant(l2=found.problem.l2), self._least(problem.y * scores), ended
        equal = np.empty(problem.n)
        for rows in self.classes:
            equal[rows] = self.mass / AIM / len(self.classes) / float(problem.c[rows].sum())
        a = problem.c * equal * problem.y
        scores = problem.products(problem.combine(a))
        rho, b = nu_threshold(problem, self.nu, scores)
        if 0.5 * float(a @ scores) <= self.least_value(equal):  # rows that were centred
            return problem.variant(l2=self.nu * largest_square(problem) or 1.0), self._settled(equal), ended
        l2 = rho if rho > 0.0 else float(a @ scores) / self.nu
        return problem.variant(l2=l2), self._least(problem.y * (scores + b)), ended

    def _least(self, margins: np.ndarray) -> np.ndarray:
        """Return β = 1 for the rows of least margin, up to the sum of their class."""
        beta = np.zeros(self.problem.n)
        for rows in self.classes:
            beta[rows] = _filled(margins[rows], self.problem.c[rows], self.mass / len(self.classes))
        return beta

    def _settled(self, beta: np.ndarray) -> np.ndarray:
        """Return β with what is missing from the sum of each class, or too much, shared by its free variables; by others if need be."""
        beta, problem = np.clip(beta, 0.0, 1.0), self.problem
        for rows in self.classes:
            own, c = beta[rows], problem.c[rows]
            missing = self.mass / len(self.classes) - float(weighted_balance(c, np.ones(len(rows)), own, 0.0)[0])
            free = (own > 0.0) & (own < 1.0)
            room = c * (1.0 - own if missing > 0.0 else own)
            if abs(missing) <= float(room[free].sum()):
                share = free * (abs(missing) / float(room[free].sum()) if missing else 0.0)
            elif missing > 0.0:
                share = _filled(-room, room, missing)
            else:
                share = np.full(len(rows), -missing / float(room.sum()))
            beta[rows] = own + share * (1.0 - own) if missing > 0.0 else own * (1.0 - share)
        return beta

    def least_value(self, beta: np.ndarray) -> float:
        """Return the ½‖u‖² of u = Σ cᵢβᵢyᵢxᵢ that is 0 up to rounding: w = 0, ρ = 0 is then the solution."""
        # Bounds ‖u‖. A row without weight, or with β = 0, has no part in the rounding of u, however long it is.
        size = float((self.problem.c * beta) @ self.problem.norms)
        rounding = ROUNDING * gamma(self.problem.n)
        share = max(NEARLY_ZERO, rounding**2) if self.problem.kernel is None else max(KERNEL_ZERO, rounding)
        return share * 0.5 * size * size + UNDERFLOW

    def value(self) -> float:
        """Return −D_ν = ½‖u‖² of the last epoch."""
        return float(self.here.l2 * (self.here.l2 * (self.state.mass - self.state.dual_value)))  # l2² may overflow

    def is_flat(self) -> bool:
        return self.value() <= FLAT * 0.5 * self.nu**2 * largest_square(self.problem)

    def gap_estimate(self) -> float | None:
        value = self.value()
        if value <= max(self.atol, self.least_value(self.own_beta())):  # the gap of w = 0 is at most that
            return 0.0
        return super().gap_estimate()

    def at_floor(self, certificate: Certificate) -> bool:
        return certificate.primal == 0.0 and -certificate.dual <= self.least_value(self.best_found().beta)

    def certified(self, beta: np.ndarray) -> Candidate:
        problem, nu, known = self.problem, self.nu, None
        beta = self._settled(beta)
        if problem.kernel is None:
            scores = problem.products(problem.combine(problem.c * beta * problem.y))
        else:
            known = kernel_scores(self.here, problem.c * beta / self.here.l2 * problem.y)
            scores = self.here.l2 * known.values
        rho, intercept = nu_threshold(problem, nu, scores)
        if not rho > 0.0:  # w = 0 is a better model; the bound holds at any l2, and rounds least where both its terms are as large
            rho, intercept = max(0.5 * float((problem.c * beta * problem.y) @ scores) / self.mass, UNDERFLOW), 0.0
        model = problem.variant(l2=rho)
        exact = model.remembering()
        if known is not None:
            carry_scores(exact, exact.c * beta / rho * exact.y, self.here.l2 / rho, known)
        point = dual_point(exact, beta)
        assert point.coef is not None
        proven = certify_pair(exact, point.coef, intercept / rho, point, "solver", self.tol, self.atol)
        certificate = nu_certificate(exact, nu, point.beta, proven.certificate)
        zero = certificate.primal >= 0.0
        if zero:
            certificate = zero_certificate(certificate)
        return Candidate(model, point.coef, intercept / rho, point.beta, certificate, rho * proven.resolution, zero)


class TubeRun(NuRun):
    """A ν-regression. `tight`: whether the two groups have their sums, and ε > 0; else ε = 0, and all variables are one group."""

    def __init__(self, problem: Problem, nu: float, budget: Budget) -> None:
        super().__init__(problem.replace(loss=ResidualLoss()), nu, budget)
        self.tight, self.turns = True, 0

    def first(self) -> tuple[Problem, np.ndarray, Ended | None]:
        problem, sampled = self.problem, self.sample(TubeRun)
        above, ended = problem.targets, None
        if sampled is not None:
            above, ended = problem.targets - sampled[0], sampled[2]
        half = 0.5 * self.nu * WITHIN
        return problem, _filled(-above, problem.c, half) - _filled(above, problem.c, half), ended

    def start(self) -> None:
        super().start()
        if self.state.dual_value < 0.0:  # a = 0 is better, which does not have the sums
            self._turn(None, None)

    def step(self) -> None:
        before = self.state.current_a()
        super().step()
        if self.turns >= MOST_TURNS:
            return
        if self.tight:
            if self.state.gap <= CROSSED * abs(self.state.dual_value) and np.diff(self.state.levels())[0] > 0.0:
                self._turn(self.state.current_a(), None)
        elif self._size(self.state.current_a()) > self.nu:
            self._turn(self._at_limit(before, self.state.current_a()), self.nu)

    def _turn(self, a: np.ndarray | None, nu: float | None) -> None:
        """Step 3: go on from `a` with or without a sum for each group."""
        passes, here = self.state.passes, self.here
        self._start_from(None if a is None else a * np.divide(here.l2, here.c, out=np.zeros(here.n), where=here.c > 0.0), nu)
        self.state.passes, self.tight, self.turns = passes, nu is not None, self.turns + 1

    def _size(self, a: np.ndarray) -> float:
        return float(np.abs(a).sum()) * self.here.l2

    def _at_limit(self, a: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the point on the way from `a`, whose Σ c|β| is at most ν, to `end` at which it is ν."""
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._size(a + middle * (end - a)) <= self.nu else (low, middle)
        return a + low * (end - a)

    def at_floor(self, certificate: Certificate) -> bool:
        return certificate.primal <= self.least_value(self.best_found().beta)

    def least_value(self, beta: np.ndarray) -> float:
        return objective_floor(self.problem)

    @property
    def own(self) -> Problem:
        """The problem given, with the memory of the one that is worked on if it is the same."""
        return self.problem if self.problem.kernel is None else self.here

    def certified(self, beta: np.ndarray) -> Candidate:
        problem, nu = self.own, self.nu
        point = self._within(dual_point(problem, beta))
        assert point.coef is not None
        assert point.stored is not None
        epsilon, intercept = best_tube(problem, nu, problem.scores(point.stored))
        model = self.problem.replace(loss=ResidualLoss(epsilon=epsilon))
        exact = model.remembering()
        if problem.kernel is not None:
            carry_scores(exact, point.coef, 1.0, kernel_scores(problem, point.coef))
        proven = certify_pair(exact, point.coef, intercept, point, "solver", self.tol, self.atol)
        certificate = nu_regression_certificate(exact, nu, point.beta, proven.certificate)
        assert certificate is not None
        return Candidate(model, point.coef, intercept, point.beta, certificate, proven.resolution)

    def _within(self, point: DualPoint) -> DualPoint:
        """Return the dual point scaled so that Σ c|β| ≤ ν beyond rounding."""
        size, off = size_of_dual(self.own, point.beta)
        factor = self.nu * WITHIN / (size + off) if size > 0.0 else 1.0
        return point if factor >= 1.0 else dual_point(self.own, point.beta * factor)


# ------------------------------------------------------------------------------------------------------------------------ the start


def largest_square(problem: Problem) -> float:
    """Return the largest ‖xᵢ‖² of the rows that have weight beside that of the others."""
    return float(problem.sqnorms.max(initial=0.0, where=problem.c > ROUNDOFF * problem.c.max(initial=0.0)))


def _filled(keys: np.ndarray, weights: np.ndarray, mass: float) -> np.ndarray:
    """Return β = 1 for the rows of least key, as many as have that weight together, a part for the last of them, and 0 for the others."""
    order = np.argsort(keys, kind="stable")
    own = weights[order]
    beta = np.empty(len(keys))
    beta[order] = np.where(own > 0.0, np.clip((mass - (np.cumsum(own) - own)) / np.where(own > 0.0, own, 1.0), 0.0, 1.0), 0.0)
    return beta


def _sampled(problem: Problem, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, Problem]:
    """Return a sample of the rows, ascending, and its problem, with the weights of the classes as they are."""
    chosen, weights = [], []
    for sign in (1.0, -1.0):
        own = np.flatnonzero((problem.y == sign) & (problem.c > 0.0))
        if len(own):
            part = rng.choice(own, min(len(own), max(rows * len(own) // problem.n, 50)), replace=False)
            chosen.append(part)
            weights.append(problem.c[part] * (problem.c[own].sum() / problem.c[part].sum()))
    index, weight = np.concatenate(chosen), np.concatenate(weights)
    order = np.argsort(index)
    index, weight = index[order], weight[order]
    table = problem.kernel is not None and problem.kernel.name == "precomputed"
    X = np.ascontiguousarray(problem.X[np.ix_(index, index)]) if table else problem.X[index]
    small = problem.replace(X=X, d=X.shape[1], y=problem.y[index], offset=problem.offset.some(index), sample_weight=weight)
    small.shared.semidefinite = problem.shared.semidefinite
    return index, small
