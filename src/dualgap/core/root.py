"""The one root finder: where a function of one variable that never rises passes zero."""

from __future__ import annotations

from typing import NamedTuple

from dualgap.core.jit import kernel, kernel_part

__all__ = ["Bracket", "bracket_root", "illinois", "nearest"]

WIDEST = 1e300  # distance from the start at which `bracket_root` gives up
BISECT_EVERY = 3  # steps of `illinois`, of which the last halves the bracket: a bound on its number of steps for any function


class Bracket(NamedTuple):
    """low < high with at_low = f(low) ≥ 0 ≥ at_high = f(high)."""

    low: float
    at_low: float
    high: float
    at_high: float


@kernel_part
def _outwards(f, start, step, growth):
    """(x, f(x)) for the first x = start + step, start + growth·step, … that the root does not lie beyond."""
    y = f.evaluate(start + step)
    while (y < 0.0 if step < 0.0 else y > 0.0) and abs(step) < WIDEST:
        step *= growth
        y = f.evaluate(start + step)
    return start + step, y


@kernel
def bracket_root(f, start, step, growth):
    """Return a bracket around the root: `start` ± `step`, with each distance times `growth` until the root lies between."""
    low, at_low = _outwards(f, start, -step, growth)
    high, at_high = _outwards(f, start, step, growth)
    return Bracket(low, at_low, high, at_high)


@kernel
def illinois(f, bracket, near_zero, narrow, steps):
    """Return a smaller bracket, one end of which is the last point tried.

    Regula falsi of the Illinois kind (Dowell & Jarratt 1971): a step goes to the root of the line through the two ends, and the end that
    stays counts half from then on, so that neither stays for ever. Two things differ from the paper: the half counts at once rather
    than from the second time an end stays, and every third step is a bisection.

    Stop at |f| ≤ `near_zero`, at a width of `narrow`·max(1, |x|), or after `steps` steps. `f` is a compiled NamedTuple with a method
    `evaluate(x)`; a compiled function as argument would not be found in the disk cache.
    """
    low, at_low, high, at_high = bracket
    weight_low, weight_high = at_low, at_high
    for k in range(steps):
        middle = 0.5 * (low + high)
        if at_low == 0.0 or at_high == 0.0 or high - low <= narrow * max(1.0, abs(middle)):
            break
        x = middle
        if k % BISECT_EVERY != BISECT_EVERY - 1:
            x = low + (high - low) * weight_low / (weight_low - weight_high)
            if not low < x < high:
                x = middle
        y = f.evaluate(x)
        if y > 0.0:
            low, at_low, weight_low, weight_high = x, y, y, 0.5 * weight_high
        else:
            high, at_high, weight_high, weight_low = x, y, y, 0.5 * weight_low
        if abs(y) <= near_zero:
            break
    return Bracket(low, at_low, high, at_high)


@kernel
def nearest(bracket):
    """Return the end of a bracket where |f| is smaller."""
    return bracket.low if bracket.at_low < -bracket.at_high else bracket.high
