"""ProxNewton: second order where an l1 penalty keeps most features out (proximal Newton, coordinate descent, a working set).

    g = −Σ cᵢβᵢyᵢxᵢ,  β = −φ'(m)        H = Σ cᵢφ''(mᵢ) xᵢxᵢᵀ
    Δ ≈ argmin over the working set of g·Δ + ½ Δ·HΔ + R(w + Δ)      by coordinate descent
    then a step along Δ, halved until the objective has fallen by a fair part of what the model promised

The working set holds the features in use and the worst violators of |uⱼ| ≤ l1, u = −g; the rest cost one look each an epoch. Columns of
the working set are scaled by √(cφ'') once an epoch, so that coordinate descent is plain least squares on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dualgap.core import kernel, slopes, total_value, whole_number
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.proof import best_intercept
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.newton import bends

__all__ = ["ProxNewton"]

FLAT = 1e-3  # curvature of a row on a straight part of its loss, against the largest: without it a step there has no end
SHORTEST = 2.0**-30
ROUNDING = 1e-14  # with l1 alone the gap falls with |Δ| and the objective with |Δ|²: near the end no value can tell a good step


@dataclass
class ProxNewtonState(State):
    """The model, the scores x·w + b it gives, and the slopes β there."""

    columns: Any = None  # X, by columns where it is sparse
    w: Any = None
    b: float = 0.0
    scores: Any = None
    beta: Any = None
    value: float = math.inf


@register
@dataclass(frozen=True)
class ProxNewton(Solver):
    """Proximal Newton with a working set of features, for smooth losses with an l1 part.

    Parameters
    ----------
    sweeps : int
        Most passes of coordinate descent over the working set in one Newton step.
    first : int
        Features that the working set starts with; it may double each epoch.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(
    ...     *make_classification(100, 50, random_state=0), loss="logistic", l1=0.02, l2=0.01, intercept="free"
    ... )
    >>> dualgap.solve(problem, "prox_newton", tol=1e-8).status
    'converged'
    """

    sweeps: int = 50
    first: int = 10

    name: ClassVar[str] = "prox_newton"
    summary: ClassVar[str] = "proximal Newton with coordinate descent on a working set of features"
    sparse_cost: ClassVar[str] = "all rows"

    def __post_init__(self) -> None:
        for name in ("sweeps", "first"):
            whole_number(name, getattr(self, name))

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None:
            return no("it works on single features, which a kernel machine does not have")
        if not math.isfinite(problem.loss.curvature()):
            return no("Newton's method on the primal needs a smooth loss, and the hinge has a kink; smooth_hinge has none")
        if problem.l1 == 0:
            return no("without an l1 part every feature is in use, and a working set saves nothing; newton is made for that")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ProxNewtonState:
        warm = warm or Warm()
        w = np.zeros(problem.d) if warm.coef is None else warm.coef.copy()
        state = ProxNewtonState(w=w, beta=np.empty(problem.n))
        X: Any = problem.X[: problem.n]  # a rehearsal has the first rows only
        state.columns = X.tocsc() if hasattr(X, "indptr") else X
        scores = problem.scores(w)
        state.b = best_intercept(problem, scores)
        state.scores = scores + state.b
        state.value = self._value(problem, w, state.b, state.scores)
        slopes(problem.loss, problem.y * state.scores, state.beta)
        return state

    def _value(self, problem: Problem, w: np.ndarray, b: float, scores: np.ndarray) -> float:
        return float(total_value(problem.loss, problem.y * scores, problem.c)) + problem.regulariser(w, b)

    def epoch(self, problem: Problem, state: ProxNewtonState, rng: np.random.Generator) -> None:
        pull = problem.c * problem.y * state.beta
        u = problem.combine(pull)
        chosen = self._working_set(problem, state, u)
        columns = state.columns[:, chosen]
        step, shift = self._direction(problem, state, columns, u[chosen], chosen, float(pull.sum()))
        along = np.asarray(columns @ step).reshape(-1) + shift
        self._search(problem, state, chosen, step, shift, along, u)
        slopes(problem.loss, problem.y * state.scores, state.beta)
        state.passes += 1.0 + 2.0 * len(chosen) / problem.d

    def _working_set(self, problem: Problem, state: ProxNewtonState, u: np.ndarray) -> np.ndarray:
        used = state.w != 0
        excess = np.where(used, np.inf, np.abs(u) - problem.l1)
        room = max(2 * int(np.count_nonzero(used)), self.first)
        if room < problem.d:
            worst = np.argpartition(-excess, room)[:room]
            return np.sort(worst[excess[worst] > 0])
        return np.flatnonzero(excess > 0)

    def _direction(
        self, problem: Problem, state: ProxNewtonState, columns: Any, u: np.ndarray, chosen: np.ndarray, pull: float
    ) -> tuple[np.ndarray, float]:
        """Δ on the working set and for the intercept."""
        bend = np.empty(problem.n)
        bends(problem.loss, state.beta, 0.0, problem.c, bend)
        flat = FLAT * problem.c * problem.loss.curvature()
        root = np.sqrt(np.where(state.beta > 0, np.maximum(bend, flat), bend))
        scaled = as_rows(columns, root)
        squares = np.empty(len(chosen))
        storage.sqnorms(scaled, squares)
        bias = np.array([0.0, 0.0, 0.0, 0.0])  # gradient, curvature, own penalty, step
        if problem.intercept != "none":
            rho = problem.l2 / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
            bias[:3] = rho * state.b - pull, float(root @ root) + rho, rho
        step, r, w = np.zeros(len(chosen)), np.zeros(problem.n), state.w[chosen]
        largest = 0.0
        for _ in range(self.sweeps):
            moved = sweep(scaled, problem.penalty, -u, squares, w, step, r, root, bias)
            largest = max(largest, moved)
            if moved <= 1e-3 * largest:
                break
        return step, float(bias[3])

    def _search(
        self, problem: Problem, state: ProxNewtonState, chosen: np.ndarray, step: Any, shift: float, along: Any, u: Any
    ) -> None:
        """The longest step of 1, ½, ¼, … that lowers the objective by a part of what the direction promises."""
        w, b = state.w, state.b
        full = w.copy()
        full[chosen] += step
        promised = -float(u[chosen] @ step) - shift * float((problem.c * problem.y) @ state.beta)
        promised += problem.regulariser(full, b + shift) - problem.regulariser(w, b)
        slack = ROUNDING * abs(state.value)
        if promised > slack:
            return
        t = 1.0
        while t > SHORTEST:
            trial = w.copy()
            trial[chosen] += t * step
            scores = state.scores + t * along
            value = self._value(problem, trial, b + t * shift, scores)
            if value <= state.value + 1e-3 * t * promised + slack:
                state.w, state.b, state.value = trial, b + t * shift, value
                # Scores that were only ever added to would drift.
                state.scores = problem.scores(trial) + state.b
                return
            t *= 0.5

    def model(self, problem: Problem, state: ProxNewtonState) -> tuple[np.ndarray, float | None]:
        return state.w.copy(), None if problem.intercept == "free" else float(state.b)

    def dual(self, problem: Problem, state: ProxNewtonState) -> np.ndarray:
        return state.beta.copy()


def as_rows(columns: Any, root: np.ndarray) -> Any:
    """The columns of the working set, each entry times its row's factor, as rows that kernels read."""
    if hasattr(columns, "indptr"):
        turned = sparse.csr_array(columns.T)
        turned.data = turned.data * root[turned.indices]
        return storage.csr(turned)
    return storage.dense(np.ascontiguousarray((columns * root[:, None]).T, dtype=np.float64))


@kernel
def sweep(columns, penalty, g, squares, w, step, r, root, bias):
    """One exact step on every coordinate of the model g·Δ + ½‖r‖² + R(w + Δ), r = Σ Δⱼx̃ⱼ, and one on the intercept.

    Returns the largest fall of the model by a coordinate, by its quadratic part.
    """
    largest = 0.0
    for j in range(w.shape[0]):
        if squares[j] > 0.0:
            old = w[j] + step[j]
            new = penalty.prox(old - (g[j] + columns.dot(j, r)) / squares[j], 1.0 / squares[j])
            change = new - old
            if change != 0.0:
                columns.add(j, change, r)
                step[j] += change
                largest = max(largest, squares[j] * change * change)
    if bias[1] > 0.0:
        s = bias[0] + bias[2] * bias[3]
        for i in range(r.shape[0]):
            s += root[i] * r[i]
        change = -s / bias[1]
        for i in range(r.shape[0]):
            r[i] += change * root[i]
        bias[3] += change
        largest = max(largest, bias[1] * change * change)
    return largest
