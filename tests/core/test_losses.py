"""Losses: Fenchel–Young, exact coordinate steps, compiled = interpreted = plain NumPy."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.core.jit import kernel
from dualgap.core.losses import LOSSES as REGISTERED
from dualgap.core.losses import Hinge, Logistic, ResidualLoss, SmoothHinge, SquaredHinge, make_loss, slopes, total_psi, total_value
from dualgap.problem import Samples
from reference import REFERENCE_LOSSES
from reference.losses import smooth_hinge
from reference.own_loss import CubicHinge, UndeclaredCubicHinge

NAMED = {"hinge": Hinge(), "smooth_hinge": SmoothHinge(0.5), "squared_hinge": SquaredHinge(), "logistic": Logistic()}
LOSSES = {**NAMED, "cubic_hinge": make_loss(CubicHinge())}
NAMES = list(LOSSES)

by_name = pytest.mark.parametrize("name", NAMES)
margins = st.floats(-1e3, 1e3)
units = st.one_of(st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12, 0.5]), st.floats(0, 1))
lengths = st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1e8, 1e12]), st.floats(0, 100))


@kernel
def compiled_methods(loss, beta, margin, q, out):
    for i in range(margin.shape[0]):
        out[0, i] = loss.value(margin[i])
        out[1, i] = loss.slope(margin[i])
        out[2, i] = loss.psi(beta[i])
        out[3, i] = loss.dual_step(beta[i], margin[i], q[i])
        out[4, i] = loss.upper_bound()
        out[5, i] = loss.curvature()
        out[6, i] = loss.gradient(beta[i], margin[i])
        out[7, i] = loss.curvature_at(beta[i], q[i])


def betas_for(name, unit):
    """A point of β's domain from one of [0, 1]: the squared and the cubic hinge take any β ≥ 0."""
    return 40.0 * unit if name in ("squared_hinge", "cubic_hinge") else unit


def test_every_loss_with_a_name_is_tested():
    assert {name: type(loss) for name, loss in NAMED.items()} == REGISTERED
    assert REFERENCE_LOSSES.keys() == LOSSES.keys()


@pytest.mark.parametrize(
    ("loss", "kink", "smooth"),
    [
        (Hinge(), True, False),
        (SmoothHinge(0.5), False, True),
        (SquaredHinge(), False, True),
        (Logistic(), False, True),
        (ResidualLoss(epsilon=0.1), True, False),
        (ResidualLoss(delta=0.5), False, True),
        (make_loss(CubicHinge()), False, False),
        (make_loss(UndeclaredCubicHinge()), True, False),  # on the safe side: as if φ' could jump
    ],
    ids=repr,
)
def test_a_loss_declares_its_kink_and_its_smoothness(loss, kink, smooth):
    assert (loss.has_kink(), loss.is_smooth()) == (kink, smooth)
    assert np.isfinite(loss.curvature()) == smooth


@pytest.mark.parametrize("loss", [*LOSSES.values(), ResidualLoss(0.2, 0.5, 0.3, 0.6)], ids=repr)
def test_quadratic_pieces_are_those_of_psi(loss):
    if loss.quadratic_pieces() is None:
        assert isinstance(loss, (Logistic, CubicHinge))
        return
    rise, fall, delta = loss.quadratic_pieces()
    for beta in (0.1, 0.25):
        assert loss.psi(beta) == pytest.approx(rise * beta - 0.5 * delta * beta**2, rel=1e-14)
        if loss.lower_bound() < 0.0:
            assert loss.psi(-beta) == pytest.approx(-fall * beta - 0.5 * delta * beta**2, rel=1e-14)


@by_name
def test_values_are_those_of_the_formulas(name):
    m = np.concatenate([np.linspace(-4, 4, 401), [-1e3, 1e3, 1.0, 0.5, 0.0]])
    loss, naive = LOSSES[name], REFERENCE_LOSSES[name]
    np.testing.assert_allclose([loss.value(x) for x in m], naive.value(m), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose([loss.slope(x) for x in m], naive.slope(m), rtol=1e-13, atol=1e-300)
    beta = np.linspace(0, 1, 101)
    np.testing.assert_allclose([loss.psi(x) for x in beta], naive.psi(beta), rtol=1e-12, atol=1e-15)
    assert loss.upper_bound() == naive.upper_bound


@by_name
@given(m=margins, unit=units)
def test_fenchel_young(name, m, unit):
    """φ(m) + φ*(−β) ≥ −βm for every β of the domain, that is φ(m) − ψ(β) + βm ≥ 0."""
    loss, beta = LOSSES[name], betas_for(name, unit)
    terms = [loss.value(m), -loss.psi(beta), beta * m]
    assert sum(terms) >= -1e-14 * (1 + sum(map(abs, terms)))


@by_name
@given(m=margins)
def test_fenchel_young_is_tight_at_the_slope(name, m):
    loss = LOSSES[name]
    beta = loss.slope(m)
    terms = [loss.value(m), -loss.psi(beta), beta * m]
    assert abs(sum(terms)) <= 1e-13 * (1 + sum(map(abs, terms)))
    assert 0 <= beta <= loss.upper_bound()


@by_name
@given(m=st.floats(-30, 30))
def test_slope_is_minus_the_derivative(name, m):
    loss, h = LOSSES[name], 1e-6
    if min(abs(m - kink) for kink in (1.0, 0.5)) > 2 * h:
        assert loss.slope(m) == pytest.approx(-(loss.value(m + h) - loss.value(m - h)) / (2 * h), rel=1e-6, abs=1e-7)


@by_name
@given(unit=units, m=margins, q=lengths)
def test_dual_step_maximises(name, unit, m, q):
    """No point of a grid, coarse over the domain and fine around the answer, does better than the step's answer."""
    loss, beta = LOSSES[name], betas_for(name, unit)
    new = loss.dual_step(beta, m, q)
    assert 0 <= new <= loss.upper_bound()

    def gain(z):
        return REFERENCE_LOSSES[name].psi(z) - m * (z - beta) - q * (z - beta) ** 2 / 2

    top = min(loss.upper_bound(), 4e3)
    grid = np.concatenate(
        [np.linspace(0, top, 2001), new + top * np.geomspace(1e-12, 1e-2, 60), new - top * np.geomspace(1e-12, 1e-2, 60)]
    )
    grid = grid[(grid >= 0) & (grid <= loss.upper_bound())]
    # The terms cancel: what can be told apart is rounding of the largest of them.
    scale = 1 + abs(m) * abs(new - beta) + q * (new - beta) ** 2 + abs(float(REFERENCE_LOSSES[name].psi(new)))
    assert np.max(gain(grid)) <= gain(new) + 1e-13 * scale


@by_name
@given(unit=units, m=margins, q=lengths)
def test_dual_step_is_the_formula(name, unit, m, q):
    beta = betas_for(name, unit)
    new, expected = LOSSES[name].dual_step(beta, m, q), REFERENCE_LOSSES[name].step(beta, m, q)
    # The logistic root is found in t = log(β/(1−β)), to a precision relative to the bracket's width for huge q.
    assert new == pytest.approx(expected, rel=1e-9, abs=1e-14)


@by_name
@given(unit=units, m=margins, q=lengths)
def test_ascent_step_is_near_the_exact_one(name, unit, m, q):
    loss, beta = LOSSES[name], betas_for(name, unit)
    exact, near = loss.dual_step(beta, m, q), loss.ascent_step(beta, m, q)
    assert 0 <= near <= loss.upper_bound()
    assert abs(near - exact) <= 1e-4 * abs(exact - beta) + 1e-11


@by_name
@given(m=margins, unit=units)
def test_step_of_an_empty_row_is_the_slope(name, m, unit):
    loss = LOSSES[name]
    assert loss.dual_step(betas_for(name, unit), m, 0.0) == pytest.approx(loss.slope(m), rel=1e-12, abs=1e-13)


@by_name
@given(m=st.floats(-20, 20), q=st.floats(0, 50))
def test_step_stays_where_it_is_optimal(name, m, q):
    loss = LOSSES[name]
    beta = loss.slope(m)
    assert loss.dual_step(beta, m, q) == pytest.approx(beta, abs=1e-13)


@by_name
@given(unit=st.floats(0.01, 0.99), m=st.floats(-20, 20))
def test_pull_is_the_derivative_of_the_dual(name, unit, m):
    loss, beta, h = LOSSES[name], betas_for(name, unit), 1e-6
    psi = REFERENCE_LOSSES[name].psi
    assert loss.gradient(beta, m) == pytest.approx((psi(beta + h) - psi(beta - h)) / (2 * h) - m, rel=1e-5, abs=1e-5)


@by_name
@given(unit=st.floats(0.05, 0.95), m=st.floats(-3, 3), q=st.floats(0.1, 10))
def test_bend_is_the_derivative_of_the_step(name, unit, m, q):
    loss, beta, h = LOSSES[name], betas_for(name, unit), 1e-5
    before, new, after = (loss.dual_step(beta, margin, q) for margin in (m - h, m, m + h))
    inside = all(0 < z < loss.upper_bound() for z in (before, after))
    outside = before == after
    if inside or outside:  # between them is a corner, where the derivative jumps
        assert loss.curvature_at(new, q) == pytest.approx((before - after) / (2 * h), rel=1e-4, abs=1e-9)


@by_name
def test_curvature_bounds_the_change_of_slope(name):
    loss = LOSSES[name]
    m = np.linspace(-5, 5, 4001) if loss.has_kink() or loss.is_smooth() else np.linspace(-100, 0, 4001)
    s = np.array([loss.slope(x) for x in m])
    steepest = np.max(np.abs(np.diff(s)) / np.diff(m))
    if np.isfinite(loss.curvature()):
        assert steepest == pytest.approx(loss.curvature(), rel=1e-3)
    else:
        assert steepest > 100


@by_name
def test_compiled_methods_are_the_interpreted_ones(name):
    loss = LOSSES[name]
    rng = np.random.default_rng(0)
    m = np.concatenate([rng.normal(scale=3, size=200), [1e3, -1e3, 1.0, 0.5, 0.0]])
    beta = betas_for(name, np.concatenate([rng.random(200), [0.0, 1.0, 0.0, 1.0, 0.5]]))
    q = np.concatenate([rng.exponential(size=200), [0.0, 0.0, 1e12, 1e12, 1e-300]])
    out = np.empty((8, len(m)))
    compiled_methods(loss, beta, m, q, out)
    expected = [
        [
            loss.value(a),
            loss.slope(a),
            loss.psi(b),
            loss.dual_step(b, a, l),
            loss.upper_bound(),
            loss.curvature(),
            loss.gradient(b, a),
            loss.curvature_at(b, l) if l > 0 else out[7, k],  # 1/q of the hinge is asked for with q > 0 only
        ]
        for k, (a, b, l) in enumerate(zip(m, beta, q, strict=True))
    ]
    np.testing.assert_allclose(out.T, expected, rtol=1e-11, atol=1e-14)


@by_name
def test_sums(name):
    loss, naive = LOSSES[name], REFERENCE_LOSSES[name]
    rng = np.random.default_rng(0)
    m, beta, c = rng.normal(size=50), rng.random(50), rng.random(50)
    c[3] = 0.0
    m[3] = np.nan  # a row of weight 0 counts for nothing, whatever it holds
    beta[3] = np.nan
    some = np.flatnonzero(c)
    assert total_value(loss, m, c) == pytest.approx(np.sum(c[some] * naive.value(m[some])), rel=1e-13)
    assert total_psi(loss, beta, Samples(np.ones(50), c)) == pytest.approx(np.sum(c[some] * naive.psi(beta[some])), rel=1e-13)
    out = np.empty(50)
    slopes(loss, m, out)
    np.testing.assert_allclose(out[some], naive.slope(m[some]), rtol=1e-13)


@pytest.mark.parametrize("delta", [1e-3, 1.0, 10.0])
def test_smooth_hinge_of_any_width(delta):
    loss, naive = SmoothHinge(delta), smooth_hinge(delta)
    for m in np.linspace(-12, 2, 57):
        assert loss.value(m) == pytest.approx(float(naive.value(m)), rel=1e-13, abs=1e-300)
        assert loss.value(m) <= max(0.0, 1 - m)
        assert loss.dual_step(0.3, m, 0.7) == pytest.approx(naive.step(0.3, m, 0.7), rel=1e-13, abs=1e-15)


def test_logistic_step_leaves_a_cycle():
    """With a huge q, pure Newton steps jump between the bracket's ends for ever."""
    assert Logistic().dual_step(0.0, -4.0, 1e8) == pytest.approx(1.9452694932041748e-07, rel=1e-9)


def test_hinge_step_clips_beta_and_not_its_change():
    """The published mistake clips the change: from β = 0.9 such a step would end above 1, or stay away from 0."""
    assert Hinge().dual_step(0.9, -5.0, 2.0) == 1.0
    assert Hinge().dual_step(0.2, 5.0, 2.0) == 0.0


def test_make_loss():
    assert make_loss("hinge") == Hinge()
    assert make_loss("log_loss") == Logistic()
    assert make_loss("smooth_hinge") == SmoothHinge(1.0)
    assert make_loss("huberised_hinge", 0.25) == SmoothHinge(0.25)
    loss = SmoothHinge(3.0)
    assert make_loss(loss) is loss


@pytest.mark.parametrize(
    ("loss", "delta", "error", "words"),
    [
        ("hinges", None, ValueError, "loss='hinges' is unknown.*squared_hinge"),
        ("hinge", 0.5, ValueError, "delta=0.5 belongs to loss='smooth_hinge'"),
        ("smooth_hinge", 0.0, ValueError, "delta=0.0 must be a positive"),
        ("smooth_hinge", -1, ValueError, "delta=-1 must be a positive"),
        ("smooth_hinge", float("nan"), ValueError, "delta=nan must be"),
        ("smooth_hinge", float("inf"), ValueError, "delta=inf must be"),
        (Hinge, None, TypeError, "nor a loss object"),
        (3, None, TypeError, "loss=3 is neither.*lacks.*'psi'"),
        (None, None, TypeError, "loss=None is neither"),
    ],
)
def test_make_loss_refuses(loss, delta, error, words):
    with pytest.raises(error, match=words):
        make_loss(loss, delta)


def test_delta_beside_a_loss_object_is_refused():
    with pytest.raises(ValueError, match=r"delta=0\.5"):
        make_loss(SmoothHinge(1.0), 0.5)


@pytest.mark.parametrize(("cls", "field"), [(Hinge, "kink"), (SquaredHinge, "kink"), (Logistic, "scale")])
def test_a_field_that_no_formula_reads_takes_its_default_only(cls, field):
    assert cls() == cls(1.0) == cls(**{field: 1}) == pickle.loads(pickle.dumps(cls()))
    assert type(cls(1)[0]) is float
    for make in (cls, lambda value: make_loss(cls()._replace(**{field: value}))):
        with pytest.raises(ValueError, match=f"{field}=0.25.*has no parameter.*numba"):
            make(0.25)


def test_a_loss_that_lacks_a_method_is_refused():
    class Half(NamedTuple):
        delta: float = 1.0
        value = SmoothHinge.value

    with pytest.raises(TypeError, match=r"lacks.*'upper_bound'"):
        make_loss(Half())
