"""DualGradient: projected gradient ascent on all dual variables at once.

Levitin and Polyak 1966 (docs/references.md#levitin-1966); momentum and restart: Beck and Teboulle 2009, O'Donoghue and Candès 2015.

    0) start       L = largest eigenvalue of Σ cᵢxᵢxᵢᵀ/l2, by power iteration
    1) margins     m of w(z): two passes over the rows, or one over the precomputed XXᵀ
    2) curvature   raise L where the last two points show it to be too small
    3) step        βᵢ = the loss's dual_step(zᵢ, mᵢ, L), which maximises ψ(β) − mβ − L(β−z)²/2 over the box
    4) momentum    z = β + (t−1)/t⁺·(β − β before); where the step goes against it: z = β, t = 1

Distances are measured in Σ cᵢ(·)², in which one step size 1/L serves all samples: ∂D/∂βᵢ = cᵢ(ψ'(βᵢ) − mᵢ). A free intercept adds
Σ cᵢβᵢyᵢ = 0. The projection onto it adds the same number to every score before step 3; that number is the intercept, found as a root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import L2, bracket_root, compiled, illinois, kernel, one_of
from dualgap.problem import Problem, Samples
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.precomputed import LARGEST, forming_passes, inner_products, nonzeros

__all__ = ["DualGradient"]

USUAL_ITERATIONS = 200  # iterations over which the cost of forming XXᵀ is spread: more makes gram="auto" form it more often
BLAS_GAIN = 8.0  # speed of a multiplication in a dense matrix product, relative to one in a pass over rows
MARGIN = 1.05  # factor on an estimate of L: a power iteration ends a little below the largest eigenvalue


class Scores:
    """x·w(β) + b(β) of every row, without the fixed part: through w in two passes over the rows, or in one over the precomputed XXᵀ."""

    def __init__(self, problem: Problem, precomputed: bool) -> None:
        self.problem = problem
        self.matrix = inner_products(problem) if precomputed else None
        self.passes = 2.0 if problem.kernel is None else 1.0
        if precomputed:
            self.passes = problem.n**2 / max(nonzeros(problem), 1)

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """Return the scores of w for u/l2 = Σ aᵢxᵢ, with the penalised intercept."""
        return self.of(a, self.problem.penalty.primal)

    def of(self, a: np.ndarray, primal: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the scores of w = primal(Σ aᵢxᵢ); without coordinates (a Gram matrix or a kernel), of Σ aᵢxᵢ."""
        problem = self.problem
        if self.matrix is not None:
            out = self.matrix @ a
        else:
            v = problem.combine(a)
            out = problem.products(v if problem.kernel is not None else primal(v))
        return out + problem.intercept_scale**2 * float(a.sum()) if problem.intercept == "penalised" else out


@dataclass(kw_only=True)
class DualGradientState(State):
    # fixed by start
    scores: Scores
    # changed by every epoch
    beta: np.ndarray
    z: np.ndarray
    t: float = 1.0
    shift: float  # the intercept, where it is free
    last: tuple[np.ndarray, np.ndarray] | None = None  # the last z and its margins, by which L is checked
    # set by start, raised by an epoch
    lipschitz: float = 1.0


@register
@dataclass(frozen=True)
class DualGradient(Solver):
    """Projected gradient ascent on all dual variables at once.

    Parameters
    ----------
    accelerate : bool
        Nesterov's momentum, dropped when a step goes against it.
    gram : {"auto", "always", "never"}
        Whether to form XXᵀ once (n² numbers) and work on it instead of passing over the rows twice an iteration. "auto" does so
        where it costs less: many more columns than rows. An l1 part, bounds and kernels leave no choice.

    An epoch is one iteration. The power iteration for the step, and XXᵀ where it is formed, are counted in `passes`.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=1e-1, intercept="free")
    >>> dualgap.solve(problem, "dual_gradient", max_epochs=1000).status
    'converged'
    """

    accelerate: bool = True
    gram: str = "auto"

    name: ClassVar[str] = "dual_gradient"
    takes_bounds: ClassVar[bool] = True
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "projected gradient ascent on the whole dual vector"
    sparse_cost: ClassVar[str] = "all rows"

    def __post_init__(self) -> None:
        one_of("gram", self.gram, ("auto", "always", "never"))

    def supports(self, problem: Problem) -> Support:
        if problem.l2 == 0:
            return no("l1 alone (l2 = 0) makes the dual objective infinitely steep at its edge; gradient steps need l2 > 0")
        if self.gram == "always" and problem.kernel is None and not isinstance(problem.penalty, L2):
            return no("gram='always' with an l1 part or bounds: XXᵀ has no coordinates of w to threshold or clip; use gram='auto'")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> DualGradientState:
        precomputed = problem.kernel is None and self._precompute(problem)
        beta = np.zeros(problem.n)
        if warm is not None and warm.dual is not None:
            beta = np.clip(warm.dual, problem.loss.lower_bound(), problem.loss.upper_bound())
        shift = 0.0 if warm is None else warm.intercept
        passes = forming_passes(problem) if precomputed else 0.0
        state = DualGradientState(scores=Scores(problem, precomputed), beta=beta, z=beta, shift=shift, passes=passes)
        state.lipschitz = _largest_eigenvalue(problem, state, rng)
        return state

    def _precompute(self, problem: Problem) -> bool:
        if self.gram != "auto" or not isinstance(problem.penalty, L2) or problem.n > LARGEST:
            return self.gram == "always"
        stored = nonzeros(problem)
        forming = 0.5 * problem.n * stored / (1.0 if sparse.issparse(problem.X) else BLAS_GAIN)
        return problem.n**2 + forming / USUAL_ITERATIONS < 2.0 * stored

    def epoch(self, problem: Problem, state: DualGradientState, rng: np.random.Generator) -> None:
        # 1) margins
        margins = problem.y * problem.offset.added(state.scores(problem.c * problem.y * state.z / problem.l2))
        state.passes += state.scores.passes
        _check_curvature(problem, state, margins)  # 2) curvature
        # 3) step
        new = np.empty(problem.n)
        args = (problem.loss, problem.samples, state.z, margins, state.lipschitz)
        if problem.intercept == "free":
            state.shift = balanced_step(*args, state.shift, new)
        else:
            step_all(*args, 0.0, new)
        old, state.beta = state.beta, new
        state.last = (state.z, margins)
        # 4) momentum
        if self.accelerate and float(problem.c @ ((state.z - new) * (new - old))) <= 0.0:
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.z = new + (state.t - 1.0) / t_next * (new - old)
            state.t = t_next
        else:  # no momentum, or the step went against it
            state.z, state.t = new, 1.0

    def dual(self, problem: Problem, state: DualGradientState) -> np.ndarray:
        return state.beta.copy()


def _largest_eigenvalue(problem: Problem, state: DualGradientState, rng: np.random.Generator) -> float:
    """L = λmax of Σ cᵢxᵢxᵢᵀ/l2, by power iteration on the dual side, where kernels live as well."""
    root = np.sqrt(problem.c)
    direction = root * rng.standard_normal(problem.n)
    estimate = 0.0
    for _ in range(100):
        length = float(np.linalg.norm(direction))
        if not length > 0.0:
            break
        # An l1 part and bounds only flatten the objective, so that L without it is an upper bound.
        direction = root * state.scores.of(root * direction / (length * problem.l2), lambda v: v)
        state.passes += state.scores.passes
        new = float(np.linalg.norm(direction))
        settled, estimate = new <= 1.001 * estimate, new
        if settled:
            break
    return MARGIN * estimate


def _check_curvature(problem: Problem, state: DualGradientState, margins: np.ndarray) -> None:
    """Raise L where two successive points show it to be too small."""
    if state.last is None:
        return
    move = state.z - state.last[0]
    square = float(problem.c @ (move * move))
    turn = float(problem.c @ (move * (margins - state.last[1])))
    # Differences of margins carry rounding: a tiny step says nothing about L.
    if square > 1e-20 and turn > state.lipschitz * square:
        state.lipschitz = MARGIN * turn / square


@kernel
def step_all(loss, samples, beta, margins, q, shift, out):
    """Write the steps of all variables at margins m + y·shift to `out`; return Σ cᵢyᵢoutᵢ, which falls as the shift grows."""
    total = 0.0
    for i in range(beta.shape[0]):
        y = samples.y[i]
        out[i] = loss.dual_step(beta[i], margins[i] + y * shift, q)
        total += samples.c[i] * y * out[i]
    return total


@compiled
class Balance(NamedTuple):
    """Σ cᵢyᵢoutᵢ of the steps with a shift; `out` holds the steps of the last one asked for."""

    loss: Any
    samples: Samples
    beta: np.ndarray
    margins: np.ndarray
    q: float
    out: np.ndarray

    def evaluate(self, shift):
        return step_all(self.loss, self.samples, self.beta, self.margins, self.q, shift, self.out)


@kernel
def balanced_step(loss, samples, beta, margins, q, shift, out):
    """out = the step with Σ cᵢyᵢoutᵢ = 0; returns the shift that makes it so.

    A bracket around the root, regula falsi, and at last the mix of the bracket's two ends that balances: between two points of the box it
    stays in the box.
    """
    balance = Balance(loss, samples, beta, margins, q, out)
    ends = illinois(balance, bracket_root(balance, shift, 1e-3, 4.0), 0.0, 1e-15, 100)
    upper = np.empty_like(out)
    f_low = step_all(loss, samples, beta, margins, q, ends.low, out)
    f_high = step_all(loss, samples, beta, margins, q, ends.high, upper)
    mix = f_low / (f_low - f_high) if f_low > f_high else 0.0
    for i in range(out.shape[0]):
        out[i] += mix * (upper[i] - out[i])
    return ends.low + mix * (ends.high - ends.low)
