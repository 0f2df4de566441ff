"""NewtonCGRun: Newton's method for many features and smooth losses on a cluster, its systems solved by conjugate gradients.

Rounds as those of `second_order`, where every partition evaluates its sums at a trial point, and between them one round a product:

1. A round evaluates the gradient, the diagonal of the matrix and the gap at the trial point, or searches along a step that was too long.
2. Each further round multiplies the matrix, of which every partition has its part, with a vector: one step of conjugate gradients,
   preconditioned by the diagonal. They end as `solvers/newton/newton_cg` ends them: where the residual is a small part of the gradient,
   the smaller the better the last quadratic model was, or small beside the gap that is asked for.

A round sends d numbers to every partition and receives d, as one of CoCoA+ does. The number of rounds does not depend on the number of
partitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.partition import Objective
from dualgap.cluster.second_order import NewtonRun, Sums
from dualgap.cluster.worker_pool import WorkerPool

__all__ = ["NewtonCGRun"]

# As `solvers/newton/newton_cg` has them: parts of the gradient, in the norm of the gap, that a residual may have, and the part of the gap
# asked for that is small enough in any case.
LOOSEST, TIGHTEST, ENOUGH = 0.5, 1e-3, 0.25
MOST_PRODUCTS = 100  # in one system


@dataclass
class System:
    """A system under way: matrix · step = −gradient. `residual` is −gradient − matrix · step."""

    gradient: np.ndarray
    diagonal: np.ndarray
    step: np.ndarray
    residual: np.ndarray
    direction: np.ndarray
    product: float  # residual · preconditioned residual
    products: int = 0


class NewtonCGRun(NewtonRun):
    """The coordinator of Newton's method by conjugate gradients.

    Set by `step`, beside what NewtonRun has: `system`, the one under way, or None; `forcing`, the part of the gradient that its residual
    may have.
    """

    diagonal = True

    def __init__(self, pool: WorkerPool, objective: Objective, tol: float, checkpoint: Checkpoint) -> None:
        super().__init__(pool, objective, tol, checkpoint)
        self.system: System | None = None
        self.forcing = LOOSEST
        self.predicted: np.ndarray | None = None  # gradient at the trial, by the quadratic model
        self.norm = math.inf  # of the gradient before

    def _matrix(self, sent: np.ndarray) -> np.ndarray:
        return sent

    def step(self) -> None:
        """Take one round: a product of the system under way, or else what NewtonRun does."""
        if self.system is None:
            super().step()
        else:
            self.number += 1
            self.epochs += 1
            self._multiply(self.system)

    def _search(self) -> None:
        before = self.trial - self.z
        super()._search()
        length = float(np.linalg.norm(before))
        part = float(np.linalg.norm(self.trial - self.z)) / length if length > 0.0 else 0.0
        if self.predicted is not None:
            self.predicted = (1.0 - part) * self.gradient + part * self.predicted

    def _accept(self, sums: Sums, F: float) -> None:
        gradient = self.ridge * self.trial - sums.u
        if self.predicted is not None and 0.0 < self.norm < math.inf:
            unpredicted = self._size(gradient - self.predicted)
            self.forcing = min(LOOSEST, max(TIGHTEST, math.sqrt(unpredicted / self.norm)))
        super()._accept(sums, F)

    def _size(self, gradient: np.ndarray) -> float:
        """Return the part of the gap that a gradient makes, as `_accept` counts it."""
        penalised = self.ridge > 0.0
        size = 0.5 * float(gradient[penalised] @ gradient[penalised]) / self.objective.l2
        return size if penalised[-1] else size + self._unbalanced(float(gradient[-1]))

    def _aim(self, matrix: np.ndarray, gradient: np.ndarray) -> None:
        """Begin a system; the trial is set once it is solved."""
        self.gradient, self.norm, self.predicted = gradient, self._size(gradient), None
        diagonal = matrix + self.ridge
        diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
        direction = -gradient / diagonal
        self.system = System(gradient, diagonal, np.zeros(len(gradient)), -gradient, direction, -float(gradient @ direction))
        self.system_losses = len(self.pool.losses)

    def _multiply(self, system: System) -> None:
        found = self.pool.total("product", system.direction) if len(self.pool.losses) == self.system_losses else None
        self.bytes += 2 * self.pool.count * system.direction.nbytes
        if found is None or found.arrays is None:  # a partition was lost, and its part of the matrix: z is evaluated again
            self.system, self.trial, self.F = None, self.z.copy(), math.inf
            self._refresh()
            return
        image = found.arrays["product"] + self.ridge * system.direction
        curvature = float(system.direction @ image)
        if 0.0 < curvature < math.inf and 0.0 < system.product < math.inf:
            t = system.product / curvature
            system.step += t * system.direction
            system.residual -= t * image
            system.products += 1
            wanted = max(self.forcing**2 * self.norm, ENOUGH * self.tol * self.primal)
            if self._size(system.residual) > wanted and system.products < MOST_PRODUCTS:
                z = system.residual / system.diagonal
                before, system.product = system.product, float(system.residual @ z)
                system.direction = z + (system.product / before) * system.direction
                return
        self.system, self.predicted = None, -system.residual
        self.promised = max(-float(system.gradient @ system.step), 0.0)
        self.trial = self.z + system.step
