"""Arithmetic and elements of arrays, written at once: each gives what the same function gives in plain Python."""

import numpy as np
import pytest

from dualgap.core.jit import kernel

SPECIAL = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]


@kernel
def combined(a, b, out):
    out[0] = a + b
    out[1] = a - b
    out[2] = a * b
    out[3] = a / b
    out[4] = 1.0 if a < b else 0.0
    out[5] = 1.0 if a <= b else 0.0
    out[6] = 1.0 if a > b else 0.0
    out[7] = 1.0 if a >= b else 0.0
    out[8] = 1.0 if a == b else 0.0
    out[9] = 1.0 if a != b else 0.0
    out[10] = min(a, b)
    out[11] = max(a, b)


@pytest.mark.parametrize("b", SPECIAL)
@pytest.mark.parametrize("a", SPECIAL)
def test_operations_on_floats_are_pythons(a, b):
    out, wanted = np.empty(12), np.empty(12)
    combined(a, b, out)
    with np.errstate(all="ignore"):
        combined.py_func(np.float64(a), np.float64(b), wanted)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("a", "b"), [(7, 2), (9, 5), (30000, 20000), (3, 3)])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.float32])
def test_operations_on_other_numbers_are_numpys(a, b, kind):
    out, wanted = np.empty(12), np.empty(12)
    combined(kind(a), kind(b), out)
    combined.py_func(kind(a), kind(b), wanted)
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@kernel
def elements(x, matrix, i, j, out):
    out[0] = x[i]
    out[1] = matrix[i, j]
    out[2] = matrix[j][i]
    out[3] = x[-1]
    out[i + 7] = x[x.shape[0] - 1]
    matrix[j, i] += 2.0
    x[j] = matrix.shape[1] - matrix.shape[0]


@pytest.mark.parametrize("place", [np.int64, np.int32, np.uint32, np.uint64, np.uint8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_elements_are_numpys(dtype, place):
    arrays = [(np.arange(5).astype(dtype), np.arange(20).reshape(4, 5).astype(dtype), np.zeros(10)) for _ in range(2)]
    (x, matrix, out), (own_x, own_matrix, own_out) = arrays
    elements(x, matrix, place(2), place(1), out)
    elements.py_func(own_x, own_matrix, 2, 1, own_out)  # NumPy 1 adds an int to a uint64 in float64
    np.testing.assert_array_equal(out, own_out)
    np.testing.assert_array_equal(matrix, own_matrix)
    np.testing.assert_array_equal(x, own_x)


def test_a_negative_index_counts_from_the_end():
    x, matrix, out = np.arange(5.0), np.arange(20.0).reshape(4, 5), np.zeros(10)
    elements(x, matrix, -3, -1, out)
    np.testing.assert_array_equal(out[:4], [2.0, 9.0, 17.0, 4.0])
    assert matrix[3, 2] == 19.0
    assert x[4] == 1.0


@kernel
def strided(x, matrix, out):
    out[0] = x[1]
    out[1] = matrix[1, 2]
    out[2] = matrix[1][2]


def test_arrays_that_are_not_c_ordered_are_numbas():
    x, matrix, out = np.arange(10.0)[::2], np.asfortranarray(np.arange(20.0).reshape(4, 5)), np.empty(3)
    strided(x, matrix, out)
    np.testing.assert_array_equal(out, [2.0, 7.0, 7.0])


@kernel
def marked(flags, out):
    for i in range(flags.shape[0]):
        flags[i] = not flags[i]
        out[i] += flags[i]


def test_flags_are_elements_too():
    flags, out = np.array([True, False, True]), np.zeros(3)
    marked(flags, out)
    np.testing.assert_array_equal(flags, [False, True, False])
    np.testing.assert_array_equal(out, [0.0, 1.0, 0.0])


@kernel
def added_in_place(x, y):
    x += y
    return x[0]


def test_an_array_is_added_in_place():
    x = np.arange(3.0)
    assert added_in_place(x, np.ones(3)) == 1.0
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


@kernel
def extremes_of(pair):
    return min(*pair), max(*pair)


def test_the_extremes_of_an_unpacked_tuple_are_pythons():
    assert extremes_of((1.0, 2.0)) == (1.0, 2.0)
    assert extremes_of((2.0, -1.0)) == (-1.0, 2.0)
