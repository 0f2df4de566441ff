"""Crammer and Singer's multi-class machine: one problem for all K classes, with its own dual, steps and certificate.

    P(W, b) = Σ cᵢ maxₖ(1[k ≠ yᵢ] + gᵢₖ − gᵢ,yᵢ) + (l2/2) Σₖ‖wₖ‖²          gᵢₖ = xᵢ·wₖ + bₖ
    D(p)    = Σ cᵢ (1 − pᵢ,yᵢ) − (l2/2) Σₖ‖wₖ(p)‖²        pᵢ in the simplex,  wₖ(p) = Σ cᵢ (1[k = yᵢ] − pᵢₖ) xᵢ / l2
              subject to Σ cᵢ (1[k = yᵢ] − pᵢₖ) = 0 for every k where the intercept is free

A step on row i maximises D over pᵢ: the projection of pᵢ + (1[k ≠ yᵢ] + gᵢₖ)/q onto the simplex, q = cᵢ‖xᵢ‖²/l2. A free intercept is
a bias column with one centre per class, see solvers/coordinate/bias.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import fresh_seed, kernel, natural_order, shuffle
from dualgap.estimators.fitted import keep, support
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.multiclass import Budget
from dualgap.problem import Problem
from dualgap.run import Best, Evaluation, Result, Stepper, drive
from dualgap.solvers.coordinate import BiasColumn

__all__ = ["CrammerSinger", "JointRun", "fit_jointly"]


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


@dataclass(frozen=True)
class JointPoint:
    """A feasible p, its bound, and the model W(p)."""

    p: np.ndarray
    value: float
    coef: np.ndarray


class CrammerSinger:
    """The problem over K classes. `base` is any problem over the same rows, whose storage, weights, l2 and intercept it uses."""

    def __init__(self, base: Problem, codes: np.ndarray, K: int) -> None:
        self.base, self.codes, self.K = base, codes, K
        self.own = np.zeros((base.n, K))
        self.own[np.arange(base.n), codes] = 1.0

    def primal(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """P(W, b)."""
        base = self.base
        scores = np.stack([base.scores(np.ascontiguousarray(w)) + b for w, b in zip(coef, intercept, strict=True)], axis=1)
        own = scores[np.arange(base.n), self.codes]
        losses = (scores + 1.0 - self.own).max(axis=1) - own
        value = float(base.c @ losses) + 0.5 * base.l2 * float(np.sum(coef * coef))
        if base.intercept == "penalised":
            value += 0.5 * base.l2 * float(np.sum((intercept / base.intercept_scale) ** 2))
        return value

    def dual_point(self, p: np.ndarray) -> JointPoint:
        """The feasible point nearest to hand from p, with its bound."""
        base = self.base
        p = np.maximum(p, 0.0)
        p /= p.sum(axis=1, keepdims=True)
        if base.intercept == "free":
            p = self._balanced(p)
        a = base.c[:, None] * (self.own - p) / base.l2
        coef = np.stack([base.combine(a[:, k]) for k in range(self.K)])
        value = float(base.c @ (1.0 - p[np.arange(base.n), self.codes])) - 0.5 * base.l2 * float(np.sum(coef * coef))
        if base.intercept == "penalised":
            value -= 0.5 * base.l2 * base.intercept_scale**2 * float(np.sum(a.sum(axis=0) ** 2))
        return JointPoint(p, value, coef)

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


class JointRun(Stepper):
    """Coordinate ascent on p, as the driver steps it.

    Fixed by the constructor: `rows`, `at`. Changed by `step`: p, W with its bias column, the centres in `bias`. Changed by `evaluate`:
    `best`, whose `beta` is p.
    """

    at_zero = 1.0  # every row's loss at W = 0

    def __init__(self, joint: CrammerSinger, rng: np.random.Generator, warm: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        self.joint, self.rng, base = joint, rng, joint.base
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
        self.epochs = 0
        self.best = Best(np.zeros((joint.K, base.d)), np.zeros(joint.K), np.inf)
        self.best.beta = joint.own
        self.evaluate()  # where it starts from may be the best there is
        self._sweep(self.order[:0])  # compiles, before the clock runs

    def _sweep(self, order: np.ndarray) -> None:
        sweep(self.rows, self.at, self.W, self.bias.centre, self.p, order, self.z)

    def step(self) -> None:
        shuffle(self.order, fresh_seed(self.rng))
        self._sweep(self.order)
        self.epochs += 1
        self.bias.move_centre(self.W[:, -1])

    def evaluate(self) -> Evaluation:
        point = self.joint.dual_point(self.p)
        self.best.offer_bound(point.value, point.p)
        free = self.bias.intercept == "free"
        intercept = self.bias.centre.copy() if free else self.bias.value(self.W[:, -1])
        primal = self.joint.primal(point.coef, intercept)
        self.best.offer_model(point.coef, intercept, primal)
        return Evaluation(self.best.certificate(primal), point.coef, intercept, float(self.epochs), {})


def fit_jointly(model: Any, data: Labelled, base: Problem, budget: Budget, callbacks: Iterable[Callable[[Any], Any]]) -> Result:
    """Fit an estimator's attributes by the joint problem; with two classes the model is the difference of the two, as in LIBLINEAR."""
    joint, scale = CrammerSinger(base, data.codes, len(data.classes)), model.C * data.own_weights()
    run = JointRun(joint, np.random.default_rng(budget.seed), _warm(model, joint, scale))
    ended = drive(run, budget.tol, budget.max_epochs, budget.max_seconds, evaluate="geometric", callbacks=callbacks)
    W, b, certificate = run.best.coef, run.best.intercept, run.certificate()
    result = Result(problem=base, coef=W, intercept=b, dual=run.best.beta, certificate=certificate, **ended._asdict())
    found = support(((joint.own - result.dual) * scale[:, None]).T, data.codes)
    found["dual_coef_"] = sparse.csr_matrix(found["dual_coef_"])
    two = joint.K == 2
    coef, intercept = (np.diff(W, axis=0), np.diff(b)) if two else (W, b)
    keep(model, data.classes, [result], coef_=coef, intercept_=intercept, _n_rows=data.n, **found)
    return result


def _warm(model: Any, joint: CrammerSinger, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """p and the intercepts of the last fit, where that was of this kind on as many rows."""
    fitted = getattr(model, "dual_coef_", None)
    if not model.warm_start or fitted is None or fitted.shape[0] != joint.K or model._n_rows != joint.base.n or joint.K == 2:
        return None
    p = joint.own.copy()
    rows = model.support_[scale[model.support_] > 0]
    signed = np.zeros((joint.base.n, joint.K))
    signed[model.support_] = fitted.toarray().T
    p[rows] -= signed[rows] / scale[rows, None]
    p = np.maximum(p, 0.0) + 1e-300
    return p / p.sum(axis=1, keepdims=True), model.intercept_.astype(np.float64)
