"""The one fit of all estimators: its problems are solved in threads, its attributes are kept, its status is set.

    validate    the parameters (`parameters`), X and y (`common`)        what is particular to an estimator
    problems    `Targets` say which there are; a `Task` makes each       linear_model, kernel_model
    solve       `solve_tasks`, or until rows are decided (`deciding`)    here
    keep, end   fitted attributes; the listeners, the status             here, fitted

X is checked and read into place once; every problem shares it. The kernels run without Python's global lock, so that threads
pay as processes would, without copies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from dualgap.core import blas_alone, kept, one_processor
from dualgap.estimators.common import warn_unless_converged
from dualgap.estimators.fitted import Kept
from dualgap.estimators.progress import Monitor, log_to_screen
from dualgap.problem import Problem
from dualgap.run import Trained, certify, minimise

__all__ = ["Budget", "Solve", "Task", "TimeShare", "nothing_rebuilt", "solve_tasks", "train"]


@dataclass(frozen=True)
class Budget:
    """How a fit is to be run: solver, tolerance, limits of the whole fit, seed of every problem, threads."""

    solver: Any
    tol: float
    max_epochs: int
    max_seconds: float | None
    seed: int
    n_jobs: int | None
    atol: float = 0.0


@dataclass(frozen=True)
class Task:
    """One problem of a fit, made when its turn comes, with where to start and who listens."""

    name: str
    make: Callable[[], Problem]
    warm: Any = None
    callbacks: Iterable[Callable[[Any], Any]] = ()


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


def not_worse_than_warm(result: Trained, warm: Any) -> Trained:
    """Return a result whose model is the one that the fit began with, where that one has the lower objective; the bound stays."""
    if warm is None or result.status == "decided":  # whose labels are proven, those of the model before may not be
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


def _solve(
    task: Task, budget: Budget, seconds: float | None, halt: Callable[[], bool] | None, run: Callable[..., Trained], decide: Any
) -> Trained:
    """Solve one task; over a store with few features, "auto" and "newton" take Newton's method on its rows as they are read."""
    problem = task.make()
    if problem.streaming and budget.solver in ("auto", "newton") and budget.atol == 0.0:
        from dualgap.cluster import newton_on_store, newton_suits

        if newton_suits(problem):
            return newton_on_store(problem, budget.tol, budget.max_epochs, seconds, task.callbacks, halt, task.warm)
    return run(
        problem,
        budget.solver,
        budget.tol,
        budget.max_epochs,
        seconds,
        budget.seed,  # the same for all, so that a permutation of the classes permutes the models
        callbacks=task.callbacks,
        warm_start=task.warm,
        halt=halt,
        atol=budget.atol,
        decide=decide,
    )


def solve_tasks(
    tasks: Sequence[Task],
    around: Callable[[int], Any],
    *,
    budget: Budget,
    run: Callable[..., Trained] = minimise,
    decide: Any = None,
) -> list[Trained]:
    """Solve every task by `run`, which takes what `minimise` takes; `around(k)` is a context manager entered around task k.

    `decide` are rows whose proven labels end the run of a single task.

    Ctrl-C stops the problems at work after their present epoch with the best model found; those not begun get one epoch, so that the
    fit still returns a model with a certificate for each.
    """
    stop: list[bool] = []  # True, once a problem was interrupted
    alone = len(tasks) == 1
    threads = 1 if alone else min(effective_n_jobs(budget.n_jobs), len(tasks))
    seconds = TimeShare(budget.max_seconds, len(tasks), threads)

    def solve_one(k: int) -> Trained:
        # Threads of a problem's own would only get in the way of the other problems'.
        with around(k), nullcontext() if threads == 1 else one_processor():
            result = _solve(tasks[k], budget, seconds.next(), None if alone else lambda: bool(stop), run, decide)
        if result.status == "interrupted":
            stop.append(True)
        return not_worse_than_warm(result, tasks[k].warm)

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


def nothing_rebuilt(progress: Any) -> dict[str, Any]:
    """Return no attributes: a model cannot predict before its fit has ended."""
    return {}


def train(
    model: Any,
    given: tuple[Any, Any, Any],
    shown: dict[str, Any],
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
    given : (X, y, sample_weight) as `fit` was given them
    shown : the data as scikit-learn's callbacks take them
    keep : sets the attributes from the results
    rebuilt : makes attributes from a Progress, for callbacks that ask for a model
    treated : what was done with an indefinite kernel
    alone : whether the BLAS keeps to one thread

    A warning names the line that has called `fit`, which calls this function through a method, and which `with_callbacks` wraps.
    """
    monitor = Monitor(model, shown, [task.name for task in tasks])
    heard = [replace(task, callbacks=monitor.callbacks(j, rebuilt)) for j, task in enumerate(tasks)]
    with kept() as ctrl_c:
        with log_to_screen(model.verbose), blas_alone if alone else nullcontext():
            results = solve(heard, monitor.task)
        keep(results)
        monitor.end()
        model._fit.kept = Kept(*given, [result.dual for result in results], treated)
        model.status_ = warn_unless_converged(type(model).__name__, results, tol, stacklevel=6)
        if ctrl_c.take() or ctrl_c.answered():  # in threads perhaps when all problems were solved
            model.status_ = "interrupted"
