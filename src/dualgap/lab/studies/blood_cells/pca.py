"""Principal components: centred, to the precision of the data, fitted on one part of the data and applied to any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["PCA", "fit_pca"]


@dataclass(frozen=True, eq=False)
class PCA:
    """x ↦ components · (x − mean), and back.

    `singular_values` are those of the centred training data, largest first, as many as were asked for: more than there are
    components where a figure shows how they fall.
    """

    mean: np.ndarray
    components: np.ndarray
    singular_values: np.ndarray

    def apply(self, X: Any) -> np.ndarray:
        """Return the coordinates of the rows of X along the components, in X's float type."""
        X = np.asarray(X)
        return (X @ self.components.T.astype(X.dtype) - (self.components @ self.mean).astype(X.dtype)).astype(X.dtype, copy=False)

    def restore(self, Z: Any) -> np.ndarray:
        """Return the rows that coordinates stand for: what is left of a picture after the reduction."""
        Z = np.asarray(Z)
        return Z @ self.components.astype(Z.dtype) + self.mean.astype(Z.dtype)


def fit_pca(X: Any, n_components: int, spectrum: int | None = None) -> PCA:
    """Fit principal components by the eigenvectors of the smaller Gram matrix of the centred data.

    `spectrum` is how many singular values to keep (at least `n_components`, by default as many). A component's sign makes its
    largest entry positive, so that the result does not depend on the linear algebra library.
    """
    X = np.asarray(X)
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    n, d = X.shape
    most = min(n - 1, d)
    if not 1 <= n_components <= most:
        raise ValueError(f"n_components is {n_components}; data of {n} × {d} have between 1 and {most} components")
    kept = min(max(spectrum or n_components, n_components), most)
    mean = X.mean(axis=0, dtype=np.float64)
    centred = np.ascontiguousarray(X - mean.astype(X.dtype))
    tall = n > d
    gram = centred.T @ centred if tall else centred @ centred.T  # NumPy computes one triangle alone
    values, vectors = _largest_eigenpairs(gram.astype(np.float64), kept)
    vectors = vectors[:, :n_components]
    components = (vectors.T if tall else vectors.T.astype(X.dtype) @ centred).astype(np.float64)
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    largest = np.abs(components).argmax(axis=1)
    components *= np.sign(components[np.arange(n_components), largest])[:, None]
    return PCA(mean, components, np.sqrt(np.maximum(values, 0.0)))


DIRECT_UP_TO = 1500  # rows; LAPACK decomposes smaller Gram matrices as a whole
FEW = 10  # ARPACK is used if the matrix has at least this many times as many rows as pairs are asked for


def _largest_eigenpairs(gram: np.ndarray, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `kept` largest eigenvalues, falling, and their vectors.

    ARPACK finds a few pairs of a large matrix to machine precision; LAPACK reduces the whole matrix first, which pays for many pairs.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    size = len(gram)
    if size <= DIRECT_UP_TO or FEW * kept > size:
        values, vectors = eigh(gram, subset_by_index=(size - kept, size - 1), overwrite_a=True)
    else:  # a random start: constant vectors lie in the null space, because the data are centred
        values, vectors = eigsh(gram, kept, v0=np.random.default_rng(0).standard_normal(size))
    return values[::-1], vectors[:, ::-1]
