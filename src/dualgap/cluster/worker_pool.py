"""WorkerPool: all partitions behind one interface. Here the pool in one process; `dask_workers` has the one on Dask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dualgap.cluster.partition import Answer, Objective, Partition

__all__ = ["ClusterLost", "InProcess", "Restored", "WorkerPool"]

Restored = Callable[[int], str | None]  # the file with a partition's last saved β


class ClusterLost(RuntimeError):
    """The scheduler is gone, or no worker is left or stays; the message says where the last checkpoint is."""


class WorkerPool(Protocol):
    """What the coordinator asks of its partitions.

    `call` runs a method on some of them and returns answers by partition number. A partition that is lost on the way is made anew,
    configured again with the last β that was saved (or zero), and returns the Answer of its new state whatever it was asked.
    """

    count: int
    losses: list[str]  # what has been lost so far, in words

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some."""

    def configure(self, objective: Objective, restored: Restored) -> dict[int, Answer]:
        """Configure all partitions, and remember with what, for those that have to be made anew."""

    def close(self) -> None:
        """Free the partitions."""

    def payload(self, array: np.ndarray) -> Any:
        """Make a vector ready for being sent to every partition once."""


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

    def configure(self, objective: Objective, restored: Restored) -> dict[int, Answer]:
        """Configure all partitions."""
        self._configured = (objective, restored)
        return {k: partition.configure(objective, restored(k), k) for k, partition in enumerate(self.partitions)}

    def close(self) -> None:
        """Do nothing: the partitions belong to the caller."""

    def payload(self, array: np.ndarray) -> Any:
        """Return the vector itself."""
        return array

    def lose(self, k: int) -> None:
        """Pretend that a worker died: partition k and its β are gone by the next call."""
        self._lost.add(k)
