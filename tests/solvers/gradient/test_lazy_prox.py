"""prox_steps and prox_sum against the loop they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.core.jit import kernel
from dualgap.core.penalties import ElasticNet
from dualgap.solvers.gradient.lazy_prox import decay_sum, decay_sum_sum, prox_steps, prox_sum


def walk(w, drift, steps, step_size, penalty):
    """The loop in extended precision: the last iterate, and the sum of all."""
    w, drift, eta = np.longdouble(w), np.longdouble(drift), np.longdouble(step_size)
    total = np.longdouble(0)
    for _ in range(steps):
        z = w - eta * drift
        w = np.sign(z) * max(abs(z) - eta * penalty.l1, 0) / (1 + eta * np.longdouble(penalty.l2))
        total += w
    return float(w), float(total)


@kernel
def walk_fast(w, drift, steps, step_size, penalty):
    for _ in range(steps):
        w = penalty.prox(w - step_size * drift, step_size)
    return w


sizes = st.sampled_from([0.0, 1e-14, 1e-8, 1e-5, 1e-3, 0.1, 1.0])
signs = st.sampled_from([-1.0, 1.0])


@given(
    w=st.tuples(signs, st.sampled_from([0.0, 1e-6, 1e-3, 0.3, 4.0])).map(np.prod),
    drift=st.tuples(signs, st.sampled_from([0.0, 1e-7, 1e-3, 0.05, 0.1, 0.7])).map(np.prod),
    steps=st.integers(0, 400),
    step_size=st.sampled_from([1e-3, 0.04, 1.0, 5.0]),
    l1=sizes,
    l2=sizes,
)
def test_equals_the_loop(w, drift, steps, step_size, l1, l2):
    penalty = ElasticNet(l1, l2)
    end, total = walk(w, drift, steps, step_size, penalty)
    # Rounding is relative to the largest number on the way: w, or how far the drift carries it.
    scale = abs(w) + step_size * abs(drift) * max(steps, 1) + 1e-300
    assert prox_steps(w, drift, steps, step_size, penalty) == pytest.approx(end, rel=1e-12, abs=1e-13 * scale)
    assert prox_sum(w, drift, steps, step_size, penalty) == pytest.approx(total, rel=1e-11, abs=1e-12 * scale * max(steps, 1))


@pytest.mark.parametrize("l2", [0.0, 1e-300, 1e-15, 1e-9, 1e-4, 1.0])
@pytest.mark.parametrize(("w", "drift"), [(2.0, 0.0), (1.0, 0.3), (-1.0, -2e-5), (0.5, -1e-5), (0.0, 4e-5), (1e-9, 1e-9)])
def test_a_million_steps(w, drift, l2):
    penalty, steps, step_size = ElasticNet(1e-5, l2), 10**6, 0.05
    end = prox_steps(w, drift, steps, step_size, penalty)
    assert end == pytest.approx(walk_fast(w, drift, steps, step_size, penalty), rel=1e-9, abs=1e-12)
    # Taken in two goes it is the same, which also holds where the loop's own rounding would show.
    assert prox_steps(prox_steps(w, drift, 300_001, step_size, penalty), drift, 699_999, step_size, penalty) == pytest.approx(
        end, rel=1e-10
    )


def test_crosses_zero_once_and_rests_where_the_drift_is_weak():
    penalty = ElasticNet(0.1, 0.01)
    assert prox_steps(1.0, 0.05, 1000, 0.1, penalty) == 0.0  # |drift| ≤ l1: zero holds it
    assert prox_steps(1.0, 0.1, 10**6, 0.1, penalty) == 0.0
    assert prox_steps(1.0, 0.3, 10**6, 0.1, penalty) == pytest.approx(-(0.3 - 0.1) / 0.01)  # the fixed point beyond
    assert prox_steps(0.0, -0.3, 10**6, 0.1, penalty) == pytest.approx(20.0)
    assert prox_steps(0.7, 0.3, 0, 0.1, penalty) == 0.7


@pytest.mark.parametrize("theta", [0.0, 1e-18, 1e-9, 9e-4, 1.1e-3, 0.2, 3.0])
def test_decay_sums(theta):
    exact = np.longdouble(0)
    exact_sum = np.longdouble(0)
    for k in range(1, 3001):
        exact += (1 + np.longdouble(theta)) ** -k
        exact_sum += exact
        if k in (1, 2, 7, 100, 3000):
            assert decay_sum(k, theta) == pytest.approx(float(exact), rel=1e-14)
            assert decay_sum_sum(k, theta) == pytest.approx(float(exact_sum), rel=1e-11)
