"""The ν-regression: the best tube for given scores, and certificates. They follow from those of the ε-insensitive problem.

With ε unknown and Σ c = 1,

    P_ν(w, b, ε) = νε + P_ε(w, b),  ε ≥ 0,        D_ν(β) = D_ε(β) + ε·Σ cᵢ|βᵢ|  for any ε, where Σ cᵢ|βᵢ| ≤ ν

since ε occurs in D_ε as −ε·Σ cᵢ|βᵢ| alone. So a model and a β of the ε-insensitive problem, at whatever ε, have the gap

    P_ν − D_ν = P_ε − D_ε + ε·(ν − Σ cᵢ|βᵢ|)

Rounding is accounted for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, Bounded, ResidualLoss, round_up, signed_sum
from dualgap.problem import Problem
from dualgap.proof.certificate import Certificate, certificate_of
from dualgap.proof.intercepts import best_intercept

__all__ = ["Tube", "best_tube", "nu_regression_certificate", "size_of_dual"]


class Tube(NamedTuple):
    """ε and b that minimise P_ν for given scores."""

    epsilon: float
    intercept: float


def best_tube(problem: Problem, nu: float, residuals: np.ndarray) -> Tube:
    """Return the ε and b that minimise νε + Σ cᵢ(|rᵢ + b| − ε)₊ for residuals r without an intercept; b = 0 without a free one.

    With a free b the rows above the tube have half of the mass ν, and those below it the other half.
    """
    if problem.intercept != "free":
        return Tube(max(_quantile(np.abs(residuals), problem.c, nu), 0.0), 0.0)
    top, bottom = _quantile(residuals, problem.c, 0.5 * nu), -_quantile(-residuals, problem.c, 0.5 * nu)
    if top <= bottom:
        return Tube(0.0, best_intercept(problem.replace(loss=ResidualLoss()), residuals))
    return Tube(0.5 * (top - bottom), -0.5 * (top + bottom))


def _quantile(values: np.ndarray, weights: np.ndarray, above: float) -> float:
    """Return the θ that minimises above·θ + Σ cᵢ(vᵢ − θ)₊; the middle where many do and they are bounded."""
    order = np.argsort(-values, kind="stable")
    sums = np.cumsum(weights[order])
    place = min(int(np.searchsorted(sums, above * (1.0 - 1e-12))), len(order) - 1)
    here = float(values[order[place]])
    if sums[place] > above * (1.0 + 1e-12) or place + 1 == len(order):
        return here
    return 0.5 * (here + float(values[order[place + 1]]))


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
