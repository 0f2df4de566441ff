"""The four losses, and one of a user, as vectorised NumPy functions, each line straight from its formula."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, xlogy


class ReferenceLoss(NamedTuple):
    """φ(m), −φ'(m), ψ(β), the upper end of β's domain, and the maximiser of ψ(z) − m(z−β) − q(z−β)²/2."""

    value: Any
    slope: Any
    psi: Any
    upper_bound: float
    step: Any


def _hinge_step(beta, m, q):
    if q == 0:
        return 1.0 if m < 1 else 0.0
    return float(np.clip(beta + (1 - m) / q, 0, 1))


def _logistic_step(beta, m, q):
    # f(t) = t + m + q(σ(t) − β) rises strictly in t = log(z/(1−z)), and its root lies in this bracket.
    def f(t):
        return t + m + q * (expit(t) - beta)

    low, high = -m - q - 1.0, -m + q + 1.0
    return float(expit(brentq(f, low, high, xtol=1e-15, rtol=1e-15, maxiter=10_000)))


def smooth_hinge(delta):
    """The huberised hinge of width δ."""
    return ReferenceLoss(
        value=lambda m: np.where(m > 1, 0.0, np.where(m > 1 - delta, (1 - m) ** 2 / (2 * delta), 1 - m - delta / 2)),
        slope=lambda m: np.clip((1 - m) / delta, 0, 1),
        psi=lambda b: b - delta * b**2 / 2,
        upper_bound=1.0,
        step=lambda b, m, q: float(np.clip(b + (1 - m - delta * b) / (q + delta), 0, 1)),
    )


def _cubic_step(beta, m, q):
    # √z + q·z = 1 − m + q·β at the maximum
    right = 1 - m + q * beta
    if right <= 0:
        return 0.0
    if q == 0:
        return float(right**2)
    return float(brentq(lambda root: root + q * root**2 - right, 0.0, right, xtol=1e-15, rtol=1e-15, maxiter=10_000) ** 2)


REFERENCE_LOSSES = {
    "hinge": ReferenceLoss(
        value=lambda m: np.maximum(0, 1 - m),
        slope=lambda m: np.where(m < 1, 1.0, 0.0),
        psi=lambda b: b,
        upper_bound=1.0,
        step=_hinge_step,
    ),
    "smooth_hinge": smooth_hinge(0.5),
    "squared_hinge": ReferenceLoss(
        value=lambda m: np.maximum(0, 1 - m) ** 2,
        slope=lambda m: 2 * np.maximum(0, 1 - m),
        psi=lambda b: b - b**2 / 4,
        upper_bound=np.inf,
        step=lambda b, m, q: float(max(0, b + (1 - m - b / 2) / (q + 0.5))),
    ),
    "logistic": ReferenceLoss(
        value=lambda m: np.logaddexp(0, -m),
        slope=lambda m: expit(-m),
        psi=lambda b: -xlogy(b, b) - xlogy(1 - b, 1 - b),
        upper_bound=1.0,
        step=_logistic_step,
    ),
    "cubic_hinge": ReferenceLoss(
        value=lambda m: np.maximum(0, 1 - m) ** 3 / 3,
        slope=lambda m: np.maximum(0, 1 - m) ** 2,
        psi=lambda b: b - 2 / 3 * b**1.5,
        upper_bound=np.inf,
        step=_cubic_step,
    ),
}
