"""Proximal steps owed by a coordinate of sparse rows against the loop they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dualgap
from dualgap.core.jit import kernel
from dualgap.core.penalties import ElasticNet
from dualgap.solvers.gradient.lazy_prox import begin_stretch, settle, track
from dualgap.solvers.gradient.primal import OUTPUTS, Schedule

ROWS = dualgap.Problem(sparse.csr_array([[1.0], [-1.0]]), [1, 0], l2=1.0).rows


@kernel
def begin_steps(rows, point, steps):
    now = point.now[0]
    for _ in range(steps):
        if now.place == now.stretch:
            begin_stretch(rows, point)
        now.place += 1
        now.steps += 1


def owed(w, drift, steps, schedule, penalty, output="last", parts=1):
    """w after steps in which no row read it, and Σ ω·w over the iterates."""
    averaged = output != "last"
    point = track(ROWS, np.array([w]), schedule, OUTPUTS[output], penalty, averaged=averaged, drift=True)
    point.drift.drifts[0] = drift
    for part in range(parts):
        begin_steps(ROWS, point, steps // parts + (part < steps % parts))
        settle(ROWS, point)
    return point.w[0], point.total[0] if averaged else 0.0


def walk(w, drift, steps, schedule, penalty, weights):
    """The loop in extended precision: the last iterate, and the weighted sum of all."""
    w, drift, total = np.longdouble(w), np.longdouble(drift), np.longdouble(0)
    for t in range(steps):
        eta = np.longdouble(schedule.step_at(float(t)))
        z = w - eta * drift
        w = np.sign(z) * max(abs(z) - eta * penalty.l1, 0) / (1 + eta * np.longdouble(penalty.l2))
        total += weights.weight_at(t + 1.0) * w
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
    rate=st.sampled_from([1e-3, 0.04, 1.0, 5.0]),
    exponent=st.sampled_from([0.0, 0.5, 1.0]),
    l1=sizes,
    l2=sizes,
    output=st.sampled_from(sorted(OUTPUTS)),
    parts=st.sampled_from([1, 3]),
)
def test_equals_the_loop(w, drift, steps, rate, exponent, l1, l2, output, parts):
    penalty, schedule = ElasticNet(l1, l2), Schedule(rate, 20.0, exponent)
    end, total = walk(w, drift, steps, schedule, penalty, OUTPUTS[output])
    # Rounding is relative to the largest number on the way: w, or how far the drift carries it.
    scale = abs(w) + rate * abs(drift) * max(steps, 1) + 1e-300
    w, found = owed(w, drift, steps, schedule, penalty, output, parts)
    assert w == pytest.approx(end, rel=1e-12, abs=1e-13 * scale)
    if output != "last":
        # A stretch ends at a decay of 1e-4, which costs the sums 4 of their 16 digits.
        assert found == pytest.approx(total, rel=1e-10, abs=1e-11 * scale * max(steps, 1) * (steps if output == "weighted" else 1))


@pytest.mark.parametrize("l2", [0.0, 1e-300, 1e-15, 1e-9, 1e-4, 1.0])
@pytest.mark.parametrize(("w", "drift"), [(2.0, 0.0), (1.0, 0.3), (-1.0, -2e-5), (0.5, -1e-5), (0.0, 4e-5), (1e-9, 1e-9)])
def test_a_million_steps(w, drift, l2):
    penalty, steps, step_size = ElasticNet(1e-5, l2), 10**6, 0.05
    end, _ = owed(w, drift, steps, Schedule(step_size, 1.0, 0.0), penalty)
    assert end == pytest.approx(walk_fast(w, drift, steps, step_size, penalty), rel=1e-9, abs=1e-12)


def test_crosses_zero_once_and_rests_where_the_drift_is_weak():
    penalty, schedule = ElasticNet(0.1, 0.01), Schedule(0.1, 1.0, 0.0)
    assert owed(1.0, 0.05, 1000, schedule, penalty)[0] == 0.0  # |drift| ≤ l1: zero holds it
    assert owed(1.0, 0.1, 10**6, schedule, penalty)[0] == 0.0
    assert owed(1.0, 0.3, 10**6, schedule, penalty)[0] == pytest.approx(-(0.3 - 0.1) / 0.01)  # the fixed point beyond
    assert owed(0.0, -0.3, 10**6, schedule, penalty)[0] == pytest.approx(20.0)
    assert owed(0.7, 0.3, 0, schedule, penalty)[0] == 0.7
