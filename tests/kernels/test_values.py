"""Kernel values by the block and sums of them, against the kernel function."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.kernels.function import make_kernel
from dualgap.kernels.sums import Expansion, expansion
from dualgap.kernels.values import KernelBlocks, exact_in_float32

N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
X[RNG.random(X.shape) < 0.8] = 0.0


@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_blocks_and_expansions_are_the_kernel(name, storage):
    kernel = make_kernel(name, X, gamma=0.3)
    data, expected = storage(X), kernel(X, X)
    for dtype, error in ((np.float32, 1e-5), (np.float64, 1e-12)):
        blocks, store = KernelBlocks(kernel, data, dtype), np.zeros((7, N), dtype=dtype)
        blocks.write_rows(blocks.own(np.array([5, 250])), store, np.array([3, 0]))
        np.testing.assert_allclose(store[[3, 0]], expected[[5, 250]], atol=error)
    a = np.where(RNG.random(N) < 0.5, RNG.normal(size=N), 0.0)
    np.testing.assert_allclose(expansion(kernel, storage(X[:9]), data, a), expected[:9] @ a, atol=1e-11)
    several = np.stack([a, np.roll(a, 7), np.zeros(N)], axis=1)
    np.testing.assert_allclose(expansion(kernel, storage(X[:9]), data, several), expected[:9] @ several, atol=1e-11)
    known = Expansion(kernel, data)
    for _ in range(12):  # more often than changes are added up
        a[RNG.integers(N, size=5)] += 1.0
        np.testing.assert_allclose(known.scores(a), expected @ a, atol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "poly"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("factor", "taken"), [(1.0, True), (1.0 + 2.0**-20, False), (4001.0, False)])
def test_products_of_whole_numbers_in_float32_are_exact_or_not_taken(name, storage, factor, taken):
    """Expansions are in float64: products may be in float32 only where that changes nothing."""
    rng = np.random.default_rng(5)
    data = np.floor(rng.exponential(1.0, size=(200, 40))) * (rng.random((200, 40)) < 0.2) * factor
    assert exact_in_float32(data) == exact_in_float32(storage(data)) == taken
    kernel, a = make_kernel(name, gamma=0.01 / factor**2, degree=2), rng.normal(size=200)
    exact = kernel(data, data) @ a
    np.testing.assert_allclose(expansion(kernel, storage(data), storage(data), a), exact, rtol=1e-12, atol=1e-11)
    several = np.stack([a, a[::-1]], axis=1)
    np.testing.assert_allclose(
        expansion(kernel, storage(data[:30]), storage(data), several)[:, 0], exact[:30], rtol=1e-12, atol=1e-11
    )
    mixed = expansion(kernel, storage(data[:30] + 0.25), storage(data), a)  # whole numbers on one side only
    np.testing.assert_allclose(mixed, kernel(data[:30] + 0.25, data) @ a, rtol=1e-12, atol=1e-11)


def test_float32_distances_far_from_the_origin():
    kernel, store = make_kernel("rbf", gamma=0.7), np.zeros((1, N), dtype=np.float32)
    blocks = KernelBlocks(kernel, X + 1000.0, np.float32)
    blocks.write_rows(blocks.own(np.array([5])), store, np.array([0]))
    np.testing.assert_allclose(store[0], kernel(X[5:6], X)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_with_many_features_have_the_values_of_dense_ones(name, dtype):
    """More features than a panel has lines for; some rows are empty, and the second collection has features that the first lacks."""
    rng = np.random.default_rng(5)
    A = sparse.random_array((150, 3000), density=0.003, format="csr", rng=rng)
    A = sparse.csr_array(sparse.vstack([A, sparse.csr_array((3, 3000))]))
    kernel = make_kernel(name, gamma=0.7, coef0=1.0, degree=2)
    expected = kernel(A.toarray(), A.toarray())
    blocks = KernelBlocks(kernel, A, dtype)
    wanted, tolerance = np.array([0, 7, 152, 33, 140]), 1e-5 if dtype == np.float32 else 1e-12
    store = np.empty((5, 153), dtype=dtype)
    blocks.write_rows(blocks.own(wanted), store, np.arange(5))
    np.testing.assert_allclose(store, expected[wanted], rtol=tolerance, atol=tolerance)
    a, out = rng.normal(size=153), np.zeros(153)
    blocks.add_sums(blocks.other(A), a, out)
    np.testing.assert_allclose(out, expected @ a, rtol=10 * tolerance, atol=100 * tolerance)


def test_huge_whole_numbers_are_not_exact_in_float32():
    assert not exact_in_float32(np.full((2, 2), 1e200))
