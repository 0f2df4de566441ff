"""DaskPool: partitions on the workers of a dask.distributed cluster, and what happens when a worker dies.

A partition is the value of a future that is pinned to its worker. Every call is a task on that future, pinned as well: it gets the very
object that lives there, changes it in place and returns what is to be sent. So β never travels and nothing grows from round to round
(a chain of futures, each made from the last, would be kept by the scheduler whole).

A worker that dies takes its partitions with it. They are loaded again on the workers that are left and configured with the last β that
was saved, or zero, and the run goes on; since partitions send shares of v, the next sum is right without further ado.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualgap.cluster.partition import Answer, NotConfigured, Objective, Partition
from dualgap.cluster.worker_pool import ClusterLost, Restored

__all__ = ["DaskPool", "Loader"]

POLL = 1.0  # seconds between looks at who is still there
PATIENCE = 60.0  # seconds to wait for a worker to come back once none is left
MOST_RESTARTS = 10  # of one partition in one call: beyond that it is the partition that kills its workers


# Given the client and the worker's address, a future of the partition on that worker.
Loader = Callable[[Any, str], Any]


class DaskPool:
    """Partitions on a cluster's workers.

    Parameters
    ----------
    client : dask.distributed.Client
    loaders : one function a partition
        Called with the client and a worker's address; returns a future of the `Partition` on that worker. It is called again, with
        another address, when that worker dies.
    patience : float
        Seconds to wait for a worker once none is left.
    """

    def __init__(self, client: Any, loaders: Sequence[Loader], patience: float = PATIENCE) -> None:
        self.client, self.loaders, self.patience = client, list(loaders), patience
        self.count = len(self.loaders)
        self.losses: list[str] = []
        self.where: Callable[[], str] = lambda: ""
        self._configured: tuple[Objective, Restored] | None = None
        workers = self._workers()
        self.homes = [workers[k % len(workers)] for k in range(self.count)]
        self.blocks = [loader(client, home) for loader, home in zip(self.loaders, self.homes, strict=True)]

    # --------------------------------------------------------------------------------------------------------------- calls

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some; a lost one is made anew and returns the Answer of its new state."""
        return self._collect({k: self._submit(k, method, args) for k in (range(self.count) if only is None else only)})

    def configure(self, objective: Objective, restored: Restored) -> dict[int, Answer]:
        """Configure all partitions."""
        self._configured = (objective, restored)
        return self._collect({k: self._submit(k, "configure", (objective, restored(k), k)) for k in range(self.count)})

    def _collect(self, pending: dict[int, Any]) -> dict[int, Any]:
        """Wait for the answers of all; the partitions of a worker that dies meanwhile are made anew."""
        answers: dict[int, Any] = {}
        restarts = dict.fromkeys(pending, 0)
        while pending:
            self._wait(list(pending.values()))
            alive = set(self._workers())
            for k, future in list(pending.items()):
                outcome = self._outcome(future, self.homes[k] in alive)
                if outcome == "lost":
                    restarts[k] += 1
                    if restarts[k] > MOST_RESTARTS:
                        raise ClusterLost(f"partition {k} has lost its worker {restarts[k]} times in one call; {self.where()}")
                    pending[k] = self._restart(k, future)
                elif outcome != "pending":
                    answers[k] = outcome
                    del pending[k]
        return answers

    def payload(self, array: np.ndarray) -> Any:
        """The vector as the value of a task: the scheduler sends it to one worker, the others fetch it from each other.

        Unlike scattered data it survives the worker that holds it: the scheduler runs the task again.
        """
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100 GB"}):
            return self._guarded(lambda: self.client.submit(_same, array, pure=False))

    def _submit(self, k: int, method: str, args: tuple[Any, ...]) -> Any:
        options = {"workers": [self.homes[k]], "allow_other_workers": False, "pure": False}
        return self._guarded(lambda: self.client.submit(_run, self.blocks[k], method, *args, **options))

    def _wait(self, futures: list[Any]) -> None:
        from distributed import wait

        with contextlib.suppress(TimeoutError):  # time to look who is still there
            self._guarded(lambda: wait(futures, timeout=POLL, return_when="FIRST_COMPLETED"))

    def _outcome(self, future: Any, home_alive: bool) -> Any:
        """ "pending", "lost", or the answer itself; an error of the partition's own is raised."""
        if future.status == "finished":
            try:
                return self._guarded(future.result)
            except (KeyError, asyncio.CancelledError, OSError):
                return "lost"  # the worker died between finishing and sending
        if future.status == "error":
            error = future.exception()
            if isinstance(error, NotConfigured) or type(error).__name__ in (
                "KilledWorker",
                "NoValidWorkerError",
                "CommClosedError",
            ):
                return "lost"
            raise error
        if future.status in ("cancelled", "lost") or not home_alive:
            return "lost"
        return "pending"

    # -------------------------------------------------------------------------------------------------------------- faults

    def _restart(self, k: int, future: Any) -> Any:
        """Load partition k on another worker and configure it again; returns the future of its Answer."""
        dead = self.homes[k]
        workers = self._workers()
        busy = [sum(home == worker for j, home in enumerate(self.homes) if j != k) for worker in workers]
        self.homes[k] = workers[int(np.argmin(busy))]
        for old in (future, self.blocks[k]):
            self._guarded(old.cancel)
        self.blocks[k] = self.loaders[k](self.client, self.homes[k])
        if self._configured is None:
            self.losses.append(f"worker {dead} was lost while partition {k} was loading; it is loaded on {self.homes[k]}")
            return self._submit(k, "describe", ())
        objective, restored = self._configured
        saved = restored(k)
        begins = "its last checkpoint" if saved else "zero"
        self.losses.append(f"worker {dead} was lost with the dual variables of partition {k}, which began again from {begins}")
        return self._submit(k, "configure", (objective, saved, k))

    def _workers(self) -> list[str]:
        """Addresses of the workers that are there; waits for one to come if there is none."""
        deadline = time.monotonic() + self.patience
        while True:
            workers = sorted(self._guarded(self.client.nthreads))
            if workers:
                return workers
            if time.monotonic() >= deadline:
                raise ClusterLost(f"no worker is left, and none came back within {self.patience:g} s; {self.where()}")
            time.sleep(min(POLL, self.patience / 10))

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Do something that needs the scheduler; without one, say so in plain words."""
        try:
            if self.client.status not in ("running", "connecting"):
                raise OSError(f"the client is {self.client.status}")
            return action()
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, TimeoutError) and self.client.status == "running":
                raise
            if self._scheduler_answers():
                raise
            raise ClusterLost(
                f"the scheduler at {self._address()} is gone ({type(error).__name__}: {error}); {self.where()}"
            ) from None

    def _scheduler_answers(self) -> bool:
        if self.client.status != "running":
            return False
        try:
            self.client.nthreads()
        except (OSError, asyncio.CancelledError):
            return False
        return True

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "?"))


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _run(partition: Partition, method: str, *args: Any) -> Any:
    """The task of a call: it runs where the partition is, on the partition itself."""
    return getattr(partition, method)(*args)
