"""Kernel functions against scikit-learn's, and what they refuse."""

import contextlib

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

import dualgap
from dualgap.kernels.function import Kernel, make_kernel, squares

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(12, 4)), RNG.normal(size=(9, 4))
A[2, :2] = 0.0
PARAMETERS = {
    "linear": {},
    "rbf": {"gamma": 0.7},
    "poly": {"gamma": 0.5, "degree": 2, "coef0": 1.5},
    "sigmoid": {"gamma": 0.1, "coef0": 0.3},
}
by_name = pytest.mark.parametrize("name", list(PARAMETERS))


@by_name
def test_values_are_scikit_learns(name):
    expected = pairwise_kernels(A, B, metric=name, **PARAMETERS[name])
    kernel = make_kernel(name, A, **PARAMETERS[name])
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(sparse.csr_matrix(A), sparse.csr_matrix(B)), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(sparse.csr_array(A), B), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(A), np.diag(pairwise_kernels(A, metric=name, **PARAMETERS[name])), rtol=1e-12)
    assert kernel(A, B).flags.c_contiguous


@by_name
def test_a_float32_array_gives_an_exact_matrix(name):
    """Far from the origin a squared distance taken in float32 is all rounding."""
    a = (A + 1000.0).astype(np.float32)
    parameters = {**PARAMETERS[name], "gamma": 1e-7} if name in ("poly", "sigmoid") else PARAMETERS[name]
    kernel = make_kernel(name, a, **parameters)
    expected = pairwise_kernels(a.astype(np.float64), metric=name, **parameters)
    assert kernel(a, a).dtype == np.float64
    np.testing.assert_allclose(kernel(a, a), expected, rtol=1e-7)


def test_lengths_of_sparse_float32_rows_are_exact():
    a = sparse.csr_matrix((1e25 * A).astype(np.float32))  # a square is beyond float32
    np.testing.assert_allclose(squares(a), (a.toarray().astype(np.float64) ** 2).sum(axis=1), rtol=1e-14)
    assert make_kernel("rbf", a, "scale").gamma == pytest.approx(1 / (4 * a.toarray().astype(np.float64).var()), rel=1e-12)


def test_inputs_are_left_alone():
    before = A.copy()
    for name, parameters in PARAMETERS.items():
        make_kernel(name, A, **parameters)(A, A)
    np.testing.assert_array_equal(A, before)


def test_gamma_by_name():
    assert make_kernel("rbf", A, "scale").gamma == pytest.approx(1 / (4 * A.var()))
    assert make_kernel("rbf", sparse.csr_matrix(A), "scale").gamma == pytest.approx(1 / (4 * A.var()))
    assert make_kernel("rbf", A, "auto").gamma == 0.25
    assert make_kernel("rbf", np.ones((3, 2)), "scale").gamma == 1.0  # a constant has no scale


def test_callable():
    kernel = make_kernel(lambda a, b: (a @ b.T) ** 2)
    np.testing.assert_allclose(kernel(A, B), (A @ B.T) ** 2)
    np.testing.assert_allclose(kernel.diagonal(A), np.sum(A**2, axis=1) ** 2)
    assert make_kernel(kernel) is kernel


def test_precomputed_is_passed_through():
    K = A @ A.T
    kernel = make_kernel("precomputed")
    assert np.shares_memory(kernel(K, None), K)
    np.testing.assert_array_equal(kernel.diagonal(K), np.diag(K))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kernel": "rbg"}, "kernel='rbg' is unknown.*rbf"),
        ({"kernel": A @ A.T}, "is unknown.*precomputed"),
        ({"kernel": "rbf", "gamma": 0.0}, "gamma=0.0 must be a positive number"),
        ({"kernel": "rbf", "gamma": float("nan")}, "gamma=nan"),
        ({"kernel": "rbf", "gamma": float("inf")}, "gamma=inf"),
        ({"kernel": "rbf", "gamma": "big"}, "gamma='big' is unknown"),
        ({"kernel": "rbf", "gamma": "scale", "X": None}, "gamma='scale' needs the data"),
        ({"kernel": "rbf", "gamma": None}, "gamma=None must be a positive number, 'scale' or 'auto'"),
        ({"kernel": "poly", "degree": -1}, "degree=-1 must be a finite number that is not negative"),
        ({"kernel": "poly", "degree": "3"}, "degree='3' must be a finite number"),
        ({"kernel": "sigmoid", "coef0": float("nan")}, "coef0=nan must be a finite number"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ValueError, match=words):
        make_kernel(**{"X": A, **arguments})


def wave(a, b):
    return (a @ b.T) * (1.0 + 0.0j)


def test_complex_values_are_refused():
    """Also where the imaginary part happens to be 0: it was dropped without a word."""
    objects = make_kernel(lambda a, b: wave(a, b).astype(object))
    with pytest.raises(ValueError, match=r"kernel wave returned complex numbers \(dtype complex128\); kernel values are real"):
        make_kernel(wave)(A, B)
    with pytest.raises(ValueError, match="returned complex numbers"):
        objects(A, B)
    with pytest.raises(ValueError, match="kernel wave returned complex"):
        dualgap.Problem(A, np.arange(12) % 2, kernel=wave)
    with pytest.raises(ValueError, match="the function given as kernel returned complex"):
        dualgap.SVC(kernel=wave).fit(A, np.arange(12) % 2)
    with pytest.raises(ValueError, match="returned values of dtype <U"):
        make_kernel(lambda a, b: np.full((len(a), len(b)), "x"))(A, B)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix, sparse.csc_array, sparse.lil_matrix, pandas.DataFrame])
def test_a_callable_cannot_change_the_callers_rows(kind):
    def spoil(a, b):
        for rows in (a, b):
            if isinstance(rows, np.ndarray):
                rows[:] = 0.0
            elif sparse.issparse(rows):
                rows.data[:] = [0.0] * len(rows.data)
            else:
                rows.iloc[:, :] = 0.0
        return np.eye(a.shape[0], b.shape[0])

    X, y = kind(A), np.arange(12) % 2
    before = X.copy()
    model = dualgap.SVC(kernel=spoil)
    with contextlib.suppress(ValueError):
        model.fit(X, y)
    assert abs(X - before).max().max() == 0.0
    if isinstance(X, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            dualgap.Problem(X, y, kernel=spoil)
        assert X.flags.writeable


def test_a_callable_may_compare_its_arguments():
    """One collection given twice stays one."""
    assert make_kernel(lambda a, b: np.full((len(a), len(b)), a is b))(A, A).all()
    assert not make_kernel(lambda a, b: np.full((len(a), len(b)), a is b))(A, B).any()


def test_a_callable_is_held_to_its_word():
    with pytest.raises(ValueError, match=r"kernel wrong returned shape \(1, 1\); for these rows it must be \(12, 12\)"):
        Kernel("wrong", function=lambda a, b: np.ones((1, 1)))(A, A)

    def hole(a, b):
        k = a @ b.T
        k[3, 1] = np.nan
        return k

    with pytest.raises(ValueError, match="kernel hole returned nan at row 3, column 1"):
        make_kernel(hole)(A, A)
