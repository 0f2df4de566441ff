"""One kernel matrix for several problems: its parts are the kernel's values, with the bound that belongs to them."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.kernels import HeldMatrix, distances_of, make_kernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 5))  # more rows than one block of products
X[RNG.random(X.shape) < 0.5] = 0.0


@pytest.mark.parametrize("name", ["rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("change", [lambda X: X, np.rint], ids=["floats", "whole numbers"])
def test_parts_are_the_kernel(name, storage, change):
    data = change(X)
    kernel = make_kernel(name, data, gamma=0.3)
    held, rows = HeldMatrix(kernel, storage(data), RNG.permutation(700)), np.sort(RNG.permutation(700)[:60])
    expected = kernel(data[rows], data[rows])
    part, store = held.part(rows), np.zeros((9, 60))
    part.write_rows(part.own(np.array([3, 59])), store, np.array([8, 0]))
    np.testing.assert_allclose(store[[8, 0]], expected[[3, 59]], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(part.diagonal, expected.diagonal(), rtol=1e-12, atol=1e-12)
    fewer, store = part.take(np.arange(0, 60, 7)), np.zeros((1, 9))
    fewer.write_rows(fewer.own(np.array([2])), store, np.array([0]))
    np.testing.assert_allclose(store[0], expected[14, ::7], rtol=1e-12, atol=1e-12)
    a, sums = RNG.normal(size=2), np.zeros(60)
    part.add_sums(part.own(np.array([3, 59])), a, sums)
    np.testing.assert_allclose(sums, a @ expected[[3, 59]], rtol=1e-12, atol=1e-12)


def test_bounds_are_those_of_the_rows_that_the_values_were_computed_with():
    """Distances are computed with the origin of all rows: the rows of a part may be far from that, and near to their own."""
    data = X + np.where(np.arange(700) < 600, 1000.0, 1010.0)[:, None]
    rows, kernel = np.arange(600, 700), make_kernel("rbf", gamma=0.3)
    held = HeldMatrix(kernel, data, np.arange(700))
    np.testing.assert_array_equal(held.part(rows).distances.norms, distances_of(kernel, data).norms[rows])
    assert held.part(rows).distances.norms.min() > 2.0 * distances_of(kernel, data[rows]).norms.max()
    wide = data[rows].astype(np.longdouble)
    exact = np.exp(-np.longdouble(0.3) * np.square(wide[:, None] - wide[None]).sum(axis=2))
    values = np.empty((100, 100))
    held.part(rows).write_rows(held.part(rows).own(np.arange(100)), values, np.arange(100))
    assert np.abs(values - exact).max() < 1e-10
