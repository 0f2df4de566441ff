"""CocoaRun: the coordinator of CoCoA+ (Ma et al., 2015; Smith et al., 2018), for any number of features.

v = Σ shares; each round: all partitions step from v and send their shares; v = Σ shares. `partition` has the local half.
"""

from __future__ import annotations

import math
import time

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.coordinator import Coordinator
from dualgap.cluster.partition import Answer, Objective, Request
from dualgap.cluster.worker_pool import WorkerPool
from dualgap.core import whole_number

__all__ = ["CocoaRun", "Pace"]

MOST_EPOCHS = 32  # local epochs a round: beyond, partitions drift too far apart for what a message costs


class Pace:
    """Local epochs a round, by measurement: enough that a round works as long as it waits.

    With e seconds an epoch and o seconds a round for all else (the slowest message, the sum, the scheduler), o/e epochs make a round cost
    at most twice what the better of "more epochs" and "more rounds" would.
    """

    def __init__(self, epochs: int | str) -> None:
        self.fixed = epochs != "auto"
        self.epochs = whole_number("local_epochs", epochs, wanted="'auto' or a whole number of at least 1") if self.fixed else 1
        self._overheads: list[float] = []
        self._epochs: list[float] = []

    def observe(self, round_seconds: float, working: float) -> None:
        """Learn from a round: how long it took, and how long the slowest partition worked on it."""
        if self.fixed:
            return
        self._overheads.append(max(round_seconds - working, 0.0))
        self._epochs.append(working / self.epochs)
        overhead, epoch = (float(np.median(times[-5:])) for times in (self._overheads, self._epochs))
        wanted = math.ceil(overhead / max(epoch, 1e-9))
        self.epochs = int(np.clip(wanted, max(self.epochs // 2, 1), min(2 * self.epochs, MOST_EPOCHS)))


class CocoaRun(Coordinator):
    """The coordinator of CoCoA+.

    Set by the constructor and every `step`: `v` and the sums over the partitions; `primal` and `bound` at the v that the round began with,
    and the intercept's `centre`.
    """

    def __init__(
        self, pool: WorkerPool, objective: Objective, tol: float, local_epochs: int | str, seed: int, checkpoint: Checkpoint
    ) -> None:
        super().__init__(pool, objective, tol, checkpoint)
        self.pace, self.rng = Pace(local_epochs), np.random.default_rng(seed)
        self.momentum_rounds = 0  # that the momentum has lasted
        self._add_up(pool.configure(objective, checkpoint.restored))

    def step(self) -> None:
        """All partitions step from the present v, with momentum that begins anew where it has carried β downhill."""
        began = time.perf_counter()
        self.number += 1
        bound, (w, b) = self._bound(), self._model()
        momentum = self.momentum_rounds / (self.momentum_rounds + 3.0) if self.pool.count > 1 else 0.0
        request = Request(self.number, self.centre, self.pace.epochs, int(self.rng.integers(2**61)), momentum)
        self.complete = False
        answers = self.pool.call("step", request, self.pool.payload(self.v))
        self.bytes += self.pool.count * self.v.nbytes
        self.epochs += self.pace.epochs
        losses = math.fsum(answer.loss for answer in answers.values())
        whole = math.isfinite(losses)  # else a partition was lost, and the loss of its rows at this v is not known
        if whole:
            self.primal, self.bound = losses + self.objective.regulariser(w, b), bound
        self._add_up(answers)
        self.momentum_rounds = self.momentum_rounds + 1 if whole and self._bound() > bound else 0
        if self.objective.intercept == "free" and whole:
            self.centre += self.objective.scale * math.fsum(answer.bias for answer in answers.values())
        self.pace.observe(time.perf_counter() - began, max(answer.seconds for answer in answers.values()))

    def _add_up(self, answers: dict[int, Answer]) -> None:
        """Add up what the partitions say of themselves."""
        ordered = [answers[k] for k in sorted(answers)]  # in one order, so that rounding does not depend on who was first
        self.v = np.sum([answer.share for answer in ordered], axis=0)
        self.psi = math.fsum(answer.psi for answer in ordered)
        self.bytes += sum(answer.share.nbytes for answer in ordered)
        self._weigh({k: (answer.positive, answer.negative) for k, answer in answers.items()})

    def _refresh(self) -> None:
        self._add_up(self.pool.call("answer"))

    def _model(self) -> tuple[np.ndarray, float]:
        return self.objective.model(self.v, self.centre)

    def _columns(self) -> dict[str, float]:
        return {"local_epochs": self.pace.epochs}

    def _bound(self) -> float:
        """D(β) by the shares that were sent; with a free intercept, the Lagrangian at the present b, β being out of balance still."""
        slack = self.centre * (self.positive - self.negative) if self.objective.intercept == "free" else 0.0
        return self.psi - slack - self.objective.conjugate(self.v)
