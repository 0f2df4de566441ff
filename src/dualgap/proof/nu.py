"""ν-problems: thresholds, tubes and certificates. They follow from those of the problem of one threshold or ε with the same rows.

**Labels.** With T = Σ cᵢ and a loss that starts at a threshold ρ, which is itself unknown,

    P_ν(w, b, ρ) = ½‖w‖² − νTρ + Σ cᵢ(ρ − yᵢ(xᵢ·w + b))₊        D_ν(β) = −½‖u‖²,  u = Σ cᵢβᵢyᵢxᵢ,  0 ≤ β ≤ 1,  Σ cᵢβᵢ = νT

and Σ cᵢβᵢyᵢ = 0 where b is free. P and D are those of the hinge problem of penalty l2:

1. P_ν(l2·w, l2·b, l2) = l2·(P(w, b) − νT).
2. If Σ cβ = m ≥ νT, then (νT/m)·β is feasible, and D_ν of it is −l2·(νT/m)²·(m − D(β)).

So every model and every β of the hinge problem, at whatever l2, bound the optimum of the ν-problem.

**Targets.** With ε unknown and Σ c = 1,

    P_ν(w, b, ε) = νε + P_ε(w, b),  ε ≥ 0,        D_ν(β) = D_ε(β) + ε·Σ cᵢ|βᵢ|  for any ε, where Σ cᵢ|βᵢ| ≤ ν

since ε occurs in D_ε as −ε·Σ cᵢ|βᵢ| alone. So a model and a β of the ε-insensitive problem, at whatever ε, have the gap
P_ν − D_ν = P_ε − D_ε + ε·(ν − Σ cᵢ|βᵢ|). Rounding is accounted for in both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, Bounded, ResidualLoss, round_up, signed_sum
from dualgap.problem import Problem
from dualgap.proof.certificate import Certificate, certificate_of
from dualgap.proof.intercepts import best_intercept

__all__ = [
    "LARGEST_PART",
    "Threshold",
    "Tube",
    "best_tube",
    "dual_mass",
    "largest_nu",
    "nu_certificate",
    "nu_regression_certificate",
    "nu_threshold",
    "size_of_dual",
    "zero_certificate",
]

LARGEST_PART = 1.0 - 1e-14  # part of the largest feasible ν that is taken for it: Σ cβ then exceeds νT by more than rounding


class Threshold(NamedTuple):
    """ρ and b that minimise P_ν for given scores."""

    rho: float
    intercept: float


class Tube(NamedTuple):
    """ε and b that minimise P_ν for given scores."""

    epsilon: float
    intercept: float


def _quantile(scores: np.ndarray, weights: np.ndarray, target: float) -> float:
    """Return the θ that minimises Σ cᵢ(θ − sᵢ)₊ − target·θ; the middle where many do and they are bounded."""
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(weights[order])
    place = min(int(np.searchsorted(sums, target * (1.0 - 1e-12))), len(order) - 1)
    low = float(scores[order[place]])
    if sums[place] > target * (1.0 + 1e-12) or place + 1 == len(order):
        return low
    return 0.5 * (low + float(scores[order[place + 1]]))


# ---------------------------------------------------------------------------------------------------------------------- labels


def dual_mass(problem: Problem, beta: np.ndarray | None = None) -> Bounded:
    """Return Σ cᵢβᵢ (β = 1 if None)."""
    ones = np.ones(problem.n)
    return signed_sum(problem.c, ones, ones if beta is None else beta)


def largest_nu(problem: Problem) -> float:
    """Return the largest ν that some β is feasible for: 1, or with a free intercept twice the lighter class's part of the weight."""
    if problem.intercept != "free":
        return 1.0
    positive = float(problem.c[problem.y > 0.0].sum())
    total = float(problem.c.sum())
    return 2.0 * min(positive, total - positive) / total


def nu_threshold(problem: Problem, nu: float, scores: np.ndarray) -> Threshold:
    """Return the ρ and b that minimise P_ν for scores xᵢ·w; b = 0 without a free intercept.

    With a free b every class has a threshold of its own, ρ − b and ρ + b, and half of the mass νT.
    """
    target = nu * float(problem.c.sum())
    if problem.intercept != "free":
        return Threshold(_quantile(problem.y * scores, problem.c, target), 0.0)
    up = problem.y > 0.0
    above = _quantile(scores[up], problem.c[up], 0.5 * target)
    below = _quantile(-scores[~up], problem.c[~up], 0.5 * target)
    return Threshold(0.5 * (above + below), 0.5 * (below - above))


def nu_certificate(problem: Problem, nu: float, beta: np.ndarray, found: Certificate) -> Certificate:
    """Return the certificate of the ν-problem from that of a model and β of the hinge problem, for the model (l2·w, l2·b, l2).

    `found` must be of this β alone, not of the best of several bounds. The bound is −∞ where Σ cβ may be below νT.
    """
    l2 = problem.l2
    mass, off = dual_mass(problem, beta)
    if problem.intercept == "free":  # a bound holds for a β that was moved in one row, so that it balances exactly
        off += abs(signed_sum(problem.c, problem.y, beta)).upper
    total, total_off = dual_mass(problem)
    least, most = mass - off - 2.0 * ROUNDOFF * mass, round_up(mass + off)
    needed, free = round_up(nu * (total + total_off)), nu * (total - total_off) * (1.0 - 4.0 * ROUNDOFF)
    primal = round_up(l2 * round_up(found.primal - free))
    radius = round_up(l2 * (found.radius + (most - least) + (needed - free)))
    if not needed <= least:
        return certificate_of(primal, -math.inf, found.source, radius)
    scale = round_up(needed / least) ** 2
    dual = -round_up(l2 * round_up(scale * round_up(most - found.dual)))
    return certificate_of(primal, dual, found.source, radius, round_up(l2 * round_up(found.gap + (most - free))))


def zero_certificate(bound: Certificate) -> Certificate:
    """Return the certificate of w = 0, ρ = 0, whose objective is 0, by the bound of another certificate of the same ν-problem."""
    return certificate_of(0.0, min(bound.dual, 0.0), bound.source)


# --------------------------------------------------------------------------------------------------------------------- targets


def best_tube(problem: Problem, nu: float, residuals: np.ndarray) -> Tube:
    """Return the ε and b that minimise νε + Σ cᵢ(|rᵢ + b| − ε)₊ for residuals r without an intercept; b = 0 without a free one.

    With a free b the rows above the tube have half of the mass ν, and those below it the other half.
    """
    if problem.intercept != "free":
        return Tube(max(-_quantile(-np.abs(residuals), problem.c, nu), 0.0), 0.0)
    top, bottom = -_quantile(-residuals, problem.c, 0.5 * nu), _quantile(residuals, problem.c, 0.5 * nu)
    if top <= bottom:
        return Tube(0.0, best_intercept(problem.replace(loss=ResidualLoss()), residuals))
    return Tube(0.5 * (top - bottom), -0.5 * (top + bottom))


def size_of_dual(problem: Problem, beta: np.ndarray) -> Bounded:
    """Return Σ cᵢ|βᵢ|; a β that is moved in one row to balance exactly is within its radius, too."""
    found = signed_sum(problem.c, np.ones(problem.n), np.abs(beta))
    return found.wider(abs(signed_sum(problem.c, problem.y, beta)).upper) if problem.intercept == "free" else found


def nu_regression_certificate(problem: Problem, nu: float, beta: np.ndarray, found: Certificate) -> Certificate | None:
    """Return the certificate of the ν-problem at the ε of `problem` from that of a model and this β; None where Σ c|β| may exceed ν.

    `found` must be of this β alone, not of the best of several bounds.
    """
    epsilon, (size, off) = problem.loss.epsilon, size_of_dual(problem, beta)
    least = max(size - off - 2.0 * ROUNDOFF * size, 0.0)
    if not round_up(size + off) <= nu:
        return None
    cost = round_up(nu * epsilon)
    primal = round_up(found.primal + cost)
    dual = found.dual + epsilon * least
    dual -= 4.0 * ROUNDOFF * (abs(found.dual) + epsilon * least)
    more = round_up(epsilon * round_up(nu - least))
    radius = round_up(found.radius + 4.0 * ROUNDOFF * (cost + primal))
    return certificate_of(primal, dual, found.source, radius, round_up(found.gap + more))
