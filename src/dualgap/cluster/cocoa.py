"""CocoaRun: the coordinator of CoCoA+ (Ma et al., 2015; Smith et al., 2018), for any number of features.

v = Σ shares; each round: all partitions step from v and send their shares; v = Σ shares. `partition` has the local half.
"""

from __future__ import annotations

import math
import time

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.coordinator import Coordinator
from dualgap.cluster.partition import Objective, Request
from dualgap.cluster.worker_pool import Bundle, WorkerPool
from dualgap.core import whole_number

__all__ = ["CocoaRun", "Pace"]

MOST_EPOCHS = 32  # local epochs a round of one partition alone: beyond, nothing is gained for what a message costs

# Relative gap above which vectors are sent in float32. It rounds v by 6e-8 of its length, a thousandth of such a gap and less;
# certificates are computed from float64 throughout.
SINGLE_ABOVE = 1e-3


class Pace:
    """Local epochs a round. "auto" is one where there are several partitions: with σ = K their steps are short, and more gain little.

    To 1e-3 with 1, 2, 4 and 8 local epochs, news20 took 7, 7, 6 and 6 rounds (smooth hinge, 2 partitions), 13 each (8 partitions), 39 and
    40 (32 partitions), 15, 15 and 13 (logistic loss, 8 partitions), 72 each (hinge, 8 partitions); text-like data 10, 9, 9 and 9 (2
    partitions), 17, 17, 16 and 16 (8 partitions).

    One partition alone takes as many as make a round work as long as it waits, by measurement. With e seconds an epoch and o seconds a
    round for all else (the slowest message, the sum, the scheduler), o/e epochs make a round cost at most twice what the better of "more
    epochs" and "more rounds" would.
    """

    def __init__(self, epochs: int | str, partitions: int = 1) -> None:
        auto = epochs == "auto"
        self.epochs = 1 if auto else whole_number("local_epochs", epochs, wanted="'auto' or a whole number of at least 1")
        self.fixed = not auto or partitions > 1
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
        self.pace, self.rng = Pace(local_epochs, pool.count), np.random.default_rng(seed)
        self.momentum_rounds = 0  # that the momentum has lasted
        found = pool.configure(objective, checkpoint.restored)
        self._add_up(self._state() if found.arrays is None else found)

    def step(self) -> None:
        """All partitions step from the present v, with momentum that begins anew where it has carried β downhill."""
        began = time.perf_counter()
        self.number += 1
        bound, (w, b) = self._bound(), self._model()
        momentum = self.momentum_rounds / (self.momentum_rounds + 3.0) if self.pool.count > 1 else 0.0
        single = self.pool.count > 1 and self.primal - self.bound > SINGLE_ABOVE * abs(self.primal)
        request = Request(self.number, self.centre, self.pace.epochs, int(self.rng.integers(2**61)), momentum, single)
        self.complete = False
        v = self.v.astype(np.float32) if single else self.v
        found = self.pool.total("step", request, v)
        self.bytes += self.pool.count * v.nbytes
        self.epochs += self.pace.epochs
        whole = found.arrays is not None  # else a partition was lost, and the loss of its rows at this v is not known
        if not whole:
            found = self._state()
        answers = found.parts
        if whole:
            losses = math.fsum(answer.loss for answer in answers.values())
            self.primal, self.bound = losses + self.objective.regulariser(w, b), bound
        self._add_up(found)
        self.momentum_rounds = self.momentum_rounds + 1 if whole and self._bound() > bound else 0
        if self.objective.intercept == "free" and whole:
            self.centre += self.objective.scale * math.fsum(answer.bias for answer in answers.values())
        self.pace.observe(time.perf_counter() - began, max(answer.seconds for answer in answers.values()))

    def _add_up(self, found: Bundle) -> None:
        """Keep the sums of what the partitions say of themselves."""
        assert found.arrays is not None
        share = found.arrays["share"]
        self.bytes += len(found.parts) * share.nbytes
        # What is sent in float32 has no more digits than that: so all work from the same v.
        self.v = share.astype(np.float64)
        self.psi = math.fsum(found.parts[k].psi for k in sorted(found.parts))
        self._weigh(found.parts)

    def _refresh(self) -> None:
        self._add_up(self._state())

    def _model(self) -> tuple[np.ndarray, float]:
        return self.objective.model(self.v, self.centre)

    def _columns(self) -> dict[str, float]:
        return {"local_epochs": self.pace.epochs}

    def _bound(self) -> float:
        """D(β) by the shares that were sent; with a free intercept, the Lagrangian at the present b, β being out of balance still."""
        slack = self.centre * (self.positive - self.negative) if self.objective.intercept == "free" else 0.0
        return self.psi - slack - self.objective.conjugate(self.v)
