"""APG: accelerated proximal gradient on the primal (FISTA of Beck and Teboulle, 2009), with backtracking and restart.

    w⁺ = prox(z − ∇f(z)/L, 1/L),   z = w⁺ + ((t−1)/t⁺)(w⁺ − w),   f(w, b) = Σ cᵢ φ(yᵢ(xᵢ·w + b))

The hinge has no gradient; it is replaced by the smooth hinge of a width δ that shrinks as the run goes on. Scores of z follow from
those of w⁺ and w, so an iteration costs one pass for the gradient and one for the scores of each trial point.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import SmoothHinge, WithBias, accumulate, kernel, number, one_of, scores, slopes, total_psi
from dualgap.problem import Problem
from dualgap.proof import best_intercept, dual_point
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register

__all__ = ["APG"]

GROWTH = 2.0  # of L when a trial step turns out too long
NARROWEST = 1e-9  # width below which the smoothed hinge is the hinge for every purpose of float64


class Point(NamedTuple):
    """(w, b/scale) in one vector, and the scores x·w + b of every row."""

    x: np.ndarray
    scores: np.ndarray


@dataclass
class APGState(State):
    """The last two points, FISTA's t and momentum (t−1)/t⁺, the L of its steps 1/L, and what is descended on.

    `problem` is the problem itself, or for the hinge the one with its smoothed stand-in; `beta` are the slopes at the last z.
    """

    rows: Any = None
    problem: Any = None
    now: Any = None
    before: Any = None
    value: float = math.inf
    t: float = 1.0
    momentum: float = 0.0
    lipschitz: float = 1.0
    beta: Any = None


@register
@dataclass(frozen=True)
class APG(Solver):
    """Accelerated proximal gradient: the whole data each step, any penalty by its prox, any intercept.

    Parameters
    ----------
    restart : {"gradient", "function"}
        Momentum is dropped when the last step goes against it, or when the objective rises.
    width : float
        The hinge only: the first width δ of its smoothed stand-in.
    shrink : float
        The hinge only: δ is multiplied by this once the smoothed problem's gap is below the part of the hinge's gap that smoothing
        causes. The slopes of the smoothed hinge are feasible dual variables for the hinge itself, so the certificate is the hinge's.

    An epoch is one iteration and costs two passes or more: all are counted.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> problem = dualgap.Problem(X, y, loss="logistic", l2=0, l1=1e-2, intercept="free")
    >>> dualgap.solve(problem, "apg", max_epochs=1000).status
    'converged'
    """

    restart: str = "gradient"
    width: float = 1.0
    shrink: float = 0.25

    name: ClassVar[str] = "apg"
    summary: ClassVar[str] = "accelerated proximal gradient (FISTA), backtracking and restart"
    sparse_cost: ClassVar[str] = "all rows"

    def __post_init__(self) -> None:
        one_of("restart", self.restart, ("gradient", "function"))
        number("width", self.width, wanted="a positive number: the first width of the smoothed hinge")
        number("shrink", self.shrink, "(0, 1)")

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None:
            return no("it steps on the coordinates of w, which a kernel machine does not have")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> APGState:
        smoothed = problem if math.isfinite(problem.loss.curvature()) else _with_width(problem, self.width)
        scale = _bias_scale(problem)
        rows = problem.rows if problem.intercept == "none" else WithBias(problem.rows, scale, 0.0)
        state = APGState(rows=rows, problem=smoothed, beta=np.empty(problem.n))
        x = _starting_point(problem, warm, scale)
        state.now = state.before = _point(state, x)
        state.passes = 1.0 if x.any() else 0.0
        # The mean of ‖x‖² bounds the largest eigenvalue of Σ c·xxᵀ; a tenth of it is a guess that backtracking corrects upwards.
        squares = float(problem.c @ problem.sqnorms) + (scale * scale if problem.intercept != "none" else 0.0)
        state.lipschitz = max(0.1 * smoothed.loss.curvature() * squares, 1e-12)
        return state

    def epoch(self, problem: Problem, state: APGState, rng: np.random.Generator) -> None:
        z = _extrapolate(state.now, state.before, state.momentum)
        gradient = _gradient(state, z)
        new, loss = _backtrack(state, z, gradient)
        value = loss + _penalty_value(problem, new.x)
        if self.restart == "gradient":
            against = float((z.x - new.x) @ (new.x - state.now.x)) > 0.0
        else:
            against = value > state.value
        if against and state.momentum > 0.0:
            # Without momentum the theory starts afresh, so here L may come down again, too.
            state.t, state.momentum, state.lipschitz = 1.0, 0.0, 0.5 * state.lipschitz
            if self.restart == "function":
                new, value = state.now, state.value
            state.before = state.now = new
        else:
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum, state.t = (state.t - 1.0) / t_next, t_next
            state.before, state.now = state.now, new
        state.value = value
        if state.problem is not problem:
            self._narrow(problem, state, gradient)

    def _narrow(self, problem: Problem, state: APGState, gradient: np.ndarray) -> None:
        """Shrink δ when most of the hinge's gap is due to it: δ Σ cβ(1−β), against the smoothed gap at the same β."""
        width = state.problem.loss.delta
        due = width * float(problem.c @ (state.beta * (1.0 - state.beta)))
        if width > NARROWEST and _stationarity(state, gradient) < 0.5 * due:
            state.problem = _with_width(problem, self.shrink * width)
            state.t, state.momentum, state.before, state.value = 1.0, 0.0, state.now, math.inf

    def model(self, problem: Problem, state: APGState) -> tuple[np.ndarray, float | None]:
        coef = state.now.x[: problem.d].copy()
        return coef, (0.0 if problem.intercept == "none" else None)

    def dual(self, problem: Problem, state: APGState) -> np.ndarray | None:
        if state.problem is problem:
            return None  # a smooth loss: the slopes at the margins, which the certificate takes anyway
        plain = problem.scores(state.now.x[: problem.d])
        # At the smoothed loss's best intercept its slopes balance, and nothing is lost in making them do so exactly.
        margins = problem.y * (plain + best_intercept(state.problem, plain))
        beta = np.empty(problem.n)
        slopes(state.problem.loss, margins, beta)
        return beta


def _with_width(problem: Problem, width: float) -> Problem:
    smoothed = copy.copy(problem)
    smoothed.loss = SmoothHinge(width)
    return smoothed


def _bias_scale(problem: Problem) -> float:
    if problem.intercept != "free":
        return problem.intercept_scale
    # An unpenalised coordinate may have any unit; this one gives its column the weight of a typical row, so that neither is slow.
    return math.sqrt(max(float(problem.c @ problem.sqnorms), 1e-12)) if problem.d else 1.0


def _starting_point(problem: Problem, warm: Warm | None, scale: float) -> np.ndarray:
    x = np.zeros(problem.d + (problem.intercept != "none"))
    if warm is None:
        return x
    coef, b = warm.coef, warm.intercept
    if coef is None and warm.dual is not None and problem.l2 > 0:
        coef = dual_point(problem, warm.dual).coef
        assert coef is not None
        b = best_intercept(problem, problem.scores(coef))
    if coef is not None:
        x[: problem.d] = coef
    if problem.intercept != "none":
        x[-1] = b / scale
    return x


def _point(state: APGState, x: np.ndarray) -> Point:
    out = np.empty(state.problem.n)
    scores(state.rows, x, out)
    return Point(x, out)


def _extrapolate(now: Point, before: Point, momentum: float) -> Point:
    if momentum == 0.0:
        return now
    return Point(now.x + momentum * (now.x - before.x), now.scores + momentum * (now.scores - before.scores))


def _gradient(state: APGState, z: Point) -> np.ndarray:
    """∇f(z) = −Σ cᵢβᵢyᵢxᵢ with β the slopes at z, which are kept."""
    problem = state.problem
    slopes(problem.loss, problem.y * z.scores, state.beta)
    gradient = np.zeros_like(z.x)
    accumulate(state.rows, -problem.c * problem.y * state.beta, gradient)
    state.passes += 1.0
    return gradient


def _prox(problem: Problem, x: np.ndarray, step: float) -> np.ndarray:
    out = problem.penalty.prox(x, step)
    if problem.intercept == "free":
        out[-1] = x[-1]
    elif problem.intercept == "penalised":
        out[-1] = x[-1] / (1.0 + step * problem.l2)
    return out


def _penalty_value(problem: Problem, x: np.ndarray) -> float:
    value = np.sum(problem.penalty.value(x[: problem.d]))
    return float(value + (0.5 * problem.l2 * x[-1] * x[-1] if problem.intercept == "penalised" else 0.0))


def _backtrack(state: APGState, z: Point, gradient: np.ndarray) -> tuple[Point, float]:
    """The prox step from z with the first L at which f lies below its quadratic model; returns the loss there as well."""
    problem = state.problem
    while True:
        step = 1.0 / state.lipschitz
        x = _prox(problem, z.x - step * gradient, step)
        new = _point(state, x)
        state.passes += 1.0
        move = x - z.x
        square = float(move @ move)
        loss, excess, turn = compare(problem.loss, problem.samples, z.scores, new.scores)
        # f(w⁺) − f(z) − ∇f(z)·(w⁺−z) drowns in rounding when the step is small; the change of the gradient along the step does not.
        small = state.lipschitz * square < 1e-8 * loss
        fits = turn <= state.lipschitz * square if small else excess <= 0.5 * state.lipschitz * square
        if fits or square == 0.0 or not math.isfinite(square):
            return new, loss
        state.lipschitz *= GROWTH


@kernel
def compare(loss, samples, old, new):
    """Along the step from scores `old` to `new`: the loss at its end, how far it lies above the tangent, the turn of the gradient."""
    value = 0.0
    excess = 0.0
    turn = 0.0
    for i in range(old.shape[0]):
        c = samples.c[i]
        if c > 0.0:
            m_old, m_new = samples.y[i] * old[i], samples.y[i] * new[i]
            beta = loss.slope(m_old)
            phi = loss.value(m_new)
            value += c * phi
            excess += c * (phi - loss.value(m_old) + beta * (m_new - m_old))
            turn += c * (beta - loss.slope(m_new)) * (m_new - m_old)
    return value, excess, turn


def _stationarity(state: APGState, gradient: np.ndarray) -> float:
    """A smoothed gap at hand: P(w) of the new point less the dual value of the slopes that made it. Only guides δ, proves nothing."""
    problem = state.problem
    u = -gradient[: problem.d]
    beta = state.beta
    imbalance = 0.0
    if problem.l2 == 0.0:
        longest = float(np.abs(u).max())
        if longest > problem.l1:
            beta = beta * (problem.l1 / longest)
        conjugate = 0.0
    else:
        conjugate = float(np.sum(problem.penalty.conjugate(u)))
    if problem.intercept == "penalised":
        conjugate += float(gradient[-1] * gradient[-1]) / (2.0 * problem.l2)
    elif problem.intercept == "free":
        imbalance = abs(float(gradient[-1])) * (1.0 + abs(float(state.now.x[-1])))
    return state.value + imbalance - float(total_psi(problem.loss, beta, problem.c)) + conjugate
