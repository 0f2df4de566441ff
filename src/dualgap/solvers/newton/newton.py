"""Newton: a semismooth Newton method inside a proximal-point loop on the dual variables. For few features and many rows.

    outer   β_c ← argmax D(β) − (δ/2) Σ cᵢ(βᵢ − β_cᵢ)²,   δ shrinking
    inner   its dual: minimise over (w, b)   F = R(w) + Σ cᵢ Mᵢ(mᵢ),   M'(m) = −β⁺(m),   β⁺ = dual_step(β_c, m, δ)
            Newton system (diag(l2) + Σ cᵢ curvature_at(βᵢ⁺, δ) xᵢxᵢᵀ) s = u(β⁺) − l2·w,   exact line search on a monotone derivative

With δ = 0 and a smooth loss this is plain Newton. For the hinge the proximal term does what smoothing would, but since its centre moves
to the solution, δ need not go to zero and the system stays well conditioned. Only rows with 0 < β⁺ < 1 enter the system. A free
intercept is one more unknown, without a penalty. Many rows: a first w comes from a sample of them, chosen and solved in the same way.

Most rows soon lie so far beyond a bound that no step brings them back: they are closed, which leaves their β, and what it adds to u, as it
is. The steps then cost as much as the open rows; all are opened again before a gap is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import L2, WithBias, accumulate, gram_of_rows, natural_order, number, scores_in_threads, solve_positive, some
from dualgap.problem import Problem, Samples
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.steps import Descent, Prox, answer_linearly, bends, find_far, line_search, respond

__all__ = ["Newton"]

LARGEST = 4000  # features for which a dense Cholesky factor (128 MB) is still reasonable
SOLVED = 0.3  # the inner problem is solved once its error is below this part of what the proximal term holds back
LEAST_CURVATURE = 1e-5  # of a free intercept: as if one row in a hundred thousand bent with slope 1
PLAIN_STEPS = 12  # of plain Newton on a smooth loss, before the proximal term is brought in if the gap is still wide
REACH = 4.0  # a row is closed when so many steps like the last would not bring it to its bound; more, where that proved too few
CLOSE_BELOW = 0.1  # relative gap below which rows are closed: before, steps go anywhere
REOPEN = 1e-3  # all rows are opened once the gap of the open ones has fallen to this part of what it was with all
ACTIVE_PER_FEATURE = 4  # rows between the bounds when a sample's w is taken over: so many a feature …
ACTIVE_SHARE = 20  # … or one in so many
PATIENCE = 20  # steps on one inner problem before δ, which makes it harder the smaller it is, is raised
SAMPLE = 8  # a first w comes from one row in so many …
SAMPLE_PER_FEATURE = 4  # … as long as that leaves so many rows a feature …
SMOOTH_SAMPLE_PER_FEATURE = 16  # … or so many for a smooth loss, which a few rows far out on the whole would cost too many steps
SAMPLE_GAP = 1e-2  # relative gap to which the sample is solved: its w is no closer than that to the whole problem's


@dataclass
class NewtonState(State):
    ridge: Any = None  # penalty of each unknown
    x: Any = None  # the unknowns: w, then the intercept's coefficient
    all_beta: Any = None  # of all rows; that of open ones as it was when they were opened
    closed_loss: float = 0.0  # Σ cφ over the closed rows, when they were closed
    which: Any = None  # the open rows, and of them:
    rows: Any = None
    samples: Any = None
    margins: Any = None
    beta: Any = None
    prox: Any = None
    work: Any = None  # scratch
    u: Any = None  # Σ cβyx over all rows
    residual: Any = None  # gradient of F: ridge·x − u
    reopen_at: float = 0.0
    reach: float = REACH
    moved: float = 0.0  # (δ/2) Σ c(β − centre)²
    steps: int = 0  # Newton steps since the centre moved
    stuck: bool = False  # whether the last line search found no way down
    gap: float = math.inf  # relative gap of (x, β) by the running sums; only a certificate proves it


@register
@dataclass(frozen=True)
class Newton(Solver):
    """Semismooth Newton in a proximal-point loop; needs few features (it solves d × d systems) and any number of rows.

    Parameters
    ----------
    delta : float
        The first proximal weight, for the hinge; it is halved each time the centre moves.

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
    stall_steps: ClassVar[float] = 40
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "semismooth Newton in a proximal-point loop, d × d systems"

    def __post_init__(self) -> None:
        number("delta", self.delta)

    def supports(self, problem: Problem) -> Support:
        if not isinstance(problem.penalty, L2):
            return no("its Newton system needs the l2 penalty alone")
        if problem.kernel is not None:
            return no("it needs features, not a kernel")
        if problem.d > LARGEST:
            return no(f"a dense {problem.d} × {problem.d} system is too large; it takes up to {LARGEST} features")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> NewtonState:
        biased = problem.intercept != "none"
        ridge = np.full(problem.d + biased, problem.l2)
        if problem.intercept == "free":
            ridge[-1] = 0.0
        n = problem.n
        state = NewtonState(ridge=ridge, x=np.zeros(len(ridge)), all_beta=np.zeros(n), u=np.zeros(len(ridge)))
        self._take(problem, state, natural_order(n))
        state.margins, state.beta = np.zeros(n), np.zeros(n)
        centre, delta, sampled = np.zeros(n), self.delta, False
        if warm is not None and warm.coef is not None:
            state.x[: problem.d] = warm.coef
            if biased:
                state.x[-1] = warm.intercept / problem.intercept_scale
            if warm.dual is not None:
                centre = np.clip(warm.dual, 0.0, problem.loss.upper_bound())
        else:
            delta = self._start_from_sample(problem, state, rng)
            sampled = bool(state.x.any())
        if state.x.any():
            scores_in_threads(state.rows, state.x, state.margins)
            state.margins *= problem.y
            if sampled and not math.isfinite(problem.loss.curvature()):
                centre[:] = 0.5
                delta = min(delta, self._narrow(problem, state))
        state.prox = Prox(centre, 0.0 if math.isfinite(problem.loss.curvature()) else delta)
        self._respond(problem, state)
        if state.prox.delta == 0.0 and not self._any_active(problem, state):
            # All of a smooth loss's rows in its linear part (δ = 1 at w = 0, say): nothing bends, until the proximal term does.
            state.prox = Prox(centre, delta)
            self._respond(problem, state)
        state.reopen_at = REOPEN * state.gap
        return state

    def _take(self, problem: Problem, state: NewtonState, which: np.ndarray) -> None:
        """Let these rows be the open ones; their margins, β and centre are the caller's business."""
        rows: Any = some(problem.rows, which)
        everything = len(which) == problem.n
        state.which = which
        state.rows = rows if problem.intercept == "none" else WithBias(rows, problem.intercept_scale, 0.0)
        state.samples = problem.samples if everything else Samples(problem.y[which], problem.c[which])
        state.work = np.empty(len(which))

    def _close(self, problem: Problem, state: NewtonState, t: float) -> None:
        """Leave out the rows that steps like the last one, t times what is in state.work, will not move."""
        far = np.empty(len(state.which), dtype=np.bool_)
        least = state.reach / REACH * state.prox.delta  # margins about the kink move by as much when δ is halved
        count, loss = find_far(problem.loss, state.margins, state.beta, state.work, state.reach * t, least, state.samples.c, far)
        if 2 * count < len(far):
            return
        near = ~far
        state.closed_loss += loss
        state.all_beta[state.which] = state.beta
        state.margins, state.beta = state.margins[near], state.beta[near]
        state.prox = Prox(state.prox.centre[near], state.prox.delta)
        self._take(problem, state, state.which[near])

    def _reopen(self, problem: Problem, state: NewtonState) -> None:
        state.all_beta[state.which] = state.beta
        # A closed row's centre is its β, where it would have been moved to; an open one keeps its own.
        centre = state.all_beta.copy()
        centre[state.which] = state.prox.centre
        self._take(problem, state, natural_order(problem.n))
        state.closed_loss, state.beta = 0.0, state.all_beta.copy()
        state.prox = Prox(centre, state.prox.delta)
        state.margins = np.empty(problem.n)
        scores_in_threads(state.rows, state.x, state.margins)
        state.margins *= problem.y
        state.passes += 1.0
        believed = max(state.gap, state.tol)
        self._respond(problem, state)
        state.reopen_at = REOPEN * state.gap
        if state.gap > 10.0 * believed:
            state.reach *= 4.0  # rows were closed that should not have been

    def _all_open(self, problem: Problem, state: NewtonState) -> bool:
        return len(state.which) == problem.n

    def _narrow(self, problem: Problem, state: NewtonState) -> float:
        """The δ that, with every centre at ½, leaves a few rows a feature (or one in twenty) between the bounds.

        A sample's w has put the margins nearly where they belong, so that only the rows about the kink are in question; a wider δ would
        have the first systems made of many rows that are not.
        """
        count = min(problem.n - 1, max(ACTIVE_PER_FEATURE * problem.d, problem.n // ACTIVE_SHARE))
        distance = 1.0 - state.margins
        np.abs(distance, out=distance)
        distance.partition(count)
        return max(2.0 * float(distance[count]), 1e-6)

    def _any_active(self, problem: Problem, state: NewtonState) -> bool:
        bends(problem.loss, state.beta, state.prox.delta, state.samples.c, state.work)
        return bool(state.work.any())

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, NewtonState]:
        small, state = super().warm_up(problem, rng)
        self._close(small, state, 1.0)
        return small, state

    def _start_from_sample(self, problem: Problem, state: NewtonState, rng: np.random.Generator) -> float:
        """x from a sample of the rows, half of each class where it can be; returns the δ to go on with."""
        size = problem.n // SAMPLE
        smooth = math.isfinite(problem.loss.curvature())
        if size < max((SMOOTH_SAMPLE_PER_FEATURE if smooth else SAMPLE_PER_FEATURE) * problem.d, 500):
            return self.delta
        chosen, weights = [], []
        for sign in (1.0, -1.0):
            members = np.flatnonzero((problem.y == sign) & (problem.c > 0))
            count = min(len(members), size // 2)
            part = np.sort(rng.choice(members, count, replace=False))
            chosen.append(part)
            weights.append(problem.c[part] * (problem.c[members].sum() / problem.c[part].sum()))
        sample = problem.subset(np.concatenate(chosen).astype(state.which.dtype), np.concatenate(weights))
        inner = self.start(sample, rng)
        for _ in range(30):
            if inner.gap <= SAMPLE_GAP:
                break
            self.epoch(sample, inner, rng)
        state.x[:] = inner.x
        state.passes += inner.passes * sample.n / problem.n
        return inner.prox.delta

    def epoch(self, problem: Problem, state: NewtonState, rng: np.random.Generator) -> None:
        self._advance(problem, state)
        if not self._all_open(problem, state) and (state.gap <= max(state.reopen_at, state.tol) or state.stuck):
            self._reopen(problem, state)

    def _advance(self, problem: Problem, state: NewtonState) -> None:
        if state.prox.delta > 0.0 and (self._unsolved(state) <= SOLVED * state.moved or state.steps >= PATIENCE or state.stuck):
            solved = state.stuck or self._unsolved(state) <= SOLVED * state.moved
            self._move_centre(problem, state, 0.5 if solved else 4.0)
        else:
            bends(problem.loss, state.beta, state.prox.delta, state.samples.c, state.work)
            self._step(problem, state, -state.residual, known=True)
            state.steps += 1
            if state.prox.delta == 0.0 and state.steps == PLAIN_STEPS and state.gap > 0.1:
                # A smooth loss with few rows in its curved part is as hard as the hinge: the proximal term widens that part.
                state.prox, state.steps = Prox(state.beta.copy(), self.delta), 0
                self._respond(problem, state)

    def _move_centre(self, problem: Problem, state: NewtonState, factor: float) -> None:
        """The centre moves to β and δ changes by a factor; the first step takes the rows that were active to stay so.

        At the old margins the new proximal term would push half of the active rows to a bound; a step that lets them answer
        linearly, beyond their bounds if need be, puts their margins where the new centre wants them.
        """
        delta = min(factor * state.prox.delta, max(self.delta, state.prox.delta))
        state.prox = Prox(state.beta.copy(), delta)
        answer_linearly(problem.loss, state.margins, state.prox, state.samples, state.work)
        u = state.u.copy()
        accumulate(state.rows, state.work, u)
        bends(problem.loss, state.beta, delta, state.samples.c, state.work)
        self._step(problem, state, u - state.ridge * state.x)
        state.steps = 0

    def _step(self, problem: Problem, state: NewtonState, rhs: np.ndarray, known: bool = False) -> None:
        """A Newton step with the curvatures in state.work, then the answer of β to it; `known`: β answers to the present centre."""
        H = gram_of_rows(state.rows, state.work, len(state.x))
        H[np.diag_indices(len(H))] += state.ridge
        if state.ridge[-1] == 0.0:
            # With few active rows b has hardly any curvature, and an undamped step would leave the data's scale altogether.
            H[-1, -1] = max(H[-1, -1], LEAST_CURVATURE * problem.intercept_scale**2)
        direction = solve_positive(H, rhs)
        scores_in_threads(state.rows, direction, state.work)
        state.work *= state.samples.y  # what a whole step would add to the margins
        slope = float(state.ridge * state.x @ direction)
        if not self._all_open(problem, state):
            # The closed rows' β stand still: in F they are the line −Σ cβm, whose slope is that of all rows less that of the open.
            slope -= float(state.u @ direction) - float((state.samples.c * state.beta) @ state.work)
        along = slope, float(state.ridge * direction @ direction)
        first = -float(state.residual @ direction) if known else math.nan
        t = line_search(Descent(problem.loss, state.margins, state.work, state.prox, state.samples, along), first)
        state.x += t * direction
        state.margins += t * state.work
        state.stuck = t == 0.0
        state.passes += 2.0 * len(state.which) / problem.n
        if t > 0.0 and state.gap < CLOSE_BELOW:
            self._close(problem, state, t)
        self._respond(problem, state)

    def _respond(self, problem: Problem, state: NewtonState) -> None:
        """β⁺ at the present margins, u of it, and the gap."""
        fenchel, loss, state.moved = respond(problem.loss, state.margins, state.prox, state.samples, state.beta, state.work)
        accumulate(state.rows, state.work, state.u)
        state.residual = state.ridge * state.x - state.u
        # P(w) − D(β) = Σ c·(Fenchel–Young gap) + ‖l2·w − u‖²/(2·l2); a free intercept's part is the certificate's business.
        gap = fenchel + self._unsolved(state)
        primal = loss + state.closed_loss + 0.5 * float(state.ridge * state.x @ state.x)
        state.gap = gap / primal if primal > 0 else math.inf

    def _unsolved(self, state: NewtonState) -> float:
        penalised = state.ridge > 0
        left = 0.5 * float(np.sum(state.residual[penalised] ** 2 / state.ridge[penalised]))
        return left if penalised[-1] else left + abs(float(state.residual[-1]))

    def model(self, problem: Problem, state: NewtonState) -> tuple[np.ndarray, float | None]:
        if problem.intercept == "none":
            return state.x.copy(), 0.0
        return state.x[:-1].copy(), None

    def dual(self, problem: Problem, state: NewtonState) -> np.ndarray:
        beta = state.all_beta.copy()
        beta[state.which] = state.beta
        return beta

    def intercept(self, problem: Problem, state: NewtonState) -> float:
        """The intercept as the method carries it, which `model` leaves to the exact minimisation."""
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.x[-1])

    def gap_estimate(self, problem: Problem, state: NewtonState) -> float:
        # The gap of some rows says nothing of the others.
        return state.gap if self._all_open(problem, state) else math.inf
