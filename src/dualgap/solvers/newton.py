"""Newton: a semismooth Newton method inside a proximal-point loop on the dual variables. For few features and many rows.

    outer   β_c ← argmax D(β) − (δ/2) Σ cᵢ(βᵢ − β_cᵢ)²,   δ shrinking
    inner   its dual: minimise over (w, b)   F = R(w) + Σ cᵢ Mᵢ(mᵢ),   M'(m) = −β⁺(m),   β⁺ = dual_step(β_c, m, δ)
            Newton system (diag(l2) + Σ cᵢ bend(βᵢ⁺, δ) xᵢxᵢᵀ) s = u(β⁺) − l2·w,   exact line search on a monotone derivative

With δ = 0 and a smooth loss this is plain Newton. For the hinge the proximal term does what smoothing would, but since its centre moves
to the solution, δ need not go to zero and the system stays well conditioned. Only rows with 0 < β⁺ < 1 enter the system. A free
intercept is one more unknown, without a penalty. Many rows: a first w comes from a sample of them, chosen and solved in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.jit import kernel
from dualgap.linalg import gram_of_rows, solve_positive
from dualgap.penalties import L2
from dualgap.problem import Problem
from dualgap.rows import WithBias, accumulate, scores
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register

__all__ = ["Newton"]

LARGEST = 4000  # features for which a dense Cholesky factor (128 MB) is still reasonable
SOLVED = 0.3  # the inner problem is solved once its error is below this part of what the proximal term holds back
LEAST_CURVATURE = 1e-5  # of a free intercept: as if one row in a hundred thousand bent with slope 1
PLAIN_STEPS = 12  # of plain Newton on a smooth loss, before the proximal term is brought in if the gap is still wide
SAMPLE = 8  # a first w comes from one row in so many …
SAMPLE_PER_FEATURE = 4  # … as long as that leaves so many rows a feature
SAMPLE_GAP = 1e-2  # relative gap to which the sample is solved: its w is no closer than that to the whole problem's


class Prox(NamedTuple):
    """The proximal term (δ/2) Σ cᵢ(βᵢ − centreᵢ)²."""

    centre: np.ndarray
    delta: float


@dataclass
class NewtonState(State):
    rows: Any = None
    ridge: Any = None  # penalty of each unknown
    x: Any = None  # the unknowns: w, then the intercept's coefficient
    margins: Any = None
    prox: Any = None
    beta: Any = None
    u: Any = None  # Σ cβyx of that beta
    residual: Any = None  # gradient of F: ridge·x − u
    work: Any = None  # n numbers of scratch
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
    sparse_cost: ClassVar[str] = "all rows"
    summary: ClassVar[str] = "semismooth Newton in a proximal-point loop, d × d systems"

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < math.inf:
            raise ValueError(f"delta={self.delta!r} must be a positive number")

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
        state = NewtonState(
            rows=WithBias(problem.rows, problem.intercept_scale, 0.0) if biased else problem.rows,
            ridge=ridge,
            x=np.zeros(len(ridge)),
            margins=np.zeros(n),
            beta=np.zeros(n),
            u=np.zeros(len(ridge)),
            work=np.empty(n),
        )
        centre, delta = np.zeros(n), self.delta
        if warm is not None and warm.coef is not None:
            state.x[: problem.d] = warm.coef
            if biased:
                state.x[-1] = warm.intercept / problem.intercept_scale
            if warm.dual is not None:
                centre = np.clip(warm.dual, 0.0, problem.loss.ceiling())
        else:
            delta = self._start_from_sample(problem, state, rng)
        if state.x.any():
            scores(state.rows, state.x, state.margins)
            state.margins *= problem.y
        state.prox = Prox(centre, 0.0 if math.isfinite(problem.loss.curvature()) else delta)
        self._respond(problem, state)
        if state.prox.delta == 0.0 and not self._any_active(problem, state):
            # All of a smooth loss's rows in its linear part (δ = 1 at w = 0, say): nothing bends, until the proximal term does.
            state.prox = Prox(centre, delta)
            self._respond(problem, state)
        return state

    def _any_active(self, problem: Problem, state: NewtonState) -> bool:
        bends(problem.loss, state.beta, state.prox.delta, problem.c, state.work)
        return bool(state.work.any())

    def rehearse(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, NewtonState]:
        problem.subset(np.arange(1), np.ones(1))  # the copy of rows that a sample takes
        return super().rehearse(problem, rng)

    def _start_from_sample(self, problem: Problem, state: NewtonState, rng: np.random.Generator) -> float:
        """x from a sample of the rows, half of each class where it can be; returns the δ to go on with."""
        size = problem.n // SAMPLE
        if size < max(SAMPLE_PER_FEATURE * problem.d, 500):
            return self.delta
        chosen, weights = [], []
        for sign in (1.0, -1.0):
            members = np.flatnonzero((problem.y == sign) & (problem.c > 0))
            count = min(len(members), size // 2)
            part = np.sort(rng.choice(members, count, replace=False))
            chosen.append(part)
            weights.append(problem.c[part] * (problem.c[members].sum() / problem.c[part].sum()))
        sample = problem.subset(np.concatenate(chosen), np.concatenate(weights))
        inner = self.start(sample, rng)
        for _ in range(30):
            if inner.gap <= SAMPLE_GAP:
                break
            self.epoch(sample, inner, rng)
        state.x[:] = inner.x
        state.passes += inner.passes * sample.n / problem.n
        return inner.prox.delta

    def epoch(self, problem: Problem, state: NewtonState, rng: np.random.Generator) -> None:
        if state.prox.delta > 0.0 and (self._unsolved(state) <= SOLVED * state.moved or state.steps >= 20 or state.stuck):
            self._move_centre(problem, state)
        else:
            bends(problem.loss, state.beta, state.prox.delta, problem.c, state.work)
            self._step(problem, state, -state.residual)
            state.steps += 1
            if state.prox.delta == 0.0 and state.steps == PLAIN_STEPS and state.gap > 0.1:
                # A smooth loss with few rows in its curved part is as hard as the hinge: the proximal term widens that part.
                state.prox, state.steps = Prox(state.beta.copy(), self.delta), 0
                self._respond(problem, state)

    def _move_centre(self, problem: Problem, state: NewtonState) -> None:
        """The centre moves to β and δ is halved; the first step takes the rows that were active to stay so.

        At the old margins the new proximal term would push half of the active rows to a bound; a step that lets them answer
        linearly, beyond their bounds if need be, puts their margins where the new centre wants them.
        """
        delta = 0.5 * state.prox.delta
        state.prox = Prox(state.beta.copy(), delta)
        answer_linearly(problem.loss, state.margins, state.prox, problem.samples, state.work)
        u = state.u.copy()
        accumulate(state.rows, state.work, u)
        bends(problem.loss, state.beta, delta, problem.c, state.work)
        self._step(problem, state, u - state.ridge * state.x)
        state.steps = 0

    def _step(self, problem: Problem, state: NewtonState, rhs: np.ndarray) -> None:
        """A Newton step with the curvatures in state.work, then the answer of β to it."""
        H = gram_of_rows(state.rows, state.work, len(state.x))
        H[np.diag_indices(len(H))] += state.ridge
        if state.ridge[-1] == 0.0:
            # With few active rows b has hardly any curvature, and an undamped step would leave the data's scale altogether.
            H[-1, -1] = max(H[-1, -1], LEAST_CURVATURE * problem.intercept_scale**2)
        direction = solve_positive(H, rhs)
        scores(state.rows, direction, state.work)
        along = float(state.ridge * state.x @ direction), float(state.ridge * direction @ direction)
        t = line_search(problem.loss, state.margins, state.work, state.prox, problem.samples, along)
        state.x += t * direction
        advance(state.margins, state.work, problem.y, t)
        state.stuck = t == 0.0
        state.passes += 2.0
        self._respond(problem, state)

    def _respond(self, problem: Problem, state: NewtonState) -> None:
        """β⁺ at the present margins, u of it, and the gap."""
        fenchel, loss, state.moved = respond(problem.loss, state.margins, state.prox, problem.samples, state.beta, state.work)
        accumulate(state.rows, state.work, state.u)
        state.residual = state.ridge * state.x - state.u
        # P(w) − D(β) = Σ c·(Fenchel–Young gap) + ‖l2·w − u‖²/(2·l2); a free intercept's part is the certificate's business.
        gap = fenchel + self._unsolved(state)
        primal = loss + 0.5 * float(state.ridge * state.x @ state.x)
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
        return state.beta.copy()

    def intercept(self, problem: Problem, state: NewtonState) -> float:
        """The intercept as the method carries it, which `model` leaves to the exact minimisation."""
        return 0.0 if problem.intercept == "none" else float(problem.intercept_scale * state.x[-1])

    def hint(self, problem: Problem, state: NewtonState) -> float:
        return state.gap


@kernel
def respond(loss, margins, prox, samples, beta, change):
    """β ← β⁺(m) and change = cᵢyᵢ(β⁺−β); returns Σ c(φ(m) − ψ(β⁺) + β⁺m), Σ cφ(m) and (δ/2) Σ c(β⁺ − centre)²."""
    gap, value, moved = 0.0, 0.0, 0.0
    for i in range(margins.shape[0]):
        c, m, centre = samples.c[i], margins[i], prox.centre[i]
        new = loss.dual_step(centre, m, prox.delta)
        change[i] = c * samples.y[i] * (new - beta[i])
        beta[i] = new
        phi = loss.value(m)
        gap += c * (phi - loss.psi(new) + new * m)
        value += c * phi
        moved += c * (new - centre) * (new - centre)
    return gap, value, 0.5 * prox.delta * moved


@kernel
def bends(loss, beta, delta, c, out):
    for i in range(beta.shape[0]):
        out[i] = c[i] * loss.bend(beta[i], delta)


@kernel
def answer_linearly(loss, margins, prox, samples, out):
    """out = cᵢyᵢ·(the change of β that its tangent at the centre foretells); 0 for rows at a bound."""
    for i in range(margins.shape[0]):
        beta = prox.centre[i]
        bend = loss.bend(beta, prox.delta)
        out[i] = 0.0
        if bend > 0.0:
            out[i] = samples.c[i] * samples.y[i] * bend * loss.pull(beta, margins[i])


@kernel
def advance(margins, ds, y, t):
    for i in range(margins.shape[0]):
        margins[i] += t * y[i] * ds[i]


@kernel
def slope_at(loss, margins, ds, prox, samples, along, t):
    """dF/dt at x + t·direction; ds are the direction's scores."""
    s = along[0] + t * along[1]
    for i in range(margins.shape[0]):
        dm = samples.y[i] * ds[i]
        s -= samples.c[i] * dm * loss.dual_step(prox.centre[i], margins[i] + t * dm, prox.delta)
    return s


@kernel
def line_search(loss, margins, ds, prox, samples, along):
    """The t where the derivative, which never falls with t, passes zero; the full step when that is good enough."""
    first = slope_at(loss, margins, ds, prox, samples, along, 0.0)
    if not first < 0.0:
        return 0.0
    low, f_low, high = 0.0, first, 1.0
    f_high = slope_at(loss, margins, ds, prox, samples, along, 1.0)
    if abs(f_high) <= 0.1 * abs(first):
        return 1.0
    while f_high < 0.0 and high < 1e6:
        low, f_low, high = high, f_high, 2.0 * high
        f_high = slope_at(loss, margins, ds, prox, samples, along, high)
    t = high
    for k in range(40):
        t = 0.5 * (low + high) if k % 3 == 2 else low + (high - low) * f_low / (f_low - f_high)
        f = slope_at(loss, margins, ds, prox, samples, along, t)
        if abs(f) <= 0.01 * abs(first):
            break
        if f < 0.0:
            low, f_low, f_high = t, f, 0.5 * f_high  # the end that stays counts half: regula falsi, Illinois
        else:
            high, f_high, f_low = t, f, 0.5 * f_low
    return t
