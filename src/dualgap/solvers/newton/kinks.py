"""Kinks: the part of the penalty that has kinks. As `proximal` has the rows, with subgradients s⁺ in place of β⁺."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import L1, Boxed, compiled, kernel
from dualgap.problem import Problem

__all__ = ["Kinks", "SplitDescent", "predicted_subgradients", "subgradients"]


class Kinks(NamedTuple):
    """l1·|wⱼ| within bounds, the proximal term Σ (τⱼ/2)(sⱼ − centreⱼ)² of its subgradients, and what `subgradients` finds at w."""

    penalty: Any  # L1, or Boxed with l2 = 0
    centre: np.ndarray
    tau: np.ndarray
    s: np.ndarray  # s⁺ …
    v: np.ndarray  # … the coefficient at which it is a subgradient: w with exact zeros …
    second: np.ndarray  # … and its slope, the second derivative of F

    @classmethod
    def of(cls, problem: Problem, chosen: np.ndarray, centre: np.ndarray, tau: np.ndarray) -> Kinks:
        """Return the kinks of the chosen features."""
        found = tuple(np.zeros((3, len(chosen))))
        if problem.bounds is None:
            return cls(L1(problem.l1), centre, tau, *found)
        low, high = problem.bounds
        return cls(Boxed(problem.l1, 0.0, low[chosen], high[chosen]), centre, tau, *found)


@kernel
def subgradient(kinks, j, w):
    """Return s⁺ of a coefficient, the v nearest to w + τ·centre − τ·s⁺ that has it, and whether v is at a kink: 0 or a bound."""
    l1, centre, tau = kinks.penalty.l1, kinks.centre[j], kinks.tau[j]
    v = kinks.penalty.prox_at(j, w + tau * centre, tau)
    low, high = kinks.penalty.ends(j)
    if v == 0.0 or v <= low or v >= high:
        return centre + (w - v) / tau, v, True
    return (l1 if v > 0.0 else -l1), v, False


@kernel
def subgradients(kinks, w):
    """Set s⁺, v and the curvature of every coefficient's part of F: 1/τ at a kink, 0 elsewhere. Returns Σ (τ/2)(s⁺ − centre)²."""
    total = 0.0
    for j in range(w.shape[0]):
        kinks.s[j], kinks.v[j], at_kink = subgradient(kinks, j, w[j])
        kinks.second[j] = 1.0 / kinks.tau[j] if at_kink else 0.0
        change = kinks.s[j] - kinks.centre[j]
        total += 0.5 * kinks.tau[j] * change * change
    return total


@kernel
def predicted_subgradients(kinks, w):
    """Set s to what the tangents at the centre predict, even beyond l1, and their curvatures; v is where each feature was last."""
    l1 = kinks.penalty.l1
    for j in range(w.shape[0]):
        low, high = kinks.penalty.ends(j)
        kinks.s[j], kinks.second[j] = kinks.centre[j], 0.0
        if (kinks.v[j] == 0.0 and abs(kinks.s[j]) < l1) or kinks.v[j] <= low or kinks.v[j] >= high:
            kinks.second[j] = 1.0 / kinks.tau[j]
            kinks.s[j] += (w[j] - kinks.v[j]) / kinks.tau[j]


@compiled
class SplitDescent(NamedTuple):
    """−dF/dt along a direction, which never rises with t: the part of the rows and the ridge, and that of the kinks."""

    smooth: Any  # Descent
    kinks: Any
    w: np.ndarray
    step: np.ndarray

    def evaluate(self, t):
        total = self.smooth.evaluate(t)
        for j in range(self.w.shape[0]):
            if self.step[j] != 0.0:
                total -= self.step[j] * subgradient(self.kinks, j, self.w[j] + t * self.step[j])[0]
        return total
