"""Auto: the method that suits a problem, and a change of method when another has become the better bet.

The rule, from n, d, the non-zeros, the loss and the penalty alone (costs are estimates in nanoseconds, see `costs`):

    an l1 part, smooth loss         ProxNewton, on a working set of features
    hinge with l1 alone             APG
    hinge with elastic net          dual coordinate ascent (DCA)
    kernels                         working sets for the hinge losses, else as below
    dense, d ≫ n                    DCA on the Gram matrix, whose rows are shorter
    few features                    Newton, where its run costs at most 20 passes of DCA (200 for dense data, on which
                                    coordinate steps are slow)
    else                            DCA first; Newton takes over from its β once DCA has spent half of what a Newton run would
                                    cost, if d × d systems can be afforded at all; for a smooth loss NewtonCG, which needs none,
                                    takes over where Newton would have to wait longer: after 30 passes if every row bends, and
                                    after 100 if rows come to rest, which coordinate steps are better at finding

So a problem that coordinate steps solve in a few passes never pays for a factorisation, and one that they crawl on does not wait long. DCA
goes on, though, as long as its gap falls so fast that it will be done within a quarter as many passes again.
A run of either that has stopped making progress hands its β back to DCA.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import L1, L2, NARROW, Logistic
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, register
from dualgap.solvers.coordinate import DCA, SDCA
from dualgap.solvers.gradient import APG
from dualgap.solvers.newton import Newton, NewtonCG, ProxNewton
from dualgap.solvers.precomputed import forming_passes, on_gram
from dualgap.solvers.working_set import WorkingSet

__all__ = ["Auto"]

NEWTON_STEPS, SMOOTH_STEPS = 25, 8  # a typical run on the hinge, and on a loss that bends everywhere
LOGARITHMS = 120.0  # nanoseconds that a coordinate step of the logistic loss spends on them
SPARSE_PASSES, DENSE_PASSES = 20.0, 200.0  # passes of DCA that a Newton run may cost for `auto` to start with it
PATIENCE = 0.5  # part of a Newton run's cost that DCA may spend before Newton takes over
CG_PATIENCE = 30.0  # passes that DCA may spend before NewtonCG, whose cost no shape foretells, takes over …
RESTING_PATIENCE = 100.0  # … and for a loss whose rows rest beyond a margin: which of them do is what takes NewtonCG its steps
SOON = 0.25  # part of the passes it was given that DCA may go on for, if by then, as fast as its gap falls, it will be done
FAR = 100.0  # a margin beyond which no loss asks for more, if there is one
STALL_STEPS = 40  # Newton steps without halving the gap after which DCA takes over …
CG_STALL_STEPS = 150  # … and of NewtonCG, whose steps are cheap and whose gap falls by fits and starts
TAKE_OVER_DELTA = 0.5  # Newton's first proximal weight when it starts from a β of DCA


@dataclass
class AutoState(State):
    method: Any = None
    inner: Any = None
    problem: Any = None  # the one that the method works on: the problem itself, or its Gram form
    switch_at: float = math.inf  # passes of DCA after which the next method takes over
    mark: tuple[float, float] = (0.0, math.inf)  # passes and gap of DCA half way to there, and as they are now
    seen: tuple[float, float] = (0.0, math.inf)
    best: float = math.inf
    best_at: int = 0
    steps: int = 0


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
    sparse_cost: ClassVar[str] = "as its choice"
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "picks the method by the problem, and switches"

    def supports(self, problem: Problem) -> Support:
        return first_method(problem).supports(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> AutoState:
        method = first_method(problem)
        state = AutoState(method=method, problem=problem)
        if isinstance(method, DCA):
            if wants_gram(problem):
                state.problem = on_gram(problem)
                state.passes = forming_passes(problem)
            else:
                state.switch_at = successor(problem)[1]
        state.inner = method.start(state.problem, rng, warm)
        state.passes += state.inner.passes
        return state

    def epoch(self, problem: Problem, state: AutoState, rng: np.random.Generator) -> None:
        before = state.inner.passes
        state.inner.tol = state.tol
        state.method.epoch(state.problem, state.inner, rng)
        state.passes += state.inner.passes - before
        state.steps += 1
        self._note(state)
        gap = getattr(state.inner, "gap", None)
        if gap is not None and gap < 0.5 * state.best:
            state.best, state.best_at = gap, state.steps
        if isinstance(state.method, DCA) and state.passes > state.switch_at and not self._soon_there(state):
            self._hand_over(state, successor(problem)[0], rng)
        elif state.steps - state.best_at > stall_steps(state.method):
            self._hand_over(state, DCA(), rng)

    def _note(self, state: AutoState) -> None:
        gap = state.method.gap_estimate(state.problem, state.inner)
        if gap is not None and gap < math.inf:
            state.seen = state.passes, gap
            if state.passes < 0.5 * state.switch_at or state.mark[1] == math.inf:
                state.mark = state.seen

    def _soon_there(self, state: AutoState) -> bool:
        """Whether DCA, as fast as its gap has fallen of late, will be done within a few more passes."""
        (passes, gap), (passes_now, gap_now) = state.mark, state.seen
        if not 0.0 < gap_now < gap or state.tol <= 0.0:
            return False
        rate = math.log(gap / gap_now) / (passes_now - passes)
        return math.log(gap_now / state.tol) <= rate * SOON * state.switch_at

    def plan(self, problem: Problem) -> str:
        return f"{[method.name for method in self._methods(problem)]} {wants_gram(problem)}"

    def _methods(self, problem: Problem) -> list[Solver]:
        """Those that a run is likely to come to, the first one last."""
        first = first_method(problem)
        if isinstance(first, DCA) and not wants_gram(problem) and isinstance(successor(problem)[0], Newton):
            return [successor(problem)[0], first]
        # Newton seldom hands over, and NewtonCG is seldom come to: to compile what few runs need would keep every first fit waiting.
        return [first]

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, AutoState]:
        methods = self._methods(problem)
        target = problem.head(4)
        if wants_gram(problem):
            target = on_gram(target)
        for method in methods:
            small, inner = method.warm_up(target, rng)
        return small, AutoState(method=methods[-1], inner=inner, problem=small)

    def _hand_over(self, state: AutoState, method: Solver, rng: np.random.Generator) -> None:
        problem, dual = state.problem, state.method.dual(state.problem, state.inner)
        coef, intercept = state.method.model(problem, state.inner)
        if coef is None:
            coef = problem.penalty.primal(problem.combine(problem.c * problem.y * dual / problem.l2))
        if intercept is None:
            intercept = state.method.intercept(problem, state.inner)
        state.method, state.switch_at, state.inner = method, math.inf, None  # what the last method held is let go of first
        state.inner = method.start(problem, rng, Warm(coef, intercept, dual))
        state.passes += state.inner.passes
        state.best, state.best_at = math.inf, state.steps  # the gap of another method's w and β is no measure for this one

    def model(self, problem: Problem, state: AutoState) -> tuple[np.ndarray | None, float | None]:
        return state.method.model(state.problem, state.inner) if state.problem is problem else (None, None)

    def scores(self, problem: Problem, state: AutoState) -> np.ndarray | None:
        return state.method.scores(state.problem, state.inner) if state.problem is problem else None

    def dual(self, problem: Problem, state: AutoState) -> np.ndarray | None:
        return state.method.dual(state.problem, state.inner)

    def gap_estimate(self, problem: Problem, state: AutoState) -> float | None:
        return state.method.gap_estimate(state.problem, state.inner)


def first_method(problem: Problem) -> Solver:
    """The method that `auto` starts with.

    Examples
    --------
    >>> import dualgap, numpy as np
    >>> from dualgap.solvers.auto import first_method
    >>> X, y = np.random.default_rng(0).standard_normal((100, 5)), np.arange(100) % 2
    >>> first_method(dualgap.Problem(X, y)), first_method(dualgap.Problem(X, y, l2=0.0, l1=0.1)).name
    (Newton(delta=2.0), 'apg')
    """
    if problem.l1 > 0 and ProxNewton().supports(problem):
        return ProxNewton()
    if isinstance(problem.penalty, L1):
        return APG()
    if problem.kernel is not None:
        kernel_method = WorkingSet(cache_size=problem.rows.memory / 1e6) if problem.blocked else WorkingSet()
        if kernel_method.supports(problem):
            return kernel_method
    if problem.blocked:
        return SDCA()
    if problem.kernel is not None or not isinstance(problem.penalty, L2) or wants_gram(problem):
        return DCA()
    newton = Newton()
    if not newton.supports(problem):
        return DCA()
    dca_pass, newton_run = costs(problem)
    # Sparse rows are short and nearly orthogonal, which coordinate steps like; columns of dense data are correlated, which they do not.
    affordable = DENSE_PASSES if isinstance(problem.rows, storage.Dense) else SPARSE_PASSES
    return newton if newton_run <= affordable * dca_pass else DCA()


def stall_steps(method: Solver) -> float:
    """Steps without halving its gap after which a method hands over to DCA."""
    if isinstance(method, NewtonCG):
        return CG_STALL_STEPS
    return STALL_STEPS if isinstance(method, Newton) else math.inf


def successor(problem: Problem) -> tuple[Solver, float]:
    """What takes over from DCA, and after how many of its passes; after infinitely many, where nothing can.

    Examples
    --------
    >>> import dualgap, numpy as np
    >>> from scipy import sparse
    >>> from dualgap.solvers.auto import successor
    >>> X, y = sparse.eye_array(100, 5000, format="csr"), np.arange(100) % 2
    >>> successor(dualgap.Problem(X, y, loss="logistic"))
    (NewtonCG(products=250), 30.0)
    >>> successor(dualgap.Problem(X, y, loss="hinge"))
    (DCA(), inf)
    """
    method: Solver = DCA()
    patience = math.inf
    if Newton().supports(problem):
        dca_pass, newton_run = costs(problem)
        method, patience = Newton(delta=TAKE_OVER_DELTA), PATIENCE * newton_run / dca_pass
    if NewtonCG().supports(problem):
        rests = problem.loss.slope(FAR) == 0.0
        cg_patience = RESTING_PATIENCE if rests else CG_PATIENCE
        if cg_patience < patience:
            method, patience = NewtonCG(), cg_patience
    return method, patience


def wants_gram(problem: Problem) -> bool:
    """Whether rows of XXᵀ (n numbers) are so much shorter than those of X (d numbers) that forming it pays."""
    return (
        problem.kernel is None
        and isinstance(problem.rows, storage.Dense)
        and isinstance(problem.penalty, L2)
        and problem.d >= 4 * problem.n
        and problem.n <= 10_000
    )


def costs(problem: Problem) -> tuple[float, float]:
    """Estimated nanoseconds of one pass of DCA, and of a typical Newton run."""
    dense = isinstance(problem.rows, storage.Dense)
    stored = problem.n * problem.d if dense else len(problem.rows.data)
    width = stored / problem.n
    dca_pass = stored * (1.0 if dense else 3.0) + 15.0 * problem.n
    if isinstance(problem.loss, Logistic):
        dca_pass += LOGARITHMS * problem.n
    smooth = math.isfinite(problem.loss.curvature())
    active = problem.n if smooth else min(problem.n, 10 * problem.d)  # rows between the bounds, after the first steps
    product = 0.03 if dense and problem.d > NARROW else 0.5  # by BLAS, or by loops of our own
    step = stored * (1.0 if dense else 1.5) + 10.0 * problem.n + 0.03 * problem.d**3 + product * active * width**2
    return dca_pass, (SMOOTH_STEPS if smooth else NEWTON_STEPS) * step
