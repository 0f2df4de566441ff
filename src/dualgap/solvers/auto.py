"""Auto: a list of candidate methods for a problem, and one rule that passes a run on from one to the next.

The list depends on n, d, the stored numbers, the loss, the penalty and the intercept alone. Each line names a cell of benchmarks.ablation
that takes at least 1.2 times as long without it.

    rows read from disk      Blocks
    l1, smooth loss          ProxNewton, SSNAL, then DCA (APG where l2 = 0)
    l1 alone, a kink         SSNAL, then APG
    l1 and l2, a kink        DCA, SSNAL
    other kernels            WorkingSet where the dual is quadratic, else DCA; SDCA if the kernel matrix exceeds its memory
    no l1, linear            DCA and, by what they are expected to cost (`options`):
                               WorkingSet on the linear kernel: quadratic dual, few rows      (counts 350 × 3946, hinge, C = 1e4)
                               Newton: few features                                           (digits, hinge, C = 1e4)
                               Newton in n coordinates: dense, d ≥ WIDE·n, logistic or wider  (wide 500 × 5000, logistic, C = 1)
                               NewtonCG: smooth loss                                          (voices 400 × 617, logistic, C = 100)
                             DCA comes first (text 3000 × 20000; correlated 500 × 2000), unless there are WIDE times as many rows as
                             columns, Newton costs few passes and the penalty is weak; and once more after the second method

The rule: a method hands its β over to the next one in the list once it has spent its budget of passes, unless it will be done within as
many again at its present rate; or once its gap stands still, or has not halved for `stall_steps` epochs. The gap is P − D in units of D: in
units of P it would stay near 1 until shortly before the end where a penalty is weak. The budget of DCA is SHARE of what the next method is
expected to cost, so that a problem on which coordinate steps are fast pays for nothing else, and one on which they are slow pays little
for them. After the last method comes the first one again, with twice the patience: no method waits for ever, and none is given up. A run
that seems stalled or diverged to the driver goes on with the next method while one is untried.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from dualgap.core import L2, inner, is_dense, machine, stored
from dualgap.kernels import make_kernel
from dualgap.problem import Problem
from dualgap.proof import best_intercept, scores_of
from dualgap.solvers.base import YES, Solver, State, Support, Warm, can, register
from dualgap.solvers.coordinate import DCA, SDCA, Blocks
from dualgap.solvers.gradient import APG
from dualgap.solvers.linear_kernel import LinearKernel
from dualgap.solvers.newton import SSNAL, Newton, NewtonCG, ProxNewton, is_small
from dualgap.solvers.precomputed import forming_passes, on_span
from dualgap.solvers.working_set import WorkingSet

__all__ = ["Auto"]

# Costs are in passes of DCA over the rows, Python's part of an epoch included.
SHARE = 0.4  # part of the cost of the next method that DCA may spend before it hands over
LEAST_COST = 5.0  # from which DCA comes first, for at least as many passes: of very small problems Python's part is all that counts
RETRY = 50.0  # passes of DCA after another method has stalled, the first time
SWEEPS = 100.0  # passes of ProxNewton, nearly all of them sweeps of its coordinate descent
ELASTIC = 33.0, 330.0  # cost of SSNAL with a kink, at least and at most: no shape foretells it
FIRST = (
    20.0,
    200.0,
)  # cost up to which a method comes before DCA: rows sparse and nearly orthogonal, or dense with correlated columns
NEWTON_STEPS, SMOOTH_STEPS = 25, 5  # steps of a typical Newton run on the hinge, and on a smooth loss
FREE_ROWS = 10  # rows per feature that have curvature after the first steps on the hinge, at most
WIDE = 4  # the larger of n and d in units of the smaller, from which data are long, or wide
CG_COST, CG_LIMIT = 100.0, 300.0  # of NewtonCG, and passes that it may spend; no shape foretells it
SET_ROWS = 20_000  # up to which WorkingSet is a candidate: kernel rows of more take long to compute, and are not kept
# Of WorkingSet, at most: with 660, news20 one group, hinge, C = 1e4, takes 1.3 times as long; with 165, indicators 600 × 1431 3 times.
SET_COST = 330.0
STILL, STILL_EPOCHS = (
    1e-6,
    5,
)  # part by which a gap changes at most, and epochs, after which a method is at the limit of its arithmetic
PAIR_STEPS = 60  # of WorkingSet, on pairs of variables, for each row: most take far fewer, rows of unequal columns as many
# A penalty is strong if the mean of qᵢ = ‖xᵢ‖²/(n·l2), the curvature of D in βᵢ, is at most STRONG in units of −ψ'', that of the loss
STRONG = 2.0  # where there is a kink; a fifth of it elsewhere


def as_given(problem: Problem) -> Problem:
    return problem


def on_linear_kernel(problem: Problem) -> Problem:
    return problem.replace(kernel=make_kernel("linear"))


class Candidate(NamedTuple):
    """A method, the form of the problem on which it works, and the passes that it may spend before the next candidate is tried."""

    method: Solver
    passes: float = math.inf
    form: Callable[[Problem], Problem] = as_given

    def forming(self, problem: Problem) -> float:
        """Return what the form of the problem costs, in passes over the rows."""
        return forming_passes(problem) if self.form is on_span else 0.0


@dataclass(kw_only=True)
class AutoState(State):
    """The method at work and its state. Sets: all by `start` and by a change of method; the records by every epoch."""

    candidates: tuple[Candidate, ...]
    share: float = 1.0  # of a pass of coordinate ascent that is not Python's part of an epoch
    turn: int = 0  # how many candidates have had their turn; the list is gone through again and again
    method: Solver
    inner: State
    problem: Problem  # in the form on which the method works
    steps: int = 0  # epochs of the run
    # Records of the method at work
    spent: float = 0.0  # its cost so far, in passes with Python's part of an epoch
    estimates: list[tuple[float, float]] = field(default_factory=list)  # that cost, and P/D − 1 by the gap estimate
    best: float = math.inf  # P/D − 1 when it last halved, and the epoch of that
    best_at: int = 0
    last: float = math.inf  # P/D − 1 after the last epoch, and epochs in a row that have not changed it
    still: int = 0

    @property
    def candidate(self) -> Candidate:
        return self.candidates[self.turn % len(self.candidates)]

    @property
    def patience(self) -> int:
        """Return the factor of budgets: it doubles each time the list has been gone through."""
        return 1 << (self.turn // len(self.candidates))


@register
@dataclass(frozen=True)
class Auto(Solver):
    """Chooses methods by the problem's shape, and passes a run on from one to the next.

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
        return choose(problem)[0].method if problem.streaming else self

    def supports(self, problem: Problem) -> Support:
        first = choose(problem)[0]
        return first.method.supports(problem) if first.form is as_given else YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> AutoState:
        candidates = choose(problem)
        method, _, form = candidates[0]
        target = form(problem)
        inner = method.start(target, rng, None if warm is None else _warm_for(target, warm))
        passes = inner.passes + candidates[0].forming(problem)
        share = 1.0
        if problem.X is not None and problem.kernel is None and not problem.streaming:
            share = pass_time(problem) / (pass_time(problem) + machine.EPOCH)
        return AutoState(candidates=candidates, share=share, method=method, inner=inner, problem=target, passes=passes)

    def epoch(self, problem: Problem, state: AutoState, rng: np.random.Generator) -> None:
        before = state.inner.passes
        state.inner.tol = state.tol
        state.method.epoch(state.problem, state.inner, rng)
        state.passes += state.inner.passes - before
        state.steps += 1
        state.spent += state.share * (state.inner.passes - before) + 1.0 - state.share
        self._record(state)
        if reason := self._reason_to_hand_over(state):
            self._hand_over(problem, state, reason, rng)

    def change_method(self, problem: Problem, state: AutoState, rng: np.random.Generator) -> bool:
        """Hand over from a method that is stalled, while another one is untried; return whether that was so."""
        if state.turn + 1 >= len(state.candidates):
            return False
        self._hand_over(problem, state, "its gap stands still", rng)
        return True

    def _record(self, state: AutoState) -> None:
        own, estimate = state.inner.gap, state.method.gap_estimate(state.problem, state.inner)
        gap, estimate = _excess(own), _excess(own if estimate is None else estimate)
        if estimate < math.inf:
            state.estimates.append((state.spent, estimate))
        state.still = state.still + 1 if abs(gap - state.last) <= STILL * gap else 0
        state.last = gap
        if gap < 0.5 * state.best:
            state.best, state.best_at = gap, state.steps

    def _reason_to_hand_over(self, state: AutoState) -> str:
        """Return why the next candidate takes over now; '' where it does not."""
        if len(state.candidates) == 1:
            return ""
        waited = state.steps - state.best_at
        if state.still >= STILL_EPOCHS:
            return f"its gap stands still for {state.still} epochs"
        if waited > state.method.stall_steps * state.patience:
            return f"its gap has not halved for {waited - 1} epochs"
        budget = state.candidate.passes * state.patience
        if state.spent > budget and not self._soon_done(state, 2.0 * budget):
            return f"{budget:.3g} passes are spent"
        return ""

    def _soon_done(self, state: AutoState, passes: float) -> bool:
        """Return whether the method reaches the tolerance within so many passes in all, at the rate of the later half of them."""
        now, estimates = state.spent, state.estimates
        first = bisect_left(estimates, (0.5 * now, 0.0))
        if now > passes or first == len(estimates) or state.tol <= 0.0:
            return False
        (then, gap_then), gap_now = estimates[first], estimates[-1][1]
        if gap_now <= state.tol:
            return True
        if not 0.0 < gap_now < gap_then:
            return False
        return now + math.log(gap_now / _excess(state.tol)) * (now - then) / math.log(gap_then / gap_now) <= passes

    def _hand_over(self, problem: Problem, state: AutoState, reason: str, rng: np.random.Generator) -> None:
        """Start the next candidate from the dual variables, and the model, of the present one."""
        last, before, old = state.method, state.problem, state.inner
        following = state.candidates[(state.turn + 1) % len(state.candidates)]
        target = before if following.form is state.candidate.form else following.form(problem)
        dual, (coef, intercept) = last.dual(before, old), last.model(before, old)
        if intercept is None:
            intercept = last.intercept(before, old)
        if coef is not None and target is not before:
            coef = problem.combine(coef) if before.kernel is not None else coef if target is problem else None
        warm = _with_best_intercept(target, _warm_for(target, Warm(coef, intercept, dual)))
        inner = following.method.start(target, rng, None if _misleads(target, following.method, warm) else warm)
        forming = following.forming(problem) if target is not before else 0.0
        state.handovers.append((state.steps, f"{last.name} → {following.method.name}: {reason}"))
        state.turn, state.method, state.inner, state.problem = state.turn + 1, following.method, inner, target
        state.passes += inner.passes + forming
        state.spent, state.estimates = 0.0, []
        state.last, state.still = math.inf, 0
        state.best, state.best_at = math.inf, state.steps  # gaps of two methods' w and β do not compare

    def plan(self, problem: Problem) -> str:
        return str([(method.name, method.plan(target)) for method, target in _compiled_ahead(problem)])

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, AutoState]:
        for method, target in _compiled_ahead(problem):
            small, inner = method.warm_up(target, rng)
        return small, AutoState(candidates=choose(problem), method=method, inner=inner, problem=small)

    def model(self, problem: Problem, state: AutoState) -> tuple[np.ndarray | None, float | None]:
        # In another form of the problem the model is the w(β) of `dual`.
        return state.method.model(state.problem, state.inner) if state.problem is problem else (None, None)

    def dual(self, problem: Problem, state: AutoState) -> np.ndarray | None:
        return state.method.dual(state.problem, state.inner)

    def gap_estimate(self, problem: Problem, state: AutoState) -> float | None:
        return state.method.gap_estimate(state.problem, state.inner)


def _excess(gap: float) -> float:
    """Return P/D − 1 from the relative gap (P − D)/P, which stays near 1 for most of a run at a weak penalty, whatever P does."""
    return gap / (1.0 - gap) if gap < 1.0 else math.inf


def _with_best_intercept(problem: Problem, warm: Warm) -> Warm:
    """Return a warm start with the b that is best for its model, if the intercept is free and there is no kernel.

    The b of coordinate ascent swings from sweep to sweep. Where one class is most of the data, its margins lie together near the kink,
    and a b that is off by a tenth puts all of them on the wrong side.
    """
    if problem.intercept != "free" or problem.kernel is not None or warm.coef is None:
        return warm
    return warm._replace(intercept=best_intercept(problem, scores_of(problem, problem.stored(warm.coef))))


def _misleads(problem: Problem, method: Solver, warm: Warm) -> bool:
    """Return whether a method that works on the model would start from one that is worse than w = 0: w(β) may be, however high D(β) is."""
    if problem.kernel is not None or isinstance(method, DCA) or warm.coef is None:
        return False
    if not np.isfinite(warm.coef).all():
        return True
    return bool(problem.objective(warm.coef, warm.intercept) > problem.objective(np.zeros(problem.size), 0.0))


def _warm_for(problem: Problem, warm: Warm) -> Warm:
    """Return a warm start whose model is one of this form of the problem: that of β where it has none, or another one."""
    if warm.dual is None or (warm.coef is not None and len(warm.coef) == problem.size):
        return warm
    expansion = problem.c * problem.y * warm.dual / problem.l2
    return warm._replace(coef=expansion if problem.kernel is not None else problem.penalty.primal(problem.combine(expansion)))


def _compiled_ahead(problem: Problem) -> list[tuple[Solver, Problem]]:
    """Return the methods that a run is likely to come to, each with a problem of the form on which it works, the first one last.

    The others are seldom come to: to compile what few runs need would keep every first fit waiting.
    """
    first, *others = choose(problem)
    likely = [first]
    if others and first.passes < math.inf and isinstance(others[0].method, Newton) and others[0].form is as_given:
        likely.insert(0, others[0])
    return [(method, form(problem)) for method, _, form in likely]


def choose(problem: Problem) -> tuple[Candidate, ...]:
    """Return the candidates for a problem, in the order in which they take over from each other."""
    if problem.streaming:
        return (Candidate(Blocks()),)
    fallback = Candidate(DCA() if problem.l2 > 0.0 else APG(), RETRY)
    if problem.l1 > 0 and ProxNewton().supports(problem):
        return (Candidate(ProxNewton(), SWEEPS), Candidate(SSNAL()), fallback)
    if problem.l2 == 0:
        return (Candidate(SSNAL()), fallback)
    if problem.kernel is not None:
        return (Candidate(_kernel_method(problem)),)
    if problem.l1 > 0:
        least, most = ELASTIC
        budget = SHARE * min(max(newton_cost(problem), least), most)
        return (Candidate(DCA(), budget), Candidate(SSNAL()))
    return _linear(problem)


def _kernel_method(problem: Problem) -> Solver:
    assert problem.kernel is not None
    if problem.kernel.name == "linear" and problem.X is not None:
        return LinearKernel()
    working_set = WorkingSet(cache_size=problem.rows.memory / 1e6) if problem.blocked else WorkingSet()
    return working_set if working_set.supports(problem) else SDCA() if problem.blocked else DCA()


def _linear(problem: Problem) -> tuple[Candidate, ...]:
    """Return the candidates of a linear problem with the l2 penalty: DCA, and the other methods in the order of their costs."""
    ordered = sorted(options(problem), key=lambda option: option[0])
    if not ordered:
        return (Candidate(DCA()),)
    (cost, best), others = ordered[0], [candidate for _, candidate in ordered[1:]]
    again = Candidate(DCA(), RETRY)
    most = FIRST[is_dense(problem.rows)] if is_long(problem) else LEAST_COST
    if cost > most or (is_strong(problem) and not is_small(problem)):
        first = Candidate(DCA(), max(SHARE * cost, LEAST_COST))
        return (first, best, again, *others) if others else (first, best)
    return (best, again, *others)


def options(problem: Problem) -> list[tuple[float, Candidate]]:
    """Return the methods besides DCA that a linear problem with the l2 penalty may be given to, each with its cost."""
    found = []
    n, dense = problem.n, is_dense(problem.rows)
    newton, quadratic = Newton().supports(problem), problem.loss.quadratic_pieces() is not None and isinstance(problem.penalty, L2)
    if quadratic and not (newton and is_long(problem)) and n <= SET_ROWS and problem.X is not None:
        pair = (machine.BLAS_PRODUCT if dense else machine.LOOP_PRODUCT) * stored(problem.rows) / n + PAIR_STEPS * machine.PAIR_STEP
        cost = min(pair * n**2 / (machine.EPOCH + pass_time(problem)), SET_COST)
        found.append((cost, Candidate(WorkingSet(), form=on_linear_kernel)))
    if is_wide(problem) and not (quadratic and newton):
        found.append((newton_cost(problem), Candidate(Newton(), form=on_span)))
    elif newton:
        found.append((newton_cost(problem), Candidate(Newton())))
    if can(NewtonCG(), problem):
        found.append((SET_COST if quadratic else CG_COST, Candidate(NewtonCG(), CG_LIMIT)))
    return found


def is_long(problem: Problem) -> bool:
    """Return whether there are far more rows than columns: nearly all rows then depend on each other, and coordinate steps are slow."""
    return problem.n >= WIDE * problem.d


def is_wide(problem: Problem) -> bool:
    """Return whether rows of the Gram matrix, with n numbers, are far shorter than those of X, and a system of n unknowns can be solved."""
    simple = is_dense(problem.rows) and isinstance(problem.penalty, L2)
    return simple and problem.d >= WIDE * problem.n and problem.n <= Newton.most_features


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
        return problem.intercept != "free" and problem.loss.curvature() * mean <= 0.2 * STRONG
    return bool(mean <= STRONG * float(problem.offset.scale))


def pass_time(problem: Problem) -> float:
    """Return the estimated nanoseconds of a pass of coordinate ascent, without Python's part."""
    entry = machine.DENSE_ENTRY if is_dense(problem.rows) else machine.SPARSE_ENTRY
    step = machine.STEP if problem.loss.quadratic_pieces() is not None else machine.STEP + machine.LOGISTIC_STEP
    return stored(problem.rows) * entry + problem.n * step


def newton_cost(problem: Problem) -> float:
    """Return the estimated cost of a typical Newton run, in the n coordinates of the rows' span if the data are wide."""
    n, d, numbers, dense = problem.n, problem.d, stored(problem.rows), is_dense(problem.rows)
    smooth, forming = not problem.loss.has_kink(), 0.0
    dca_pass = machine.EPOCH + pass_time(problem)
    if d > Newton.most_features or (problem.loss.quadratic_pieces() is None and is_wide(problem)):
        forming = (machine.BLAS_PRODUCT * d + machine.CHOLESKY * n) * n**2
        d, numbers = n, n * n
    curved = n if smooth else min(n, FREE_ROWS * d)  # rows that enter the Newton system
    product = machine.LOOP_PRODUCT if not dense else machine.BLAS_PRODUCT if d > machine.NARROW else machine.NARROW_PRODUCT
    step = numbers * machine.SCORE_ENTRY[0 if dense else 1] + machine.NEWTON_ROW * n
    step += machine.CHOLESKY * d**3 + product * curved * (numbers / n) ** 2 + machine.EPOCH
    return (forming + (SMOOTH_STEPS if smooth else NEWTON_STEPS) * step) / dca_pass
