"""Argument checks: what they take, what they refuse, and the words of the refusal."""

import numpy as np
import pytest

from dualgap.core import count, is_number, is_whole, number, one_of, whole_number


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_, None, "1", 1j, [1], np.array([1.0, 2.0])])
def test_what_is_no_number(value):
    assert not is_number(value)
    assert not is_whole(value)
    for check in (number, whole_number, count):
        with pytest.raises(ValueError, match=r"^rate=.* must be a "):
            check("rate", value)


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.float32(3.0), np.uint64(3)])
def test_numbers_of_python_and_numpy(value):
    assert is_number(value)
    assert number("rate", value) == 3.0
    assert type(number("rate", value)) is float
    assert type(count("rows", value)) is int
    assert is_whole(value) == (not isinstance(value, (float, np.floating)))


@pytest.mark.parametrize(
    ("value", "within", "message"),
    [
        (0.0, "(0, inf)", "x=0.0 must be a positive number"),
        (np.inf, "(0, inf)", "x=inf must be a positive number"),
        (np.nan, "[0, inf]", r"x=nan must be a number in \[0, inf\]"),
        (-1e-300, "[0, inf)", "x=-1e-300 must be a finite number that is not negative"),
        (1.0, "[0, 1)", r"x=1.0 must be a number in \[0, 1\)"),
        (0.0, "(0, 1]", r"x=0.0 must be a number in \(0, 1\]"),
    ],
)
def test_numbers_outside_their_interval(value, within, message):
    with pytest.raises(ValueError, match=message):
        number("x", value, within)


def test_ends_that_belong_to_an_interval():
    assert number("x", 0, "[0, 1)") == 0.0
    assert number("x", 1, "(0, 1]") == 1.0
    assert number("x", np.inf, "(0, inf]") == np.inf


def test_whole_numbers_have_a_least_value_and_no_float_but_for_counts():
    assert whole_number("size", 16, 16) == 16
    with pytest.raises(ValueError, match="size=15 must be a whole number of at least 16"):
        whole_number("size", 15, 16)
    with pytest.raises(ValueError, match=r"size=16\.0 must be a whole number of at least 1"):
        whole_number("size", 16.0)
    assert count("n", 1e4) == 10_000
    for value in (2.5, np.inf, np.nan, 0.0):
        with pytest.raises(ValueError, match="must be the number of samples"):
            count("n", value, wanted="the number of samples")


@pytest.mark.parametrize("value", ["three", 1, np.array(["one"]), ["one"], {}])
def test_one_of_a_few_names(value):
    assert one_of("which", "one", ("one", "two")) == "one"
    assert one_of("which", None, (None, "two")) is None
    with pytest.raises(ValueError, match=r"which=.* is unknown; choose one of \['one', 'two'\]"):
        one_of("which", value, ("one", "two"))
