"""Coordinator: what the methods on a cluster share, as the driver steps it: certificates summed from partitions' parts, checkpoints.

P(w, b) and D(β) are sums of the partitions' parts, and every share of v is rebuilt from its β. Works on any worker pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.partition import Objective, Others
from dualgap.cluster.worker_pool import Bundle, ClusterLost, WorkerPool
from dualgap.core import Bounded, total
from dualgap.proof import Certificate, certificate_of_pair
from dualgap.run import Best, Evaluation, Stepper

__all__ = ["Coordinator"]

STALLED_ROUNDS = 200  # rounds over which a gap that falls by less than 1 % counts as stalled: momentum makes it fall unevenly
PROGRESS = 0.1  # factor on the best proven gap at which the present model is proven, too
PROVEN_EVERY = 10  # rounds after which that may be done again: a proof takes about as long as a round
# Σ cβy of some partitions is within this of what their answers say, in units of the whole Σ cβ of a class: n numbers are added pairwise,
# with an error of log2(n) units of 1e-16.
BALANCE = 1e-13
RETRIES = 5  # of a round in which partitions were lost
PROOF_ATTEMPTS = 5  # to certify the last model, each spoilt by a worker that is lost meanwhile


class Coordinator(Stepper):
    """What the coordinators of all methods share: certificates that are summed from the partitions' parts, and checkpoints.

    Fixed by the constructor: `pool`, `objective`, `tol`, `checkpoint`. Set by a method's `step`: the present model, which `_model` returns,
    `primal` and `bound`, and by `_weigh` the sums over the partitions. Set by `prove`: the best model with its certificate.
    """

    stall_evaluations = STALLED_ROUNDS

    def __init__(self, pool: WorkerPool, objective: Objective, tol: float, checkpoint: Checkpoint) -> None:
        self.pool, self.objective, self.tol, self.checkpoint = pool, objective, tol, checkpoint
        self.number = self.first = checkpoint.round  # of the last round, and of the one that the checkpoint was made after
        self.centre = checkpoint.centre
        self.proven_at = self.number
        self.bytes = self.epochs = 0
        self.lost = len(pool.losses)
        self.complete = True  # whether the sums are of the β that the partitions have now
        self.target = tol  # relative gap by the sums at which the next proof is due
        # of w = 0; the weights add up to 1
        self.primal = float(objective.loss.value(0.0)) if objective.at_zero is None else objective.at_zero
        self.at_zero = self.primal if objective.penalty.contains_point(np.zeros(objective.features)) else math.inf
        self.bound = 0.0  # D(0) = 0, whatever the loss
        self.best = Best(np.zeros(0), 0.0, math.inf)  # infinite until the first proof

    def _model(self) -> tuple[np.ndarray, float]:
        """Return w and b of the present model."""
        raise NotImplementedError

    def _columns(self) -> dict[str, float]:
        """Return the columns that a method adds to the trace."""
        return {}

    def _weigh(self, parts: dict[int, Any]) -> None:
        """Keep Σ cβ of each class, from the partitions' answers, and note what was lost."""
        self.parts = parts
        self.positive = math.fsum(parts[k].positive for k in sorted(parts))
        self.negative = math.fsum(parts[k].negative for k in sorted(parts))
        self.heaviest = {sign: max(parts, key=lambda k: getattr(parts[k], sign)) for sign in ("positive", "negative")}
        self.complete = True
        if len(self.pool.losses) > self.lost:
            self.lost, self.restarted_at = len(self.pool.losses), self.number - self.first

    def _refresh(self) -> None:
        """Ask all partitions for their state, after some were made anew."""
        self._weigh(self._state().parts)

    def _state(self) -> Bundle:
        """Return the Answers of all partitions; where some are lost meanwhile, ask again."""
        return self._until_none_is_lost(lambda: self.pool.total("answer"))

    def _until_none_is_lost(self, ask: Callable[[], Bundle]) -> Bundle:
        """Ask until no partition is lost on the way; what is asked must be the same when it is asked twice."""
        for _ in range(RETRIES):
            found = ask()
            if found.arrays is not None:
                return found
        raise ClusterLost(f"partitions were lost in each of {RETRIES} attempts at a round; {self.checkpoint.where()}")

    # -------------------------------------------------------------------------------------------------------- certificates

    def evaluate(self) -> Evaluation:
        """Return the gap by the sums that were sent; prove it where that is small enough. Saves a checkpoint if it is time."""
        seen = Certificate(self.primal, min(self.bound, self.primal), "solver")
        columns = {**self._columns(), "bytes_sent": self.bytes, "lost": len(self.pool.losses)}
        found = Evaluation(seen, *self._model(), float(self.epochs), {name: float(value) for name, value in columns.items()})
        self.checkpoint.save(self.pool, self.number, self._model()[1])
        if self.complete and seen.relative_gap <= self.target:
            self.prove()
            self.target = 0.7 * seen.relative_gap  # should the proof not agree, the sums have to improve before they count again
        elif (
            self.number - self.proven_at >= PROVEN_EVERY
            and self.complete
            and seen.relative_gap <= PROGRESS * self.certificate().relative_gap
        ):
            self.prove()  # so that a run that ends early has this model to return
        return found

    def finish(self) -> None:
        """Prove the last model, unless the best one converged before; save a checkpoint."""
        if self.certificate().relative_gap > self.tol:
            if not self.complete:  # Ctrl-C came in the middle of a round
                self._refresh()
            if not any(self.prove() for _ in range(PROOF_ATTEMPTS)) and self.best.primal == math.inf:
                raise ClusterLost(
                    f"no certificate: a worker was lost in each of {PROOF_ATTEMPTS} attempts to compute one; {self.checkpoint.where()}"
                )
        self.checkpoint.save(self.pool, self.number, self._model()[1], now=True)

    def prove(self) -> bool:
        """Compute the exact certificate of the present model; False where a partition was lost meanwhile, and its β is another."""
        w, b = self._model()
        proofs = self._proofs(w, b)
        self.bytes += self.pool.count * w.nbytes
        if proofs.arrays is None:
            self._refresh()
            return False
        share = proofs.arrays["share"]
        self.bytes += self.pool.count * share.nbytes
        found = self.objective.enclose(w, b, [proofs.parts[k] for k in sorted(proofs.parts)], share)
        c = certificate_of_pair(found, "solver")  # raises where the two bounds contradict each other
        self.resolution, self.proven_at = 2.0 * found.gap.radius, self.number
        self.best = self.best.after(w, b, None, c)
        return True

    def _proofs(self, w: np.ndarray, b: float) -> Bundle:
        if self.objective.intercept != "free":
            return self.pool.total("prove", w, b)
        light, heavy = sorted([self.positive, self.negative])
        if light <= 0.0:
            return self.pool.total("prove", w, b, 0.0, 0.0)
        is_positive = self.positive > self.negative
        factors = (light / heavy, 1.0) if is_positive else (1.0, light / heavy)
        return self._balanced(w, b, factors, self.heaviest["positive" if is_positive else "negative"])

    def _balanced(self, w: np.ndarray, b: float, factors: tuple[float, float], last: int) -> Bundle:
        """Return the proofs for a free intercept: partition `last` takes what rounding left of the balance of all out of its own β.

        What the others have is known well enough from the sums: `last` proves its part for all that they can have. Should the proofs
        of the others say otherwise, all are asked once more, with what these said.
        """
        others = [k for k in sorted(self.parts) if k != last]
        has = [factors[0] * self.parts[k].positive - factors[1] * self.parts[k].negative for k in others]
        near = Others(last, Bounded(math.fsum(has), BALANCE * min(self.positive, self.negative)))
        for _ in range(2):
            found = self.pool.total("prove", w, b, *factors, near)
            if found.arrays is None:
                return found
            rest = total(found.parts[k].rest for k in others)
            if abs(rest - near.rest.value).upper <= near.rest.radius:
                return found
            near = Others(last, rest.wider(rest.radius))
        return Bundle({}, None)  # they are not the same as a moment ago
