"""DaskPool: partitions on the workers of a dask.distributed cluster, and what happens when a worker dies.

A partition changes in place, and Dask may write a value of its own to disk, or copy it, at any moment. So partitions are not values of
Dask's: each worker process keeps them in a registry of this module. Tasks load them, and nothing else is a task. A call is a message
(`Client.run`) that goes past the scheduler's bookkeeping: a worker runs it on all its partitions, in its threads, adds their arrays up and
answers once. An exchange of tasks took 23 ms or more on two local processes, one of messages 4 ms. Where there are more than FAN_IN
workers, they pass messages on to each other along a tree, and sums come back the same way, so that no place holds more than FAN_IN vectors
of others. β never travels, and nothing grows from round to round.

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
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dualgap.cluster.partition import Description, NotConfigured, Objective, Partition
from dualgap.cluster.worker_pool import Bundle, ClusterLost, Restored, bundle, merged

__all__ = ["DaskPool", "Loader"]


class Kept(NamedTuple):
    """A partition, and a lock: a call that was given up may still be at work on it when the next one comes."""

    partition: Partition
    lock: threading.Lock


_partitions: dict[str, Kept] = {}  # in a worker process: the partitions that it keeps, by their keys

FAN_IN = 8  # workers that one place sends to, and whose sums it adds up
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)  # both occur, and neither is the other
FATAL = ("KilledWorker", "NoValidWorkerError", "CommClosedError")  # errors of Dask that mean that a worker was lost
POLL = 1.0  # seconds between looks at who is still there
TOPIC = "dualgap"  # of the events on the scheduler
PATIENCE = 60.0  # seconds to wait for a worker to come back once none is left
MOST_RESTARTS = 4  # of one partition in one call: beyond that it is the partition that kills its workers


# Given the client: a function that makes the partition on a worker, and its arguments, which may be futures.
Loader = Callable[[Any], tuple[Callable[..., Partition], tuple[Any, ...]]]


class Waiting(enum.Enum):
    """How far the task that loads a partition is."""

    PENDING = enum.auto()
    LOST = enum.auto()
    FINISHED = enum.auto()


class Branch(NamedTuple):
    """A worker in the tree that a message takes: the keys of its partitions with the arguments of each alone, and the branches below."""

    address: str
    own: dict[int, tuple[str, tuple[Any, ...]]]
    below: tuple[Branch, ...] = ()


class Reply(NamedTuple):
    """What a branch answers: those of its partitions that are there, and the errors of those that failed. Lost ones are in neither."""

    found: Bundle
    errors: dict[int, Exception]


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
        self.keys = [""] * self.count
        self._loading = {k: self._load(k) for k in range(self.count)}  # tasks that have not been waited for

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory of the partitions on all workers."""
        _release(self._name)  # workers may be threads of this process
        with contextlib.suppress(Exception):  # a cluster that is gone has freed it
            self.client.run(_release, self._name)

    # ------------------------------------------------------------------------------------------------------------- loading

    def _load(self, k: int) -> Any:
        """Make partition k on its worker; return the future of the task."""
        self._generation += 1
        self.keys[k] = key = f"{self._name}-{k}-{self._generation}"
        make, args = self.loaders[k](self.client)
        options = {"workers": [self.homes[k]], "allow_other_workers": False, "key": f"dualgap-load-{uuid.uuid4().hex}"}
        return self._guarded(lambda: self.client.submit(_keep, key, make, *args, **options))

    def _wait_for_loading(self) -> None:
        """Wait until all partitions are loaded; one whose worker dies meanwhile is loaded on another one.

        Dask then forgets the tasks: it would run them again for a worker that comes back, which keeps nothing of what it had.
        """
        from distributed import wait

        restarts = dict.fromkeys(self._loading, 0)
        while self._loading:
            with contextlib.suppress(TimeoutError, *CANCELLED):
                self._guarded(lambda: wait(list(self._loading.values()), timeout=POLL))
            alive = set(self._workers())
            for k, future in list(self._loading.items()):
                state = self._state(future, self.homes[k] in alive)
                if state is Waiting.LOST:
                    restarts[k] += 1
                    self._refuse_restarts(k, restarts[k])
                    self.losses.append(f"worker {self.homes[k]} was lost while partition {k} was loading")
                    self._guarded(future.cancel)
                    self._move(k)
                elif state is Waiting.FINISHED:
                    del self._loading[k]
            self._refuse_paused({self.homes[k] for k in self._loading})

    def _state(self, future: Any, home_alive: bool) -> Waiting:
        """Return how far a task is; an error of the partition's own is raised."""
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ in FATAL:
                return Waiting.LOST
            raise error
        if future.status in ("cancelled", "lost") or not home_alive:
            return Waiting.LOST
        return Waiting.FINISHED if future.status == "finished" else Waiting.PENDING

    def _move(self, k: int) -> None:
        """Load partition k on the worker that has the fewest others."""
        workers = self._workers()
        busy = [sum(home == worker for j, home in enumerate(self.homes) if j != k) for worker in workers]
        self.homes[k] = workers[int(np.argmin(busy))]
        self._loading[k] = self._load(k)

    # --------------------------------------------------------------------------------------------------------------- calls

    def call(self, method: str, *args: Any, only: Sequence[int] | None = None) -> dict[int, Any]:
        """Run method(*args) on all partitions, or on some; a lost one is made anew and returns the Answer of its new state."""
        chosen = list(range(self.count) if only is None else only)
        answers: dict[int, Any] = {}
        while left := [k for k in chosen if k not in answers]:
            answers |= self._ask(left, method, args, summed=False).parts
            if any(k not in answers for k in left):
                answers |= self._made_anew([k for k in left if k not in answers])
        if method == "describe":
            self._digests.update({k: answer.digest for k, answer in answers.items() if isinstance(answer, Description)})
        return answers

    def total(self, method: str, *args: Any, only: Sequence[int] | None = None) -> Bundle:
        """Run method(*args) on all partitions, or on some; return the answers with their arrays added up along a tree of workers."""
        return self._sum(list(range(self.count) if only is None else only), method, args)

    def configure(self, objective: Objective, restored: Restored) -> Bundle:
        """Configure all partitions."""
        self._configured = (objective, restored)
        return self._sum(list(range(self.count)), "configure", (objective,), own=self._setting)

    def _sum(
        self, chosen: list[int], method: str, args: tuple[Any, ...], own: Callable[[int], tuple[Any, ...]] = lambda k: ()
    ) -> Bundle:
        """Return the sums of all that are chosen; where one is lost meanwhile, it is made anew and there is no sum."""
        found = self._ask(chosen, method, args, own=own)
        missing = [k for k in chosen if k not in found.parts]
        return Bundle(found.parts | self._made_anew(missing), None) if missing else found

    def _setting(self, k: int) -> tuple[Any, ...]:
        """Return the arguments with which partition k is configured, beside the objective."""
        assert self._configured is not None
        return self._configured[1](k), k, self._digests.get(k)

    def _made_anew(self, missing: list[int]) -> dict[int, Any]:
        """Make those of the partitions that did not answer anew whose workers have lost them; return their Answers.

        An answer may be missing though the partition is there: the worker that was to pass it on has died. It then has ended its call
        before this returns.
        """
        answers: dict[int, Any] = {}
        restarts = dict.fromkeys(missing, 0)
        while missing := [k for k in missing if k not in answers]:
            there = self._ask(missing, "ready", (), summed=False, flat=True).parts
            lost = [k for k in missing if k not in there]
            for k in lost:
                restarts[k] += 1
                self._refuse_restarts(k, restarts[k])
                self._note_loss(k)
                self._move(k)
            self._wait_for_loading()
            if self._configured is None:
                return answers
            answers |= self._ask(lost, "configure", (self._configured[0],), own=self._setting, summed=False, flat=True).parts
            missing = lost
        return answers

    def _note_loss(self, k: int) -> None:
        dead = self.homes[k]
        if self._configured is None:
            self.losses.append(f"worker {dead} was lost before partition {k} was configured; it is loaded again")
            return
        begins = "its last checkpoint" if self._setting(k)[0] else "zero"
        self.losses.append(f"worker {dead} was lost with the dual variables of partition {k}, which began again from {begins}")

    def _refuse_restarts(self, k: int, restarts: int) -> None:
        if restarts > MOST_RESTARTS:
            raise ClusterLost(
                f"partition {k} has lost its worker {restarts} times in one call: its rows may need more memory than a worker has; give "
                f"the workers more memory, or use more of them; {self.where()}"
            )

    # ------------------------------------------------------------------------------------------------------------ messages

    def _ask(
        self,
        chosen: list[int],
        method: str,
        args: tuple[Any, ...],
        own: Callable[[int], tuple[Any, ...]] = lambda k: (),
        summed: bool = True,
        flat: bool = False,
    ) -> Bundle:
        """Send one message to the workers of some partitions; return what those answer that are there.

        `own` gives the arguments that are of one partition alone. `flat`: every worker is asked by itself, none through another.
        """
        from distributed.protocol.pickle import dumps

        self._wait_for_loading()
        by_home: dict[str, dict[int, tuple[str, tuple[Any, ...]]]] = {}
        for k in chosen:
            by_home.setdefault(self.homes[k], {})[k] = (self.keys[k], own(k))
        alive = set(self._workers()) if flat else set(by_home)  # connecting to a worker that is gone takes Dask half a minute
        leaves = [Branch(home, kept) for home, kept in by_home.items() if home in alive]
        if not leaves:
            return Bundle({}, {})
        replies = self._exchange(leaves if flat else _tree(leaves), dumps((method, args, summed)))
        errors = {k: error for reply in replies for k, error in reply.errors.items()}
        if errors:
            raise errors[min(errors)]
        found = [reply.found for reply in replies if reply.found.parts]
        return merged(found) if found else Bundle({}, {})

    def _exchange(self, branches: list[Branch], message: bytes) -> list[Reply]:
        """Send a message and return the replies that come; where a worker is gone, give up waiting for the others."""
        addresses = [branch.address for branch in branches]
        everyone = {address for branch in branches for address in _addresses(branch)}

        async def send() -> dict[str, Any]:
            trees = dict(zip(addresses, branches, strict=True))
            return await self.client.run(_serve, trees, message, workers=addresses, on_error="return")  # type: ignore[no-any-return]

        sent = self._guarded(lambda: asyncio.run_coroutine_threadsafe(send(), self.client.loop.asyncio_loop))
        try:
            while not concurrent.futures.wait([sent], timeout=POLL).done:
                if not everyone <= set(self._workers()):
                    return []
            replies = self._guarded(sent.result).values()
        finally:
            sent.cancel()
        for reply in replies:
            if isinstance(reply, Exception) and not isinstance(reply, OSError):  # an OSError is that of a broken connection
                raise reply
        return [reply for reply in replies if isinstance(reply, Reply)]

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

    # -------------------------------------------------------------------------------------------------------------- faults

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


def _tree(leaves: list[Branch]) -> list[Branch]:
    """Return at most FAN_IN branches that have all workers in them, neighbours in one branch."""
    if len(leaves) <= FAN_IN:
        return leaves
    ends = np.linspace(0, len(leaves), FAN_IN + 1).astype(int)
    groups = [leaves[first:last] for first, last in pairwise(ends)]
    return [head._replace(below=tuple(_tree(rest))) for head, *rest in groups]


def _addresses(branch: Branch) -> Iterator[str]:
    yield branch.address
    for each in branch.below:
        yield from _addresses(each)


def _keep(key: str, make: Callable[..., Partition], *args: Any) -> str:
    """Make a partition in this worker process, and return the key under which the process keeps it."""
    _partitions.pop(key, None)
    _partitions[key] = Kept(make(*args), threading.Lock())
    return key


async def _serve(trees: dict[str, Branch], message: bytes, dask_worker: Any) -> Reply:
    """On a worker: run the message on its partitions and on the branches below, and add up what they answer."""
    branch, loop = trees[dask_worker.address], asyncio.get_running_loop()
    own = [
        loop.run_in_executor(dask_worker.executors["default"], _run, k, key, message, args)
        for k, (key, args) in sorted(branch.own.items())
    ]
    replies: list[Reply] = await asyncio.gather(*own, *(_pass_on(dask_worker, each, message) for each in branch.below))
    if len(replies) == 1:
        return replies[0]
    return await loop.run_in_executor(dask_worker.executors["default"], _joined, replies)


async def _pass_on(dask_worker: Any, branch: Branch, message: bytes) -> Reply:
    """Send the message to the worker of a branch; one that does not answer is missing in the reply, and so are those below it."""
    from distributed.protocol.pickle import dumps

    try:
        call = dask_worker.rpc(branch.address).run
        answer = await call(function=dumps(_serve), args=dumps(({branch.address: branch}, message)), kwargs=dumps({}))
    except OSError:
        return Reply(Bundle({}, {}), {})
    if answer["status"] == "error":
        raise RuntimeError(f"worker {branch.address} failed: {answer.get('exception_text')}")
    return answer["result"]  # type: ignore[no-any-return]


def _joined(replies: Iterable[Reply]) -> Reply:
    replies = list(replies)
    found = [reply.found for reply in replies if reply.found.parts]
    return Reply(merged(found) if found else Bundle({}, {}), {k: error for reply in replies for k, error in reply.errors.items()})


def _run(k: int, key: str, message: bytes, own: tuple[Any, ...]) -> Reply:
    """Run a message on a partition; one that this process does not keep, or that was made anew, has no place in the reply."""
    from distributed.protocol.pickle import loads

    kept = _partitions.get(key)
    if kept is None:
        return Reply(Bundle({}, {}), {})
    method, args, summed = loads(message)
    try:
        with kept.lock:
            answer = getattr(kept.partition, method)(*args, *own)
    except NotConfigured:
        return Reply(Bundle({}, {}), {})
    except Exception as error:
        return Reply(Bundle({}, {}), {k: error})
    return Reply(bundle(k, answer) if summed else Bundle({k: answer}, {}), {})


def _release(name: str) -> None:
    for key in [key for key in _partitions if key.startswith(name)]:
        del _partitions[key]
