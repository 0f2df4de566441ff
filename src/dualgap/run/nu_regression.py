"""minimise_nu_regression: ν-regression by ε-insensitive problems whose ε is searched for.

The ν-problem (`proof.nu_regression`) has the solution of the ε-insensitive problem of that ε at which the size of the dual variables,
Σ cᵢ|βᵢ|, is ν; of ε = 0 if the size is smaller there. The size falls with ε. The search:

1. Start at the best tube of w = 0.
2. Solve the ε-insensitive problem, from where the last one ended.
3. Mix the nearest solutions of larger and of smaller size, so that the size is at most ν; scale β down while all sizes are larger. Take
   the model of this β with the tube that is best for it, and certify it as a solution of the ν-problem. End if its gap is small enough,
   or if float64 cannot tell the objective from 0.
4. The next ε is that of this tube, if it lies between the two nearest solutions; every third time it is the middle of them. A tube
   outside of them says that the solution at that end was too inexact: that one is solved again. Go on with 2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import SMALLEST, ResidualLoss, number
from dualgap.problem import Problem
from dualgap.proof import (
    Certificate,
    best_tube,
    certify_pair,
    dual_point,
    nu_regression_certificate,
    objective_floor,
    size_of_dual,
    zero_objective,
)
from dualgap.run.driver import minimise
from dualgap.run.trace import Status, Trace
from dualgap.run.trained import Trained

__all__ = ["minimise_nu_regression"]

SOLVED_SHARE = 0.25  # gap of a solve / gap that is asked for
LOOSEST = 1e-2  # relative gap of a solve, at most
ERROR_SHARE = 0.05  # gap of a solve / gap of the ν-problem before it
MAX_SOLVES = 200
STALLED_SOLVES = 20  # solves in a row without a gap that is smaller by 1 %
COARSE = 2.0  # gap of an earlier solve / gap of the next one, above which the earlier one is repeated where the tube contradicts it
OVERSHOOT = 1.5  # step / distance of the best tube from the last ε while all sizes are on one side: a mixture needs both
LEAST_STEP = 0.02  # step / last ε, at least, while all sizes are on one side
BISECT_EVERY = 3  # solves, of which the last halves the range of ε
WITHIN = 1.0 - 1e-14  # factor on ν that keeps Σ c|β| ≤ ν beyond rounding


class Solved(NamedTuple):
    """A solution of the ε-insensitive problem at one ε, its size Σ c|β|, and its relative gap."""

    epsilon: float
    beta: np.ndarray
    size: float
    gap: float


class Candidate(NamedTuple):
    """A model of the ν-problem: that of β with its best tube, in the problem of that ε, and what is proven."""

    problem: Problem
    coef: np.ndarray
    intercept: float
    beta: np.ndarray
    certificate: Certificate


@dataclass
class Search:
    """The search for ε.

    Sets: `larger` and `smaller`, the nearest solutions of larger size (smaller ε) and of smaller size; `best`; `results`.
    """

    problem: Problem
    nu: float
    tol: float
    atol: float
    larger: Solved | None = None
    smaller: Solved | None = None
    best: Candidate | None = None
    step: float = 0.0  # of ε, while all sizes are on one side
    since: int = 0  # solves since the best gap last fell
    results: list[Trained] = field(default_factory=list)

    def at(self, epsilon: float) -> Problem:
        """Return the ε-insensitive problem of one ε."""
        return self.problem.replace(loss=ResidualLoss(epsilon=epsilon))

    def tolerance(self) -> float:
        """Return the gap of the next solve / objective of the ν-problem."""
        last = 1.0 if self.best is None else self.best.certificate.relative_gap
        return max(SOLVED_SHARE * self.tol, min(LOOSEST, ERROR_SHARE * last))

    def objective(self) -> float:
        """Return the least objective of the ν-problem that is known: at first, that of w = 0."""
        return self.objective_of_zero() if self.best is None else self.best.certificate.primal

    def objective_of_zero(self) -> float:
        tube = best_tube(self.problem, self.nu, self.problem.offset.values)
        return self.nu * tube.epsilon + zero_objective(self.at(tube.epsilon), tube.intercept)

    def place(self, epsilon: float, result: Trained) -> None:
        """Step 2: keep a solution as one of the two nearest. Where inexact solves contradict each other, the newer one counts."""
        self.results.append(result)
        size = size_of_dual(result.problem, result.dual)[0]
        solved = Solved(epsilon, result.dual, size, result.certificate.gap / max(self.objective(), SMALLEST))
        if solved.size > self.nu:
            self.larger = solved
            if self.smaller is not None and self.smaller.epsilon <= epsilon:
                self.smaller = None
        else:
            self.smaller = solved
            if self.larger is not None and self.larger.epsilon >= epsilon:
                self.larger = None

    def mixed(self) -> np.ndarray:
        """Return a β of size at most ν."""
        larger, smaller, aim = self.larger, self.smaller, self.nu * WITHIN
        if larger is None:
            assert smaller is not None
            return smaller.beta * min(1.0, aim / smaller.size if smaller.size > 0.0 else 1.0)
        if smaller is None:
            return larger.beta * (aim / larger.size)
        t = min(max((aim - smaller.size) / (larger.size - smaller.size), 0.0), 1.0)
        beta = (1.0 - t) * smaller.beta + t * larger.beta
        size, off = size_of_dual(self.problem, beta)
        return beta * min(1.0, aim / (size + off)) if size > 0.0 else beta

    def certify(self) -> float:
        """Step 3; return the ε of the tube that is best for the mixture."""
        point = dual_point(self.problem, self.mixed())
        assert point.coef is not None
        assert point.stored is not None
        tube = best_tube(self.problem, self.nu, self.problem.scores(point.stored))
        here = self.at(tube.epsilon)
        proven = certify_pair(here, point.coef, tube.intercept, point, "solver", self.tol, self.atol).certificate
        found = nu_regression_certificate(here, self.nu, point.beta, proven)
        gap = math.inf if self.best is None else self.best.certificate.gap
        self.since = 0 if found is not None and found.gap < 0.99 * gap else self.since + 1
        if found is not None and (self.best is None or found.relative_gap <= self.best.certificate.relative_gap):
            self.best = Candidate(here, point.coef, tube.intercept, point.beta, found)
        return tube.epsilon

    def ended(self, epochs: int, max_epochs: int, late: bool) -> Status | None:
        """Return why the search ends; None where it goes on."""
        if self.best is not None:
            if self.best.certificate.within(self.tol, self.atol):
                return "converged"
            if min(self.best.certificate.primal, self.objective_of_zero()) <= objective_floor(self.at(0.0)):
                return "zero_optimum"
        last = self.results[-1].status
        if last in ("interrupted", "max_seconds", "diverged"):
            return last
        if epochs >= max_epochs:
            return "max_epochs"
        if late:
            return "max_seconds"
        ends = self.since >= STALLED_SOLVES or len(self.results) >= MAX_SOLVES
        return None if not ends else "rounding_limit" if last == "rounding_limit" else "stalled"

    def next(self, tube: float, last: float) -> float:
        """Step 4: return the next ε, from that of the best tube and the last one."""
        larger, smaller = self.larger, self.smaller
        low, high = 0.0 if larger is None else larger.epsilon, math.inf if smaller is None else smaller.epsilon
        beyond = smaller if tube >= high else larger if tube <= low else None
        if beyond is not None and beyond.epsilon != last and beyond.gap > COARSE * self.tolerance():
            return beyond.epsilon  # an end that was solved loosely may be on the wrong side: solve there again
        if larger is not None and smaller is not None:
            if beyond is not None or len(self.results) % BISECT_EVERY == 0:
                return 0.5 * (low + high)
            return tube
        # All sizes are on one side: beyond the tube, and by more each time that it does not help.
        self.step = max(2.0 * self.step, OVERSHOOT * abs(tube - last), LEAST_STEP * last)
        return max(high - self.step, 0.0) if larger is None else low + self.step


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

    `problem` is ε-insensitive, of any ε, without an intercept or with a free one. Callbacks are shown the evaluations of the ε-insensitive
    problems; the budget is for all of them together.
    """
    search = Search(problem, number("nu", nu, "(0, 1]"), tol, atol)
    deadline = None if max_seconds is None else time.perf_counter() + max_seconds
    epsilon = best_tube(problem, nu, problem.offset.values).epsilon
    status: Status | None = None
    warm, epochs = None, 0
    while status is None:
        result = minimise(
            search.at(epsilon),
            solver,
            search.tolerance(),
            max(max_epochs - epochs, 1),
            None if deadline is None else max(deadline - time.perf_counter(), 1e-9),
            seed,
            warm_start=warm,
            callbacks=callbacks,
            halt=halt,
            atol=max(search.tolerance() * search.objective(), atol),  # the objective of the ε-insensitive problem may be 0
        )
        epochs += result.epochs
        search.place(epsilon, result)
        wanted = search.certify()
        status = search.ended(epochs, max_epochs, deadline is not None and time.perf_counter() >= deadline)
        epsilon, warm = search.next(wanted, epsilon), (result.coef, result.intercept, result.dual)
    return _result(search, status, epochs)


def _result(search: Search, status: Status, epochs: int) -> Trained:
    assert search.best is not None
    best, trace = search.best, Trace()
    for result in search.results:
        trace = trace.followed_by(result.trace)
    return Trained(
        problem=best.problem,
        solver=search.results[-1].solver,
        coef=best.coef,
        intercept=float(best.intercept),
        dual=best.beta,
        certificate=best.certificate,
        status=status,
        trace=trace,
        epochs=epochs,
        cpu_seconds=sum(r.cpu_seconds for r in search.results),
        wall_seconds=sum(r.wall_seconds for r in search.results),
        compile_seconds=sum(r.compile_seconds for r in search.results),
    )
