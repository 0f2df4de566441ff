"""The driver: compiles outside the clock, runs epochs, stops the clock, evaluates, and decides when to stop.

The one place with a clock and a tolerance. Solvers only do arithmetic; whatever happens (Ctrl-C, a time limit, divergence), the best
model so far comes back with its certificate.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import generator, kept, number, whole_number
from dualgap.problem import Problem, as_vector
from dualgap.proof import Certificate, require_semidefinite
from dualgap.run.deciding import decide_rows
from dualgap.run.evaluation import SolverRun, make_watched
from dualgap.run.result import SUCCESSES, ConvergenceWarning, Result, Status, Trace, advice, of_zero
from dualgap.run.stepper import STALL_EVALUATIONS, Evaluation, Stepper
from dualgap.solvers import Solver, Warm, get_solver, require

__all__ = ["Progress", "drive", "minimise", "prepare_solver", "schedule", "solve"]

DIVERGED = 1e9  # times the objective of w = 0: five evaluations above it in a row count as divergence

# A gap below the resolution of float64 ends the run if it falls by less than 1 % over this number of evaluations, and of epochs.
ROUNDING_EVALUATIONS, ROUNDING_EPOCHS = 3, 10
SLOW_START = 200  # epochs after which an estimate that does not improve, large or infinite, is looked into by evaluations
SMALL = 1e-2  # relative gap: an estimate that stays above it may be a slow start, one that stays below it the limit of rounding
LOOK_ONE_IN = 32  # such evaluations come once in a 32nd of the epochs so far where most epochs have no estimate
STUCK, STILL = 50, 1e-6  # epochs in a row in each of which the estimate changes by at most this part: the method no longer moves
DECIDE_RATIO, DECIDE_GROWTH = 0.1, 2.0  # with rows to decide: fall of the estimate, or growth of the epochs, between evaluations
ESTIMATED_EPOCHS = {2**k for k in range(5, 24)}  # epochs at which a solver that estimates its gap is evaluated all the same


@dataclass(frozen=True)
class Progress:
    """What a callback is shown at each evaluation: the newest row of the trace, the certificate and the model it is of.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> seen = []
    >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1)
    >>> result = dualgap.solve(problem, "sdca", callbacks=[lambda progress: seen.append(progress.epoch)])
    >>> seen[:3]
    [1, 2, 3]
    """

    epoch: int
    record: dict[str, float]
    certificate: Certificate
    tol: float
    max_epochs: int
    coef: np.ndarray  # the model just evaluated; not to be changed
    intercept: Any  # a number; for a joint problem one a class


class Clock:
    """CPU and wall seconds of the updates alone; CPU seconds, which are a call of the system, only if `recorded`."""

    def __init__(self, recorded: bool) -> None:
        self.cpu = self.wall = 0.0
        self._now = time.process_time if recorded else float

    def __enter__(self) -> Clock:
        self._cpu, self._wall = self._now(), time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        self.cpu += self._now() - self._cpu
        self.wall += time.perf_counter() - self._wall


class Ended(NamedTuple):
    """How a run ended; the fields of a `Result` that the driver knows."""

    status: Status
    trace: Trace
    epochs: int
    cpu_seconds: float
    wall_seconds: float


def drive(
    stepper: Stepper,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    *,
    evaluate: str | Callable[[int], bool] = "auto",
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    stall: bool = True,
    halt: Callable[[], bool] | None = None,
) -> Ended:
    """Step until the certified relative gap is at most `tol` or the budget is spent; arguments as of `solve`.

    Whatever ends the run, the stepper then has the best model so far with its certificate. `halt` is asked after each epoch; where it
    says True, the run ends with status "interrupted". Ctrl-C reaches the main thread alone, and this is how other threads hear of it.
    """
    stepper.tol = tol
    due, callbacks, trace, clock = _Due(evaluate, stepper), tuple(callbacks), Trace(), Clock(stepper.recorded)
    began = time.perf_counter()
    reserve = 0.0  # seconds that the last evaluation took: kept for the one that ends the run
    status: Status | None = None
    epoch = evaluated = 0
    with kept() as ctrl_c:
        ctrl_c.begin()  # from here on Ctrl-C is raised in epochs and callbacks alone
        try:
            while status is None:
                with np.errstate(all="ignore"):  # a run that diverges is answered by its status
                    with clock, ctrl_c.raised():
                        if epoch == 0:
                            stepper.start()
                        out_of_time = halted = False
                        while not (out_of_time or halted or epoch >= max_epochs):
                            epoch += 1
                            stepper.step()
                            out_of_time = max_seconds is not None and time.perf_counter() - began + reserve >= max_seconds
                            halted = ctrl_c.pressed() or (halt is not None and halt())
                            if due(epoch, stepper.gap_estimate()):
                                break
                    stopped = time.perf_counter()
                    found = stepper.evaluate()
                if stepper.recorded:
                    trace.append(_row(epoch, clock, found))
                evaluated = epoch
                reserve = time.perf_counter() - stopped
                stop = False
                if callbacks:
                    progress = Progress(
                        epoch, trace.last(), found.certificate, tol, max_epochs, _fixed(found.coef), found.intercept
                    )
                    with ctrl_c.raised():
                        stop = any([_says_stop(callback(progress)) for callback in callbacks])
                stop = stop or ctrl_c.pressed()
                status = stopping_rule(stepper, trace, found.certificate.primal, stall)
                if status is None and (stop or halted or out_of_time or epoch >= max_epochs):
                    status = "interrupted" if stop or halted else "max_seconds" if out_of_time else "max_epochs"
        except KeyboardInterrupt:
            if not ctrl_c.answer():
                raise
            status = "interrupted"
            if epoch > evaluated:
                _evaluate_cut_short(stepper, trace, epoch, clock)
        stepper.finish()
        trace.handovers.extend(stepper.handovers)
        if ctrl_c.take():
            status = "interrupted"
        return Ended(status, trace, epoch, clock.cpu, clock.wall)


def _evaluate_cut_short(stepper: Stepper, trace: Trace, epoch: int, clock: Clock) -> None:
    """Evaluate after an epoch that was cut short. Where its state is beyond evaluation, the best model so far stands."""
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        found = stepper.evaluate()
        if stepper.recorded:
            trace.append(_row(epoch, clock, found))


def _fixed(coef: np.ndarray) -> np.ndarray:
    """Return a view that a callback cannot write to: the model may be the best so far, whose certificate is kept."""
    view = coef.view()
    view.flags.writeable = False
    return view


def _row(epoch: int, clock: Clock, found: Evaluation) -> dict[str, float]:
    c = found.certificate
    return {
        "epoch": float(epoch),
        "passes": found.passes,
        "cpu_seconds": clock.cpu,
        "wall_seconds": clock.wall,
        "primal": c.primal,
        "dual": c.dual,
        "gap": c.gap,
        "relative_gap": c.relative_gap,
        **found.columns,
    }


def stopping_rule(stepper: Stepper, trace: Trace, primal: float, stall: bool) -> Status | None:
    """Return the status of a run that has converged, come to an optimum of 0 or to the limit of rounding, decided its rows, diverged or
    stalled; else None.
    """
    certificate = stepper.certificate()
    if stepper.reached(certificate):
        return "converged"
    if certificate.primal <= stepper.floor:
        return "zero_optimum"
    if stepper.decided:
        return "decided"
    limit = DIVERGED * stepper.at_zero
    if not math.isfinite(primal) or (primal > limit and len(trace) >= 5 and (trace["primal"][-5:] > limit).all()):
        return "diverged"
    if not stall or not len(trace):
        return None
    gaps = np.minimum.accumulate(trace["primal"]) - np.maximum.accumulate(trace["dual"])
    rounding = certificate.gap <= stepper.resolution
    epochs = trace["epoch"]
    before = min(len(gaps) - ROUNDING_EVALUATIONS, int(np.searchsorted(epochs, epochs[-1] - ROUNDING_EPOCHS, "right"))) - 1
    if rounding and before >= 0 and gaps[-1] > 0.99 * gaps[before]:
        return "rounding_limit"
    if len(trace) > stepper.stall_evaluations:
        since = min(len(trace) - stepper.stall_evaluations, int(np.searchsorted(epochs, 0.5 * epochs[-1]))) - 1
        if since >= 0 and epochs[since] > stepper.restarted_at and gaps[-1] > 0.99 * gaps[since]:
            return "rounding_limit" if rounding else "stalled"
    return None


class _Due:
    """Whether to evaluate after an epoch: by the epoch's number or, where a solver estimates its gap, once the estimate reaches tol."""

    def __init__(self, evaluate: str | Callable[[int], bool], stepper: Stepper) -> None:
        self.by_epoch, self.stepper = schedule(evaluate), stepper
        self.deciding = evaluate == "auto" and stepper.deciding is not None
        if self.deciding:
            self.by_epoch = _grows_by(DECIDE_GROWTH)
        self.looked_at = DECIDE_RATIO  # the estimate at the last evaluation for rows to decide
        self.by_estimate = evaluate == "auto" and (stepper.tol > 0 or stepper.atol > 0)  # no estimate is ever as small as 0
        if stepper.floor > 0.0 and stepper.best.primal <= stepper.floor:
            self.by_estimate = False  # the first evaluation ends the run
        self.target = math.inf
        self.wait, self.again = 1, 0
        self.least, self.since = math.inf, 0  # the smallest estimate, and its epoch
        self.next_look = 0  # epoch from which an estimate that does not improve is looked into again
        self.last, self.moved = math.inf, 0  # the last estimate, and the epoch at which it last changed

    def __call__(self, epoch: int, estimate: float | None) -> bool:
        if estimate is None or not self.by_estimate:
            return self.by_epoch(epoch)
        if self.deciding and (estimate <= DECIDE_RATIO * self.looked_at or self.by_epoch(epoch)):
            self.looked_at = min(self.looked_at, estimate)
            return True
        if estimate < 0.99 * self.least:
            self.least, self.since = estimate, epoch
        elif self._no_nearer(epoch) and epoch >= self.next_look:
            # An evaluation costs as much as an epoch or two. A solver that has no estimate in most epochs may be on its way.
            self.next_look = epoch + 1 + (epoch // LOOK_ONE_IN if math.isinf(estimate) else 0)
            return True
        moves = not abs(estimate - self.last) <= STILL * self.last  # an infinite one, that of some rows, counts as moving
        self.last, self.moved = estimate, epoch if moves else self.moved
        if epoch >= self.moved + STUCK:
            return True  # the method no longer moves: evaluations will end the run
        if estimate <= self.stepper.relative_tolerance() and (estimate <= self.target or epoch >= self.again):
            # Should the certificate not agree, the estimate has to improve, or some epochs have to pass, before it counts again.
            self.target, self.again, self.wait = 0.7 * estimate, epoch + self.wait, 2 * self.wait
            return True
        return epoch in ESTIMATED_EPOCHS

    def _no_nearer(self, epoch: int) -> bool:
        """Whether the estimate has not improved for long: evaluations will tell why, and end the run.

        A small one is as near as rounding lets it come, perhaps; a large one is far from its goal.
        """
        return (self.least < SMALL and epoch > 2 * self.since + STALL_EVALUATIONS) or epoch > 4 * self.since + SLOW_START


def schedule(evaluate: str | Callable[[int], bool]) -> Callable[[int], bool]:
    """At which epochs to evaluate, as a function of the epoch's number."""
    if callable(evaluate):
        return evaluate
    if evaluate == "epoch":
        return lambda epoch: True
    if evaluate in ("auto", "geometric"):
        return lambda epoch: epoch <= 5 or _grows_by(1.25)(epoch)
    raise ValueError(f"evaluate={evaluate!r} is unknown; choose 'auto', 'geometric', 'epoch' or a function of the epoch's number")


def _grows_by(ratio: float) -> Callable[[int], bool]:
    """Return a schedule whose epochs grow by that ratio each time."""
    return lambda epoch: epoch == 1 or math.floor(math.log(epoch, ratio)) > math.floor(math.log(epoch - 1, ratio))


def _says_stop(answer: Any) -> bool:
    # True itself, NumPy's too; a callback that returns what it made is not asking to stop.
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def solve(
    problem: Problem,
    solver: Any = "auto",
    tol: float = 1e-4,
    max_epochs: int = 200,
    max_seconds: float | None = None,
    seed: int | np.random.Generator | None = 0,
    *,
    watch: Any = None,
    evaluate: str | Callable[[int], bool] = "auto",
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    warm_start: Any = None,
    stall: bool = True,
    atol: float = 0.0,
    decide: Any = None,
) -> Result:
    """Minimise a problem's objective until its certified relative gap is at most `tol`.

    Parameters
    ----------
    problem : Problem
    solver : str or solver object
        A name from `dualgap.solvers()`, or an object such as `dualgap.SDCA(order="cyclic")`. "auto" picks the method by the
        problem's shape.
    tol : float
        Bound on gap / primal, certified, rounding included. A regression whose objective float64 cannot tell from 0 ends with status
        "zero_optimum": nothing is relative to 0. 0 asks for as much as the budget gives: unless stall=False, the run ends
        earlier where the gap has stopped falling ("stalled") or is as small as float64 can tell ("rounding_limit"). It ends without a
        warning.
    max_epochs, max_seconds
        The budget. Seconds are of the wall clock and include evaluations; they are looked at between epochs. Ctrl-C ends a run as well:
        once the first epoch has begun, the best model so far is returned with its certificate and status "interrupted", whatever Ctrl-C
        met. Before that there is no model, and `KeyboardInterrupt` is raised. A second Ctrl-C while the certificate is computed is raised
        after that, without a result; a third one at once.
    seed : int or numpy Generator
        The same seed, data and thread count give the same trace.
    watch : (X, y), or a mapping of names to such pairs, optional
        Held-out data whose error and balanced accuracy are recorded.
    evaluate : {"auto", "geometric", "epoch"} or callable
        When to stop the clock and certify: "geometric" at epochs that grow by a quarter each time, "epoch" at every one, a callable
        where it says so for the epoch's number. "auto" is "geometric", except that a solver which estimates its gap is
        certified when its estimate reaches tol. The last epoch is always evaluated.
    callbacks : functions of a Progress
        Called after each evaluation; one that returns True ends the run with status "interrupted".
    warm_start : Result, or a tuple (coef, intercept, dual) with None for what is not known, optional
        Methods on the dual variables (SDCA, DCA, ASDCA, DualGradient, DualCoordinate) start from `dual` and do not look at `coef`;
        SGD, Subgradient, SAGA, SVRG, Newton and NewtonCG start from `coef`, without which they start from zero; APG takes either. Pegasos
        starts afresh: its first step forgets any w.
    stall : bool
        Whether a gap that has stopped falling ends the run with status "stalled" or "rounding_limit".
    atol : float
        Bound on the gap itself, certified. The run has converged if the relative gap is at most `tol` or the gap at most `atol`, and only
        then. For separable data and weak penalties, where the optimum tends to 0 and a relative gap asks for more digits than float64 has.
    decide : samples, optional
        End the run with status "decided" once the labels of these samples are proven to be those of the exact model, if that is
        earlier than `tol`. `Result.predict_proven` then proves them all. The trace has the share proven so far as column `decided`. With
        evaluate="auto" certificates are computed more often, as the gap falls.

    Returns
    -------
    Result

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = dualgap.Problem(scale(X), y, loss="smooth_hinge", delta=0.5, l2=1e-3, intercept="free")
    >>> result = dualgap.solve(problem, "sdca", tol=1e-3)
    >>> result.status, result.certificate.relative_gap <= 1e-3
    ('converged', True)
    """
    with kept() as ctrl_c:
        result = minimise(
            problem,
            solver,
            tol,
            max_epochs,
            max_seconds,
            seed,
            watch=watch,
            evaluate=evaluate,
            callbacks=callbacks,
            warm_start=warm_start,
            stall=stall,
            atol=atol,
            decide=decide,
        )
        if result.status not in (*SUCCESSES, "interrupted") and (tol > 0 or atol > 0):
            warnings.warn(advice(result, tol), ConvergenceWarning, stacklevel=2)
        elif zero := of_zero(result):
            warnings.warn(f"{result.solver.label()} ended with status {result.status!r}.{zero}", ConvergenceWarning, stacklevel=2)
        return Result.of(result, status="interrupted") if ctrl_c.take() else result


def minimise(
    problem: Problem,
    solver: Any,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    seed: int | np.random.Generator | None = 0,
    *,
    watch: Any = None,
    evaluate: str | Callable[[int], bool] = "auto",
    warm_start: Any = None,
    atol: float = 0.0,
    decide: Any = None,
    **options: Any,
) -> Result:
    """`solve` without its warning, for callers that have words of their own for a run that ended early; `options` are those of `drive`."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem={problem!r} must be a dualgap.Problem, which holds the data, loss and penalty")
    _check_budget(tol, max_epochs, max_seconds, atol)
    if evaluate != "auto":
        schedule(evaluate)
    watched = make_watched(problem, watch)
    warm = _make_warm(problem, warm_start)
    deciding = None if decide is None else decide_rows(problem, decide)
    rng = seed if isinstance(seed, np.random.Generator) else generator(seed)
    solver, compile_seconds = prepare_solver(problem, solver)

    run = SolverRun(problem, solver, rng, tol, warm, watched, atol=atol, deciding=deciding)
    with kept() as ctrl_c:
        ended = drive(run, tol, max_epochs, max_seconds, evaluate=evaluate, **options)
        best = run.best
        return Result(
            problem=problem,
            solver=solver,
            coef=best.coef,
            intercept=float(best.intercept),
            dual=np.zeros(problem.n) if best.beta is None else best.beta,
            certificate=best.certificate(),
            status="interrupted" if ctrl_c.take() else ended.status,
            trace=ended.trace,
            epochs=ended.epochs,
            cpu_seconds=ended.cpu_seconds,
            wall_seconds=ended.wall_seconds,
            compile_seconds=compile_seconds,
        )


def prepare_solver(problem: Problem, solver: Any) -> tuple[Solver, float]:
    """Return the solver for a problem, with its kernels compiled, and the seconds that took; refuse one that does not support it.

    What holds for a problem holds for others of its kind over the same rows.
    """
    key = "prepared", id(solver), problem.kind
    given, found = problem.shared.found.get(key, (None, None))
    if given is solver and found is not None:
        require_semidefinite(problem)
        return found, 0.0
    found = get_solver(solver).chosen(problem)
    require(found, problem)
    seconds = _compile(problem, found)
    problem.shared.found[key] = solver, found  # the first keeps its number from being given to another object
    return found, seconds


_compiled: set[Any] = set()


def _compile(problem: Problem, solver: Solver) -> float:
    """Run the solver on a few rows of the same types, so that no compilation falls into timed epochs. Returns the seconds it took."""
    key = (repr(solver), solver.plan(problem), type(problem.loss), type(problem.penalty), problem.intercept, *_types(problem))
    if key in _compiled:
        return 0.0
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        small, state = solver.warm_up(problem, np.random.default_rng(0))
        run = SolverRun(small, solver, np.random.default_rng(0))
        run.state = state
        run.evaluate()
    _compiled.add(key)
    return time.perf_counter() - began


def _types(problem: Problem) -> tuple[Any, ...]:
    if problem.kernel is not None and not problem.formed:
        return (problem.kernel.name, type(problem.X), problem.X.dtype.str)
    rows = problem.rows
    return (type(rows), *(part.dtype.str if isinstance(part, np.ndarray) else type(part) for part in rows))


def _check_budget(tol: float, max_epochs: int, max_seconds: float | None, atol: float) -> None:
    number("tol", tol, "[0, 1)", "a number in [0, 1): it bounds the relative gap")
    number("atol", atol, "[0, inf)", "a finite number that is not negative: it bounds the gap itself")
    whole_number("max_epochs", max_epochs)
    if max_seconds is not None:
        number("max_seconds", max_seconds, "(0, inf]", "a positive number of seconds, or None for no limit")


def _make_warm(problem: Problem, warm: Any) -> Warm | None:
    if warm is None:
        return None
    if hasattr(warm, "coef"):
        warm = (warm.coef, warm.intercept, warm.dual)
    if not isinstance(warm, (tuple, list)) or len(warm) != 3:
        raise ValueError(
            f"warm_start={warm!r} must be a Result or a tuple (coef, intercept, dual), with None for what is not known"
        )
    coef, intercept, dual = warm
    return Warm(
        None if coef is None else as_vector(coef, "warm_start coef", problem.size),
        0.0 if intercept is None or problem.intercept == "none" else float(intercept),
        None if dual is None else as_vector(dual, "warm_start dual", problem.n),
    )
