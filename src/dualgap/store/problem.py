"""StoreProblem: the objective over a store. Vectors of n and of d numbers are in memory, rows are streamed.

What the driver and the certificate ask of a problem is answered by passes over the blocks. Resident: y, c, ‖xᵢ‖² and β of 8 bytes a row
each, the few vectors of that length that a certificate makes, and two blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dualgap.core import Block, NoOffset, make_loss
from dualgap.core import rows as storage
from dualgap.problem import Problem, encode_labels, target_offset
from dualgap.store.part_files import StoreError

__all__ = ["StoreProblem"]

SAME_NORM = (
    1e-9  # relative difference of a stored ‖x‖² from that of the row: more than rounding, and less than bounds have to spare
)


class OnDisk(NamedTuple):
    """Stands where a problem has its rows. It has their types and no way to read them, so that no kernel takes it for rows."""

    data: np.ndarray
    like: Any


@dataclass
class Pass:
    """Scores that a pass over the store computes beside its sum, so that a certificate takes one pass and not two.

    Sets: `foresee` wanted; `combine` model and scores, for the wanted model. `scores` takes and clears them.
    """

    wanted: np.ndarray | None = None  # w whose scores the next `combine` computes too
    model: np.ndarray | None = None  # w that `scores` belong to
    scores: np.ndarray | None = None


class StoreProblem(Problem):
    """A regularised problem of two classes or of regression over a store; parameters as for `Problem`."""

    streaming: ClassVar[bool] = True
    next_pass: Pass

    def __init__(
        self,
        store: Any,  # a Store
        loss: Any = "hinge",
        delta: float | None = None,
        l2: float = 1e-4,
        l1: float = 0.0,
        sample_weight: Any = None,
        intercept: str = "none",
        *,
        intercept_scale: float = 1.0,
        y: Any = None,
        bounds: Any = None,
        epsilon: float | None = None,
        quantile: float | None = None,
    ) -> None:
        loss, n, offset = make_loss(loss, delta, epsilon, quantile), store.shape[0], NoOffset()
        if getattr(loss, "regression", False):
            labels, offset = (np.empty(0), np.ones(n)), _targets(store, y)
        else:
            labels = _signs(store) if y is None else encode_labels(np.asarray(y))
        self._set(store, labels, sample_weight, offset, loss, l2, l1, bounds, intercept, intercept_scale)
        self.shared.rows = OnDisk(np.empty(0, store.manifest.dtype), _empty_rows(store))
        vars(self)["next_pass"] = Pass()

    @property
    def store(self) -> Any:
        """The store that the rows are read from; also called X."""
        return self.X

    def _sqnorms(self) -> np.ndarray:
        return self.store.sqnorms()

    def _storage(self) -> str:
        return "sparse" if self.store.is_sparse else "dense"

    def blocks(self, rng: np.random.Generator, mixed: bool) -> Iterator[Block]:
        """All rows once, in blocks, the next one read ahead: the parts in random order, or mixed ones that are new each time."""
        return self.store.mixed(rng) if mixed else self.store.stream(rng.permutation(len(self.store.parts)).tolist())

    # ------------------------------------------------------------------------------------------------------------- passes

    def every_block(self) -> Iterator[Block]:
        """Yield all rows in order. The first pass measures the longest row and compares the ‖xᵢ‖² of the store with its rows."""
        if self.shared.longest is not None:
            yield from self.store.stream()
            return
        longest = 0
        for block in self.store.stream():
            squares = np.empty(block.rows.length())
            storage.sqnorms(block.rows, squares)
            if not np.allclose(squares, self.sqnorms[block.index], rtol=SAME_NORM, atol=0.0):
                raise StoreError(
                    f"{self.store.folder}: the lengths of rows that it has are not those of its rows; convert the data again"
                )
            longest = max(longest, storage.longest(block.rows))
            yield block
        self.shared.longest = longest

    @property
    def longest(self) -> int:
        """How many numbers the longest row stores."""
        if self.shared.longest is None:
            for _ in self.every_block():
                pass
        return super().longest

    def foresee(self, stored: np.ndarray) -> None:
        """Make the next `combine` compute the scores of w = stored in the same pass over the store."""
        self.next_pass.wanted = stored.copy()  # the caller may go on writing to its own

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Σ aᵢ xᵢ, summed in float64 in one pass."""
        v = np.zeros(self.d)
        a = np.ascontiguousarray(a, dtype=np.float64)
        if not a.any():
            return v
        wanted, self.next_pass.wanted = self.next_pass.wanted, None
        out = np.empty(self.n if wanted is not None else 0)
        for block in self.every_block():
            storage.accumulate(block.rows, a[block.index], v)
            if wanted is not None:
                storage.scores(block.rows, wanted, out[block.index])
        if wanted is not None:
            self.next_pass.model, self.next_pass.scores = wanted, out
        return v

    def products(self, stored: np.ndarray) -> np.ndarray:
        """Return xᵢ·w for every row: the scores of the last pass if it computed them for this w, else of a pass of its own."""
        model, out = self.next_pass.model, self.next_pass.scores
        self.next_pass.model = self.next_pass.scores = None
        if model is not None and out is not None and np.array_equal(model, stored):
            return out
        out = np.empty(self.n)
        for block in self.every_block():
            storage.scores(block.rows, stored, out[block.index])
        return out

    def bounded_products(self, stored: np.ndarray) -> tuple[np.ndarray, None]:
        """Return the products; bounds on their rounding would be one more vector of n numbers, and ‖xᵢ‖‖w‖ serves in their place."""
        return self.products(stored), None

    # ----------------------------------------------------------------------------------------------------------- variants

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other attributes, as `Problem.replace` does, and with no pass begun."""
        return super().replace(next_pass=Pass(), **changes)

    def head(self, count: int) -> Problem:
        """Return a problem in memory of the same types over the first rows."""
        X, rows = self.store.matrix(0), self.store.read(0).rows
        n = min(count, X.shape[0])
        fields = {name: value for name, value in vars(self).items() if name != "next_pass"}
        return Problem._of(fields).replace(X=X, rows=storage.part(rows, 0, n), **self._first_labels(n), sample_weight=None)

    def subset(self, indices: np.ndarray, weights: np.ndarray) -> Problem:
        raise StoreError("rows of a store cannot be picked one by one; convert the ones you need to a store of their own")


def _targets(store: Any, y: Any) -> Any:
    """Return the offset of a regression; its targets are those of the store unless y has them."""
    if y is None and store.task != "regression":
        raise StoreError(f"{store.folder} has classes, and the loss is one of regression: convert the data with task='regression'")
    return target_offset(store.labels() if y is None else y, store.shape[0])


def _signs(store: Any) -> tuple[np.ndarray, np.ndarray]:
    if store.task == "regression":
        raise StoreError(
            f"{store.folder} has the targets of a regression, and the loss is one of classification: use a loss such as "
            "'epsilon_insensitive', or dualgap.LinearSVR"
        )
    classes = store.classes
    if len(classes) != 2:
        shown = ", ".join(repr(c) for c in classes.tolist()[:4]) + (", …" if len(classes) > 4 else "")
        hint = "two are needed to train a classifier" if len(classes) < 2 else "a problem has two: use dualgap.LinearSVC for more"
        raise StoreError(f"{store.folder} has {len(classes)} class(es) ({shown}); {hint}")
    return classes, np.where(store.codes() == 1, 1.0, -1.0)


def _empty_rows(store: Any) -> Any:
    dtype = np.dtype(store.manifest.dtype)
    if not store.is_sparse:
        return storage.dense(np.empty((0, store.shape[1]), dtype))
    return storage.csr_arrays(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, dtype))
