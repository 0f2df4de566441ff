"""P, D and w(β) on dense float64 arrays."""

from dataclasses import dataclass

import numpy as np

from reference.losses import ReferenceLoss


def soft(u, t):
    """Soft thresholding."""
    return np.sign(u) * np.maximum(np.abs(u) - t, 0)


@dataclass(frozen=True)
class Model:
    """A problem in plain arrays: rows X, labels y = ±1, weights c that sum to 1, a loss, penalties, the kind of intercept, bounds."""

    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    loss: ReferenceLoss
    l2: float
    l1: float = 0.0
    intercept: str = "none"
    scale: float = 1.0
    low: np.ndarray | float = -np.inf
    high: np.ndarray | float = np.inf


def primal_value(model, w, b=0.0):
    """P(w, b) = Σ cᵢ φ(yᵢ(xᵢ·w + b)) + l1·‖w‖₁ + (l2/2)·‖w‖², with (l2/2)(b/scale)² where b is penalised; ∞ beyond bounds."""
    if (w < model.low).any() or (w > model.high).any():
        return np.inf
    value = np.sum(model.c * model.loss.value(model.y * (model.X @ w + b)))
    value += model.l1 * np.sum(np.abs(w)) + 0.5 * model.l2 * np.sum(w**2)
    if model.intercept == "penalised":
        value += 0.5 * model.l2 * (b / model.scale) ** 2
    return float(value)


def dual_value(model, beta):
    """D(β); −∞ outside the box, and where l2 = 0 outside ‖u‖∞ ≤ l1. Σ cβy = 0 is left to the caller."""
    if (beta < 0).any() or (beta > model.loss.upper_bound).any():
        return -np.inf
    u = model.X.T @ (model.c * beta * model.y)
    psi = float(np.sum(model.c * model.loss.psi(beta)))
    if model.l2 == 0:
        return psi if np.abs(u).max() <= model.l1 * (1 + 1e-12) else -np.inf
    w = w_of_beta(model, beta)
    conjugate = np.sum(u * w - model.l1 * np.abs(w) - model.l2 / 2 * w**2)  # R*(u), attained at w(β)
    if model.intercept == "penalised":
        conjugate += (model.scale * np.sum(model.c * beta * model.y)) ** 2 / (2 * model.l2)
    return psi - float(conjugate)


def w_of_beta(model, beta):
    """w(β) = soft(u, l1)/l2, clipped to the bounds."""
    return np.clip(soft(model.X.T @ (model.c * beta * model.y), model.l1) / model.l2, model.low, model.high)
