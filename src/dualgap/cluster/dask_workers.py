"""DaskPool: partitions on the workers of a dask.distributed cluster, and what happens when a worker dies.

A partition changes in place, and Dask may write a value of its own to disk, or copy it, at any moment. So partitions are not values of
Dask's: each worker process keeps them in a registry of this module, and Dask knows their keys alone. Every call is a task that is pinned
to the worker: it finds the partition by its key, changes it in place and returns what is to be sent. β never travels, and nothing grows
from round to round. Vectors and matrices are added along a tree of workers, so that no place holds more than FAN_IN of them.

A worker that dies takes its partitions with it. They are loaded again on the workers that are left and configured with the last β that
was saved, or zero, and the run goes on; since partitions send shares of v, the next sum is right without further ado. A source that gives
other rows the second time is refused: a digest of the rows tells.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import enum
import math
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualgap.cluster.partition import Description, NotConfigured, Objective, Partition
from dualgap.cluster.worker_pool import Bundle, ClusterLost, Restored, bundle, merged

__all__ = ["DaskPool", "Loader"]

_partitions: dict[str, Partition] = {}  # in a worker process: the partitions that it keeps, by their keys

FAN_IN = 8  # vectors that are added in one place
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)  # both occur, and neither is the other
FATAL = ("KilledWorker", "NoValidWorkerError", "CommClosedError")  # errors of Dask that mean that a worker was lost
POLL = 1.0  # seconds between looks at who is still there
TOPIC = "dualgap"  # of the events on the scheduler
PATIENCE = 60.0  # seconds to wait for a worker to come back once none is left
MOST_RESTARTS = 10  # of one partition in one call: beyond that it is the partition that kills its workers


# Given the client: a function that makes the partition on a worker, and its arguments, which may be futures.
Loader = Callable[[Any], tuple[Callable[..., Partition], tuple[Any, ...]]]


class Waiting(enum.Enum):
    """How far the task of a partition is."""

    PENDING = enum.auto()
    LOST = enum.auto()
    FINISHED = enum.auto()


class DaskPool:
    """Partitions on a cluster's workers.

    Parameters
    ----------
    client : dask.distributed.Client
    loaders : one function a partition
        Called with the client; returns a function and its arguments, with which a worker makes the `Partition`. It is called again when
        that worker dies.
    patience : float
        Seconds to wait for a worker once none is left, or none that Dask has not paused for want of memory.

    Call `close` at the end, or use the pool as a context manager: the workers keep their partitions until then.
    """

    def __init__(self, client: Any, loaders: Sequence[Loader], patience: float = PATIENCE) -> None:
        self.client, self.loaders, self.patience = client, list(loaders), patience
        self.count = len(self.loaders)
        self.losses: list[str] = []
        self.where: Callable[[], str] = lambda: ""
        self._configured: tuple[Objective, Restored] | None = None
        self._name, self._generation = uuid.uuid4().hex, 0
        self._digests: dict[int, str] = {}  # of the rows of each partition, as they were first described
        self._paused_since: float | None = None
        workers = self._workers()
        self.homes = [workers[k % len(workers)] for k in range(self.count)]
        self.keys = [self._load(k) for k in range(self.count)]

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory of the partitions on all workers."""
        _release(self._name)  # workers may be threads of this process
        with contextlib.suppress(Exception):  # a cluster that is gone has freed it
            self.client.run(_release, self._name)

    def _load(self, k: int) -> Any:
        """Make partition k on its worker; return the future of its key."""
        self._generation += 1
        key = f"{self._name}-{k}-{self._generation}"
        make, args = self.loaders[k](self.client)
        options = {"workers": [self.homes[k]], "allow_other_workers": False, "key": f"dualgap-load-{uuid.uuid4().hex}"}
        return self._guarded(lambda: self.client.submit(_keep, key, make, *args, **options))

    # --------------------------------------------------------------------------------------------------------------- calls

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some; a lost one is made anew and returns the Answer of its new state."""
        answers = self._collect({k: self._submit(k, method, args) for k in (range(self.count) if only is None else only)})
        if method == "describe":
            self._digests.update({k: answer.digest for k, answer in answers.items() if isinstance(answer, Description)})
        return answers

    def total(self, method: str, *args: Any, only: Sequence[int] | None = None) -> Bundle:
        """Run method(*args) on all partitions, or on some; return the answers with their arrays added up along a tree of workers."""
        chosen = range(self.count) if only is None else only
        return self._add_up({k: self._submit(k, method, args, bundled=True) for k in chosen})

    def configure(self, objective: Objective, restored: Restored) -> Bundle:
        """Configure all partitions."""
        self._configured = (objective, restored)
        return self._add_up({k: self._submit(k, "configure", self._setting(k), bundled=True) for k in range(self.count)})

    def _add_up(self, leaves: dict[int, Any]) -> Bundle:
        """Wait for the sum of bundles; where a worker dies meanwhile, its partitions are made anew and there is no sum."""
        roots = self._tree([leaves[k] for k in sorted(leaves, key=lambda k: (self.homes[k], k))])
        while True:
            self._wait(roots)
            if all(root.status == "finished" for root in roots):
                with contextlib.suppress(KeyError, OSError, *CANCELLED):  # a worker died between finishing and sending
                    return merged(self._guarded(lambda: self.client.gather(roots)))
                break
            alive = set(self._workers())
            self._refuse_paused({self.homes[k] for k in leaves})
            states = [self._state(future, self.homes[k] in alive) for k, future in leaves.items()]
            failed = any(root.status in ("error", "cancelled", "lost") for root in roots)
            if failed or Waiting.LOST in states:
                break
        return self._made_anew(leaves)

    def _tree(self, bundles: list[Any]) -> list[Any]:
        """Return at most FAN_IN futures whose sum is that of all; neighbours in the list are added on one worker."""
        while len(bundles) > FAN_IN:
            groups = [bundles[first : first + FAN_IN] for first in range(0, len(bundles), FAN_IN)]
            bundles = [self._sum_of(group) for group in groups]
        return bundles

    def _sum_of(self, group: list[Any]) -> Any:
        return self._guarded(lambda: self.client.submit(merged, group, key=f"dualgap-add-{uuid.uuid4().hex}"))

    def _made_anew(self, leaves: dict[int, Any]) -> Bundle:
        """Make the partitions that were lost anew, once no other one is being changed by its task any more."""
        while True:
            alive = set(self._workers())
            states = {k: self._state(future, self.homes[k] in alive) for k, future in leaves.items()}
            pending = [leaves[k] for k, state in states.items() if state is Waiting.PENDING]
            if not pending:
                break
            self._refuse_paused({self.homes[k] for k in leaves})
            self._wait(pending)
        # A partition whose process started again at the same address raises NotConfigured when it is asked.
        lost = {k: self._restart(k, leaves[k]) for k, state in states.items() if state is Waiting.LOST}
        asked = {k: self._submit(k, "ready", ()) for k in leaves if k not in lost}
        return Bundle(self._collect(lost | asked), None)

    def _setting(self, k: int) -> tuple[Any, ...]:
        """Return the arguments with which partition k is configured."""
        assert self._configured is not None
        objective, restored = self._configured
        return objective, restored(k), k, self._digests.get(k)

    def _collect(self, pending: dict[int, Any]) -> dict[int, Any]:
        """Wait for the answers of all; the partitions of a worker that dies meanwhile are made anew."""
        answers: dict[int, Any] = {}
        restarts = dict.fromkeys(pending, 0)
        while pending:
            self._wait(list(pending.values()))
            done = all(future.status == "finished" for future in pending.values())
            alive = set(self.homes) if done else set(self._workers())
            if not done:
                self._refuse_paused({self.homes[k] for k in pending})
            for k, future in list(pending.items()):
                outcome = self._outcome(future, self.homes[k] in alive)
                if outcome is Waiting.LOST:
                    restarts[k] += 1
                    if restarts[k] > MOST_RESTARTS:
                        raise ClusterLost(f"partition {k} has lost its worker {restarts[k]} times in one call; {self.where()}")
                    pending[k] = self._restart(k, future)
                elif outcome is not Waiting.PENDING:
                    answers[k] = outcome
                    del pending[k]
        return answers

    def payload(self, array: np.ndarray) -> Any:
        """The vector as the value of a task: the scheduler sends it to one worker, the others fetch it from each other.

        Unlike scattered data it survives the worker that holds it: the scheduler runs the task again.
        """
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100 GB"}):
            return self._guarded(lambda: self.client.submit(_same, array, key=f"dualgap-vector-{uuid.uuid4().hex}"))

    def listener(self, name: str = "fit") -> Callable[[Any], None]:
        """Return a callback that logs rounds as events of the topic "dualgap" on the scheduler, at most one a second."""
        last = -math.inf

        def listen(progress: Any) -> None:
            nonlocal last
            if time.monotonic() - last < POLL:
                return
            last = time.monotonic()
            found = {"name": name, "round": progress.epoch, "relative_gap": float(progress.certificate.relative_gap)}
            self._guarded(lambda: self.client.log_event(TOPIC, {**found, "tol": progress.tol, "lost": len(self.losses)}))

        return listen

    def _submit(self, k: int, method: str, args: tuple[Any, ...], bundled: bool = False) -> Any:
        # The dashboard groups tasks by the words before the number.
        options = {"workers": [self.homes[k]], "allow_other_workers": False, "key": f"dualgap-{method}-{uuid.uuid4().hex}"}
        task = (_run_bundled, k) if bundled else (_run,)
        return self._guarded(lambda: self.client.submit(*task, self.keys[k], method, *args, **options))

    def _wait(self, futures: list[Any]) -> None:
        """Wait until all have ended, or it is time to look who is still there."""
        from distributed import wait

        with contextlib.suppress(TimeoutError, *CANCELLED):
            self._guarded(lambda: wait(futures, timeout=POLL))

    def _outcome(self, future: Any, home_alive: bool) -> Any:
        """Return the answer, or why there is none; an error of the partition's own is raised."""
        state = self._state(future, home_alive)
        if state is not Waiting.FINISHED:
            return state
        try:
            return self._guarded(future.result)
        except (KeyError, OSError, *CANCELLED):
            return Waiting.LOST  # the worker died between finishing and sending

    def _state(self, future: Any, home_alive: bool) -> Waiting:
        """Return how far a task is; an error of the partition's own is raised."""
        if future.status == "error":
            error = future.exception()
            if isinstance(error, NotConfigured) or type(error).__name__ in FATAL:
                return Waiting.LOST
            raise error
        if future.status in ("cancelled", "lost") or not home_alive:
            return Waiting.LOST
        return Waiting.FINISHED if future.status == "finished" else Waiting.PENDING

    # -------------------------------------------------------------------------------------------------------------- faults

    def _restart(self, k: int, future: Any) -> Any:
        """Load partition k on another worker and configure it again; returns the future of its Answer."""
        dead = self.homes[k]
        workers = self._workers()
        busy = [sum(home == worker for j, home in enumerate(self.homes) if j != k) for worker in workers]
        self.homes[k] = workers[int(np.argmin(busy))]
        for old in (future, self.keys[k]):
            self._guarded(old.cancel)
        self.keys[k] = self._load(k)
        if self._configured is None:
            self.losses.append(f"worker {dead} was lost while partition {k} was loading; it is loaded on {self.homes[k]}")
            return self._submit(k, "describe", ())
        setting = self._setting(k)
        begins = "its last checkpoint" if setting[1] else "zero"
        self.losses.append(f"worker {dead} was lost with the dual variables of partition {k}, which began again from {begins}")
        return self._submit(k, "configure", setting)

    def _refuse_paused(self, homes: set[str]) -> None:
        """Raise ClusterLost where Dask has paused the workers that are waited for, for longer than `patience`."""
        paused = homes & self._paused()
        if not paused:
            self._paused_since = None
            return
        now = time.monotonic()
        self._paused_since = self._paused_since or now
        if now - self._paused_since >= self.patience:
            raise ClusterLost(
                f"Dask has paused worker {sorted(paused)[0]} for {self.patience:g} s, because its memory is nearly full; give the workers "
                f"more memory, or use more of them; {self.where()}"
            )

    def _paused(self) -> set[str]:
        workers = self._guarded(self.client.scheduler_info).get("workers", {})
        return {address for address, worker in workers.items() if worker.get("status") == "paused"}

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
        except (OSError, *CANCELLED) as error:
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
        except (OSError, *CANCELLED):
            return False
        return True

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "?"))


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _keep(key: str, make: Callable[..., Partition], *args: Any) -> str:
    """Make a partition in this worker process, and return the key under which the process keeps it."""
    _partitions.pop(key, None)
    _partitions[key] = make(*args)
    return key


def _run(key: str, method: str, *args: Any) -> Any:
    """The task of a call: it runs where the partition is, on the partition itself."""
    partition = _partitions.get(key)
    if partition is None:  # the key came from another process: the one that kept the partition is gone
        raise NotConfigured("this worker does not have the partition any more")
    return getattr(partition, method)(*args)


def _run_bundled(k: int, key: str, method: str, *args: Any) -> Bundle:
    return bundle(k, _run(key, method, *args))


def _release(name: str) -> None:
    for key in [key for key in _partitions if key.startswith(name)]:
        del _partitions[key]
