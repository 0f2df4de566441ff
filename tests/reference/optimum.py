"""The optimal value of a small problem to about 1e-11, by a primal–dual interior-point method on an equivalent smooth programme.

Variables: w = p − r with p, r ≥ 0 where there is an l1 part, the intercept, and slacks e, t ≥ 0 with e + t ≥ 1 − m that make every
hinge-like loss a quadratic: Σ c·t for the hinge, Σ c·(e²/2δ + t) for the smooth one, Σ c·e² for the squared one. The logistic loss
and the cubic hinge are smooth as they are.
"""

import numpy as np
from scipy.special import expit


def optimum(model, loss_name, delta=0.5):
    """min over (w, b) of P."""
    n, d = model.X.shape
    Z = model.y[:, None] * model.X
    blocks = [Z, -Z] if model.l1 > 0 else [Z]
    if model.intercept != "none":
        blocks.append(model.y[:, None] * np.ones((n, 1)))
    M = np.hstack(blocks)  # margins m = M·x
    k = M.shape[1]
    coordinates = np.hstack([np.eye(d), -np.eye(d)]) if model.l1 > 0 else np.eye(d)
    quadratic = np.zeros((k, k))
    quadratic[: coordinates.shape[1], : coordinates.shape[1]] = model.l2 * coordinates.T @ coordinates
    if model.intercept == "penalised":
        quadratic[-1, -1] = model.l2 / model.scale**2
    linear = np.zeros(k)
    rows, limits = [], []
    if model.l1 > 0:
        linear[: 2 * d] = model.l1
        rows.append(np.hstack([-np.eye(2 * d), np.zeros((2 * d, k - 2 * d))]))
        limits.append(np.zeros(2 * d))
    start_w = np.zeros(d)  # strictly within the bounds, which are 0.02 apart at least
    for sign, end in ((-1.0, model.low), (1.0, model.high)):  # sign·w ≤ sign·end
        end = np.broadcast_to(np.asarray(end, dtype=float), d)
        here = np.isfinite(end)
        rows.append(sign * np.hstack([coordinates, np.zeros((d, k - coordinates.shape[1]))])[here])
        limits.append(sign * end[here])
        start_w = np.where(here, np.minimum(sign * start_w, sign * end - 0.01) * sign, start_w)
    first = np.zeros(k)
    first[:d] = start_w
    if model.l1 > 0:
        first[:d], first[d : 2 * d] = np.maximum(start_w, 0) + 1, np.maximum(-start_w, 0) + 1
    if loss_name in ("logistic", "cubic_hinge"):

        def f(x):
            m = M @ x
            if loss_name == "logistic":
                s = expit(-m)
                phi, bend = np.logaddexp(0, -m), s * (1 - s)
            else:
                short = np.maximum(0, 1 - m)
                phi, s, bend = short**3 / 3, short**2, 2 * short
            value = model.c @ phi + linear @ x + 0.5 * x @ quadratic @ x
            return value, linear + quadratic @ x - M.T @ (model.c * s), quadratic + (M.T * (model.c * bend)) @ M

        return interior_point(f, np.vstack(rows), np.concatenate(limits), first)
    # Slacks: e where the loss has a quadratic part, t where it has a linear one.
    curved = {"hinge": None, "smooth_hinge": 1 / delta, "squared_hinge": 2.0}[loss_name]
    straight = loss_name != "squared_hinge"
    slacks = (curved is not None) + straight
    size = k + n * slacks
    H, g = np.zeros((size, size)), np.zeros(size)
    H[:k, :k], g[:k] = quadratic, linear
    if curved is not None:
        H[k : k + n, k : k + n] = np.diag(curved * model.c)
    if straight:
        g[size - n :] = model.c
    eyes = [-np.eye(n)] * slacks
    rows = [np.hstack([r, np.zeros((len(r), size - k))]) for r in rows]
    rows += [np.hstack([-M, *eyes]), np.hstack([np.zeros((n * slacks, k)), -np.eye(n * slacks)])]
    limits += [-np.ones(n), np.zeros(n * slacks)]
    start = np.concatenate([first, np.full(n * slacks, 3.0 + np.abs(M @ first).max())])
    return interior_point(lambda x: (0.5 * x @ H @ x + g @ x, H @ x + g, H), np.vstack(rows), np.concatenate(limits), start)


def interior_point(f, G, h, x, tol=1e-12):
    """min f(x) subject to G·x ≤ h from a strictly feasible x; f returns value, gradient and Hessian."""
    m = len(h)
    z = np.ones(m)
    best = np.inf
    for _ in range(200):
        value, gradient, hessian = f(x)
        best = min(best, value)
        slack = h - G @ x
        gap = float(slack @ z)
        residual = gradient + G.T @ z
        enough = tol * max(1e-3, abs(value))
        if (gap <= enough and np.abs(residual).max() < 1e-11) or (m and gap <= 1e-2 * enough):
            break
        mu = gap / (10 * m) if m else 0.0
        matrix = hessian + (G.T * (z / slack)) @ G + 1e-15 * np.eye(len(x))
        dx = np.linalg.solve(matrix, -(gradient + G.T @ (mu / slack)))
        dz = (mu + z * (G @ dx)) / slack - z
        shrinking = dz < 0
        step = min(1.0, 0.99 * np.min(-z[shrinking] / dz[shrinking], initial=np.inf))
        move = G @ dx
        toward = move > 0
        step = min(step, 0.99 * np.min(slack[toward] / move[toward], initial=np.inf))
        if m == 0:  # a plain Newton step, shortened until it descends
            while f(x + step * dx)[0] > value + 1e-4 * step * (gradient @ dx) and step > 1e-10:
                step /= 2
        if step < 1e-12:
            break
        x, z = x + step * dx, z + step * dz
    return best
