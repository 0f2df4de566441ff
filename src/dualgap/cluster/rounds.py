"""run_rounds: a run on the partitions of any worker pool, by Newton's method or CoCoA+, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.cocoa import CocoaRun
from dualgap.cluster.partition import Objective
from dualgap.cluster.second_order import NewtonCGRun, NewtonRun
from dualgap.cluster.worker_pool import WorkerPool
from dualgap.core import L2, kept, one_of, whole_number
from dualgap.run import Progress, Trained, drive

__all__ = ["RoundsResult", "chosen_solver", "run_rounds"]

SOLVERS = ("auto", "newton", "newton_cg", "cocoa")
# √partitions · digits of the tolerance, beyond which CoCoA+ takes more rounds than Newton's method by conjugate gradients. To 1e-3, 8
# partitions and 64 took 7 and 22 rounds of CoCoA+ on news20 (logistic loss), 8, 32 and 128 took 17, 38 and 152 on text-like data (smooth
# hinge); any number takes 15 and 39 rounds of conjugate gradients. To 1e-6, 8 partitions took 40 to 75 on news20, against 30 to 75.
MANY_ROUNDS = 30.0
NEWTON_FEATURES = 2000  # up to which Newton's matrix, 8·d² bytes a partition and round, is worth its message


@dataclass(frozen=True, kw_only=True)
class RoundsResult(Trained):
    """A model trained in rounds; the dual variables stay with the workers.

    Attributes
    ----------
    coef, intercept : the model
    classes : the negative and the positive label
    certificate : its proof, summed from the partitions' parts
    status : "converged", "max_epochs" (rounds), "max_seconds", "interrupted", "stalled" or "rounding_limit"
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
        """Labels of samples; of a regression the predictions."""
        if len(self.classes) == 0:
            return np.asarray(self.decision(X))
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
    solver: str = "auto",
) -> RoundsResult:
    """Minimise an objective over a pool's partitions until the certified relative gap is at most `tol`.

    `solver` is "newton", "newton_cg", "cocoa", or "auto": without an l1 penalty or bounds, Newton's method for up to 2000 features, and by
    conjugate gradients for smooth losses on many partitions; else CoCoA+.

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
    checkpoint = checkpoint or Checkpoint(None, math.inf)
    run: NewtonRun | CocoaRun
    solver = chosen_solver(solver, objective, tol)
    if solver != "cocoa":
        run = (NewtonRun if solver == "newton" else NewtonCGRun)(pool, objective, tol, checkpoint)
    else:
        run = CocoaRun(pool, objective, tol, local_epochs, seed, checkpoint)
    with kept() as ctrl_c:
        ended = drive(
            run, tol, whole_number("max_rounds", max_rounds), max_seconds, evaluate="epoch", callbacks=callbacks, halt=halt
        )
        certificate = run.certificate()
        if ended.status != "interrupted" and certificate.within(tol):
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


def chosen_solver(solver: str, objective: Objective, tol: float) -> str:
    """Return the name of the solver for an objective: "auto" decides by the features, the loss, the partitions and the tolerance."""
    one_of("solver", solver, SOLVERS)
    plain, smooth = isinstance(objective.penalty, L2), objective.loss.is_smooth()
    if solver in ("newton", "newton_cg") and not plain:
        raise ValueError(f"solver={solver!r} on a cluster takes the l2 penalty alone; use solver='cocoa' with an l1 part or bounds")
    if solver == "newton_cg" and not smooth:
        raise ValueError("solver='newton_cg' on a cluster takes smooth losses alone; use solver='cocoa' or 'newton' for the hinge")
    if solver != "auto":
        return solver
    if plain and objective.features <= NEWTON_FEATURES:
        return "newton"
    digits = -math.log10(max(tol, 1e-12))
    return "newton_cg" if plain and smooth and math.sqrt(objective.partitions) * digits > MANY_ROUNDS else "cocoa"
