"""Penalties: Fenchel–Young, prox as an argmin, Moreau, compiled = interpreted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.core.jit import kernel
from dualgap.core.penalties import L1, L2, Boxed, ElasticNet, make_penalty
from dualgap.core.rows import dense
from reference import soft

PENALTIES = {"l2": L2(0.3), "elastic_net": ElasticNet(0.2, 0.3), "l1": L1(0.2)}
by_name = pytest.mark.parametrize("name", list(PENALTIES))
coordinates = st.floats(-50, 50)
steps = st.floats(1e-3, 100)


def strengths(penalty):
    """(l1, l2) of a penalty."""
    return getattr(penalty, "l1", 0.0), getattr(penalty, "l2", 0.0)


@by_name
def test_value_and_conjugate_are_the_formulas(name):
    penalty = PENALTIES[name]
    l1, l2 = strengths(penalty)
    w = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(penalty.value(w), l1 * np.abs(w) + l2 / 2 * w**2, rtol=1e-14)
    if l2 > 0:
        np.testing.assert_allclose(penalty.conjugate(w), np.maximum(np.abs(w) - l1, 0) ** 2 / (2 * l2), rtol=1e-14)
    else:
        assert not penalty.conjugate(np.linspace(-l1, l1, 11)).any()
    assert penalty.strength() == l2


@by_name
@given(w=coordinates, u=coordinates)
def test_fenchel_young(name, w, u):
    penalty = PENALTIES[name]
    l1, l2 = strengths(penalty)
    if l2 == 0:
        u = float(np.clip(u, -l1, l1))  # outside, the conjugate is infinite, and the certificate scales u into the box
    assert penalty.value(w) + penalty.conjugate(u) - u * w >= -1e-12 * (1 + abs(u * w))
    if l2 > 0:
        best = soft(u, l1) / l2
        assert penalty.value(best) + penalty.conjugate(u) == pytest.approx(u * best, rel=1e-12, abs=1e-12)


@by_name
@given(w=coordinates, step=steps)
def test_prox_is_the_argmin(name, w, step):
    penalty = PENALTIES[name]

    def aim(z):
        return penalty.value(z) + (z - w) ** 2 / (2 * step)

    z = penalty.prox(w, step)
    others = np.concatenate([np.linspace(-60, 60, 2401), z + np.geomspace(1e-7, 1, 40), z - np.geomspace(1e-7, 1, 40), [0.0]])
    assert aim(z) <= np.min(aim(others)) + 1e-12 * (1 + aim(z))


@pytest.mark.parametrize("name", ["l2", "elastic_net"])
@given(w=coordinates, step=steps)
def test_moreau(name, w, step):
    """w = prox of step·R at w + step · prox of R*/step at w/step; the second by the definition, through R* alone."""
    penalty = PENALTIES[name]
    z = penalty.prox(w, step)
    u = (w - z) / step  # what Moreau says the prox of the conjugate is
    nearby = u + np.concatenate([np.geomspace(1e-6, 1, 30), -np.geomspace(1e-6, 1, 30)])

    def aim(v):
        return penalty.conjugate(v) + step / 2 * (v - w / step) ** 2

    assert aim(u) <= np.min(aim(nearby)) + 1e-11 * (1 + abs(aim(u)))


@pytest.mark.parametrize("name", ["l2", "elastic_net"])
def test_scores_of_what_dual_methods_store(name):
    penalty = PENALTIES[name]
    l1, l2 = strengths(penalty)
    rng = np.random.default_rng(0)
    rows, v = dense(rng.normal(size=(4, 6))), rng.normal(size=6)
    w = soft(l2 * v, l1) / l2
    np.testing.assert_allclose(penalty.primal(v), w, rtol=1e-13, atol=1e-15)
    for i in range(4):
        assert penalty.score(rows, i, v) == pytest.approx(rows.x[i] @ w, rel=1e-12)
        scaled = soft(l2 * v / 3.0, l1) / l2
        assert penalty.scaled_score(rows, i, v, 3.0) == pytest.approx(rows.x[i] @ scaled, rel=1e-12)


def test_l1_alone_has_no_model_to_score():
    rows = dense(np.ones((1, 2)))
    assert np.isnan(L1(0.1).score(rows, 0, np.ones(2)))
    assert np.isnan(L1(0.1).scaled_score(rows, 0, np.ones(2), 2.0))
    assert np.isnan(L1(0.1).primal(np.ones(2))).all()


@kernel
def compiled_methods(penalty, rows, w, v, out):
    for k in range(w.shape[0]):
        out[0, k] = penalty.value(w[k])
        out[1, k] = penalty.conjugate(w[k])
        out[2, k] = penalty.prox(w[k], 0.7)
        out[3, k] = penalty.score(rows, k, v)
        out[4, k] = penalty.scaled_score(rows, k, v, 2.5)
        out[5, k] = penalty.strength()


@by_name
def test_compiled_methods_are_the_interpreted_ones(name):
    penalty = PENALTIES[name]
    rng = np.random.default_rng(0)
    rows, w, v = dense(rng.normal(size=(30, 6))), 2 * rng.normal(size=30), rng.normal(size=6)
    out = np.empty((6, 30))
    compiled_methods(penalty, rows, w, v, out)
    expected = [
        penalty.value(w),
        penalty.conjugate(w),
        penalty.prox(w, 0.7),
        [penalty.score(rows, k, v) for k in range(30)],
        [penalty.scaled_score(rows, k, v, 2.5) for k in range(30)],
        np.full(30, penalty.strength()),
    ]
    np.testing.assert_allclose(out, np.array(expected), rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------------------------------------------------- bounds

# Of every kind: none, one-sided, two-sided with and without 0, fixed.
LOW = np.array([-np.inf, 0.0, -np.inf, -1.0, 0.5, -2.0, 0.3, 0.0])
HIGH = np.array([np.inf, np.inf, 0.0, 2.0, 4.0, -0.25, 0.3, 0.0])
BOUNDED = {"l2": Boxed(0.0, 0.3, LOW, HIGH), "elastic_net": Boxed(0.2, 0.3, LOW, HIGH)}
bounded = pytest.mark.parametrize("name", list(BOUNDED))
vectors = st.lists(coordinates, min_size=8, max_size=8).map(np.array)


@bounded
@given(w=vectors, u=vectors)
def test_bounded_fenchel_young(name, w, u):
    """R(w) + R*(u) ≥ u·w coordinate by coordinate, with equality at w(u) alone, which is within the bounds."""
    penalty = BOUNDED[name]
    inside = np.clip(w, LOW, HIGH)
    np.testing.assert_array_equal(penalty.nearest_point(w), inside)
    assert penalty.contains_point(inside)
    assert penalty.contains_point(w) == (np.array_equal(inside, w))
    assert np.isinf(penalty.value(w)[w != inside]).all()
    scale = 1e-12 * (1 + np.abs(u * inside) + penalty.value(inside))
    assert (penalty.value(inside) + penalty.conjugate(u) - u * inside >= -scale).all()
    best = penalty.primal(u / 0.3)
    np.testing.assert_allclose(best, np.clip(soft(u, penalty.l1) / 0.3, LOW, HIGH), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(penalty.value(best) + penalty.conjugate(u), u * best, rtol=1e-10, atol=1e-10)


@bounded
@given(w=vectors, step=steps)
def test_bounded_prox_is_the_argmin(name, w, step):
    penalty = BOUNDED[name]
    z = penalty.prox(w, step)
    assert penalty.contains_point(z)
    np.testing.assert_allclose(z, [penalty.prox_at(j, w[j], step) for j in range(8)], rtol=1e-14)

    def aim(v):
        return penalty.l1 * np.abs(v) + 0.15 * v**2 + (v - w) ** 2 / (2 * step)

    for other in (*(z + t for t in np.geomspace(1e-7, 10, 30)), *(z - t for t in np.geomspace(1e-7, 10, 30))):
        assert (aim(z) <= aim(np.clip(other, LOW, HIGH)) + 1e-12 * (1 + aim(z))).all()


@bounded
def test_bounded_parts_ends_and_totals(name):
    penalty = BOUNDED[name]
    chosen = np.array([1, 4, 6])
    part = penalty.part(chosen)
    assert (
        [part.ends(k) for k in range(3)] == [penalty.ends(j) for j in chosen] == list(zip(LOW[chosen], HIGH[chosen], strict=True))
    )
    w = np.clip(np.linspace(-3, 3, 8), LOW, HIGH)
    assert penalty.total_penalty(w) == pytest.approx(penalty.l1 * np.abs(w).sum() + 0.15 * w @ w, rel=1e-14)
    assert penalty.total_penalty(w + 1.0) == np.inf
    v = np.linspace(-9, 9, 8)
    assert penalty.total_conjugate(v, 0.3) == pytest.approx(penalty.conjugate(0.3 * v).sum(), rel=1e-14)


@pytest.mark.parametrize("penalty", [L2(0.3), ElasticNet(0.2, 0.3), L1(0.2)])
def test_without_bounds_every_point_is_within_them(penalty):
    w = np.array([-1e300, 0.0, 5.0])
    assert penalty.nearest_point(w) is w
    assert penalty.contains_point(w)
    assert penalty.ends(1) == (-np.inf, np.inf)
    assert penalty.part(np.array([1])) is penalty


@kernel
def bounded_scores(penalty, rows, v, w, out):
    for i in range(rows.length()):
        out[0, i] = penalty.score(rows, i, v)
        out[1, i] = penalty.scaled_score(rows, i, v, 3.0)
    for j in range(w.shape[0]):
        out[2, j] = penalty.prox_at(j, w[j], 0.7)


@bounded
def test_bounded_scores_of_what_dual_methods_store(name):
    penalty, rng = BOUNDED[name], np.random.default_rng(0)
    X, v, w = rng.normal(size=(8, 8)), 4 * rng.normal(size=8), rng.normal(size=8)
    out = np.empty((3, 8))
    bounded_scores(penalty, dense(X), v, w, out)
    np.testing.assert_allclose(out[0], X @ penalty.primal(v), rtol=1e-12)
    np.testing.assert_allclose(out[1], X @ penalty.primal(v / 3.0), rtol=1e-12)
    np.testing.assert_allclose(out[2], penalty.prox(w, 0.7), rtol=1e-14)
    assert penalty.score(dense(X), 2, v) == pytest.approx(out[0, 2], rel=1e-12)


def test_make_penalty():
    assert make_penalty(0.1) == L2(0.1)
    assert isinstance(make_penalty(0.1, 0.2, (LOW, HIGH)), Boxed)
    with pytest.raises(ValueError, match="l2=0 with bounds on the coefficients: they need an l2 penalty"):
        make_penalty(0.0, 0.1, (LOW, HIGH))
    assert make_penalty(np.float32(0.5), np.int64(2)) == ElasticNet(2.0, 0.5)
    assert make_penalty(0, 1) == L1(1.0)


@pytest.mark.parametrize(
    ("l2", "l1", "words"),
    [
        (-1e-3, 0.0, "l2=-0.001 must be a finite number that is not negative"),
        (0.1, -1.0, "l1=-1.0 must be"),
        (float("nan"), 0.0, "l2=nan must be"),
        (float("inf"), 0.0, "l2=inf must be"),
        ("0.1", 0.0, "l2='0.1' must be"),
        (None, 0.0, "l2=None must be"),
        (1j, 0.0, "l2=1j must be"),
        (0.0, 0.0, "l2=0 and l1=0.*give l2 > 0"),
    ],
)
def test_make_penalty_refuses(l2, l1, words):
    with pytest.raises(ValueError, match=words):
        make_penalty(l2, l1)
