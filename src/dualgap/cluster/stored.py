"""Newton's method on a store: one partition whose rows stay on disk. A step reads them once, so few features take few readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.partition import TARGETS, Answer, Objective, Partition
from dualgap.cluster.rounds import NEWTON_FEATURES, run_rounds
from dualgap.cluster.worker_pool import InProcess
from dualgap.core import total_value
from dualgap.run import Trained, certify_with_dual
from dualgap.solvers.coordinate import free_scale
from dualgap.store import StoreProblem

__all__ = ["newton_on_store", "newton_suits"]


def newton_suits(problem: Any) -> TypeGuard[StoreProblem]:
    """Return whether Newton's method is the quicker one for a problem: over a store, few features, no l1 penalty and no bounds."""
    return isinstance(problem, StoreProblem) and problem.l1 == 0 and problem.bounds is None and problem.d <= NEWTON_FEATURES


class StoredPartition(Partition):
    """All rows of a store; only numbers a row are in memory. It takes the calls of Newton's method."""

    def __init__(self, problem: StoreProblem, first: np.ndarray | None) -> None:
        self.problem, self.first = problem, first
        self.X, self.objective, self.done = problem.store, None, 0
        self.labels = problem.targets if problem.is_regression else problem.y
        self.weights, self.sqnorms = problem.c, problem.sqnorms

    def digest(self) -> str:
        """Return nothing: the store has checksums, and is not read by another process."""
        return ""

    def configure(self, objective: Objective, saved: str | None = None, number: int = 0, digest: str | None = None) -> Answer:
        """Take the objective, with β as it was given."""
        answer = super().configure(objective, saved, number)
        if self.first is None:
            return answer
        self.beta = np.clip(self.first, *objective.box())
        self.reached, self.share = self.beta.copy(), self._share_of(self.beta)
        return self.answer()

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield the parts of the store, the next one read ahead."""
        for block in self.problem.every_block():
            yield block.index, block.rows


def newton_on_store(
    problem: StoreProblem,
    tol: float,
    max_epochs: int,
    max_seconds: float | None,
    callbacks: Iterable[Callable[[Any], Any]] = (),
    halt: Callable[[], bool] | None = None,
    warm: tuple[Any, Any, Any] | None = None,
) -> Trained:
    """Minimise over a store by Newton's method; an epoch reads the store once. Parameters as for `dualgap.solve`."""
    partition = StoredPartition(problem, None if warm is None or warm[2] is None else np.asarray(warm[2]))
    objective = Objective(
        loss=problem.loss,
        penalty=problem.penalty,
        l2=problem.l2,
        intercept=problem.intercept,
        scale=free_scale(float(problem.c @ problem.sqnorms), problem.l2, float(problem.offset.scale))
        if problem.intercept == "free"
        else problem.intercept_scale,
        positive=1.0,
        class_weight={TARGETS: 1.0} if problem.is_regression else {1.0: 1.0, -1.0: 1.0},
        partitions=1,
        features=problem.d,
        unit=float(problem.offset.scale),
        at_zero=float(total_value(problem.loss, problem.y * problem.offset.added(np.zeros(problem.n)), problem.c)),
    )
    start = Checkpoint(None, math.inf)
    if warm is not None and warm[1] is not None:
        start.centre = float(warm[1])  # the w of β alone, without its intercept, may be further away than w = 0
    found = run_rounds(
        InProcess([partition]),
        objective,
        problem.classes,
        tol,
        max_epochs,
        max_seconds,
        callbacks=callbacks,
        checkpoint=start,
        halt=halt,
        solver="newton",
    )
    certificate, dual = certify_with_dual(problem, found.coef, found.intercept, partition.dual())
    taken = {name: getattr(found, name) for name in ("coef", "intercept", "status", "trace", "cpu_seconds", "wall_seconds")}
    return Trained(problem=problem, solver="newton", dual=dual, certificate=certificate, epochs=found.rounds, **taken)
