"""The best dual point that has one value a class: a start for losses whose dual variables all end between their bounds.

    maximise over (b₊, b₋):   Σₖ Cₖ ψ(bₖ) − b·(linear part) − (l2/2) ‖b₊v₊ + b₋v₋‖²,   vₖ = Σ cᵢyᵢxᵢ/l2 and Cₖ = Σ cᵢ over class k

One reading of the rows finds v₊ and v₋. On text it saves one sweep of three or four: from β = 0, the first rows of a sweep meet a w that
is far too short. The problem is itself one of two weighted rows vₖ, on which coordinate steps are those of ascent.py.
"""

from __future__ import annotations

import numpy as np

from dualgap.core import inner
from dualgap.kernels import add_rows
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent

__all__ = ["start_by_class"]

ROUNDS = 4  # steps on each of the two values, some microseconds each: a start need not be exact
# Mean of cᵢ‖xᵢ‖²/l2 up to which the start pays: beyond it rows of one class end far apart. Cells of benchmarks.ablation that take longer
# without it: pros/cons, logistic, C = 0.01, free, 1e-3 (1.5 times); rcv1, logistic, C = 1, free, 1e-6 (1.4 times).
MOST_CURVATURE = 3.0


def start_by_class(problem: Problem, ascent: Ascent) -> None:
    """Set β and v of an ascent to the best point with one β a class, where that is expected to save a sweep."""
    coords, l2 = ascent.coords, problem.l2
    if float(inner(coords.c, coords.q)) > MOST_CURVATURE:
        return
    positive = coords.y > 0.0
    weight = float(inner(coords.c, positive)), float(inner(coords.c, ~positive))
    if min(weight) <= 0.0:
        return
    parts = np.zeros((2, len(ascent.v)))
    add_rows(ascent.rows, coords.factor * positive, parts[0])
    add_rows(ascent.rows, coords.factor * ~positive, parts[1])
    first, second, both = (l2 * float(inner(a, b)) for a, b in ((parts[0], parts[0]), (parts[1], parts[1]), (parts[0], parts[1])))
    centre = float(ascent.bias.centre)  # of a free b: a fixed part of the margins
    # A step on one value for all rows, then on each class by turns.
    step, (c, d) = problem.loss.dual_step, weight
    a = b = step(0.0, (c - d) * centre, first + second + 2.0 * both)
    for _ in range(ROUNDS):
        a = step(a, (first * a + both * b) / c + centre, first / c)
        b = step(b, (second * b + both * a) / d - centre, second / d)
    ascent.beta = np.where(positive, a, b)
    ascent.v = a * parts[0] + b * parts[1]
