"""The loops over margins that Newton's method is made of: how β answers, what bends, how far to go, which rows may be left out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import kernel

__all__ = ["Prox", "answer_linearly", "bends", "find_far", "line_search", "respond"]


class Prox(NamedTuple):
    """The proximal term (δ/2) Σ cᵢ(βᵢ − centreᵢ)²."""

    centre: np.ndarray
    delta: float


@kernel
def find_far(loss, margins, beta, dm, t, least, c, far):
    """Which rows are at a bound, pulled outwards, and further beyond it than t·dm and `least`; how many, and Σ cφ over them."""
    n, top = margins.shape[0], loss.ceiling()
    square = 0.0
    for i in range(n):
        square += dm[i] * dm[i]
    typical = max(least, t * math.sqrt(square / n))
    count, value = 0, 0.0
    for i in range(n):
        far[i] = False
        if 0.0 < beta[i] < top:
            continue
        pull = loss.pull(beta[i], margins[i])
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
        out[i] = c[i] * loss.bend(beta[i], delta)


@kernel
def answer_linearly(loss, margins, prox, samples, out):
    """out = cᵢyᵢ·(the change of β that its tangent at the centre foretells); 0 for rows at a bound."""
    for i in range(margins.shape[0]):
        beta = prox.centre[i]
        bend = loss.bend(beta, prox.delta)
        out[i] = 0.0
        if bend > 0.0:
            out[i] = samples.c[i] * samples.y[i] * bend * loss.pull(beta, margins[i])


@kernel
def slope_at(loss, margins, dm, prox, samples, along, t):
    """dF/dt at x + t·direction; dm is what the direction adds to the margins."""
    s = along[0] + t * along[1]
    for i in range(margins.shape[0]):
        s -= samples.c[i] * dm[i] * loss.dual_step(prox.centre[i], margins[i] + t * dm[i], prox.delta)
    return s


@kernel
def line_search(loss, margins, dm, prox, samples, along, first=math.nan):
    """The t where the derivative, which never falls with t, passes zero; the full step when that is good enough.

    `first` is the derivative at 0, or NaN where it is not known. Where it says that there is no way down it is computed afresh: sums that
    were only ever added to may have the wrong sign in the end.
    """
    if not first < 0.0:
        first = slope_at(loss, margins, dm, prox, samples, along, 0.0)
    if not first < 0.0:
        return 0.0
    low, f_low, high = 0.0, first, 1.0
    f_high = slope_at(loss, margins, dm, prox, samples, along, 1.0)
    if abs(f_high) <= 0.1 * abs(first):
        return 1.0
    while f_high < 0.0 and high < 1e6:
        low, f_low, high = high, f_high, 2.0 * high
        f_high = slope_at(loss, margins, dm, prox, samples, along, high)
    t = high
    for k in range(40):
        t = 0.5 * (low + high) if k % 3 == 2 else low + (high - low) * f_low / (f_low - f_high)
        f = slope_at(loss, margins, dm, prox, samples, along, t)
        if abs(f) <= 0.01 * abs(first):
            break
        if f < 0.0:
            low, f_low, f_high = t, f, 0.5 * f_high  # the end that stays counts half: regula falsi, Illinois
        else:
            high, f_high, f_low = t, f, 0.5 * f_low
    return t
