"""Weighted Gram matrices of rows, and Cholesky solves, against NumPy."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from dualgap.core import rows as storage
from dualgap.core.linalg import NARROW, gram_of_rows, solve_by_rows, solve_in_place, solve_positive


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


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_a_factor_of_the_rows_solves_what_a_cholesky_factor_refuses(scale, bias):
    """diag(ridge) + XᵀcX with fewer rows than columns: at a scale of 1e5 its condition number is about 1e16."""
    rng = np.random.default_rng(4)
    X, c, ridge = scale * rng.standard_normal((6, 8)), rng.random(6), np.full(8 + (bias > 0), 1e-6)
    A = np.hstack([X, np.full((6, 1), bias)]) if bias else X
    x = rng.standard_normal(A.shape[1])
    exact = exact_solution(A, c, ridge, x)
    H, y = (A * c[:, None]).T @ A + np.diag(ridge), x.copy()
    assert solve_in_place(H.copy(), y) == (scale == 1.0)
    np.testing.assert_allclose(y, exact if scale == 1.0 else x, rtol=1e-5)
    x = solve_by_rows(storage.dense(X), bias, np.arange(6), c, ridge, x)
    np.testing.assert_allclose(x, exact, rtol=1e-6)


def exact_solution(A, c, ridge, right):
    """(diag(ridge) + AᵀcA)⁻¹·right by Gaussian elimination in fractions."""
    rows = [[Fraction(float(v)) for v in row] for row in A]
    d = len(ridge)
    system = [
        [sum(Fraction(float(weight)) * row[j] * row[k] for weight, row in zip(c, rows, strict=True)) for k in range(d)]
        for j in range(d)
    ]
    for j in range(d):
        system[j][j] += Fraction(float(ridge[j]))
        system[j].append(Fraction(float(right[j])))
    for j in range(d):
        for k in range(d):
            if k != j:
                ratio = system[k][j] / system[j][j]
                system[k] = [a - ratio * b for a, b in zip(system[k], system[j], strict=True)]
    return np.array([float(system[j][d] / system[j][j]) for j in range(d)])


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


@pytest.mark.parametrize("width", [9, 10, 11, NARROW + 10])
def test_products_in_float32_are_summed_in_float64(width):
    rng = np.random.default_rng(4)
    X, weight = rng.standard_normal((5000, width)), rng.random(5000)
    found = gram_of_rows(storage.dense(X), weight, width, np.float32)
    exact = (X * weight[:, None]).T @ X
    error = np.abs(np.tril(found - exact)).max()
    assert 0.0 < error < 1e-6 * exact.max()
    assert found.dtype == np.float64


def test_no_row_no_matrix():
    assert not gram_of_rows(storage.dense(np.ones((3, 2))), np.zeros(3), 2).any()


def test_rows_without_an_entry_have_no_matrix():
    rows = storage.csr(sparse.csr_matrix((6, 2)))
    assert not gram_of_rows(rows, np.ones(6), 2).any()
