"""Primal stochastic methods in plain NumPy, one dense vector operation after another; and the wrong forms they are mistaken for.

A gradient here is of Σ cᵢ φ, the loss alone; `sample_gradient` is that of n·cᵢ φ for one sample, in w and in b.
"""

import numpy as np

from reference.objective import soft


def sample_gradient(model, i, w, b):
    pull = -len(model.y) * model.c[i] * model.y[i] * model.loss.slope(model.y[i] * (model.X[i] @ w + b))
    return pull * model.X[i], pull


def full_gradient(model, w, b):
    pulls = -model.c * model.y * model.loss.slope(model.y * (model.X @ w + b))
    return model.X.T @ pulls, pulls.sum()


def proximal_step(model, w, b, gradient, eta):
    """The prox of both parts of the penalty after a gradient step; b has the penalty of its kind."""
    w = soft(w - eta * gradient[0], eta * model.l1) / (1 + eta * model.l2)
    if model.intercept != "none":
        b = b - eta * gradient[1]
    return w, b / (1 + eta * model.l2 / model.scale**2) if model.intercept == "penalised" else b


def saga_epoch(model, w, b, table, order, eta, step=proximal_step):
    """`table` is a list of n gradients (in w, in b), changed in place; returns the iterates."""
    iterates = []
    for i in order:
        mean = [sum(entry[part] for entry in table) / len(table) for part in (0, 1)]
        new = sample_gradient(model, i, w, b)
        w, b = step(model, w, b, [new[part] - table[i][part] + mean[part] for part in (0, 1)], eta)
        table[i] = new
        iterates.append((w, b))
    return iterates


def svrg_epoch(model, w, b, order, eta, step=proximal_step):
    """Steps around the snapshot (w, b); returns the iterates."""
    anchor, whole = (w, b), full_gradient(model, w, b)
    iterates = []
    for i in order:
        new, old = sample_gradient(model, i, w, b), sample_gradient(model, i, *anchor)
        w, b = step(model, w, b, [new[part] - old[part] + whole[part] for part in (0, 1)], eta)
        iterates.append((w, b))
    return iterates


def sgd_epoch(model, w, b, order, step_at, t, batch=1):
    """Batches of the order, each divided by the mean size of a batch, from step count t on; returns the iterates."""
    batches = -(-len(order) // batch)
    size = len(order) / batches
    iterates = []
    for k in range(batches):
        parts = [sample_gradient(model, i, w, b) for i in order[k * batch : (k + 1) * batch]]
        gradient = [sum(p[part] for p in parts) / size for part in (0, 1)]
        w, b = proximal_step(model, w, b, gradient, step_at(t + k))
        iterates.append((w, b))
    return iterates


# ------------------------------------------------------------------------------------------------------------- the wrong forms


def sign_step(model, w, b, gradient, eta):
    """Wrong: the penalty's subgradient, l1·sign(w) + l2·w, in place of its prox."""
    return w - eta * (gradient[0] + model.l1 * np.sign(w) + model.l2 * w), b - eta * gradient[1] * (model.intercept != "none")


def divided_step(model, w, b, gradient, eta):
    """Wrong: the penalty divided by n."""
    n = len(model.y)
    w = soft(w - eta * gradient[0], eta * model.l1 / n) / (1 + eta * model.l2 / n)
    return w, b - eta * gradient[1] * (model.intercept != "none")


def norm_step(model, w, b, gradient, eta):
    """Wrong: the penalty's value, a number, where its gradient belongs."""
    if np.abs(w).max() > 1e3:
        return w, b  # on its way to infinity
    value = model.l1 * np.abs(w).sum() + 0.5 * model.l2 * (w @ w)
    return w - eta * (gradient[0] + value), b - eta * gradient[1] * (model.intercept != "none")


def moving_anchor_epochs(model, w, b, order, eta):
    """Wrong: SVRG around the mean of all iterates so far, taken anew at every step."""
    total_w, total_b = w.copy(), b
    for t, i in enumerate(order, start=1):
        anchor = (total_w / t, total_b / t)
        whole = full_gradient(model, *anchor)
        new, old = sample_gradient(model, i, w, b), sample_gradient(model, i, *anchor)
        w, b = proximal_step(model, w, b, [new[part] - old[part] + whole[part] for part in (0, 1)], eta)
        total_w, total_b = total_w + w, total_b + b
    return w, b
