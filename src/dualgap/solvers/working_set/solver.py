"""WorkingSet, the solver for kernel machines: decomposition into working sets, without the n × n matrix. README.md has the algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualgap.core import number, one_of, whole_number
from dualgap.kernels import KernelBlocks, own_expansion
from dualgap.problem import Problem
from dualgap.proof import BoundedScores, dual_point, keep_rows, kernel_scores
from dualgap.solvers.base import YES, Solver, Support, Warm, no, register
from dualgap.solvers.working_set import shrinking
from dualgap.solvers.working_set.active_set_qp import ADDED_DIAGONAL, newton_step, pair_step_cost, pays_off
from dualgap.solvers.working_set.dual_box import (
    Box,
    beta_of,
    bias_weight,
    choose_sides,
    count_groups,
    set_gradient,
    start_box,
    worst_violators,
)
from dualgap.solvers.working_set.pair_steps import INNER_RATIO, MAX_INNER, coupled_steps, pair_steps
from dualgap.solvers.working_set.row_cache import RowCache
from dualgap.solvers.working_set.state import (
    Progress,
    WorkingSetState,
    float32_error,
    gap_estimate,
    gap_rounding,
    update_gap,
    update_gradient,
)

__all__ = ["WorkingSet"]

MIN_SET, MAX_SET = 16, 2048  # rows of a working set; larger ones spend more time in inner steps than they save in gradient updates
SET_PARTS = 8  # active rows / rows of a set, at least, if there are more than `size`: few kernel rows are computed in vain
# An epoch ends after …
MAX_SETS, EPOCH_PARTS = 8, 4  # … this many sets, or sets of n/EPOCH_PARTS rows together if that is more; or once …
EPOCH_RATIO = 0.1  # … the gap is this part of what it was when the epoch began
INNER_RATIO_WHOLE = 1e-4  # the same if the set has all active rows, unless rows may be shrunk and none is yet
WHOLE_SETS = 2  # rows / `size` up to which all rows are one working set: with 1, covtype, 1000 rows, C = 100 takes 3 times as long
MIN_CURVATURE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}  # of an inner step, relative to the mean diagonal of K
FLOAT64 = np.dtype(np.float64)
FLOAT32_RANGE = 1e4  # γ‖x‖² up to which distances from float32 products keep some digits
FLOAT32_MARGIN = 5e-3  # largest change of a margin by the rounding of one kernel value to float32, at the largest weight


@register
@dataclass(frozen=True)
class WorkingSet(Solver):
    """Kernel machines by working sets of some hundreds of rows, with a bounded cache of kernel rows.

    Parameters
    ----------
    size : int
        Rows of a working set, at most an eighth of the active rows unless `size` has room for all; more, up to 2048, if more are free.
        Up to twice as many rows are one working set, which is not shrunk. It also sets the first sample, the precision and the sets of an
        epoch.
    cache_size : float
        Megabytes for kernel rows. Rows that do not fit are computed again when they are needed.
    precision : {"auto", "float32", "float64"}
        Of the kernel values in steps. Certificates are in float64, except for rows proven to have no loss. Full gradient passes
        remove the errors that float32 leaves in the gradient. "auto" is float32 unless that would change margins too much.
    shrinking : bool
        Whether rows at a bound that satisfy the KKT conditions are shrunk, that is, ignored until the next full gradient pass.

    Supports the hinge, the smooth and the squared hinge, weights, every kernel and kind of intercept. README.md has the algorithm.

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
    stall_steps: ClassVar[float] = 40  # its gap swings until the working sets have met all support vectors
    summary: ClassVar[str] = "working sets of kernel rows, second-order pair steps"
    sparse_cost: ClassVar[str] = "n"
    takes_blocks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("precision", self.precision, ("auto", "float32", "float64"))
        whole_number("size", self.size, MIN_SET)
        number("cache_size", self.cache_size, wanted="a positive number of megabytes")

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is None:
            return no("it is made for kernel problems; pass kernel='linear' to the problem to train on X itself")
        if problem.loss.quadratic_pieces() is None:
            return no(f"the small problems must be quadratic, which they are not for {type(problem.loss).__name__}")
        return YES

    # ------------------------------------------------------------------------------------------------------------------- start

    def start(
        self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None, nu: float | None = None
    ) -> WorkingSetState:
        """Start from β = 0, or from that of `warm`; with `nu` at a feasible point of the ν-problem, whose D the epochs then maximise."""
        assert problem.kernel is not None
        groups = count_groups(problem, nu)
        blocks = problem.kernel_blocks(self._precision(problem))
        self._check_cache(problem, blocks)
        box, scores, shrinks = (
            start_box(problem, groups),
            BoundedScores(problem, blocks),
            self.shrinking and not self._is_whole(problem),
        )
        dual_value, sampled = 0.0, problem.n
        if warm is not None and warm.dual is not None and warm.dual.any():
            point = dual_point(problem, warm.dual)
            assert point.stored is not None
            box.a[:] = point.coef
            dual_value = set_gradient(problem, box, point.stored, groups)
            scores.last = kernel_scores(problem, box.a)  # known since the dual point was made
        elif self.shrinking and blocks.cheap:
            sampled = shrinking.sample_size(problem.n, self.size)
        order = shrinking.stratified_order(problem.y, rng) if sampled < problem.n else np.empty(0, dtype=np.int64)
        active = np.arange(problem.n) if not shrinks else shrinking.rows_to_activate(problem, box, order[:sampled], nu)
        state = WorkingSetState(
            blocks=blocks,
            scores=scores,
            shrinks=shrinks,
            sample_order=order,
            value_error=float32_error(problem) if blocks.dtype == np.float32 else 0.0,
            groups=groups,
            nu=nu,
            mass=0.0 if nu is None or problem.is_regression else float(np.abs(box.a).sum()),
            all=box,
            active=active,
            box=box.take(active) if shrinks else box,
            cache=RowCache(blocks.take(active), int(self.cache_size * 1e6), most=problem.n),
            sampled=sampled,
            exact_a=box.a.copy(),
            dual_value=dual_value,
            added_diagonal=ADDED_DIAGONAL[blocks.dtype],
        )
        update_gap(problem, state)
        state.gap_at_pass = state.gap
        return state

    def _precision(self, problem: Problem) -> np.dtype[Any]:
        """Return the precision of kernel values in steps."""
        if self.precision != "auto":
            return np.dtype(self.precision)
        kernel, X = problem.kernel, problem.X
        assert kernel is not None
        if kernel.function is not None or kernel.name == "precomputed":
            return X.dtype if kernel.name == "precomputed" else FLOAT64
        if self._is_whole(problem):  # the matrix serves the certificate too
            return FLOAT64
        if kernel.name == "rbf" and not kernel.gamma * max(float(X.max()), -float(X.min())) ** 2 < FLOAT32_RANGE:
            return FLOAT64
        margin = float32_error(problem) * float(problem.c.max()) / problem.l2
        return np.dtype(np.float32) if margin < FLOAT32_MARGIN else FLOAT64

    def _is_whole(self, problem: Problem) -> bool:
        """Return whether all rows are one working set, whose kernel matrix fits in the cache."""
        return problem.n <= WHOLE_SETS * self.size and 8 * problem.n**2 <= 1e6 * self.cache_size

    def _check_cache(self, problem: Problem, blocks: KernelBlocks) -> None:
        row = problem.n * blocks.dtype.itemsize
        least = min(MIN_SET, problem.n)
        if self.cache_size * 1e6 < least * row:
            raise ValueError(
                f"cache_size={self.cache_size:g} MB holds {int(self.cache_size * 1e6 // row)} kernel rows of {problem.n} numbers; a "
                f"working set needs at least {least}, which take {least * row / 1e6:.3g} MB"
            )

    # ------------------------------------------------------------------------------------------------------------------- epoch

    def epoch(self, problem: Problem, state: WorkingSetState, rng: np.random.Generator) -> None:
        # 1) full gradient pass and unshrinking, if due
        if shrinking.full_pass_due(problem, state):
            shrinking.full_gradient_pass(problem, state)
        elif shrinking.check_due(problem, state):
            shrinking.check_shrunk_rows(problem, state)
        # 2) a Newton step, if it pays; without one, or if the gap did not fall, 3) to 7), working sets
        if not (pays_off(problem, state) and newton_step(problem, state)):
            self._working_sets(problem, state)
        # 8) the gradient in float64, if rounding may exceed the gap; at the tolerance the full pass does so too
        if gap_rounding(problem, state) > state.gap and gap_estimate(problem, state) > state.tol:
            shrinking.refresh_gradient(problem, state)
        # 9) shrink
        if state.shrinks:
            shrinking.shrink_satisfied(problem, state)

    def _working_sets(self, problem: Problem, state: WorkingSetState) -> None:
        box = state.box
        visits, gap_before, steps_before, free_before = 0, state.gap, state.steps, box.free()
        for _ in range(max(MAX_SETS, problem.n // (EPOCH_PARTS * self.size))):
            # 3) select
            choose_sides(problem, box, state.groups)
            rows = self._select(problem, state)
            if len(rows) == 0:
                break
            # 4) to 6)
            whole = len(rows) == len(box.a) and state.groups <= 1
            steps = self._solve_all(problem, state, rows) if whole else self._solve_set(problem, state, rows)
            if steps == 0:
                break
            # 7) the gap
            update_gap(problem, state)
            state.steps += steps
            visits += len(rows)
            if state.gap <= EPOCH_RATIO * gap_before:
                break
        # A certificate needs no other values than those at hand.
        if self._is_whole(problem) and state.blocks.dtype == FLOAT64 and state.cache.roomy:
            keep_rows(problem, state.cache.values)
        state.passes += max(visits, 1) / problem.n
        cost = pair_step_cost(state.steps - steps_before, len(rows), visits, len(box.a))
        changed = int(np.count_nonzero(free_before != box.free()))
        state.progress = Progress(state.gap / gap_before if gap_before > 0 else 1.0, cost, changed)

    def _solve_set(self, problem: Problem, state: WorkingSetState, rows: np.ndarray) -> int:
        """Take steps 4 to 6 on some of the active rows. Return the number of inner steps."""
        box, cache = state.box, state.cache
        # 4) kernel rows, from the cache or computed
        slots = cache.fetch(rows, state.at_bound())
        if state.groups > 1:  # one group after the other
            order = np.argsort(box.group[rows], kind="stable")
            rows, slots = rows[order], slots[order]
        K = cache.matrix(rows, slots, bias_weight(problem))
        # 5) inner steps
        small = box.take(rows)
        steps = self._inner_steps(problem, K, K.diagonal(), small, state.groups, _inner_ratio(problem, state, rows))
        # 6) the gradient of all active rows
        change = small.a - box.a[rows]
        state.dual_value += 0.5 * float(change @ (box.g[rows] + small.g))
        box.a[rows] = small.a
        update_gradient(problem, state, rows, slots, change)
        return steps

    def _solve_all(self, problem: Problem, state: WorkingSetState, rows: np.ndarray) -> int:
        """Take steps 4 to 6 on all active rows. Return the number of inner steps."""
        box, cache, bias = state.box, state.cache, bias_weight(problem)
        a, g, ratio = box.a.copy(), box.g.copy(), _inner_ratio(problem, state, rows)
        slots = cache.fetch(rows, state.at_bound())
        K = cache.matrix(rows, slots, bias)
        steps = self._inner_steps(problem, K, K.diagonal(), box, state.groups, ratio)
        change = box.a - a
        state.dual_value += 0.5 * float(change @ (g + box.g))
        # One sum for g, not one for each step: its rounding does not grow with the number of steps.
        moved = np.flatnonzero(change)
        box.g[:] = g
        update_gradient(problem, state, moved, slots[moved], change[moved])
        return steps

    def _select(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        """Return the active rows that step 3 of README.md selects. Sets `state.last_set`."""
        box, last = state.box, state.last_set
        n = len(box.a)
        if n <= state.cache.capacity and (n <= self.size or self._is_whole(problem)):
            return np.arange(n)
        free = box.free()
        size = self.size if n <= self.size else min(self.size, max(n // SET_PARTS, MIN_SET))
        # Free variables depend on each other: the more there are, the more are solved for together.
        size = min(max(size, min(int(np.count_nonzero(free)), MAX_SET)), n, state.cache.capacity)
        if size == n:
            return np.arange(n)
        worst = worst_violators(box, size if len(last) == 0 else size // 2, state.groups)
        if len(worst) == 0:
            return worst
        old = np.ones(n, dtype=np.bool_)
        old[worst] = False
        last = last[old[last]]
        kept = np.concatenate([last[free[last]], last[~free[last]]])[: size - len(worst)]
        state.last_set = np.concatenate([worst, kept])  # the newest first
        return np.sort(state.last_set)  # kernel values are read in the order of memory

    def _inner_steps(self, problem: Problem, K: np.ndarray, diagonal: np.ndarray, small: Box, groups: int, ratio: float) -> int:
        """Solve the problem of one working set until its violation is `ratio` of that before, in place. Return the number of steps."""
        tiny = MIN_CURVATURE[K.dtype] * float(diagonal.sum()) / len(diagonal)
        most, margin = MAX_INNER * len(small.a), float(problem.offset.scale)
        if groups == 0:
            return int(coupled_steps(K, diagonal + small.r, small, tiny, ratio, most, margin))
        ends = np.array([len(small.a)]) if groups == 1 else np.searchsorted(small.group, np.arange(groups), side="right")
        return int(pair_steps(K, diagonal + small.r, small, tiny, ratio, most, margin, ends))

    # ----------------------------------------------------------------------------------------------------------------- compile

    def plan(self, problem: Problem) -> str:
        return self._precision(problem).name

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, WorkingSetState]:
        small = problem.head(32)
        state = replace(self, precision=self._precision(problem).name).start(small, rng)
        for _ in range(2):
            self.epoch(small, state, rng)
        if len(state.active) == small.n:
            small = small.replace()  # another memory: values at hand come from the matrix in the cache, which shrinking moves
            shrinking.shrink(state, np.arange(min(MIN_SET, max(small.n // 2, 1))))
        newton_step(small, state)
        state.box.a[0] += 1e-9
        shrinking.refresh_gradient(small, state)
        shrinking.check_shrunk_rows(small, state)
        shrinking.unshrink(state, np.arange(small.n))
        if state.blocks.norms is not None:
            own_expansion(state.blocks.kernel, small.X, state.all.a)  # of certificates with many rows
        return small, state

    # ----------------------------------------------------------------------------------------------------------------- results

    def dual(self, problem: Problem, state: WorkingSetState) -> np.ndarray:
        return beta_of(problem, state.current_a())

    def gap_estimate(self, problem: Problem, state: WorkingSetState) -> float:
        return gap_estimate(problem, state)


def _inner_ratio(problem: Problem, state: WorkingSetState, rows: np.ndarray) -> float:
    """Return the violation after / before the inner steps on a set of these rows."""
    first = state.shrinks and len(state.active) == problem.n
    return INNER_RATIO_WHOLE if len(rows) == len(state.box.a) and not first else INNER_RATIO
