"""Newton: semismooth Newton steps inside a proximal-point loop on the dual variables, for few features and many rows.

    outer   centre ← argmax over β of D(β) − (δ/2) Σ cᵢ(βᵢ − centreᵢ)²
    inner   its dual: minimise over x = (w, b)   F = R(w) + Σ cᵢ Mᵢ(mᵢ),   M'(m) = −β⁺(m),   β⁺ = dual_step(centre, m, δ)

README.md has the algorithm; its step numbers stand in the comments here. What makes it faster and changes no solution is in `heuristics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import add_in_threads, factor_and_solve, inner, natural_order, number
from dualgap.problem import Problem
from dualgap.solvers.base import Support, Warm, no, register
from dualgap.solvers.newton.heuristics import (
    SAMPLE_GAP,
    SHRINK_STEPS,
    UNSHRINK_AT,
    is_wide,
    precision,
    shrink,
    start_from_sample,
    tangent_gap,
    unshrink,
)
from dualgap.solvers.newton.proximal import INNER_STEPS, ROUGH, SOLVED, Prox, least_curvature, line_search, next_delta
from dualgap.solvers.newton.small import SmallState, is_small, small_epoch, start_small
from dualgap.solvers.newton.state import ActiveRows, NewtonState, WideSystems
from dualgap.solvers.newton.systems import Box, solve_within
from dualgap.solvers.newton.unknowns import PrimalNewton, first_x

__all__ = ["Newton"]

LARGEST = 4000  # features: a dense factor of 128 MB

# Gap part, in units of the gap, at which the inner problem is solved once the gap is within the tolerance. Without it the linear kernel on
# covtype, hinge, C=100, 1e-3 takes 1.7 times as long.
EXACT = 1e-3


@register
@dataclass(frozen=True)
class Newton(PrimalNewton):
    """Semismooth Newton in a proximal-point loop; needs few features (it solves d × d systems) and any number of rows.

    Parameters
    ----------
    delta : float
        The first weight δ of the proximal term, in units of margins per unit of β, and its cap when it grows. A smooth loss has the term
        only where plain Newton steps fail. It is not the width of the smooth hinge, also called delta.

    Order of calls: `start`, then `epoch` again and again; `model`, `dual`, `intercept` and `gap_estimate` at any time between. An epoch
    is one Newton step; on a small dense problem it is as many as the tolerance needs, up to ten.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = dualgap.Problem(scale(X), y, l2=1e-4, intercept="free")
    >>> dualgap.solve(problem, "newton", tol=1e-8).status
    'converged'
    """

    delta: float = 2.0

    name: ClassVar[str] = "newton"
    takes_bounds: ClassVar[bool] = True
    most_features: ClassVar[int] = LARGEST
    stall_steps: ClassVar[float] = 40  # fewer would give up on slow inner problems, more would wait longer for DCA
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "semismooth Newton in a proximal-point loop, d × d systems"

    def __post_init__(self) -> None:
        number("delta", self.delta)

    def supports(self, problem: Problem) -> Support:
        answer = super().supports(problem)
        if answer and problem.d > LARGEST:
            return no(f"a dense {problem.d} × {problem.d} system is too large; it takes up to {LARGEST} features")
        return answer

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> NewtonState | SmallState:
        return self._start_small(problem, warm) if is_small(problem) else self.begin(problem, rng, warm)

    def _start_small(self, problem: Problem, warm: Warm | None) -> SmallState:
        x, ridge = first_x(problem, warm)
        return start_small(problem, x, ridge, _first_centre(problem, warm), self._delta(problem))

    def begin(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None, products: Any = None) -> NewtonState:
        """Return the first state where steps are taken one by one, by products in a given precision."""
        smooth, products = not problem.loss.has_kink(), precision(problem) if products is None else products
        x, ridge = first_x(problem, warm)
        rows = ActiveRows.among(problem, natural_order(problem.n), Prox(_first_centre(problem, warm), self._delta(problem)))
        # 1) start from a warm start, or from a sample
        if warm is not None and warm.coef is not None:
            rows.go_to(x)
            delta, passes = rows.prox.delta, 0.0
        else:
            x, delta, passes = start_from_sample(problem, rows, x, rng, lambda part: self._on_sample(part, rng, products))
        rows.prox = Prox(rows.prox.centre, 0.0 if smooth else delta)
        state = NewtonState(
            passes=passes,
            ridge=ridge,
            x=x,
            gap=math.inf,
            rows=rows,
            box=Box.of(problem, len(x)),
            u=np.zeros(len(x)),
            residual=np.zeros(len(x)),
            all_beta=np.zeros(problem.n),
            shrink_steps=SHRINK_STEPS,
            products=products,
        )
        state.update(problem)
        if smooth and not rows.weigh(rows.work).any():
            # All rows in the linear part of the loss (a smooth hinge of width 1 at w = 0): only a proximal term has curvature. After
            # a sample, δ is the sample's: 0, and thus no term before step 6, unless the sample needed one itself.
            rows.prox = Prox(rows.prox.centre, delta)
            state.update(problem)
        state.unshrink_gap = UNSHRINK_AT * state.gap
        if is_wide(problem) and state.box is None:
            state.wide = WideSystems.of(problem) if warm is None and passes == 0.0 else WideSystems(1)
        return state

    def _on_sample(self, sample: Problem, rng: np.random.Generator, products: Any) -> NewtonState:
        state, steps = self.begin(sample, rng, products=products), 0
        while state.gap > SAMPLE_GAP and (steps := steps + 1) <= INNER_STEPS:
            self.step(sample, state)
        return state

    def epoch(self, problem: Problem, state: NewtonState | SmallState, rng: np.random.Generator) -> None:
        if isinstance(state, SmallState):
            small_epoch(state, self._delta(problem))
        else:
            self.step(problem, state)

    def step(self, problem: Problem, state: NewtonState) -> None:
        """Take one Newton step."""
        # 2) outer loop: move the centre if the inner problem is solved, or too hard
        solved = state.no_descent or state.penalty_gap <= SOLVED * state.prox_term
        # Where the run goes on although x and β are good enough, the certificate is that of another w, such as w(β) of a kernel machine. At
        # the solution of the inner problem both are the same.
        again = state.gap <= state.tol and state.penalty_gap > EXACT * state.gap * state.primal and not state.no_descent
        moved = state.rows.prox.delta > 0.0 and ((solved and not again) or state.steps >= INNER_STEPS)
        rhs = self._move_centre(problem, state, solved) if moved else -state.residual
        state.steps = 0 if moved else state.steps + 1

        # 3) Newton system
        direction = self._solve(problem, state, rhs)

        # 4) line search on F
        descent = state.rows.along(direction, state.x, state.ridge)
        if (
            not state.all_active()
        ):  # the β of shrunk rows are constant: their part of F is −Σ cβm, with the slope of all rows less the active
            active = float((state.rows.samples.c * state.rows.beta) @ state.rows.work)
            descent = descent._replace(linear=descent.linear - float(state.u @ direction) + active)
        t = line_search(descent, math.nan if moved else -float(state.residual @ direction))
        if state.box is None:
            state.x += t * direction
        else:  # F is convex along the direction: within the bounds it is least at their end if its minimum is beyond them
            t = min(t, state.box.longest_step(state.x, direction))
            state.x = state.box.moved(state.x, direction, t)
        state.rows.step(t)
        state.no_descent = t == 0.0
        state.passes += 2.0 * len(state.rows.which) / problem.n

        # 5) shrink rows whose margins some steps like this one would not carry to where β leaves its bound
        if t > 0.0 and state.gap < ROUGH:
            shrink(problem, state, t)

        # 6) dual point of the new margins, its sum u, and the gap
        near = float(rhs @ direction) <= math.sqrt(state.tol) * state.primal
        tangents = math.inf
        if state.curved is not None and near and state.all_active():
            tangents = tangent_gap(problem, state, state.curved, t)
        state.update(problem)
        state.tangent_gap = tangents / state.primal if state.primal > 0.0 else math.inf
        if state.rows.prox.delta == 0.0 and state.steps == INNER_STEPS and state.gap > ROUGH:
            # Part of step 2. A smooth loss with few free variables is as hard as the hinge: the proximal term makes more of them free.
            state.rows.prox, state.steps = Prox(state.rows.beta.copy(), self._delta(problem)), 0
            state.update(problem)

        # 7) unshrink all rows: the gap of the active ones says nothing about the others
        if not state.all_active() and (state.gap <= max(state.unshrink_gap, state.tol) or state.no_descent):
            unshrink(problem, state)

    def _delta(self, problem: Problem) -> float:
        """Return the first δ in the units of this problem's margins."""
        return self.delta * float(problem.offset.scale)

    def _move_centre(self, problem: Problem, state: NewtonState, solved: bool) -> np.ndarray:
        """Move the centre to β and change δ; return the right-hand side of the next Newton system.

        At the old margins the new proximal term would take half of the free variables to a bound. The right-hand side predicts their
        changes by tangents instead, beyond the bounds if need be: that step puts the margins where the new centre needs them.

        δ grows up to `delta`, or the mean of cᵢ‖xᵢ‖²/l2, the curvature of D in βᵢ, without which δ would be nothing.
        """
        rows, u = state.rows, state.u.copy()
        largest = max(self._delta(problem), float(inner(problem.c, problem.sqnorms)) / (problem.n * problem.l2))
        rows.prox = Prox(rows.beta.copy(), next_delta(rows.prox.delta, solved, largest))
        add_in_threads(rows.rows, rows.predicted(), u)
        return u - state.ridge * state.x

    def _solve(self, problem: Problem, state: NewtonState, rhs: np.ndarray) -> np.ndarray:
        """Solve (diag(ridge) + Σ cᵢ curvature_at(βᵢ, δ) xᵢxᵢᵀ)·direction = rhs, with the least curvature of a free b, and within bounds."""
        rows, wide = state.rows, state.wide if state.rows.prox.delta == 0.0 else None
        if wide and (direction := wide.again(rhs)) is not None:
            return direction
        weight, plain = rows.weigh(rows.work), rows.prox.delta == 0.0 and state.box is None
        state.curved = weight.copy() if plain and (wide is None or wide.one_in == 1) else None
        if wide:
            wide.thin(weight)
        H = rows.hessian(weight, len(rhs), state.products)
        H[np.diag_indices(len(H))] += state.ridge
        if state.ridge[-1] == 0.0:
            least = least_curvature(float(inner(rows.samples.c, np.abs(rows.beta))), float(problem.offset.scale))
            H[-1, -1] = max(H[-1, -1], least * problem.intercept_scale**2)
        if state.box is not None:
            return solve_within(H, rhs, state.x, state.box)
        return wide.solve(H, rhs) if wide else factor_and_solve(H, rhs)[1]

    def plan(self, problem: Problem) -> str:
        return "small" if is_small(problem) else precision(problem).__name__

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, NewtonState | SmallState]:
        few = problem.head(4)
        if is_small(problem):
            small = self._start_small(few, None)
            self.epoch(few, small, rng)
            return few, small
        state = self.begin(few, rng, products=precision(problem))
        for _ in range(2):
            self.step(few, state)
        shrink(few, state, 1.0)
        return few, state

    def dual(self, problem: Problem, state: NewtonState | SmallState) -> np.ndarray:
        if isinstance(state, SmallState):
            return state.point.beta
        beta = state.all_beta.copy()
        if not (state.all_active() and state.tangent_gap < state.gap):
            beta[state.rows.which] = state.rows.beta
        return beta

    def gap_estimate(self, problem: Problem, state: NewtonState | SmallState) -> float:
        if isinstance(state, SmallState):
            return state.gap
        # The gap of some rows says nothing about the others.
        return min(state.gap, state.tangent_gap) if state.all_active() else math.inf


def _first_centre(problem: Problem, warm: Warm | None) -> np.ndarray:
    """Return the dual variables of a warm start, which are not used without its coefficients; or zeros."""
    if warm is None or warm.coef is None or warm.dual is None:
        return np.zeros(problem.n)
    return np.clip(warm.dual, problem.loss.lower_bound(), problem.loss.upper_bound())
