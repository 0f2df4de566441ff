"""Feature maps z with z(x)·z(x') ≈ k(x, x'): Nyström (Williams and Seeger 2001) and random Fourier features (Rahimi and Recht 2007)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.kernels.function import Kernel

__all__ = ["FEATURE_BLOCK", "METHODS", "Fourier", "Nystroem"]

METHODS = {"nystroem": "Nyström", "fourier": "random Fourier"}
FEATURE_BLOCK = 1 << 22  # numbers of features computed at once: 32 MB


class Nystroem:
    """z(x) = K(L, L)^(−1/2) k(L, x) for landmarks L drawn from the rows without replacement; eigenvectors of eigenvalue 0 are dropped."""

    def __init__(self, kernel: Kernel, X: Any, features: int, rng: np.random.Generator) -> None:
        self.kernel = kernel
        self.landmarks = X[np.sort(rng.choice(X.shape[0], min(features, X.shape[0]), replace=False))]
        values, vectors = np.linalg.eigh(kernel(self.landmarks, self.landmarks))
        kept = values > 1e-12 * values[-1]
        if values[0] < -1e-8 * values[-1]:
            raise ValueError(
                f"kernel {kernel.name!r} is not positive semidefinite on these rows: it has no features to approximate"
            )
        self.map = vectors[:, kept] / np.sqrt(values[kept])

    def __call__(self, X: Any) -> np.ndarray:
        out = np.empty((X.shape[0], self.map.shape[1]))
        step = max(1, FEATURE_BLOCK // self.map.shape[0])
        for first in range(0, X.shape[0], step):
            np.matmul(self.kernel(X[first : first + step], self.landmarks), self.map, out=out[first : first + step])
        return out


class Fourier:
    """z(x) = √(2/m)·cos(Wx + t) with W normal and t uniform, for the RBF kernel: scikit-learn's RBFSampler."""

    def __init__(self, kernel: Kernel, X: Any, features: int, rng: np.random.Generator) -> None:
        from sklearn.kernel_approximation import RBFSampler

        if kernel.name != "rbf":
            raise ValueError(f"method='fourier' is for kernel='rbf'; kernel={kernel.name!r} can have method='nystroem'")
        sampler = RBFSampler(gamma=kernel.gamma, n_components=features, random_state=int(rng.integers(2**31)))
        self.sampler = sampler.fit(X[:1])  # it reads the number of columns, nothing else

    def __call__(self, X: Any) -> np.ndarray:
        return np.ascontiguousarray(self.sampler.transform(X), dtype=np.float64)
