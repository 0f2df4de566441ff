"""Case: one problem with the settings of its run, drawn from a seed, written to JSON and read from it.

Cases of one group share the types that kernels are compiled for. A group is drawn from seed // GROUP, the rest from the seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

import dualgap
from dualgap.solvers import NotSupported, get_solver, require

GROUP = 100  # cases that share loss, penalty, storage and solvers
LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive", "huber", "absolute", "quantile", "squared_error")
SOLVERS = tuple(dualgap.solvers().names)
STORAGES = ("dense", "fortran", "float32", "csr", "csr_int64", "csr_float32", "csr_duplicates", "csr_unsorted")
TYPES = {"dense": 0.5, "float32": 0.1, "csr": 0.3, "csr_int64": 0.05, "csr_float32": 0.05}  # storages by what is compiled for them
SAME_TYPES = {"dense": ("dense", "dense", "fortran"), "csr": ("csr", "csr_duplicates", "csr_unsorted")}
OTHERS = ("certify", "joint", "cluster", "svc", "path", "store", "nu", "answers", "forget", "guarantee", "certified_cv")
OF_TARGETS = ("certify", "nu", "answers")  # those that take targets as well
SHARES = (0.5, 0.18, 0.16, 0.16)  # of solve, pair and the two other kinds of a group
MACHINES = ("OneClassSVM", "NuSVC", "NuSVR")
BOUNDED = ("solve", "pair", "certify", "answers", "forget")  # kinds that take bounds on coefficients
CLASSES = 4  # of the joint problem, at most


@dataclass(frozen=True)
class Case:
    """Settings by name, and the data: X as a dense float64 array, codes of the classes, sample weights or None."""

    settings: dict[str, Any]
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def change(self, **changes: Any) -> Case:
        """Return a copy with other settings or data."""
        data = {name: changes.pop(name, getattr(self, name)) for name in ("X", "y", "weights")}
        return Case({**self.settings, **changes}, **data)

    def matrix(self) -> Any:
        """Return X in the storage of the settings."""
        return stored(self.X, self["storage"])

    def problem(self) -> dualgap.Problem:
        """Return the problem of two classes, or of targets."""
        names = ("loss", "delta", "l2", "l1", "intercept", "intercept_scale", "kernel", "gamma", "degree", "coef0")
        options = {name: self[name] for name in names}
        options |= {
            name: self.settings.get(name) for name in ("bounds", "epsilon", "quantile")
        }  # cases of earlier campaigns have none
        options["classes"] = None if self["loss"] in REGRESSION else [0, 1]
        return dualgap.Problem(self.matrix(), self.y, sample_weight=self.weights, **options)

    def json(self) -> str:
        """Return the case as one line of JSON; Python writes floats so that they are read again bit for bit."""
        weights = None if self.weights is None else self.weights.tolist()
        return json.dumps({**self.settings, "X": self.X.tolist(), "y": self.y.tolist(), "weights": weights})


def from_json(line: str) -> Case:
    """Return the case of a line of JSON."""
    settings = json.loads(line)
    X, y, weights = (settings.pop(name) for name in ("X", "y", "weights"))
    dtype = float if has_targets(settings) else int
    return Case(settings, np.array(X, dtype=float), np.array(y, dtype=dtype), None if weights is None else np.array(weights))


def has_targets(settings: dict[str, Any]) -> bool:
    """Whether y holds targets and no codes of classes."""
    return settings["loss"] in REGRESSION or settings.get("machine") == "NuSVR"


def stored(X: np.ndarray, storage: str) -> Any:
    """Return the numbers of a dense array in another storage; those of float32 have been rounded before."""
    if storage in ("dense", "float32"):
        return np.ascontiguousarray(X, dtype=np.float32 if storage == "float32" else np.float64)
    if storage == "fortran":
        return np.asfortranarray(X)
    matrix = sparse.csr_matrix(X.astype(np.float32) if storage == "csr_float32" else X)
    if storage == "csr_int64":
        matrix = sparse.csr_array((matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=X.shape)
    if storage == "csr_duplicates":  # every entry twice, by halves
        matrix = sparse.csr_matrix(
            (np.repeat(0.5 * matrix.data, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr), shape=X.shape, copy=True
        )
    if storage == "csr_unsorted":
        for first, last in zip(matrix.indptr, matrix.indptr[1:], strict=False):
            matrix.data[first:last], matrix.indices[first:last] = (
                matrix.data[first:last][::-1].copy(),
                matrix.indices[first:last][::-1].copy(),
            )
        matrix.has_sorted_indices = False
    return matrix


# ------------------------------------------------------------------------------------------------------------------ a draw


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    group, rng = np.random.default_rng([1, seed // GROUP]), np.random.default_rng([2, seed])
    loss, kernel, storage, penalty, others, solvers = _group(group)
    kind = str(rng.choice(["solve", "pair", *others], p=SHARES))
    if kind in ("path", "guarantee") and loss == "hinge" and penalty != "l2":
        kind = "solve"
    if (kernel is not None and kind not in ("solve", "pair", "certify", "nu")) or (kind == "forget" and penalty == "l1"):
        kind = "solve"
    storage = str(rng.choice(SAME_TYPES.get(storage, (storage,))))
    X, y, weights = _data(rng, kind, storage, kernel if kind != "nu" else None)
    intercept = str(rng.choice(["none", "penalised", "free"]))
    if penalty == "l1" and intercept == "penalised":
        intercept = "free"
    if kind in ("svc", "cluster", "store", "answers", "guarantee") and penalty == "l1":
        penalty = "l2"
    if kind in ("joint", "nu", "certified_cv"):
        penalty = "l2"
    l2, l1 = _penalties(rng, penalty, len(y))
    settings = {
        "seed": seed,
        "kind": kind,
        "loss": loss,
        "delta": float(rng.choice([1.0, 0.5, 1e-3, 1e-8, 30.0])) if loss in ("smooth_hinge", "huber") else None,
        "l2": l2,
        "l1": l1,
        "intercept": intercept,
        "intercept_scale": float(rng.choice([1.0, 1.0, 10.0, 1e-3, 1e6, 0.3])),
        "kernel": kernel,
        "gamma": _gamma(rng, X) if kernel in ("rbf", "poly") else "scale",
        "degree": int(rng.integers(1, 6)),
        "coef0": float(rng.choice([0.0, 1.0, 0.5, 1e3])),
        "storage": storage,
        "tol": float(rng.choice([0.0, 1e-3, 1e-6, 1e-9])),
        "atol": float(rng.choice([0.0, 0.0, 1e-6, 1e-12])),
        "max_epochs": int(rng.choice([1, 3, 10, 40, 200], p=[0.15, 0.2, 0.25, 0.2, 0.2])),
        "solver": "auto",
        "bounds": _bounds(seed, X) if kernel is None and l2 > 0 and kind in BOUNDED else None,
        "epsilon": float(rng.choice([0.0, 0.1, 1e-8, 10.0, 1e12])) if "insensitive" in loss else None,
        "quantile": float(rng.choice([0.5, 0.1, 0.999, 1e-9])) if loss == "quantile" else None,
        "guarantee": float(rng.choice([0.1, 0.03])),
        "nu": float(rng.choice([0.5, 0.1, 0.01, 0.9, 1e-6])) if rng.random() < 0.8 else float(rng.random()),
    }
    if kind == "certified_cv" and weights is not None:
        weights = np.maximum(weights, 1e-14)  # each fold has weight in both classes
    if kind == "nu":
        settings["machine"] = "NuSVR" if loss in REGRESSION else str(rng.choice(MACHINES[:2]))
        X, y, weights = X[:40], y[:40], None if weights is None else weights[:40]
    if has_targets(settings):
        y = _targets(rng, X)
    case = Case(settings, X, y, weights)
    return case.change(solver=_supported(case, solvers, rng)) if kind in ("solve", "pair") else case


def _group(rng: np.random.Generator) -> tuple[str, str | None, str, str, list[str], list[str]]:
    loss = str(rng.choice(LOSSES if rng.random() < 0.55 else REGRESSION))
    kernel = None if rng.random() < 0.8 else str(rng.choice(["linear", "rbf", "poly", "precomputed"]))
    storage = str(rng.choice(list(TYPES), p=list(TYPES.values())))
    if kernel == "precomputed" and storage.startswith("csr"):
        storage = "dense"
    penalty = "l2" if kernel is not None else str(rng.choice(["l2", "elastic_net", "l1"], p=[0.55, 0.25, 0.2]))
    others = rng.permutation(OF_TARGETS if loss in REGRESSION else OTHERS)[:2].tolist()
    return loss, kernel, storage, penalty, others, rng.permutation(SOLVERS).tolist()


def _supported(case: Case, solvers: list[str], rng: np.random.Generator) -> str:
    """Return one of the first two solvers of the group that support the problem."""
    found = []
    try:
        problem = case.problem()
    except ValueError:
        return "auto"
    for name in solvers:
        try:
            require(get_solver(name).chosen(problem), problem)
        except NotSupported:
            continue
        found.append(name)
    return str(rng.choice(found[:2]))


def _penalties(rng: np.random.Generator, penalty: str, n: int) -> tuple[float, float]:
    strength = 1.0 / (10.0 ** rng.uniform(-6, 12) * n) if rng.random() < 0.6 else 10.0 ** rng.uniform(-4, 0)
    if penalty == "l1":
        return 0.0, strength
    ratio = float(rng.choice([0.5, 0.01, 0.99, 1 - 1e-6])) if penalty == "elastic_net" else 0.0
    return strength * (1.0 - ratio), strength * ratio


def _bounds(seed: int, X: np.ndarray) -> list[list[float]] | None:
    """Return bounds on coefficients for one group in four: none, one or both, equal ones and zeros, at any scale."""
    rng = np.random.default_rng([5, seed])
    if np.random.default_rng([6, seed // GROUP]).random() > 0.25:
        return None
    d, size = X.shape[1], 10.0 ** rng.uniform(-4, 4) / (float(np.abs(X).max()) or 1.0)
    low, high = np.sort(size * rng.normal(size=(2, d)), axis=0)
    kind = rng.integers(0, 6, d)
    low[(kind == 0) | (kind == 1)], low[kind == 2] = -np.inf, 0.0
    high[(kind == 1) | (kind == 2)], high[kind == 3] = np.inf, low[kind == 3]
    return [low.tolist(), high.tolist()]


def _gamma(rng: np.random.Generator, X: np.ndarray) -> float:
    size = float(np.median(np.abs(X - X.mean(axis=0)))) or 1.0
    return float(10.0 ** rng.uniform(-3, 2) / (size * size * X.shape[1]))


# -------------------------------------------------------------------------------------------------------------------- data


def _data(
    rng: np.random.Generator, kind: str, storage: str, kernel: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    n, d = int(rng.integers(1, 41)), int(rng.choice([1, 2, 5, 10, 20]))
    if rng.random() < 0.02:
        n = 300
    if kind in ("joint", "cluster", "svc", "path", "store", "forget", "guarantee", "certified_cv"):
        n = max(n, 8)
    X = _scaled(rng, _shape(rng, n, d))
    classes = int(rng.integers(2, CLASSES + 1)) if kind == "joint" else 2
    y = _labels(rng, X, classes)
    if rng.random() < 0.04 and kind in ("solve", "pair", "certify"):
        y[:] = y[0]
    elif len(np.unique(y)) < classes and n >= classes:
        y[:classes] = np.arange(classes)
    if kind == "certified_cv":  # each fold has both
        y[:4] = [0, 0, 1, 1]
    if storage.endswith("float32"):
        X = X.astype(np.float32).astype(float)
    if kernel == "precomputed":
        X = X @ X.T
        if storage == "float32":
            X = X.astype(np.float32).astype(float)
        X = 0.5 * (X + X.T)
    return X, y, _weights(rng, y, kind)


def _shape(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Return rows of about unit size, of one of several kinds."""
    X = rng.normal(size=(n, d))
    kind = rng.integers(7)
    if kind == 1:
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif kind == 2:
        X *= rng.random((n, d)) < 0.3
    elif kind == 3:  # collinear columns
        X = np.outer(rng.normal(size=n), rng.normal(size=d)) + 1e-9 * X * (rng.random() < 0.5)
    elif kind == 4:  # duplicated rows
        X = X[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == 5:
        X = (X > 0).astype(float)
    if rng.random() < 0.2:
        X[rng.random(n) < 0.3] = 0.0
    return X


def _scaled(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    n, d = X.shape
    kind = rng.integers(6)
    if kind == 1:
        return X * 10.0 ** rng.uniform(-12, 12)
    if kind == 2:
        return X * 10.0 ** rng.uniform(-12, 12, size=d)
    if kind == 3:
        return X * 10.0 ** rng.uniform(-12, 12, size=(n, 1))
    if kind == 4:
        return X + 10.0 ** rng.uniform(0, 12) * rng.normal(size=d)
    if kind == 5:
        return X * 10.0 ** rng.uniform(-3, 3, size=d) * 10.0 ** rng.uniform(-3, 3)
    return X


def _labels(rng: np.random.Generator, X: np.ndarray, classes: int) -> np.ndarray:
    if rng.random() < 0.4:
        return rng.integers(0, classes, size=len(X))
    size = np.abs(X).max(axis=0)
    teacher = (X / np.where(size > 0, size, 1.0)) @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal() * (rng.random() < 0.5)
    return np.searchsorted(np.quantile(teacher, np.arange(1, classes) / classes), teacher)


def _targets(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return targets that a model explains in part, at any scale, far from 0, equal, or whole numbers."""
    size = np.abs(X).max(axis=0)
    y = (X / np.where(size > 0, size, 1.0)) @ rng.normal(size=X.shape[1]) + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=len(X))
    kind = rng.integers(7)
    if kind == 1:
        return y * 10.0 ** rng.uniform(-12, 12)
    if kind == 2:
        return y + 10.0 ** rng.uniform(0, 12)
    if kind == 3:
        return np.full(len(X), y[0] * (rng.random() < 0.5))
    if kind == 4:
        return np.round(y)
    if kind == 5:
        return y * 10.0 ** rng.uniform(-150, 150)
    return y


def _weights(rng: np.random.Generator, y: np.ndarray, kind: str) -> np.ndarray | None:
    draw = rng.integers(5)
    if draw == 1:
        return rng.random(len(y)) + 0.01
    if draw == 2:
        return 10.0 ** rng.uniform(-14, 0, size=len(y))
    if draw == 3:
        weights = rng.integers(0, 3, size=len(y)).astype(float)
        for k in np.unique(y):  # a class without weight is refused
            weights[np.flatnonzero(y == k)[0]] = 1.0
        return weights
    return None
