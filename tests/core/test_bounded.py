"""A number with its radius encloses what exact arithmetic gives, and not much more."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.core import Bounded, exact_sum, inner_product, nonnegative_sum, signed_sum, total

numbers = st.floats(-1e100, 1e100, allow_subnormal=True)
shares = st.floats(-1.0, 1.0)
radii = st.one_of(st.just(0.0), st.floats(0.0, 1e90))


def exact(x, share):
    """A number that x may stand for."""
    return Fraction(x.value) + Fraction(share) * Fraction(x.radius)


def contains(found, truth):
    assert abs(Fraction(found.value) - truth) <= Fraction(found.radius)
    assert Fraction(found.lower) <= truth <= Fraction(found.upper)


@given(numbers, radii, shares, numbers, radii, shares)
def test_operations_enclose(a, r, s, b, q, t):
    x, y = Bounded(a, r), Bounded(b, q)
    X, Y = exact(x, s), exact(y, t)
    contains(x + y, X + Y)
    contains(x - y, X - Y)
    contains(x * y, X * Y)
    contains(x * b, X * Fraction(b))
    contains(b + x, X + Fraction(b))
    contains(-x, -X)
    contains(abs(x), abs(X))
    contains(x.square(), X * X)
    contains(x.wider(q), X + Fraction(q))
    contains(total([x, y, x]), 2 * X + Y)
    if abs(b) > 1e-200:
        contains(x / b, X / Fraction(b))
    if X >= 0:
        contains(x.nonnegative(), X)


@given(st.floats(0.0, 1e100), st.floats(0.0, 1e50), shares)
def test_the_square_of_a_length_that_moves(value, step, share):
    length = math.sqrt(value)
    computed = Bounded(value, 4e-16 * value + 1e-300)
    contains(computed.moved_square(step), (Fraction(length) + Fraction(share) * Fraction(step)) ** 2)


def test_radii_stay_small():
    x = Bounded(0.1, 0.0)
    for _ in range(100):
        x = x + 0.1
    assert 0.0 < x.radius < 100 * 2**-53 * 10.1
    assert (Bounded(3.0) * 0.1).radius < 1.01 * 2**-53 * 0.3


def test_arrays():
    x = Bounded(np.array([1.0, -2.0]), np.array([0.1, 0.2])) * 3.0 + 1.0
    np.testing.assert_array_equal(x.value, [4.0, -5.0])
    assert (x.upper > [4.29, -4.41]).all()
    assert (x.lower < [3.71, -5.59]).all()


def test_overflow_has_no_bound():
    for x in (Bounded(1e308) * 10.0, Bounded(1e308) * 10.0 - Bounded(1e308) * 10.0, total([Bounded(1e308), Bounded(1e308)])):
        assert (x.lower, x.upper) == (-math.inf, math.inf) or x.upper == math.inf
    assert exact_sum([1e308, 1e308]) == math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf]))
    assert total([]).value == 0.0


@pytest.mark.parametrize("n", [0, 1, 5, 5000])
def test_sums_of_vectors(n):
    rng = np.random.default_rng(n)
    a, b, signs = rng.normal(size=n), rng.normal(size=n), rng.choice([-1.0, 1.0], n)
    contains(
        inner_product(a, b), sum((Fraction(x) * Fraction(z) for x, z in zip(a.tolist(), b.tolist(), strict=True)), Fraction(0))
    )
    terms = zip(a.tolist(), signs.tolist(), b.tolist(), strict=True)
    contains(signed_sum(a, signs, b, 0.5), sum((Fraction(x) * Fraction(y) * Fraction(z) for x, y, z in terms), Fraction(1, 2)))
    squares = (a * a).tolist()
    contains(nonnegative_sum(sum(squares), 0.0, n + 1), sum(map(Fraction, squares), Fraction(0)))
