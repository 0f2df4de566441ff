"""RowCache: what is computed, evicted, kept and reserved."""

import numpy as np
import pytest

from dualgap.kernels.function import make_kernel
from dualgap.kernels.values import KernelBlocks
from dualgap.solvers.working_set.row_cache import RowCache

N = 300
X = np.random.default_rng(0).normal(size=(N, 4))


def test_the_least_recently_used_row_is_given_up():
    cache = RowCache(KernelBlocks(make_kernel("linear"), X, np.float64), memory=3 * N * 8)
    for wanted in ([0, 1, 2], [1], [0], [3]):  # 2 has not been used for longest
        cache.fetch(np.array(wanted))
    assert sorted(cache.row_in.tolist()) == [0, 1, 3]
    assert cache.computed == 4
    cache.restrict(np.array([1, 3, 7]))
    assert cache.computed == 4
    slots = cache.fetch(np.array([0, 1]))  # rows 1 and 3 of old
    assert cache.computed == 4
    np.testing.assert_allclose(cache.store[slots], (X @ X.T)[np.ix_([1, 3], [1, 3, 7])])


def test_settled_rows_are_given_up_before_new_memory_is_taken():
    cache = RowCache(KernelBlocks(make_kernel("linear"), X, np.float64), memory=9 * N * 8)
    settled = np.zeros(N, dtype=bool)
    settled[[0, 1]] = True
    for wanted in ([0, 1, 2], [3], [4, 5], [6, 7]):
        slots = cache.fetch(np.array(wanted), settled)
        np.testing.assert_allclose(cache.store[slots], X[wanted] @ X.T)
    assert sorted(cache.row_in[:6].tolist()) == [2, 3, 4, 5, 6, 7]  # 0 and 1 gave way to the first that came a step later
    assert (cache.row_in[6:] == -1).all()


def test_a_cache_that_is_extended_keeps_rows_and_computes_their_new_columns():
    blocks, kept = KernelBlocks(make_kernel("linear"), X, np.float64), np.arange(0, N, 3)
    cache = RowCache(blocks.take(kept), memory=60 * N * 8, most=N)
    cache.fetch(np.array([5, 2, 9]))
    worth = np.ones(len(kept), dtype=bool)
    worth[9] = False
    merged = np.union1d(kept, np.arange(20))
    cache.extend(blocks.take(merged), np.searchsorted(merged, kept), worth)
    computed, wanted = cache.computed, np.searchsorted(merged, kept[[5, 2]])
    slots = cache.fetch(wanted)
    assert cache.computed == computed
    np.testing.assert_allclose(cache.store[slots], (X @ X.T)[np.ix_(kept[[5, 2]], merged)])


def test_memory_that_is_lent_holds_no_row_until_it_is_given_back():
    cache = RowCache(KernelBlocks(make_kernel("linear"), X, np.float64), memory=6 * N * 8)
    cache.fetch(np.arange(6))
    memory = cache.reserve(2 * N + 5, 3)
    assert cache.reserve(2 * N + 5, 4) is None
    memory[:] = 7.0
    np.testing.assert_allclose(cache.store[cache.fetch(np.array([0, 1, 2]))], X[:3] @ X.T)
    slots = cache.fetch(np.array([20, 21, 22]), np.zeros(N, dtype=bool))
    assert slots.max() < 3
    assert (memory == 7.0).all()
    cache.release()
    assert cache.fetch(np.arange(100, 106)).max() == 5


def test_rows_that_were_not_computed_are_not_found(monkeypatch):
    """Ctrl-C while kernel rows are computed: the certificate that follows must not read what the memory held before."""
    blocks = KernelBlocks(make_kernel("rbf", X, gamma=0.7), X, np.float64)
    cache = RowCache(blocks, 8 * N * 20)
    cache.fetch(np.arange(20))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelBlocks, "write_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.fetch(np.arange(10, 30))
    monkeypatch.undo()
    found = np.flatnonzero(cache.slot_of >= 0)
    np.testing.assert_allclose(cache.store[cache.slot_of[found]], problem_rows(found), rtol=1e-12)


def problem_rows(rows):
    return make_kernel("rbf", X, gamma=0.7)(X[rows], X)
