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
from dualgap.losses import Hinge, SmoothHinge, SquaredHinge
from dualgap.panels import Panels
from dualgap.problem import Problem
from dualgap.solvers.base import YES, Solver, State, Support, Warm, no, one_of, register
from dualgap.solvers.pair_steps import gather, pair_steps, single_steps, subtract_rows
from dualgap.solvers.row_cache import RowCache
from dualgap.solvers.signed_box import Box, beta_of, bias_weight, extremes, gap_of, violators, whole_box, worth_keeping
from dualgap.workers import share

__all__ = ["WorkingSet"]

SMALLEST = 16  # rows of a working set below which there is no point
LARGEST = 2048  # rows of a working set beyond which its own steps cost more than they bring
SETS = 8  # working sets an epoch, at least
INNER = 0.1  # a small problem is solved until its violation is this part of what it was
ALONE = 1e-3  # the same where a working set has all the open rows
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
        state = WorkingSetState(panels=panels, all=whole_box(problem))
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
        e[:] = problem.y - scores - r * a - bias_weight(problem) * a.sum()
        state.ascent = 0.5 * float(a @ (problem.y + e))

    def _open(self, problem: Problem, state: WorkingSetState) -> None:
        """Go on with all rows at the errors that `all` has; those closed stay so if it was right to close every one of them."""
        wanted = worth_keeping(problem, state.all)
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
            if touched >= 4 * len(state.open):  # few rows are left, and what they can bring has been had
                break
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
            e[rows] -= total + bias_weight(problem) * float((a - before).sum())
        self._open(problem, state)

    def _choose(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        """All open rows where they are few; else half of the set anew, the worst violators, and the rest from the last set."""
        box, last = state.box, state.last
        inside = (box.a > box.low) & (box.a < box.high)
        # Variables between their bounds depend on each other: the more of them there are, the more should be solved for together.
        size = max(self._least(problem.n), min(int(np.count_nonzero(inside)), LARGEST))
        size = min(size, len(box.a), state.cache.capacity)
        if size == len(box.a):
            return np.arange(size)
        worst = violators(problem, box, size if len(last) == 0 else size // 2)
        if len(worst) == 0:
            return worst
        new = np.ones(len(box.a), dtype=np.bool_)
        new[worst] = False
        last = last[new[last]]
        kept = np.concatenate([last[inside[last]], last[~inside[last]]])  # those between their bounds first
        state.last = np.concatenate([worst, kept[: size - len(worst)]])  # the newest first
        return np.sort(state.last)  # kernel values are read in the order of memory

    def _least(self, n: int) -> int:
        """Rows of a set at least: all of a small problem, an eighth of a middling one, so that few are computed in vain."""
        return self.size if n <= self.size else min(self.size, max(n // 8, SMALLEST))

    def _improve(self, problem: Problem, state: WorkingSetState, chosen: np.ndarray) -> int:
        """Solve the problem of the chosen rows; returns how many steps that took."""
        box, cache = state.box, state.cache
        slots = cache.fetch(chosen)
        K = np.empty((len(chosen), len(chosen)), dtype=cache.store.dtype)
        gather(cache.store, slots, chosen, K)
        if problem.intercept == "penalised":
            K += bias_weight(problem)
        small = Box(*(part[chosen] for part in box))
        tiny = (1e-6 if cache.store.dtype == np.float32 else 1e-12) * float(K.diagonal().mean())
        diagonal = K.diagonal() + small.r
        steps = pair_steps if problem.intercept == "free" else single_steps
        ratio = INNER if len(chosen) < len(box.a) else ALONE
        taken = int(steps(K, diagonal, small, tiny, ratio, 100 * len(chosen)))
        state.steps += taken
        change = small.a - box.a[chosen]
        state.ascent += 0.5 * float(change @ (box.e[chosen] + small.e))
        box.a[chosen] = small.a
        box.e[chosen] -= small.r * change
        moved = np.flatnonzero(change)
        rows, change = slots[moved], change[moved]
        if problem.intercept == "penalised":
            box.e[:] -= bias_weight(problem) * change.sum()
        share(lambda first, last: subtract_rows(cache.store, rows, change, box.e, first, last), len(box.e), 1 << 12)
        return taken

    def _measure(self, problem: Problem, state: WorkingSetState) -> None:
        bottom, top = sorted(extremes(state.box)) if problem.intercept == "free" else (0.0, 0.0)
        state.gap = gap_of(problem.loss, state.box, problem.y[state.open], bottom, top)

    def _close(self, problem: Problem, state: WorkingSetState) -> None:
        """Leave out rows at a bound that no open row would make move."""
        keep = worth_keeping(problem, state.box)
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
            self._leave_out(state, np.arange(min(SMALLEST, small.n // 2)))
        state.box.a[0] += 1e-9
        self._reopen(small, state)
        return small, state

    # -------------------------------------------------------------------------------------------------------------- results

    def dual(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        self._write_back(state)
        state.asked = True
        return beta_of(problem, state.all.a)

    def hint(self, problem: Problem, state: WorkingSetState) -> float:
        whole = state.ascent + state.gap
        return state.gap / whole if whole > 0 else math.inf
