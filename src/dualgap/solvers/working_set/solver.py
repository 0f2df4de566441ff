"""WorkingSet: kernel machines by working sets of some hundreds of rows, without the n × n matrix.

    repeat: choose rows, half of them the worst violators; their kernel rows from the cache, or by one product with all features
            solve the small problem between them by second-order pair steps (single steps without a free intercept)
            e −= K[:, set]·Δa for all open rows
            once the variables between their bounds stay the same, move all of them together where that pays (second_order)

Kernel values are computed for open rows only. Where they are cheap, a sample is open at first and then the rows that its model leaves
wanting to move, with others that may come to; later on those that cannot gain are closed. Whether any of the rest has to be opened is
seen from their errors, computed now and then, and with every certificate.

In signed variables a = cβy/l2 (see pair_steps) errors e = y − K·a − r·a tell everything: who violates, the gap, who may be left out.
Kernel values may be float32; e is float64 and is set right from exact scores with every certificate, and before what float32 has left in
it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualgap.core import Hinge, SmoothHinge, SquaredHinge, number, one_of, whole_number
from dualgap.kernels import Panels, own_expansion
from dualgap.problem import Problem
from dualgap.proof import best_intercept, dual_point
from dualgap.solvers.base import YES, Solver, Support, Warm, no, register
from dualgap.solvers.working_set.bounded_scores import exact_scores, rough_scores, single_error, sure_scores
from dualgap.solvers.working_set.dual_box import (
    Box,
    beta_of,
    bias_weight,
    extremes,
    in_turn,
    largest,
    reluctance,
    violators,
    whole_box,
    worth_keeping,
)
from dualgap.solvers.working_set.pair_steps import pair_steps, single_steps
from dualgap.solvers.working_set.row_cache import RowCache
from dualgap.solvers.working_set.second_order import all_at_once, epoch_cost, worth_it
from dualgap.solvers.working_set.state import (
    Known,
    Pace,
    WorkingSetState,
    inside,
    matrix_of,
    measure,
    rounding_gap,
    settled,
    subtract,
)

__all__ = ["WorkingSet"]

SMALLEST = 16  # rows of a working set below which there is no point
LARGEST = 2048  # rows of a working set beyond which its own steps cost more than they bring
SETS = 8  # working sets an epoch, at least,
ENOUGH = 0.1  # unless the gap has fallen to this part of what it was
INNER = 0.1  # a small problem is solved until its violation is this part of what it was
ALONE = 1e-4  # the same where a working set has all the open rows
GROWTH = 8  # a sample is this many times smaller than what it stands for,
SAMPLE = 2  # and is at least so many working sets
SAMPLED = 0.3  # the part of its gap at which a sample has told what it can
SPARE = 4  # rows open at first beyond those that want to move: n divided by this
CLOSED = 0.8  # rows are left out when no more than this part stays
REOPEN = 1e-2  # the other rows are looked at again once the gap of the open ones has fallen to this part of what it was
SURE = 2.0  # unless they once had no more to add than makes the gap so many times larger: then a certificate will tell
ESTIMATE = 1.5  # the gap as it is made known, times the one of the open rows
# Added to the diagonal of a matrix that is factored, as a part of it; more where that fails.
RIDGE = {"float32": 1e-5, "float64": 1e-10}
SINGLE_RANGE = 1e4  # γ‖x‖² up to which float32 products leave distances exact enough
SINGLE_ERROR = 5e-3  # what the rounding of one kernel value to float32, at the largest weight, may change a margin by


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
        whole_number("size", self.size, SMALLEST)
        number("cache_size", self.cache_size, wanted="a positive number of megabytes")

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
        state = WorkingSetState(panels=panels, all=whole_box(problem), reach=problem.n)
        state.rounding = single_error(problem) if panels.dtype == np.float32 else 0.0
        state.ridge = RIDGE[panels.dtype.name]
        state.cache = RowCache(panels, int(self.cache_size * 1e6))
        state.open, state.exact_at = np.arange(problem.n), np.zeros(problem.n)
        state.known = Known(np.zeros(problem.n), np.zeros(problem.n), np.zeros(problem.n), sure=False)
        if warm is not None and warm.dual is not None and warm.dual.any():
            point = dual_point(problem, warm.dual)
            assert point.stored is not None
            state.all.a[:] = point.coef
            self._set_errors(problem, state, point.stored)
            state.known = Known(state.all.a.copy(), point.stored, np.zeros(problem.n), sure=True)
        elif self.shrinking:
            while panels.cheap and state.reach >= GROWTH * SAMPLE * self.size:
                state.reach //= GROWTH
            if state.reach < problem.n:
                state.order = in_turn(problem.y, rng)
        self._open(problem, state)
        state.sure = len(state.open) == problem.n
        return state

    def _dtype(self, problem: Problem) -> Any:
        if self.precision != "auto":
            return np.dtype(self.precision)
        kernel, X = problem.kernel, problem.X
        assert kernel is not None
        if kernel.function is not None or kernel.name == "precomputed":
            return X.dtype if kernel.name == "precomputed" else np.dtype(np.float64)
        if problem.n <= self.size and 8 * problem.n**2 <= 1e6 * self.cache_size:  # one set, whose matrix serves the certificate too
            return np.dtype(np.float64)
        if kernel.name == "rbf" and not kernel.gamma * max(float(X.max()), -float(X.min())) ** 2 < SINGLE_RANGE:
            return np.dtype(np.float64)
        margin = single_error(problem) * float(problem.c.max()) / problem.l2
        return np.dtype(np.float32 if margin < SINGLE_ERROR else np.float64)

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
        state.exact_at, state.summed = a.copy(), 0.0

    def _open(self, problem: Problem, state: WorkingSetState) -> None:
        """Go on, at the errors that `all` has, with the open rows and those that want to move, and more that may come to."""
        if state.last is None:
            state.open, state.last = self._promising(problem, state, state.reach, problem.n // SPARE), np.empty(0, dtype=np.int64)
            state.cache.clear(self._panels(state, state.open))
        elif len(state.open) < problem.n:
            self._add(problem, state)
        state.box = Box(*(part[state.open] for part in state.all))
        measure(problem, state)
        state.gap_then = state.gap

    def _promising(self, problem: Problem, state: WorkingSetState, reach: int, spare: int) -> np.ndarray:
        """Of the rows within reach those that want to move, and at least as many as `spare` or as those are of the next likely."""
        if not self.shrinking or problem.n <= self.size:
            return np.arange(problem.n)
        among = np.arange(problem.n) if reach == problem.n else np.sort(state.order[:reach])
        distance = reluctance(problem, state.all, self._intercept(problem, state))[among]
        count = int(np.count_nonzero(distance < 0.0))
        chosen = np.sort(largest(-distance, count + max(count, spare)))
        chosen = chosen[distance[chosen] < np.inf]
        return among[chosen] if len(chosen) <= CLOSED * problem.n else np.arange(problem.n)

    def _intercept(self, problem: Problem, state: WorkingSetState) -> float:
        a, _, _, e, r = state.all
        if problem.intercept != "free":
            return 0.0
        return best_intercept(problem, problem.y - e - r * a)

    def _add(self, problem: Problem, state: WorkingSetState) -> None:
        """Open those of the others that want to move, and as many again of the next likely; after a sample many more."""
        if state.reach < problem.n:
            state.reach = problem.n if state.reach * GROWTH**2 > problem.n else state.reach * GROWTH
            new = np.setdiff1d(self._promising(problem, state, state.reach, problem.n // SPARE), state.open, assume_unique=True)
        else:
            rest = np.setdiff1d(np.arange(problem.n), state.open, assume_unique=True)
            distance = reluctance(problem, state.all, self._intercept(problem, state))[rest]
            if not (distance < 0.0).any() and problem.intercept == "free":
                # Nothing violates at the best intercept, which may not be the one that the open rows have settled on.
                level = 0.5 * sum(extremes(Box(*(part[state.open] for part in state.all))))
                distance = reluctance(problem, state.all, level)[rest] if math.isfinite(level) else distance
            count = int(np.count_nonzero(distance < 0.0))
            new = np.sort(rest[largest(-distance, 2 * count)]) if count else rest[:0]
        if len(new) == 0:
            return
        if len(state.open) + len(new) > CLOSED * problem.n:
            new = np.setdiff1d(np.arange(problem.n), state.open, assume_unique=True)
        merged = np.union1d(state.open, new)
        place = np.searchsorted(merged, state.open)
        state.cache.extend(self._panels(state, merged), place, state.all.a[state.open] != 0.0)
        state.open, state.last, state.pace = merged, place[state.last], None

    def _panels(self, state: WorkingSetState, rows: np.ndarray) -> Panels:
        return state.panels if len(rows) == state.panels.count else state.panels.take(rows)

    # ---------------------------------------------------------------------------------------------------------------- epoch

    def epoch(self, problem: Problem, state: WorkingSetState, rng: np.random.Generator) -> None:
        if state.asked:
            self._write_back(state)
            self._set_errors(problem, state, sure_scores(problem, state, state.all.a))
            self._open(problem, state)
            state.asked, state.sure = False, state.reach == problem.n
        elif not state.sure and len(state.open) < problem.n and state.gap <= self._enough(problem, state) * state.gap_then:
            self._reopen(problem, state)
        if worth_it(problem, state, ESTIMATE) and all_at_once(problem, state):
            self._tidy(problem, state)
            return
        touched, before, steps, between = 0, state.gap, state.steps, inside(state)
        for _ in range(max(SETS, problem.n // (4 * self.size))):
            chosen = self._choose(problem, state)
            if len(chosen) == 0 or self._improve(problem, state, chosen) == 0:
                break
            touched += len(chosen)
            measure(problem, state)
            # What few rows are left can bring has been had soon, and a certificate may be what is wanted.
            if touched >= 4 * len(state.open) or state.gap <= ENOUGH * before:
                break
        state.passes += max(touched, 1) / problem.n
        cost = epoch_cost(state.steps - steps, touched, len(chosen), len(state.open))
        state.pace = Pace(state.gap / before if before > 0 else 1.0, cost, int(np.count_nonzero(between != inside(state))))
        self._tidy(problem, state)

    def _tidy(self, problem: Problem, state: WorkingSetState) -> None:
        # A gap that rounding may have made as small as it looks is computed anew, unless the certificate is next, which does so too.
        if rounding_gap(problem, state) > state.gap and self.gap_estimate(problem, state) > state.tol:
            self._refresh(problem, state)
        if self.shrinking and problem.n > self.size:
            self._close(problem, state)

    # ------------------------------------------------------------------------------------------------------------ other rows

    def _enough(self, problem: Problem, state: WorkingSetState) -> float:
        return SAMPLED if state.reach < problem.n else REOPEN

    def _write_back(self, state: WorkingSetState) -> None:
        if len(state.box.a) != len(state.open):
            return  # interrupted while rows were being opened: `all` has everything
        state.all.a[state.open] = state.box.a
        state.all.e[state.open] = state.box.e

    def _reopen(self, problem: Problem, state: WorkingSetState) -> None:
        """Errors of the rows that are not open; then open those that want to move."""
        before, sampled = state.gap, state.reach < problem.n
        self._write_back(state)
        a, _, _, e, r = state.all
        rest = np.setdiff1d(np.arange(problem.n), state.open, assume_unique=True)
        bias = bias_weight(problem) * a.sum()
        scores, radius = problem.y - e - r * a - bias, np.full(problem.n, np.inf)  # of open rows, without a bound
        terms = a - state.known.a if state.known.sure else a
        state.summed = max(state.summed, min(float(terms @ terms), float(a @ a)))
        scores[rest], radius[rest] = rough_scores(problem, state, a, rest)
        e[rest] = (problem.y - scores - r * a - bias)[rest]
        state.known = Known(a.copy(), scores, radius, sure=False)
        self._open(problem, state)
        state.sure = (not sampled and state.gap <= SURE * before) or len(state.open) == problem.n

    def _refresh(self, problem: Problem, state: WorkingSetState) -> None:
        """Compute the errors of the open rows in float64, and the gap from them."""
        a, box = state.all.a, state.box
        a[state.open] = box.a
        if len(state.open) == problem.n:
            scores = sure_scores(problem, state, a)  # remembered for a certificate of the same point
        else:
            scores = exact_scores(problem, a, state.open)
        box.e[:] = problem.y[state.open] - scores - box.r * box.a - bias_weight(problem) * a.sum()
        state.exact_at, state.summed = a.copy(), 0.0
        measure(problem, state)

    def _choose(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        """All open rows where they are few; else half of the set anew, the worst violators, and the rest from the last set."""
        box, last = state.box, state.last
        inside = (box.a > box.low) & (box.a < box.high)
        # Variables between their bounds depend on each other: the more of them there are, the more should be solved for together.
        size = max(self._least(len(box.a)), min(int(np.count_nonzero(inside)), LARGEST))
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
        slots = cache.fetch(chosen, settled(state))
        K = matrix_of(problem, state, chosen, slots)
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
        subtract(problem, state, chosen, slots, change)
        return taken

    def _close(self, problem: Problem, state: WorkingSetState) -> None:
        """Leave out rows at a bound that no open row would make move."""
        keep = worth_keeping(problem, state.box)
        if len(keep) > CLOSED * len(state.open) or len(keep) < SMALLEST:
            return
        self._leave_out(state, keep)

    def _leave_out(self, state: WorkingSetState, keep: np.ndarray) -> None:
        state.all.a[state.open] = state.box.a
        state.open = state.open[keep]
        state.cache.restrict(keep)
        state.box = Box(*(part[keep] for part in state.box))
        state.last = np.empty(0, dtype=np.int64)

    def plan(self, problem: Problem) -> str:
        return str(self._dtype(problem).name)

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, WorkingSetState]:
        small = problem.head(32)
        state = replace(self, precision=self.plan(problem)).start(small, rng)
        for _ in range(2):
            self.epoch(small, state, rng)
        if len(state.open) == small.n:
            self._leave_out(state, np.arange(min(SMALLEST, small.n // 2)))
        all_at_once(small, state)
        state.box.a[0] += 1e-9
        self._refresh(small, state)
        self._reopen(small, state)
        self._add(small, state)
        if state.panels.lengths is not None:
            own_expansion(state.panels.kernel, small.X, state.all.a)  # where rows are many, a part of certificates
        return small, state

    # -------------------------------------------------------------------------------------------------------------- results

    def dual(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        self._write_back(state)
        state.asked = True
        return beta_of(problem, state.all.a)

    def combine(self, problem: Problem, state: WorkingSetState, a: np.ndarray) -> np.ndarray:
        return sure_scores(problem, state, a)

    def gap_estimate(self, problem: Problem, state: WorkingSetState) -> float:
        # A certificate in vain costs more than the steps to a gap that is surely small enough.
        gap = state.gap + rounding_gap(problem, state)
        return ESTIMATE * gap / (state.ascent + gap) if state.reach == problem.n and state.ascent + gap > 0 else math.inf
