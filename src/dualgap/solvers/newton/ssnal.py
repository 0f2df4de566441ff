"""SSNAL: semismooth Newton steps on an augmented Lagrangian with two multipliers, β of the rows and s of the penalty's kinks.

    outer   (β̂, ŝ) ← argmax of the dual − (δ/2) Σ cᵢ(βᵢ − β̂ᵢ)² − Σ (τⱼ/2)(sⱼ − ŝⱼ)²,   where u(β) = l2·w + s and |sⱼ| ≤ l1
    inner   its dual: minimise over x = (w, b)   F = (l2/2)‖w‖² + Σ cᵢMᵢ(mᵢ) + Σ Nⱼ(wⱼ),   M' = −β⁺,   N' = s⁺

F has no kink, neither of the loss nor of the penalty. README.md has the algorithm; its step numbers stand in the comments here. Which
features are in x is a heuristic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import inner, is_sparse, number, total_value
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.proof import best_intercept
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.heuristics import working_set
from dualgap.solvers.newton.kinks import Kinks, SplitDescent, predicted_subgradients, subgradients
from dualgap.solvers.newton.loss_sums import LossSums
from dualgap.solvers.newton.proximal import INNER_STEPS, SOLVED, TINY, Prox, fenchel_gap, least_curvature, line_search, next_delta
from dualgap.solvers.newton.systems import ENOUGH, SplitSystem
from dualgap.solvers.newton.unknowns import split_gap, subgradient_ends

__all__ = ["SSNAL"]

LARGEST_LEVEL = 1000.0  # of the proximal terms, in units of margins per unit of a typical β
PULL = 0.01  # with l2 = 0: ridge of a feature, in units of level · l1 · its largest entry, that pulls w to its last centre


@dataclass(kw_only=True)
class Inner:
    """The inner problem over the features of a working set, and where its steps are."""

    chosen: np.ndarray  # the features' numbers
    matrix: Any  # X of these features
    data: Any  # the same as kernels read it
    ridge: np.ndarray  # second derivative of the penalty in each unknown, of x
    anchor: np.ndarray  # x at which the ridge has its minimum: 0, or with l2 = 0 the last centre
    # Changed by every step
    x: np.ndarray  # (w, b/intercept_scale)
    sums: LossSums  # of the rows: β̂ and δ, β⁺
    kinks: Kinks  # of the features: ŝ and τ, s⁺

    @property
    def w(self) -> np.ndarray:
        return self.x[: len(self.chosen)]

    def gradient(self, problem: Problem, u: np.ndarray, balance: float) -> np.ndarray:
        """Return the gradient of F for multipliers s and β, these with the sums u and Σ cβy."""
        found = self.ridge * (self.x - self.anchor)
        found[: len(self.chosen)] += self.kinks.s - u[self.chosen]
        if problem.intercept != "none":
            found[-1] -= problem.intercept_scale * balance
        return found


@dataclass(kw_only=True)
class SSNALState(State):
    """The inner problem in which the run is, and the model at its x."""

    # Fixed by `start`
    units: np.ndarray  # l1·max|xᵢⱼ| of each feature
    # The inner problem; set by `start`, `_move_centre` and `_extend`
    level: float  # δ and τ in units of typical margins, β and s
    beta_unit: float  # a typical β: the least of 1, P and Σ cβ so far
    inner: Inner
    steps: int = 0  # Newton steps on it
    no_descent: bool = False  # whether the last line search returned t = 0
    # The multipliers' sums and gaps; set by `_update_dual`
    u: np.ndarray  # Σ cβyx, of all features
    residual: np.ndarray  # gradient of F
    primal: float = math.inf  # P of the model
    prox_term: float = 0.0
    inner_gap: float = math.inf  # gap that the residual makes
    outside_gap: float = math.inf  # gap that the features outside the working set make
    # The model; set by `_update_dual`
    coef: np.ndarray  # v of all features
    b: float = 0.0


@register
@dataclass(frozen=True)
class SSNAL(Solver):
    """Semismooth Newton on an augmented Lagrangian, for penalties with an l1 part; it takes weak penalties and losses with kinks.

    Parameters
    ----------
    delta : float
        First weight of the proximal terms, in units of margins per unit of a typical β. It is not the width of the smooth hinge, also
        called delta.

    Order of calls: `start`, then `epoch` again and again; `model`, `dual`, `intercept` and `gap_estimate` at any time between. An epoch
    is one Newton step.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(100, 50, random_state=0), l1=1e-4, l2=1e-4, intercept="free")
    >>> dualgap.solve(problem, "ssnal", tol=1e-6).status
    'converged'
    """

    delta: float = 2.0

    name: ClassVar[str] = "ssnal"
    takes_bounds: ClassVar[bool] = True
    stall_steps: ClassVar[float] = (
        400  # with l2 = 0 the gap stays near 1 until the proximal terms are small, which may take 200 steps
    )
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "semismooth Newton on an augmented Lagrangian, for an l1 part"

    def __post_init__(self) -> None:
        number("delta", self.delta)

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None:
            return no("it works on single features, which a kernel machine does not have")
        if problem.l1 == 0:
            return no("it splits the kinks of an l1 part off, and there is none; newton is made for that")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SSNALState:
        # 1) a consistent pair of w and β: zeros, or those of a warm start
        w, beta = np.zeros(problem.d), np.zeros(problem.n)
        if warm is not None and warm.coef is not None:
            w = np.array(warm.coef, dtype=np.float64)
        if warm is not None and warm.dual is not None:
            beta = np.clip(warm.dual, problem.loss.lower_bound(), problem.loss.upper_bound())
        w = problem.penalty.nearest_point(w)
        b = float(best_intercept(problem, problem.scores(w)))
        u, beta_unit = problem.combine(problem.c * problem.y * beta), 1.0
        if beta.any():
            beta_unit = min(1.0, float(problem.objective(w, b)), float(inner(problem.c, np.abs(beta))))
        units, prox = problem.l1 * _largest_entries(problem), Prox(beta, _delta(problem, self.delta, beta_unit))
        part = _inner(problem, working_set(problem, w, u), (w, b), _clipped(problem, w, u), prox, self.delta, units)
        blank = np.zeros(len(part.x))
        state = SSNALState(units=units, level=self.delta, beta_unit=beta_unit, inner=part, u=u, residual=blank, coef=w, b=b)
        part.sums.go_to(part.x)
        self._update_dual(problem, state)
        return state

    def epoch(self, problem: Problem, state: SSNALState, rng: np.random.Generator) -> None:
        # 2) outer loop: move the centres if the inner problem is solved, or too hard; first let features in that it misses
        enough = max(SOLVED * state.prox_term, ENOUGH * state.tol * state.primal)  # rounding may not let it fall further
        solved = state.no_descent or state.inner_gap <= enough
        missing = solved and state.outside_gap > enough
        if missing:
            self._extend(problem, state)
        if moved := (solved and not missing) or state.steps >= INNER_STEPS:
            rhs = self._move_centre(problem, state, solved)
        else:
            rhs = -state.residual
        state.steps = 0 if moved or missing else state.steps + 1

        # 3) Newton system: the curvatures of the rows, of the kinks and of the ridge
        part = state.inner
        weight, diagonal = part.sums.weigh(part.sums.work), part.ridge.copy()
        diagonal[: len(part.chosen)] += part.kinks.second
        if problem.intercept == "free":
            least = least_curvature(float(inner(problem.c, np.abs(part.sums.beta))), float(problem.offset.scale))
            diagonal[-1] = max(least - float(weight.sum()), 0.0) * problem.intercept_scale**2
        direction = SplitSystem(part.matrix, part.sums.rows, weight, diagonal).solve(rhs)

        # 4) line search on F
        smooth = part.sums.along(direction, part.x - part.anchor, part.ridge)
        first = math.nan if moved else -float(state.residual @ direction)
        t = line_search(SplitDescent(smooth, part.kinks, part.w, direction[: len(part.chosen)]), first)
        part.x = part.x + t * direction
        part.sums.step(t)
        state.no_descent = t == 0.0
        state.passes += 4.0 if moved else 3.0

        # 5) multipliers at the new x, their sum u, the model and the gap
        self._update_dual(problem, state)

    def _extend(self, problem: Problem, state: SSNALState) -> None:
        """Let the worst features from outside into the working set; the inner problem is otherwise the same. Sets: inner."""
        last = state.inner
        chosen = working_set(problem, state.coef, state.u, last.chosen)
        w, anchor, centre = np.zeros(problem.d), np.zeros(problem.d), _clipped(problem, state.coef, state.u)
        w[last.chosen], anchor[last.chosen], centre[last.chosen] = last.w, last.anchor[: len(last.chosen)], last.kinks.centre
        model = w, self.intercept(problem, state)
        part = _inner(problem, chosen, model, centre, last.sums.prox, state.level, state.units, last)
        part.anchor = _unknowns(problem, chosen, anchor, 0.0)
        part.sums.margins, part.sums.beta = last.sums.margins, last.sums.beta
        state.inner = part
        self._update_dual(problem, state)
        state.passes += 2.0

    def _move_centre(self, problem: Problem, state: SSNALState, solved: bool) -> np.ndarray:
        """Move the centres to β and s, change the level, choose the working set; return the right-hand side of the next Newton system.

        The right-hand side predicts the multipliers by their tangents at the new centres, beyond the bounds if need be, as newton does.

        Sets: inner, level, beta_unit.
        """
        last, w, b = state.inner, state.coef.copy(), self.intercept(problem, state)
        centre, beta = _clipped(problem, state.coef, state.u), last.sums.beta
        w[last.chosen], centre[last.chosen] = last.w, last.kinks.s
        mass = float(inner(problem.c, np.abs(beta)))
        state.beta_unit = min(state.beta_unit, state.primal, mass if solved and mass > 0.0 else 1.0)
        state.level = next_delta(state.level, solved, LARGEST_LEVEL)
        prox = Prox(beta.copy(), _delta(problem, state.level, state.beta_unit))
        chosen = working_set(problem, state.coef, state.u)
        part = _inner(problem, chosen, (w, b), centre, prox, state.level, state.units, last)
        part.kinks.v[:] = state.coef[chosen]
        part.sums.go_to(part.x)
        part.sums.beta[:] = beta
        state.inner = part
        predicted_subgradients(part.kinks, part.w)
        a = problem.c * problem.y * beta + part.sums.predicted()
        return -part.gradient(problem, problem.combine(a), float(a.sum()))

    def _update_dual(self, problem: Problem, state: SSNALState) -> None:
        """Update both multipliers, the model and the gap to x. Sets: u, residual, the gaps and the model."""
        part = state.inner
        part.sums.beta[:] = 0.0
        prox_term = part.sums.dual().proximal + subgradients(part.kinks, part.w)
        if problem.l2 == 0:
            prox_term += 0.5 * float(part.ridge @ (part.x - part.anchor) ** 2)
        u, balance = problem.combine(part.sums.work), float(part.sums.work.sum())
        state.u, state.prox_term, state.residual = u, prox_term, part.gradient(problem, u, balance)

        coef = np.zeros(problem.d)
        coef[part.chosen] = part.kinks.v
        scores = problem.scores(coef)
        b = float(best_intercept(problem, scores))
        margins = problem.y * (scores + b)
        primal = float(total_value(problem.loss, margins, problem.c)) + problem.regulariser(coef, b)
        gap = split_gap(problem, (coef, b), primal, part.sums.beta, (u, balance))

        least, most = subgradient_ends(problem, coef)
        beyond = np.maximum(np.maximum(u - most, least - u), 0.0)
        beyond[part.chosen] = 0.0
        if problem.l2 > 0:
            gap += float(fenchel_gap(problem.loss, margins, part.sums.beta, problem.c)) / primal if primal > 0.0 else 0.0
            state.inner_gap, state.outside_gap = (0.5 * float(r @ r) / problem.l2 for r in (state.residual, beyond))
        else:
            state.inner_gap, state.outside_gap = (
                float(np.abs(r).max(initial=0.0)) / problem.l1 * primal for r in (state.residual, beyond)
            )
        state.coef, state.b, state.primal, state.gap = coef, b, primal, gap

    def model(self, problem: Problem, state: SSNALState) -> tuple[np.ndarray, float | None]:
        return state.coef.copy(), None if problem.intercept == "free" else state.b

    def dual(self, problem: Problem, state: SSNALState) -> np.ndarray:
        return state.inner.sums.beta.copy()

    def intercept(self, problem: Problem, state: SSNALState) -> float:
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.inner.x[-1])

    def gap_estimate(self, problem: Problem, state: SSNALState) -> float:
        return state.gap


def _delta(problem: Problem, level: float, beta_unit: float) -> float:
    """Return δ, in units of margins per unit of β."""
    return level * float(problem.offset.scale) / max(beta_unit, TINY)


def _largest_entries(problem: Problem) -> np.ndarray:
    """Return the largest |xᵢⱼ| of each feature, 1 for one without entries."""
    X: Any = problem.X[: problem.n]
    found = abs(X).max(axis=0).toarray() if is_sparse(X) else np.maximum(X.max(axis=0), -X.min(axis=0))
    sizes = np.asarray(found, dtype=np.float64).reshape(-1)
    return np.where(sizes > 0.0, sizes, 1.0)


def _clipped(problem: Problem, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the subgradient of l1·|w| within bounds that is nearest to u − l2·w."""
    least, most = subgradient_ends(problem, w)
    rest = problem.l2 * w
    return np.clip(u - rest, least - rest, most - rest)


def _unknowns(problem: Problem, chosen: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
    """Return x of the chosen features."""
    return w[chosen] if problem.intercept == "none" else np.append(w[chosen], b / problem.intercept_scale)


def _inner(
    problem: Problem,
    chosen: np.ndarray,
    model: tuple[np.ndarray, float],
    s: np.ndarray,
    prox: Prox,
    level: float,
    units: np.ndarray,
    last: Inner | None = None,
) -> Inner:
    """Return the inner problem over the chosen features at a model w and b, with the centres s and that of prox.

    `last` may have the columns already.
    """
    X: Any = problem.X[: problem.n]
    if last is not None and np.array_equal(chosen, last.chosen):
        matrix, data = last.matrix, last.data
    elif len(chosen) == problem.d:
        matrix, data = X, problem.rows
    else:
        matrix = X[:, chosen] if is_sparse(X) else np.ascontiguousarray(X[:, chosen])
        data = storage.of_matrix(matrix)
    x = _unknowns(problem, chosen, *model)
    ridge = np.full(len(x), problem.l2)
    if problem.l2 == 0:
        ridge[: len(chosen)] = PULL * level * units[chosen]
    if problem.intercept == "free":
        ridge[-1] = 0.0
    return Inner(
        chosen=chosen,
        matrix=matrix,
        data=data,
        ridge=ridge,
        anchor=x.copy() if problem.l2 == 0 else np.zeros(len(x)),
        x=x,
        sums=LossSums.of(problem, data, prox),
        kinks=Kinks.of(problem, chosen, s[chosen], level / units[chosen]),
    )
