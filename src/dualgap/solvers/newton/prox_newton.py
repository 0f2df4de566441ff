"""ProxNewton: second order where an l1 penalty keeps most features out (proximal Newton, coordinate descent, a working set).

    g = −u,  u = Σ cᵢβᵢyᵢxᵢ,  β = −φ'(m)        H = Σ cᵢφ''(mᵢ) xᵢxᵢᵀ
    Δ ≈ argmin over the working set of g·Δ + ½ Δ·HΔ + R(w + Δ)      by coordinate descent

README.md has the algorithm; its step numbers stand in the comments here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import kernel, slopes, total_value, whole_number
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.proof import best_intercept
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, register
from dualgap.solvers.newton.proximal import backtrack, curvatures
from dualgap.solvers.newton.unknowns import NOT_SMOOTH, split_gap, subgradient_ends

__all__ = ["ProxNewton"]

# The origin of the values is unknown; the comments say what they trade off.
FLAT = 1e-3  # least curvature of a row on a linear part of its loss, in units of the largest: without it a step there has no end
SWEPT = 1e-3  # coordinate descent ends when a sweep's largest fall of the model is this part of the largest in any sweep


@dataclass(kw_only=True)
class ProxNewtonState(State):
    """The model and what belongs to it."""

    # Fixed by `start`
    columns: Any  # X, by columns where it is sparse
    # Changed by every epoch
    w: np.ndarray
    b: float
    scores: np.ndarray  # x·w + b
    beta: np.ndarray  # −φ'(m)
    value: float  # P(w, b)


class QuadraticModel(NamedTuple):
    """g·Δ + ½‖r‖² with r = Σ Δⱼx̃ⱼ, where x̃ⱼ is a column of the working set times √(cφ'') of each row."""

    columns: Any  # x̃, as rows that kernels read
    derivatives: np.ndarray  # g
    squares: np.ndarray  # ‖x̃ⱼ‖²
    root: np.ndarray  # √(cφ''), the column of the intercept
    bias_derivative: float  # with respect to b
    bias_square: float  # second derivative with respect to b; 0 where there is no intercept
    rho: float  # the penalty (ρ/2)b²


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

    Order of calls: `start`, then `epoch` again and again; `model` and `dual` at any time between.

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
    takes_bounds: ClassVar[bool] = True
    summary: ClassVar[str] = "proximal Newton with coordinate descent on a working set of features"
    sparse_cost: ClassVar[str] = "all rows"

    def __post_init__(self) -> None:
        for name in ("sweeps", "first"):
            whole_number(name, getattr(self, name))

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None:
            return no("it works on single features, which a kernel machine does not have")
        if problem.loss.has_kink():
            return NOT_SMOOTH
        if problem.l1 == 0 and problem.bounds is None:
            return no("without an l1 part every feature is in use, and a working set saves nothing; newton is made for that")
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> ProxNewtonState:
        w = problem.penalty.nearest_point(np.zeros(problem.d) if warm is None or warm.coef is None else warm.coef).copy()
        X: Any = problem.X[: problem.n]  # to warm up, a problem has the first rows only
        scores = problem.scores(w)
        b = best_intercept(problem, scores)
        scores = scores + b
        beta = np.empty(problem.n)
        slopes(problem.loss, problem.y * scores, beta)
        columns = X.tocsc() if hasattr(X, "indptr") else X
        return ProxNewtonState(columns=columns, w=w, b=b, scores=scores, beta=beta, value=_value(problem, w, b, scores))

    def epoch(self, problem: Problem, state: ProxNewtonState, rng: np.random.Generator) -> None:
        # 1) gradient −u, and −`total` of the intercept
        a = problem.c * problem.y * state.beta
        u, total = problem.combine(a), float(a.sum())
        state.gap = split_gap(problem, (state.w, state.b), state.value, state.beta, (u, total))

        # 2) working set: the features in use and the worst violators of their optimality conditions
        chosen = self._working_set(problem, state, u)
        columns = state.columns[:, chosen]

        # 3) direction by coordinate descent on the quadratic model
        model = _quadratic_model(problem, state, columns, u[chosen], total)
        step, shift, sweeps = self._minimise(problem, model, problem.penalty.part(chosen), state.w[chosen])

        # 4) line search: 1, ½, ¼, … until the objective falls by a part of what the direction promises
        w, b, score_step = state.w, state.b, np.asarray(columns @ step).reshape(-1) + shift

        def at(t: float) -> np.ndarray:
            trial = w.copy()
            trial[chosen] += t * step
            return np.asarray(problem.penalty.nearest_point(trial))  # rounding may leave the bounds

        promised = -float(u[chosen] @ step) - shift * total + problem.regulariser(at(1.0), b + shift) - problem.regulariser(w, b)
        t = backtrack(lambda t: _value(problem, at(t), b + t * shift, state.scores + t * score_step), state.value, promised)
        if t > 0.0:
            state.w, state.b = at(t), b + t * shift
            state.scores = problem.scores(state.w) + state.b  # afresh: running sums would drift
            state.value = _value(problem, state.w, state.b, state.scores)

        # 5) dual point of the new margins
        slopes(problem.loss, problem.y * state.scores, state.beta)
        state.passes += 1.0 + (2.0 + sweeps) * _size(columns) / max(_size(state.columns), 1)

    def _working_set(self, problem: Problem, state: ProxNewtonState, u: np.ndarray) -> np.ndarray:
        """Return the features in use and the worst violators, together at most max(2 × the features in use, `first`)."""
        least, most = subgradient_ends(problem, state.w)
        used = least == most
        violation = np.where(used, np.inf, np.maximum(u - most, least - u))
        room = max(2 * int(np.count_nonzero(used)), self.first)
        if room < problem.d:
            worst = np.argpartition(-violation, room)[:room]
            return np.sort(worst[violation[worst] > 0])
        return np.flatnonzero(violation > 0)

    def _minimise(self, problem: Problem, model: QuadraticModel, penalty: Any, w: np.ndarray) -> tuple[np.ndarray, float, int]:
        """Return Δ on the working set and for the intercept, and the number of sweeps."""
        step, r, shift, largest, count = np.zeros(len(w)), np.zeros(problem.n), 0.0, 0.0, 0
        while count < self.sweeps:
            count += 1
            fall, shift = sweep(model, penalty, w, step, r, shift)
            largest = max(largest, fall)
            if fall <= SWEPT * largest:
                break
        return step, float(shift), count

    def model(self, problem: Problem, state: ProxNewtonState) -> tuple[np.ndarray, float | None]:
        return state.w.copy(), None if problem.intercept == "free" else float(state.b)

    def dual(self, problem: Problem, state: ProxNewtonState) -> np.ndarray:
        return state.beta.copy()


def _size(columns: Any) -> int:
    """Return how many numbers some columns store."""
    return int(columns.nnz if hasattr(columns, "indptr") else columns.size)


def _value(problem: Problem, w: np.ndarray, b: float, scores: np.ndarray) -> float:
    """Return P(w, b), given the scores."""
    return float(total_value(problem.loss, problem.y * scores, problem.c)) + problem.regulariser(w, b)


def _quadratic_model(problem: Problem, state: ProxNewtonState, columns: Any, u: np.ndarray, total: float) -> QuadraticModel:
    """Return the model of P's smooth part on the working set; `total` is Σ cβy."""
    second = np.empty(problem.n)
    curvatures(problem.loss, state.beta, 0.0, problem.c, second)
    flat = FLAT * problem.c * problem.loss.curvature() if problem.loss.is_smooth() else 0.0
    root = np.sqrt(np.where(state.beta != 0, np.maximum(second, flat), second))
    scaled = as_rows(columns, root)
    squares = np.empty(columns.shape[1])
    storage.sqnorms(scaled, squares)
    rho = problem.l2 / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    bias_square = 0.0 if problem.intercept == "none" else float(root @ root) + rho
    return QuadraticModel(scaled, -u, squares, root, float(rho * state.b - total), float(bias_square), float(rho))


def as_rows(columns: Any, root: np.ndarray) -> Any:
    """The columns of the working set, each entry times its row's factor, as rows that kernels read."""
    if hasattr(columns, "indptr"):
        turned = sparse.csr_array(columns.T)
        turned.data = turned.data * root[turned.indices]
        return storage.csr(turned)
    return storage.dense(np.ascontiguousarray((columns * root[:, None]).T, dtype=np.float64))


@kernel
def sweep(model, penalty, w, step, r, shift):
    """One exact step on every coordinate of the model plus R(w + Δ), and one on the intercept; `step` is Δ, `shift` the intercept's.

    Returns the largest fall of the model by a coordinate, by its quadratic part, and the new shift.
    """
    columns, squares = model.columns, model.squares
    largest = 0.0
    for j in range(w.shape[0]):
        old = w[j] + step[j]
        if squares[j] > 0.0:
            new = penalty.prox_at(j, old - (model.derivatives[j] + columns.dot(j, r)) / squares[j], 1.0 / squares[j])
            change = new - old
            if change != 0.0:
                columns.add(j, change, r)
                step[j] += change
                largest = max(largest, squares[j] * change * change)
        else:
            low, high = penalty.ends(j)  # no row with this feature has a loss: the penalty alone is left of the model
            step[j] += min(max(0.0, low), high) - old
    if model.bias_square > 0.0:
        s = model.bias_derivative + model.rho * shift
        for i in range(r.shape[0]):
            s += model.root[i] * r[i]
        change = -s / model.bias_square
        for i in range(r.shape[0]):
            r[i] += change * model.root[i]
        shift += change
        largest = max(largest, model.bias_square * change * change)
    return largest, shift
