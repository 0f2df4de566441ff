"""A first pass over the rows from β = 0 that treats the rows seen so far as the whole data: modified SGD (Shalev-Shwartz & Zhang 2013).

Coordinate steps with the penalty of all rows make a small w of the first rows, and the next rows all get the largest β. In this pass

    β_t = argmax of the coordinate objective with q = ‖x_t‖²/(l2·t);   w ← ((t−1)/t)·w + β_t y_t x_t/(l2·t)

so that w has its final length from the start. It pays where a part of the rows tells w nearly as well as all of them: where the penalty is
strong, or q, the mean of c‖x‖²/l2, small. Threads then take parts of the rows, each with a w of its own. Since u(β) is a sum over rows,
w(β) of all rows is the mean of theirs.
"""

from __future__ import annotations

import math

import numpy as np

from dualgap.core import inner, kernel, rows_per_thread, share_sum
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent

__all__ = ["modified_sgd", "pass_in_threads", "pays_off"]

# Mean of c‖x‖²/l2, for each thread over its own rows, up to which the pass is made. On text it saved sweeps up to about 0.2 with one
# thread; at 0.3 (pros/cons) and 0.5 (rcv1) it took more.
LARGEST_Q = 0.1


def pays_off(problem: Problem) -> bool:
    """Return whether the penalty is so strong that the pass saves sweeps.

    Not for a free intercept, whose centre is no part of w; nor for a smooth loss, of which the first sweep finds β nearly as well.
    """
    kink = not math.isfinite(problem.loss.curvature())
    return kink and problem.kernel is None and problem.intercept != "free" and problem.l2 > 0.0 and _mean_q(problem) <= LARGEST_Q


def _mean_q(problem: Problem) -> float:
    return float(inner(problem.c, problem.sqnorms)) / (problem.n * problem.l2)


def pass_in_threads(problem: Problem, ascent: Ascent, order: np.ndarray) -> None:
    """Set β, which is 0, and v by one pass over the rows in the given order, each thread over a part of it."""
    sums = np.zeros(len(ascent.v))
    args = (ascent.rows, problem.loss, problem.penalty, ascent.coords, ascent.beta)
    least = max(rows_per_thread(ascent.rows), math.ceil(problem.n * _mean_q(problem) / LARGEST_Q))
    share_sum(lambda first, last, own: modified_sgd(*args, own, order[first:last], ascent.ahead), problem.n, least, sums)
    np.divide(sums, problem.n, out=ascent.v)


@kernel
def modified_sgd(rows, loss, penalty, coords, beta, v, order, ahead):
    """Make the pass over the rows of `order` from β = 0 and v = 0; v becomes Σ n·cβyx/l2, n the number of all rows.

    w of the t rows seen so far is v/t, so that w needs no scaling. With weights, t counts them in units of the mean weight. `ahead` as in
    Ascent.
    """
    n, l2, count = beta.shape[0], penalty.strength(), order.shape[0]
    seen = 0.0
    for s in range(count):
        if ahead > 0 and s + ahead < count:
            coords.prefetch_step(order[s + ahead], rows, beta)
        i = order[s]
        factor = coords.factor[i]
        weight = n * abs(factor) * l2
        if weight > 0.0:
            score = penalty.scaled_score(rows, i, v, seen) if seen > 0.0 else 0.0
            margin = math.copysign(1.0, factor) * (score + coords.offset.at(i))
            seen += weight
            new = loss.dual_step(0.0, margin, n * coords.q[i] / seen)
            if new != 0.0:
                beta[i] = new
                rows.add(i, n * new * factor, v)
