"""The losses of regression: ResidualLoss against its definition in fractions, and its names."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap import ResidualLoss
from dualgap.core import Offset, kernel, make_loss, total_psi, total_value
from dualgap.problem import Samples
from reference.regression import loss_value, psi

LOSSES = {
    "epsilon_insensitive": make_loss("epsilon_insensitive", epsilon=0.25),
    "squared_epsilon_insensitive": make_loss("squared_epsilon_insensitive", epsilon=0.25),
    "huber": make_loss("huber", 0.5),
    "absolute": make_loss("absolute"),
    "quantile": make_loss("quantile", quantile=0.75),
    "squared_error": make_loss("squared_error"),
    "all of it": ResidualLoss(0.5, 0.25, 0.5, 2.0),
}
by_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
margins = st.one_of(st.sampled_from([0.0, 0.25, -0.25, 0.5, -0.5, 1e-300, -1e-300]), st.floats(-1e3, 1e3))
units = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-12]), st.floats(0, 1))
lengths = st.one_of(st.sampled_from([1e-12, 1e8]), st.floats(1e-3, 100))


def a_beta(loss, unit):
    """A point of the box of β from one of [0, 1]; an infinite box is cut at ±40."""
    low, high = min(loss.low, 40.0), min(loss.high, 40.0)
    return float(np.clip(-low + unit * (low + high), -low, high))


@by_loss
@given(m=margins)
def test_value_and_slope(loss, m):
    exact = loss_value(loss, m)
    assert abs(Fraction(loss.value(m)) - exact) <= Fraction(1e-14) * exact + Fraction(1e-300)
    beta = loss.slope(m)
    gap = exact - psi(loss, beta) + Fraction(beta) * Fraction(m)
    assert 0 <= gap <= Fraction(1e-13) * (abs(exact) + abs(Fraction(beta) * Fraction(m)))


@by_loss
@given(m=margins, unit=units)
def test_gap_terms_are_enclosed(loss, m, unit):
    """What certificates rely on: each is within 32 u of its own size, or of the bound that it returns."""
    beta, u = a_beta(loss, unit), Fraction(1, 2**53)
    value, gap, size = (Fraction(x) for x in loss.gap_terms(-m, beta))
    phi = loss_value(loss, m)
    exact = phi - psi(loss, beta) + Fraction(beta) * Fraction(m)
    tiny = Fraction(1, 10**280)
    assert exact >= 0
    assert abs(value - phi) <= 32 * u * phi + tiny
    assert abs(gap - exact) <= 32 * u * size + tiny


@by_loss
@given(m=margins, unit=units, q=lengths)
def test_dual_step_maximises(loss, m, unit, q):
    beta = a_beta(loss, unit)
    new = loss.dual_step(beta, m, q)
    assert -loss.low <= new <= loss.high

    def gain(z):
        return psi(loss, z) - Fraction(m) * (Fraction(z) - Fraction(beta)) - Fraction(q) * (Fraction(z) - Fraction(beta)) ** 2 / 2

    low, high = max(-loss.low, -1e4), min(loss.high, 1e4)
    tried = [0.0, low, high, beta, *(new + (high - low) * s * 10.0**-k for k in range(1, 12, 2) for s in (-1, 1))]
    size = 1 + abs(m * (new - beta)) + q * (new - beta) ** 2 + float(abs(psi(loss, new)))
    assert all(gain(z) <= gain(new) + Fraction(1e-13 * size) for z in tried if -loss.low <= z <= loss.high)


@by_loss
@given(m=margins, unit=units)
def test_slack_is_the_distance_from_violation(loss, m, unit):
    """A β that is not free is optimal for exactly the margins with slack ≥ 0, and a step towards them shows it."""
    for beta in (a_beta(loss, unit), 0.0, *(b for b in (loss.high, -loss.low) if np.isfinite(b))):
        if loss.is_free(beta):
            continue
        slack, moved = loss.slack(beta, m), loss.dual_step(beta, m, 1.0) != beta
        if abs(slack) > 1e-9 * (1 + abs(m)):
            assert moved == (slack < 0)


@by_loss
@given(unit=st.floats(0.02, 0.98), m=st.floats(-20, 20))
def test_gradient_is_the_derivative(loss, unit, m):
    beta, h = a_beta(loss, unit), 1e-6
    if loss.is_free(beta) and abs(beta) > 2 * h:
        derivative = float(psi(loss, beta + h) - psi(loss, beta - h)) / (2 * h) - m
        assert loss.gradient(beta, m) == pytest.approx(derivative, abs=1e-6)
        assert loss.curvature_at(beta, 2.0) == 1 / (2 + loss.delta)
    elif beta == 0.0 and loss.epsilon > 0:
        assert loss.curvature_at(beta, 2.0) == 0.0


@kernel
def _compiled(loss, m, beta, out):
    for i in range(m.shape[0]):
        out[0, i], out[1, i], out[2, i] = loss.value(m[i]), loss.slope(m[i]), loss.psi(beta[i])
        out[3, i], out[4, i] = loss.dual_step(beta[i], m[i], 0.7), loss.gradient(beta[i], m[i])
        out[5, i], out[6, i] = loss.slack(beta[i], m[i]), loss.kink_distance(m[i])


@by_loss
def test_compiled_methods_are_the_interpreted_ones(loss):
    rng = np.random.default_rng(0)
    m = np.concatenate([rng.normal(size=100), [0.0, 0.25, -0.25]])
    beta = np.array([a_beta(loss, x) for x in rng.random(len(m))])
    out = np.empty((7, len(m)))
    _compiled(loss, m, beta, out)
    for k in range(len(m)):
        a, b = float(m[k]), float(beta[k])
        row = [loss.value(a), loss.slope(a), loss.psi(b), loss.dual_step(b, a, 0.7), loss.gradient(b, a), loss.slack(b, a)]
        np.testing.assert_allclose(out[:, k], [*row, loss.kink_distance(a)], rtol=1e-13, atol=1e-15)


def test_sums_have_the_offset():
    loss, rng = LOSSES["all of it"], np.random.default_rng(0)
    beta, t, c = rng.uniform(-0.5, 2, 20), rng.normal(size=20), rng.random(20)
    samples = Samples(np.ones(20), c, Offset(-t))
    expected = sum(c[i] * (float(psi(loss, beta[i])) + beta[i] * t[i]) for i in range(20))
    assert total_psi(loss, beta, samples) == pytest.approx(expected, rel=1e-12)
    assert total_value(loss, t, c) == pytest.approx(sum(c[i] * float(loss_value(loss, t[i])) for i in range(20)), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("epsilon_insensitive", {"epsilon": -1}, "epsilon=-1 must be a number ≥ 0"),
        ("huber", {"delta": 0.0}, "delta=0.0 must be a positive number"),
        ("quantile", {"quantile": 1.0}, "quantile=1.0"),
        ("huber", {"epsilon": 0.1}, "epsilon=0.1 with loss='huber': its parameter is delta"),
        ("absolute", {"quantile": 0.1}, "it has no parameter"),
        ("hinge", {"epsilon": 0.1}, "epsilon=0.1 belongs to loss='epsilon_insensitive'"),
        (ResidualLoss(low=-1.0), {}, "low and high ≥ 0"),
        (ResidualLoss(high=np.inf), {}, "an infinite slope needs delta > 0"),
        (ResidualLoss(epsilon=np.nan), {}, "epsilon and delta must be finite"),
    ],
)
def test_wrong_parameters(name, options, words):
    with pytest.raises(ValueError, match=words):
        make_loss(name, **options)
