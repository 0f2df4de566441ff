"""The root finder beside SciPy's, on functions that are steep, flat, stepped or badly scaled."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq

from dualgap.core.jit import compiled
from dualgap.core.root import Bracket, bracket_root, illinois, nearest


@compiled
class Cubic(NamedTuple):
    crossing: float
    steepness: float

    def evaluate(self, x):
        return self.steepness * ((self.crossing - x) ** 3 + 1e-3 * (self.crossing - x))


@compiled
class Steps(NamedTuple):
    kinks: np.ndarray

    def evaluate(self, x):
        s = 0.0
        for kink in self.kinks:
            s += 1.0 if x < kink else -1.0
        return s


def find(f, start=0.0, near_zero=0.0, narrow=4e-16, steps=200):
    return illinois(f, bracket_root(f, start, 1.0, 2.0), near_zero, narrow, steps)


@pytest.mark.parametrize("crossing", [0.0, 0.3, -7.0, 1e9, -1e-9])
@pytest.mark.parametrize("steepness", [1e-100, 1.0, 1e100])
def test_the_root_is_brents(crossing, steepness):
    f = Cubic(crossing, steepness)
    around = bracket_root(f, 0.0, 1.0, 2.0)
    assert around.at_low >= 0.0 >= around.at_high
    assert nearest(find(f)) == pytest.approx(crossing, rel=1e-12, abs=1e-12)
    assert nearest(find(f)) == pytest.approx(
        brentq(f.evaluate, around.low, around.high, xtol=1e-13, rtol=1e-13, maxiter=1000), rel=1e-12, abs=1e-12
    )


def test_a_jump_across_zero_ends_in_a_bracket_of_two_neighbours():
    kinks = np.array([0.1, 0.7, 2.0])
    found = find(Steps(kinks))
    assert found.low < 0.7 <= found.high
    assert found.high - found.low <= 4e-16


def test_a_root_at_an_end_is_returned_as_it_is():
    assert nearest(illinois(Cubic(2.0, 1.0), Bracket(2.0, 0.0, 3.0, -1.0), 0.0, 0.0, 10)) == 2.0
    assert nearest(illinois(Cubic(3.0, 1.0), Bracket(2.0, 1.0, 3.0, 0.0), 0.0, 0.0, 10)) == 3.0


def test_it_stops_where_it_is_told_to():
    f = Cubic(0.3, 1.0)
    rough = nearest(find(f, near_zero=1e-2))
    assert abs(f.evaluate(rough)) <= 1e-2
    assert rough != nearest(find(f))
    wide = find(f, narrow=0.1)
    assert 0.0 < wide.high - wide.low <= 0.1
    assert find(f, steps=0) == bracket_root(f, 0.0, 1.0, 2.0)


def test_a_function_without_a_root_does_not_loop_for_ever():
    assert bracket_root(Steps(np.array([math.inf])), 0.0, 1.0, 2.0).high >= 1e300
    assert math.isnan(bracket_root(Cubic(math.nan, 1.0), 0.0, 1.0, 2.0).at_low)
