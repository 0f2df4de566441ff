"""Keeper: what a worker of Dask keeps for the fits that use it, and how it answers their messages.

A fit holds a *lease* on every worker with rows of it: a task that has left the worker's threads and lasts as long as the fit. Dask counts
it as work. When the client ends the fit, or dies, Dask releases the task, and the worker drops the rows. Needs Dask; runs on workers.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from cloudpickle import dumps  # type: ignore[import-untyped]
from distributed import Scheduler, Worker, WorkerPlugin, get_worker, secede

from dualgap.cluster.partition import NotConfigured, Partition
from dualgap.cluster.worker_pool import Bundle, bundle, merged

__all__ = ["LEASE", "Branch", "Keeper", "Reply", "fits", "forget", "hold", "holds", "keep", "paused", "ready", "serve"]

NAME = "dualgap"  # of the plugin, and of the message that workers send each other
LEASE = "dualgap fit"  # begins the key of every lease
ALIVE = ("waiting", "constrained", "ready", "executing", "long-running")  # states of a task that a worker has and has not released


class Kept(NamedTuple):
    """A partition, and a lock: a call that was given up may still be at work on it when the next one comes."""

    partition: Partition
    lock: threading.Lock


class Lease:
    """The partitions of one fit on one worker by their keys, until `ended` is set."""

    def __init__(self) -> None:
        self.partitions: dict[str, Kept] = {}
        self.ended = threading.Event()


class Branch(NamedTuple):
    """A worker in the tree that a message takes: the keys of its partitions with the arguments of each alone, and the branches below."""

    address: str
    own: dict[int, tuple[str, tuple[Any, ...]]]
    below: tuple[Branch, ...] = ()


class Reply(NamedTuple):
    """What a branch answers: those of its partitions that are there, and the errors of those that failed. Lost ones are in neither."""

    found: Bundle
    errors: dict[int, Exception]


NOTHING = Reply(Bundle({}, {}), {})


class Keeper(WorkerPlugin):
    """The leases of a worker. All fits share one pool of as many threads as the worker has."""

    name = NAME
    idempotent = True  # a second client finds the keeper of the first, with its leases

    def setup(self, worker: Worker) -> None:
        """Begin to take leases and messages."""
        self.worker, self.leases = worker, dict[str, Lease]()
        self.threads = ThreadPoolExecutor(worker.state.nthreads, thread_name_prefix=NAME)
        worker.handlers[NAME] = self.handle

    def teardown(self, worker: Worker) -> None:
        """End all leases: the worker closes."""
        for key in list(self.leases):
            self.leases.pop(key).ended.set()

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """Begin a lease when Dask gives its task to this worker, and end it when Dask releases the task."""
        if not str(key).startswith(LEASE):
            return
        if finish in ALIVE:
            self.leases.setdefault(key, Lease())
        elif key in self.leases:
            self.leases.pop(key).ended.set()

    def partition(self, key: str) -> Kept | None:
        """Return a partition, if this worker keeps it."""
        found = (lease.partitions.get(key) for lease in list(self.leases.values()))  # another thread may release them meanwhile
        return next((kept for kept in found if kept is not None), None)

    # ------------------------------------------------------------------------------------------------------------ messages

    async def handle(self, content: bytes) -> bytes:
        """Answer another worker."""
        return dumps(await self.answer(*pickle.loads(content)))  # type: ignore[no-any-return]

    async def answer(self, branch: Branch, message: bytes) -> Reply:
        """Run a message on the partitions of a branch and on the branches below, and add up what they answer."""
        loop = asyncio.get_running_loop()
        own = [
            loop.run_in_executor(self.threads, self._run, k, key, message, args) for k, (key, args) in sorted(branch.own.items())
        ]
        replies: list[Reply] = await asyncio.gather(*own, *(self._pass_on(each, message) for each in branch.below))
        return replies[0] if len(replies) == 1 else await loop.run_in_executor(self.threads, _joined, replies)

    async def _pass_on(self, branch: Branch, message: bytes) -> Reply:
        """Send a message to the worker of a branch; one that does not answer is missing in the reply, and so are those below it."""
        try:
            send = getattr(self.worker.rpc(branch.address), NAME)
            return pickle.loads(await send(content=dumps((branch, message))))  # type: ignore[no-any-return]
        except OSError:
            return NOTHING

    def _run(self, k: int, key: str, message: bytes, own: tuple[Any, ...]) -> Reply:
        """Run a message on a partition; one that is not here, or that was made anew, has no place in the reply."""
        kept = self.partition(key)
        if kept is None:
            return NOTHING
        method, args, summed = pickle.loads(message)  # each partition has arrays of its own
        try:
            with kept.lock:
                answer = getattr(kept.partition, method)(*args, *own)
        except NotConfigured:
            return NOTHING
        except Exception as error:
            return Reply(Bundle({}, {}), {k: error})
        return Reply(bundle(k, answer) if summed else Bundle({k: answer}, {}), {})


def _joined(replies: Iterable[Reply]) -> Reply:
    replies = list(replies)
    found = [reply.found for reply in replies if reply.found.parts]
    return Reply(merged(found) if found else Bundle({}, {}), {k: error for reply in replies for k, error in reply.errors.items()})


# ------------------------------------------------------------------------------------------- what a client has a worker run


def keeper_of(worker: Worker) -> Keeper:
    """Return the keeper of a worker."""
    found = worker.plugins[NAME]
    assert isinstance(found, Keeper)
    return found


def ready() -> None:
    """Run as a task: import this module, which takes seconds, so that Dask counts it as work."""


def hold(key: str) -> None:
    """Run as the task of a lease: leave the worker's threads to others and last until the lease ends."""
    lease = keeper_of(get_worker()).leases.get(key)
    if lease is not None:
        secede()
        lease.ended.wait()


def keep(lease: str, key: str, make: Callable[..., Partition], *args: Any) -> bool:
    """Run as a task: make a partition and keep it under a lease; where the lease has ended meanwhile, drop it."""
    made = Kept(make(*args), threading.Lock())
    found = keeper_of(get_worker()).leases.get(lease)
    if found is not None:
        found.partitions[key] = made
    return found is not None


async def serve(trees: dict[str, Branch], message: bytes, dask_worker: Worker) -> Reply:
    """Run by `Client.run`: answer the client; a worker that closes has lost its keeper and all partitions."""
    if NAME not in dask_worker.plugins:
        return NOTHING
    return await keeper_of(dask_worker).answer(trees[dask_worker.address], message)


def forget(keys: Iterable[str], dask_worker: Worker) -> None:
    """Run by `Client.run`: drop partitions that have moved to another worker."""
    for lease in keeper_of(dask_worker).leases.values():
        for key in keys:
            lease.partitions.pop(key, None)


def fits(dask_worker: Worker) -> int:
    """Run by `Client.run`: return how many fits keep rows on a worker."""
    return sum(bool(lease.partitions) for lease in keeper_of(dask_worker).leases.values())


def holds(keys: Iterable[str], dask_worker: Worker) -> bool:
    """Run by `Client.run`: return whether a worker has some of these leases."""
    leases = keeper_of(dask_worker).leases
    return any(key in leases for key in keys)


def paused(dask_scheduler: Scheduler) -> set[str]:
    """Run by `Client.run_on_scheduler`: return the workers that Dask has paused."""
    return {address for address, state in dask_scheduler.workers.items() if state.status.name == "paused"}
