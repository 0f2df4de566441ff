"""The data of the benchmarks. A set whose file is missing is left out, and the run says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualgap import data

__all__ = ["CASES", "Case", "load_case"]


@dataclass(frozen=True)
class Case:
    """A data set as the benchmark takes it: ±1 labels, dense data standardised, sparse indices in 32 bits."""

    name: str
    X: Any
    y: np.ndarray


def _standardised(X: np.ndarray) -> np.ndarray:
    X = np.ascontiguousarray(X, dtype=np.float64)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _named(name: str, **options: Any) -> Callable[[], tuple[Any, Any]]:
    def load() -> tuple[Any, Any]:
        found = data.load(name, **options)
        return found.X, found.y

    return load


def _correlated_pictures(n: int = 60_000, d: int = 784, factors: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return dense rows whose columns share a few factors, as pixels do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, factors)) @ (rng.standard_normal((factors, d)) / 8.0)
    X += 0.3 * rng.standard_normal((n, d))
    w = rng.standard_normal(d) * (rng.random(d) < 0.2)
    noisy = X @ w / np.sqrt(d) + 0.3 * rng.standard_normal(n)
    return X, np.where(noisy > 0, 1.0, -1.0)


def _tiled_digits(n: int = 60_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, 0–4 against 5–9, repeated with noise."""
    found = data.load("digits")
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(found.y), size=n)
    X = np.asarray(found.X, dtype=np.float64)[chosen]
    return X + rng.normal(scale=2.0, size=X.shape), np.where(np.asarray(found.y, dtype=float)[chosen] >= 5, 1.0, -1.0)


def _text(n: int, d: int, nonzeros: int) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        found = data.text_like(n, d, nonzeros, seed=0)
        return found.X, found.y

    return make


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "creditcard": _named("creditcard"),
    "spambase": _named("spambase"),
    "a9a": _named("a9a"),
    "w8a": _named("w8a"),
    "news20": _named("news20-binary"),
    "pros/cons": _named("pros-cons"),
    "text 500k × 1M": _text(500_000, 1_000_000, 80),
    "pictures 60k × 784": _correlated_pictures,
    "digits tiled 60k × 64": _tiled_digits,
}


def load_case(name: str) -> Case:
    """Return a case by its name, ready to train on."""
    X, y = CASES[name]()
    y = np.asarray(y)
    y = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    if sparse.issparse(X):
        X = sparse.csr_matrix(
            (X.data.astype(np.float64, copy=False), X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape
        )
    else:
        X = _standardised(np.asarray(X))
    return Case(name, X, y)
