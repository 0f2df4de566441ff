"""Multinomial logistic regression: its loss, and Newton's method by conjugate gradients. The problem over all classes is that of `joint`.

    loss(g, y) = log Σₖ exp(gₖ) − g_y          ψ(p) = −Σₖ pₖ log pₖ          best p: σ(g) = exp(g)/Σₖ exp(gₖ)

With p = σ(g) of the model itself the losses' part of the gap is 0, and the gap is (l2/2) Σₖ‖wₖ − wₖ(p)‖² = ‖∇P‖²/(2·l2) if the intercepts
are best. With another p it has Σ cᵢ KL(pᵢ ‖ σᵢ) more, the Kullback–Leibler divergence.

One step, at the scores G of the present model:

1) gradient  ∇ₖ = Σ cᵢ(σᵢₖ − 1[k = yᵢ])xᵢ + l2·wₖ
2) direction: conjugate gradients on H·V = −∇, preconditioned by the diagonal of H, until the residual is `forcing` of the gradient.
   (H·V)ₖ = Σ cᵢσᵢₖ(aᵢₖ − Σⱼ σᵢⱼaᵢⱼ)xᵢ + l2·vₖ with a = X·Vᵀ (Lin, Weng and Keerthi 2008)
3) backtracking until P falls by a part of what the gradient promises; scores along the line need no further product with X

Conjugate gradients and the backtracking are those of `solvers.newton`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from dualgap.core import is_sparse, kernel, strict
from dualgap.estimators.joint import JointProblem, JointStepper
from dualgap.run import Evaluation
from dualgap.solvers.newton import LOOSEST, MOST_PRODUCTS, backtrack, conjugate_gradients

__all__ = ["Multinomial", "MultinomialRun"]

REFRESHED = 8  # steps after which scores, which are running sums, are computed afresh


@strict
def multinomial_sums(codes, c, scores, radius, p):
    """Return Σ c·loss and Σ cᵢ KL(pᵢ ‖ σ(gᵢ)), each with a bound on its error. p of the own class is 1 − Σ of the others.

    The divergence is summed as Σₖ pₖ(log pₖ − log σₖ) − pₖ + σₖ, whose terms are at least 0. An error of δ in all log σₖ changes it by at
    most ‖p − σ‖₁δ + δ² (δ ≤ 1/2), so that little of the scores' errors is left where p is near σ.
    """
    u = 1.1102230246251565e-16
    K = scores.shape[1]
    few = (K + 16.0) * u
    loss, loss_radius, excess, excess_radius = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        if c[i] == 0.0:
            continue
        y, own, top, most, others = codes[i], scores[i, codes[i]], 0.0, 1.0, 0.0
        for k in range(K):
            if k != y:
                top, most = max(top, scores[i, k] - own), max(most, abs(scores[i, k]) + abs(own) + 1.0)
                others += p[i, k]
        rest = 0.0
        for k in range(K):
            if k != y:
                rest += math.exp((scores[i, k] - own) - top)
        value = math.log1p(rest) if top == 0.0 else top + math.log(math.exp(-top) + rest)
        off = 2.0 * radius[i] + 4.0 * u * most + few * (value if top == 0.0 else 1.0 + value)  # of the loss
        delta = 2.0 * off + 4.0 * u * (most + value)  # of a log σ
        row, apart, size = 0.0, 0.0, 0.0
        for k in range(K):
            mass = max(1.0 - others, 0.0) if k == y else p[i, k]
            log_sigma = -value if k == y else (scores[i, k] - own) - value
            sigma = math.exp(log_sigma)
            term = sigma
            size += sigma + mass
            if mass > 0.0:
                log_mass = math.log(mass)
                term += mass * (log_mass - log_sigma) - mass
                size += mass * (abs(log_mass) + abs(log_sigma))
            row += term
            apart += abs(mass - sigma)
        loss += c[i] * value
        loss_radius += c[i] * off
        excess += c[i] * max(row, 0.0)
        # The exact p of the own class is off by few·1 at most, and t·log t changes by h(1 + |log h|) where t changes by h ≥ 1e-17.
        rounding = 2.0 * few * size + few * (42.0 + value)
        excess_radius += c[i] * (apart * delta + 4.0 * delta * delta + rounding) if delta < 0.25 else np.inf
    return loss, loss_radius, excess, excess_radius


class Multinomial(JointProblem):
    """The problem of multinomial logistic regression."""

    name: ClassVar[str] = "multinomial"
    terms: ClassVar[Any] = staticmethod(multinomial_sums)

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        return math.log(self.K)

    def psi_slope(self, mass: float) -> float:
        # −t·log t falls by at most h where t rises by h, and by at most h|log h| where it falls by h: it is concave, and 0 at 0.
        return 2.0 + abs(math.log(mass)) if 0.0 < mass < 0.3 else math.inf if mass > 0.0 else 0.0


@kernel
def curve_rows(c, sigma, shift, a, total):
    """Overwrite a with cᵢσᵢₖ(aᵢₖ − Σⱼ σᵢⱼaᵢⱼ), where shiftₖ is first added to aᵢₖ, and `total` with the sums of its columns."""
    K = a.shape[1]
    total[:] = 0.0
    for i in range(a.shape[0]):
        mean = 0.0
        for k in range(K):
            a[i, k] += shift[k]
            mean += sigma[i, k] * a[i, k]
        for k in range(K):
            a[i, k] = c[i] * sigma[i, k] * (a[i, k] - mean)
            total[k] += a[i, k]


class MultinomialRun(JointStepper):
    """Newton's method by conjugate gradients, without a random choice.

    Fixed by the constructor: `X` in float64, `squares` of it, the bias `column` (0: none) and the penalty `l2` of each column. Changed by
    `step`: `V`, the models with their bias column; `scores`, `sigma`, `value` and `gradient` at V; `passes`.
    """

    schedule: ClassVar[str] = "auto"

    def __init__(self, joint: Multinomial, warm: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        super().__init__(joint)
        base = joint.base
        self.X = base.X if base.X.dtype == np.float64 else base.X.astype(np.float64)
        self.column = {"none": 0.0, "free": 1.0, "penalised": base.intercept_scale}[base.intercept]
        width = int(base.intercept != "none")
        self.l2 = np.full(base.d + width, base.l2)
        if base.intercept == "free":
            self.l2[-1] = 0.0
        self.V = np.zeros((joint.K, base.d + width))
        if warm is not None:
            self.V[:, : base.d] = warm[0]
            if width:
                self.V[:, -1] = warm[1] / self.column
        elif base.intercept == "free":  # the best intercepts of W = 0
            self.V[:, -1] = np.log(base.c @ joint.own)
            self.V[:, -1] -= self.V[:, -1].mean()
        self.passes = 0.0
        self.squares = self.X.multiply(self.X).tocsr() if is_sparse(self.X) else self.X**2
        self._move(self.V, self._products(self.V))
        self.first = max(self._size(self.gradient), 1e-300)
        self.evaluate()  # where it starts from may be the best there is
        self._curved(self.V)  # compiles, before the clock runs
        self.passes = 0.0

    @classmethod
    def from_model(cls, joint: Any, rng: np.random.Generator, model: Any, scale: np.ndarray) -> MultinomialRun:
        coef = getattr(model, "coef_", None) if model.warm_start else None
        if coef is None or coef.shape != (joint.K, joint.base.d):
            return cls(joint)
        dense = coef.toarray() if is_sparse(coef) else coef
        return cls(joint, (np.asarray(dense, dtype=np.float64), np.asarray(model.intercept_, dtype=np.float64)))

    # ----------------------------------------------------------------------------------------------------------- X, σ, gradient

    def _without_bias(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(self.X @ np.ascontiguousarray(V[:, : self.joint.base.d].T))

    def _products(self, V: np.ndarray) -> np.ndarray:
        """Return X·Vᵀ with the bias column, a row for each sample."""
        found = self._without_bias(V)
        return found + self.column * V[:, -1] if self.column else found

    def _combined(self, A: np.ndarray, X: Any = None, column: float | None = None, total: np.ndarray | None = None) -> np.ndarray:
        """Return Aᵀ·X with the bias column, a row for each class; `total` has the sums of A's columns, where they are known."""
        X, column = (self.X, self.column) if X is None else (X, column)
        found = np.empty(self.V.shape)
        found[:, : self.joint.base.d] = (X.T @ A).T
        if self.column:
            found[:, -1] = column * (A.sum(axis=0) if total is None else total)
        return found

    def _curved(self, V: np.ndarray) -> np.ndarray:
        """Return H·V at the present σ."""
        a, total = self._without_bias(V), np.empty(len(V))
        shift = self.column * V[:, -1] if self.column else np.zeros(len(V))
        curve_rows(self.joint.base.c, self.sigma, shift, a, total)
        self.passes += 2.0
        return self._combined(a, total=total) + self.l2 * V

    def _value(self, V: np.ndarray, scores: np.ndarray) -> float:
        top = scores.max(axis=1)
        own = scores[np.arange(len(scores)), self.joint.codes]
        losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + (top - own)
        return float(self.joint.base.c @ losses) + 0.5 * float(np.einsum("kj,kj,j->", V, V, self.l2))

    def _move(self, V: np.ndarray, scores: np.ndarray) -> None:
        sigma = np.exp(scores - scores.max(axis=1, keepdims=True))
        sigma /= sigma.sum(axis=1, keepdims=True)
        gradient = self._combined(self.joint.base.c[:, None] * (sigma - self.joint.own)) + self.l2 * V
        self.value = self._value(V, scores)
        self.V, self.scores, self.sigma, self.gradient = V, scores, sigma, gradient

    def _size(self, gradient: np.ndarray) -> float:
        """Return the gap that a gradient makes, over the penalised columns."""
        part = gradient[:, self.l2 > 0.0]
        return float(np.vdot(part, part)) / (2.0 * self.joint.base.l2)

    # -------------------------------------------------------------------------------------------------------------------- steps

    def step(self) -> None:
        self.epochs += 1
        # 2) direction by conjugate gradients
        before = self.gradient
        forcing = min(LOOSEST, math.sqrt(math.sqrt(self._size(before) / self.first)))
        weight = self.joint.base.c[:, None] * self.sigma * (1.0 - self.sigma)
        diagonal = self._combined(weight, self.squares, self.column**2) + self.l2
        diagonal = np.maximum(diagonal, 1e-12 * float(diagonal.max()))
        wanted = forcing**2 * abs(float(np.vdot(before, before / diagonal)))
        solved = conjugate_gradients(
            self._curved, -before, lambda r: r / diagonal, lambda found: found.size <= wanted, MOST_PRODUCTS
        )
        direction = solved.step
        if self.joint.base.intercept == "free":
            # A number for all classes changes no probability: the intercepts keep their mean.
            direction[:, -1] -= direction[:, -1].mean()

        # 3) line search
        along = self._products(direction)
        t = backtrack(
            lambda t: self._value(self.V + t * direction, self.scores + t * along), self.value, float(np.vdot(before, direction))
        )
        if t == 0.0:
            return  # no decrease that float64 can tell: the gap has come to the limit of rounding
        start, value, V = (self.V, self.scores), self.value, self.V + t * direction
        self._move(V, self._products(V) if self.epochs % REFRESHED == 0 else self.scores + t * along)
        self.passes += 2.0
        if not self.value < value and not np.linalg.norm(self.gradient) < np.linalg.norm(before):
            self._move(*start)  # no nearer: near the end values cannot tell a step that rounding has spoilt, but gradients can

    def gap_estimate(self) -> float | None:
        """Estimate the relative gap."""
        return self._size(self.gradient) / max(self.value, 1e-300)

    def evaluate(self) -> Evaluation:
        d = self.joint.base.d
        coef = np.ascontiguousarray(self.V[:, :d])
        intercept = self.column * self.V[:, -1] if self.column else np.zeros(self.joint.K)
        return self.certified(coef, intercept, self.joint.dual_point(self.sigma), self.passes)
