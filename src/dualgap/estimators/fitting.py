"""The one fit of all estimators: its problems are solved in threads, its attributes are kept, its status is set.

    validate    the parameters (`parameters`), X and y (`samples`)       what is particular to an estimator
    problems    `Targets` say which there are; a `Task` makes each       linear, kernel_model
    solve       `solve_tasks`, or until rows are decided (`deciding`)    here
    keep, end   fitted attributes; the listeners, the status             here

X is checked and read into place once; every problem shares it. The kernels run without Python's global lock, so that threads
pay as processes would, without copies.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning

from dualgap.answers import ConvergenceWarning as RunWarning
from dualgap.answers import strong_penalty
from dualgap.core import blas_alone, counted, kept, one_processor
from dualgap.estimators.model import Fit, Kept, Model
from dualgap.estimators.parameters import Budget
from dualgap.estimators.progress import Monitor, log_to_screen
from dualgap.estimators.samples import Rows, is_store
from dualgap.problem import Problem
from dualgap.proof import ProofError
from dualgap.run import SUCCESSES, Progress, Trained, certify, minimise
from dualgap.solvers import Solver

__all__ = [
    "ConvergenceWarning",
    "Solve",
    "Start",
    "Task",
    "Tasks",
    "TimeShare",
    "keep",
    "keep_attributes",
    "nothing_rebuilt",
    "refuse_uncertified",
    "row_of",
    "run_over",
    "signed_dual",
    "signed_duals",
    "solve_tasks",
    "train",
    "warn_unless_converged",
    "worst_status",
]


class ConvergenceWarning(RunWarning, SklearnConvergenceWarning):
    """A fit ended before its certified gap was as small as asked; both dualgap's and scikit-learn's ConvergenceWarning.

    Examples
    --------
    >>> import sklearn.exceptions
    >>> from dualgap.estimators.fitting import ConvergenceWarning
    >>> issubclass(ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    True
    """


# ------------------------------------------------------------------------------------------------------------------- outcome

_BADNESS: tuple[str, ...] = (*SUCCESSES, "max_epochs", "max_seconds", "rounding_limit", "stalled", "interrupted", "diverged")


_TRY = {
    "max_epochs": "raise max_iter",
    "max_seconds": "raise max_time",
    "stalled": "the gap has stopped falling: raise tol or choose another solver",
    "rounding_limit": "float64 cannot tell better models from this one: raise tol, or give atol if the objective is near 0",
    "interrupted": "let it run to its end",
    "diverged": "the objective blew up: scale the features, or choose another solver",
}


def worst_status(statuses: Sequence[str]) -> str:
    """The status of a fit of several problems: converged only where all are, decided only where all are decided or converged."""
    return max(statuses, key=_BADNESS.index)


def warn_unless_converged(name: str, results: Sequence[Any], tol: float, stacklevel: int = 3) -> str:
    """The status of the fit; unless it is a success, warn with gap, tolerance, distance from optimal and what to try."""
    status = worst_status([r.status for r in results])
    if status in SUCCESSES or (tol == 0.0 and status in ("max_epochs", "max_seconds", "stalled", "rounding_limit")):
        return status  # with tol=0 the budget, or the last bit of precision, is the end that was asked for
    late = [r for r in results if r.status not in SUCCESSES]
    worst = max((r.certificate for r in late), key=lambda c: c.relative_gap)
    which = f" on {len(late)} of {len(results)} problems" if len(results) > 1 else ""
    above = f"at most {100 * worst.gap / worst.dual:.3g} % above" if worst.dual > 0 else f"at most {worst.gap:.3g} above"
    easier = "larger" if strong_penalty(getattr(late[0], "problem", None)) else "smaller"
    warnings.warn(
        f"{name} did not converge{which}: status {status!r} after {counted(max(r.epochs for r in late), 'epoch')}, relative gap "
        f"{worst.relative_gap:.1e} (gap {worst.gap:.3g}) over tol={tol:.1e}; the objective is {above} the optimum. "
        f"What to try: {_TRY[status]}; standardise the features; use a {easier} C.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
    return status


def keep(model: Model, results: Sequence[Trained], fit: Fit, **attributes: Any) -> None:
    """Set the attributes that every fitted estimator has from the results of its problems, and those given."""
    certificates, traces = [r.certificate for r in results], [r.trace for r in results]
    primals, gaps = [c.primal for c in certificates], [c.gap for c in certificates]
    one = len(results) == 1
    found = {
        "certificate_": certificates[0] if one else certificates,
        "history_": traces[0] if one else traces,
        "objective_": primals[0] if one else np.array(primals),
        "dual_gap_": gaps[0] if one else np.array(gaps),
        "intercept_": np.array([r.intercept for r in results]),
        "n_iter_": max([r.epochs for r in results]),
    }
    keep_attributes(model, fit, found | attributes)


def keep_attributes(model: Model, fit: Fit, attributes: dict[str, Any]) -> None:
    """Set the attributes of a fit, and remove those of an earlier one, all but what tells the columns of X."""
    for name in [
        name for name in model.__dict__ if name[-1] == "_" != name[0] and name not in ("n_features_in_", "feature_names_in_")
    ]:
        delattr(model, name)
    model._fit = fit
    for name, value in attributes.items():
        setattr(model, name, value)


def refuse_uncertified(model: Model, what: str) -> None:
    """Raise ProofError where a model was trained without a certificate: nothing about the exact model can be proven from it."""
    if getattr(model, "status_", None) == "uncertified":
        raise ProofError(
            f"{what} cannot be had from an uncertified model: its kernel is not positive semidefinite, and it was trained with "
            "indefinite='uncertified'; fit with indefinite='clip', or with another kernel"
        )


def signed_duals(results: Sequence[Trained], C: float) -> np.ndarray:
    """Return yᵢ·C·sᵢ·βᵢ of all rows, a line for each problem."""
    # c / l2 is C·s up to the share of l2, whatever the weights were.
    signed = np.empty((len(results), len(results[0].dual)))
    for row, r in zip(signed, results, strict=True):
        np.multiply(r.problem.y, r.dual, out=row)
        if r.problem.sample_weight is not None:
            row *= r.problem.c * float(r.problem.sample_weight.sum())
    signed *= C
    return signed


def signed_dual(model: Model, j: int, weights: np.ndarray | None, C: float) -> np.ndarray:
    """Return yᵢβᵢ of all training rows for problem j of a fitted model, from its dual_coef_."""
    n = model._fit.n_rows
    scale = C * (np.ones(n) if weights is None else weights)[model.support_]
    dual = np.zeros(n)
    dual[model.support_] = np.divide(row_of(model.dual_coef_, j), scale, out=np.zeros(len(scale)), where=scale > 0)
    return dual


def row_of(matrix: Rows, j: int) -> np.ndarray:
    """Return a row of a matrix, dense or sparse, as a vector."""
    row = matrix[[j]]
    return np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64).ravel()


Start = tuple[np.ndarray | None, float | None, np.ndarray | None] | None  # coefficients, intercept and dual variables to start from


@dataclass(frozen=True)
class Task:
    """One problem of a fit, made when its turn comes, with where to start and who listens."""

    name: str
    make: Callable[[], Problem]
    warm: Start = None
    callbacks: Iterable[Callable[[Any], Any]] = ()


class Tasks(Sequence[Task]):
    """Tasks that are made when they are asked for: of a thousand pairs of classes, nearly all are solved at once without one."""

    def __init__(self, count: int, make: Callable[[int], Task]) -> None:
        self.length, self.make = count, make

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < self.length:
            raise IndexError(k)
        return self.make(k)


# What solves the tasks of a fit, each within a context of its own.
Solve = Callable[[Sequence[Task], Callable[[int], Any]], list[Any]]


class TimeShare:
    """Shares the seconds of a fit among the problems that are still to be solved, by as many threads."""

    def __init__(self, seconds: float | None, tasks: int, threads: int = 1) -> None:
        self.deadline = None if seconds is None else time.perf_counter() + seconds
        self.left, self.threads, self.lock = tasks, threads, threading.Lock()

    def next(self) -> float | None:
        """Return the seconds of the next problem; None where there is no limit."""
        if self.deadline is None:
            return None
        with self.lock:
            left, self.left = self.left, self.left - 1
        remaining = self.deadline - time.perf_counter()
        return max(remaining * min(self.threads, left) / left, 1e-9)


def not_worse_than_warm(result: Trained, warm: tuple[np.ndarray | None, float | None, np.ndarray | None]) -> Trained:
    """Return a result whose model is the one that the fit began with, where that one has the lower objective; the bound stays."""
    if result.status == "decided":  # whose labels are proven, those of the model before may not be
        return result
    problem, (coef, intercept, dual) = result.problem, warm
    if coef is None and dual is not None:
        coef = problem.c * problem.y * np.asarray(dual) / problem.l2  # the kernel expansion that belongs to β
    if coef is None:
        return result
    intercept = float(intercept or 0.0) if problem.intercept != "none" else 0.0
    if not problem.objective(coef, intercept) < result.certificate.primal:
        return result
    return Trained.of(result, coef=coef, intercept=intercept, certificate=certify(problem, coef, intercept, result.dual))


def run_over(X: object) -> Callable[..., Trained]:
    """Return what solves one problem over rows in memory or a store."""
    return minimise_on_store if is_store(X) else minimise


def minimise_on_store(
    problem: Problem,
    solver: str | Solver,
    tol: float,
    max_epochs: int,
    seconds: float | None,
    seed: int,
    *,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    warm_start: Start = None,
    halt: Callable[[], bool] | None = None,
    atol: float = 0.0,
    decide: None = None,
) -> Trained:
    """Minimise as `minimise` does; where features are few, "auto" and "newton" take Newton's method on the rows as they are read."""
    from dualgap.cluster import newton_on_store, newton_suits

    if solver in ("auto", "newton") and atol == 0.0 and newton_suits(problem):
        return newton_on_store(problem, tol, max_epochs, seconds, callbacks, halt, warm_start)
    return minimise(
        problem, solver, tol, max_epochs, seconds, seed, callbacks=callbacks, warm_start=warm_start, halt=halt, atol=atol
    )


def solve_tasks(
    tasks: Sequence[Task],
    around: Callable[[int], Any],
    *,
    budget: Budget,
    run: Callable[..., Trained] = minimise,
    decide: object = None,
    at_once: Callable[[], list[Trained | None]] | None = None,
) -> list[Trained]:
    """Solve every task by `run`, which takes what `minimise` takes; `around(k)` is a context manager entered around task k.

    `decide` are rows whose proven labels end the run of a single task. `at_once` solves what it can of all tasks together: it returns a
    result for each task, None for one that is left to `run`.

    Ctrl-C stops the problems at work after their present epoch with the best model found; those not begun get one epoch, so that the
    fit still returns a model with a certificate for each.
    """
    found: list[Trained | None] = [None] * len(tasks)
    if at_once is not None:
        with kept() as ctrl_c:
            ctrl_c.begin()  # one compiled call has nothing to return before its end
            found = at_once()
    left = [k for k, result in enumerate(found) if result is None]
    if not left:
        return cast("list[Trained]", found)
    stop: list[bool] = []  # True, once a problem was interrupted
    alone = len(tasks) == 1
    threads = 1 if alone else min(effective_n_jobs(budget.n_jobs), len(left))
    seconds = TimeShare(budget.max_seconds, len(left), threads)

    def solve_one(k: int) -> Trained:
        if (known := found[k]) is not None:
            return known
        # Threads of a problem's own would only get in the way of the other problems'.
        task = tasks[k]
        with around(k), nullcontext() if threads == 1 else one_processor():
            result = run(
                task.make(),
                budget.solver,
                budget.tol,
                budget.max_epochs,
                seconds.next(),
                budget.seed,  # the same for all, so that a permutation of the classes permutes the models
                callbacks=task.callbacks,
                warm_start=task.warm,
                halt=None if alone else lambda: bool(stop),
                atol=budget.atol,
                decide=decide,
            )
        if result.status == "interrupted":
            stop.append(True)
        return result if task.warm is None else not_worse_than_warm(result, task.warm)

    if threads == 1:
        return [solve_one(k) for k in range(len(tasks))]
    # A BLAS with threads of its own serialises the calls of ours.
    with kept() as ctrl_c, blas_alone:
        ctrl_c.begin()
        with ThreadPoolExecutor(threads, thread_name_prefix="dualgap") as pool:
            futures = [pool.submit(solve_one, k) for k in range(len(tasks))]
            try:
                with ctrl_c.raised():
                    if ctrl_c.take():
                        raise KeyboardInterrupt
                    return [future.result() for future in futures]
            except KeyboardInterrupt:
                stop.append(True)
                if not ctrl_c.answer():
                    raise
                return [future.result() for future in futures]
            except BaseException:
                stop.append(True)  # an error in one problem ends the others soon
                raise


def nothing_rebuilt(progress: Progress) -> dict[str, Any]:
    """Return no attributes: a model cannot predict before its fit has ended."""
    return {}


def train(
    model: Model,
    given: Kept,
    shown: Callable[[], dict[str, Any]],
    tasks: Sequence[Task],
    solve: Solve,
    keep: Callable[[list[Any]], None],
    tol: float,
    *,
    rebuilt: Callable[[Any], dict[str, Any]] = nothing_rebuilt,
    treated: Any = None,
    alone: bool = False,
) -> None:
    """Solve the tasks of a fit, and set the fitted attributes of the model.

    Parameters
    ----------
    given : what `fit` was given
    shown : makes the data as scikit-learn's callbacks take them
    keep : sets the attributes from the results
    rebuilt : makes attributes from a Progress, for callbacks that ask for a model
    treated : what was done with an indefinite kernel
    alone : whether the BLAS keeps to one thread

    A warning names the line that has called `fit`, which calls this function through a method, and which `with_callbacks` wraps.
    """
    monitor = Monitor(model, shown, tasks)
    heard = Tasks(len(tasks), lambda j: replace(tasks[j], callbacks=monitor.callbacks(j, rebuilt)))
    with kept() as ctrl_c:
        with log_to_screen(model.verbose), blas_alone if alone else nullcontext():
            results = solve(heard, monitor.task)
        keep(results)
        monitor.end()
        if model._proof is not None:
            model._fit.kept = replace(given, duals=[result.dual for result in results], treated=treated)
        model.status_ = warn_unless_converged(type(model).__name__, results, tol, stacklevel=6)
        if ctrl_c.take() or ctrl_c.answered():  # in threads perhaps when all problems were solved
            model.status_ = "interrupted"
