"""Rows: every storage reads the same matrix, compiled as interpreted; nothing is copied, nothing of the caller's is written to."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.core.jit import kernel
from dualgap.core.rows import CSR, Dense, Gram, WithBias, accumulate, csr, dense, gram, nbytes, part, scores, sqnorms
from reference import soft

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 7)) * (RNG.random((20, 7)) < 0.6)
X[4] = 0.0


def unsorted(matrix):
    """The same CSR matrix with the columns of each row in another order."""
    matrix = matrix.copy()
    rng = np.random.default_rng(1)
    for first, last in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        turn = rng.permutation(last - first) + first
        matrix.indices[first:last], matrix.data[first:last] = matrix.indices[turn], matrix.data[turn]
    matrix.has_sorted_indices = False
    return matrix


def wide(matrix):
    """The same CSR matrix with 64-bit indices."""
    matrix = matrix.copy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


STORAGES = {
    "dense": dense(X),
    "dense32": dense(X.astype(np.float32)),
    "csr": csr(sparse.csr_matrix(X)),
    "csr_array": csr(sparse.csr_array(X)),
    "csr_int64": csr(wide(sparse.csr_matrix(X))),
    "csr_unsorted": csr(unsorted(sparse.csr_matrix(X))),
    "csr32": csr(sparse.csr_matrix(X.astype(np.float32))),
    "with_bias": WithBias(dense(X), 1.5, -0.25),
}
by_storage = pytest.mark.parametrize("name", list(STORAGES))


def values_of(name):
    """The matrix that a storage holds, and what is added to every score."""
    if name == "with_bias":
        return np.hstack([X, np.full((20, 1), 1.5)]), -0.25
    return (X.astype(np.float32).astype(np.float64) if "32" in name else X), 0.0


@kernel
def compiled_soft_dots(rows, v, t, out):
    for i in range(rows.length()):
        rows.prefetch(i)  # must be harmless on every row, the last and the empty ones too
        out[i] = rows.soft_dot(i, v, t)


@by_storage
def test_compiled_reads_are_those_of_the_matrix(name):
    rows, (matrix, centre) = STORAGES[name], values_of(name)
    v = np.random.default_rng(2).normal(size=matrix.shape[1])
    out = np.empty(20)
    scores(rows, v, out)
    np.testing.assert_allclose(out, matrix @ v + centre, rtol=1e-12, atol=1e-14)
    w = np.append(soft(v[:-1], 0.4), v[-1]) if name == "with_bias" else soft(v, 0.4)  # a bias has no l1 part
    compiled_soft_dots(rows, v, 0.4, out)
    np.testing.assert_allclose(out, matrix @ w + centre, rtol=1e-12, atol=1e-14)
    sqnorms(rows, out)
    np.testing.assert_allclose(out, np.sum(matrix**2, axis=1), rtol=1e-12)
    a = np.random.default_rng(3).normal(size=20)
    a[5] = 0.0
    sums = v.copy()
    accumulate(rows, a, sums)
    np.testing.assert_allclose(sums, v + matrix.T @ a, rtol=1e-12, atol=1e-13)


@kernel
def compiled_clipped_dots(rows, v, low, high, out):
    for i in range(rows.length()):
        out[i] = rows.clipped_dot(i, v, 0.5, 0.1, low, high)


@by_storage
def test_clipped_reads_are_those_of_the_clipped_vector(name):
    rows, (matrix, centre) = STORAGES[name], values_of(name)
    v = np.random.default_rng(2).normal(size=matrix.shape[1])
    low, high = np.array([-np.inf, 0.0, -0.2, 0.1, -np.inf, -0.3, 0.0]), np.array([np.inf, np.inf, 0.2, 0.3, -0.1, -0.3, 0.0])
    w = np.clip(soft(0.5 * v[:7], 0.1), low, high)
    if name == "with_bias":  # a bias has neither an l1 part nor bounds
        w, centre = np.append(w, 0.5 * v[-1]), 0.5 * centre
    out = np.empty(20)
    compiled_clipped_dots(rows, v, low, high, out)
    np.testing.assert_allclose(out, matrix @ w + centre, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose([rows.clipped_dot(i, v, 0.5, 0.1, low, high) for i in range(20)], out, rtol=1e-12, atol=1e-14)


@kernel
def compiled_squares(rows, a, v):
    for i in range(rows.length()):
        rows.add_squares(i, a[i], v)


@by_storage
def test_squares_are_added_entry_by_entry(name):
    rows, (matrix, _) = STORAGES[name], values_of(name)
    a, v = np.random.default_rng(3).normal(size=20), np.random.default_rng(2).normal(size=matrix.shape[1])
    compiled, interpreted = v.copy(), v.copy()
    compiled_squares(rows, a, compiled)
    for i in range(20):
        rows.add_squares(i, a[i], interpreted)
    np.testing.assert_allclose(compiled, v + (matrix**2).T @ a, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(interpreted, compiled, rtol=1e-6)


@by_storage
def test_interpreted_methods_are_the_compiled_ones(name):
    rows, (matrix, _) = STORAGES[name], values_of(name)
    v = np.random.default_rng(2).normal(size=matrix.shape[1])
    assert rows.length() == 20
    compiled = np.empty((3, 20))
    scores(rows, v, compiled[0])
    compiled_soft_dots(rows, v, 0.4, compiled[1])
    sqnorms(rows, compiled[2])
    interpreted = [[rows.dot(i, v), rows.soft_dot(i, v, 0.4), rows.sqnorm(i)] for i in range(20)]
    np.testing.assert_allclose(compiled.T, interpreted, rtol=1e-12, atol=1e-14)
    changed = v.copy()
    rows.add(3, 2.0, changed)
    np.testing.assert_allclose(changed, v + 2.0 * matrix[3], rtol=1e-12)
    rows.prefetch(19)


def test_gram_rows_hold_scores():
    K = X @ X.T
    rows, v = gram(K), X @ np.arange(7.0)  # the scores of w = 0…6
    out = np.empty(20)
    scores(rows, v, out)
    np.testing.assert_array_equal(out, v)
    sqnorms(rows, out)
    np.testing.assert_allclose(out, np.sum(X**2, axis=1), rtol=1e-12)
    a = np.random.default_rng(3).normal(size=20)
    accumulate(rows, a, v)
    np.testing.assert_allclose(v, X @ (np.arange(7.0) + X.T @ a), rtol=1e-12, atol=1e-12)
    assert rows.dot(2, v) == v[2]
    assert np.isnan(rows.soft_dot(2, v, 0.1))
    assert np.isnan(rows.clipped_dot(2, v, 1.0, 0.1, v, v))


def test_bias_around_a_gram_matrix():
    K = X @ X.T
    rows = WithBias(gram(K), 2.0, 0.5)
    v = np.zeros(21)
    accumulate(rows, np.ones(20), v)
    np.testing.assert_allclose(v[:20], K.sum(axis=0), rtol=1e-12)
    assert v[20] == 40.0
    out = np.empty(20)
    scores(rows, v, out)
    np.testing.assert_allclose(out, K.sum(axis=0) + 80.5, rtol=1e-12)


def test_a_column_given_twice_counts_twice():
    matrix = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    out, v = np.empty(1), np.zeros(2)
    scores(csr(matrix), np.array([10.0, 1.0]), out)
    assert out[0] == 34.0
    accumulate(csr(matrix), np.ones(1), v)
    np.testing.assert_array_equal(v, [3.0, 4.0])


def test_products_of_sparse_rows_of_every_length():
    lengths = np.arange(60)  # some are summed in four parts, with 0 to 3 entries left
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix((rng.standard_normal(indptr[-1]), rng.integers(0, 9, indptr[-1]), indptr), shape=(60, 9))
    v, out = rng.standard_normal(9), np.empty(60)
    scores(csr(X), v, out)
    np.testing.assert_allclose(out, X @ v, rtol=1e-12, atol=1e-12)


def test_float32_sums_are_taken_in_float64():
    x = np.full((1, 4096), 0.1, dtype=np.float32)
    v = np.full(4096, 1e-3)
    exact = 4096 * float(np.float32(0.1))
    for rows in (dense(x), csr(sparse.csr_matrix(x))):
        out = np.empty(1)
        scores(rows, v, out)
        assert out[0] == pytest.approx(exact * 1e-3, rel=1e-13)
        sqnorms(rows, out)
        assert out[0] == pytest.approx(4096 * float(np.float32(0.1)) ** 2, rel=1e-13)


def test_views_share_memory_and_are_read_only():
    matrix = sparse.csr_matrix(X)
    for rows, arrays in (
        (dense(X), [X]),
        (csr(matrix), [matrix.indptr, matrix.indices, matrix.data]),
        (gram(X @ X.T), []),
    ):
        for view in rows:
            assert not view.flags.writeable
        for view, array in zip(rows, arrays, strict=False):
            assert np.shares_memory(view, array)
    assert X.flags.writeable
    assert matrix.data.flags.writeable


def test_negative_zero_width_and_empty_rows():
    matrix = sparse.csr_matrix((3, 5))
    out = np.full(3, np.nan)
    scores(csr(matrix), np.ones(5), out)
    np.testing.assert_array_equal(out, 0.0)
    sqnorms(csr(matrix), out)
    np.testing.assert_array_equal(out, 0.0)


@pytest.mark.parametrize("rows", [dense(X), csr(sparse.csr_matrix(X)), csr(unsorted(sparse.csr_matrix(X)))])
@pytest.mark.parametrize(("first", "last"), [(0, 6), (3, 9), (0, 20), (19, 20)])
def test_part(rows, first, last):
    some_rows = part(rows, first, last)
    assert type(some_rows) is type(rows)
    assert some_rows.length() == last - first
    out = np.empty(last - first)
    scores(some_rows, np.arange(7.0), out)
    np.testing.assert_allclose(out, X[first:last] @ np.arange(7.0), rtol=1e-12, atol=1e-14)


def test_part_of_a_kernel_matrix_is_a_square():
    K = X @ X.T
    np.testing.assert_array_equal(part(gram(K), 0, 3).k, K[:3, :3])


def test_nbytes():
    matrix = sparse.csr_matrix(X)
    assert nbytes(dense(X)) == X.nbytes
    assert nbytes(WithBias(dense(X), np.float64(1.0), 0.0)) == X.nbytes
    assert nbytes(csr(matrix)) == matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


def test_the_types_are_what_kernels_dispatch_on():
    assert [type(r) for r in (dense(X), csr(sparse.csr_matrix(X)), gram(X @ X.T))] == [Dense, CSR, Gram]
