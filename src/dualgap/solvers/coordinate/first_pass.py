"""A first pass over the rows from β = 0 that treats the rows seen so far as the whole data: modified SGD (Shalev-Shwartz & Zhang 2013).

Coordinate steps with the penalty of all rows make a small w of the first rows, and the next rows all get the largest β. In this pass

    β_t = argmax of the coordinate objective with q = ‖x_t‖²/(l2·t);   w ← ((t−1)/t)·w + β_t y_t x_t/(l2·t)

so that w has its final length from the start. It pays where a part of the rows tells w nearly as well as all of them: where the penalty is
strong, or q, the mean of c‖x‖²/l2, small. Threads then take parts of the rows, each with a w of its own. Since u(β) is a sum over rows,
w(β) of all rows is the mean of theirs.

A free intercept is a bias column in this pass, with the best b of w = 0 as its centre. b is the centre plus κ·Σ cβy, κ = scale²/l2. The
pass must end with a Σ cβy far below the weight of the rarer class. That takes a long column, which slows the first steps. It pays where a
class is rare: of the other one most rows end at β = 0, and no sweep has to visit them.
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
# Share of the rarer class up to which the pass is made with a free intercept. With 0.2 % to 7 % (frauds, web pages, newsgroups, generated)
# a fit took 0.7 to 0.9 times as long to 1e-3 and 0.8 to 1.3 times to 1e-6, with 24 % about as long, with balanced classes of text 1.2 to
# 1.9 times. With random labels it took up to 1.2 times.
RARE = 0.1
# κ in units of 1/(share of the rarer class): a b that is off by 1 leaves Σ cβy at a tenth of that share. 100 took longer.
BALANCE = 10.0


def pays_off(problem: Problem) -> bool:
    """Return whether the penalty is so strong that the pass saves sweeps.

    With a free intercept, only where one of two classes is rare. Not for a smooth loss, of which the first sweep finds β nearly as well.
    """
    if not problem.loss.has_kink() or problem.kernel is not None or problem.l2 == 0.0 or _mean_q(problem) > LARGEST_Q:
        return False
    return problem.intercept != "free" or 0.5 / problem.n < _rarer_share(problem) <= RARE


def _mean_q(problem: Problem) -> float:
    return float(inner(problem.c, problem.sqnorms)) / (problem.n * problem.l2)


def _rarer_share(problem: Problem) -> float:
    return 0.5 * (1.0 - abs(float(inner(problem.c, problem.y))))


def pass_in_threads(problem: Problem, ascent: Ascent, order: np.ndarray) -> None:
    """Set β, which is 0, and v by one pass over the rows in the given order, each thread over a part of it."""
    q, bias = _mean_q(problem), ascent.bias
    if problem.intercept == "free":
        # One class alone is a part of the data on which kernels are compiled.
        kappa = min(BALANCE / max(_rarer_share(problem), 1.0 / problem.n), LARGEST_Q * problem.n)
        ascent.set_scale(math.sqrt(kappa * problem.l2))
        q += kappa / problem.n
    sums, centre = np.zeros(len(ascent.v)), float(bias.centre)
    args = (bias.rows(problem.rows, 0.0), problem.loss, problem.penalty, ascent.coords, ascent.beta)
    least = max(rows_per_thread(ascent.rows), math.ceil(problem.n * q / LARGEST_Q))
    share_sum(lambda first, last, own: modified_sgd(*args, own, order[first:last], centre, ascent.ahead), problem.n, least, sums)
    np.divide(sums, problem.n, out=ascent.v)


@kernel
def modified_sgd(rows, loss, penalty, coords, beta, v, order, centre, ahead):
    """Make the pass over the rows of `order` from β = 0 and v = 0; v becomes Σ n·cβyx/l2, n the number of all rows.

    w of the t rows seen so far is v/t, so that w needs no scaling. With weights, t counts them in units of the mean weight. `centre` is
    added to every score, and `ahead` as in Ascent.
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
            margin = math.copysign(1.0, factor) * (score + centre + coords.offset.at(i))
            seen += weight
            new = loss.dual_step(0.0, margin, n * coords.q[i] / seen)
            if new != 0.0:
                beta[i] = new
                rows.add(i, n * new * factor, v)
