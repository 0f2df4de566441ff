"""The loops over margins that Newton's method is made of: how β answers, what bends, how far to go, which rows may be left out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import Bracket, compiled, illinois, kernel, nearest
from dualgap.problem import Samples

__all__ = ["Descent", "Prox", "answer_linearly", "bends", "find_far", "line_search", "respond"]


# The line search. All three compare −dF/dt with its value at t = 0.
FULL_STEP = 0.1  # the full step is taken if it leaves at most this part of the derivative
SEARCHED = (
    0.01  # else the search ends at this part; an inexact search costs more Newton steps, an exact one more passes over the margins
)
SEARCH_STEPS = 40  # evaluations within the bracket; a dozen bisections among them
LONGEST_STEP = 1e6  # in units of the Newton step; only a direction without curvature asks for more


class Prox(NamedTuple):
    """The proximal term (δ/2) Σ cᵢ(βᵢ − centreᵢ)²."""

    centre: np.ndarray
    delta: float


@kernel
def find_far(loss, margins, beta, dm, t, least, c, far):
    """Which rows are at a bound, pulled outwards, and further beyond it than t·dm and `least`; how many, and Σ cφ over them."""
    n, top = margins.shape[0], loss.upper_bound()
    square = 0.0
    for i in range(n):
        square += dm[i] * dm[i]
    typical = max(least, t * math.sqrt(square / n))
    count, value = 0, 0.0
    for i in range(n):
        far[i] = False
        if 0.0 < beta[i] < top:
            continue
        pull = loss.gradient(beta[i], margins[i])
        beyond = (beta[i] <= 0.0 and pull < 0.0) or (beta[i] >= top and pull > 0.0)
        far[i] = beyond and abs(pull) > max(typical, t * abs(dm[i]))
        if far[i]:
            count += 1
            value += c[i] * loss.value(margins[i])
    return count, value


@kernel
def respond(loss, margins, prox, samples, beta, change):
    """β ← β⁺(m) and change = cᵢyᵢ(β⁺−β); returns Σ c(φ(m) − ψ(β⁺) + β⁺m), Σ cφ(m) and (δ/2) Σ c(β⁺ − centre)²."""
    gap, value, moved = 0.0, 0.0, 0.0
    for i in range(margins.shape[0]):
        c, m, centre = samples.c[i], margins[i], prox.centre[i]
        new = loss.dual_step(centre, m, prox.delta)
        change[i] = c * samples.y[i] * (new - beta[i])
        beta[i] = new
        phi = loss.value(m)
        if prox.delta > 0.0:  # else β⁺ is −φ'(m), and the terms are zero
            gap += c * (phi - loss.psi(new) + new * m)
        value += c * phi
        moved += c * (new - centre) * (new - centre)
    return gap, value, 0.5 * prox.delta * moved


@kernel
def bends(loss, beta, delta, c, out):
    for i in range(beta.shape[0]):
        out[i] = c[i] * loss.curvature_at(beta[i], delta)


@kernel
def answer_linearly(loss, margins, prox, samples, out):
    """out = cᵢyᵢ·(the change of β that its tangent at the centre foretells); 0 for rows at a bound."""
    for i in range(margins.shape[0]):
        beta = prox.centre[i]
        bend = loss.curvature_at(beta, prox.delta)
        out[i] = 0.0
        if bend > 0.0:
            out[i] = samples.c[i] * samples.y[i] * bend * loss.gradient(beta, margins[i])


@compiled
class Descent(NamedTuple):
    """−dF/dt along a direction, which never rises with t. F is its rows' part, and a line and a parabola of the rest."""

    loss: Any
    margins: np.ndarray
    dm: np.ndarray  # what the whole step adds to the margins
    proximal: Prox
    samples: Samples
    along: tuple[float, float]  # the rest's derivative is along[0] + t·along[1]

    def at(self, t):
        s = -self.along[0] - t * self.along[1]
        for i in range(self.margins.shape[0]):
            m = self.margins[i] + t * self.dm[i]
            s += self.samples.c[i] * self.dm[i] * self.loss.dual_step(self.proximal.centre[i], m, self.proximal.delta)
        return s


@kernel
def line_search(descent, first):
    """Return the t where the derivative passes zero, as exactly as a line search needs; the full step when that is good enough.

    `first` is −dF/dt at 0, or NaN where it is not known. Where it says that there is no way down it is computed afresh: sums that were
    only ever added to may have the wrong sign in the end.
    """
    if not first > 0.0:
        first = descent.at(0.0)
    if not first > 0.0:
        return 0.0
    low, at_low, high, at_high = 0.0, first, 1.0, descent.at(1.0)
    if abs(at_high) <= FULL_STEP * first:
        return 1.0
    while at_high > 0.0:
        if high >= LONGEST_STEP:
            return high
        low, at_low, high = high, at_high, 2.0 * high
        at_high = descent.at(high)
    return nearest(illinois(descent, Bracket(low, at_low, high, at_high), SEARCHED * first, 0.0, SEARCH_STEPS))
