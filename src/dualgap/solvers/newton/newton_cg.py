"""NewtonCG: truncated Newton steps on the primal, for smooth losses with more features than a d × d system would allow.

    gradient   g = ridge·x − u,   u = Σ cᵢβᵢyᵢxᵢ,   β = −φ'(m)
    system     (diag(ridge) + Σ cᵢφ''(mᵢ) xᵢxᵢᵀ) s ≈ −g      by conjugate gradients, preconditioned by the diagonal
    step       x ← x + t·s                                    t by a line search on the margins

The matrix is never formed: a product with it reads each row with curvature once. README.md has the algorithm; its step numbers stand in
the comments here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import blas_alone, kernel, natural_order, rows_per_thread, share_sum, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import Support, Warm, register
from dualgap.solvers.newton.steps import Descent, Prox, line_search
from dualgap.solvers.newton.unknowns import (
    LEAST_CURVATURE,
    NOT_SMOOTH,
    PrimalNewton,
    Unknowns,
    bias_column,
    first_x,
    gap_part,
    margins_into,
    steps_into,
)

__all__ = ["NewtonCG"]

# The linear systems: parts of ‖g‖, in the norm of `gap_part`, that a residual may have. A small part costs products, a large one steps.
LOOSEST, TIGHTEST = 0.5, 1e-3
ENOUGH = 0.25  # a residual whose `gap_part` is this part of the gap asked for is small enough in any case

# The half-width of margins over which curvature is averaged. After a step of length t it changes by EXPECTED_STEP / t …
EXPECTED_STEP = 0.7  # a shorter step than this means that the curvature was too small
MOST_GROWTH, LEAST_GROWTH = 8.0, 0.5  # … but by a factor between these
LEAST_HALF_WIDTH = 1e-6  # below it no averages are taken: hardly a row is that near a kink


@dataclass(kw_only=True)
class NewtonCGState(Unknowns):
    # Fixed by `start`
    rows: Any
    # Changed by every epoch
    margins: np.ndarray
    margin_step: np.ndarray  # what the last full step would have added to the margins
    half_width: float = 0.0  # of the margins over which φ'' is averaged; set by `_adapt_half_width`
    forcing: float = LOOSEST  # part of ‖g‖ that the next residual may have
    # Set by `_update_dual`
    beta: np.ndarray  # −φ'(m)
    curvature: np.ndarray  # cφ''(m), or its average
    gradient: np.ndarray
    diagonal: np.ndarray  # of the system's matrix
    primal: float = math.inf


@register
@dataclass(frozen=True)
class NewtonCG(PrimalNewton):
    """Truncated Newton steps by conjugate gradients: smooth losses with l2, any number of features.

    Parameters
    ----------
    products : int
        Most products with the Newton matrix, each a pass over the rows with curvature, in one step (an epoch).

    Order of calls: `start`, then `epoch` again and again; `model`, `dual`, `intercept` and `gap_estimate` at any time between.

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
        answer = super().supports(problem)
        return NOT_SMOOTH if answer and problem.loss.has_kink() else answer

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> NewtonCGState:
        n = problem.n
        x, ridge = first_x(problem, warm)
        state = NewtonCGState(
            rows=bias_column(problem, problem.rows),
            ridge=ridge,
            x=x,
            gap=math.inf,
            margins=problem.y * problem.offset.added(np.zeros(n)),
            margin_step=np.empty(n),
            beta=np.empty(n),
            curvature=np.empty(n),
            gradient=np.empty(len(x)),
            diagonal=np.empty(len(x)),
        )
        if warm is not None and warm.coef is not None:
            self._recompute_margins(problem, state)
        self._update_dual(problem, state)
        return state

    def epoch(self, problem: Problem, state: NewtonCGState, rng: np.random.Generator) -> None:
        # 1) direction by conjugate gradients
        direction, residual = self._solve(problem, state)

        # 2) line search
        steps_into(state.rows, direction, problem.y, state.margin_step)
        state.passes += 1.0
        linear, quadratic = float(state.ridge * state.x @ direction), float(state.ridge * direction @ direction)
        proximal = Prox(state.beta, 0.0)
        descent = Descent(problem.loss, state.margins, state.margin_step, proximal, problem.samples, linear, quadratic)
        t = line_search(descent, -float(state.gradient @ direction))
        if t > 0.0:
            state.x += t * direction
            state.margins += t * state.margin_step
            # 3) half-width of the averages
            self._adapt_half_width(state, t)
        else:
            self._recompute_margins(problem, state)  # no descent: rounding, perhaps in margins that are running sums

        # 4) gradient, curvatures and gap at the new point
        before, predicted = state.gradient, (1.0 - t) * state.gradient - t * residual
        self._update_dual(problem, state)

        # 5) accuracy of the next system: the part of the gradient that the quadratic model did not predict
        unpredicted, norm = gap_part(state.gradient - predicted, state.ridge), gap_part(before, state.ridge)
        state.forcing = min(LOOSEST, max(TIGHTEST, math.sqrt(unpredicted / norm))) if 0.0 < norm < math.inf else LOOSEST

    def _solve(self, problem: Problem, state: NewtonCGState) -> tuple[np.ndarray, np.ndarray]:
        """Return s with H·s ≈ −g, and the residual −g − H·s."""
        ridge, diagonal = state.ridge, state.diagonal
        if ridge[-1] == 0.0:
            ridge, diagonal = ridge.copy(), diagonal.copy()
            least = LEAST_CURVATURE * problem.intercept_scale**2 / problem.offset.scale
            ridge[-1] = max(0.0, least - diagonal[-1])
            diagonal[-1] += ridge[-1]
        wanted = max(state.forcing**2 * gap_part(state.gradient, state.ridge), ENOUGH * state.tol * state.primal)
        curved = np.flatnonzero(state.curvature)
        s, r = np.zeros_like(state.x), -state.gradient
        p = r / diagonal
        q, rz = np.empty_like(p), float(r @ p)
        with blas_alone:
            for _ in range(self.products):
                hessian_product(state.rows, curved, state.curvature, ridge, p, q)
                state.passes += len(curved) / problem.n
                curvature = float(p @ q)
                if not (0.0 < curvature < math.inf and 0.0 < rz < math.inf):
                    break
                t = rz / curvature
                s += t * p
                r -= t * q
                if gap_part(r, state.ridge) <= wanted:
                    break
                z = r / diagonal
                before, rz = rz, float(r @ z)
                p *= rz / before
                p += z
        return s, r

    def _adapt_half_width(self, state: NewtonCGState, t: float) -> None:
        """Sets: half_width; at first the root mean square of the change of margins."""
        if state.half_width == 0.0:
            state.half_width = t * math.sqrt(float(state.margin_step @ state.margin_step) / len(state.margin_step))
        else:
            state.half_width *= min(MOST_GROWTH, max(LEAST_GROWTH, EXPECTED_STEP / t))

    def _recompute_margins(self, problem: Problem, state: NewtonCGState) -> None:
        """Sets: margins."""
        margins_into(state.rows, state.x, problem.samples, state.margins)
        state.passes += 1.0

    def _update_dual(self, problem: Problem, state: NewtonCGState) -> None:
        """Make one full pass over the rows. Sets: beta, curvature, gradient, diagonal, primal, gap."""
        sums, everything = np.zeros((2, len(state.x))), natural_order(problem.n)
        at = state.margins, state.half_width, state.beta, state.curvature

        def work(first: int, last: int, out: np.ndarray) -> float:
            return full_pass(state.rows, everything[first:last], problem.loss, problem.samples, *at, out)

        loss = math.fsum(share_sum(work, problem.n, rows_per_thread(state.rows), sums))
        state.passes += 1.0
        state.gradient = state.ridge * state.x - sums[0]
        state.diagonal = sums[1] + state.ridge
        state.primal = loss + 0.5 * float(state.ridge * state.x @ state.x)
        state.gap = gap_part(state.gradient, state.ridge) / state.primal if state.primal > 0 else math.inf

    def dual(self, problem: Problem, state: NewtonCGState) -> np.ndarray:
        return state.beta.copy()

    def gap_estimate(self, problem: Problem, state: NewtonCGState) -> float:
        return state.gap


def hessian_product(
    rows: Any, curved: np.ndarray, curvature: np.ndarray, ridge: np.ndarray, v: np.ndarray, out: np.ndarray
) -> None:
    """out = (diag(ridge) + Σ curvatureᵢ xᵢxᵢᵀ)·v, the sum over the rows `curved`."""
    np.multiply(ridge, v, out=out)

    def work(first: int, last: int, sums: np.ndarray) -> None:
        multiply(rows, curved[first:last], curvature, v, sums)

    share_sum(work, len(curved), rows_per_thread(rows), out)


@kernel
def full_pass(rows, which, loss, samples, margins, half_width, beta, curvature, sums):
    """β and cφ'' of some rows, with sums[0] += Σ cβyx and sums[1] += Σ cφ''x²; returns Σ cφ(m)."""
    value = 0.0
    for i in which:
        c, m = samples.c[i], margins[i]
        slope = loss.slope(m)
        second = loss.curvature_at(slope, 0.0)
        if half_width > LEAST_HALF_WIDTH:
            second = max(second, (loss.slope(m - half_width) - loss.slope(m + half_width)) / (2.0 * half_width))
        beta[i], curvature[i] = slope, c * second
        if c > 0.0:
            value += c * loss.value(m)
        if c * slope != 0.0:
            rows.add(i, c * samples.y[i] * slope, sums[0])
        if curvature[i] > 0.0:
            rows.add_squares(i, curvature[i], sums[1])
    return value


@kernel
def multiply(rows, which, weight, v, out):
    """out += Σ weightᵢ xᵢ(xᵢ·v) over some rows, each of them read once."""
    for i in which:
        rows.add(i, weight[i] * rows.dot(i, v), out)
