"""Multinomial logistic regression, slowly: P and D in 60 decimal digits, and the optimum by Newton's method on all unknowns at once."""

from decimal import Decimal, localcontext

import numpy as np

DIGITS = 60


def objectives(X, codes, c, l2, W, b, p, bias_penalty=0.0):
    """P(W, b) and D(p) of float64 numbers taken as exact; p of the own class is 1 − Σ of the others.

    `bias_penalty` is 1/scale² of penalised intercepts. With free ones D is that of p only where p is in balance.
    """
    with localcontext() as context:
        context.prec = DIGITS
        exact = lambda values: [[Decimal(float(v)) for v in row] for row in values]  # noqa: E731
        X, W, p, b = exact(X), exact(W), exact(p), [Decimal(float(v)) for v in b]
        c, l2, share = [Decimal(float(v)) for v in c], Decimal(float(l2)), Decimal(float(bias_penalty))
        K, d = len(W), len(W[0])
        penalty = sum(w * w for row in W for w in row) + share * sum(v * v for v in b)
        primal, dual = l2 * penalty / 2, Decimal(0)
        combined, rests = [[Decimal(0)] * d for _ in range(K)], [Decimal(0)] * K
        for x, y, weight, row in zip(X, codes, c, p, strict=True):
            g = [sum(xj * wj for xj, wj in zip(x, W[k], strict=True)) + b[k] for k in range(K)]
            primal += weight * (sum(v.exp() for v in g).ln() - g[y])
            row = [1 - sum(row[j] for j in range(K) if j != y) if k == y else row[k] for k in range(K)]
            assert min(row) >= 0
            dual -= weight * sum(q * q.ln() for q in row if q > 0)
            for k in range(K):
                signed = weight * ((k == y) - row[k])
                rests[k] += signed
                combined[k] = [u + signed * xj for u, xj in zip(combined[k], x, strict=True)]
        dual -= sum(u * u for row in combined for u in row) / (2 * l2)
        if share:
            dual -= sum(r * r for r in rests) / (2 * l2 * share)
        return primal, dual


def multinomial_optimum(X, codes, c, l2, intercept):
    """The model (W, b) of least P by Newton's method with the whole Hessian; "free", "penalised" (scale 1) or "none"."""
    n, K = len(X), codes.max() + 1
    A = X if intercept == "none" else np.column_stack([X, np.ones(n)])
    strength = np.full(A.shape[1], l2)
    if intercept == "free":
        strength[-1] = 0.0
    own, V = np.eye(K)[codes], np.zeros((K, A.shape[1]))

    def value(V):
        g = A @ V.T
        return (
            c @ (np.log(np.exp(g - g.max(1, keepdims=True)).sum(1)) + g.max(1) - g[np.arange(n), codes])
            + 0.5 * (V**2 @ strength).sum()
        )

    for _ in range(200):
        g = A @ V.T
        s = np.exp(g - g.max(1, keepdims=True))
        s /= s.sum(1, keepdims=True)
        gradient = (c[:, None] * (s - own)).T @ A + strength * V
        H = np.einsum("i,ik,ij,ia,ib->kajb", -c, s, s, A, A)
        for k in range(K):
            H[k, :, k] += (A.T * (c * s[:, k])) @ A + np.diag(strength)
        step = np.linalg.lstsq(H.reshape(V.size, V.size), -gradient.ravel(), rcond=1e-13)[0].reshape(V.shape)
        t = 1.0
        while value(V + t * step) > value(V) and t > 1e-4:
            t *= 0.5
        V = V + t * step
        if np.abs(t * step).max() < 1e-14 * (1.0 + np.abs(V).max()):
            break
    return (V, np.zeros(K)) if intercept == "none" else (V[:, :-1], V[:, -1])
