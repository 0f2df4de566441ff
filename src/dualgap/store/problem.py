"""StoreProblem: the objective over a store. Vectors of n and of d numbers are in memory, rows are streamed.

What the driver and the certificate ask of a problem is answered by passes over the blocks. Resident: y, c, ‖xᵢ‖² and β of 8 bytes a row
each, the few vectors of that length that a certificate makes, and two blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.core import LOSSES, Block, make_loss, make_penalty, number
from dualgap.core import rows as storage
from dualgap.problem import Problem, as_weights, check_intercept, encode_labels
from dualgap.store.folder import Parts
from dualgap.store.manifest import StoreError

__all__ = ["StoreProblem"]


class OnDisk(NamedTuple):
    """Stands where a problem has its rows. It has their types and no way to read them, so that no kernel takes it for rows."""

    data: np.ndarray
    like: Any


class StoreProblem(Problem):
    """A regularised binary classification problem over a store; parameters as for `Problem`.

    Examples
    --------
    >>> import os, tempfile
    >>> import dualgap
    >>> from dualgap.store.conversion import convert
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n" * 50)
    >>> convert(path, os.path.join(folder, "store")).problem("logistic", l2=0.1, intercept="free")
    StoreProblem(100 × 3 sparse, logistic, l2=0.1, intercept='free')
    """

    streaming: ClassVar[bool] = True

    def __init__(
        self,
        store: Parts,
        loss: Any = "hinge",
        delta: float | None = None,
        l2: float = 1e-4,
        l1: float = 0.0,
        sample_weight: Any = None,
        intercept: str = "none",
        *,
        intercept_scale: float = 1.0,
        y: Any = None,
    ) -> None:
        self.store = store
        self.loss, self.penalty = make_loss(loss, delta), make_penalty(l2, l1)
        self.l2, self.l1 = float(l2), float(l1)
        self.intercept = check_intercept(intercept, self.l2)
        self.intercept_scale = number("intercept_scale", intercept_scale)
        self.X, self.kernel = store, None
        self.n, self.d = store.shape
        if y is None:
            self.classes, self.y = _signs(store)
        else:
            self.classes, self.y = encode_labels(np.asarray(y))
        self.sample_weight = None if sample_weight is None else as_weights(sample_weight, self.n)
        self.c = self._normalised_weights()
        self.rows = OnDisk(np.empty(0, store.manifest.dtype), _empty_rows(store))
        self._foreseen: np.ndarray | None = None
        self._seen: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def sqnorms(self) -> np.ndarray:
        """‖xᵢ‖² of every row, as the store keeps them."""
        return self.store.sqnorms()

    def blocks(self, rng: np.random.Generator, mixed: bool) -> Iterator[Block]:
        """All rows once, in blocks, the next one read ahead: the parts in random order, or mixed ones that are new each time."""
        return self.store.mixed(rng) if mixed else self.store.stream(rng.permutation(len(self.store.parts)).tolist())

    # ------------------------------------------------------------------------------------------------------------- passes

    def foresee(self, stored: np.ndarray) -> None:
        """Say whose scores will be asked for, so that the pass which `combine` makes has them as well: one reading, not two."""
        self._foreseen = stored

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Σ aᵢ xᵢ, summed in float64 in one pass."""
        v = np.zeros(self.d)
        a = np.ascontiguousarray(a, dtype=np.float64)
        if not a.any():
            return v
        stored, self._foreseen = self._foreseen, None
        out = None if stored is None else np.empty(self.n)
        for block in self.store.stream():
            storage.accumulate(block.rows, a[block.index], v)
            if stored is not None and out is not None:
                storage.scores(block.rows, stored, out[block.index])
        if stored is not None and out is not None:
            self._seen = (stored, out)
        return v

    def scores(self, stored: np.ndarray) -> np.ndarray:
        """xᵢ·w for every row: those of the last pass where it was for this very w, else a pass of its own."""
        seen, self._seen = self._seen, None
        if seen is not None and np.array_equal(seen[0], stored):
            return seen[1]
        out = np.empty(self.n)
        for block in self.store.stream():
            storage.scores(block.rows, stored, out[block.index])
        return out

    # ----------------------------------------------------------------------------------------------------------- variants

    def head(self, count: int) -> Problem:
        """A problem in memory of the same types over the first rows."""
        small = object.__new__(Problem)
        small.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("sqnorms", "store", "_foreseen", "_seen")})
        small.X = self.store.matrix(0)
        small.n = min(count, small.X.shape[0])
        small.y = np.where(np.arange(small.n) % 2 == 0, 1.0, -1.0)
        small.c = np.full(small.n, 1.0 / small.n)
        small.sample_weight = None
        small.rows = storage.part(self.store.read(0).rows, 0, small.n)
        return small

    def subset(self, indices: np.ndarray, weights: np.ndarray) -> Problem:
        raise StoreError("rows of a store cannot be picked one by one; convert the ones you need to a store of their own")

    def __repr__(self) -> str:
        loss = next((name for name, cls in LOSSES.items() if type(self.loss) is cls), type(self.loss).__name__)
        delta = f"(delta={self.loss.delta:g})" if hasattr(self.loss, "delta") else ""
        l1 = f", l1={self.l1:g}" if self.l1 else ""
        weights = ", weighted" if self.sample_weight is not None else ""
        kind = "sparse" if self.store.is_sparse else "dense"
        return f"StoreProblem({self.n} × {self.d} {kind}, {loss}{delta}, l2={self.l2:g}{l1}, intercept={self.intercept!r}{weights})"


def _signs(store: Parts) -> tuple[np.ndarray, np.ndarray]:
    classes = store.classes
    if len(classes) != 2:
        shown = ", ".join(repr(c) for c in classes.tolist()[:4]) + (", …" if len(classes) > 4 else "")
        hint = "two are needed to train a classifier" if len(classes) < 2 else "a problem has two: use dualgap.LinearSVC for more"
        raise StoreError(f"{store.folder} has {len(classes)} class(es) ({shown}); {hint}")
    return classes, np.where(store.codes() == 1, 1.0, -1.0)


def _empty_rows(store: Parts) -> Any:
    dtype = np.dtype(store.manifest.dtype)
    if not store.is_sparse:
        return storage.dense(np.empty((0, store.shape[1]), dtype))
    return storage.csr_arrays(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, dtype))
