"""Pair steps and single steps solve the problem of one working set."""

import numpy as np

from dualgap.kernels.function import make_kernel
from dualgap.solvers.working_set.dual_box import Box
from dualgap.solvers.working_set.pair_steps import pair_steps, single_steps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.4 * RNG.normal(size=40) > 0.1, 1.0, -1.0)


def test_inner_steps_solve_the_small_problem():
    K = make_kernel("rbf", gamma=0.7)(X[:40], X[:40])
    for steps, tied in ((pair_steps, True), (single_steps, False)):
        most = np.full(40, 3.0)
        box = Box(np.zeros(40), np.where(y[:40] > 0, 0.0, -most), np.where(y[:40] > 0, most, 0.0), y[:40].copy(), np.zeros(40))
        steps(K, K.diagonal().copy(), box, 1e-12, 1e-9, 100_000)
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
    box = Box(a, low, high, e, np.zeros(3))
    assert pair_steps(K, K.diagonal().copy(), box, 1e-12, 1e-3, 100) > 0
    assert np.ptp(e) < 1e-11
