"""WorkingSet: kernel machines by working sets of some hundreds of rows, without the n × n matrix.

    repeat: choose rows, half of them the worst violators; their kernel rows from the cache, or by one product with all features
            solve the small problem between them by second-order pair steps (single steps without a free intercept)
            e −= K[:, set]·Δa for all open rows

In signed variables a = cβy/l2 (see pair_steps) errors e = y − K·a − r·a tell everything: who violates, the gap, who may be left out.
Kernel values may be float32; e is float64 and is set right from exact scores whenever a certificate has been computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.certificate import dual_point
from dualgap.expansion import Panels
from dualgap.jit import kernel
from dualgap.losses import Hinge, SmoothHinge, SquaredHinge
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, one_of, register
from dualgap.solvers.pair_steps import Box, gather, pair_steps, single_steps, subtract_rows
from dualgap.solvers.row_cache import RowCache
from dualgap.workers import share

__all__ = ["WorkingSet"]

SMALLEST = 16  # rows of a working set below which there is no point
SETS = 8  # working sets an epoch, at least
INNER = 0.1  # a small problem is solved until its violation is this part of what it was
CLOSED = 0.8  # rows are left out when no more than this part stays
REOPEN = 1e-2  # all rows are visited again once the gap of the open ones has fallen to this part of what it was with all
SINGLE_RANGE = 1e4  # γ‖x‖² up to which float32 products leave distances exact enough


@dataclass
class WorkingSetState(State):
    panels: Any = None  # kernel values with all rows
    cache: Any = None  # kernel rows over the open ones
    open: Any = None  # the open rows, ascending
    all: Any = None  # Box of all rows: the truth for those not open; e is exact as of the last certificate
    box: Any = None  # Box of the open rows
    closed: Any = None  # (rows, all a at the time) of those left out: what their errors belong to
    last: Any = None  # the last working set, as places among the open rows
    ascent: float = 0.0  # D/l2
    gap: float = math.inf  # of the open rows, /l2
    reopen_at: float = 0.0
    asked: bool = False  # whether a certificate has been computed since the last epoch
    steps: int = 0


@register
@dataclass(frozen=True)
class WorkingSet(Solver):
    """Kernel machines by working sets: kernel rows for some hundreds of samples at once, cached within a memory budget.

    Parameters
    ----------
    size : int
        Rows of a working set; fewer where the cache holds fewer.
    cache_size : float
        Megabytes for kernel rows. Rows beyond it are computed again when they are needed.
    precision : {"auto", "float32", "float64"}
        Of the kernel values that steps work with. The certificate is in float64 always, and errors that float32 values have left are
        put right whenever it is computed. "auto" is float32 unless distances in it would be all rounding.
    shrinking : bool
        Whether rows at a bound that pull outwards are left out until a certificate is asked for.

    Takes the hinge, the smooth and the squared hinge, weights, every kernel and kind of intercept. A free intercept is the constraint
    Σ cβy = 0, kept by steps on pairs.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> problem = dualgap.Problem(X, y, l2=1e-3, kernel="rbf", gamma=1.0, intercept="free")
    >>> dualgap.solve(problem, "working_set", tol=1e-6).status
    'converged'
    """

    size: int = 512
    cache_size: float = 1000.0
    precision: str = "auto"
    shrinking: bool = True

    name: ClassVar[str] = "working_set"
    summary: ClassVar[str] = "working sets of kernel rows, second-order pair steps"
    sparse_cost: ClassVar[str] = "n"
    takes_blocks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("precision", self.precision, ("auto", "float32", "float64"))
        if not isinstance(self.size, (int, np.integer)) or self.size < SMALLEST:
            raise ValueError(f"size={self.size!r} must be a whole number of at least {SMALLEST}")
        if not 0.0 < self.cache_size < math.inf:
            raise ValueError(f"cache_size={self.cache_size!r} must be a positive number of megabytes")

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is None:
            return no("it is made for kernel problems; pass kernel='linear' to the problem to train on X itself")
        if not isinstance(problem.loss, (Hinge, SmoothHinge, SquaredHinge)):
            return no(f"the small problems are quadratic only for the hinge losses, not for {type(problem.loss).__name__}")
        return YES

    # ---------------------------------------------------------------------------------------------------------------- start

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> WorkingSetState:
        assert problem.kernel is not None
        panels = Panels(problem.kernel, problem.X, self._dtype(problem))
        self._check_cache(problem, panels)
        state = WorkingSetState(panels=panels, all=_whole_box(problem))
        if warm is not None and warm.dual is not None and warm.dual.any():
            point = dual_point(problem, warm.dual)
            assert point.stored is not None
            state.all.a[:] = point.coef
            self._set_errors(problem, state, point.stored)
        self._open(problem, state)
        return state

    def _dtype(self, problem: Problem) -> Any:
        if self.precision != "auto":
            return np.dtype(self.precision)
        kernel, X = problem.kernel, problem.X
        assert kernel is not None
        if kernel.function is not None or kernel.name == "precomputed":
            return X.dtype if kernel.name == "precomputed" else np.dtype(np.float64)
        if kernel.name == "rbf" and not kernel.gamma * float(np.max(np.asarray(abs(X).max())) ** 2) < SINGLE_RANGE:
            return np.dtype(np.float64)
        return np.dtype(np.float32)

    def _check_cache(self, problem: Problem, panels: Panels) -> None:
        row = problem.n * panels.dtype.itemsize
        least = min(SMALLEST, problem.n)
        if self.cache_size * 1e6 < least * row:
            raise ValueError(
                f"cache_size={self.cache_size:g} MB holds {int(self.cache_size * 1e6 // row)} kernel rows of {problem.n} numbers; a "
                f"working set needs at least {least}, which take {least * row / 1e6:.3g} MB"
            )

    def _set_errors(self, problem: Problem, state: WorkingSetState, scores: np.ndarray) -> None:
        a, _, _, e, r = state.all
        e[:] = problem.y - scores - r * a - _bias_weight(problem) * a.sum()
        state.ascent = 0.5 * float(a @ (problem.y + e))

    def _open(self, problem: Problem, state: WorkingSetState) -> None:
        """Go on with all rows at the errors that `all` has; those closed stay so if it was right to close every one of them."""
        wanted = _worth_keeping(problem, state.all)
        if state.open is not None and len(state.open) < problem.n and np.isin(wanted, state.open, assume_unique=True).all():
            state.closed = [(np.setdiff1d(np.arange(problem.n), state.open, assume_unique=True), state.all.a.copy())]
        else:
            if state.cache is None:
                state.cache = RowCache(state.panels, int(self.cache_size * 1e6))
            elif len(state.open) < problem.n:
                state.cache.clear(state.panels)
            state.open, state.last, state.closed = np.arange(problem.n), np.empty(0, dtype=np.int64), []
        state.box = Box(*(part[state.open] for part in state.all))
        self._measure(problem, state)
        state.reopen_at = REOPEN * state.gap

    # ---------------------------------------------------------------------------------------------------------------- epoch

    def epoch(self, problem: Problem, state: WorkingSetState, rng: np.random.Generator) -> None:
        if state.asked:
            self._write_back(state)
            self._set_errors(problem, state, problem.combine(state.all.a))
            self._open(problem, state)
            state.asked = False
        elif state.gap <= state.reopen_at and len(state.open) < problem.n:
            self._reopen(problem, state)
        touched = 0
        for _ in range(max(SETS, problem.n // (4 * self.size))):
            chosen = self._choose(problem, state)
            if len(chosen) == 0 or self._improve(problem, state, chosen) == 0:
                break
            touched += len(chosen)
        state.passes += max(touched, 1) / problem.n
        self._measure(problem, state)
        if self.shrinking:
            self._close(problem, state)

    def _write_back(self, state: WorkingSetState) -> None:
        state.all.a[state.open] = state.box.a
        state.all.e[state.open] = state.box.e

    def _reopen(self, problem: Problem, state: WorkingSetState) -> None:
        """Errors of the closed rows from what has changed since each of them was closed."""
        self._write_back(state)
        a, e = state.all.a, state.all.e
        for rows, before in state.closed:
            changed = np.flatnonzero(a != before)
            panels, total = state.panels.take(rows), np.zeros(len(rows))
            for start in range(0, len(changed), self.size):
                part = changed[start : start + self.size]
                panels.add(state.panels.own(part), a[part] - before[part], total)
            e[rows] -= total + _bias_weight(problem) * float((a - before).sum())
        self._open(problem, state)

    def _choose(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        """Half of the set anew, the worst violators; the rest from the last set, those between their bounds first."""
        box, last = state.box, state.last
        size = min(self.size, len(box.a), state.cache.capacity)
        fresh = size if len(last) == 0 else size // 2
        order = _violators(problem, box, fresh)
        if len(order) == 0:
            return order
        inside = (box.a[last] > box.low[last]) & (box.a[last] < box.high[last])
        kept = np.concatenate([last[inside], last[~inside]])
        chosen = np.concatenate([order, kept[~np.isin(kept, order)][: size - len(order)]])
        state.last = chosen
        return chosen

    def _improve(self, problem: Problem, state: WorkingSetState, chosen: np.ndarray) -> int:
        """Solve the problem of the chosen rows; returns how many steps that took."""
        box, cache = state.box, state.cache
        slots = cache.fetch(chosen)
        K = np.empty((len(chosen), len(chosen)))
        gather(cache.store, slots, chosen, K)
        K += _bias_weight(problem)
        small = Box(*(part[chosen] for part in box))
        tiny = (1e-6 if cache.store.dtype == np.float32 else 1e-12) * float(K.diagonal().mean())
        steps = pair_steps if problem.intercept == "free" else single_steps
        taken = int(steps(K, small, tiny, INNER, 100 * len(chosen)))
        state.steps += taken
        change = small.a - box.a[chosen]
        state.ascent += 0.5 * float(change @ (box.e[chosen] + small.e))
        box.a[chosen] = small.a
        box.e[chosen] -= small.r * change
        moved = np.flatnonzero(change)
        rows, change = slots[moved], change[moved]
        if problem.intercept == "penalised":
            box.e[:] -= _bias_weight(problem) * change.sum()
        share(lambda first, last: subtract_rows(cache.store, rows, change, box.e, first, last), len(box.e), 1 << 12)
        return taken

    def _measure(self, problem: Problem, state: WorkingSetState) -> None:
        b = 0.0
        if problem.intercept == "free":
            top, bottom = _extremes(state.box)
            b = 0.5 * (top + bottom)
        state.gap = _gap(problem.loss, state.box, problem.y[state.open], b)

    def _close(self, problem: Problem, state: WorkingSetState) -> None:
        """Leave out rows at a bound that no open row would make move."""
        keep = _worth_keeping(problem, state.box)
        if len(keep) > CLOSED * len(state.open) or len(keep) < SMALLEST:
            return
        self._leave_out(state, keep)

    def _leave_out(self, state: WorkingSetState, keep: np.ndarray) -> None:
        self._write_back(state)
        out = np.delete(state.open, keep)
        state.closed.append((out, state.all.a.copy()))
        state.open = state.open[keep]
        state.cache.restrict(keep)
        state.box = Box(*(part[keep] for part in state.box))
        state.last = np.empty(0, dtype=np.int64)

    def rehearse(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, WorkingSetState]:
        small = problem.head(32)
        state = self.start(small, rng)
        for _ in range(2):
            self.epoch(small, state, rng)
        self._open(small, state)
        if len(state.open) == small.n:
            self._leave_out(state, np.arange(SMALLEST))
        state.box.a[0] += 1e-9
        self._reopen(small, state)
        return small, state

    # -------------------------------------------------------------------------------------------------------------- results

    def dual(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        self._write_back(state)
        state.asked = True
        return _beta(problem, state.all.a)

    def hint(self, problem: Problem, state: WorkingSetState) -> float:
        whole = state.ascent + state.gap
        return state.gap / whole if whole > 0 else math.inf


def _bias_weight(problem: Problem) -> float:
    """What a penalised intercept adds to every kernel value."""
    return problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0


def _whole_box(problem: Problem) -> Box:
    most = problem.c / problem.l2
    if isinstance(problem.loss, Hinge):
        own = np.zeros(problem.n)
    else:
        delta = problem.loss.delta if isinstance(problem.loss, SmoothHinge) else 0.5
        own = np.divide(delta, most, out=np.zeros(problem.n), where=most > 0)
    if isinstance(problem.loss, SquaredHinge):
        most = np.where(most > 0, np.inf, 0.0)
    low, high = np.where(problem.y > 0, 0.0, -most), np.where(problem.y > 0, most, 0.0)
    return Box(np.zeros(problem.n), low, high, problem.y.copy(), own)


def _beta(problem: Problem, a: np.ndarray) -> np.ndarray:
    scale = problem.l2 * problem.y
    return np.divide(a * scale, problem.c, out=np.zeros(problem.n), where=problem.c > 0)


def _violators(problem: Problem, box: Box, count: int) -> np.ndarray:
    """Rows that the dual objective pulls hardest; with a free intercept as many that should rise as should fall."""
    if problem.intercept != "free":
        pull = np.where(box.e > 0, np.where(box.a < box.high, box.e, 0.0), np.where(box.a > box.low, -box.e, 0.0))
        order = _largest(pull, count)
        return order[pull[order] > 0]
    rise = np.where(box.a < box.high, box.e, -np.inf)
    fall = np.where(box.a > box.low, -box.e, -np.inf)
    top, bottom = rise.max(), -fall.max()
    if not top > bottom:
        return np.empty(0, dtype=np.int64)
    rising = _largest(rise, max(count // 2, 1))
    falling = _largest(fall, max(count // 2, 1))
    rising, falling = rising[rise[rising] > bottom], falling[-fall[falling] < top]
    return np.concatenate([rising, falling[~np.isin(falling, rising)]])


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def _worth_keeping(problem: Problem, box: Box) -> np.ndarray:
    at_low, at_high = box.a <= box.low, box.a >= box.high
    if problem.intercept == "free":
        top, bottom = _extremes(box)
        idle = (at_low & (box.e < min(bottom, top))) | (at_high & (box.e > max(bottom, top)))
    else:
        reach = 0.0
        idle = (at_low & (box.e < -reach)) | (at_high & (box.e > reach))
    idle |= box.low == box.high
    return np.flatnonzero(~idle)


@kernel
def _extremes(box):
    """The largest error that can still rise, the smallest that can fall: at the optimum the first is no larger."""
    top, bottom = -np.inf, np.inf
    for k in range(box.a.shape[0]):
        if box.a[k] < box.high[k]:
            top = max(top, box.e[k])
        if box.a[k] > box.low[k]:
            bottom = min(bottom, box.e[k])
    return top, bottom


@kernel
def _gap(loss, box, y, b):
    """Σ (c/l2)(φ(m) − ψ(β) + βm) over the rows of the box"""
    total = 0.0
    for k in range(y.shape[0]):
        curve = box.r[k]
        score = y[k] - box.e[k] - curve * box.a[k]
        margin = y[k] * (score + b)
        size = box.high[k] - box.low[k]
        if size > 0.0:
            if size == np.inf:
                size = 0.5 / curve
            beta = y[k] * box.a[k] / size
            total += size * (loss.value(margin) - loss.psi(beta) + beta * margin)
    return total
