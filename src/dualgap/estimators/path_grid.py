"""Models of a grid of C and l1_ratio: what trains one of them, each from the one before, with features screened out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np

from dualgap.answers import zero_features
from dualgap.core import is_sparse, number, slopes, whole_number
from dualgap.estimators.fitting import Start
from dualgap.problem import Problem, from_C
from dualgap.proof import best_intercept, scores_of
from dualgap.run import Trained, certify, minimise
from dualgap.solvers import Solver

__all__ = ["Limits", "Machine", "Point", "features_left", "grid_of", "trace"]


class Limits:
    """What the runs of a fit may cost: epochs for each, seconds for all of them, shared out; and their seed."""

    def __init__(self, max_epochs: int, max_seconds: float | None, seed: int) -> None:
        self.max_epochs, self.seed = max_epochs, seed
        self.end = None if max_seconds is None else time.perf_counter() + number("max_time", max_seconds)

    def share(self, parts: int) -> float | None:
        """Return the time at which the next of the remaining parts has to end."""
        now = time.perf_counter()
        return None if self.end is None else now + max(self.end - now, 0.0) / max(parts, 1)


@dataclass(frozen=True)
class Machine:
    """The problem that certificates are for, the one that solvers work on, and the sum of the weights of the samples.

    The two differ for a kernel whose matrix is held: solvers take it as a precomputed one, and certificates take their sums from it,
    with bounds on the rounding that are those of the kernel.
    """

    proven: Problem
    solved: Problem
    total: float
    solver: str | Solver

    def strengths(self, C: float, ratio: float = 0.0) -> tuple[float, float]:
        """Return (l2, l1) for a C and a share of l1."""
        found = from_C(C, self.total, ratio)
        return found["l2"], found["l1"]

    def problem(self, C: float, ratio: float = 0.0) -> Problem:
        """Return the problem that certificates are for."""
        l2, l1 = self.strengths(C, ratio)
        return self.proven.variant(l2=l2, l1=l1)

    def solve(
        self,
        C: float,
        ratio: float,
        warm: Start,
        tol: float,
        limits: Limits,
        until: float | None = None,
        halt: Callable[[], bool] | None = None,
        features: np.ndarray | None = None,
    ) -> Trained:
        """Solve for one C and share of l1; with `features`, a mask, over these columns alone."""
        l2, l1 = self.strengths(C, ratio)
        seconds = None if until is None else max(until - time.perf_counter(), 1e-9)
        solved = self.solved.variant(l2=l2, l1=l1)
        if features is not None:
            columns = solved.X[:, np.flatnonzero(features)]
            columns = columns if is_sparse(columns) else np.ascontiguousarray(columns)
            solved = solved.replace(X=columns, d=columns.shape[1])
        result = minimise(solved, self.solver, tol, limits.max_epochs, seconds, limits.seed, warm_start=warm, halt=halt)
        return result if self.solved is self.proven else Trained.of(result, problem=self.proven.variant(l2=l2, l1=l1))


@dataclass(frozen=True, kw_only=True)
class Point(Trained):
    """One model of a grid."""

    screened: int = 0  # features that were proved to be zero before it was trained


def grid_of(machine: Machine, Cs: int | Sequence[float] | np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return values of C in rising order: those given, or that number of them from where the first feature comes in, over three decades."""
    if np.ndim(Cs) > 0:
        given = np.asarray(Cs).tolist()
        if np.ndim(Cs) != 1 or not given:
            raise ValueError(f"Cs={Cs!r} must be a list of positive numbers, such as [0.01, 100]")
        return np.sort([number("Cs", float(C) if isinstance(C, int) else C) for C in given])
    count = whole_number("Cs", Cs)
    positive = ratios[ratios > 0]
    if len(positive) == 0:
        return np.geomspace(1e-4, 1e2, count)
    # At w = 0 the first feature comes in where l1 = ratio/(C·Σs) has come down to the largest |u|.
    base = machine.proven
    beta = np.empty(base.n)
    scores = base.offset.added(np.zeros(base.n))
    slopes(base.loss, base.y * (scores + best_intercept(base, scores)), beta)
    largest = float(np.abs(base.combine(base.c * base.y * beta)).max())
    lowest = float(positive.min()) / (machine.total * max(largest, 1e-300))
    return np.geomspace(lowest, 1e3 * lowest, count)


def trace(
    machines: Sequence[Machine], Cs: np.ndarray, ratios: np.ndarray, tol: float, limits: Limits, screen: bool
) -> list[list[list[Point]]]:
    """Train the models of a grid: for each machine and ratio those of every C, each started from the one before."""
    left, stop = len(machines) * len(ratios) * len(Cs), Event()
    found = []
    for machine in machines:
        grid = []
        for ratio in ratios:
            row: list[Point] = []
            for C in Cs:
                run = partial(
                    machine.solve, float(C), float(ratio), tol=tol, limits=limits, until=limits.share(left), halt=stop.is_set
                )
                row.append(_point(machine.problem(float(C), float(ratio)), row[-1] if row else None, run, tol, screen))
                left -= 1
                if row[-1].status == "interrupted":
                    stop.set()  # one epoch each for the points that are left
            grid.append(row)
        found.append(grid)
    return found


def _point(problem: Problem, last: Point | None, run: Callable[..., Trained], tol: float, screen: bool) -> Point:
    """Return the next model. With `screen`, features that the last model and dual point prove to be zero are left out of the run."""
    if last is None:
        return Point.of(run(warm=None))
    keep = features_left(problem, last) if screen else np.ones(problem.d, dtype=bool)
    if keep.all() or not keep.any():
        return Point.of(run(warm=(last.coef, last.intercept, last.dual)))
    screened = problem.d - int(np.count_nonzero(keep))
    result = run(warm=(last.coef[keep], last.intercept, last.dual), features=keep)
    coef = np.zeros(problem.d)
    coef[keep] = result.coef
    certificate = certify(problem, coef, result.intercept, result.dual)
    if result.converged and certificate.relative_gap > tol:  # nearly never: go on with all features
        return Point.of(run(warm=(coef, result.intercept, result.dual)), screened=screened)
    dual = result.dual if certificate.dual > 0.0 else np.zeros(problem.n)  # β of the bound, for a proof
    return Point.of(result, problem=problem, coef=coef, dual=dual, certificate=certificate, screened=screened)


def features_left(problem: Problem, last: Trained) -> np.ndarray:
    """Return which features may be other than zero in the minimiser, by what another model and dual point prove."""
    problem = problem.remembering()
    b = best_intercept(problem, scores_of(problem, last.coef))
    return ~zero_features(problem, last.coef, b, last.dual)
