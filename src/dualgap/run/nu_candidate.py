"""Models of a ν-problem from a β of mass νT: the best threshold for it, the certificate, the result; samples of the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import gamma, weighted_balance
from dualgap.problem import Problem
from dualgap.proof import (
    Certificate,
    Scores,
    carry_scores,
    certificate_of,
    certify_pair,
    dual_point,
    nu_certificate,
    nu_threshold,
    zero_certificate,
)
from dualgap.run.trained import Trained

__all__ = [
    "AIM",
    "Budget",
    "Candidate",
    "NuResult",
    "better_of",
    "carry",
    "certified_candidate",
    "equal_beta",
    "expansion_of",
    "filled",
    "nearly_zero",
    "own_scores",
    "sampled",
    "settled_mass",
    "taken",
]

AIM = 1.0 + 6e-15  # mass of a mixture / νT: above 1 by more than rounding
UNDERFLOW = 1e-290  # a dual value above minus this is 0: all rows are
NEARLY_ZERO = 1e-24  # ½‖u‖² / ½(ν·max ‖x‖)² below which the optimum is w = 0, ρ = 0 up to rounding; more where sums are long
# The same for a kernel machine, whose ‖u‖² is a sum of kernel values: at least, and in units of the rounding error of a sum.
KERNEL_ZERO, KERNEL_ROUNDING = 1e-12, 32.0

Parts = Sequence[tuple[float, Scores | None]]  # factors on scores whose sum is the scores of w = Σ cβyx; None: not known


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

    def candidate(self) -> Candidate:
        """Return the model with what is proven of it, without how it was found."""
        return Candidate(self.problem, self.coef, self.intercept, self.dual, self.certificate, self.zero)


class Budget(NamedTuple):
    """How to run: the solver, the gap that ends the run, its limits, the seed."""

    solver: Any
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
    """A β of mass νT, the hinge problem whose l2 is the best threshold for it, the model w(β) with its intercept, and what is proven."""

    problem: Problem
    coef: np.ndarray
    intercept: float
    beta: np.ndarray
    certificate: Certificate
    zero: bool = False

    def result(self, **fields: Any) -> NuResult:
        """Return the result of a run that ends with this model."""
        return NuResult(
            problem=self.problem,
            coef=np.zeros_like(self.coef) if self.zero else self.coef,
            intercept=0.0 if self.zero else float(self.intercept),
            dual=self.beta,
            certificate=self.certificate,
            zero=self.zero,
            **fields,
        )


def certified_candidate(
    problem: Problem, nu: float, beta: np.ndarray, parts: Parts, l2: float, tol: float, atol: float
) -> Candidate:
    """Certify the model of a β of mass νT at the threshold that is best for it. `l2` serves where no threshold is positive."""
    rho, intercept = nu_threshold(problem, nu, own_scores(problem, beta, parts))
    if not rho > 0.0:  # there is no such hinge problem, and w = 0 is a better model; the bound holds at any l2
        rho, intercept = l2, 0.0
    model = problem.variant(l2=rho)
    here = model.remembering()
    carry(here, beta, parts)
    point = dual_point(here, beta)
    assert point.coef is not None
    proven = certify_pair(here, point.coef, intercept / rho, point, "solver", tol, atol).certificate
    certificate = nu_certificate(here, nu, point.beta, proven)
    zero = certificate.primal >= 0.0
    if zero:
        certificate = zero_certificate(certificate)
    return Candidate(model, point.coef, intercept / rho, point.beta, certificate, zero)


def better_of(one: Candidate | None, other: Candidate) -> Candidate:
    """Return the candidate of the lower objective, of equal ones that of the smaller gap, with the better bound of the two."""
    if one is None:
        return other
    first, second = one.certificate, other.certificate
    best, rest = (one, second) if (first.primal, first.gap) <= (second.primal, second.gap) else (other, first)
    own = best.certificate
    if own.dual < rest.dual <= own.primal:  # not so where an indefinite kernel makes them contradict each other
        joined = certificate_of(own.primal, rest.dual, rest.source, own.radius + rest.radius)
        return replace(best, certificate=joined) if joined.gap < own.gap else best
    return best


def carry(problem: Problem, beta: np.ndarray, parts: Parts) -> None:
    """Put the scores of β together for `problem`, where those of the parts are known."""
    known = [(factor / problem.l2, scores) for factor, scores in parts if scores is not None]
    if known and len(known) == len(parts):
        carry_scores(problem, expansion_of(problem, beta), known)


def own_scores(problem: Problem, beta: np.ndarray, parts: Parts) -> np.ndarray:
    """Return the scores of w = Σ cβyx."""
    known = [factor * scores.values for factor, scores in parts if scores is not None]
    if known and len(known) == len(parts):
        return np.sum(known, axis=0)
    return problem.scores(problem.combine(problem.c * beta * problem.y))


def expansion_of(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Return a = cβy/l2, as dual points have it."""
    return np.asarray(problem.c * beta / problem.l2 * problem.y)


def nearly_zero(problem: Problem, nu: float, value: float) -> bool:
    """Return whether ½‖u‖² = `value` is 0 up to rounding: w = 0, ρ = 0 is then the solution."""
    size = nu * float(problem.norms.max(initial=0.0))  # bounds ‖u‖
    rounding = gamma(problem.n)
    if problem.kernel is None:
        share = max(NEARLY_ZERO, (8.0 * rounding) ** 2)
    else:
        share = max(KERNEL_ZERO, KERNEL_ROUNDING * rounding)
    return value <= share * 0.5 * size * size + UNDERFLOW


# ------------------------------------------------------------------------------------------------------------------- points and samples


def classes_of(problem: Problem) -> list[tuple[np.ndarray, float]]:
    """Return the rows that have a given mass together, and their part of the mass νT: each class half of it if the intercept is free."""
    if problem.intercept != "free":
        return [(np.arange(problem.n), 1.0)]
    return [(np.flatnonzero(problem.y > 0.0), 0.5), (np.flatnonzero(problem.y < 0.0), 0.5)]


def filled(problem: Problem, beta: np.ndarray, margins: np.ndarray, aim: float) -> np.ndarray:
    """Return β with those of the rows of least margin raised to 1, until each class has its part of the mass `aim`."""
    beta = beta.copy()
    for rows, part in classes_of(problem):
        order = rows[np.argsort(margins[rows], kind="stable")]
        room = problem.c[order] * (1.0 - beta[order])
        missing = part * aim - float(problem.c[rows] @ beta[rows])
        before = np.cumsum(room) - room
        share = np.clip((missing - before) / np.where(room > 0.0, room, 1.0), 0.0, 1.0)
        beta[order] += share * (1.0 - beta[order])
    return beta


def equal_beta(problem: Problem, nu: float) -> np.ndarray:
    """Return the feasible β that is the same for all rows of a class."""
    beta, target = np.empty(problem.n), nu * float(problem.c.sum())
    for rows, part in classes_of(problem):
        beta[rows] = part * target / float(problem.c[rows].sum())
    return beta


def sampled(problem: Problem, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, Problem]:
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
    return index[order], taken(problem, index[order], weight[order])


def taken(problem: Problem, rows: np.ndarray, weights: np.ndarray) -> Problem:
    """Return the problem over a copy of some of the rows, with sample weights of its own."""
    table = problem.kernel is not None and problem.kernel.name == "precomputed"
    return Problem(
        problem.X[np.ix_(rows, rows)] if table else problem.X[rows],
        problem.y[rows],
        l2=problem.l2,
        sample_weight=weights,
        intercept=problem.intercept,
        classes=(-1.0, 1.0),
        kernel=problem.kernel,
    )


def settled_mass(problem: Problem, beta: np.ndarray, aim: float) -> np.ndarray:
    """Return β with what rounding took from the mass of each class put back: shared by the support vectors that have room for it."""
    beta = np.clip(beta, 0.0, 1.0)
    for rows, part in classes_of(problem):
        own = beta[rows]
        missing = part * aim - float(weighted_balance(problem.c[rows], np.ones(len(rows)), own, 0.0)[0])
        room = problem.c[rows] * (1.0 - own if missing > 0.0 else own) * (own > 0.0)
        if room.sum() > 0.0:
            share = min(abs(missing) / float(room.sum()), 1.0)
            beta[rows] = own + share * (1.0 - own) * (own > 0.0) if missing > 0.0 else own * (1.0 - share)
    return beta
