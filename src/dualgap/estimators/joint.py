"""Multi-class machines with one problem for all K classes: their dual points, certificates and runs, whatever the loss.

    P(W, b) = Σ cᵢ loss(gᵢ, yᵢ) + (l2/2) Σₖ‖wₖ‖²          gᵢₖ = xᵢ·wₖ + bₖ
    loss(g, y) = max over p in the simplex of ψ(p) + Σₖ pₖgₖ − g_y

    D(p) = Σ cᵢ ψ(pᵢ) − (l2/2) Σₖ‖wₖ(p)‖²        pᵢ in the simplex,  wₖ(p) = Σ cᵢ (1[k = yᵢ] − pᵢₖ) xᵢ / l2
           subject to Σ cᵢ (1[k = yᵢ] − pᵢₖ) = 0 for every k where the intercept is free

The gap P − D is Σ cᵢ(lossᵢ − [ψ(pᵢ) + Σₖ pᵢₖgᵢₖ − gᵢ,yᵢ]) + (l2/2) Σₖ‖wₖ − wₖ(p)‖²: terms that are all at least 0. Crammer and Singer's
loss and method are here, those of the multinomial one in `multinomial`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import (
    ROUNDOFF,
    SMALLEST,
    Bounded,
    fresh_seed,
    gamma,
    kernel,
    length_bound,
    natural_order,
    nonnegative_sum,
    shuffle,
    signed_sum,
    strict,
    total,
)
from dualgap.estimators.model import Model, fit_of
from dualgap.problem import Problem
from dualgap.proof import Certificate, RowSums, assemble, bias_terms, certificate_of_pair, penalty_excess, penalty_value
from dualgap.run import Best, Evaluation, Stepper
from dualgap.solvers.coordinate import BiasColumn

__all__ = ["CrammerSinger", "CrammerSingerRun", "JointPoint", "JointProblem", "JointStepper", "joint_dual"]


@dataclass(frozen=True)
class JointPoint:
    """A p in the simplex and, with free intercepts, in balance up to rounding; and the model W(p), each wₖ off by at most `errors[k]`."""

    p: np.ndarray
    coef: np.ndarray
    errors: np.ndarray


class JointProblem:
    """One problem over K classes. `base` is any problem over the same rows, whose storage, weights, l2 and intercept it uses.

    A subclass has the loss: `at_zero`, `terms`, a kernel for `sums`, and `psi_slope`.
    """

    name: ClassVar[str]  # its multi_class in LinearSVC
    terms: ClassVar[Callable[..., tuple[float, float, float, float]]]  # both sums, each with a bound on its error
    at_zero: float  # the objective of W = 0

    def __init__(self, base: Problem, codes: np.ndarray, K: int) -> None:
        self.base, self.codes, self.K = base, codes, K
        self.own = np.zeros((base.n, K))
        self.own[np.arange(base.n), codes] = 1.0

    def sums(self, scores: np.ndarray, radius: np.ndarray, p: np.ndarray) -> RowSums:
        """Return Σ c·loss and Σ c·(loss − [ψ(p) + Σₖ pₖgₖ − g_y]).

        p of the own class is 1 − Σ of the others. radius[i] bounds the error of a score of row i.
        """
        loss, loss_radius, gap, gap_radius = type(self).terms(self.codes, self.base.c, scores, radius, p)
        return RowSums(*(nonnegative_sum(*each, self.base.n + 8) for each in ((loss, loss_radius), (gap, gap_radius))))

    def psi_slope(self, mass: float) -> float:
        """Return a bound on what a row's c·ψ(p) falls by where a `mass` c·Δp moves from one class to another, divided by that mass."""
        raise NotImplementedError

    def dual_point(self, p: np.ndarray) -> JointPoint:
        """The feasible point nearest to hand from p, and its model."""
        base = self.base
        p = np.maximum(p, 0.0)
        p /= p.sum(axis=1, keepdims=True)
        if base.intercept == "free":
            p = self._balanced(p)
        p = np.where(self.own > 0.0, p, p * (1.0 - (self.K + 4) * ROUNDOFF))  # the others' exact sum is at most 1
        a = base.c[:, None] * self._signed(p) / base.l2
        coef = np.stack([base.combine(a[:, k]) for k in range(self.K)])
        errors = 1.000001 * gamma(base.n + self.K + 8) * (base.norms @ np.abs(a)) + SMALLEST
        return JointPoint(p, coef, errors)

    def _signed(self, p: np.ndarray) -> np.ndarray:
        """Return 1[k = yᵢ] − pᵢₖ, that of the own class as the sum over the others."""
        others = np.where(self.own > 0.0, 0.0, p)
        return np.where(self.own > 0.0, others.sum(axis=1, keepdims=True), -others)

    def certify(self, coef: np.ndarray, intercept: np.ndarray, point: JointPoint) -> tuple[Certificate, float]:
        """Certify a model by a dual point; also return the error bound of the gap."""
        base = self.base
        scores = np.stack([base.scores(np.ascontiguousarray(w)) + b for w, b in zip(coef, intercept, strict=True)], axis=1)
        lengths, norms = [length_bound(w) for w in coef], base.norms
        radius = norms * (gamma(base.longest + 4) * max(lengths)) + SMALLEST
        sums, rests = self.sums(scores, radius, point.p), self.rests(point.p)
        cost, shifts = self.balance_cost(point.p, scores, radius, rests) if base.intercept == "free" else (0.0, np.zeros(self.K))
        penalty, excess = Bounded(0.0), Bounded(0.0)
        for k, (w, b) in enumerate(zip(coef, intercept.tolist(), strict=True)):
            penalty += penalty_value(0.0, base.l2, w)
            excess += penalty_excess(base.penalty, w, point.coef[k], np.zeros(1), point.errors[k] + shifts[k])
            if base.intercept == "penalised":
                own, more = bias_terms(base.l2, base.intercept_scale, b, rests[k])
                penalty, excess = penalty + own, excess + more
        found = assemble(sums, penalty, excess, cost)
        return certificate_of_pair(found, "solver"), 2.0 * found.gap.radius

    def rests(self, p: np.ndarray) -> list[Bounded]:
        """Return Σ cᵢ(1[k = yᵢ] − pᵢₖ) of every class."""
        c, signed = self.base.c, self._signed(p).T.copy()
        adding = gamma(self.K)  # the own class's part is a sum over the others
        return [signed_sum(c, np.sign(part), np.abs(part)).wider(adding * float(c @ np.abs(part)) * 1.000001) for part in signed]

    def balance_cost(self, p: np.ndarray, scores: np.ndarray, radius: np.ndarray, rests: list[Bounded]) -> tuple[float, np.ndarray]:
        """Bound what exact balance costs: in the gap, and how far each wₖ(p) moves. Infinite where no row has the weight to spare.

        What a class has too much of is moved, in one row, to its own class; from there, in a row of that class, to the next.
        """
        base = self.base
        need = total(map(abs, rests)).upper  # more than any one move has to carry
        weights = base.c[:, None] * p
        rows = weights.argmax(axis=0)
        if weights[rows, np.arange(self.K)].min() < self.K * need:
            return (0.0, np.zeros(self.K)) if not p[self.own == 0.0].any() else (np.inf, np.zeros(self.K))
        spread = np.abs(scores[rows]).max() + float(radius[rows].max()) + self.psi_slope(need)
        moves = self.K * need
        return 4.0 * moves * spread, np.full(self.K, self.K * moves * float(base.norms[rows].max()) / base.l2)

    def _balanced(self, p: np.ndarray) -> np.ndarray:
        """p with every class's mass Σ cᵢpᵢₖ equal to Σ cᵢ1[k = yᵢ]: mixed with one point of the simplex, as little as will do."""
        c, y = self.base.c, self.codes
        free = p[np.arange(len(y)), y] < 1.0  # the others are in balance by themselves, and stay as they are
        if self._share(p, c * free) == 0.0:
            free[:] = True
        for _ in range(2):  # the second time takes up what rounding left
            weights = c * free
            keep = self._share(p, weights)
            short = np.maximum(weights @ self.own - keep * (weights @ p), 0.0)
            if short.sum() > 0.0:
                p = np.where(free[:, None], keep * p + short / weights.sum(), p)
                p /= p.sum(axis=1, keepdims=True)
        return p

    def _share(self, p: np.ndarray, weights: np.ndarray) -> float:
        """The most of p that can be kept where the rest is to bring the classes' masses into balance."""
        wanted, mass = weights @ self.own, weights @ p
        return min(1.0, float(np.min(np.divide(wanted, mass, out=np.ones_like(mass), where=mass > 0))))


class JointStepper(Stepper):
    """A method on a joint problem, as the driver steps it. A subclass has `step`, `evaluate` and `from_model`.

    Changed by `step`: `epochs` and what the subclass says. Changed by `evaluate`: `best`, whose `beta` is p.
    """

    schedule: ClassVar[str] = "geometric"  # when to evaluate, as `drive` takes it

    def __init__(self, joint: JointProblem) -> None:
        self.joint, self.at_zero, self.epochs = joint, joint.at_zero, 0
        self.best = Best(np.zeros((joint.K, joint.base.d)), np.zeros(joint.K), np.inf, beta=joint.own)

    @classmethod
    def from_model(cls, joint: Any, rng: np.random.Generator, model: Model, scale: np.ndarray) -> JointStepper:
        """Return a run that starts from an estimator's last fit, if that is wanted and was of this kind; `scale` is C·s."""
        raise NotImplementedError

    def certified(self, coef: np.ndarray, intercept: np.ndarray, point: JointPoint, passes: float) -> Evaluation:
        """Certify a model by a dual point, and remember either where it is the best so far."""
        c, self.resolution = self.joint.certify(coef, intercept, point)
        self.best = self.best.after(coef, intercept, point.p, c)
        columns = self.decide() if self.epochs else {}
        return Evaluation(self.best.certificate(c.primal), coef, intercept, passes, columns)


def joint_dual(model: Model, joint: JointProblem, scale: np.ndarray) -> np.ndarray | None:
    """p of the last fit, to rounding; None where that was not of this kind on as many rows."""
    fitted = getattr(model, "dual_coef_", None)
    if fitted is None or fitted.shape[0] != joint.K or fit_of(model).n_rows != joint.base.n:
        return None
    p = joint.own.copy()
    rows = model.support_[scale[model.support_] > 0]
    signed = np.zeros((joint.base.n, joint.K))
    signed[model.support_] = fitted.toarray().T
    p[rows] -= signed[rows] / scale[rows, None]
    p = np.maximum(p, 0.0) + 1e-300
    return p / p.sum(axis=1, keepdims=True)


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
    def from_model(cls, joint: Any, rng: np.random.Generator, model: Model, scale: np.ndarray) -> CrammerSingerRun:
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
