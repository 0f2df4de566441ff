"""SSNAL: semismooth Newton steps on an augmented Lagrangian with two multipliers, β of the rows and s of the penalty's kinks.

    outer   (β̂, ŝ) ← argmax of the dual − (δ/2) Σ cᵢ(βᵢ − β̂ᵢ)² − Σ (τⱼ/2)(sⱼ − ŝⱼ)²,   where u(β) = l2·w + s and |sⱼ| ≤ l1
    inner   its dual: minimise over x = (w, b)   F = (l2/2)‖w‖² + Σ cᵢMᵢ(mᵢ) + Σ Nⱼ(wⱼ),   M' = −β⁺,   N' = s⁺

F has no kink, neither of the loss nor of the penalty. README.md has the algorithm; its step numbers stand in the comments here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import inner, is_sparse, number, total_psi, total_value
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.proof import best_intercept, penalty_excess
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.split_steps import Kinks, SplitDescent, predicted_subgradients, subgradients
from dualgap.solvers.newton.split_system import Bias, System
from dualgap.solvers.newton.steps import (
    DELTA_SOLVED,
    DELTA_UNSOLVED,
    INNER_STEPS,
    SOLVED,
    Descent,
    Prox,
    curvatures,
    dual_points,
    fenchel_gap,
    line_search,
    predicted_changes,
)
from dualgap.solvers.newton.unknowns import (
    LEAST_CURVATURE,
    TINY,
    bias_column,
    margins_into,
    steps_into,
    subgradient_ends,
)

__all__ = ["SSNAL"]

# The origin of a value is unknown unless it is given; the comments say what it trades off.
# The working set of features
ALL_FEATURES = 500  # features up to which all are in it
FIRST, ROWS_PER_FEATURE = 500, 2  # features that may join it at a time: the largest of 500, half the rows, and the features in use
NEAR = 0.9  # |uⱼ|/l1 from which a feature that is not in use is in it
# The proximal terms
UNSOLVED_LEVEL, FAR = 100.0, 0.25  # the level grows by this power of 100 / level after an inner problem that was too hard …
LARGEST_LEVEL = 1000.0  # … up to here
TOL_SHARE = 0.1  # an inner problem is also solved if its gap is this part of the tolerance: rounding may not let it fall further
NONE = np.zeros(0, dtype=np.intp)
PULL = 0.01  # with l2 = 0: ridge of a feature, in units of level · l1 · its largest entry, that pulls w to its last centre


class Part(NamedTuple):
    """The features of the working set, and what the inner problem knows of them."""

    chosen: np.ndarray  # their numbers
    matrix: Any  # X of these features
    rows: Any  # the same with the bias column, as kernels read it
    ridge: np.ndarray  # second derivative of the penalty in each unknown, of x
    anchor: np.ndarray  # x at which the ridge has its minimum: 0, or with l2 = 0 the last centre
    kinks: Kinks

    @property
    def size(self) -> int:
        return len(self.chosen)


@dataclass(kw_only=True)
class SSNALState(State):
    """The unknowns and both multipliers, with the inner problem in which they are."""

    # Fixed by `start`
    sizes: np.ndarray  # largest |xᵢⱼ| of each feature; 1 for an empty one
    # The inner problem; set by `start` and `_move_centre`
    level: float  # δ and τ in units of typical margins, β and s
    beta_unit: float = 1.0  # a typical β: the least of 1, P and Σ cβ so far
    prox: Prox  # β̂ and δ
    part: Part
    steps: int = 0  # Newton steps on it
    # Changed by every step, and replaced with the working set
    x: np.ndarray  # (w, b/intercept_scale) of the working set
    s: np.ndarray  # s⁺ …
    v: np.ndarray  # … the coefficient at which it is a subgradient: w with exact zeros …
    kink_curvature: np.ndarray  # … and its slope
    margins: np.ndarray  # of x
    beta: np.ndarray  # β⁺
    work: np.ndarray  # scratch, of the rows
    # Sums; set by `_update_dual`
    u: np.ndarray  # Σ cβyx, of all features
    residual: np.ndarray  # gradient of F
    primal: float = math.inf  # P of the model
    prox_term: float = 0.0
    inner_gap: float = math.inf  # gap that the residual makes
    outside_gap: float = math.inf  # gap that the features outside the working set make
    no_descent: bool = False  # whether the last line search returned t = 0
    # The model
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
        u = problem.combine(problem.c * problem.y * beta)
        sizes, beta_unit = _largest_entries(problem), 1.0
        if beta.any():
            beta_unit = min(1.0, float(problem.objective(w, b)), float(inner(problem.c, np.abs(beta))))
        chosen = _working_set(problem, w, u, NONE)
        part = _part(problem, chosen, sizes, self.delta, (w, b, _clipped(problem, w, u)), None)
        count = len(chosen)
        state = SSNALState(
            sizes=sizes,
            level=self.delta,
            beta_unit=beta_unit,
            prox=Prox(beta.copy(), _delta(problem, self.delta, beta_unit)),
            part=part,
            x=_unknowns(problem, chosen, w, b),
            s=np.zeros(count),
            v=w[chosen],
            kink_curvature=np.zeros(count),
            margins=np.empty(problem.n),
            beta=beta,
            work=np.empty(problem.n),
            u=u,
            residual=np.zeros(count),
            coef=w,
            b=b,
        )
        margins_into(part.rows, state.x, problem.samples, state.margins)
        self._update_dual(problem, state)
        return state

    def epoch(self, problem: Problem, state: SSNALState, rng: np.random.Generator) -> None:
        # 2) outer loop: move the centres if the inner problem is solved, or too hard
        solved = state.no_descent or state.inner_gap <= max(SOLVED * state.prox_term, TOL_SHARE * state.tol * state.primal)
        missing = solved and state.outside_gap > max(SOLVED * state.prox_term, TOL_SHARE * state.tol * state.primal)
        if missing:
            self._extend(problem, state)
        if moved := (solved and not missing) or state.steps >= INNER_STEPS:
            rhs = self._move_centre(problem, state, solved)
        else:
            rhs = -state.residual
        state.steps = 0 if moved or missing else state.steps + 1

        # 3) Newton system
        direction = self._solve(problem, state, rhs)

        # 4) line search on F
        part, count = state.part, state.part.size
        steps_into(part.rows, direction, problem.y, state.work)
        linear = float(part.ridge * (state.x - part.anchor) @ direction)
        quadratic = float(part.ridge * direction @ direction)
        smooth = Descent(problem.loss, state.margins, state.work, state.prox, problem.samples, linear, quadratic)
        first = math.nan if moved else -float(state.residual @ direction)
        t = line_search(SplitDescent(smooth, part.kinks, state.x[:count], direction[:count]), first)
        state.x = state.x + t * direction
        state.margins += t * state.work
        state.no_descent = t == 0.0
        state.passes += 4.0 if moved else 3.0

        # 5) multipliers at the new x, their sum u, the model and the gap
        self._update_dual(problem, state)

    def _extend(self, problem: Problem, state: SSNALState) -> None:
        """Let the worst features from outside into the working set; the inner problem is otherwise the same. Sets: as `_move_centre`."""
        last, size = state.part, state.part.size
        chosen = _working_set(problem, state.coef, state.u, last.chosen)
        w, anchor, centre = np.zeros(problem.d), np.zeros(problem.d), _clipped(problem, state.coef, state.u)
        w[last.chosen], anchor[last.chosen], centre[last.chosen] = state.x[:size], last.anchor[:size], last.kinks.centre
        b = self.intercept(problem, state)
        part = _part(problem, chosen, state.sizes, state.level, (anchor, b, centre), last)
        count = len(chosen)
        x, blank = _unknowns(problem, chosen, w, b), np.empty(count)
        vars(state).update(part=part, x=x, s=blank, v=blank.copy(), kink_curvature=blank.copy())
        self._update_dual(problem, state)
        state.passes += 2.0

    def _move_centre(self, problem: Problem, state: SSNALState, solved: bool) -> np.ndarray:
        """Move the centres to β and s, change the level, choose the working set; return the right-hand side of the next Newton system.

        The right-hand side predicts the multipliers by their tangents at the new centres, beyond the bounds if need be, as newton does.

        Sets: prox, level, beta_unit, part, x, v, s, kink_curvature, margins.
        """
        w, b = state.coef.copy(), self.intercept(problem, state)
        w[state.part.chosen] = state.x[: state.part.size]
        centre = _clipped(problem, state.coef, state.u)
        centre[state.part.chosen] = state.s
        mass = float(inner(problem.c, np.abs(state.beta)))
        state.beta_unit = min(state.beta_unit, state.primal, mass if solved and mass > 0.0 else 1.0)
        growth = max(DELTA_UNSOLVED, (UNSOLVED_LEVEL / state.level) ** FAR)
        state.level = DELTA_SOLVED * state.level if solved else min(growth * state.level, LARGEST_LEVEL)
        delta = _delta(problem, state.level, state.beta_unit)
        chosen = _working_set(problem, state.coef, state.u, NONE)
        part = _part(problem, chosen, state.sizes, state.level, (w, b, centre), state.part)
        x, v, count = _unknowns(problem, chosen, w, b), state.coef[chosen], len(chosen)
        s, curvature = np.empty(count), np.empty(count)
        vars(state).update(prox=Prox(state.beta.copy(), delta), part=part, x=x, v=v, s=s, kink_curvature=curvature)
        margins_into(part.rows, x, problem.samples, state.margins)
        predicted_changes(problem.loss, state.margins, state.prox, problem.samples, state.work)
        predicted_subgradients(part.kinks, x[:count], v, s, curvature)
        a = problem.c * problem.y * state.beta + state.work
        return -_gradient(problem, part, x, s, problem.combine(a), float(a.sum()))

    def _solve(self, problem: Problem, state: SSNALState, rhs: np.ndarray) -> np.ndarray:
        """Return the Newton direction: the curvatures of the rows, of the kinks and of the ridge, and the least one of a free b."""
        part, count = state.part, state.part.size
        weight, bias = np.empty(problem.n), Bias(0.0, 0.0)
        curvatures(problem.loss, state.beta, state.prox.delta, problem.c, weight)
        if problem.intercept != "none":
            scale, own = problem.intercept_scale, float(part.ridge[count])
            if problem.intercept == "free":
                mass = min(1.0, max(float(inner(problem.c, np.abs(state.beta))), TINY))
                own = max(LEAST_CURVATURE * mass / float(problem.offset.scale) - float(weight.sum()), 0.0) * scale**2
            bias = Bias(scale, own)
        return System(part.matrix, part.rows, weight, part.ridge[:count] + state.kink_curvature, bias).solve(rhs)

    def _update_dual(self, problem: Problem, state: SSNALState) -> None:
        """Update both multipliers, the model and the gap to x. Sets: beta, s, v, kink_curvature, u, residual, …gap, prox_term, coef, b."""
        part, count = state.part, state.part.size
        state.beta[:] = 0.0
        _, _, prox_term = dual_points(problem.loss, state.margins, state.prox, problem.samples, state.beta, state.work)
        state.u, balance = problem.combine(state.work), float(state.work.sum())
        prox_term += subgradients(part.kinks, state.x[:count], state.s, state.v, state.kink_curvature)
        if problem.l2 == 0:
            prox_term += 0.5 * float(part.ridge @ (state.x - part.anchor) ** 2)
        state.prox_term = prox_term
        state.residual = _gradient(problem, part, state.x, state.s, state.u, balance)
        coef = np.zeros(problem.d)
        coef[part.chosen] = state.v
        self._update_gap(problem, state, coef, abs(balance))

    def _update_gap(self, problem: Problem, state: SSNALState, coef: np.ndarray, imbalance: float) -> None:
        """Set the model to `coef` with its best intercept, and the gaps; `imbalance` is |Σ cβy|, which a free b asks to be 0."""
        part, r = state.part, state.residual
        scores = problem.scores(coef)
        b = float(best_intercept(problem, scores))
        margins = problem.y * (scores + b)
        primal = float(total_value(problem.loss, margins, problem.c)) + problem.regulariser(coef, b)
        least, most = subgradient_ends(problem, coef)
        beyond = np.maximum(np.maximum(state.u - most, least - state.u), 0.0)
        beyond[part.chosen] = 0.0
        if problem.l2 > 0:
            gap = float(fenchel_gap(problem.loss, margins, state.beta, problem.c))
            gap += penalty_excess(problem.penalty, coef, state.u / problem.l2, np.zeros(1), 0.0)[0]
            if problem.intercept == "penalised":
                gap += 0.5 * problem.l2 * (b / problem.intercept_scale - (part.ridge[-1] * state.x[-1] - r[-1]) / problem.l2) ** 2
            state.inner_gap = 0.5 * float(r @ r) / problem.l2
            state.outside_gap = 0.5 * float(beyond @ beyond) / problem.l2
        else:  # β is scaled until no |u| exceeds l1
            scaled = state.beta / max(1.0, float(np.abs(state.u).max(initial=0.0)) / problem.l1)
            gap = primal - float(total_psi(problem.loss, scaled, problem.samples))
            state.inner_gap = float(np.abs(r).max(initial=0.0)) / problem.l1 * primal
            state.outside_gap = float(beyond.max(initial=0.0)) / problem.l1 * primal
        if problem.intercept == "free":
            gap += problem.intercept_scale * imbalance
        vars(state).update(coef=coef, b=b, primal=primal, gap=gap / primal if primal > 0.0 else math.inf)

    def model(self, problem: Problem, state: SSNALState) -> tuple[np.ndarray, float | None]:
        return state.coef.copy(), None if problem.intercept == "free" else state.b

    def dual(self, problem: Problem, state: SSNALState) -> np.ndarray:
        return state.beta.copy()

    def intercept(self, problem: Problem, state: SSNALState) -> float:
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.x[-1])

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


def _working_set(problem: Problem, w: np.ndarray, u: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the features that are kept or in use, and the worst of those whose u is near or beyond the end of its interval.

    The others are at most as many as are in use, or FIRST, or one for ROWS_PER_FEATURE rows.
    """
    if problem.d <= ALL_FEATURES:
        return np.arange(problem.d)
    least, most = subgradient_ends(problem, np.zeros(problem.d))
    reached = np.where(w != 0.0, np.inf, np.maximum(u / most, u / least))
    reached[kept] = np.inf
    room = int(np.count_nonzero(np.isinf(reached))) + max(int(np.count_nonzero(w)), FIRST, problem.n // ROWS_PER_FEATURE)
    near = np.flatnonzero(reached >= NEAR)
    if len(near) > room:
        near = np.sort(near[np.argpartition(-reached[near], room)[:room]])
    return near


def _clipped(problem: Problem, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the subgradient of l1·|w| within bounds that is nearest to u − l2·w."""
    least, most = subgradient_ends(problem, w)
    rest = problem.l2 * w
    return np.clip(u - rest, least - rest, most - rest)


def _unknowns(problem: Problem, chosen: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
    """Return x of the chosen features."""
    return w[chosen] if problem.intercept == "none" else np.append(w[chosen], b / problem.intercept_scale)


def _part(
    problem: Problem,
    chosen: np.ndarray,
    sizes: np.ndarray,
    level: float,
    centres: tuple[np.ndarray, float, np.ndarray],
    last: Part | None,
) -> Part:
    """Return the inner problem over the chosen features around the centres w, b and s; `last` may have their columns already."""
    w, b, s = centres
    X: Any = problem.X[: problem.n]
    if last is not None and np.array_equal(chosen, last.chosen):
        matrix, rows = last.matrix, last.rows
    elif len(chosen) == problem.d:
        matrix, rows = X, bias_column(problem, problem.rows)
    else:
        matrix = X[:, chosen] if is_sparse(X) else np.ascontiguousarray(X[:, chosen])
        rows = bias_column(problem, storage.of_matrix(matrix))
    unit = problem.l1 * sizes[chosen]
    x = _unknowns(problem, chosen, w, b)
    ridge = np.full(len(x), problem.l2)
    if problem.l2 == 0:
        ridge[: len(chosen)] = PULL * level * unit
    if problem.intercept == "free":
        ridge[-1] = 0.0
    return Part(
        chosen, matrix, rows, ridge, x if problem.l2 == 0 else np.zeros(len(x)), Kinks.of(problem, chosen, s[chosen], level / unit)
    )


def _gradient(problem: Problem, part: Part, x: np.ndarray, s: np.ndarray, u: np.ndarray, balance: float) -> np.ndarray:
    """Return the gradient of F, for multipliers with the sums u and Σ cβy."""
    found = part.ridge * (x - part.anchor)
    found[: part.size] += s - u[part.chosen]
    if problem.intercept != "none":
        found[-1] -= problem.intercept_scale * balance
    return found
