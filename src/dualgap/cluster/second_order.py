"""Newton's method on a cluster: NewtonRun with a matrix, for few features, NewtonCGRun with products alone, for many and smooth losses.

    z = (w, b/scale)        F(z) = R(w) + Σ cᵢMᵢ(mᵢ)        Mᵢ(m) = max over β of ψ(β) − βm − (δ/2)(β − centreᵢ)²

The proximal-point method on the dual, with the rule, the row sums and the conjugate gradients of `solvers.newton`. Each partition keeps its
β⁺ and centres, and its sums are added up. A step takes about one round: the line search of `solvers.newton` would take one for each point.

1. Every partition evaluates its sums at the trial point z: F's value, u = Σ cβ⁺yx, and the matrix Σ c·curvature·xxᵀ or its diagonal.
2. F(z) must have fallen enough (Armijo). Else the next round evaluates F at some points of the way, and the best of them is the next trial.
3. The gap at (z, β⁺) is Σ c[φ − ψ + βm] + ‖l2·w − u‖²/(2·l2). If its second part is small beside the proximal term: centre ← β⁺, δ ← δ/2.
   After INNER_STEPS steps the centre moves too, but δ grows, and the next round is a search as in 2.
4. Solve (ridge + matrix) step = −gradient; the next trial is z + step. By Cholesky, or by conjugate gradients: a round for each product,
   in which d numbers are sent to every partition and back.

The start is w = 0, every centre 0 and δ = 2, where every variable is free. A start from the model of a sample of the rows was tried: its
smaller δ leaves too few free variables for the matrix to have full rank, and weak penalties then took two to four times the rounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.coordinator import Coordinator
from dualgap.cluster.partition import Objective, Trial, symmetric
from dualgap.cluster.worker_pool import WorkerPool
from dualgap.core import solve_positive
from dualgap.solvers.newton import (
    DECREASE,
    INNER_STEPS,
    LOOSEST,
    MOST_PRODUCTS,
    ROUNDING,
    SOLVED,
    ConjugateGradients,
    Values,
    next_delta,
    next_forcing,
    wanted_residual,
)

__all__ = ["NewtonCGRun", "NewtonRun"]

FIRST_DELTA = 2.0  # in typical margins, δ of the hinge at the start: at w = 0 every row then has β between its bounds
# Points of the way that are tried after a step that was too long.
WAY = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


class Sums(NamedTuple):
    """The partitions' curves, added up."""

    values: Values
    moved: float
    u: np.ndarray
    push: np.ndarray
    matrix: np.ndarray  # or its diagonal


class NewtonRun(Coordinator):
    """The coordinator of Newton's method.

    Set by `step`, which is one exchange with the partitions: `z`, the last point that was accepted, with `F` and `gradient`; `trial`, the
    next point, and what F is `promised` to fall by; `searching`, whether the next round looks for the best point of the way to it; `delta`.
    """

    diagonal = False  # whether the partitions send the diagonal of the matrix alone

    def __init__(self, pool: WorkerPool, objective: Objective, tol: float, checkpoint: Checkpoint) -> None:
        super().__init__(pool, objective, tol, checkpoint)
        found = pool.configure(objective, checkpoint.restored)
        found = self._state() if found.arrays is None else found
        assert found.arrays is not None
        self._weigh(found.parts)
        v = found.arrays["share"]
        self.width = objective.features
        self.z = v.copy()  # a checkpoint's β gives its w
        if objective.intercept != "none":
            self.z[-1] = self.centre / objective.scale
        self.ridge = np.full(len(v), objective.l2)
        if objective.intercept == "free":
            self.ridge[-1] = 0.0
        first = FIRST_DELTA * objective.unit
        self.delta = 0.0 if objective.loss.is_smooth() else first
        self.recentre = bool(v.any())  # whether the centre moves to the last β before the next round
        self.inner = 0  # steps since the centre moved
        self.majorise = self.searching = False  # majorise: whether the next matrix is that of the largest curvature
        self.largest = max(first, self._mean_curvature())  # cap of δ
        self.trial = self.z.copy()
        self.F, self.promised, self.gradient = math.inf, 0.0, np.zeros(len(v))

    def _mean_curvature(self) -> float:
        """Return the mean over the rows of c‖x‖²/l2, the curvature of D in β; zero where a partition was lost."""
        found = self.pool.call("row_squares")
        if not all(isinstance(part, tuple) and len(part) == 2 for part in found.values()):
            return 0.0
        rows, squares = (math.fsum(found[k][place] for k in sorted(found)) for place in (0, 1))
        return squares / (max(rows, 1.0) * self.objective.l2)

    def _model(self) -> tuple[np.ndarray, float]:
        b = float(self.z[-1]) * self.objective.scale if self.objective.intercept != "none" else 0.0
        return np.ascontiguousarray(self.z[: self.width]), b

    def _columns(self) -> dict[str, float]:
        return {"local_epochs": 1.0, "delta": self.delta}

    def step(self) -> None:
        """Take one round: steps 1 to 4, or the search of step 2."""
        self.number += 1
        self.epochs += 1
        if self.searching:
            self._search()
            return
        self.complete = False
        sums = self._evaluate(self.trial)  # 1
        F = sums.values.envelope + self._ridge_term(self.trial)
        if self.F - DECREASE * self.promised + ROUNDING * abs(F) < F and np.any(self.trial != self.z):  # 2
            self.searching = True
            return
        self._accept(sums, F)

    def _evaluate(self, z: np.ndarray) -> Sums:
        """Ask for the sums at z. A partition that was lost is asked again: its centre is then what its checkpoint has, or zero."""
        sharper = float(next_delta(self.delta, True, self.largest))
        trial = Trial(self.number, self.delta, self.recentre, sharper, self.majorise, self.diagonal)
        found = self._until_none_is_lost(lambda: self.pool.total("curve", trial, z))
        self.recentre = self.majorise = False
        arrays = found.arrays
        assert arrays is not None
        self.bytes += self.pool.count * (z.nbytes + sum(array.nbytes for array in arrays.values()))
        self._weigh(found.parts)
        ordered = [found.parts[k] for k in sorted(found.parts)]
        values = Values(*(math.fsum(column) for column in zip(*(curve.values for curve in ordered), strict=True)))
        matrix = arrays["matrix"] if self.diagonal else symmetric(arrays["matrix"], len(self.z))
        return Sums(values, math.fsum(curve.moved for curve in ordered), arrays["u"], arrays["push"], matrix)

    def _ridge_term(self, z: np.ndarray) -> float:
        return 0.5 * float(self.ridge @ (z * z))

    def _search(self) -> None:
        """Make the best point of the way from z to the trial the next trial."""
        points = np.stack([self.z, self.trial])
        trial = Trial(self.number, self.delta, self.recentre)
        parts = self.pool.call("along", trial, points, WAY)
        self.bytes += self.pool.count * points.nbytes
        way, self.searching = self.trial - self.z, False
        if not all(isinstance(part, np.ndarray) for part in parts.values()):  # a partition was lost: z is evaluated again
            self.trial, self.F = self.z.copy(), math.inf
            return
        self.recentre = False
        total = np.sum([parts[k] for k in sorted(parts)], axis=0)
        values = [F + self._ridge_term(self.z + t * way) for t, F in zip(WAY, total, strict=True)]
        best = int(np.argmin(values))
        self.F = values[0]
        if best > 0:
            self.trial, self.promised = self.z + WAY[best] * way, WAY[best] * self.promised
            return
        # Too few rows have curvature for a good direction. If all have the largest there is, a full step is never too long.
        self.trial, self.F, self.majorise = self.z.copy(), math.inf, True

    def _accept(self, sums: Sums, F: float) -> None:
        self.z, self.F = self.trial, F
        gradient, matrix = self.ridge * self.z - sums.u, sums.matrix
        rest = self._size(gradient)
        self.primal = sums.values.loss + self._ridge_term(self.z)
        self.bound = self.primal - sums.values.fenchel - rest
        self.inner += 1
        solved = rest <= SOLVED * sums.values.proximal
        if self.delta > 0.0 and (solved or self.inner >= INNER_STEPS):  # 3
            before, self.delta = self.delta, float(next_delta(self.delta, solved, self.largest))
            self.recentre, self.inner = True, 0
            if solved:
                self.F = sums.moved + self._ridge_term(self.z)
            else:
                self.searching = True
            # With the new centre and δ, a free β at the same z goes on by (β − old centre)·(old δ/new δ), and has that much more curvature.
            matrix, gradient = (before / self.delta) * matrix, gradient - (before / self.delta) * sums.push
        self.gradient = gradient
        self._aim(matrix)  # 4

    def _size(self, gradient: np.ndarray) -> float:
        """Return the part of the gap that a gradient makes. Along a free intercept: about what scaling one class's β to balance costs."""
        if self.ridge[-1] > 0.0:
            return 0.5 * float(gradient @ gradient) / self.objective.l2
        unit, scale = self.objective.unit, self.objective.scale
        balance = abs(float(gradient[-1])) / scale * max(unit, abs(float(self.z[-1])) * scale)
        return 0.5 * float(gradient[:-1] @ gradient[:-1]) / self.objective.l2 + balance

    def _aim(self, matrix: np.ndarray) -> None:
        """Set the next trial."""
        self._go(-solve_positive(matrix + np.diag(self.ridge), self.gradient))

    def _go(self, step: np.ndarray) -> None:
        self.promised = max(-float(self.gradient @ step), 0.0)
        self.trial = self.z + step


class NewtonCGRun(NewtonRun):
    """The coordinator of Newton's method by conjugate gradients.

    Set by `step`, beside what NewtonRun has: `system`, the one under way, or None; `forcing`, the part of the gradient that its residual
    may have; `predicted`, the gradient at the trial by the quadratic model.
    """

    diagonal = True

    def __init__(self, pool: WorkerPool, objective: Objective, tol: float, checkpoint: Checkpoint) -> None:
        super().__init__(pool, objective, tol, checkpoint)
        self.system: ConjugateGradients | None = None
        self.forcing, self.losses = LOOSEST, 0
        self.predicted: np.ndarray | None = None

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
        if self.predicted is not None:
            unpredicted = self.ridge * self.trial - sums.u - self.predicted
            self.forcing = next_forcing(self._size(unpredicted), self._size(self.gradient))
        super()._accept(sums, F)

    def _aim(self, matrix: np.ndarray) -> None:
        """Begin a system; the trial is set once it is solved."""
        diagonal = np.where(matrix + self.ridge > 0.0, matrix + self.ridge, 1.0)
        self.system, self.predicted = ConjugateGradients(-self.gradient, lambda r: r / diagonal), None
        self.losses = len(self.pool.losses)

    def _multiply(self, system: ConjugateGradients) -> None:
        found = self.pool.total("product", system.direction) if len(self.pool.losses) == self.losses else None
        self.bytes += 2 * self.pool.count * system.direction.nbytes
        if found is None or found.arrays is None:  # a partition was lost, and its part of the matrix: z is evaluated again
            self.system, self.trial, self.F = None, self.z.copy(), math.inf
            self._refresh()
            return
        goes_on = system.take(found.arrays["product"] + self.ridge * system.direction) and system.products < MOST_PRODUCTS
        if not goes_on or self._size(system.residual) <= wanted_residual(
            self.forcing, self._size(self.gradient), self.tol * self.primal
        ):
            self.system, self.predicted = None, -system.residual
            self._go(system.step)
