"""Forms of these algorithms that circulate and are wrong: each fails here where the right one, and ours, passes.

The wrong forms are written out in plain NumPy beside the right ones; what must hold of both is stated once.
"""

import numpy as np
import pytest

import dualgap
from conftest import make_data
from dualgap.proof import certificate_of, dual_point, lower_bound
from reference import REFERENCE_LOSSES, Model, dual_value, optimum, primal_value, w_of_beta

X, y = make_data(60, 5, seed=3)
N, L2 = len(y), 0.05
MODEL = Model(X, y, np.full(N, 1 / N), REFERENCE_LOSSES["hinge"], L2)
BEST = optimum(MODEL, "hinge")


def suboptimality(w):
    return primal_value(MODEL, w) / BEST - 1


# ------------------------------------------------------------------------------------------------------------------- Pegasos


def pegasos(step, after_decay, epochs=100):
    rng, w, t = np.random.default_rng(0), np.zeros(X.shape[1]), 0
    for _ in range(epochs):
        for i in rng.permutation(N):
            t += 1
            eta = step(t)
            decayed = (1 - eta * L2) * w
            if y[i] * (X[i] @ (decayed if after_decay else w)) < 1:
                decayed = decayed + eta * y[i] * X[i]
            w = decayed
    return w


def test_pegasos_step_of_one_over_lambda_n():
    """Step 1/(λn) never shrinks: w circles the optimum at a distance for ever. 1/(λt) comes in."""
    right = pegasos(lambda t: 1 / (L2 * t), after_decay=False)
    wrong = pegasos(lambda t: 1 / (L2 * N), after_decay=False)
    ours = dualgap.solve(dualgap.Problem(X, y, l2=L2), dualgap.Pegasos(), tol=0, max_epochs=100)
    assert suboptimality(right) < 0.01
    assert suboptimality(ours.coef) < 0.01
    assert suboptimality(wrong) > 0.05


def test_pegasos_margin_after_the_decay():
    """All rows say y·x = a with ‖a‖² = 1.9·l2: after the first step the margin is 1.9, and no step is due. The decay halves it to
    0.95, where the wrong form sees a violation. After t steps the margin is 1.9·k/t with a whole k, never 1: rounding decides nothing."""
    a = np.array([0.3, -0.4])
    signs = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    l2 = a @ a / 1.9
    problem = dualgap.Problem(signs[:, None] * a, signs, l2=l2)
    solver, rng = dualgap.Pegasos(), np.random.default_rng(0)
    state = solver.start(problem, rng)
    solver.epoch(problem, state, rng)
    ours, _ = solver.model(problem, state)
    right, wrong = [np.zeros(2)], [np.zeros(2)]
    for t in range(1, 11):
        w = right[-1]
        right.append((1 - 1 / t) * w + (a @ w < 1) / (l2 * t) * a)
        decayed = (1 - 1 / t) * wrong[-1]
        wrong.append(decayed + (a @ decayed < 1) / (l2 * t) * a)
    assert a @ right[2] == pytest.approx(0.95)
    assert a @ wrong[2] == pytest.approx(1.9)
    np.testing.assert_allclose(ours, right[-1], rtol=1e-12)
    assert np.linalg.norm(ours - wrong[-1]) > 0.05 * np.linalg.norm(ours)


# ---------------------------------------------------------------------------------------------------------------------- SDCA


def sdca(update, epochs=60):
    rng, beta = np.random.default_rng(0), np.zeros(N)
    for _ in range(epochs):
        for i in rng.permutation(N):
            w = X.T @ (beta * y) / (L2 * N)
            beta[i] = update(beta[i], 1 - y[i] * (X[i] @ w), X[i] @ X[i] / (L2 * N))
    return beta


def test_sdca_clipping_the_change():
    """Clipping Δ to [0, 1] instead of β + Δ lets β only grow, and out of its box: no certificate at all."""
    right = sdca(lambda b, short, q: np.clip(b + short / q, 0, 1))
    wrong = sdca(lambda b, short, q: b + np.clip(short / q, 0, 1))
    assert dual_value(MODEL, right) == pytest.approx(BEST, rel=1e-4)
    assert dual_value(MODEL, wrong) == -np.inf
    assert suboptimality(w_of_beta(MODEL, wrong)) > 0.5
    ours = dualgap.solve(dualgap.Problem(X, y, l2=L2), "sdca", tol=1e-6)
    np.testing.assert_allclose(w_of_beta(MODEL, right), ours.coef, atol=1e-3)


def test_sdca_clipping_alpha_with_the_label_left_out():
    """α = yβ lies in [0, 1] or [−1, 0] by its label; clipping it to [−1, 1] for both allows what the dual forbids."""

    def epochs(low, high):
        rng, alpha = np.random.default_rng(0), np.zeros(N)
        for _ in range(60):
            for i in rng.permutation(N):
                w = X.T @ alpha / (L2 * N)
                alpha[i] = np.clip(alpha[i] + (y[i] - X[i] @ w) / (X[i] @ X[i] / (L2 * N)), low(i), high(i))
        return alpha

    right = epochs(lambda i: min(0, y[i]), lambda i: max(0, y[i]))
    wrong = epochs(lambda i: -1, lambda i: 1)
    assert dual_value(MODEL, right * y) == pytest.approx(BEST, rel=1e-4)
    assert (wrong * y).min() < -0.1
    assert dual_value(MODEL, wrong * y) == -np.inf
    assert suboptimality(X.T @ wrong / (L2 * N)) > 0.01


# ------------------------------------------------------------------------------------------------- box coordinate ascent


def box_ascent(numerator, denominator, epochs=60):
    """λ = −β ∈ [−1, 0] on Σφ + (c/2)‖w‖², c = l2·n, with Q = YXXᵀY."""
    c = L2 * N
    Q = np.outer(y, y) * (X @ X.T)
    lam = np.zeros(N)
    for _ in range(epochs):
        for k in range(N):
            others = (Q[k] @ lam - Q[k, k] * lam[k]) / c
            lam[k] = np.clip(numerator(others) / denominator(Q[k, k], c), -1, 0)
    return -lam


def test_box_coordinate_formula_of_the_report():
    """λ_k = clip((1 − (1/c)Σ…)/q_kk, −1, 0) has the sign of its first term and the scale of its divisor wrong."""
    right = box_ascent(lambda others: -1 - others, lambda q, c: q / c)
    wrong = box_ascent(lambda others: 1 - others, lambda q, c: q)
    assert dual_value(MODEL, right) == pytest.approx(BEST, rel=1e-4)
    assert suboptimality(w_of_beta(MODEL, wrong)) > 0.5
    ours = dualgap.solve(dualgap.Problem(X, y, l2=L2), dualgap.DualCoordinate(order="cyclic"), tol=1e-6)
    np.testing.assert_allclose(w_of_beta(MODEL, right), ours.coef, atol=1e-3)
    # Started from 0, the wrong form never leaves it: 1 ≥ 0 is clipped to 0 in every coordinate.
    assert not wrong.any()


# -------------------------------------------------------------------------------------------------------------- certificates


def test_stopping_on_the_active_set_only():
    """Coordinates set aside too early look converged among themselves; the exact full gap shows what was lost."""
    rng, beta = np.random.default_rng(0), np.zeros(N)
    active = np.arange(N)
    for epoch in range(60):
        if epoch == 1:
            active = np.flatnonzero((beta > 0) & (beta < 1))  # all at a bound after one epoch are never looked at again
        for i in rng.permutation(active):
            w = X.T @ (beta * y) / (L2 * N)
            beta[i] = np.clip(beta[i] + (1 - y[i] * (X[i] @ w)) / (X[i] @ X[i] / (L2 * N)), 0, 1)
    w = w_of_beta(MODEL, beta)
    margins = y * (X @ w)
    terms = np.maximum(0, 1 - margins) - beta * (1 - margins)  # each ≥ 0; their mean is the gap
    assert terms[active].sum() / N < 1e-6 * BEST
    problem = dualgap.Problem(X, y, l2=L2)
    exact = dualgap.certify(problem, w, dual=beta)
    assert exact.gap == pytest.approx(terms.mean(), rel=1e-9)
    assert exact.relative_gap > 1e-3
    assert dualgap.solve(problem, "sdca", tol=1e-6).certificate.gap < 1e-6 * BEST


def test_gap_from_a_drifted_w():
    """A w kept beside β by updates that went missing is not w(β): P(w) − (Σcβ − (l2/2)‖w‖²) is then no bound, here below zero."""
    beta = dualgap.solve(dualgap.Problem(X, y, l2=L2), "sdca", tol=1e-6).dual
    drifted = 0.97 * w_of_beta(MODEL, beta)  # 3 % of the updates lost
    stale = primal_value(MODEL, drifted) - (beta.mean() - L2 / 2 * drifted @ drifted)
    assert stale < 0
    with pytest.raises(dualgap.CertificateError):
        certificate_of(primal_value(MODEL, drifted), primal_value(MODEL, drifted) - stale, "solver")
    ours = dualgap.certify(dualgap.Problem(X, y, l2=L2), drifted, dual=beta)
    assert primal_value(MODEL, drifted) - BEST <= ours.gap + 1e-12
    assert ours.dual <= BEST


def test_beta_that_breaks_the_balance():
    """With a free intercept D(β) of a β with Σcβy ≠ 0 bounds nothing: it exceeds the optimum. Ours is balanced first."""
    free = Model(X, y, MODEL.c, MODEL.loss, L2, 0.0, "free")
    best = optimum(free, "hinge")
    unbalanced = dualgap.solve(dualgap.Problem(X, y, l2=L2), "sdca", tol=1e-6).dual  # optimal without an intercept
    assert abs(MODEL.c @ (unbalanced * y)) > 1e-3
    assert dual_value(free, unbalanced) > best * 1.001
    problem = dualgap.Problem(X, y, l2=L2, intercept="free")
    point, bound = dual_point(problem, unbalanced), lower_bound(problem, unbalanced)
    assert abs(MODEL.c @ (point.beta * y)) < 1e-16
    assert bound <= best
    assert dual_value(free, point.beta) == pytest.approx(bound, rel=1e-12)


# ---------------------------------------------------------------------------------------------------------------- objectives


def test_comparing_solvers_that_minimise_different_objectives():
    """Σφ + λ‖w‖² and (1/n)Σφ + (λ/2)‖w‖² with the same λ are two problems; mapped to l2 = 2λ/n they are one."""
    lam = 0.05
    first = dualgap.solve(dualgap.Problem(X, y, l2=lam), "sdca", tol=1e-6)
    unmapped = first.coef
    mapped = dualgap.solve(dualgap.Problem(X, y, l2=2 * lam / N), "sdca", tol=1e-6, max_epochs=5000).coef

    def summed(w):
        return np.sum(np.maximum(0, 1 - y * (X @ w))) + lam * w @ w

    best = N * optimum(Model(X, y, MODEL.c, MODEL.loss, 2 * lam / N), "hinge")
    assert summed(mapped) == pytest.approx(best, rel=1e-5)
    assert summed(unmapped) > 1.005 * best


# -------------------------------------------------------------------------------------------------------------------- memory


def numbers_in(held) -> int:
    """Return how many numbers arrays hold, in tuples of tuples."""
    return sum(numbers_in(each) for each in held) if isinstance(held, tuple) else np.size(held)


def test_saga_remembers_n_numbers():
    """A table of d × n gradients makes a step cost d·n memory; n slopes, a few vectors of d and a table of 1025 hold the same."""
    problem = dualgap.Problem(np.tile(X, (1, 400)), y, loss="smooth_hinge", l2=L2)
    state = dualgap.SAGA().start(problem, np.random.default_rng(0))
    held = numbers_in((state.point, state.bias, state.memory, state.order))
    assert state.memory.slopes.shape == (N,)
    assert held < 3 * (problem.n + problem.d) < problem.n * problem.d / 10


# ------------------------------------------------------------------------------------------------------------------- judgement


def test_accuracy_alone_where_positives_are_rare():
    """With 0.5 % positives a model that never says yes is right 99.5 % of the time. Balanced accuracy shows that it knows nothing."""
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(2000) < 10, 1.0, -1.0)
    features = rng.normal(size=(2000, 2)) + np.where(rare > 0, 1.5, 0.0)[:, None]
    last = {}
    for name, weights in (("plain", None), ("balanced", np.where(rare > 0, 200.0, 1.0))):
        problem = dualgap.Problem(features, rare, l2=0.1, intercept="free", sample_weight=weights)
        last[name] = dualgap.solve(problem, "sdca", tol=1e-4, watch=(features, rare)).trace.last()
    always_no = {"error": np.mean(rare > 0), "balanced_accuracy": 0.5}
    assert last["plain"]["test_error"] == always_no["error"] < last["balanced"]["test_error"]  # by accuracy the useless model wins
    assert last["plain"]["test_balanced_accuracy"] == always_no["balanced_accuracy"]
    assert last["balanced"]["test_balanced_accuracy"] > 0.7
