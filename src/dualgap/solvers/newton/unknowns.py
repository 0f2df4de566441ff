"""What the methods share: the unknowns x and their penalties, the part of the gap that a gradient makes, the model at the end.

x is w, followed by the coefficient v of a constant column where there is an intercept b = intercept_scale·v. `ridge` holds the penalty
of each unknown: l2 for w and a penalised intercept, 0 for a free one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import Boxed, total_psi
from dualgap.problem import Problem
from dualgap.proof import penalty_excess
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no

__all__ = ["NOT_SMOOTH", "PrimalNewton", "Unknowns", "first_x", "gap_part", "penalty_gap", "split_gap", "subgradient_ends"]

NOT_SMOOTH = no("Newton's method on the primal needs a smooth loss, and the hinge has a kink; smooth_hinge has none")


@dataclass(kw_only=True)
class Unknowns(State):
    """The unknowns of a Newton method. Sets: `ridge` by `start`; `x` and `gap` by every epoch."""

    ridge: np.ndarray
    x: np.ndarray
    gap: float  # relative gap of x and β by the running sums; only a certificate proves it


class PrimalNewton(Solver):
    """A solver whose state is an Unknowns."""

    def supports(self, problem: Problem) -> Support:
        if problem.l1 > 0:
            return no("its Newton system needs the l2 penalty alone")
        return YES if problem.kernel is None else no("it needs features, not a kernel")

    def model(self, problem: Problem, state: Unknowns) -> tuple[np.ndarray, float | None]:
        return (state.x.copy(), 0.0) if problem.intercept == "none" else (state.x[:-1].copy(), None)

    def intercept(self, problem: Problem, state: Unknowns) -> float:
        """Return the intercept in x; `model` leaves the intercept to an exact minimisation."""
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.x[-1])


def first_x(problem: Problem, warm: Warm | None) -> tuple[np.ndarray, np.ndarray]:
    """Return x of a warm start, or zeros, or what is nearest to these within bounds; and the ridge."""
    biased = problem.intercept != "none"
    ridge = np.empty(problem.d + biased)
    ridge.fill(problem.l2)
    if problem.intercept == "free":
        ridge[-1] = 0.0
    x = np.zeros(len(ridge))
    if warm is not None and warm.coef is not None:
        x[: problem.d] = warm.coef
        if biased:
            x[-1] = warm.intercept / problem.intercept_scale
    x[: problem.d] = problem.penalty.nearest_point(x[: problem.d])
    return x, ridge


def gap_part(r: np.ndarray, ridge: np.ndarray) -> float:
    """Return Σ r²/(2·ridge), by which P exceeds D where r is the gradient ridge·x − u; a free intercept, with ridge 0, counts |r|."""
    if ridge[-1] > 0.0:
        return 0.5 * float(r @ r) / float(ridge[0])
    return 0.5 * float(r[:-1] @ r[:-1]) / float(ridge[0]) + abs(float(r[-1]))


def penalty_gap(penalty: Any, x: np.ndarray, u: np.ndarray, ridge: np.ndarray) -> float:
    """Return R(w) + R*(u) − u·w, which with l2 alone is `gap_part` of ridge·x − u; an intercept counts as there."""
    if not isinstance(penalty, Boxed):
        return gap_part(ridge * x - u, ridge)
    d = len(penalty.low)
    found = penalty_excess(penalty, x[:d], u[:d] / penalty.l2, np.zeros(1), 0.0)[0]
    for own, r in zip(ridge[d:], (ridge * x - u)[d:], strict=True):
        found += 0.5 * float(r * r / own) if own > 0.0 else abs(float(r))
    return found


def subgradient_ends(problem: Problem, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest subgradient of R at each coordinate: w is optimal if uⱼ is between them.

    They differ where w is 0 and there is an l1 part, and at a bound, beyond which R is infinite.
    """
    low, high = problem.bounds or (-math.inf, math.inf)
    least = np.where(w <= low, -math.inf, problem.l2 * w + problem.l1 * np.where(w > 0.0, 1.0, -1.0))
    most = np.where(w >= high, math.inf, problem.l2 * w + problem.l1 * np.where(w < 0.0, -1.0, 1.0))
    return least, most


def split_gap(
    problem: Problem, model: tuple[np.ndarray, float], primal: float, beta: np.ndarray, sums: tuple[np.ndarray, float]
) -> float:
    """Return the relative gap of a model w, b and β whose losses make no part of it, by the running sums u and Σ cβy.

    With l1 alone β is scaled until no |u| exceeds l1, and the losses count.
    """
    (w, b), (u, total) = model, sums
    if problem.l2 == 0:
        scaled = beta / max(1.0, float(np.abs(u).max(initial=0.0)) / problem.l1)
        gap = primal - float(total_psi(problem.loss, scaled, problem.samples))
    else:
        gap = penalty_excess(problem.penalty, w, u / problem.l2, np.zeros(1), 0.0)[0]
        if problem.intercept == "penalised":
            scale = problem.intercept_scale
            gap += 0.5 * problem.l2 * (b / scale - scale * total / problem.l2) ** 2
    if problem.intercept == "free":
        gap += problem.intercept_scale * abs(total)
    return gap / primal if primal > 0.0 else math.inf
