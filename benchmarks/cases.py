"""The data of the benchmarks. A set whose file is missing is left out, and the run says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from benchmarks import DATA
from dualgap import data

__all__ = ["CASES", "GENERATED", "Case", "load_case"]


@dataclass(frozen=True)
class Case:
    """A data set as the benchmark takes it: ±1 labels, dense data standardised unless in [0, 1], sparse indices in 32 bits."""

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


def _one_newsgroup(group: int) -> Callable[[], tuple[Any, Any]]:
    """Messages of one newsgroup, 5 % of them, against those of the other nineteen; rows of length one."""

    def load() -> tuple[Any, Any]:
        found = data.load("news20")
        return normalize(found.X), np.where(np.asarray(found.y) == group, 1.0, -1.0)

    return load


def _arrays(name: str) -> Callable[[], tuple[Any, Any]]:
    """X and y of an .npz file in the folder of data sets: dense columns in [0, 1], most of them 0 or 1, taken as they are."""

    def load() -> tuple[Any, Any]:
        with np.load(DATA / f"{name}.npz") as found:
            return found["X"], found["y"]

    return load


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
    "news20 one group": _one_newsgroup(8),
    "pros/cons": _named("pros-cons"),
    "rcv1": _named("rcv1-small"),
    "covtype 20k × 54": _arrays("covtype20k"),
    "campaign 41k × 62": _arrays("campaign"),
    "text 500k × 1M": _text(500_000, 1_000_000, 80),
    "pictures 60k × 784": _correlated_pictures,
    "digits tiled 60k × 64": _tiled_digits,
}


GENERATED = ("text 500k × 1M", "pictures 60k × 784", "digits tiled 60k × 64")  # those that come from no file


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
        X = np.asarray(X)
        # 0/1 columns and others in [0, 1] stay as they are: data of that kind are trained on so.
        X = np.ascontiguousarray(X, dtype=np.float64) if X.min() >= 0.0 and X.max() <= 1.0 else _standardised(X)
    return Case(name, X, y)
