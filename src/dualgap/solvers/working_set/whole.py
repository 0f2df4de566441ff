"""A kernel machine of one working set, solved in compiled code: steps 5 to 7 of README.md until its gap is small enough."""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel_part
from dualgap.solvers.working_set.dual_box import gap_between, max_up_min_low
from dualgap.solvers.working_set.pair_steps import INNER_RATIO, pair_steps
from dualgap.solvers.working_set.state import GAP_MARGIN

__all__ = ["minimise_whole"]

FIRST_RATIO = 1e-3  # violation after / before the steps of the first epoch
# Steps in all, for each row and at least: a problem that needs more, at a weak penalty, is one for other methods.
MOST_STEPS, LEAST_STEPS = 10, 2000
FLAT = 1e-12  # slope, in units of all weights, that is rounding


@kernel_part
def minimise_whole(loss, samples, K, diagonal, box, ends, tol, most):
    """Minimise over all variables of a box, whose sum is kept; return the epochs, at most `most`, and the best intercept.

    The epochs are 0 if the estimated gap is not within `tol` after them."""
    n, tiny = box.a.shape[0], 0.0
    for i in range(n):
        tiny += 1e-12 * diagonal[i] / n  # least curvature, as of other steps in float64
    ratio, left = FIRST_RATIO, max(MOST_STEPS * n, LEAST_STEPS)
    for epoch in range(1, most + 1):
        steps = pair_steps(K, diagonal, box, tiny, ratio, left, 1.0, ends)
        left -= steps
        m, M = max_up_min_low(box, 0)
        gap, _ = gap_between(loss, box, samples, 0, min(m, M), max(m, M))
        dual = 0.0
        for i in range(n):
            dual += 0.5 * box.a[i] * (box.p[i] + box.g[i])
        if GAP_MARGIN * gap <= tol * (dual + gap):
            return epoch, _middle_of_minimum(box, samples)
        if steps == 0 or left <= 0:
            break
        ratio = INNER_RATIO
    return 0, 0.0


@kernel_part
def _middle_of_minimum(box, samples):
    """Return the middle of all b that minimise Σ c·max(0, 1 − y(score + b)).

    Its slope rises by c at each gradient y − score. It stays 0 between two of them where all dual variables are at a bound, as with classes
    of one size and a small C: the middle keeps the same distance from both classes.
    """
    n, rate, total = box.a.shape[0], 0.0, 0.0
    for i in range(n):
        total += samples.c[i]
        rate += samples.c[i] if samples.y[i] > 0.0 else 0.0
    low, high, noise = np.inf, np.inf, FLAT * total
    for k in range(n):
        place, slope = box.g[k], -rate
        for i in range(n):
            slope += samples.c[i] if box.g[i] <= place else 0.0
        if slope >= -noise:
            low = min(low, place)
        if slope > noise:
            high = min(high, place)
    return 0.5 * (low + high) if high < np.inf else low
