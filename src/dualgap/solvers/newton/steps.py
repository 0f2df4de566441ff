"""The loops over margins of newton (numbers: its steps in README.md), and the line search of newton and newton_cg. No row is read here."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import Bracket, compiled, illinois, kernel, nearest
from dualgap.problem import Samples

__all__ = [
    "Descent",
    "Prox",
    "curvatures",
    "dual_points",
    "fenchel_gap",
    "find_shrinkable",
    "jump_middles",
    "kink_distances",
    "line_search",
    "predicted_changes",
    "tangent_points",
]

# The outer loop, step 2
SOLVED = (
    0.3  # the inner problem is solved if its gap part (of its gradient, in `unknowns`) is at most this part of the proximal term
)
DELTA_SOLVED = 0.5  # δ changes by this factor with a solved inner problem
INNER_STEPS = 20  # steps on one inner problem before it counts as too hard; a smaller δ makes it harder
DELTA_UNSOLVED = 4.0  # δ grows by this factor after an inner problem that was too hard, up to `Newton.delta`
PLAIN_STEPS = 12  # steps without a proximal term on a smooth loss; if then …
PLAIN_GAP = 0.1  # … the relative gap still exceeds this, the term comes in with δ = `Newton.delta`

# The line search compares −dF/dt with its value at t = 0. A rough search costs Newton steps, a fine one passes over the margins.
FULL_STEP = 0.1  # take the full step if it leaves at most this part of the derivative
SEARCHED = 0.01  # else search for a step that leaves at most this part
SEARCH_STEPS = 90  # evaluations within a bracket, at most; a third of them bisect
LONGEST_STEP = 1e6  # in units of the Newton step; only a direction without curvature asks for more


class Prox(NamedTuple):
    """The proximal term (δ/2) Σ cᵢ(βᵢ − centreᵢ)² of the dual."""

    centre: np.ndarray
    delta: float


@kernel
def dual_points(loss, margins, prox, samples, beta, change):
    """Step 6: β ← β⁺(m) and change = cᵢyᵢ(β⁺−β); returns Σ c(φ(m) − ψ(β⁺) + β⁺m), Σ cφ(m) and (δ/2) Σ c(β⁺ − centre)²."""
    fenchel, value, squares = 0.0, 0.0, 0.0
    if prox.delta == 0.0:  # β⁺ is −φ'(m), and the other terms are zero
        for i in range(margins.shape[0]):
            new = loss.slope(margins[i])
            change[i] = samples.c[i] * samples.y[i] * (new - beta[i])
            beta[i] = new
        for i in range(margins.shape[0]):
            value += samples.c[i] * loss.value(margins[i])
        return fenchel, value, squares
    for i in range(margins.shape[0]):
        c, m, centre = samples.c[i], margins[i], prox.centre[i]
        new = loss.dual_step(centre, m, prox.delta)
        change[i] = c * samples.y[i] * (new - beta[i])
        beta[i] = new
        phi = loss.value(m)
        fenchel += c * (phi - loss.psi(new) + new * m)
        value += c * phi
        squares += c * (new - centre) * (new - centre)
    return fenchel, value, 0.5 * prox.delta * squares


@kernel
def tangent_points(loss, beta, curved, step, t, samples, out):
    """Step 6: out = β − t·curvature·margin step, the tangents' β after a step, clipped to its box; return whether some were clipped.

    `curved` are the weighted curvatures of the Newton system. `step` is the margin step, and afterwards what clipping adds to cyβ.
    """
    bottom, top, some = loss.lower_bound(), loss.upper_bound(), False
    for i in range(beta.shape[0]):
        c = samples.c[i]
        new = beta[i] - t * curved[i] * step[i] / c if c > 0.0 else 0.0
        out[i] = min(max(new, bottom), top)
        step[i] = c * samples.y[i] * (out[i] - new)
        some |= step[i] != 0.0
    return some


@kernel
def fenchel_gap(loss, margins, beta, c):
    """Σ c(φ(m) − ψ(β) + βm)"""
    s = 0.0
    for i in range(margins.shape[0]):
        s += c[i] * (loss.value(margins[i]) - loss.psi(beta[i]) + beta[i] * margins[i])
    return s


@kernel
def curvatures(loss, beta, delta, c, out):
    """Step 3: out = cᵢ times the curvature of a row's part of F; 0 at a bound."""
    for i in range(beta.shape[0]):
        out[i] = c[i] * loss.curvature_at(beta[i], delta)


@kernel
def predicted_changes(loss, margins, prox, samples, out):
    """Step 3: out = cᵢyᵢ times the change of β⁺ that its tangent at the centre predicts, even beyond bounds; 0 for rows at a bound."""
    for i in range(margins.shape[0]):
        beta = prox.centre[i]
        curvature = loss.curvature_at(beta, prox.delta)
        out[i] = 0.0
        if curvature > 0.0:
            out[i] = samples.c[i] * samples.y[i] * curvature * loss.gradient(beta, margins[i])


@kernel
def find_shrinkable(loss, margins, beta, margin_step, t, least, c, shrink):
    """Step 5: shrink[i] if β is not free and its slack is more than `least`, t·|its margin step| and t·their RMS.

    Returns how many such rows there are, and Σ cφ over them.
    """
    n = margins.shape[0]
    square = 0.0
    for i in range(n):
        square += margin_step[i] * margin_step[i]
    typical = max(least, t * math.sqrt(square / n))
    count, value = 0, 0.0
    for i in range(n):
        shrink[i] = False
        if loss.is_free(beta[i]):
            continue
        shrink[i] = loss.slack(beta[i], margins[i]) > max(typical, t * abs(margin_step[i]))
        if shrink[i]:
            count += 1
            value += c[i] * loss.value(margins[i])
    return count, value


@kernel
def kink_distances(loss, margins, out):
    """out[i] = distance of a margin from the kink of the loss"""
    for i in range(margins.shape[0]):
        out[i] = loss.kink_distance(margins[i])


@kernel
def jump_middles(loss, margins, out):
    """out[i] = the middle of the values of β at the kink nearest to a margin"""
    for i in range(margins.shape[0]):
        out[i] = loss.jump_middle(margins[i])


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
    """Step 4: return the t where dF/dt is zero, to SEARCHED; 1 where the full step is good enough; 0 where F does not fall.

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
