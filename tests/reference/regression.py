"""Regression in exact arithmetic: the loss from its definition, and P and D of a problem as fractions."""

from fractions import Fraction


def loss_value(loss, m):
    """φ(m) = max over β in the box of ψ(β) − βm, found piece by piece from the definition of the loss."""
    epsilon, delta, low, high = (Fraction(x) if x != float("inf") else None for x in loss)
    m = Fraction(m)
    bound, excess = (high, -m - epsilon) if m < 0 else (low, m - epsilon)
    if excess <= 0:
        return Fraction(0)
    if delta > 0 and (bound is None or excess <= delta * bound):
        return excess * excess / (2 * delta)
    return bound * excess - delta * bound * bound / 2


def psi(loss, beta):
    """ψ(β) = −ε|β| − (δ/2)β²; None outside of the box."""
    epsilon, delta, low, high = loss
    if beta < -low or beta > high:
        return None
    beta = Fraction(beta)
    return -Fraction(epsilon) * abs(beta) - Fraction(delta) * beta * beta / 2


def primal_and_dual(problem, coef, intercept, beta):
    """P(w, b) and D(β) of a linear problem with an l2 penalty, for a β that need not balance (its sum is returned third)."""
    X = [[Fraction(float(x)) for x in row] for row in problem.X]
    t, c = [Fraction(float(x)) for x in problem.targets], [Fraction(float(x)) for x in problem.c]
    w, b, beta = [Fraction(float(x)) for x in coef], Fraction(float(intercept)), [Fraction(float(x)) for x in beta]
    l2, scale = Fraction(problem.l2), Fraction(problem.intercept_scale)
    penalised = problem.intercept == "penalised"
    residuals = [sum(x * v for x, v in zip(row, w, strict=True)) + b - target for row, target in zip(X, t, strict=True)]
    primal = sum(weight * loss_value(problem.loss, r) for weight, r in zip(c, residuals, strict=True))
    primal += l2 / 2 * (sum(v * v for v in w) + (b * b / scale**2 if penalised else 0))
    u = [sum(c[i] * beta[i] * X[i][j] for i in range(len(t))) for j in range(len(w))]
    total = sum(weight * value for weight, value in zip(c, beta, strict=True))
    dual = sum(c[i] * (psi(problem.loss, beta[i]) + beta[i] * t[i]) for i in range(len(t)))
    dual -= (sum(x * x for x in u) + (total * total * scale**2 if penalised else 0)) / (2 * l2)
    return primal, dual, total
