"""A loss as docs/add-a-loss.md describes one of a user's own: the required methods alone, compiled, and what it declares of its kink."""

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core.jit import compiled


@compiled
class CubicHinge(NamedTuple):
    """max(0, 1 − m)³/3: without a kink, and with a curvature that has no bound."""

    power: float = 3.0  # no formula reads it

    def value(self, margin):
        short = max(0.0, 1.0 - margin)
        return short * short * short / 3.0

    def slope(self, margin):
        short = max(0.0, 1.0 - margin)
        return short * short

    def psi(self, beta):
        return beta - 2.0 / 3.0 * beta * math.sqrt(beta)

    def dual_step(self, beta, margin, q):
        # s = √β⁺ solves s + q·s² = 1 − m + q·β
        right = 1.0 - margin + q * beta
        if right <= 0.0:
            return 0.0
        root = 2.0 * right / (1.0 + math.sqrt(1.0 + 4.0 * q * right))
        return root * root

    def gradient(self, beta, margin):
        return 1.0 - math.sqrt(beta) - margin

    def curvature_at(self, beta, q):
        return 1.0 / (q + 0.5 / math.sqrt(beta)) if beta > 0.0 else 0.0

    def upper_bound(self):
        return np.inf

    def curvature(self):
        return np.inf

    def has_kink(self):
        return False


@compiled
class UndeclaredCubicHinge(NamedTuple):
    """The same by the required methods alone, which say nothing of a kink."""

    power: float = 3.0
    value = CubicHinge.value
    slope = CubicHinge.slope
    psi = CubicHinge.psi
    dual_step = CubicHinge.dual_step
    gradient = CubicHinge.gradient
    curvature_at = CubicHinge.curvature_at
    upper_bound = CubicHinge.upper_bound
    curvature = CubicHinge.curvature


def loss_of(name: str) -> Any:
    """The loss that a problem takes for a name of REFERENCE_LOSSES."""
    return CubicHinge() if name == "cubic_hinge" else name
