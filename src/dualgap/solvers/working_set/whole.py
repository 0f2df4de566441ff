"""A kernel machine of one working set, solved in compiled code: steps 5 to 7 of README.md until its gap is small enough."""

from __future__ import annotations

from dualgap.core import kernel_part
from dualgap.solvers.working_set.dual_box import gap_between, max_up_min_low
from dualgap.solvers.working_set.pair_steps import pair_steps
from dualgap.solvers.working_set.state import GAP_MARGIN

__all__ = ["minimise_whole"]

FIRST_RATIO, NEXT_RATIO = 1e-3, 0.1  # violation after / before the steps of the first epoch, and of later ones
MAX_STEPS = 100  # of an epoch, for each row
MIN_CURVATURE = 1e-12  # of a step, relative to the mean diagonal


@kernel_part
def minimise_whole(loss, samples, rows, diagonal, box, ends, tol, most):
    """Minimise over all variables of a box, whose sum is kept; return the epochs, at most `most`, and the best intercept.

    The epochs are 0 if the estimated gap is not within `tol` after them."""
    n, tiny = box.a.shape[0], 0.0
    for i in range(n):
        tiny += MIN_CURVATURE * diagonal[i] / n
    ratio = FIRST_RATIO
    for epoch in range(1, most + 1):
        steps = pair_steps(rows, diagonal, box, tiny, ratio, MAX_STEPS * n, 1.0, ends)
        m, M = max_up_min_low(box, 0)
        gap, b = gap_between(loss, box, samples, 0, min(m, M), max(m, M))
        dual = 0.0
        for i in range(n):
            dual += 0.5 * box.a[i] * (box.p[i] + box.g[i])
        if GAP_MARGIN * gap <= tol * (dual + gap):
            return epoch, b
        if steps == 0:
            break
        ratio = NEXT_RATIO
    return 0, 0.0
