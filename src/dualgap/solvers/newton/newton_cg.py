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
from typing import ClassVar

import numpy as np

from dualgap.core import blas_alone, kernel, whole_number
from dualgap.problem import Problem
from dualgap.solvers.base import Support, Warm, register
from dualgap.solvers.newton.loss_sums import LossSums
from dualgap.solvers.newton.proximal import Prox, least_curvature, line_search
from dualgap.solvers.newton.systems import (
    LOOSEST,
    MOST_PRODUCTS,
    ConjugateGradients,
    conjugate_gradients,
    next_forcing,
    wanted_residual,
)
from dualgap.solvers.newton.unknowns import NOT_SMOOTH, PrimalNewton, Unknowns, first_x, gap_part

__all__ = ["NewtonCG"]

# The half-width of margins over which curvature is averaged. After a step of length t it changes by EXPECTED_STEP / t …
EXPECTED_STEP = 0.7  # a shorter step than this means that the curvature was too small
MOST_GROWTH, LEAST_GROWTH = 8.0, 0.5  # … but by a factor between these
LEAST_HALF_WIDTH = 1e-6  # below it no averages are taken: hardly a row is that near a kink


@dataclass(kw_only=True)
class NewtonCGState(Unknowns):
    # Changed by every epoch
    sums: LossSums
    half_width: float = 0.0  # of the margins over which φ'' is averaged; set by `_adapt_half_width`
    forcing: float = LOOSEST  # part of ‖g‖ that the next residual may have
    # Set by `_update_dual`
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

    products: int = MOST_PRODUCTS

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
        x, ridge = first_x(problem, warm)
        sums = LossSums.of(problem, problem.rows, Prox(np.empty(0), 0.0))
        size = len(x)
        state = NewtonCGState(
            ridge=ridge,
            x=x,
            gap=math.inf,
            sums=sums,
            curvature=np.empty(problem.n),
            gradient=np.empty(size),
            diagonal=np.empty(size),
        )
        sums.go_to(x)
        state.passes = float(x.any())
        self._update_dual(problem, state)
        return state

    def epoch(self, problem: Problem, state: NewtonCGState, rng: np.random.Generator) -> None:
        # 1) direction by conjugate gradients
        solved = self._solve(problem, state)

        # 2) line search
        t = line_search(state.sums.along(solved.step, state.x, state.ridge), -float(state.gradient @ solved.step))
        state.passes += 1.0
        if t > 0.0:
            state.x += t * solved.step
            state.sums.step(t)
            # 3) half-width of the averages
            self._adapt_half_width(state, t)
        else:
            state.sums.go_to(state.x)  # no descent: rounding, perhaps in margins that are running sums
            state.passes += 1.0

        # 4) gradient, curvatures and gap at the new point
        before, predicted = state.gradient, (1.0 - t) * state.gradient - t * solved.residual
        self._update_dual(problem, state)

        # 5) accuracy of the next system
        state.forcing = next_forcing(gap_part(state.gradient - predicted, state.ridge), gap_part(before, state.ridge))

    def _solve(self, problem: Problem, state: NewtonCGState) -> ConjugateGradients:
        """Return s with H·s ≈ −g, and the residual −g − H·s."""
        ridge, diagonal, curved = state.ridge, state.diagonal, np.flatnonzero(state.curvature)
        if ridge[-1] == 0.0:
            ridge, diagonal = ridge.copy(), diagonal.copy()
            least = least_curvature(1.0, float(problem.offset.scale)) * problem.intercept_scale**2
            ridge[-1] = max(0.0, least - diagonal[-1])
            diagonal[-1] += ridge[-1]
        wanted = wanted_residual(state.forcing, gap_part(state.gradient, state.ridge), state.tol * state.primal)

        def product(v: np.ndarray) -> np.ndarray:
            out = ridge * v
            state.sums.add_product(curved, state.curvature, v, out)
            state.passes += len(curved) / problem.n
            return out

        with blas_alone:
            return conjugate_gradients(
                product,
                -state.gradient,
                lambda r: r / diagonal,
                lambda found: gap_part(found.residual, state.ridge) <= wanted,
                self.products,
            )

    def _adapt_half_width(self, state: NewtonCGState, t: float) -> None:
        """Sets: half_width; at first the root mean square of the change of margins."""
        if state.half_width == 0.0:
            step = state.sums.work
            state.half_width = t * math.sqrt(float(step @ step) / len(step))
        else:
            state.half_width *= min(MOST_GROWTH, max(LEAST_GROWTH, EXPECTED_STEP / t))

    def _update_dual(self, problem: Problem, state: NewtonCGState) -> None:
        """Update all that belongs to the margins. Sets: sums, gradient, curvature, diagonal, primal, gap."""
        sums, out = state.sums, np.zeros((2, len(state.x)))
        sums.beta[:] = 0.0
        loss = sums.dual().loss
        average_curvatures(problem.loss, sums.margins, sums.beta, state.half_width, problem.c, state.curvature)
        sums.add_with_diagonal(state.curvature, out)
        state.passes += 1.0
        state.gradient, state.diagonal = state.ridge * state.x - out[0], state.ridge + out[1]
        state.primal = loss + 0.5 * float(state.ridge * state.x @ state.x)
        state.gap = gap_part(state.gradient, state.ridge) / state.primal if state.primal > 0 else math.inf

    def dual(self, problem: Problem, state: NewtonCGState) -> np.ndarray:
        return state.sums.beta.copy()

    def gap_estimate(self, problem: Problem, state: NewtonCGState) -> float:
        return state.gap


@kernel
def average_curvatures(loss, margins, beta, half_width, c, out):
    """out = cᵢφ''(mᵢ), or its average over mᵢ ± half_width where that is larger; β = −φ'."""
    for i in range(margins.shape[0]):
        second = loss.curvature_at(beta[i], 0.0)
        if half_width > LEAST_HALF_WIDTH:
            m = margins[i]
            second = max(second, (loss.slope(m - half_width) - loss.slope(m + half_width)) / (2.0 * half_width))
        out[i] = c[i] * second
