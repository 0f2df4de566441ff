"""NewtonRun: Newton's method on a cluster, for few features. One round a step, and about as many steps as on one machine.

    z = (w, b/scale)        F(z) = R(w) + Σ cᵢMᵢ(mᵢ)        Mᵢ(m) = max over β of ψ(β) − βm − (δ/2)(β − centreᵢ)²

The proximal-point method on the dual (Rockafellar 1976; Li, Sun and Toh 2018), as `solvers/newton` has it: sums over the rows, F's value,
u = Σ cβ⁺yx and the matrix Σ c·curvature·xxᵀ, add up over the partitions, which keep β⁺ and their centres. Smooth losses have δ = 0.

1. Every partition evaluates its sums at the trial point z; they are added up.
2. F(z) must have fallen enough (Armijo). Else the next round evaluates F at some points of the way, and the best of them is the next trial.
3. The gap at (z, β⁺) is Σ c[φ − ψ + βm] + ‖l2·w − u‖²/(2·l2). If its second part is small beside the proximal term: centre ← β⁺, δ ← δ/2.
   After INNER_STEPS steps the centre moves too, but δ grows, and the next round is a search as in 2.
4. Solve (ridge + matrix) step = −gradient by Cholesky; the next trial is z + step.

The start is w = 0, every centre 0 and δ = 2, where every variable is free. A start from the model of a sample of the rows was tried: its
smaller δ leaves too few free variables for the matrix to have full rank, and weak penalties then took two to four times the rounds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.coordinator import Coordinator
from dualgap.cluster.partition import Objective, Trial, symmetric
from dualgap.cluster.worker_pool import WorkerPool

__all__ = ["NewtonRun"]

FIRST_DELTA = 2.0  # in typical margins, δ of the hinge at the start: at w = 0 every row then has β between its bounds
SHARPEN = 0.5  # factor on δ when the centre moves
SOLVED = 0.3  # gradient's part of the gap / proximal term, below which the centre moves
INNER_STEPS = 8  # steps after which it moves anyway, with a larger δ: by BLUNTEN, or the power FAR of what it may grow by
BLUNTEN, FAR = 4.0, 0.25
ARMIJO = 1e-4  # share of the promised decrease of F that a step must bring
# Points of the way that are tried after a step that was too long.
WAY = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


class Sums(NamedTuple):
    """The partitions' curves, added up."""

    value: float
    moved: float
    u: np.ndarray
    push: np.ndarray
    matrix: np.ndarray
    gap: float
    loss: float
    proximal: float


NUMBERS = ("value", "moved", "gap", "loss", "proximal")


class NewtonRun(Coordinator):
    """The coordinator of Newton's method.

    Set by `step`: `z`, the last point that was accepted, and its sums; `trial`, the next point; `searching`, whether the next round looks
    for the best point of the way to it; `delta`. Every step is one exchange with the partitions.
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
        self.F, self.promised = math.inf, 0.0

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
        F = sums.value + self._ridge_term(self.trial)
        rounding = 1e-13 * abs(F)
        if self.F - ARMIJO * self.promised + rounding < F and np.any(self.trial != self.z):  # 2
            self.searching = True
            return
        self._accept(sums, F)

    def _evaluate(self, z: np.ndarray) -> Sums:
        """Ask for the sums at z. A partition that was lost is asked again: its centre is then what its checkpoint has, or zero."""
        trial = Trial(self.number, self.delta, self.recentre, SHARPEN * self.delta, self.majorise, self.diagonal)
        found = self._until_none_is_lost(lambda: self.pool.total("curve", trial, z))
        self.recentre = self.majorise = False
        arrays = found.arrays
        assert arrays is not None
        self.bytes += self.pool.count * (z.nbytes + sum(array.nbytes for array in arrays.values()))
        self._weigh(found.parts)
        ordered = [found.parts[k] for k in sorted(found.parts)]
        numbers: dict[str, Any] = {name: math.fsum(getattr(curve, name) for curve in ordered) for name in NUMBERS}
        return Sums(**numbers, u=arrays["u"], push=arrays["push"], matrix=self._matrix(arrays["matrix"]))

    def _matrix(self, sent: np.ndarray) -> np.ndarray:
        return symmetric(sent, len(self.z))

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
        objective = self.objective
        gradient = self.ridge * self.z - sums.u
        penalised = self.ridge > 0.0
        rest = float(gradient[penalised] @ gradient[penalised]) / (2.0 * objective.l2)
        if objective.intercept == "free":
            rest += self._unbalanced(float(gradient[-1]))
        self.primal = sums.loss + self._ridge_term(self.z)
        self.bound = self.primal - sums.gap - rest
        self.inner += 1
        matrix = sums.matrix
        solved = rest <= SOLVED * sums.proximal
        if self.delta > 0.0 and (solved or self.inner >= INNER_STEPS):  # 3
            self.recentre, self.inner, before = True, 0, self.delta
            if solved:
                self.delta, self.F = SHARPEN * before, sums.moved + self._ridge_term(self.z)
            else:
                largest = max(self.largest, before)
                self.delta, self.searching = min(max(BLUNTEN, (largest / before) ** FAR) * before, largest), True
            # With the new centre and δ, a free β at the same z goes on by (β − old centre)·(old δ/new δ), and has that much more curvature.
            matrix, gradient = (before / self.delta) * matrix, gradient - (before / self.delta) * sums.push
        self._aim(matrix, gradient)  # 4

    def _unbalanced(self, slope: float) -> float:
        """Return about what scaling one class's β to balance costs at most, for a slope along a free intercept."""
        return abs(slope) / self.objective.scale * max(self.objective.unit, abs(float(self.z[-1])) * self.objective.scale)

    def _aim(self, matrix: np.ndarray, gradient: np.ndarray) -> None:
        """Set the next trial."""
        step = self._newton_step(matrix, gradient)
        self.promised = max(-float(gradient @ step), 0.0)
        self.trial = self.z + step

    def _newton_step(self, matrix: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        matrix = matrix + np.diag(self.ridge)
        scale = float(np.trace(matrix)) / len(matrix)
        for jitter in (0.0, 1e-12, 1e-8, 1e-4, 1.0):
            try:
                return -np.asarray(cho_solve(cho_factor(matrix + jitter * scale * np.eye(len(matrix))), gradient))
            except LinAlgError:
                continue
        return -gradient / scale
