"""The loops over features of ssnal (numbers: its steps in README.md): the subgradients s⁺ of the penalty, and the line search with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualgap.core import L1, Boxed, compiled, kernel
from dualgap.problem import Problem

__all__ = ["Kinks", "SplitDescent", "predicted_subgradients", "subgradients"]


class Kinks(NamedTuple):
    """The part of the penalty that has kinks, l1·|wⱼ| within bounds, and the proximal term Σ (τⱼ/2)(sⱼ − centreⱼ)² of its subgradients."""

    penalty: Any  # L1, or Boxed with l2 = 0
    centre: np.ndarray
    tau: np.ndarray

    @classmethod
    def of(cls, problem: Problem, chosen: np.ndarray, centre: np.ndarray, tau: np.ndarray) -> Kinks:
        """Return the kinks of the chosen features."""
        if problem.bounds is None:
            return cls(L1(problem.l1), centre, tau)
        low, high = problem.bounds
        return cls(Boxed(problem.l1, 0.0, low[chosen], high[chosen]), centre, tau)


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
def subgradients(kinks, w, s, v, curvature):
    """Step 5: s⁺, v and the curvature of every coefficient's part of F: 1/τ at a kink, 0 elsewhere. Returns Σ (τ/2)(s⁺ − centre)²."""
    total = 0.0
    for j in range(w.shape[0]):
        s[j], v[j], at_kink = subgradient(kinks, j, w[j])
        curvature[j] = 1.0 / kinks.tau[j] if at_kink else 0.0
        change = s[j] - kinks.centre[j]
        total += 0.5 * kinks.tau[j] * change * change
    return total


@kernel
def predicted_subgradients(kinks, w, v, s, curvature):
    """Step 2: s = what the tangents at the centre predict, even beyond l1, and their curvatures; `v` is where each feature was last."""
    l1 = kinks.penalty.l1
    for j in range(w.shape[0]):
        low, high = kinks.penalty.ends(j)
        s[j], curvature[j] = kinks.centre[j], 0.0
        if (v[j] == 0.0 and abs(s[j]) < l1) or v[j] <= low or v[j] >= high:
            curvature[j] = 1.0 / kinks.tau[j]
            s[j] += (w[j] - v[j]) / kinks.tau[j]


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
