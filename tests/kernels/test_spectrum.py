"""Clipped and shifted spectra beside the formulas, and the kernel that a clipped spectrum is on new rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.kernels import SpectrumClip, SpectrumShift


def indefinite(rng, n):
    """A symmetric matrix with eigenvalues of both signs."""
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.concatenate([rng.uniform(0.5, 5.0, n - n // 3), -rng.uniform(0.1, 2.0, n // 3)])
    return (vectors * values) @ vectors.T, values


@given(seed=st.integers(0, 10**6), n=st.integers(3, 20))
def test_clip_is_the_nearest_semidefinite_matrix(seed, n):
    rng = np.random.default_rng(seed)
    K, values = indefinite(rng, n)
    clip = SpectrumClip(K)
    assert np.linalg.eigvalsh(clip.matrix)[0] >= -1e-12
    # The distance of the nearest one is the length of the negative eigenvalues; it is orthogonal to what was cut off.
    assert np.linalg.norm(clip.matrix - K) == pytest.approx(np.linalg.norm(values[values < 0]))
    assert np.vdot(clip.matrix, clip.matrix - K) == pytest.approx(0.0, abs=1e-10)
    assert clip.change == pytest.approx(np.linalg.norm(values[values < 0]) / np.linalg.norm(values))
    assert (clip.lowest, clip.highest) == pytest.approx((values.min(), values.max()))


@given(seed=st.integers(0, 10**6), n=st.integers(3, 20))
def test_a_clipped_kernel_of_new_rows_is_semidefinite_and_agrees_with_its_coefficients(seed, n):
    rng = np.random.default_rng(seed)
    K, _ = indefinite(rng, n)
    clip, new, a = SpectrumClip(K), rng.normal(size=(5, n)), rng.normal(size=n)
    values, own = clip.new_values(new)
    np.testing.assert_allclose(values @ a, new @ clip.coefficients(a), atol=1e-9)
    np.testing.assert_allclose(clip.new_values(K)[0], clip.matrix, atol=1e-9)  # training rows, seen again
    features = clip.features(new)
    whole = np.block([[clip.matrix, values.T], [values, features @ features.T]])
    np.testing.assert_allclose(np.diag(whole)[n:], own)
    assert np.linalg.eigvalsh(whole)[0] >= -1e-9 * np.abs(whole).max() * n


@given(seed=st.integers(0, 10**6), n=st.integers(3, 20))
def test_shift_adds_to_the_diagonal_alone(seed, n):
    rng = np.random.default_rng(seed)
    K, values = indefinite(rng, n)
    shift = SpectrumShift(K)
    np.testing.assert_allclose(shift.matrix, K - values.min() * np.eye(n), atol=1e-12)
    assert shift.change == pytest.approx(np.linalg.norm(shift.matrix - K) / np.linalg.norm(K))
    assert np.array_equal(shift.coefficients(values), values)


@pytest.mark.parametrize("kind", [SpectrumClip, SpectrumShift])
def test_a_semidefinite_matrix_stays_as_it_is(kind):
    X = np.random.default_rng(0).normal(size=(8, 3))
    found = kind(X @ X.T)
    assert found.is_semidefinite(0.0)
    assert found.change == 0.0
    assert np.array_equal(found.matrix, X @ X.T)
