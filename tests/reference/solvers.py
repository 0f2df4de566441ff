"""Epochs of the algorithms with everything recomputed at every step: quadratic in n, and easy to check against a book."""

import numpy as np

from reference.objective import soft


def sdca_epoch(model, beta, order, centre=0.0, bias_scale=None):
    """Coordinate steps on `beta` (in place) in the given order; returns the list of β before each step.

    `bias_scale` adds a constant column of that value, free of l1, and `centre` is added to every score.
    """
    X, y, c = model.X, model.y, model.c
    before = []
    for i in order:
        before.append(beta.copy())
        u = X.T @ (c * beta * y)
        score = X[i] @ soft(u, model.l1) / model.l2 + centre
        q = c[i] * (X[i] @ X[i]) / model.l2
        if bias_scale is not None:
            score += bias_scale**2 * np.sum(c * beta * y) / model.l2
            q += c[i] * bias_scale**2 / model.l2
        beta[i] = model.loss.step(beta[i], y[i] * score, q)
    return before


def modified_sgd_epoch(model, order):
    """w ← ((t−1)/t)·w + β_t y_t x_t/(l2·t), each β_t the exact step from 0 with l2·t in place of l2·n. Unweighted, l2 only."""
    n, d = model.X.shape
    beta, w = np.zeros(n), np.zeros(d)
    for t, i in enumerate(order, start=1):
        x, y = model.X[i], model.y[i]
        beta[i] = model.loss.step(0.0, y * (x @ w), x @ x / (model.l2 * t))
        w = (t - 1) / t * w + beta[i] * y * x / (model.l2 * t)
    return beta, w


def pegasos_epoch(model, w, order, t, batch=1, project=False):
    """Batches of the order; returns the list of iterates after each step. Weights are taken relative to the mean weight."""
    n = len(order)
    batches = -(-n // batch)
    mean_size = n / batches
    iterates = []
    for k in range(batches):
        rows = order[k * batch : (k + 1) * batch]
        t += 1
        violators = [i for i in rows if model.y[i] * (model.X[i] @ w) < 1]
        step = sum((n * model.c[i] * model.y[i] * model.X[i] for i in violators), np.zeros_like(w))
        w = (1 - 1 / t) * w + step / (model.l2 * t * mean_size)
        if project:
            norm = np.sqrt(w @ w)
            w = min(1.0, 1 / (np.sqrt(model.l2) * norm)) * w if norm > 0 else w
        iterates.append(w)
    return iterates
