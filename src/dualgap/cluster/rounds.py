"""Rounds of CoCoA+: the coordinator's half, as the driver steps it. Works on any worker pool, in one process or on a cluster.

v = Σ shares;  each round: all partitions step from v and send their shares; v = Σ shares
certificate: P(w, b) and D(β) as sums of the partitions' parts, every share rebuilt from its β
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.partition import Answer, Objective, Proof, Request
from dualgap.cluster.worker_pool import ClusterLost, WorkerPool
from dualgap.core import ROUNDOFF, kept, whole_number
from dualgap.proof import Certificate, certificate_of_pair
from dualgap.run import Best, Evaluation, Progress, Result, Stepper, drive

__all__ = ["Pace", "RoundsResult", "RoundsRun", "run_rounds"]

MOST_EPOCHS = 32  # local epochs a round: beyond, partitions drift too far apart for what a message costs
STALLED_ROUNDS = 200  # rounds over which a gap that falls by less than 1 % counts as stalled: momentum makes it fall unevenly
PROOF_ATTEMPTS = 5  # to certify the last model, each spoilt by a worker that is lost meanwhile


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


@dataclass(frozen=True, kw_only=True)
class RoundsResult(Result):
    """A model trained in rounds; the dual variables stay with the workers.

    Attributes
    ----------
    coef, intercept : the model
    classes : the negative and the positive label
    certificate : its proof, summed from the partitions' parts
    status : "converged", "max_epochs" (rounds), "max_seconds", "interrupted" or "stalled"
    trace : round by round: primal, dual, gap, bytes_sent, local_epochs, lost
    rounds, epochs : rounds, and local epochs in all of them
    bytes_sent : to the partitions and back, vectors only
    wall_seconds : of the rounds; certificates and checkpoints are not counted
    losses : what was lost on the way, in words; empty for a run without faults
    """

    classes: np.ndarray
    rounds: int
    bytes_sent: int
    partitions: int
    losses: list[str]
    objective: Objective

    def decision(self, X: Any) -> np.ndarray:
        """Scores of samples (arrays, sparse matrices or Dask arrays), positive for the second class."""
        return X @ self.coef + self.intercept  # type: ignore[no-any-return]

    def predict(self, X: Any) -> np.ndarray:
        """Labels of samples."""
        return self.classes[(np.asarray(self.decision(X)) > 0).astype(int)]

    def __repr__(self) -> str:
        c = self.certificate
        lost = f"; went on after {'; '.join(self.losses)}" if self.losses else ""
        return (
            f"RoundsResult({self.status} after {self.rounds} rounds on {self.partitions} partitions, {self.wall_seconds:.3g} s, "
            f"{self.bytes_sent / 1e6:.3g} MB sent; primal {c.primal:.6g}, relative gap {c.relative_gap:.1e}{lost})"
        )


def run_rounds(
    pool: WorkerPool,
    objective: Objective,
    classes: np.ndarray,
    tol: float = 1e-4,
    max_rounds: int = 1000,
    max_seconds: float | None = None,
    local_epochs: int | str = "auto",
    seed: int = 0,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    checkpoint: Checkpoint | None = None,
    halt: Callable[[], bool] | None = None,
) -> RoundsResult:
    """Minimise an objective over a pool's partitions until the certified relative gap is at most `tol`.

    `callbacks` are shown every round; its gap is by the sums that were sent, the final one is proven. `halt` is asked after each round
    whether to end the run.

    Examples
    --------
    A whole run in one process, without Dask:

    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> from dualgap.cluster import InProcess, Partition, make_objective, run_rounds
    >>> X, y = make_classification(300, random_state=0)
    >>> pool = InProcess([Partition(X[k::3], y[k::3]) for k in range(3)])
    >>> result = run_rounds(pool, *make_objective(pool, "hinge", l2=0.01), local_epochs=2)
    >>> result.status, result.certificate.relative_gap <= 1e-4
    ('converged', True)
    """
    run = RoundsRun(pool, objective, tol, local_epochs, seed, checkpoint or Checkpoint(None, math.inf))
    with kept() as ctrl_c:
        ended = drive(
            run, tol, whole_number("max_rounds", max_rounds), max_seconds, evaluate="epoch", callbacks=callbacks, halt=halt
        )
        certificate = run.certificate()
        if ended.status != "interrupted" and certificate.relative_gap <= tol:
            ended = ended._replace(status="converged")  # by the last proof, though the sums did not say so
        if ctrl_c.take():
            ended = ended._replace(status="interrupted")
        return RoundsResult(
            coef=run.best.coef,
            intercept=float(run.best.intercept),
            certificate=certificate,
            classes=classes,
            rounds=ended.epochs,
            bytes_sent=run.bytes,
            partitions=pool.count,
            losses=list(pool.losses),
            objective=objective,
            **{**ended._asdict(), "epochs": run.epochs},
        )


class RoundsRun(Stepper):
    """The coordinator of a run.

    Fixed by the constructor: `pool`, `objective`, `tol`, `checkpoint`. Set by it and every `step`: `v` and the sums over the
    partitions; `primal` and `bound` at the v that the round began with, and the intercept's `centre`. Set by `prove`: the best model with
    its certificate.
    """

    stall_evaluations = STALLED_ROUNDS

    def __init__(
        self, pool: WorkerPool, objective: Objective, tol: float, local_epochs: int | str, seed: int, checkpoint: Checkpoint
    ) -> None:
        self.pool, self.objective, self.tol, self.checkpoint = pool, objective, tol, checkpoint
        self.pace, self.rng = Pace(local_epochs), np.random.default_rng(seed)
        self.number = self.first = checkpoint.round  # of the last round, and of the one that the checkpoint was made after
        self.centre = checkpoint.centre
        self.bytes = self.epochs = 0
        self.momentum_rounds = 0  # that the momentum has lasted
        self.lost = len(pool.losses)
        self.complete = True  # whether the sums are of the β that the partitions have now
        self.target = tol  # relative gap by the sums at which the next proof is due
        self.at_zero = self.primal = float(objective.loss.value(0.0))  # of w = 0; the weights add up to 1
        self.bound = 0.0  # D(0) = 0, whatever the loss
        self.best = Best(np.zeros(0), 0.0, math.inf)  # infinite until the first proof
        self._add_up(pool.configure(objective, checkpoint.restored))

    # ------------------------------------------------------------------------------------------------------------- rounds

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
        self.positive, self.negative = math.fsum(a.positive for a in ordered), math.fsum(a.negative for a in ordered)
        self.heaviest = {sign: max(answers, key=lambda k: getattr(answers[k], sign)) for sign in ("positive", "negative")}
        self.bytes += sum(answer.share.nbytes for answer in ordered)
        self.complete = True
        if len(self.pool.losses) > self.lost:
            self.lost, self.restarted_at = len(self.pool.losses), self.number - self.first

    def _model(self) -> tuple[np.ndarray, float]:
        return self.objective.model(self.v, self.centre)

    def _bound(self) -> float:
        """D(β) by the shares that were sent; with a free intercept, the Lagrangian at the present b, β being out of balance still."""
        slack = self.centre * (self.positive - self.negative) if self.objective.intercept == "free" else 0.0
        return self.psi - slack - self.objective.conjugate(self.v)

    # -------------------------------------------------------------------------------------------------------- certificates

    def evaluate(self) -> Evaluation:
        """Return the gap by the sums that were sent; prove it where that is small enough. Saves a checkpoint if it is time."""
        seen = Certificate(self.primal, min(self.bound, self.primal), "solver")
        columns = {"local_epochs": self.pace.epochs, "bytes_sent": self.bytes, "lost": len(self.pool.losses)}
        found = Evaluation(seen, *self._model(), float(self.epochs), {name: float(value) for name, value in columns.items()})
        self.checkpoint.save(self.pool, self.number, self.centre)
        if self.complete and seen.relative_gap <= self.target:
            self.prove()
            self.target = 0.7 * seen.relative_gap  # should the proof not agree, the sums have to improve before they count again
        return found

    def finish(self) -> None:
        """Prove the last model, unless the best one converged before; save a checkpoint."""
        if self.certificate().relative_gap > self.tol:
            if not self.complete:  # Ctrl-C came in the middle of a round
                self._add_up(self.pool.call("answer"))
            if not any(self.prove() for _ in range(PROOF_ATTEMPTS)) and self.best.primal == math.inf:
                raise ClusterLost(
                    f"no certificate: a worker was lost in each of {PROOF_ATTEMPTS} attempts to compute one; {self.checkpoint.where()}"
                )
        self.checkpoint.save(self.pool, self.number, self.centre, now=True)

    def prove(self) -> bool:
        """Compute the exact certificate of the present model; False where a partition was lost meanwhile, and its β is another."""
        w, b = self._model()
        proofs = self._proofs(w, b)
        self.bytes += self.pool.count * w.nbytes
        if any(not isinstance(proof, Proof) for proof in proofs.values()):
            self._add_up(self.pool.call("answer"))
            return False
        ordered = [proofs[k] for k in sorted(proofs)]
        self.bytes += sum(proof.share.nbytes for proof in ordered)
        found = self.objective.enclose(w, b, ordered)
        c = certificate_of_pair(found, "solver")  # raises where the two bounds contradict each other
        self.resolution = found.gap_radius
        self.best.offer_model(w, b, c.primal, c.radius)
        self.best.offer_bound(c.dual, None, "solver", c.radius)
        return True

    def _proofs(self, w: np.ndarray, b: float) -> dict[int, Any]:
        payload = self.pool.payload(w)
        if self.objective.intercept != "free":
            return self.pool.call("prove", payload, b)
        light, heavy = sorted([self.positive, self.negative])
        if light <= 0.0:
            return self.pool.call("prove", payload, b, 0.0, 0.0)
        is_positive = self.positive > self.negative
        factors = (light / heavy, 1.0) if is_positive else (1.0, light / heavy)
        # One partition waits for the others, to take what rounding left of their balance out of its own.
        last = self.heaviest["positive" if is_positive else "negative"]
        others = [k for k in range(self.pool.count) if k != last]
        proofs = self.pool.call("prove", payload, b, *factors, only=others)
        if any(not isinstance(proof, Proof) for proof in proofs.values()):
            return proofs
        rest = math.fsum(proofs[k].rest for k in sorted(proofs))
        off = sum(proof.off for proof in proofs.values()) + ROUNDOFF * abs(rest)
        return {**proofs, **self.pool.call("prove", payload, b, *factors, (rest, off), only=[last])}
