"""Newton's steps on a small dense problem, several in one compiled call: Python's part of a step takes longer than its arithmetic there.

The steps are those of newton (numbers: README.md), without a sample and without shrinking, which save nothing on few rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import (
    L2,
    accumulate,
    add_gram,
    gram_block,
    is_dense,
    kernel,
    kernel_part,
    layers,
    machine,
    scores,
    solve_by_rows,
    solve_in_place,
)
from dualgap.problem import Problem, Samples
from dualgap.solvers.newton.loss_sums import LossSums, bias_column
from dualgap.solvers.newton.proximal import (
    INNER_STEPS,
    ROUGH,
    SOLVED,
    Descent,
    Prox,
    curvatures,
    dual_points,
    least_curvature,
    line_search,
    next_delta,
    predicted_changes,
)
from dualgap.solvers.newton.unknowns import Unknowns

__all__ = ["SmallState", "is_small", "small_epoch", "start_small"]

SMALL_STEPS = 10  # steps in one compiled call, at most: between calls the driver looks at the clock and at Ctrl-C


class Small(NamedTuple):
    """What no step changes, and scratch."""

    loss: Any
    rows: Any  # with the bias column, where there is one
    data: Any  # the same rows without it
    scale: float  # of the bias column; 0 where there is none
    samples: Samples
    ridge: np.ndarray
    places: np.ndarray  # scratch: the rows with curvature
    weight: np.ndarray  # scratch: their curvatures
    H: np.ndarray  # scratch: the Newton system, …
    damping: np.ndarray  # … and what is added to its diagonal
    scratch: np.ndarray  # of `add_gram`


class Point(NamedTuple):
    """The arrays that steps change in place; as in `NewtonState`."""

    x: np.ndarray
    margins: np.ndarray
    beta: np.ndarray
    centre: np.ndarray
    work: np.ndarray
    u: np.ndarray
    direction: np.ndarray  # of the last step


class Course(NamedTuple):
    """The numbers that steps change; as in `NewtonState`."""

    delta: float
    prox_term: float
    gap: float
    steps: int
    no_descent: bool
    moved: bool  # the centre was, in the last step
    refused: int  # rows with curvature in a Newton system that is too ill-conditioned for its Cholesky factor; -1 where it is not


@dataclass(kw_only=True)
class SmallState(Unknowns):
    """The state of Newton on a small problem. Sets: `small` and `point` by `start_small`; `course` by every epoch."""

    small: Small
    point: Point
    course: Course


def is_small(problem: Problem) -> bool:
    """Return whether a step's arithmetic takes about as long as Python's part of it, or less."""
    n, size = problem.n, problem.d + 1
    products = n * size * size <= machine.SMALL_PRODUCTS and size <= machine.NARROW
    return products and n <= machine.SMALL_ROWS and is_dense(problem.rows) and isinstance(problem.penalty, L2)


def start_small(problem: Problem, x: np.ndarray, ridge: np.ndarray, centre: np.ndarray, delta: float) -> SmallState:
    """Return the first state at x, with the proximal term's centre and δ; β and the gap are those of the first epoch."""
    n, d, rows = problem.n, len(x), bias_column(problem, problem.rows)
    data, _, scale = layers(rows)
    small = Small(
        problem.loss,
        rows,
        data,
        float(scale),
        problem.samples,
        ridge,
        np.empty(n, np.int64),
        np.empty(n),
        np.empty((d, d)),
        np.empty(d),
        gram_block(d, n),
    )
    point = Point(x, np.zeros(n), np.zeros(n), centre, np.empty(n), np.zeros(d), np.empty(d))
    if problem.is_regression or np.count_nonzero(x):  # else all margins are zero, as they are already
        LossSums(problem.loss, rows, problem.samples, Prox(centre, delta), point.margins, point.beta, point.work).go_to(x)
    course = Course(delta if problem.loss.has_kink() else 0.0, 0.0, math.inf, 0, False, False, -1)
    return SmallState(ridge=ridge, x=x, gap=math.inf, small=small, point=point, course=course)


def small_epoch(state: SmallState, largest_delta: float) -> None:
    """Take Newton steps until the gap is at most the tolerance, SMALL_STEPS at most; one where no tolerance is known."""
    most = SMALL_STEPS if state.tol > 0.0 else 1
    small, point, total = state.small, state.point, 0
    while True:
        state.course, taken = small_steps(small, point, state.course, largest_delta, state.tol, most - total)
        total, count = total + taken, state.course.refused
        if count < 0:
            break
        places, weight = small.places[:count], small.weight[:count]
        point.direction[:] = solve_by_rows(small.data, small.scale, places, weight, small.damping, point.direction)
    state.gap = state.course.gap
    state.passes += 2.0 * total


@kernel
def small_steps(small, point, course, largest_delta, tol, most):
    """Take Newton steps until the gap is at most `tol`, at most `most` of them; return the new Course, and how many they were.

    Return in the middle of a step whose system is refused. The next call goes on with its line search, `direction` being the solution.
    """
    delta, prox_term, gap, steps, no_descent, moved, refused = course
    taken, flat = 0, refused < 0 and gap == math.inf and _is_flat(small.loss, point.margins)
    while True:
        if refused < 0:
            # 6) dual point of the margins, its sum u, and the gap. A smooth loss without curvature, or on which plain steps fail, gets a δ.
            gap, prox_term = _update(small, point, delta, delta == 0.0 or steps == 0)
            if delta == 0.0 and (flat or (steps == INNER_STEPS and gap > ROUGH)):
                delta, steps, flat = largest_delta, 0, False
                if taken > 0:
                    _copy(point.beta, point.centre)
                continue
            if taken >= most or (taken > 0 and gap <= tol):
                return Course(delta, prox_term, gap, steps, no_descent, moved, -1), taken
            # 2) outer loop: move the centre if the inner problem is solved, or too hard
            solved = no_descent or _descent(small.ridge, point) <= SOLVED * prox_term
            moved = delta > 0.0 and (solved or steps >= INNER_STEPS)
            steps += 1
            if moved:
                delta, steps = next_delta(delta, solved, largest_delta), 0
                _copy(point.beta, point.centre)
            # 3) Newton system
            refused = _solve(small, point, delta, moved)
            if refused >= 0:
                return Course(delta, prox_term, gap, steps, no_descent, moved, refused), taken
        # 4) line search on F
        no_descent, refused = _search(small, point, delta, moved) == 0.0, -1
        taken += 1


@kernel_part
def _is_flat(loss, margins):
    """Return whether no row has curvature at its margin."""
    for i in range(margins.shape[0]):
        if loss.curvature_at(loss.slope(margins[i]), 0.0) > 0.0:
            return False
    return not loss.has_kink()


@kernel_part
def _copy(source, target):
    for i in range(target.shape[0]):  # an assignment of slices would compile its error message, for two seconds
        target[i] = source[i]


@kernel_part
def _any(array):
    found = False
    for i in range(array.shape[0]):
        found |= array[i] != 0.0
    return found


@kernel_part
def _clear(array):
    for i in range(array.shape[0]):
        array[i] = 0.0


@kernel_part
def _descent(ridge, point):
    """direction = u − ridge·x, the negative gradient of F; return its gap part (`unknowns.gap_part`)."""
    out, last = point.direction, ridge.shape[0] - 1
    square = 0.0
    for j in range(last + 1):
        out[j] = point.u[j] - ridge[j] * point.x[j]
        if ridge[j] > 0.0:
            square += out[j] * out[j]
    return 0.5 * square / ridge[0] + (0.0 if ridge[last] > 0.0 else abs(out[last]))


@kernel_part
def _solve(small, point, delta, moved):
    """Step 3: direction = the solution of the Newton system; return −1, or the number of rows in a system that is refused, its right
    side in `direction`.
    """
    direction, H, last = point.direction, small.H, small.ridge.shape[0] - 1
    curvatures(small.loss, point.beta, delta, small.samples.c, point.work)
    count, mass = 0, 0.0
    for i in range(point.work.shape[0]):
        mass += small.samples.c[i] * abs(point.beta[i])
        if point.work[i] != 0.0:
            small.places[count], small.weight[count] = i, point.work[i]
            count += 1
    least = least_curvature(mass, small.samples.offset.scale)
    if moved:
        predicted_changes(small.loss, point.margins, Prox(point.centre, delta), small.samples, point.work)
    _descent(small.ridge, point)
    if moved:
        accumulate(small.rows, point.work, direction)
    for j in range(last + 1):
        for k in range(j + 1):
            H[j, k] = 0.0
    add_gram(small.data, small.scale, small.places[:count], small.weight[:count], H, small.scratch)
    for j in range(last + 1):
        small.damping[j] = small.ridge[j]
    if small.ridge[last] == 0.0:
        small.damping[last] = max(least * small.scale * small.scale - H[last, last], 0.0)
    for j in range(last + 1):
        H[j, j] += small.damping[j]
    return -1 if solve_in_place(H, direction) else count


@kernel_part
def _search(small, point, delta, moved):
    """Step 4: move x and the margins along the direction, and return by how much of it."""
    x, work, ridge, direction = point.x, point.work, small.ridge, point.direction
    scores(small.rows, direction, work)
    for i in range(work.shape[0]):
        work[i] *= small.samples.y[i]
    linear, quadratic, slope = 0.0, 0.0, 0.0
    for j in range(x.shape[0]):
        linear += ridge[j] * x[j] * direction[j]
        quadratic += ridge[j] * direction[j] * direction[j]
        slope += (point.u[j] - ridge[j] * x[j]) * direction[j]
    descent = Descent(small.loss, point.margins, work, Prox(point.centre, delta), small.samples, linear, quadratic)
    t = line_search(descent, math.nan if moved else slope)
    for j in range(x.shape[0]):
        x[j] += t * direction[j]
    for i in range(work.shape[0]):
        point.margins[i] += t * work[i]
    return t


@kernel_part
def _update(small, point, delta, afresh):
    """Step 6: β, work = its change and u at the present margins; return the relative gap and the proximal term.

    u is summed `afresh` where that costs nothing or little: at first β is so large that rounding would not let a small P be reached.
    """
    prox = Prox(point.centre, delta)
    if afresh:
        _clear(point.beta)
        _clear(point.u)
    primal, fenchel, prox_term = dual_points(small.loss, point.margins, prox, small.samples, point.beta, point.work)
    if _any(point.beta):
        accumulate(small.rows, point.work, point.u)
    else:
        _clear(point.u)  # of the rounding in it, by which a free b without any curvature would leave the scale of the data
    last, square = small.ridge.shape[0] - 1, 0.0
    for j in range(last + 1):
        residual = small.ridge[j] * point.x[j] - point.u[j]
        primal += 0.5 * small.ridge[j] * point.x[j] * point.x[j]
        square += residual * residual if small.ridge[j] > 0.0 else 2.0 * small.ridge[0] * abs(residual)
    gap = fenchel + 0.5 * square / small.ridge[0]
    return gap / primal if primal > 0.0 else math.inf, prox_term
