"""Weighted Gram matrices of rows, and Cholesky solves, against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.core import rows as storage
from dualgap.core.linalg import NARROW, gram_of_rows, solve_positive


@pytest.mark.parametrize("size", [1, 3, 4, 5, 30, 123])
def test_solves_positive_definite_systems(size):
    rng = np.random.default_rng(size)
    A = rng.standard_normal((size, size + 5))
    H, rhs = A @ A.T, rng.standard_normal(size)
    expected = np.linalg.solve(H, rhs)
    H[np.triu_indices(size, 1)] = np.nan  # only the lower triangle may be read
    np.testing.assert_allclose(solve_positive(H, rhs), expected, rtol=1e-6)


def test_large_systems_go_to_lapack():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 700))
    H, rhs = A @ A.T, rng.standard_normal(600)
    np.testing.assert_allclose(H @ solve_positive(H, rhs), rhs, atol=1e-8)


def test_a_singular_system_gets_a_ridge():
    H, rhs = np.ones((3, 3)), np.ones(3)
    x = solve_positive(H, rhs)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(H @ x, rhs, rtol=1e-5)


@pytest.mark.parametrize("width", [5, NARROW + 10])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("bias", [False, True])
def test_gram_of_rows_is_the_weighted_sum_of_outer_products(width, kind, bias):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, width)) * (rng.random((40, width)) < 0.5)
    weight = rng.random(40) * (rng.random(40) < 0.6)
    rows = storage.dense(X) if kind == "dense" else storage.csr(sparse.csr_array(X))
    if bias:
        rows = storage.WithBias(rows, 2.0, 0.0)
        X = np.hstack([X, np.full((40, 1), 2.0)])
    found = gram_of_rows(rows, weight, X.shape[1])
    np.testing.assert_allclose(np.tril(found), np.tril((X * weight[:, None]).T @ X), atol=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["narrow", "narrow32", "wide", "csr", "unsorted"])
def test_gram_of_some_rows_in_threads(monkeypatch, threads, kind):
    rng = np.random.default_rng(3)
    width = NARROW + 10 if kind == "wide" else 9
    X = rng.standard_normal((303, width)).astype(np.float32 if kind == "narrow32" else np.float64)
    X *= rng.random(X.shape) < 0.5
    which = np.sort(rng.choice(303, 271, replace=False)).astype(np.uint32)
    if kind in ("csr", "unsorted"):
        matrix = sparse.csr_array(X)
        if kind == "unsorted":
            for i in range(303):
                part = slice(matrix.indptr[i], matrix.indptr[i + 1])
                matrix.indices[part], matrix.data[part] = matrix.indices[part][::-1].copy(), matrix.data[part][::-1].copy()
        inner = storage.csr(matrix)
    else:
        inner = storage.dense(X)
    rows = storage.WithBias(storage.Some(inner, which), 0.5, 0.0)
    weight = rng.random(271) * (rng.random(271) < 0.6)
    monkeypatch.setattr("dualgap.core.linalg.THREAD_WORK", 1)
    monkeypatch.setattr("dualgap.core.threads.processors", lambda: threads)
    A = np.hstack([X[which], np.full((271, 1), 0.5)]).astype(np.float64)
    found = gram_of_rows(rows, weight, width + 1)
    np.testing.assert_allclose(np.tril(found), np.tril((A * weight[:, None]).T @ A), atol=1e-11)


def test_no_row_no_matrix():
    assert not gram_of_rows(storage.dense(np.ones((3, 2))), np.zeros(3), 2).any()


def test_rows_without_an_entry_have_no_matrix():
    rows = storage.csr(sparse.csr_matrix((6, 2)))
    assert not gram_of_rows(rows, np.ones(6), 2).any()
