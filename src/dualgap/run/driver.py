"""The driver: compiles outside the clock, runs epochs, stops the clock, evaluates, and decides when to stop.

The one place with a clock and a tolerance. Solvers only do arithmetic; whatever happens (Ctrl-C, a time limit, divergence), the best
model so far comes back with its certificate.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import generator, kept, number, whole_number
from dualgap.problem import Problem, as_vector
from dualgap.proof import Certificate
from dualgap.run.deciding import decide_rows
from dualgap.run.evaluation import SolverRun, make_watched
from dualgap.run.stepper import STALL_EVALUATIONS, Evaluation, Stepper
from dualgap.run.trace import Status, Trace
from dualgap.run.trained import Trained
from dualgap.solvers import Solver, Warm, get_solver, require

__all__ = ["Progress", "drive", "minimise", "prepare_solver"]

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

    def __exit__(self, *_: object) -> None:
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
                if status in ("stalled", "diverged") and not (stop or halted or out_of_time):
                    with np.errstate(all="ignore"), clock, ctrl_c.raised():
                        status = None if stepper.change_method() else status
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
    if stepper.at_floor(certificate):
        return "zero_optimum"
    if stepper.decided:
        return "decided"
    limit = DIVERGED * stepper.at_zero
    if not math.isfinite(primal) or (primal > limit and _all_above(limit, trace, stepper.restarted_at)):
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


def _all_above(limit: float, trace: Trace, since: int) -> bool:
    """Return whether the last five objectives after that epoch are all above a limit; False if there are fewer."""
    last = trace["primal"][trace["epoch"] > since][-5:] if len(trace) >= 5 else ()
    return len(last) == 5 and bool((np.asarray(last) > limit).all())


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


def _says_stop(answer: object) -> bool:
    # True itself, NumPy's too; a callback that returns what it made is not asking to stop.
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def minimise(
    problem: Problem,
    solver: str | Solver,
    tol: float,
    max_epochs: int,
    max_seconds: float | None = None,
    seed: int | np.random.Generator | None = 0,
    *,
    watch: object = None,
    evaluate: str | Callable[[int], bool] = "auto",
    warm_start: object = None,
    atol: float = 0.0,
    decide: object = None,
    **options: Any,
) -> Trained:
    """Minimise a problem's objective; arguments as of `solve`, and `options` as of `drive`."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem={problem!r} must be a dualgap.Problem, which holds the data, loss and penalty")
    _check_budget(tol, max_epochs, max_seconds, atol)
    if evaluate != "auto":
        schedule(evaluate)
    given, problem = problem, problem.remembering()
    watched = [] if watch is None else make_watched(problem, watch)
    warm = None if warm_start is None else _make_warm(problem, warm_start)
    deciding = None if decide is None else decide_rows(problem, decide)
    rng = seed if isinstance(seed, np.random.Generator) else generator(seed)
    solver, compile_seconds = prepare_solver(problem, solver)

    run = SolverRun(problem, solver, rng, tol, warm, watched, atol=atol, deciding=deciding)
    with kept() as ctrl_c:
        ended = drive(run, tol, max_epochs, max_seconds, evaluate=evaluate, **options)
        best = run.best
        return Trained(
            problem=given,
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


def prepare_solver(problem: Problem, solver: str | Solver) -> tuple[Solver, float]:
    """Return the solver for a problem, with its kernels compiled, and the seconds that took; refuse one that does not support it."""
    found = get_solver(solver).chosen(problem)
    require(found, problem)
    if problem.kernel is not None and not problem.formed:
        types: tuple[Any, ...] = (problem.kernel.name, type(problem.X), problem.X.dtype.str)
    else:
        types = (type(problem.rows), *(part.dtype.str if isinstance(part, np.ndarray) else type(part) for part in problem.rows))
    key = (repr(found), found.plan(problem), type(problem.loss), type(problem.penalty), problem.intercept, *types)
    return found, 0.0 if key in _compiled else _compile(problem, found, key)


_compiled: set[tuple[Any, ...]] = set()


def _compile(problem: Problem, solver: Solver, key: tuple[Any, ...]) -> float:
    """Run the solver on a few rows of the same types, so that no compilation falls into timed epochs. Returns the seconds it took."""
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        small, state = solver.warm_up(problem.remembering(), np.random.default_rng(0))
        run = SolverRun(small, solver, np.random.default_rng(0))
        run.state = state
        run.evaluate()
    _compiled.add(key)
    return time.perf_counter() - began


def _check_budget(tol: float, max_epochs: int, max_seconds: float | None, atol: float) -> None:
    number("tol", tol, "[0, 1)", "a number in [0, 1): it bounds the relative gap")
    number("atol", atol, "[0, inf)", "a finite number that is not negative: it bounds the gap itself")
    whole_number("max_epochs", max_epochs)
    if max_seconds is not None:
        number("max_seconds", max_seconds, "(0, inf]", "a positive number of seconds, or None for no limit")


def _make_warm(problem: Problem, warm: object) -> Warm:
    if isinstance(warm, Trained):
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
