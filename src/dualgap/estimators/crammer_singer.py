"""Crammer and Singer's multi-class machine: its loss and coordinate ascent on its dual. The problem over all classes is that of `joint`.

    loss(g, y) = maxₖ(1[k ≠ y] + gₖ − g_y)          ψ(p) = 1 − p_y

A step on row i maximises D over pᵢ: the projection of pᵢ + (1[k ≠ yᵢ] + gᵢₖ)/q onto the simplex, q = cᵢ‖xᵢ‖²/l2. A free intercept is
a bias column with one centre per class, see solvers/coordinate/bias.py.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import fresh_seed, kernel, natural_order, shuffle, strict
from dualgap.estimators.joint import JointProblem, JointStepper, joint_dual
from dualgap.run import Evaluation
from dualgap.solvers.coordinate import BiasColumn

__all__ = ["CrammerSinger", "CrammerSingerRun"]


class Labels(NamedTuple):
    """Class code, weight c, q and the factor c/l2 of each row."""

    codes: np.ndarray
    c: np.ndarray
    q: np.ndarray
    step: np.ndarray


@kernel
def sweep(rows, at, W, centre, p, order, z):
    """One step on every row in the given order; z is a vector of K to work in. Returns how many rows moved."""
    K = W.shape[0]
    moved = 0
    for s in range(order.shape[0]):
        i = order[s]
        if at.c[i] == 0.0:
            continue
        for k in range(K):
            z[k] = rows.dot(i, W[k]) + centre[k] + (0.0 if k == at.codes[i] else 1.0)
        if at.q[i] > 0.0:
            for k in range(K):
                z[k] = p[i, k] + z[k] / at.q[i]
            theta = simplex_threshold(z)
            for k in range(K):
                z[k] = max(z[k] - theta, 0.0)
        else:
            top = np.argmax(z)
            z[:] = 0.0
            z[top] = 1.0
        changed = False
        for k in range(K):
            fall = p[i, k] - z[k]
            if fall != 0.0:
                rows.add(i, fall * at.step[i], W[k])
                p[i, k] = z[k]
                changed = True
        moved += changed
    return moved


@kernel
def simplex_threshold(z):
    """Move z so that its largest entry is 0, and return the θ with Σ max(z − θ, 0) = 1.

    Those at or below the mean excess are left out until none is (Michelot). θ is below 0 by at least 1/K, so that the largest is
    never left out, however large z was.
    """
    K = z.shape[0]
    top = z.max()
    for k in range(K):
        z[k] -= top
    theta, count = -np.inf, K + 1
    while True:
        total, kept = 0.0, 0
        for k in range(K):
            if z[k] > theta:
                total += z[k]
                kept += 1
        if kept >= count:
            return theta
        count, theta = kept, (total - 1.0) / kept


@strict
def joint_sums(codes, c, scores, radius, p):
    """Return Σ c·loss and Σ cᵢ Σₖ pᵢₖ(lossᵢ − hᵢₖ), hᵢₖ = 1[k ≠ yᵢ] + gᵢₖ − gᵢ,yᵢ, each with a bound on its error.

    p of the own class is 1 − Σ of the others. radius[i] bounds the error of a score of row i.
    """
    u = 1.1102230246251565e-16
    K = scores.shape[1]
    loss, loss_radius, excess, excess_radius = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        if c[i] == 0.0:
            continue
        own, top, most, others = scores[i, codes[i]], 0.0, 1.0, 0.0
        for k in range(K):
            if k != codes[i]:
                h = 1.0 + scores[i, k] - own
                top, most = max(top, h), max(most, abs(scores[i, k]) + abs(own) + 1.0)
                others += p[i, k]
        row = max(1.0 - others, 0.0) * top
        for k in range(K):
            if k != codes[i]:
                row += p[i, k] * (top - (1.0 + scores[i, k] - own))
        off = 2.0 * radius[i] + 4.0 * u * most  # of an h
        loss += c[i] * top
        loss_radius += c[i] * (off + 4.0 * u * top)
        excess += c[i] * row
        excess_radius += c[i] * (2.0 * off + (2.0 * K + 16.0) * u * (top + most))
    return loss, loss_radius, excess, excess_radius


class CrammerSinger(JointProblem):
    """Crammer and Singer's problem."""

    name: ClassVar[str] = "crammer_singer"
    terms: ClassVar[Any] = staticmethod(joint_sums)
    at_zero = 1.0

    def psi_slope(self, mass: float) -> float:
        return 1.0


class CrammerSingerRun(JointStepper):
    """Coordinate ascent on p.

    Fixed by the constructor: `rows`, `at`. Changed by `step`: p, W with its bias column, the centres in `bias`.
    """

    def __init__(self, joint: CrammerSinger, rng: np.random.Generator, warm: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        super().__init__(joint)
        self.rng, base = rng, joint.base
        self.bias = BiasColumn.of(base, np.zeros(joint.K) if warm is None else warm[1].copy())
        self.rows = self.bias.rows(base.rows, centre=0.0)
        self.at = Labels(joint.codes, base.c, base.c * self.bias.squares(base.sqnorms) / base.l2, base.c / base.l2)
        self.p = joint.own.copy() if warm is None else warm[0].copy()
        point = joint.dual_point(self.p)
        self.W = np.zeros((joint.K, base.d + self.bias.width))
        self.W[:, : base.d] = point.coef
        if self.bias.width:
            self.p = point.p.copy()
            self.W[:, -1] = self.bias.scale * ((joint.own - self.p) * self.at.step[:, None]).sum(axis=0)
        self.order, self.z = natural_order(base.n), np.empty(joint.K)
        self.evaluate()  # where it starts from may be the best there is
        self._sweep(self.order[:0])  # compiles, before the clock runs

    @classmethod
    def from_model(cls, joint: Any, rng: np.random.Generator, model: Any, scale: np.ndarray) -> CrammerSingerRun:
        p = joint_dual(model, joint, scale) if model.warm_start and joint.K > 2 else None
        return cls(joint, rng, None if p is None else (p, model.intercept_.astype(np.float64)))

    def _sweep(self, order: np.ndarray) -> None:
        sweep(self.rows, self.at, self.W, self.bias.centre, self.p, order, self.z)

    def step(self) -> None:
        shuffle(self.order, fresh_seed(self.rng))
        self._sweep(self.order)
        self.epochs += 1
        self.bias.move_centre(self.W[:, -1])

    def evaluate(self) -> Evaluation:
        point = self.joint.dual_point(self.p)
        free = self.bias.intercept == "free"
        intercept = self.bias.centre.copy() if free else self.bias.value(self.W[:, -1])
        return self.certified(point.coef, intercept, point, float(self.epochs))
