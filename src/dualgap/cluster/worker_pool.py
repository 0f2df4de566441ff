"""WorkerPool: all partitions behind one interface. Here the pool in one process; `dask_workers` has the one on Dask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dualgap.cluster.partition import Objective, Partition

__all__ = ["Bundle", "ClusterLost", "InProcess", "Restored", "WorkerPool", "bundle", "merged"]

Restored = Callable[[int], str | None]  # the file with a partition's last saved β


class ClusterLost(RuntimeError):
    """The scheduler is gone, or no worker is left or stays; the message says where the last checkpoint is."""


class Bundle(NamedTuple):
    """Answers of some partitions: their numbers one by one, their arrays added up.

    `parts` has the answers with None in the place of arrays; `arrays` has the sums by name, and is None where a partition was lost.
    """

    parts: dict[int, Any]
    arrays: dict[str, np.ndarray] | None


def bundle(k: int, answer: Any) -> Bundle:
    """Return the bundle of one partition's answer, a NamedTuple."""
    arrays = {name: value for name, value in answer._asdict().items() if isinstance(value, np.ndarray)}
    return Bundle({k: answer._replace(**dict.fromkeys(arrays))}, arrays)


def merged(bundles: Sequence[Bundle]) -> Bundle:
    """Return one bundle of several: added in their order and in float64, kept in the precision that they came in."""
    parts = {k: part for each in bundles for k, part in each.parts.items()}
    found = [each.arrays for each in bundles]
    if any(arrays is None or arrays.keys() != (found[0] or {}).keys() for arrays in found):
        return Bundle(parts, None)  # a partition that was made anew answers with its state, whatever it was asked
    totals: dict[str, np.ndarray] = {}
    for name, first in (found[0] or {}).items():
        total = np.array(first, dtype=np.float64)
        for arrays in found[1:]:
            total += (arrays or {})[name]
        totals[name] = total.astype(first.dtype, copy=False)
    return Bundle(parts, totals)


class WorkerPool(Protocol):
    """What the coordinator asks of its partitions.

    `call` runs a method on some of them and returns answers by partition number. `total` runs a method and adds up the arrays of the
    answers, where the partitions are. A partition that is lost on the way is made anew, configured again with the last β that was saved
    (or zero), and returns the Answer of its new state whatever it was asked; `total` then has no sums.
    """

    count: int
    losses: list[str]  # what has been lost so far, in words

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some."""

    def total(self, method: str, *args: Any, only: Sequence[int] | None = None) -> Bundle:
        """Run method(*args) on all partitions, or on some; return the answers with their arrays added up."""

    def configure(self, objective: Objective, restored: Restored) -> Bundle:
        """Configure all partitions, and remember with what, for those that have to be made anew."""

    def close(self) -> None:
        """Free the partitions."""


class InProcess:
    """Partitions in this process: what tests and a single machine use; the arithmetic is that of a cluster."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        if not partitions:
            raise ValueError("partitions is empty; give at least one")
        self.partitions = list(partitions)
        self.count = len(self.partitions)
        self.losses: list[str] = []
        self._lost: set[int] = set()
        self._configured: tuple[Objective, Restored] | None = None

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some."""
        return {k: self._one(k, method, args) for k in (range(self.count) if only is None else only)}

    def _one(self, k: int, method: str, args: tuple[Any, ...]) -> Any:
        if k in self._lost and self._configured is not None:
            self._lost.discard(k)
            objective, restored = self._configured
            old = self.partitions[k]
            self.partitions[k] = Partition(old.X, old.y, old.sample_weight)
            self.losses.append(f"partition {k} was lost")
            return self.partitions[k].configure(objective, restored(k), k)
        return getattr(self.partitions[k], method)(*args)

    def total(self, method: str, *args: Any, only: Sequence[int] | None = None) -> Bundle:
        """Run method(*args) on all partitions, or on some; return the answers with their arrays added up."""
        before = len(self.losses)
        found = merged([bundle(k, self._one(k, method, args)) for k in (range(self.count) if only is None else only)])
        return found if len(self.losses) == before else Bundle(found.parts, None)

    def configure(self, objective: Objective, restored: Restored) -> Bundle:
        """Configure all partitions."""
        self._configured = (objective, restored)
        return merged([bundle(k, each.configure(objective, restored(k), k)) for k, each in enumerate(self.partitions)])

    def close(self) -> None:
        """Do nothing: the partitions belong to the caller."""

    def lose(self, k: int) -> None:
        """Pretend that a worker died: partition k and its β are gone by the next call."""
        self._lost.add(k)
