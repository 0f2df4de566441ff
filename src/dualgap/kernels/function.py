"""Kernel functions: linear, RBF, polynomial, sigmoid, precomputed, or a callable."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.core import is_sparse, number
from dualgap.kernels.distances import half_distances, needs_differences, origin_of, shifted, squares

__all__ = ["KERNELS", "Kernel", "call_kernel", "make_kernel", "squares"]

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """k(x, z) by name, or a callable that takes two arrays of rows, both read-only, and returns their kernel matrix."""

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    function: Callable[[Any, Any], Any] | None = None

    def __call__(self, A: Any, B: Any) -> np.ndarray:
        """Return the matrix of k(a, b) for the rows a of A and b of B."""
        if self.name == "precomputed":
            return np.ascontiguousarray(A)
        if self.function is not None:
            return self._called(A, B)
        if self.name == "rbf":
            return self._gaussian(A, B)
        # Products in float32 have errors of 1e-7, which leave the matrix indefinite.
        return self.from_products(_products(A, B))

    def _gaussian(self, A: Any, B: Any) -> np.ndarray:
        dense = not is_sparse(A) and not is_sparse(B)
        if dense and (origin := origin_of(B)) is not None:
            A, B = shifted(A, origin), shifted(B, origin)
        left, right = squares(A), squares(B)
        if dense and needs_differences(self.gamma, np.concatenate([left, right]), A.shape[1]):
            k = half_distances(A.astype(np.float64, copy=False), B.astype(np.float64, copy=False))
            k *= 2.0 * self.gamma
            return np.exp(k, out=k)
        k = _products(A, B)
        k *= -2.0
        k += left[:, None]
        k += right[None, :]
        np.maximum(k, 0.0, out=k)  # rounding may leave a distance just below zero
        k *= -self.gamma
        return np.exp(k, out=k)

    def from_products(self, k: np.ndarray) -> np.ndarray:
        """Overwrite inner products with kernel values, for the kernels that depend on nothing else."""
        if self.name == "linear":
            return k
        k *= self.gamma
        k += self.coef0
        return np.power(k, self.degree, out=k) if self.name == "poly" else np.tanh(k, out=k)

    def _called(self, A: Any, B: Any) -> np.ndarray:
        assert self.function is not None
        k = call_kernel(self.function, A, B, f"kernel {self.name}").astype(np.float64, copy=False)
        if k.shape != (A.shape[0], B.shape[0]):
            raise ValueError(f"kernel {self.name} returned shape {k.shape}; for these rows it must be {(A.shape[0], B.shape[0])}")
        if not np.isfinite(k).all():
            row, column = np.argwhere(~np.isfinite(k))[0]
            raise ValueError(
                f"kernel {self.name} returned {k[row, column]} at row {row}, column {column}; every value must be finite"
            )
        return k

    @property
    def semidefinite(self) -> bool:
        """Whether every matrix of this kernel is positive semidefinite by its formula. False: that depends on the data."""
        if self.function is not None:
            return False
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0 and self.degree == int(self.degree))

    def diagonal(self, A: Any) -> np.ndarray:
        """Return k(a, a) for each row a."""
        if self.name == "rbf":
            return np.ones(A.shape[0])
        if self.name == "precomputed":
            return np.ascontiguousarray(np.diagonal(A), dtype=np.float64)
        if self.function is not None:
            return np.array([float(self._called(A[i : i + 1], A[i : i + 1])[0, 0]) for i in range(A.shape[0])])
        lengths = squares(A)
        if self.name == "linear":
            return lengths
        inner = self.gamma * lengths + self.coef0
        return inner**self.degree if self.name == "poly" else np.tanh(inner)


def call_kernel(function: Callable[[Any, Any], Any], A: Any, B: Any, name: str) -> np.ndarray:
    """Return what a user's function makes of two collections of samples, as float32 or float64; it gets arrays and matrices read-only."""
    left = _read_only(A)
    values = function(left, left if A is B else _read_only(B))
    k = np.asarray(values.toarray() if is_sparse(values) else values)
    if k.dtype.kind == "c" or (k.dtype.kind == "O" and any(isinstance(value, complex) for value in k.flat)):
        raise ValueError(
            f"{name} returned complex numbers (dtype {k.dtype}); kernel values are real: return the real part, if that is meant"
        )
    try:
        return np.asarray(k, dtype=np.float32 if k.dtype == np.float32 else np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{name} returned values of dtype {k.dtype}; a matrix of real numbers is needed") from None


def _read_only(X: Any) -> Any:
    """Return a view of an array or compressed matrix that cannot be written to; a copy of other tables; any other collection as it is."""
    if isinstance(X, np.ndarray):
        X = X.view()
        X.flags.writeable = False
    elif is_sparse(X) and hasattr(X, "indptr"):
        X = copy.copy(X)
        X.data, X.indices, X.indptr = _read_only(X.data), _read_only(X.indices), _read_only(X.indptr)
    elif is_sparse(X) or hasattr(X, "iloc"):  # pandas; polars has no way to write in place
        X = X.copy()
    return X


def _products(A: Any, B: Any) -> np.ndarray:
    product: Any = A.astype(np.float64, copy=False) @ B.astype(np.float64, copy=False).T
    return np.ascontiguousarray(product.toarray() if is_sparse(product) else product)


def make_kernel(kernel: Any, X: Any = None, gamma: float | str = "scale", degree: int = 3, coef0: float = 0.0) -> Kernel:
    """Return a Kernel from a name or a callable; gamma 'scale' is 1/(d·var(X)) and 'auto' is 1/d, as in scikit-learn."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Kernel(getattr(kernel, "__name__", "callable"), function=kernel)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown; choose one of {list(KERNELS)} or pass a callable")
    number("degree", degree, "[0, inf)")
    number("coef0", coef0, "(-inf, inf)", "a finite number")
    if kernel == "poly" and degree != int(degree):
        raise ValueError(
            f"degree={degree!r} must be a whole number for kernel='poly': a fractional power of a negative number is not real"
        )
    return Kernel(kernel, _gamma(gamma, X) if kernel in ("rbf", "poly", "sigmoid") else 1.0, degree, coef0)


def _gamma(gamma: float | str, X: Any) -> float:
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma={gamma!r} is unknown; give a positive number, 'scale' or 'auto'")
        if X is None:
            raise ValueError(f"gamma={gamma!r} needs the data; give a positive number instead")
        return 1.0 / X.shape[1] if gamma == "auto" else _scale_gamma(X)
    return number("gamma", gamma, wanted="a positive number, 'scale' or 'auto'")


def _scale_gamma(X: Any) -> float:
    if is_sparse(X):
        variance = float(squares(X).sum()) / (X.shape[0] * X.shape[1]) - float(X.mean(dtype=np.float64)) ** 2
    else:
        variance = float(X.var(dtype=np.float64))
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
