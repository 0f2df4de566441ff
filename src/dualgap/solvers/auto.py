"""Auto: choose the method by the problem, and change it when another has become the better bet.

The rule reads n, d, the stored numbers, the loss and the penalty alone. Costs are estimates in nanoseconds, see `costs`.

    1  rows read from disk            Blocks
    2  an l1 part, smooth loss        ProxNewton, on a working set of features; its successor is SSNAL
    3  a kink, l1 alone               LinearProgram for the hinge with few rows and features, else SSNAL
    4  a linear kernel                LinearKernel: steps 5 to 8 on the rows of X
       other kernels                  WorkingSet for the hinge losses; else SDCA if the kernel matrix exceeds its memory; else DCA
    5  a kink, elastic net            DCA; its successor is SSNAL, after half of what a Newton run costs, within limits
    6  dense, d ≥ 4n                  DCA on the precomputed Gram matrix, whose rows are shorter; its successor is Newton in the n
                                      coordinates of the space that the rows span
    7  few features, weak penalty     Newton, where its run costs at most 20 passes of DCA (200 for dense data, on which coordinate
                                      steps are slow); whatever the penalty on the smallest data, where a run is one compiled call
    8  else                           DCA, until a successor takes over from its β:
                                      Newton, where a d × d system can be afforded, once DCA has spent half of what a Newton run costs;
                                      NewtonCG, for a smooth loss, where Newton would come later: after 30 passes, or after 100 for a
                                      loss that is flat beyond a margin, whose support vectors coordinate steps are better at finding;
                                      WorkingSet on the linear kernel, for the hinge, where there is no Newton and the rows are few

A problem that coordinate steps solve in a few passes thus never pays for a factorisation, and one on which they are slow does not wait
long. Three rules change the method in a run, and each change is an entry of `Trace.handovers`:

    a  DCA, or ProxNewton, hands over to its successor after the passes of steps 2, 5 or 8, unless at its present rate of convergence it
       will reach the tolerance within as many passes again. With a smooth loss, DCA hands over to Newton earlier if at that rate
       it needs more than these passes still.
    b  A method whose gap has not halved for `stall_steps` epochs hands its β to DCA. Where l2 = 0, LinearProgram hands over to SSNAL,
       and SSNAL to APG. A method succeeds DCA again after RETRY_PASSES. Both numbers double each time, so that no method waits for
       ever, and none is given up.
    c  DCA, or ProxNewton, hands over to its successor, however soon, if its gap has not fallen by 1 % for STUCK_EPOCHS epochs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import L2, Hinge, inner, is_dense, machine, stored
from dualgap.kernels import make_kernel
from dualgap.problem import Problem
from dualgap.proof import best_intercept, scores_of
from dualgap.solvers.base import Solver, State, Support, Warm, can, register
from dualgap.solvers.coordinate import DCA, SDCA, Blocks
from dualgap.solvers.gradient import APG
from dualgap.solvers.linear_kernel import LinearKernel
from dualgap.solvers.linear_program import LinearProgram, is_small_program
from dualgap.solvers.newton import SSNAL, Newton, NewtonCG, ProxNewton, is_small
from dualgap.solvers.precomputed import LARGEST, forming_passes, on_gram, reduced
from dualgap.solvers.working_set import WorkingSet

__all__ = ["Auto"]

# Step 6
WIDE = 4  # features per row from which the rows of the Gram matrix are short enough
GRAM_PASSES = 150.0  # passes of DCA that forming the Gram matrix may cost: reached at 10,000 rows
QR_PRODUCTS = 2  # products of two numbers in a QR factorisation with its basis, in units of d·n²
# Steps 2 and 5
SWEEP_PASSES = 100.0  # passes of ProxNewton, nearly all of them sweeps of its coordinate descent, before SSNAL takes over
ELASTIC_PASSES = 10.0, 100.0  # passes of DCA before SSNAL takes over, at least and at most: no shape foretells what SSNAL costs
# Steps 7 and 8
NEWTON_STEPS, SMOOTH_STEPS = 25, 5  # steps of a typical Newton run on the hinge, and on a smooth loss
FREE_ROWS = 10  # rows per feature that have curvature after the first steps on the hinge, at most
SPARSE_PASSES, DENSE_PASSES = 20.0, 200.0  # passes of DCA that a Newton run may cost for Newton to be first
# A penalty is strong if the mean of qᵢ = ‖xᵢ‖²/(n·l2), the curvature of D in βᵢ, is at most STRONG_KINK for a loss with a kink, or at most
# STRONG_SMOOTH in units of −ψ'', the curvature that a smooth loss brings along. Measured on seven dense and sparse sets.
STRONG_KINK, STRONG_SMOOTH = 2.0, 0.4
NEWTON_SHARE = 0.5  # part of a Newton run's cost that DCA may spend before Newton takes over
NEWTON_DELTA = 0.5  # Newton's first proximal weight when it starts from a β of DCA
CG_PASSES = 30.0  # passes of DCA before NewtonCG takes over; no shape foretells what NewtonCG costs
CG_PASSES_FLAT = 100.0  # the same for a loss that is flat beyond a margin: NewtonCG first has to find the rows with curvature
SET_ROWS = 20_000  # for which WorkingSet takes over: kernel rows of more take long to compute, and are not kept
SET_PASSES = 200.0  # passes of DCA before it does; rule c is often earlier
LARGE_MARGIN = 100.0  # a margin at which every loss that is flat somewhere is flat
# Rule a
# Part of the passes of step 8 for which DCA may go on if it will then have reached the tolerance. With 1 it spends at most what a Newton
# run costs. Against 0.25 a fit took 0.7 to 0.9 times as long on w8a and on sparse 0/1 rows at 1e-4 to 1e-6, and as long elsewhere (text and
# five generated sets; three losses).
EXTRA_PASSES = 1.0
SLOW_PASSES, SLOW_EPOCHS = (
    1.0,
    3,
)  # part of the passes of step 8 beyond which DCA's need of more hands over to Newton, from this epoch on
# Rule b
RETRY_PASSES = 50.0  # passes of DCA after a method has stalled, the first time
# Rule c
STUCK_EPOCHS, STUCK_RATIO = 25, 0.99  # the driver waits for twice as many before it looks whether a run has stalled


class Choice(NamedTuple):
    """The first method, and what takes over from it after `switch_at` passes."""

    method: Solver
    on_gram: bool = False  # whether the method works on the precomputed Gram matrix
    successor: Solver | None = None
    switch_at: float = math.inf
    likely: bool = False  # whether runs often come to the successor: its kernels are then compiled ahead
    reduced: bool = False  # whether the successor works in the coordinates of the space that the rows span
    strong: Any = None  # the Choice at a strong penalty, where that is another one


@dataclass(kw_only=True)
class AutoState(State):
    """The method at work and its state, with the record by which rules a and b change it."""

    # set by start and by a change of method
    method: Solver
    inner: State
    problem: Problem  # on which the method works: the one given, its Gram form, that with a linear kernel, or the one in fewer coordinates
    basis: np.ndarray | None = None  # of these coordinates
    successor: Solver | None = None  # what takes over …
    switch_at: float = math.inf  # … after this number of passes …
    reduced: bool = False  # … and whether in fewer coordinates
    # changed by every epoch
    halfway: tuple[float, float] = (0.0, math.inf)  # passes and gap estimate half way to switch_at …
    latest: tuple[float, float] = (0.0, math.inf)  # … at the last finite estimate …
    before: tuple[float, float] = (0.0, math.inf)  # … and at the one before
    best: float = math.inf  # gap when it last halved, and the epoch of that
    best_at: int = 0
    least: float = math.inf  # gap when it last fell by 1 %, and the epoch of that
    least_at: int = 0
    steps: int = 0
    rounds: int = 0  # how often a method has stalled


@dataclass(frozen=True)
class Handover(Solver):
    """Stands in while the next method starts: should Ctrl-C come then, it answers for the last one."""

    warm: Warm

    def model(self, problem: Problem, state: State) -> tuple[np.ndarray | None, float | None]:
        return self.warm.coef, None if problem.intercept == "free" else self.warm.intercept

    def dual(self, problem: Problem, state: State) -> np.ndarray | None:
        return self.warm.dual


@register
@dataclass(frozen=True)
class Auto(Solver):
    """Chooses the method by the problem's shape, and changes it when another has become the better bet.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> dualgap.solve(dualgap.Problem(scale(X), y, l2=1e-3), "auto", tol=1e-8).status
    'converged'
    """

    name: ClassVar[str] = "auto"
    takes_bounds: ClassVar[bool] = True
    sparse_cost: ClassVar[str] = "as its choice"
    takes_blocks: ClassVar[bool] = True
    takes_streams: ClassVar[bool] = True
    summary: ClassVar[str] = "picks the method by the problem, and switches"

    def chosen(self, problem: Problem) -> Solver:
        # One method works on rows that are read from disk, so that nothing is left to decide in a run.
        return choose(problem).method if problem.streaming else self

    def supports(self, problem: Problem) -> Support:
        return _chosen(problem).method.supports(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> AutoState:
        choice = _chosen(problem)
        target = on_gram(problem) if choice.on_gram else problem
        inner = choice.method.start(target, rng, warm)
        passes = inner.passes + (forming_passes(problem) if choice.on_gram else 0.0)
        return AutoState(
            method=choice.method,
            inner=inner,
            problem=target,
            passes=passes,
            successor=choice.successor,
            switch_at=choice.switch_at,
            reduced=choice.reduced,
        )

    def epoch(self, problem: Problem, state: AutoState, rng: np.random.Generator) -> None:
        before = state.inner.passes
        state.inner.tol = state.tol
        state.method.epoch(state.problem, state.inner, rng)
        state.passes += state.inner.passes - before
        state.steps += 1
        self._record(state)
        if state.successor is not None and state.switch_at < math.inf:
            reason = self._reason_to_hand_over(state)
            if reason:
                self._succeed(problem, state, reason, rng)
        elif state.steps - state.best_at > state.method.stall_steps * 2**state.rounds:  # rule b
            self._give_way(state, rng)

    def _reason_to_hand_over(self, state: AutoState) -> str:
        """Return why the successor takes over now, by rules a and c; '' where it does not."""
        if state.steps - state.least_at >= STUCK_EPOCHS:
            return f"its gap has not fallen by 1 % for {STUCK_EPOCHS} epochs"
        if state.passes > state.switch_at and not self._soon_done(state):
            return f"{state.switch_at:.3g} passes are spent"
        left = self._passes_left(state) if _is_steady(state) and state.steps >= SLOW_EPOCHS else 0.0
        if left > SLOW_PASSES * state.switch_at:
            return f"{left:.3g} more passes would be needed"
        return ""

    def _passes_left(self, state: AutoState) -> float:
        """Return how many passes more the method needs at the rate of its last two estimates; 0 where there are no two."""
        (passes, gap), (passes_now, gap_now) = state.before, state.latest
        if not state.tol < gap_now < gap < math.inf:
            return 0.0
        return math.log(gap_now / state.tol) * (passes_now - passes) / math.log(gap / gap_now) if state.tol > 0.0 else 0.0

    def _record(self, state: AutoState) -> None:
        estimate = state.method.gap_estimate(state.problem, state.inner)
        if estimate is None:
            estimate = state.inner.gap
        if estimate < math.inf:
            state.before, state.latest = state.latest, (state.passes, estimate)
            if state.passes < 0.5 * state.switch_at or state.halfway[1] == math.inf:
                state.halfway = state.latest
        if state.inner.gap < 0.5 * state.best:
            state.best, state.best_at = state.inner.gap, state.steps
        if state.inner.gap < STUCK_RATIO * state.least:
            state.least, state.least_at = state.inner.gap, state.steps

    def _soon_done(self, state: AutoState) -> bool:
        """Return whether DCA, at its present rate of convergence, reaches the tolerance within EXTRA_PASSES."""
        if _is_steady(state):
            left = self._passes_left(state)
            return state.latest[1] <= state.tol or 0.0 < left <= (1.0 + EXTRA_PASSES) * state.switch_at - state.passes
        (passes, gap), (passes_now, gap_now) = state.halfway, state.latest
        if not 0.0 < gap_now < gap or state.tol <= 0.0:
            return False
        rate = math.log(gap / gap_now) / (passes_now - passes)
        return math.log(gap_now / state.tol) <= rate * ((1.0 + EXTRA_PASSES) * state.switch_at - passes_now)

    def _succeed(self, problem: Problem, state: AutoState, reason: str, rng: np.random.Generator) -> None:
        """Hand over to the successor, with the problem in the form on which it works."""
        assert state.successor is not None
        if state.reduced:
            dual, intercept = state.method.dual(state.problem, state.inner), state.method.intercept(state.problem, state.inner)
            assert dual is not None
            vars(state).update(method=Handover(Warm(None, intercept, dual)), inner=State())  # free the Gram matrix first
            target = reduced(problem)
            state.passes += forming_passes(problem)
            vars(state).update(problem=target.problem, basis=target.basis)
        elif isinstance(state.successor, WorkingSet):
            dual, intercept = state.method.dual(problem, state.inner), state.method.intercept(problem, state.inner)
            assert dual is not None
            expansion = problem.c * problem.y * dual / problem.l2
            vars(state).update(method=Handover(Warm(expansion, intercept, dual)), inner=State())
            state.problem = problem.replace(kernel=make_kernel("linear"))
        self._hand_over(state, state.successor, reason, rng)

    def _give_way(self, state: AutoState, rng: np.random.Generator) -> None:
        """Hand over from a stalled method, which becomes the successor of what takes its place."""
        stalled, fallback = state.method, _fallback(state)
        self._hand_over(state, fallback, f"its gap has not halved for {state.steps - state.best_at - 1} epochs", rng)
        if isinstance(fallback, DCA):
            state.successor, state.reduced = stalled, False
            state.switch_at = state.passes + RETRY_PASSES * 2**state.rounds
        state.rounds += 1

    def _hand_over(self, state: AutoState, method: Solver, reason: str, rng: np.random.Generator) -> None:
        problem, dual, last = state.problem, state.method.dual(state.problem, state.inner), state.method.name
        coef, intercept = state.method.model(problem, state.inner)
        if coef is None:
            coef = problem.penalty.primal(problem.combine(problem.c * problem.y * dual / problem.l2))
        if intercept is None:
            intercept = _best_for(problem, coef, state.method.intercept(problem, state.inner))
        warm = Warm(coef, intercept, dual)
        state.successor, state.switch_at = None, math.inf
        state.handovers.append((state.steps, f"{last or 'dca'} → {method.name}: {reason}"))
        vars(state).update(method=Handover(warm), inner=State())  # free the last method's arrays first
        vars(state).update(inner=method.start(problem, rng, warm), method=method)
        state.passes += state.inner.passes
        state.best, state.best_at = math.inf, state.steps  # gaps of two methods' w and β do not compare
        state.least, state.least_at = math.inf, state.steps
        state.halfway = state.latest = state.before = (0.0, math.inf)

    def plan(self, problem: Problem) -> str:
        choice = _chosen(problem)
        return f"{[(method.name, method.plan(problem)) for method in _compiled_ahead(choice)]} {choice.on_gram}"

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, AutoState]:
        choice = _chosen(problem)
        target = on_gram(problem.head(4)) if choice.on_gram else problem
        for method in _compiled_ahead(choice):
            small, inner = method.warm_up(target, rng)
        return small, AutoState(method=choice.method, inner=inner, problem=small)

    def model(self, problem: Problem, state: AutoState) -> tuple[np.ndarray | None, float | None]:
        if state.problem is not problem and state.basis is None:
            return None, None
        coef, intercept = state.method.model(state.problem, state.inner)
        return (coef if state.basis is None or coef is None else state.basis @ coef), intercept

    def dual(self, problem: Problem, state: AutoState) -> np.ndarray | None:
        return state.method.dual(state.problem, state.inner)

    def gap_estimate(self, problem: Problem, state: AutoState) -> float | None:
        return state.method.gap_estimate(state.problem, state.inner)


def _chosen(problem: Problem) -> Choice:
    """Return the choice at this C. What `choose` returns is one for all problems of a kind over the same rows, such as a path's."""
    choice = choose(problem)
    return choice.strong if choice.strong is not None and is_strong(problem) else choice


def _is_steady(state: AutoState) -> bool:
    """Return whether two estimates tell the rate of convergence: that of a loss with a kink rises once the free variables are known."""
    return not state.problem.loss.has_kink() and isinstance(state.successor, Newton)


def _best_for(problem: Problem, coef: np.ndarray, intercept: float) -> float:
    """Return the b that is best for `coef`, if the intercept is free and there is no kernel; else `intercept`.

    The b of coordinate ascent swings from sweep to sweep. Where one class is most of the data, its margins lie together near the kink,
    and a b that is off by a tenth puts all of them on the wrong side.
    """
    if problem.intercept != "free" or problem.kernel is not None:
        return intercept
    return best_intercept(problem, scores_of(problem, problem.stored(coef)))


def _fallback(state: AutoState) -> Solver:
    """Return what takes the place of a stalled method."""
    if state.problem.l2 > 0:
        return DCA()
    return SSNAL() if isinstance(state.method, LinearProgram) else APG()


def choose(problem: Problem) -> Choice:
    """Return the method that `auto` starts with, and its successor."""
    # 1) rows read from disk
    if problem.streaming:
        return Choice(Blocks())
    # 2) an l1 part, smooth loss
    if problem.l1 > 0 and ProxNewton().supports(problem):
        return Choice(ProxNewton(), successor=SSNAL(), switch_at=SWEEP_PASSES)
    # 3) a kink, l1 alone
    if problem.l2 == 0:
        return Choice(LinearProgram() if LinearProgram().supports(problem) and is_small_program(problem) else SSNAL())
    # 4) kernels
    if problem.kernel is not None:
        if problem.kernel.name == "linear" and problem.X is not None:
            return Choice(LinearKernel())
        working_set = WorkingSet(cache_size=problem.rows.memory / 1e6) if problem.blocked else WorkingSet()
        if working_set.supports(problem):
            return Choice(working_set)
        return Choice(SDCA() if problem.blocked else DCA())
    # 5) a kink, elastic net
    if problem.l1 > 0:
        dca_pass, newton_run = costs(problem)
        least, most = ELASTIC_PASSES
        after = min(max(NEWTON_SHARE * newton_run / dca_pass, least), most)
        return Choice(DCA(), successor=SSNAL(), switch_at=after, likely=after < most)
    # 6) dense, d ≥ 4n
    if wants_gram(problem):
        method, after = gram_successor(problem)
        return Choice(DCA(), on_gram=True, successor=method, switch_at=after, reduced=True)
    # 7) few features
    newton = Newton()
    if newton.supports(problem):
        dca_pass, newton_run = costs(problem)
        # Sparse rows are short and nearly orthogonal, which coordinate steps like. Columns of dense data are correlated.
        if newton_run <= (DENSE_PASSES if is_dense(problem.rows) else SPARSE_PASSES) * dca_pass:
            return Choice(newton, strong=None if is_small(problem) else _ascent_first(problem))
    # 8) DCA with a successor
    return _ascent_first(problem)


def _ascent_first(problem: Problem) -> Choice:
    """Return the choice of DCA, with a successor."""
    method, after = successor(problem)
    # NewtonCG is seldom come to: to compile what few runs need would keep every first fit waiting.
    return Choice(DCA(), False, method, after, likely=method.name == Newton.name)


def _compiled_ahead(choice: Choice) -> list[Solver]:
    """Return the methods that a run is likely to come to, the first one last."""
    return [choice.successor, choice.method] if choice.likely and choice.successor is not None else [choice.method]


def successor(problem: Problem) -> tuple[Solver, float]:
    """Return what takes over from DCA, and after how many of its passes; after infinitely many, where nothing can."""
    method: Solver = DCA()
    after = math.inf
    if Newton().supports(problem):
        dca_pass, newton_run = costs(problem)
        method, after = Newton(delta=NEWTON_DELTA), NEWTON_SHARE * newton_run / dca_pass
    if can(NewtonCG(), problem):
        cg_after = CG_PASSES_FLAT if problem.loss.slope(LARGE_MARGIN) == 0.0 else CG_PASSES
        if cg_after < after:
            method, after = NewtonCG(), cg_after
    if (
        after == math.inf
        and isinstance(problem.loss, Hinge)
        and problem.l1 == 0
        and problem.bounds is None
        and problem.n <= SET_ROWS
        and problem.X is not None
    ):
        method, after = WorkingSet(), SET_PASSES
    return method, after


def gram_successor(problem: Problem) -> tuple[Solver | None, float]:
    """Return what takes over from DCA on the Gram matrix, in the coordinates of the rows' span, and after how many passes."""
    if problem.n > Newton.most_features:
        return None, math.inf
    dca_pass, newton_run = run_costs(problem.n, problem.n, problem.n**2, True, problem.loss)
    return Newton(delta=NEWTON_DELTA), (
        NEWTON_SHARE * newton_run + QR_PRODUCTS * machine.BLAS_PRODUCT * problem.d * problem.n**2
    ) / dca_pass


def is_strong(problem: Problem) -> bool:
    """Return whether the penalty is so strong that coordinate steps converge in a few passes.

    SDCA leaves at most a part of 1 − 1/(1 + curvature·q) of the gap in each pass. The mean of q is that of the class in which it is larger:
    a rare class with long rows, such as frauds, decides how many passes are needed. A smooth loss with a free intercept never counts:
    Newton finds b in the same steps, coordinate ascent needs a loop of its own for it.
    """
    total, signed = float(problem.sqnorms.sum()), float(inner(problem.sqnorms, problem.y))
    positive = int(np.count_nonzero(problem.y > 0.0))
    means = [0.5 * (total + s * signed) / count for s, count in ((1, positive), (-1, problem.n - positive)) if count]
    mean = max(means) / (problem.n * problem.l2)
    if problem.loss.is_smooth():
        return problem.intercept != "free" and problem.loss.curvature() * mean <= STRONG_SMOOTH
    return bool(mean <= STRONG_KINK * float(problem.offset.scale))


def wants_gram(problem: Problem) -> bool:
    """Return whether forming XXᵀ pays: its rows have n numbers, those of X have d."""
    forming = 0.5 * machine.BLAS_PRODUCT * problem.n / machine.DENSE_ENTRY  # in passes of DCA over X
    return (
        problem.kernel is None
        and is_dense(problem.rows)
        and isinstance(problem.penalty, L2)
        and problem.d >= WIDE * problem.n
        and forming <= GRAM_PASSES
        and problem.n <= LARGEST
    )


def costs(problem: Problem) -> tuple[float, float]:
    """Return estimated nanoseconds of one pass of DCA, and of a typical Newton run."""
    return run_costs(problem.n, problem.d, stored(problem.rows), is_dense(problem.rows), problem.loss)


def run_costs(n: int, d: int, numbers: int, dense: bool, loss: Any) -> tuple[float, float]:
    """Return the same for a problem of n rows and d columns with the given count of stored numbers."""
    smooth = not loss.has_kink()
    dca_pass = numbers * (machine.DENSE_ENTRY if dense else machine.SPARSE_ENTRY) + machine.STEP * n
    if loss.quadratic_pieces() is None:
        dca_pass += machine.LOGISTIC_STEP * n
    curved = n if smooth else min(n, FREE_ROWS * d)  # rows that enter the Newton system
    product = machine.LOOP_PRODUCT if not dense else machine.BLAS_PRODUCT if d > machine.NARROW else machine.NARROW_PRODUCT
    step = numbers * machine.SCORE_ENTRY[0 if dense else 1] + machine.NEWTON_ROW * n
    step += machine.CHOLESKY * d**3 + product * curved * (numbers / n) ** 2
    return dca_pass, (SMOOTH_STEPS if smooth else NEWTON_STEPS) * step
