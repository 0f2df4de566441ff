"""The interior-point method on quadratic problems in a box: conditions of optimality, and matrices that are odd."""

import numpy as np
import pytest

from dualgap.solvers import InteriorPoint


def run(K, start, low, high, groups):
    method = InteriorPoint(K, start, low, high, groups)
    steps = 0
    while method.step():
        steps += 1
        assert steps < 100
    return method, steps


@pytest.mark.parametrize("rank", [2, 5, 40])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_conditions_of_optimality_hold(rank, count, scale):
    rng, n = np.random.default_rng(rank), 40
    points = rng.normal(size=(n, rank)) + 2.0
    K = scale * points @ points.T
    low, high = np.zeros(n), rng.uniform(0.5, 1.5, n)
    groups = [np.arange(n) % count == group for group in range(count)]
    a_method, steps = run(K, 0.4 * high, low, high, groups)
    a, g = a_method.a, K @ a_method.a
    assert steps < 60
    assert ((low <= a) & (a <= high)).all()
    assert a_method.gap <= 1e-8 * a_method.value
    for group in groups:
        assert a[group].sum() == pytest.approx(0.4 * high[group].sum(), rel=1e-12)
        # the least gradient of a variable that can rise is not below the largest of one that can fall
        error = 1e-3 * np.abs(g).max()
        assert g[group & (a < high - 1e-3)].min() >= g[group & (a > 1e-3)].max() - error


def test_rounded_variables_are_at_their_bounds_and_hardly_change_the_value():
    rng, n = np.random.default_rng(7), 60
    points = rng.normal(size=(n, 3)) + 1.0
    K = points @ points.T
    method, _ = run(K, np.full(n, 0.3), np.zeros(n), np.ones(n), [np.full(n, True)])
    a = method.rounded()
    assert np.count_nonzero((a == 0.0) | (a == 1.0)) >= n - 10
    assert 0.5 * a @ K @ a == pytest.approx(method.value, rel=1e-4)


def test_an_indefinite_matrix_is_refused():
    half = np.random.default_rng(1).normal(size=(30, 30))
    method, steps = run(half + half.T + 2.0 * np.eye(30), np.full(30, 0.5), np.zeros(30), np.ones(30), [np.full(30, True)])
    assert method.indefinite
    assert steps < 60


def test_a_matrix_of_zeros_ends():
    method, steps = run(np.zeros((4, 4)), np.full(4, 0.5), np.zeros(4), np.ones(4), [np.full(4, True)])
    assert steps == 0
    assert np.isfinite(method.a).all()
    assert not method.indefinite
