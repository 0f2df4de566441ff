"""The spectrum of a kernel matrix: whether it is positive semidefinite, and a matrix near to it that is.

With a negative eigenvalue aᵀKa is not a squared norm: the objective has no minimum, and dual values bound nothing. `Kernel.semidefinite`
tells the kernels whose formula rules that out; for any other the matrix itself decides.

The assumption for a matrix that is given: it is positive semidefinite up to the rounding of its entries. Rounding changes each entry kᵢⱼ by
at most u|kᵢⱼ|, u = ε/2 of its precision, and so each eigenvalue by at most u‖K‖_F (Weyl). A matrix computed in that precision is off by a
little more: ε‖K‖_F is allowed.

A spectrum is clipped or shifted. K = VΛVᵀ is the symmetric matrix of a kernel k on the training rows, and k(x) the vector of the values
k(xᵢ, x) of a new row x.

- `SpectrumClip` sets negative eigenvalues to 0. K₊ = V₊Λ₊V₊ᵀ is the semidefinite matrix nearest to K in the Frobenius norm (Higham
  1988). It is the matrix of a semidefinite kernel that is known for new rows, too:

      k₊(x, z) = k(x)ᵀ V₊ Λ₊⁻¹ V₊ᵀ k(z)          k₊(xᵢ, x) = (P k(x))ᵢ with the projection P = V₊V₊ᵀ, since Λ V₊ᵀeᵢ is V₊ᵀk(xᵢ)

  A score Σ aᵢ k₊(xᵢ, x) therefore equals Σ (Pa)ᵢ k(xᵢ, x): new rows need no other values than those of k (Chen et al. 2009, "linear
  transformation" of training and test rows alike).
- `SpectrumShift` adds −λ_min to the diagonal, which changes how similar a row is to itself and nothing else. New rows keep the values of k
  (Wu et al. 2005). It is no kernel of new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "WHOLE_SPECTRUM",
    "Spectrum",
    "SpectrumClip",
    "SpectrumShift",
    "extreme_eigenvalues",
    "is_semidefinite",
    "rounding_of",
]

TOLERANCE = 1e-10  # relative to the largest eigenvalue: above the rounding of float64, far below what changes a certificate
WHOLE_SPECTRUM = 2000  # rows up to which all eigenvalues are computed; beyond, a Lanczos iteration finds the two extreme ones


def is_semidefinite(low: float, high: float, rounding: float = 0.0) -> bool:
    """Whether a matrix with these extreme eigenvalues is positive semidefinite, up to the given rounding of eigenvalues."""
    return low >= -max(TOLERANCE * high, rounding) and high >= 0.0


def rounding_of(matrix: np.ndarray) -> float:
    """Return a bound on what the rounding of its entries to their precision changes an eigenvalue of a matrix by: ε‖K‖_F."""
    if matrix.dtype.kind != "f" or matrix.dtype == np.float64:
        return 0.0  # below TOLERANCE
    largest = float(np.abs(matrix).max(initial=0.0))
    squares = sum(float(np.square(row / largest, dtype=np.float64).sum()) for row in matrix) if largest else 0.0
    return float(np.finfo(matrix.dtype).eps) * largest * float(np.sqrt(squares))


def extreme_eigenvalues(matrix: np.ndarray | None, n: int, product: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a matrix; if it is None, of the n × n one of which `product` is K·v.

    From Lanczos iterations on products, the first is an upper bound of the smallest eigenvalue.
    """
    if matrix is not None:
        values = np.linalg.eigvalsh(matrix.astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator: Any = LinearOperator((n, n), matvec=lambda v: product(np.ravel(v)), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    values = eigsh(operator, k=2, which="BE", v0=start, tol=1e-8, return_eigenvectors=False)
    return float(min(values)), float(max(values))


class Spectrum:
    """A kernel matrix, and the semidefinite one made from it.

    Sets: `lowest` and `highest`, the extreme eigenvalues of the matrix given; `matrix`, the semidefinite one, which is the one given where
    that is semidefinite up to `rounding`; `change`, ‖matrix − given‖ / ‖given‖ in the Frobenius norm.
    """

    name: ClassVar[str]
    matrix: np.ndarray
    lowest: float
    highest: float
    change: float = 0.0

    def is_semidefinite(self, rounding: float) -> bool:
        """Return whether the matrix given is positive semidefinite already."""
        return is_semidefinite(self.lowest, self.highest, rounding)

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        """Return the coefficients of the given kernel's values that make the scores of the coefficients a of this one."""
        raise NotImplementedError


class SpectrumClip(Spectrum):
    """K₊: the negative eigenvalues of K, and those that are 0 up to rounding, are set to 0."""

    name: ClassVar[str] = "clip"

    def __init__(self, matrix: np.ndarray, rounding: float = 0.0) -> None:
        given = _symmetric(matrix)
        values, vectors = np.linalg.eigh(given)
        self.lowest, self.highest = float(values[0]), float(values[-1])
        kept = values > TOLERANCE * max(self.highest, 0.0)
        self.vectors, self.values = vectors[:, kept], values[kept]
        self.matrix = matrix
        if not self.is_semidefinite(rounding):
            scaled = self.vectors * np.sqrt(self.values)
            self.matrix = scaled @ scaled.T
            self.change = _relative(self.matrix - given, given)

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        return self.vectors @ (self.vectors.T @ a)

    def features(self, values: np.ndarray) -> np.ndarray:
        """Return Λ₊^(−1/2) V₊ᵀ k(x) for rows of values k(x): vectors whose inner products are k₊."""
        return values @ (self.vectors / np.sqrt(self.values))

    def new_values(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return k₊(xᵢ, x), a line for each new row x, and k₊(x, x), from the values k(xᵢ, x)."""
        features = self.features(values)
        return features @ (self.vectors * np.sqrt(self.values)).T, np.square(features).sum(axis=1)


class SpectrumShift(Spectrum):
    """K + shift·I with shift = −λ_min."""

    name: ClassVar[str] = "shift"

    def __init__(self, matrix: np.ndarray, rounding: float = 0.0) -> None:
        given = _symmetric(matrix)
        values = np.linalg.eigvalsh(given)
        self.lowest, self.highest = float(values[0]), float(values[-1])
        self.matrix, self.shift = matrix, 0.0
        if not self.is_semidefinite(rounding):
            self.shift = -self.lowest
            given.flat[:: len(given) + 1] += self.shift
            self.matrix = given
            self.change = self.shift * float(np.sqrt(len(given))) / float(np.linalg.norm(matrix))

    def coefficients(self, a: np.ndarray) -> np.ndarray:
        return a


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    """Return a copy in float64 without the asymmetry that rounding leaves."""
    wide = matrix.astype(np.float64)
    return np.asarray(0.5 * (wide + wide.T))


def _relative(difference: np.ndarray, given: np.ndarray) -> float:
    return float(np.linalg.norm(difference) / np.linalg.norm(given))
