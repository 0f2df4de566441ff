"""Newton: semismooth Newton steps inside a proximal-point loop on the dual variables, for few features and many rows.

    outer   centre ← argmax over β of D(β) − (δ/2) Σ cᵢ(βᵢ − centreᵢ)²
    inner   its dual: minimise over x = (w, b)   F = R(w) + Σ cᵢ Mᵢ(mᵢ),   M'(m) = −β⁺(m),   β⁺ = dual_step(centre, m, δ)

README.md has the algorithm; its step numbers stand in the comments here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import (
    add_in_threads,
    factor_and_solve,
    gram_of_rows,
    inner,
    is_dense,
    layers,
    machine,
    natural_order,
    number,
    solve_with,
    some,
    stored,
)
from dualgap.problem import Problem, Samples
from dualgap.solvers.base import Support, Warm, no, register
from dualgap.solvers.newton.bounded import BoundedSystem, Box
from dualgap.solvers.newton.small import SmallState, is_small, small_epoch, start_small
from dualgap.solvers.newton.steps import (
    DELTA_SOLVED,
    DELTA_UNSOLVED,
    INNER_STEPS,
    PLAIN_GAP,
    PLAIN_STEPS,
    SOLVED,
    Descent,
    Prox,
    curvatures,
    dual_points,
    fenchel_gap,
    find_shrinkable,
    jump_middles,
    kink_distances,
    line_search,
    predicted_changes,
    tangent_points,
)
from dualgap.solvers.newton.unknowns import (
    LEAST_CURVATURE,
    TINY,
    PrimalNewton,
    Unknowns,
    bias_column,
    first_x,
    gap_part,
    margins_into,
    penalty_gap,
    steps_into,
)

__all__ = ["Newton"]

# The origin of a value is unknown unless it is given; the comments say what it trades off.
LARGEST = 4000  # features: a dense factor of 128 MB

# The start from a sample. A larger sample costs more, a smaller one gives a w that is further from the solution.
SAMPLE_ONE_IN = 8  # one row in 8 …
SAMPLE_LEAST = 500  # … if these are at least 500 rows …
SAMPLE_PER_FEATURE = 4  # … and 4 rows for each feature;
SMOOTH_SAMPLE_PER_FEATURE = 16  # 16 for a smooth loss: with fewer, a few rows with large losses cost the full problem many steps
SAMPLE_GAP = 1e-2  # relative gap at which the sample's w is taken; its distance from the full problem's w is larger anyway
SAMPLE_STEPS = 30  # steps on the sample, at most

# The first δ after a sample: free variables that it leaves. Fewer make cheaper systems, which know less of the rows near the kink.
FREE_PER_FEATURE = 4  # 4 free variables for each feature …
FREE_ONE_IN = 20  # … or one row in 20, if these are more …
FREE_EXPECTED = 2.0  # … but at most twice the number of free rows that the sample predicts, which is small for a rare class
LEAST_DELTA = 1e-6  # in units of margins: δ stays positive even where that many margins are at the kink

EXACT = 1e-3  # gap part, in units of the gap, at which the inner problem is solved once the gap is within the tolerance

FAR = 0.25  # δ grows by this power of cap / δ after an inner problem that was too hard, if that is more than DELTA_UNSOLVED

# A smooth loss without a proximal term
NEWTON_RATE = 1e-8  # what a step with a system of its own makes of the decrement, a square, towards the end of a run
REUSE_TRIED = 10.0  # times that rate: fall of rhs·rhs above which the last factor is not even tried
FIRST_ONE_IN = 16  # rows in the first system of wide rows: one in 16 …
ONE_IN_GROWTH = 4  # … then 4 times as many in each system, up to all
ROWS_PER_FEATURE = 4  # … unless these are fewer than 4 rows for each feature
SINGLE_SHARE = 0.1  # of l2 that the rounding error of a system in float32 may be

# Shrinking
SHRINK_BELOW = 0.1  # relative gap below which rows are shrunk: earlier steps move margins anywhere
SHRINK_STEPS = 4.0  # shrink a row at a bound if its gradient exceeds the change of margins in this many steps like the last
SHRINK_SHARE = 0.5  # shrink only if at least this share of the active rows goes: the others are copied
UNSHRINK_AT = 1e-3  # unshrink all rows when the gap of the active rows is this part of the gap after the last full pass
UNSHRINK_ERROR = 10.0  # rows were shrunk too early if the gap of all rows exceeds that of the active ones by this factor; then …
SHRINK_GROWTH = 4.0  # … the number of steps, SHRINK_STEPS at first, grows by this factor


@dataclass(kw_only=True)
class NewtonState(Unknowns):
    """The state of Newton. Vectors "of the active rows" have one number for each of them."""

    # The active rows; replaced by `_shrink` and `_unshrink`
    which: np.ndarray  # their numbers in the problem
    rows: Any
    samples: Samples  # their labels and weights
    work: np.ndarray  # scratch of the active rows: curvatures, then the margin step, then changes of cyβ
    # Changed by every step, and replaced with the active rows
    margins: np.ndarray
    beta: np.ndarray  # β⁺(margins)
    prox: Prox  # the centre and δ: replaced by `_move_centre`, by step 6 for a smooth loss, and with the active rows
    # The shrunk rows; set by `_shrink` and `_unshrink`
    all_beta: np.ndarray  # β of all rows; stale for active ones
    shrunk_loss: float = 0.0  # Σ cφ over the shrunk rows when they were shrunk
    unshrink_gap: float = 0.0  # relative gap of the active rows at which all rows are active again
    shrink_steps: float = SHRINK_STEPS
    # Sums; set by `_update_dual`
    u: np.ndarray  # Σ cβyx over all rows
    residual: np.ndarray  # ridge·x − u, the gradient of F
    penalty_gap: float = math.inf  # R(w) + R*(u) − u·w: the gap part of the residual
    prox_term: float = 0.0  # (δ/2) Σ c(β − centre)² over the active rows
    primal: float = math.inf  # P at x, by the running sums
    # Bounds of x, where coefficients have bounds; its sides are set by `_solve`
    box: Box | None = None
    # Fixed by `_start`
    products: Any = np.float64  # type in which dense rows are multiplied
    # The last Newton system; set by `_solve`
    one_in: int = 1  # the next system is of one row in this number
    # Its Cholesky factor, or itself where there are bounds; None before the first one, and once the active rows have changed
    factor: np.ndarray | BoundedSystem | None = None
    curved: np.ndarray | None = None  # its weighted curvatures; None with a proximal term
    decrement: float = math.inf  # rhs·direction of the last step
    rhs_square: float = math.inf  # rhs·rhs of the last step
    # Set by `_tangent_dual`
    tangent_gap: float = (
        math.inf
    )  # relative gap of x and the tangents' β, which is in `all_beta` then; infinite where it was not tried
    # The inner problem; set by `epoch`
    steps: int = 0  # Newton steps on it: those since the one that moved the centre, which does not count
    no_descent: bool = False  # whether the last line search returned t = 0

    def all_active(self) -> bool:
        return len(self.which) == len(self.all_beta)


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
        return self._start_small(problem, warm) if is_small(problem) else self._start(problem, rng, warm)

    def _start_small(self, problem: Problem, warm: Warm | None) -> SmallState:
        x, ridge = first_x(problem, warm)
        return start_small(problem, x, ridge, _first_centre(problem, warm), self._delta(problem))

    def _start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None, products: Any = None) -> NewtonState:
        n, smooth = problem.n, not problem.loss.has_kink()
        products = _precision(problem) if products is None else products
        x, ridge = first_x(problem, warm)
        rows = bias_column(problem, some(problem.rows, natural_order(n)))
        centre, margins, delta, passes = _first_centre(problem, warm), np.empty(n), self._delta(problem), 0.0
        if warm is not None and warm.coef is not None:
            margins_into(rows, x, problem.samples, margins)
        else:
            # 1) start from a sample
            x, delta, passes, free = self._solve_sample(problem, x, rng, products)
            margins_into(rows, x, problem.samples, margins)
            if x.any() and smooth and problem.bounds is None:  # a multiple of x need not be within bounds
                # A sample with few rows of a rare feature may overrate it: go along its x as far as the losses of all rows fall.
                at_zero = problem.y * problem.offset.added(np.zeros(n))
                way = margins - at_zero
                descent = Descent(problem.loss, at_zero, way, Prox(centre, 0.0), problem.samples, 0.0, float(ridge * x @ x))
                t = line_search(descent, math.nan)
                x *= t
                margins = at_zero + t * way
            elif x.any() and not smooth:
                delta = min(delta, _first_delta(problem, margins, free))
                jump_middles(problem.loss, margins, centre)
        state = NewtonState(
            passes=passes,
            ridge=ridge,
            x=x,
            gap=math.inf,
            which=natural_order(n),
            rows=rows,
            samples=problem.samples,
            work=np.empty(n),
            margins=margins,
            beta=np.zeros(n),
            prox=Prox(centre, 0.0 if smooth else delta),
            all_beta=np.zeros(n),
            u=np.zeros(len(x)),
            residual=np.zeros(len(x)),
            box=_box(problem, len(x)),
            products=products,
        )
        self._update_dual(problem, state)
        if smooth:
            curvatures(problem.loss, state.beta, 0.0, problem.c, state.work)
            if not state.work.any():
                # All rows in the linear part of the loss (a smooth hinge of width 1 at w = 0): only a proximal term has curvature. After
                # a sample, δ is the sample's: 0, and thus no term before step 6, unless the sample needed one itself.
                state.prox = Prox(centre, delta)
                self._update_dual(problem, state)
        state.unshrink_gap = UNSHRINK_AT * state.gap
        if warm is None and passes == 0.0:
            state.one_in = _first_one_in(problem)
        return state

    def _solve_sample(
        self, problem: Problem, x: np.ndarray, rng: np.random.Generator, products: Any
    ) -> tuple[np.ndarray, float, float, float]:
        """Return (x, δ, passes) of a sample of the rows, half of each class where that can be; x as it is where rows are few.

        The last number is that of the rows for which the sample's free ones stand.
        """
        size = problem.n // SAMPLE_ONE_IN
        smooth = not problem.loss.has_kink()
        if size < max((SMOOTH_SAMPLE_PER_FEATURE if smooth else SAMPLE_PER_FEATURE) * problem.d, SAMPLE_LEAST):
            return x, self._delta(problem), 0.0, 0.0
        chosen, weights = _draw(problem, size, rng)
        sample = problem.subset(chosen, weights)
        state = self._start(sample, rng, products=products)
        for _ in range(SAMPLE_STEPS):
            if state.gap <= SAMPLE_GAP:
                break
            self._epoch(sample, state)
        curvatures(problem.loss, state.beta, state.prox.delta, state.samples.c, state.work)
        free = problem.n * float(state.samples.c[state.work > 0.0].sum())
        return state.x, state.prox.delta, state.passes * sample.n / problem.n, free

    def epoch(self, problem: Problem, state: NewtonState | SmallState, rng: np.random.Generator) -> None:
        if isinstance(state, SmallState):
            small_epoch(state, self._delta(problem))
        else:
            self._epoch(problem, state)

    def _epoch(self, problem: Problem, state: NewtonState) -> None:
        # 2) outer loop: move the centre if the inner problem is solved, or too hard
        solved = state.no_descent or state.penalty_gap <= SOLVED * state.prox_term
        # Where the run goes on although x and β are good enough, the certificate is that of another w, such as w(β) of a kernel machine. At
        # the solution of the inner problem both are the same.
        again = state.gap <= state.tol and state.penalty_gap > EXACT * state.gap * state.primal and not state.no_descent
        if state.prox.delta > 0.0 and ((solved and not again) or state.steps >= INNER_STEPS):
            rhs = self._move_centre(problem, state, DELTA_SOLVED if solved else DELTA_UNSOLVED)
            state.steps, centre_moved = 0, True
        else:
            rhs, centre_moved = -state.residual, False
            state.steps += 1

        # 3) Newton system
        direction = self._solve(problem, state, rhs)

        # 4) line search on F. The β of shrunk rows are constant: their part of F is −Σ cβm, with the slope of all rows less the active.
        steps_into(state.rows, direction, state.samples.y, state.work)
        linear = float(state.ridge * state.x @ direction)
        if not state.all_active():
            linear -= float(state.u @ direction) - float((state.samples.c * state.beta) @ state.work)
        quadratic = float(state.ridge * direction @ direction)
        descent = Descent(problem.loss, state.margins, state.work, state.prox, state.samples, linear, quadratic)
        first = math.nan if centre_moved else -float(state.residual @ direction)
        t = line_search(descent, first)
        if state.box is None:
            state.x += t * direction
        else:  # F is convex along the direction: within the bounds it is least at their end if its minimum is beyond them
            t = min(t, state.box.longest_step(state.x, direction))
            state.x = state.box.moved(state.x, direction, t)
        state.margins += t * state.work
        state.no_descent = t == 0.0
        state.passes += 2.0 * len(state.which) / problem.n

        # 5) shrink rows whose margins some steps like this one would not carry to where β leaves its bound
        if t > 0.0 and state.gap < SHRINK_BELOW:
            self._shrink(problem, state, t)

        # 6) dual point of the new margins, its sum u, and the gap
        tangent = self._tangent_dual(problem, state, t)
        self._update_dual(problem, state)
        state.tangent_gap = tangent / state.primal if state.primal > 0.0 else math.inf
        if state.prox.delta == 0.0 and state.steps == PLAIN_STEPS and state.gap > PLAIN_GAP:
            # Part of step 2. A smooth loss with few free variables is as hard as the hinge: the proximal term makes more of them free.
            state.prox, state.steps = Prox(state.beta.copy(), self._delta(problem)), 0
            self._update_dual(problem, state)

        # 7) unshrink all rows: the gap of the active ones says nothing about the others
        if not state.all_active() and (state.gap <= max(state.unshrink_gap, state.tol) or state.no_descent):
            self._unshrink(problem, state)

    def _delta(self, problem: Problem) -> float:
        """Return the first δ in the units of this problem's margins."""
        return self.delta * float(problem.offset.scale)

    def _largest_delta(self, problem: Problem) -> float:
        """Return the cap of a growing δ: `delta`, or the mean of cᵢ‖xᵢ‖²/l2, the curvature of D in βᵢ, without which δ would be nothing."""
        return max(self._delta(problem), float(inner(problem.c, problem.sqnorms)) / (problem.n * problem.l2))

    def _solve(self, problem: Problem, state: NewtonState, rhs: np.ndarray) -> np.ndarray:
        """Solve (diag(ridge) + Σ cᵢ curvature_at(βᵢ, δ) xᵢxᵢᵀ)·direction = rhs, with the least curvature of a free b.

        A plain step on a smooth loss takes the last factor as long as this makes each step much shorter than the one before.

        Sets: factor, curved, decrement, rhs_square.
        """
        plain = state.prox.delta == 0.0
        square, before = float(rhs @ rhs), state.rhs_square
        state.rhs_square = square
        if plain and state.factor is not None:
            below = _reuse_below(problem)
            if square <= REUSE_TRIED * below * before:  # else the decrement, a product with the same factor, is hardly below either
                direction = _solved(state, rhs)
                if (decrement := float(rhs @ direction)) <= below * state.decrement:
                    state.decrement = decrement
                    return direction
        curvatures(problem.loss, state.beta, state.prox.delta, state.samples.c, state.work)
        state.curved = state.work.copy() if plain and state.one_in == 1 and state.box is None else None
        if plain and state.one_in > 1:
            # The first systems of wide rows, for which no sample was solved: some rows stand for all.
            state.work[np.arange(len(state.work)) % state.one_in != 0] = 0.0
            state.work *= state.one_in
            state.one_in //= ONE_IN_GROWTH
        H = gram_of_rows(state.rows, state.work, len(state.x), state.products)
        H[np.diag_indices(len(H))] += state.ridge
        if state.ridge[-1] == 0.0:
            H[-1, -1] = max(H[-1, -1], _least_curvature(state) * problem.intercept_scale**2)
        if state.box is None:
            state.factor, direction = factor_and_solve(H, rhs)
        else:
            state.factor = BoundedSystem(H, state.box)
            direction = _solved(state, rhs)
        state.decrement = float(rhs @ direction)
        return direction

    def _tangent_dual(self, problem: Problem, state: NewtonState, t: float) -> float:
        """Put the tangents' β after a step of t into `all_beta`; return its gap, or infinity where it is not near the tolerance.

        With t = 1 its u is ridge·x: no gradient is left, whose square would be divided by l2, but an error of second order in β.
        """
        near = state.decrement <= math.sqrt(state.tol) * state.primal
        if state.curved is None or not near or not state.all_active():
            return math.inf
        loss, clipped = problem.loss, np.zeros(len(state.x))
        if tangent_points(loss, state.beta, state.curved, state.work, t, state.samples, state.all_beta):
            add_in_threads(state.rows, state.work, clipped)
        rest = gap_part((1.0 - t) * state.residual - clipped, state.ridge)
        return rest + float(fenchel_gap(loss, state.margins, state.all_beta, state.samples.c))

    def _move_centre(self, problem: Problem, state: NewtonState, factor: float) -> np.ndarray:
        """Move the centre to β and change δ by a factor; return the right-hand side of the next Newton system.

        At the old margins the new proximal term would take half of the free variables to a bound. The right-hand side predicts their
        changes by tangents instead, beyond the bounds if need be: that step puts the margins where the new centre needs them.

        Sets: prox.
        """
        delta = state.prox.delta
        if factor > 1.0:
            largest = max(self._largest_delta(problem), delta)
            delta = min(max(factor, (largest / delta) ** FAR) * delta, largest)
        else:
            delta *= factor
        state.prox = Prox(state.beta.copy(), delta)
        predicted_changes(problem.loss, state.margins, state.prox, state.samples, state.work)
        u = state.u.copy()
        add_in_threads(state.rows, state.work, u)
        return u - state.ridge * state.x

    def _update_dual(self, problem: Problem, state: NewtonState) -> None:
        """Update the dual variables of the active rows to the margins. Sets: beta, u, residual, prox_term, gap."""
        if state.all_active() and (state.steps == 0 or not problem.loss.has_kink()):
            # u afresh, with each inner problem: at first it is so large that its rounding would not let a small P be reached. The β of a
            # smooth loss all change in every step, so that this costs nothing.
            state.u[:], state.beta[:] = 0.0, 0.0
        fenchel, loss, state.prox_term = dual_points(problem.loss, state.margins, state.prox, state.samples, state.beta, state.work)
        add_in_threads(state.rows, state.work, state.u)
        if state.all_active() and not state.beta.any():
            state.u[:] = 0.0  # what rounding leaves of it would carry a free b, which has no curvature here, far away
        state.residual = state.ridge * state.x - state.u
        # P(w) − D(β) = Σ c·(Fenchel–Young gap) + ‖l2·w − u‖²/(2·l2). A free b asks for Σ cβy = 0: gap_part has its size as an estimate.
        primal = loss + state.shrunk_loss + 0.5 * float(state.ridge * state.x @ state.x)
        state.penalty_gap = penalty_gap(problem.penalty, state.x, state.u, state.ridge)
        state.gap = (fenchel + state.penalty_gap) / primal if primal > 0 else math.inf
        state.primal = primal

    def _shrink(self, problem: Problem, state: NewtonState, t: float) -> None:
        """Shrink rows; t·state.work is the last change of their margins. Sets: the active rows with their vectors, and the shrunk loss."""
        shrink = np.empty(len(state.which), dtype=np.bool_)
        # Margins near the kink move by about δ when δ is halved.
        least = state.shrink_steps / SHRINK_STEPS * state.prox.delta
        steps = state.shrink_steps * t
        count, loss = find_shrinkable(problem.loss, state.margins, state.beta, state.work, steps, least, state.samples.c, shrink)
        if count < SHRINK_SHARE * len(shrink):
            return
        keep = ~shrink
        state.all_beta[state.which] = state.beta
        self._set_active(
            problem,
            state,
            state.which[keep],
            margins=state.margins[keep],
            beta=state.beta[keep],
            prox=Prox(state.prox.centre[keep], state.prox.delta),
            shrunk_loss=state.shrunk_loss + loss,
        )

    def _unshrink(self, problem: Problem, state: NewtonState) -> None:
        """Make all rows active, with one full gradient pass. Sets: as `_shrink` and `_update_dual`; unshrink_gap, shrink_steps."""
        state.all_beta[state.which] = state.beta
        # The centre of a shrunk row is its β, to which it would have been moved.
        centre = state.all_beta.copy()
        centre[state.which] = state.prox.centre
        which, margins = natural_order(problem.n), np.empty(problem.n)
        margins_into(bias_column(problem, some(problem.rows, which)), state.x, problem.samples, margins)
        beta, prox = state.all_beta.copy(), Prox(centre, state.prox.delta)
        self._set_active(problem, state, which, margins=margins, beta=beta, prox=prox, shrunk_loss=0.0)
        state.passes += 1.0
        active_gap = max(state.gap, state.tol)
        self._update_dual(problem, state)
        state.unshrink_gap = UNSHRINK_AT * state.gap
        if state.gap > UNSHRINK_ERROR * active_gap:
            state.shrink_steps *= SHRINK_GROWTH

    def _set_active(self, problem: Problem, state: NewtonState, which: np.ndarray, **changed: Any) -> None:
        """Replace the active rows and what belongs to them, in one statement, which no interrupt divides."""
        rows = bias_column(problem, some(problem.rows, which))
        samples = problem.samples if len(which) == problem.n else problem.some_samples(which)
        vars(state).update(which=which, rows=rows, samples=samples, work=np.empty(len(which)), factor=None, curved=None, **changed)

    def plan(self, problem: Problem) -> str:
        return "small" if is_small(problem) else _precision(problem).__name__

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, NewtonState | SmallState]:
        few = problem.head(4)
        if is_small(problem):
            small = self._start_small(few, None)
            self.epoch(few, small, rng)
            return few, small
        state = self._start(few, rng, products=_precision(problem))
        for _ in range(2):
            self._epoch(few, state)
        self._shrink(few, state, 1.0)
        return few, state

    def dual(self, problem: Problem, state: NewtonState | SmallState) -> np.ndarray:
        if isinstance(state, SmallState):
            return state.point.beta
        beta = state.all_beta.copy()
        if not (state.all_active() and state.tangent_gap < state.gap):
            beta[state.which] = state.beta
        return beta

    def gap_estimate(self, problem: Problem, state: NewtonState | SmallState) -> float:
        # The gap of some rows says nothing about the others.
        if isinstance(state, SmallState):
            return state.gap
        return min(state.gap, state.tangent_gap) if state.all_active() else math.inf


def _draw(problem: Problem, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw about `size` rows, at most about twice as many, half of them from each class as far as it has rows; return them and weights.

    Rows with more than the mean of c‖x‖² are drawn more often, in proportion to it, and weigh less for it (Drineas, Kannan & Mahoney
    2006): a few long rows may be all that is known of a rare feature, whose coefficient a sample without them would leave to chance.
    """
    sides = [np.flatnonzero((problem.y == sign) & (problem.c > 0)) for sign in (1.0, -1.0)]
    sides = [members for members in sides if len(members)]
    chosen, weights = [], []
    for members in sides:
        squares = problem.c[members] * problem.sqnorms[members]
        mean = float(squares.mean())
        longer = np.maximum(squares / mean, 1.0) if 0.0 < mean < math.inf else np.ones(len(members))
        likely = np.minimum(size / (len(sides) * len(members)) * longer, 1.0)
        drawn = rng.random(len(members)) < likely
        weight = problem.c[members[drawn]] / likely[drawn]
        chosen.append(members[drawn])
        weights.append(weight * (problem.c[members].sum() / weight.sum()))
    return np.concatenate(chosen).astype(natural_order(0).dtype), np.concatenate(weights)


def _box(problem: Problem, size: int) -> Box | None:
    """Return the bounds of the unknowns; None where no coefficient has any."""
    if problem.bounds is None:
        return None
    low, high = problem.bounds
    rest = size - problem.d
    return Box(np.append(low, np.full(rest, -math.inf)), np.append(high, np.full(rest, math.inf)))


def _solved(state: NewtonState, rhs: np.ndarray) -> np.ndarray:
    """Return the direction of the present system: to the minimum of its quadratic problem, within bounds where there are any."""
    assert state.factor is not None
    if isinstance(state.factor, BoundedSystem):
        return state.factor.solve(rhs, state.x)
    return solve_with(state.factor, rhs)


def _reuse_below(problem: Problem) -> float:
    """Return the part of the last decrement up to which another step with the same factor pays, by the costs of both.

    A step that forms its own system costs 1 + system/step times as much, and makes NEWTON_RATE of the decrement.
    """
    data = layers(problem.rows).data
    width, dense = stored(data) / data.length(), is_dense(data)
    product = machine.LOOP_PRODUCT if not dense else machine.BLAS_PRODUCT if problem.d > machine.NARROW else machine.NARROW_PRODUCT
    step = width * machine.SCORE_ENTRY[0 if dense else 1] + machine.NEWTON_ROW
    return float(NEWTON_RATE ** (step / (step + product * width * width)))


def _first_one_in(problem: Problem) -> int:
    """Return one row in how many makes the first system: one in one, except for dense rows so wide that the BLAS forms it."""
    one_in = FIRST_ONE_IN if is_dense(problem.rows) and problem.d > machine.NARROW else 1
    while one_in > 1 and problem.n < one_in * ROWS_PER_FEATURE * problem.d:
        one_in //= ONE_IN_GROWTH
    return max(one_in, 1)


def _precision(problem: Problem) -> Any:
    """Return the type in which rows are multiplied: float32 where the errors of a system, a random sum over the rows, are far below l2."""
    if not is_dense(problem.rows) or not problem.loss.is_smooth():
        return np.float64
    trace = problem.loss.curvature() * float(inner(problem.c, problem.sqnorms))
    return np.float32 if 2.0**-24 * trace / math.sqrt(problem.n) <= SINGLE_SHARE * problem.l2 else np.float64


def _first_centre(problem: Problem, warm: Warm | None) -> np.ndarray:
    """Return the dual variables of a warm start, which are not used without its coefficients; or zeros."""
    if warm is None or warm.coef is None or warm.dual is None:
        return np.zeros(problem.n)
    return np.clip(warm.dual, problem.loss.lower_bound(), problem.loss.upper_bound())


def _least_curvature(state: NewtonState) -> float:
    """Return the least curvature of a free b: LEAST_CURVATURE, in units of Σ cβ where that is below 1.

    Where nearly all rows are beyond their margins, P, Σ cβ and every curvature are tiny together.
    """
    mass = float(inner(state.samples.c, np.abs(state.beta)))
    return LEAST_CURVATURE * min(1.0, max(mass, TINY)) / float(state.samples.offset.scale)


def _first_delta(problem: Problem, margins: np.ndarray, expected: float) -> float:
    """Return the δ that leaves FREE_… variables free: with a centre amid the jump of β, those whose margin is within δ/2 of the kink.

    `expected` is the number of free variables that the sample foretells.

    The sample's w has put the margins nearly where they belong, so that the rows near the kink are to be decided. A larger δ would fill the
    first systems with rows that are not.
    """
    some_rows = min(problem.n // FREE_ONE_IN, int(FREE_EXPECTED * expected))
    count = min(problem.n - 1, max(FREE_PER_FEATURE * problem.d, some_rows))
    distance = np.empty(problem.n)
    kink_distances(problem.loss, margins, distance)
    distance.partition(count)
    return max(2.0 * float(distance[count]), LEAST_DELTA * float(problem.offset.scale))
