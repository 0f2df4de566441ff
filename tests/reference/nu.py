"""P_ν, D_ν and their common optimum on dense float64 arrays; the same values in exact fractions.

P_ν(w, b, ρ) = ½‖w‖² − νTρ + Σ cᵢ(ρ − yᵢ(xᵢ·w + b))₊ with T = Σ cᵢ; D_ν(β) = −½‖Σ cᵢβᵢyᵢxᵢ‖² for 0 ≤ β ≤ 1, Σ cᵢβᵢ = νT and, where b is
free, Σ cᵢβᵢyᵢ = 0.
"""

from fractions import Fraction

import numpy as np
from scipy.optimize import minimize


def nu_primal(X, y, c, nu, w, b, rho):
    """P_ν(w, b, ρ)."""
    return float(0.5 * w @ w - nu * c.sum() * rho + c @ np.maximum(rho - y * (X @ w + b), 0.0))


def nu_optimum(X, y, c, nu, free):
    """max D_ν, by sequential quadratic programming."""
    Z = (c * y)[:, None] * X
    Q = Z @ Z.T
    equal = [{"type": "eq", "fun": lambda beta: c @ beta - nu * c.sum(), "jac": lambda beta: c}]
    start = np.full(len(c), nu)
    if free:
        equal.append({"type": "eq", "fun": lambda beta: (c * y) @ beta, "jac": lambda beta: c * y})
        up, total = c[y > 0].sum(), c.sum()
        start = np.where(y > 0, 0.5 * nu * total / up, 0.5 * nu * total / (total - up))
    size = max(float(np.trace(Q)), 1e-300)
    found = minimize(
        lambda beta: 0.5 * beta @ Q @ beta / size,
        start,
        jac=lambda beta: Q @ beta / size,
        bounds=[(0.0, 1.0)] * len(c),
        constraints=equal,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return -size * float(found.fun)


def _exact(values):
    return [Fraction(float(value)) for value in values]


def exact_primal(X, y, c, nu, w, b, l2):
    """P_ν(l2·w, l2·b, l2) of float64 numbers, exactly."""
    y, c, w, b, l2 = _exact(y), _exact(c), _exact(w), Fraction(float(b)), Fraction(float(l2))
    value = l2 * l2 * sum(v * v for v in w) / 2 - Fraction(nu) * sum(c) * l2
    for row, sign, weight in zip(X, y, c, strict=True):
        score = sum((p * q for p, q in zip(_exact(row), w, strict=True)), Fraction(0)) + b
        value += weight * max(l2 - sign * l2 * score, Fraction(0))
    return value


def exact_dual(X, y, c, nu, beta, free):
    """D_ν of β scaled to the mass νT, in every class to half of it where b is free; None where β then leaves its box. Exactly."""
    y, c, beta, target = _exact(y), _exact(c), _exact(beta), Fraction(nu) * sum(_exact(c))
    for sign in (1, -1) if free else (None,):
        rows = [i for i in range(len(c)) if sign is None or y[i] == sign]
        factor = target / (2 if free else 1) / sum(c[i] * beta[i] for i in rows)
        for i in rows:
            beta[i] *= factor
    if max(beta) > 1:
        return None
    u = [sum((c[i] * beta[i] * y[i] * Fraction(float(X[i][j])) for i in range(len(c))), Fraction(0)) for j in range(len(X[0]))]
    return -sum(v * v for v in u) / 2
