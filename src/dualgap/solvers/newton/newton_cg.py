"""NewtonCG: truncated Newton steps on the primal, for smooth losses with more features than a d × d system would allow.

    g = ridge·x − u,   u = Σ cᵢβᵢyᵢxᵢ,   β = −φ'(m)              x is w and the intercept's coefficient, ridge their penalties
    (diag(ridge) + Σ cᵢφ''(mᵢ) xᵢxᵢᵀ) s ≈ −g                     by conjugate gradients, preconditioned by the matrix's diagonal
    x ← x + t·s                                                  t by an exact line search on the margins

The matrix is never formed: a product with it reads each row that bends once, for xᵢ·v and at once for the multiple of xᵢ to add. Since β
are the slopes at the margins, P − D is ‖g‖²/(2·l2), and the residual of the linear system foretells the next g: it is solved as far as the
gap that was asked for needs, and no further than the last step has shown the quadratic model to be worth.

Rows just beyond a kink do not bend, but a step takes them back to where they do, and with a small l2 many of them at once: steps would be
short for ever. So φ'' is the larger of itself and its mean over a reach of margins about the row's own. The reach grows when a step turns
out too long and shrinks when it does not, so that in the end φ'' is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import (
    L2,
    WithBias,
    blas_alone,
    kernel,
    natural_order,
    rows_per_thread,
    scores_in_threads,
    share_sum,
    whole_number,
)
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.newton import LEAST_CURVATURE
from dualgap.solvers.newton.steps import Descent, Prox, line_search

__all__ = ["NewtonCG"]

LOOSEST, TIGHTEST = 0.5, 1e-3  # bounds on the part of ‖g‖ that a linear system may leave
ENOUGH = 0.25  # part of the gap asked for at which a linear system's residual is small enough for any purpose
WIDEN, NARROW, GOOD_STEP = 8.0, 0.5, 0.7  # the reach changes by GOOD_STEP/t, between these factors, after a step of length t
SHORTEST_REACH = 1e-6  # below it hardly a row is about a kink


@dataclass
class NewtonCGState(State):
    rows: Any = None
    ridge: Any = None  # penalty of each unknown
    x: Any = None  # the unknowns: w, then the intercept's coefficient
    margins: Any = None
    beta: Any = None  # slopes at the margins
    bend: Any = None  # cφ'' there, or its mean over the reach
    reach: float = 0.0
    along: Any = None  # scores of the last direction
    gradient: Any = None
    diagonal: Any = None  # of the Newton system
    forcing: float = LOOSEST  # part of ‖g‖ that the next linear system may leave
    primal: float = math.inf
    gap: float = math.inf  # relative gap of (x, β) by the running sums; only a certificate proves it


@register
@dataclass(frozen=True)
class NewtonCG(Solver):
    """Truncated Newton steps by conjugate gradients: smooth losses with l2, any number of features.

    Parameters
    ----------
    products : int
        Most products with the Newton matrix, each a pass over the rows that bend, in one step (an epoch).

    Examples
    --------
    >>> import dualgap
    >>> from dualgap.data import text_like
    >>> data = text_like(n=500, d=5000, nonzeros=20)
    >>> problem = dualgap.Problem(data.X, data.y, loss="logistic", l2=1e-6)
    >>> dualgap.solve(problem, "newton_cg", tol=1e-8).status
    'converged'
    """

    products: int = 250

    name: ClassVar[str] = "newton_cg"
    stall_steps: ClassVar[float] = 150  # its steps are cheap, and its gap falls unevenly
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "Newton steps by conjugate gradients, no matrix"

    def __post_init__(self) -> None:
        whole_number("products", self.products)

    def supports(self, problem: Problem) -> Support:
        if not isinstance(problem.penalty, L2):
            return no("its Newton system needs the l2 penalty alone; prox_newton takes an l1 part")
        if problem.kernel is not None:
            return no("it needs features, not a kernel")
        if not math.isfinite(problem.loss.curvature()):
            return no("Newton's method on the primal needs a smooth loss, and the hinge has a kink; smooth_hinge has none")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> NewtonCGState:
        biased = problem.intercept != "none"
        n, size = problem.n, problem.d + biased
        ridge = np.full(size, problem.l2)
        if problem.intercept == "free":
            ridge[-1] = 0.0
        state = NewtonCGState(
            rows=WithBias(problem.rows, problem.intercept_scale, 0.0) if biased else problem.rows,
            ridge=ridge,
            x=np.zeros(size),
            margins=np.zeros(n),
            beta=np.empty(n),
            bend=np.empty(n),
            along=np.empty(n),
        )
        if warm is not None and warm.coef is not None:
            state.x[: problem.d] = warm.coef
            if biased:
                state.x[-1] = warm.intercept / problem.intercept_scale
            self._measure_margins(problem, state)
        self._respond(problem, state)
        return state

    def _measure_margins(self, problem: Problem, state: NewtonCGState) -> None:
        scores_in_threads(state.rows, state.x, state.margins)
        state.margins *= problem.y
        state.passes += 1.0

    def _respond(self, problem: Problem, state: NewtonCGState) -> None:
        """β, the gradient, the gap and the diagonal of the Newton system at the present margins: one pass."""
        sums = np.zeros((2, len(state.x)))

        everything = natural_order(problem.n)

        def work(first: int, last: int, out: np.ndarray) -> float:
            which = everything[first:last]
            return respond(
                state.rows, which, problem.loss, problem.samples, state.margins, state.reach, state.beta, state.bend, out
            )

        loss = math.fsum(share_sum(work, problem.n, rows_per_thread(state.rows), sums))
        state.passes += 1.0
        state.gradient = state.ridge * state.x - sums[0]
        state.diagonal = sums[1]
        state.diagonal += state.ridge
        state.primal = loss + 0.5 * float(state.ridge * state.x @ state.x)
        state.gap = excess(state.gradient, state.ridge) / state.primal if state.primal > 0 else math.inf

    def epoch(self, problem: Problem, state: NewtonCGState, rng: np.random.Generator) -> None:
        direction, residual = self._solve(problem, state)
        scores_in_threads(state.rows, direction, state.along)
        state.along *= problem.y
        state.passes += 1.0
        along = float(state.ridge * state.x @ direction), float(state.ridge * direction @ direction)
        descent = Descent(problem.loss, state.margins, state.along, Prox(state.beta, 0.0), problem.samples, along)
        t = line_search(descent, -float(state.gradient @ direction))
        if t > 0.0:
            state.x += t * direction
            state.margins += t * state.along
            self._adapt_reach(state, t)
        else:
            self._measure_margins(problem, state)  # no way down: rounding, perhaps in margins that were only ever added to
        before, foretold = state.gradient, (1.0 - t) * state.gradient - t * residual
        self._respond(problem, state)
        # As Eisenstat and Walker (1996) have it: what the model left of the gradient, though it should not have, bounds what is worth
        # solving for next time.
        surprise, norm = excess(state.gradient - foretold, state.ridge), excess(before, state.ridge)
        state.forcing = min(LOOSEST, max(TIGHTEST, math.sqrt(surprise / norm))) if 0.0 < norm < math.inf else LOOSEST

    def _adapt_reach(self, state: NewtonCGState, t: float) -> None:
        if state.reach == 0.0:
            state.reach = t * math.sqrt(float(state.along @ state.along) / len(state.along))
        else:
            state.reach *= min(WIDEN, max(NARROW, GOOD_STEP / t))

    def _solve(self, problem: Problem, state: NewtonCGState) -> tuple[np.ndarray, np.ndarray]:
        """s with H·s ≈ −g, and the residual −g − H·s."""
        ridge, diagonal = state.ridge, state.diagonal
        if ridge[-1] == 0.0:
            # With few rows that bend b has hardly any curvature, and an undamped step would leave the data's scale altogether.
            ridge = ridge.copy()
            ridge[-1] = max(0.0, LEAST_CURVATURE * problem.intercept_scale**2 - diagonal[-1])
            diagonal = diagonal.copy()
            diagonal[-1] += ridge[-1]
        wanted = max(state.forcing**2 * excess(state.gradient, state.ridge), ENOUGH * state.tol * state.primal)
        active = np.flatnonzero(state.bend)
        s, r = np.zeros_like(state.x), -state.gradient
        p = r / diagonal
        q, rz = np.empty_like(p), float(r @ p)
        with blas_alone:
            for _ in range(self.products):
                self._multiply(state, active, ridge, p, q)
                state.passes += len(active) / problem.n
                curvature = float(p @ q)
                if not (0.0 < curvature < math.inf and 0.0 < rz < math.inf):
                    break
                t = rz / curvature
                s += t * p
                r -= t * q
                if excess(r, state.ridge) <= wanted:
                    break
                z = r / diagonal
                before, rz = rz, float(r @ z)
                p *= rz / before
                p += z
        return s, r

    def _multiply(self, state: NewtonCGState, active: np.ndarray, ridge: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
        """out = (diag(ridge) + Σ cφ'' xxᵀ)·v"""
        np.multiply(ridge, v, out=out)

        def work(first: int, last: int, sums: np.ndarray) -> None:
            multiply(state.rows, active[first:last], state.bend, v, sums)

        share_sum(work, len(active), rows_per_thread(state.rows), out)

    def model(self, problem: Problem, state: NewtonCGState) -> tuple[np.ndarray, float | None]:
        if problem.intercept == "none":
            return state.x.copy(), 0.0
        return state.x[:-1].copy(), None

    def dual(self, problem: Problem, state: NewtonCGState) -> np.ndarray:
        return state.beta.copy()

    def intercept(self, problem: Problem, state: NewtonCGState) -> float:
        """The intercept as the method carries it, which `model` leaves to the exact minimisation."""
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.x[-1])

    def gap_estimate(self, problem: Problem, state: NewtonCGState) -> float:
        return state.gap


def excess(r: np.ndarray, ridge: np.ndarray) -> float:
    """Σ r²/(2·ridge), by which P exceeds D where r is the gradient; a free intercept, which is not penalised, counts |r|."""
    if ridge[-1] > 0.0:
        return 0.5 * float(r @ r) / float(ridge[0])
    return 0.5 * float(r[:-1] @ r[:-1]) / float(ridge[0]) + abs(float(r[-1]))


@kernel
def respond(rows, which, loss, samples, margins, reach, beta, bend, sums):
    """β and cφ'' of some rows, with sums[0] += Σ cβyx and sums[1] += Σ cφ''x²; returns Σ cφ(m)."""
    value = 0.0
    for i in which:
        c, m = samples.c[i], margins[i]
        slope = loss.slope(m)
        curvature = loss.curvature_at(slope, 0.0)
        if reach > SHORTEST_REACH:
            curvature = max(curvature, (loss.slope(m - reach) - loss.slope(m + reach)) / (2.0 * reach))
        beta[i], bend[i] = slope, c * curvature
        if c > 0.0:
            value += c * loss.value(m)
        if c * slope != 0.0:
            rows.add(i, c * samples.y[i] * slope, sums[0])
        if bend[i] > 0.0:
            rows.add_squares(i, bend[i], sums[1])
    return value


@kernel
def multiply(rows, which, weight, v, out):
    """out += Σ weightᵢ xᵢ(xᵢ·v) over some rows, each of them read once."""
    for i in which:
        rows.add(i, weight[i] * rows.dot(i, v), out)
