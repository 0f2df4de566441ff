"""The inner problem of a proximal-point loop, by its margins: β⁺, curvatures, a line search, and the rule for δ. No row is read here.

    outer   centre ← argmax over β of D(β) − (δ/2) Σ cᵢ(βᵢ − centreᵢ)²
    inner   its dual: minimise over x   F = ½ Σ ridgeⱼxⱼ² + Σ cᵢMᵢ(mᵢ),   M'(m) = −β⁺(m),   β⁺ = dual_step(centre, m, δ)

With δ = 0, which takes a smooth loss, there is no proximal term: M = φ and β⁺ = −φ'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import Bracket, compiled, illinois, kernel, nearest
from dualgap.problem import Samples

__all__ = [
    "INNER_STEPS",
    "ROUGH",
    "ROUNDING",
    "SOLVED",
    "Descent",
    "Prox",
    "Values",
    "backtrack",
    "curvatures",
    "dual_points",
    "fenchel_gap",
    "least_curvature",
    "line_search",
    "next_delta",
    "predicted_changes",
]

# The outer loop of every method here
SOLVED = 0.3  # the inner problem is solved if the gap that its gradient makes is at most this part of the proximal term
SHARPEN = 0.5  # factor on δ after an inner problem that was solved
INNER_STEPS = 20  # steps after which it was too hard; a smaller δ makes it harder. δ then grows …
BLUNTEN, FAR = (
    4.0,
    0.25,
)  # … by this factor, or by this power of what it may grow by: a9a, hinge, C=100, 1e-6: 1.5 without the power
ROUGH = 0.1  # relative gap above which steps move margins anywhere: a smooth loss gets a proximal term after so many steps

# The line search compares −dF/dt with its value at t = 0. A rough search costs Newton steps, a fine one passes over the margins.
FULL_STEP = 0.1  # take the full step if it leaves at most this part of the derivative
SEARCHED = 0.01  # else search for a step that leaves at most this part
SEARCH_STEPS = 90  # evaluations within a bracket, at most; a third of them bisect
LONGEST_STEP = 1e6  # in units of the Newton step; only a direction without curvature asks for more

DECREASE = 1e-4  # part of the fall that a step promises which backtracking asks for (Armijo)
SHORTEST_STEP = 2.0**-40  # backtracking gives up below it
ROUNDING = 1e-13  # rise of the objective, in units of it, that rounding may show: near the end values cannot tell a good step

# Least curvature of a free intercept, in units of its constant column squared, divided by a typical margin: as if one row in 100 000 had
# curvature 1. An undamped step in b would leave the scale of the data where few rows have curvature.
LEAST_CURVATURE = 1e-5
TINY = 1e-200  # stands for Σ cβ, the unit of that curvature, where all β are 0


class Prox(NamedTuple):
    """The proximal term (δ/2) Σ cᵢ(βᵢ − centreᵢ)² of the dual."""

    centre: np.ndarray
    delta: float


class Values(NamedTuple):
    """Sums over rows at their margins and β⁺."""

    loss: float  # Σ cφ(m)
    fenchel: float  # Σ c[φ(m) − ψ(β⁺) + β⁺m]
    proximal: float  # (δ/2) Σ c(β⁺ − centre)²

    @property
    def envelope(self) -> float:
        """Σ cM(m), the rows' part of F."""
        return self.loss - self.fenchel - self.proximal


@kernel
def next_delta(delta, solved, largest):
    """Return δ of the next inner problem; it grows up to `largest` at most."""
    if solved:
        return SHARPEN * delta
    largest = max(largest, delta)
    return min(max(BLUNTEN, (largest / delta) ** FAR) * delta, largest)


@kernel
def least_curvature(mass, unit):
    """Return the least curvature of a free b, for margins of size `unit`, in units of the `mass` Σ c|β| where that is below 1.

    Where nearly all rows are beyond their margins, P, Σ c|β| and every curvature are tiny together.
    """
    return LEAST_CURVATURE * min(1.0, max(mass, TINY)) / unit


@kernel
def dual_points(loss, margins, prox, samples, beta, change):
    """Set β to β⁺(m) and `change` to cᵢyᵢ(β⁺ − β); return the loss, fenchel and proximal terms of Values."""
    fenchel, value, squares = 0.0, 0.0, 0.0
    if prox.delta == 0.0:  # the other terms are zero
        for i in range(margins.shape[0]):
            new = loss.slope(margins[i])
            change[i] = samples.c[i] * samples.y[i] * (new - beta[i])
            beta[i] = new
        for i in range(margins.shape[0]):
            value += samples.c[i] * loss.value(margins[i])
        return value, fenchel, squares
    for i in range(margins.shape[0]):
        c, m, centre = samples.c[i], margins[i], prox.centre[i]
        new = loss.dual_step(centre, m, prox.delta)
        change[i] = c * samples.y[i] * (new - beta[i])
        beta[i] = new
        phi = loss.value(m)
        fenchel += c * (phi - loss.psi(new) + new * m)
        value += c * phi
        squares += c * (new - centre) * (new - centre)
    return value, fenchel, 0.5 * prox.delta * squares


@kernel
def fenchel_gap(loss, margins, beta, c):
    """Σ c(φ(m) − ψ(β) + βm)"""
    s = 0.0
    for i in range(margins.shape[0]):
        s += c[i] * (loss.value(margins[i]) - loss.psi(beta[i]) + beta[i] * margins[i])
    return s


@kernel
def curvatures(loss, beta, delta, c, out):
    """out = cᵢ times the curvature of a row's part of F; 0 at a bound."""
    for i in range(beta.shape[0]):
        out[i] = c[i] * loss.curvature_at(beta[i], delta)


@kernel
def predicted_changes(loss, margins, prox, samples, out):
    """out = cᵢyᵢ times the change of β⁺ that its tangent at the centre predicts, even beyond bounds; 0 for rows at a bound."""
    for i in range(margins.shape[0]):
        beta = prox.centre[i]
        curvature = loss.curvature_at(beta, prox.delta)
        out[i] = 0.0
        if curvature > 0.0:
            out[i] = samples.c[i] * samples.y[i] * curvature * loss.gradient(beta, margins[i])


@compiled
class Descent(NamedTuple):
    """−dF/dt along a direction, which never rises with t: the rows' part, and linear + t·quadratic for the penalty and shrunk rows."""

    loss: Any
    margins: np.ndarray
    margin_step: np.ndarray  # what the full step adds to the margins
    proximal: Prox
    samples: Samples
    linear: float
    quadratic: float

    def evaluate(self, t):
        s = -self.linear - t * self.quadratic
        if self.proximal.delta == 0.0:
            for i in range(self.margins.shape[0]):
                s += self.samples.c[i] * self.margin_step[i] * self.loss.slope(self.margins[i] + t * self.margin_step[i])
            return s
        for i in range(self.margins.shape[0]):
            m = self.margins[i] + t * self.margin_step[i]
            s += self.samples.c[i] * self.margin_step[i] * self.loss.dual_step(self.proximal.centre[i], m, self.proximal.delta)
        return s


@kernel
def line_search(descent, first):
    """Return the t where dF/dt is zero, to SEARCHED; 1 where the full step is good enough; 0 where F does not fall.

    `first` is −dF/dt at 0, or NaN where it is not known. If it is not positive it is computed afresh: a value from running sums may
    have the wrong sign near the end.
    """
    if not first > 0.0:
        first = descent.evaluate(0.0)
    if not first > 0.0:
        return 0.0
    low, at_low, high, at_high = 0.0, first, 1.0, descent.evaluate(1.0)
    if abs(at_high) <= FULL_STEP * first:
        return 1.0
    while at_high > 0.0:
        if high >= LONGEST_STEP:
            return high
        low, at_low, high = high, at_high, 2.0 * high
        at_high = descent.evaluate(high)
    found = illinois(descent, Bracket(low, at_low, high, at_high), SEARCHED * first, 0.0, SEARCH_STEPS)
    # dF/dt jumps where a row with a stiff loss is met, from one number to the next: behind the jump, the next system knows of that row.
    return found.high if min(found.at_low, -found.at_high) > SEARCHED * first else nearest(found)


def backtrack(value_at: Callable[[float], float], value: float, promised: float) -> float:
    """Return the first t of 1, ½, ¼, … by which the objective falls enough; 0 where there is none.

    `value_at(t)` is the objective, `value` that of t = 0, and `promised` the negative change that the full step promises.
    """
    slack, t = ROUNDING * abs(value), 1.0
    while promised <= slack and t > SHORTEST_STEP:
        if value_at(t) <= value + DECREASE * t * promised + slack:
            return t
        t *= 0.5
    return 0.0
