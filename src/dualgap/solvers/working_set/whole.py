"""A kernel machine of one working set, solved in compiled code: steps 5 to 7 of README.md until its gap is small enough."""

from __future__ import annotations

from dualgap.core import kernel_part
from dualgap.solvers.working_set.dual_box import gap_between, max_up_min_low
from dualgap.solvers.working_set.pair_steps import INNER_RATIO, MAX_INNER, pair_steps
from dualgap.solvers.working_set.state import GAP_MARGIN

__all__ = ["minimise_whole"]

FIRST_RATIO = 1e-3  # violation after / before the steps of the first epoch


@kernel_part
def minimise_whole(loss, samples, K, diagonal, box, ends, tol, most):
    """Minimise over all variables of a box, whose sum is kept; return the epochs, at most `most`, and the best intercept.

    The epochs are 0 if the estimated gap is not within `tol` after them."""
    n, tiny = box.a.shape[0], 0.0
    for i in range(n):
        tiny += 1e-12 * diagonal[i] / n  # least curvature, as of other steps in float64
    ratio = FIRST_RATIO
    for epoch in range(1, most + 1):
        steps = pair_steps(K, diagonal, box, tiny, ratio, MAX_INNER * n, 1.0, ends)
        m, M = max_up_min_low(box, 0)
        gap, b = gap_between(loss, box, samples, 0, min(m, M), max(m, M))
        dual = 0.0
        for i in range(n):
            dual += 0.5 * box.a[i] * (box.p[i] + box.g[i])
        if GAP_MARGIN * gap <= tol * (dual + gap):
            return epoch, b
        if steps == 0:
            break
        ratio = INNER_RATIO
    return 0, 0.0
