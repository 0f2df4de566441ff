"""Rounds of CoCoA+: the coordinator's half. Works on any team, in one process or on a cluster.

v = Σ shares;  each round: all partitions step from v and send their shares; v = Σ shares
certificate: P(w, b) and D(β) as sums of the partitions' parts, every share rebuilt from its β
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.partition import Ask, Objective, Proof, Reply
from dualgap.cluster.worker_pool import Team
from dualgap.core import whole_number
from dualgap.proof import Certificate, make_certificate
from dualgap.run import Progress, Status, Trace

__all__ = ["Pace", "RoundsResult", "run_rounds"]

MOST_EPOCHS = 32
ROUNDING = 1e-15  # of a sum of positive terms: Σ cβy cannot be known to be zero any better
STALLED_ROUNDS = 200  # without a per cent off the gap


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


@dataclass(frozen=True)
class RoundsResult:
    """What a run of rounds gives back.

    Attributes
    ----------
    coef, intercept : the model
    classes : the negative and the positive label
    certificate : its proof, summed from the partitions' parts
    status : "converged", "max_epochs" (rounds), "max_seconds", "interrupted" or "stalled"
    trace : round by round: primal, dual, gap, bytes_sent, local_epochs, lost
    rounds, epochs : rounds, and local epochs in all of them
    bytes_sent : to the partitions and back, vectors only
    losses : what was lost on the way, in words; empty for a run without faults
    """

    coef: np.ndarray
    intercept: float
    classes: np.ndarray
    certificate: Certificate
    status: Status
    trace: Trace
    rounds: int
    epochs: int
    bytes_sent: int
    wall_seconds: float
    partitions: int
    losses: list[str]
    errors: int
    support_vectors: int
    objective: Objective

    @property
    def converged(self) -> bool:
        """Whether the certified relative gap is at most the tolerance that was asked for."""
        return self.status == "converged"

    def decision(self, X: Any) -> np.ndarray:
        """Scores of samples (arrays, sparse matrices or Dask arrays), positive for the second class."""
        return X @ self.coef + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """Labels of samples."""
        scores = self.decision(X)
        return self.classes[(np.asarray(scores) > 0).astype(int)]

    def __repr__(self) -> str:
        c = self.certificate
        lost = f"; went on after {'; '.join(self.losses)}" if self.losses else ""
        return (
            f"RoundsResult({self.status} after {self.rounds} rounds on {self.partitions} partitions, {self.wall_seconds:.3g} s, "
            f"{self.bytes_sent / 1e6:.3g} MB sent; primal {c.primal:.6g}, relative gap {c.relative_gap:.1e}{lost})"
        )


def run_rounds(
    team: Team,
    objective: Objective,
    classes: np.ndarray,
    tol: float = 1e-4,
    max_rounds: int = 1000,
    max_seconds: float | None = None,
    local_epochs: int | str = "auto",
    seed: int = 0,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    checkpoint: Checkpoint | None = None,
) -> RoundsResult:
    """Minimise an objective over a team's partitions until the certified relative gap is at most `tol`.

    Examples
    --------
    A whole run in one process, without Dask:

    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> from dualgap.cluster.worker_pool import InProcess
    >>> from dualgap.cluster.partition import Partition
    >>> from dualgap.cluster.objective import pose
    >>> from dualgap.cluster.rounds import run_rounds
    >>> X, y = make_classification(300, random_state=0)
    >>> team = InProcess([Partition(X[k::3], y[k::3]) for k in range(3)])
    >>> result = run_rounds(team, *pose(team, "hinge", l2=0.01), local_epochs=2)
    >>> result.status, result.certificate.relative_gap <= 1e-4
    ('converged', True)
    """
    checkpoint = checkpoint or Checkpoint(None, math.inf)
    run = _Run(team, objective, classes, seed, checkpoint.centre, max_rounds)
    pace = Pace(local_epochs)
    began = time.perf_counter()
    run.take(team.pose(objective, checkpoint.restored))
    status: Status = "max_epochs"
    target, number, first = tol, 0, checkpoint.round
    try:
        for number in range(1, max_rounds + 1):
            started = time.perf_counter()
            working = run.round(first + number, pace.epochs)
            pace.observe(time.perf_counter() - started, working)
            run.record(number, pace.epochs, time.perf_counter() - began)
            checkpoint.save(team, first + number, run.centre)
            out_of_time = max_seconds is not None and time.perf_counter() - began >= max_seconds
            if run.estimate <= target:
                run.prove()
                if run.relative_gap() <= tol:
                    status = "converged"
                    break
                target = 0.7 * run.estimate  # the estimate was too hopeful: it has to improve before it is believed again
            stop = any([_says_stop(callback(run.progress(tol))) for callback in callbacks])
            if out_of_time or stop or run.stalled():
                status = "max_seconds" if out_of_time else ("interrupted" if stop else "stalled")
                break
    except KeyboardInterrupt:
        status = "interrupted"
    if status != "converged":
        run.prove()
        if run.relative_gap() <= tol:
            status = "converged"
    checkpoint.save(team, first + number, run.centre, now=True)
    return run.result(status, number, time.perf_counter() - began)


class _Run:
    """State of the coordinator: v, the intercept's centre, and the best that has been proven."""

    def __init__(self, team: Team, objective: Objective, classes: np.ndarray, seed: int, centre: float, max_rounds: int) -> None:
        self.team, self.objective, self.classes, self.max_rounds = team, objective, classes, max_rounds
        self.rng = np.random.default_rng(seed)
        self.centre = centre
        self.trace, self.bytes, self.epochs = Trace(), 0, 0
        self.since = 0  # rounds that the momentum has lasted
        self.estimate = math.inf
        self.primal = math.inf
        self.bound = -math.inf
        self.last: dict[str, float] = {}
        self.best: tuple[np.ndarray, float, Certificate, int, int] | None = None

    # ------------------------------------------------------------------------------------------------------------- rounds

    def take(self, replies: dict[int, Reply]) -> None:
        """Add up what the partitions say of themselves."""
        ordered = [replies[k] for k in sorted(replies)]  # in one order, so that rounding does not depend on who was first
        self.v = np.sum([reply.share for reply in ordered], axis=0)
        self.psi = math.fsum(reply.psi for reply in ordered)
        self.positive, self.negative = math.fsum(r.positive for r in ordered), math.fsum(r.negative for r in ordered)
        self.heaviest = {sign: max(replies, key=lambda k: getattr(replies[k], sign)) for sign in ("positive", "negative")}
        self.bytes += sum(reply.share.nbytes for reply in ordered)

    def round(self, number: int, epochs: int) -> float:
        """All partitions step from the present v; returns the seconds that the slowest worked."""
        w, b, bound = self.coef(), self.b(), self._bound()
        momentum = self.since / (self.since + 3.0) if self.team.count > 1 else 0.0
        ask = Ask(number, self.centre, epochs, int(self.rng.integers(2**61)), True, momentum)
        replies = self.team.call("step", ask, self.team.payload(self.v))
        self.bytes += self.team.count * self.v.nbytes
        self.epochs += epochs
        losses = math.fsum(reply.loss for reply in replies.values())
        if math.isfinite(losses):  # else a partition was lost, and the loss of its rows at this v is not known
            self.primal = losses + self._regulariser(w, b)
            self.bound = bound
            gap = self.primal - bound
            self.estimate = max(gap, 0.0) / self.primal if self.primal > 0 else math.inf
        self.take(replies)
        whole = math.isfinite(losses)
        # Momentum, begun anew whenever it has carried β downhill, or a partition is not where it was.
        self.since = self.since + 1 if whole and self._bound() > bound else 0
        if self.objective.intercept == "free" and whole:
            self.centre += self.objective.scale * math.fsum(reply.bias for reply in replies.values())
        return max(reply.seconds for reply in replies.values())

    def coef(self) -> np.ndarray:
        """w of the present v."""
        d = len(self.v) - (self.objective.intercept != "none")
        return np.ascontiguousarray(self.objective.penalty.primal(self.v[:d]))

    def b(self) -> float:
        """The present intercept."""
        kind = self.objective.intercept
        return self.centre if kind == "free" else (self.objective.scale * float(self.v[-1]) if kind == "penalised" else 0.0)

    def _conjugate(self, v: np.ndarray) -> float:
        objective = self.objective
        d = len(v) - (objective.intercept != "none")
        value = float(np.sum(objective.penalty.conjugate(objective.l2 * v[:d])))
        return value + (0.5 * objective.l2 * float(v[-1]) ** 2 if objective.intercept == "penalised" else 0.0)

    def _regulariser(self, w: np.ndarray, b: float) -> float:
        value = float(np.sum(self.objective.penalty.value(w)))
        if self.objective.intercept == "penalised":
            value += 0.5 * self.objective.l2 * (b / self.objective.scale) ** 2
        return value

    def _bound(self) -> float:
        """D(β) by the shares that were sent; with a free intercept, the Lagrangian at the present b, β being out of balance still."""
        slack = self.b() * (self.positive - self.negative) if self.objective.intercept == "free" else 0.0
        return self.psi - slack - self._conjugate(self.v)

    # -------------------------------------------------------------------------------------------------------- certificates

    def prove(self) -> None:
        """The exact certificate of the present model; given up where a partition is lost meanwhile, for the next time."""
        w, b = self.coef(), self.b()
        proofs = self._proofs(w, b)
        self.bytes += self.team.count * w.nbytes
        if any(not isinstance(proof, Proof) for proof in proofs.values()):
            self.take(self.team.call("reply"))
            return
        ordered = [proofs[k] for k in sorted(proofs)]
        self.bytes += sum(proof.share.nbytes for proof in ordered)
        primal = math.fsum(proof.loss for proof in ordered) + self._regulariser(w, b)
        dual = math.fsum(p.psi for p in ordered) - self._conjugate(np.sum([p.share for p in ordered], axis=0))
        if self.objective.intercept == "free" and abs(math.fsum(p.rest for p in ordered)) > ROUNDING * max(
            self.positive, self.negative
        ):
            dual = 0.0  # β is out of balance by more than the rounding of a sum; β = 0 bounds every objective
        certificate = make_certificate(primal, dual, "solver")
        found = (w, b, certificate, sum(p.errors for p in ordered), sum(p.support for p in ordered))
        if self.best is None:
            self.best = found
            return
        model = found if primal < self.best[2].primal else self.best
        bound = max(dual, self.best[2].dual)
        self.best = (model[0], model[1], replace(model[2], dual=bound), *found[3:])

    def _proofs(self, w: np.ndarray, b: float) -> dict[int, Any]:
        payload = self.team.payload(w)
        if self.objective.intercept != "free":
            return self.team.call("prove", payload, b)
        light, heavy = sorted([self.positive, self.negative])
        if light <= 0.0:
            return self.team.call("prove", payload, b, 0.0, 0.0)
        is_positive = self.positive > self.negative
        factors = (light / heavy, 1.0) if is_positive else (1.0, light / heavy)
        # One partition waits for the others, to take what rounding left of their balance out of its own.
        last = self.heaviest["positive" if is_positive else "negative"]
        others = [k for k in range(self.team.count) if k != last]
        proofs = self.team.call("prove", payload, b, *factors, only=others)
        if any(not isinstance(proof, Proof) for proof in proofs.values()):
            return proofs
        rest = sum(proofs[k].rest for k in sorted(proofs))
        return {**proofs, **self.team.call("prove", payload, b, *factors, rest, only=[last])}

    def relative_gap(self) -> float:
        """What has been proven so far."""
        return math.inf if self.best is None else self.best[2].relative_gap

    # ------------------------------------------------------------------------------------------------------------- account

    def record(self, number: int, epochs: int, seconds: float) -> None:
        """A row of the trace."""
        self.last = {
            "epoch": float(number),
            "passes": float(self.epochs),
            "wall_seconds": seconds,
            "primal": self.primal,
            "dual": self.bound,
            "gap": max(self.primal - self.bound, 0.0),
            "relative_gap": self.estimate,
            "local_epochs": float(epochs),
            "bytes_sent": float(self.bytes),
            "lost": float(len(self.team.losses)),
        }
        self.trace.append(self.last)

    def progress(self, tol: float) -> Progress:
        """What callbacks are shown; its gap is by the sums that were sent, the final one is proven."""
        seen = Certificate(self.primal, min(self.bound, self.primal), "solver")
        return Progress(int(self.last["epoch"]), self.last, seen, tol, self.max_rounds, self.coef(), self.b())

    def stalled(self) -> bool:
        """Whether the gap has stopped falling."""
        if len(self.trace) <= STALLED_ROUNDS or self.trace["lost"][-1] > self.trace["lost"][-STALLED_ROUNDS]:
            return False
        gaps = np.minimum.accumulate(self.trace["relative_gap"])
        return bool(gaps[-1] > 0.99 * gaps[-STALLED_ROUNDS])

    def result(self, status: Status, rounds: int, seconds: float) -> RoundsResult:
        assert self.best is not None
        coef, intercept, certificate, errors, support = self.best
        return RoundsResult(
            coef=coef,
            intercept=float(intercept),
            classes=self.classes,
            certificate=certificate,
            status=status,
            trace=self.trace,
            rounds=rounds,
            epochs=self.epochs,
            bytes_sent=self.bytes,
            wall_seconds=seconds,
            partitions=self.team.count,
            losses=list(self.team.losses),
            errors=errors,
            support_vectors=support,
            objective=self.objective,
        )


def _says_stop(answer: Any) -> bool:
    return isinstance(answer, (bool, np.bool_)) and bool(answer)
