"""APG: accelerated proximal gradient on the primal, with backtracking and restart.

Beck and Teboulle 2009 (docs/references.md#beck-2009); restart: O'Donoghue and Candès 2015; the smoothed hinge: Nesterov 2005.

    1) extrapolate z = w + momentum·(w − w of the step before)
    2) gradient    ∇f(z),   f(w, b) = Σ cᵢ φ(yᵢ(xᵢ·w + b)): one pass
    3) backtrack   w⁺ = prox(z − ∇f(z)/L, 1/L) with the first L, 2L, 4L, … at which f lies below its quadratic model: a pass for each
    4) momentum    t⁺ = (1 + √(1 + 4t²))/2, momentum = (t − 1)/t⁺; where the step goes against it: t = 1, momentum = 0, L/2
    5) narrow      the hinge only, in whose place stands the smooth hinge of width δ: shrink δ once it causes most of the gap

The scores of z follow from those of w and of the step before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import WithBias, accumulate, kernel, number, one_of, scores, slopes, total_psi
from dualgap.problem import Problem
from dualgap.proof import best_intercept, dual_point
from dualgap.solvers.base import Solver, State, Support, Warm, no, register
from dualgap.solvers.gradient.primal import linear_only, typical_curvature

__all__ = ["APG"]

GROWTH = 2.0  # factor on L when a trial step is too long: larger saves trials and risks steps up to this factor too short
FIRST_SHARE = 0.1  # of a bound on L, with which the first backtracking starts: too small costs trials, too large short steps
NARROWEST = 1e-9  # width of the smoothed hinge, in margins, below which float64 hardly tells it from the hinge


class ScoredPoint(NamedTuple):
    """(w, b/scale) in one vector, and the scores x·w + b of every row."""

    x: np.ndarray
    scores: np.ndarray


@dataclass(kw_only=True)
class APGState(State):
    # fixed by start
    rows: Any  # the problem's, with a constant column for an intercept
    # changed by every epoch
    now: ScoredPoint
    before: ScoredPoint
    beta: np.ndarray  # slopes at the last z
    value: float = math.inf  # objective of `now`
    t: float = 1.0
    momentum: float = 0.0  # (t − 1)/t⁺
    lipschitz: float  # L of the steps 1/L
    # changed when the smoothed hinge narrows
    problem: Problem  # the problem itself, or for the hinge the one with the smooth hinge in its place


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
    takes_bounds: ClassVar[bool] = True
    summary: ClassVar[str] = "accelerated proximal gradient (FISTA), backtracking and restart"
    sparse_cost: ClassVar[str] = "all rows"

    def __post_init__(self) -> None:
        one_of("restart", self.restart, ("gradient", "function"))
        number("width", self.width, wanted="a positive number: the first width of the smoothed hinge")
        number("shrink", self.shrink, "(0, 1)")

    def supports(self, problem: Problem) -> Support:
        if problem.loss.has_kink() and problem.loss.smoothed(self.width) is None:
            return no(
                "the loss has a kink and no method `smoothed`, and it descends on a smooth loss; use sgd, subgradient or sdca"
            )
        return linear_only(problem, "APG")

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> APGState:
        smoothed = problem
        if problem.loss.has_kink():
            smoothed = problem.replace(loss=problem.loss.smoothed(self.width * problem.offset.scale))
        scale = _bias_scale(problem)
        rows = problem.rows if problem.intercept == "none" else WithBias(problem.rows, scale, 0.0)
        x = _starting_point(problem, warm, scale)
        start = _point(rows, x, problem.n)
        # The mean of ‖x‖² bounds the largest eigenvalue of Σ c·xxᵀ.
        squares = float(problem.c @ problem.sqnorms) + (scale * scale if problem.intercept != "none" else 0.0)
        return APGState(
            rows=rows,
            now=start,
            before=start,
            beta=np.empty(problem.n),
            lipschitz=max(FIRST_SHARE * typical_curvature(smoothed.loss) * squares, 1e-12),
            problem=smoothed,
            passes=1.0 if x.any() else 0.0,
        )

    def epoch(self, problem: Problem, state: APGState, rng: np.random.Generator) -> None:
        z = _extrapolate(state.now, state.before, state.momentum)  # 1) extrapolate
        gradient = _gradient(state, z)  # 2) gradient
        new, loss = _backtrack(state, z, gradient)  # 3) backtrack
        # 4) momentum
        value = loss + _penalty_value(problem, new.x)
        if self.restart == "gradient":
            against = float((z.x - new.x) @ (new.x - state.now.x)) > 0.0
        else:
            against = value > state.value
        if against and state.momentum > 0.0:
            # The theory starts afresh without momentum, so L may fall again here.
            state.t, state.momentum, state.lipschitz = 1.0, 0.0, 0.5 * state.lipschitz
            if self.restart == "function":
                new, value = state.now, state.value
            state.before = state.now = new
        else:
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum, state.t = (state.t - 1.0) / t_next, t_next
            state.before, state.now = state.now, new
        state.value = value
        if state.problem is not problem:  # 5) narrow
            self._narrow(problem, state, gradient)

    def _narrow(self, problem: Problem, state: APGState, gradient: np.ndarray) -> None:
        """Shrink δ once its part of the gap, δ Σ c|β|(bound − |β|), exceeds twice the gap of the smoothed problem at the same β."""
        width = state.problem.loss.delta
        size = np.abs(state.beta)
        most = np.where(state.beta > 0.0, problem.loss.upper_bound(), -problem.loss.lower_bound())
        due = width * float(problem.c @ (size * (most - size)))
        if width > NARROWEST * problem.offset.scale and _stationarity(state, gradient) < 0.5 * due:
            state.problem = problem.replace(loss=problem.loss.smoothed(self.shrink * width))
            state.t, state.momentum, state.before, state.value = 1.0, 0.0, state.now, math.inf

    def model(self, problem: Problem, state: APGState) -> tuple[np.ndarray, float | None]:
        coef = state.now.x[: problem.d].copy()
        return coef, (0.0 if problem.intercept == "none" else None)

    def dual(self, problem: Problem, state: APGState) -> np.ndarray | None:
        if state.problem is problem:
            return None  # a smooth loss: the slopes at the margins, which the certificate takes anyway
        plain = problem.scores(state.now.x[: problem.d])
        # At the smoothed loss's best intercept the slopes satisfy Σ cᵢyᵢβᵢ = 0, which a feasible dual point needs.
        margins = problem.y * (plain + best_intercept(state.problem, plain))
        beta = np.empty(problem.n)
        slopes(state.problem.loss, margins, beta)
        return beta


def _bias_scale(problem: Problem) -> float:
    if problem.intercept != "free":
        return problem.intercept_scale
    # A free intercept may have any unit; this one makes its column as long as a typical row.
    return math.sqrt(max(float(problem.c @ problem.sqnorms), 1e-12)) if problem.d else 1.0


def _starting_point(problem: Problem, warm: Warm | None, scale: float) -> np.ndarray:
    x = np.zeros(problem.d + (problem.intercept != "none"))
    x[: problem.d] = problem.penalty.nearest_point(x[: problem.d])
    if warm is None:
        return x
    coef, b = warm.coef, warm.intercept
    if coef is None and warm.dual is not None and problem.l2 > 0:
        coef = dual_point(problem, warm.dual).coef
        assert coef is not None
        b = best_intercept(problem, problem.scores(coef))
    if coef is not None:
        x[: problem.d] = problem.penalty.nearest_point(coef)
    if problem.intercept != "none":
        x[-1] = b / scale
    return x


def _point(rows: Any, x: np.ndarray, n: int) -> ScoredPoint:
    out = np.empty(n)
    scores(rows, x, out)
    return ScoredPoint(x, out)


def _extrapolate(now: ScoredPoint, before: ScoredPoint, momentum: float) -> ScoredPoint:
    if momentum == 0.0:
        return now
    return ScoredPoint(now.x + momentum * (now.x - before.x), now.scores + momentum * (now.scores - before.scores))


def _gradient(state: APGState, z: ScoredPoint) -> np.ndarray:
    """Return ∇f(z) = −Σ cᵢβᵢyᵢxᵢ; keep the slopes β at z in the state."""
    problem = state.problem
    slopes(problem.loss, problem.y * problem.offset.added(z.scores), state.beta)
    gradient = np.zeros_like(z.x)
    accumulate(state.rows, -problem.c * problem.y * state.beta, gradient)
    state.passes += 1.0
    return gradient


def _prox(problem: Problem, x: np.ndarray, step: float) -> np.ndarray:
    out = np.empty_like(x)
    out[: problem.d] = problem.penalty.prox(x[: problem.d], step)
    if problem.intercept == "free":
        out[-1] = x[-1]
    elif problem.intercept == "penalised":
        out[-1] = x[-1] / (1.0 + step * problem.l2)
    return out


def _penalty_value(problem: Problem, x: np.ndarray) -> float:
    value = np.sum(problem.penalty.value(x[: problem.d]))
    return float(value + (0.5 * problem.l2 * x[-1] * x[-1] if problem.intercept == "penalised" else 0.0))


def _backtrack(state: APGState, z: ScoredPoint, gradient: np.ndarray) -> tuple[ScoredPoint, float]:
    """Return the prox step from z with the first L at which f lies below its quadratic model, and the loss there."""
    problem = state.problem
    while True:
        step = 1.0 / state.lipschitz
        x = _prox(problem, z.x - step * gradient, step)
        new = _point(state.rows, x, problem.n)
        state.passes += 1.0
        move = x - z.x
        square = float(move @ move)
        loss, excess, turn = compare_losses(problem.loss, problem.samples, z.scores, new.scores)
        # Rounding swamps f(w⁺) − f(z) − ∇f(z)·(w⁺−z) for a small step, but not the change of the gradient along it.
        small = state.lipschitz * square < 1e-8 * loss
        fits = turn <= state.lipschitz * square if small else excess <= 0.5 * state.lipschitz * square
        if fits or square == 0.0 or not math.isfinite(square):
            return new, loss
        state.lipschitz *= GROWTH


@kernel
def compare_losses(loss, samples, old, new):
    """For the step from scores `old` to `new`, return the loss at its end, its excess over the tangent, the change of the gradient."""
    value = 0.0
    excess = 0.0
    turn = 0.0
    for i in range(old.shape[0]):
        c = samples.c[i]
        if c > 0.0:
            m_old, m_new = samples.y[i] * (old[i] + samples.offset.at(i)), samples.y[i] * (new[i] + samples.offset.at(i))
            beta = loss.slope(m_old)
            phi = loss.value(m_new)
            value += c * phi
            excess += c * (phi - loss.value(m_old) + beta * (m_new - m_old))
            turn += c * (beta - loss.slope(m_new)) * (m_new - m_old)
    return value, excess, turn


def _stationarity(state: APGState, gradient: np.ndarray) -> float:
    """Return a gap estimate of the smoothed problem: P(w) of the new point less the dual value of the slopes at z. It guides δ only."""
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
    return state.value + imbalance - float(total_psi(problem.loss, beta, problem.samples)) + conjugate
