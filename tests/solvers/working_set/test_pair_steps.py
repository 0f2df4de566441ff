"""Steps on two variables, with and without a sum to keep, solve the problem of one working set."""

import numpy as np

from dualgap.kernels.function import make_kernel
from dualgap.solvers.working_set.dual_box import Box
from dualgap.solvers.working_set.pair_steps import _best_in_box, coupled_steps, pair_steps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.4 * RNG.normal(size=40) > 0.1, 1.0, -1.0)


def without_loss(n):
    """The linear term, the weights and the groups, which inner steps do not read."""
    return np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=np.int8)


def test_inner_steps_solve_the_small_problem():
    K = make_kernel("rbf", gamma=0.7)(X[:40], X[:40])
    for steps, tied in ((pair_steps, True), (coupled_steps, False)):
        most = np.full(40, 3.0)
        box = Box(
            np.zeros(40),
            np.where(y[:40] > 0, 0.0, -most),
            np.where(y[:40] > 0, most, 0.0),
            y[:40].copy(),
            np.zeros(40),
            *without_loss(40),
        )
        steps(K, K.diagonal().copy(), box, 1e-12, 1e-9, 100_000, 1.0, *([np.array([40])] if tied else []))
        np.testing.assert_allclose(box.g, y[:40] - K @ box.a, atol=1e-10)
        assert ((box.low <= box.a) & (box.a <= box.high)).all()
        rise, fall = box.g[box.a < box.high], box.g[box.a > box.low]
        if tied:
            assert abs(box.a.sum()) < 1e-12
            assert rise.max() - fall.min() < 1e-6
        else:
            assert max(rise.max(), -fall.min()) < 1e-6


def test_errors_that_float32_cannot_tell_apart_are_told_apart():
    K = np.eye(3) + 0.5
    a, low, high = np.zeros(3), np.full(3, -1.0), np.ones(3)
    e = -0.4216874 + np.array([4e-9, 0.0, -4e-9])
    box = Box(a, low, high, e, np.zeros(3), *without_loss(3))
    assert pair_steps(K, K.diagonal().copy(), box, 1e-12, 1e-3, 100, 1.0, np.array([3])) > 0
    assert np.ptp(e) < 1e-11


def test_two_variables_move_to_the_best_point_of_their_box():
    """Against a fine grid of the box: inside, on an edge, in a corner, without a bound on one side."""
    for _ in range(200):
        root = RNG.normal(size=(2, 2))
        K = root @ root.T + 0.1 * np.eye(2)
        g, low, high = RNG.normal(size=2), -RNG.random(2), RNG.random(2)
        s, t = _best_in_box((K[0, 0], K[0, 1], K[1, 1]), tuple(g), tuple(low), tuple(high))
        assert low[0] <= s <= high[0]
        assert low[1] <= t <= high[1]
        p, q = np.meshgrid(np.linspace(low[0], high[0], 201), np.linspace(low[1], high[1], 201))

        def value(p, q, g=g, K=K):
            return g[0] * p + g[1] * q - 0.5 * (K[0, 0] * p * p + 2 * K[0, 1] * p * q + K[1, 1] * q * q)

        assert value(s, t) >= value(p, q).max() - 1e-12
    s, t = _best_in_box((1.0, 0.5, 1.0), (3.0, -2.0), (0.0, 0.0), (np.inf, np.inf))
    assert (s, t) == (3.0, 0.0)


def test_rows_that_are_there_twice_share_their_step():
    K = np.ones((4, 4))
    box = Box(np.zeros(4), np.zeros(4), np.full(4, 10.0), np.ones(4), np.zeros(4), *without_loss(4))
    coupled_steps(K, K.diagonal().copy(), box, 1e-12, 1e-9, 1000, 1.0)
    assert abs(box.a.sum() - 1.0) < 1e-9


def test_one_variable_alone():
    box = Box(np.zeros(1), np.zeros(1), np.full(1, 0.25), np.ones(1), np.zeros(1), *without_loss(1))
    coupled_steps(np.ones((1, 1)), np.ones(1), box, 1e-12, 1e-9, 100, 1.0)
    assert box.a[0] == 0.25
    assert box.g[0] == 0.75


def test_each_group_keeps_its_sum():
    """KKT conditions with an intercept of its own for each of two groups; the sums stay what they were."""
    K = make_kernel("rbf", gamma=0.7)(X[:40], X[:40])
    order = np.argsort(y[:40] < 0, kind="stable")
    K, signs = K[np.ix_(order, order)], y[:40][order]
    ends = np.array([np.count_nonzero(signs > 0), 40])
    group = (signs < 0).astype(np.int8)
    a = np.where(np.arange(40) % 3 == 0, 1.0, 0.0) * signs
    box = Box(
        a.copy(),
        np.where(signs > 0, 0.0, -1.0),
        np.where(signs > 0, 1.0, 0.0),
        signs - K @ a,
        np.zeros(40),
        np.full(40, np.nan),
        np.full(40, np.nan),
        group,
    )
    assert pair_steps(K, K.diagonal().copy(), box, 1e-12, 1e-9, 100_000, 1.0, ends) > 0
    np.testing.assert_allclose(box.g, signs - K @ box.a, atol=1e-10)
    for own in (group == 0, group == 1):
        assert abs(box.a[own].sum() - a[own].sum()) < 1e-12
        rise, fall = box.g[own & (box.a < box.high)], box.g[own & (box.a > box.low)]
        assert rise.max() <= fall.min() + 1e-6
