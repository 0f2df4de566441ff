"""DaskPool: partitions on the workers of a dask.distributed cluster, and what happens when a worker dies.

A partition changes in place, and Dask may write a value of its own to disk, or copy it, at any moment. So partitions are not values of
Dask's: the `Keeper` of each worker keeps them for as long as the fit holds a lease there. Tasks load them; a call is a message
(`Client.run`) that is no task. A worker runs it on all its partitions, in its threads, adds their arrays up and answers once. An exchange
of tasks took 23 ms or more on two local processes, one of messages 4 ms. Where there are more than FAN_IN workers, they pass messages on to
each other along a tree, and sums come back the same way, so that no place holds more than FAN_IN vectors of others. Nothing grows from
round to round.

A worker that dies takes its partitions with it. They are loaded again on the workers that are left and configured with the last β that
was saved, or zero, and the run goes on; since partitions send shares of v, the next sum is right without further ado. A source that gives
other rows the second time is refused: a digest of the rows tells. A worker that joins takes partitions from those with most, with their β.
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
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.cluster.partition import Description, Objective, Partition
from dualgap.cluster.worker_pool import Bundle, ClusterLost, Restored, merged

if TYPE_CHECKING:
    from distributed import Client, Future

    from dualgap.cluster.keeper import Branch, Reply
    from dualgap.run import Progress

__all__ = ["DaskPool", "Loader"]

FAN_IN = 8  # workers that one place sends to, and whose sums it adds up
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)  # both occur, and neither is the other
FATAL = ("KilledWorker", "NoValidWorkerError", "CommClosedError")  # errors of Dask that mean that a worker was lost
POLL = 1.0  # seconds between looks at who is still there
LOOK = 5.0  # seconds between looks for workers that have joined
FREED = 5.0  # seconds to wait at the end until the workers have freed the rows
TITLE = 10.0  # seconds between the names of a fit on the dashboard, which say its round and gap
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


class DaskPool:
    """Partitions on a cluster's workers.

    Parameters
    ----------
    client : dask.distributed.Client
    loaders_for : function of a number of threads
        Called with the threads of all workers; returns a loader for each partition. A loader is called with the client and returns a
        function and its arguments, with which a worker makes the `Partition`. It is called again when that worker dies.
    patience : float
        Seconds to wait for a worker once none is left, or none that Dask has not paused for want of memory.

    Call `close` at the end, or use the pool as a context manager: the workers keep their partitions until then, or until the client dies.
    """

    def __init__(self, client: Client, loaders_for: Callable[[int], Sequence[Loader]], patience: float = PATIENCE) -> None:
        from dualgap.cluster import keeper

        self.client, self.patience, self.keeper = client, patience, keeper
        self.losses: list[str] = []
        self.where: Callable[[], str] = lambda: ""
        self._configured: tuple[Objective, Restored] | None = None
        self._digests: dict[int, str] = {}  # of the rows of each partition, as they were first described
        self._paused_since: float | None = None
        self._looked = time.monotonic()  # when the workers were last compared with the homes
        self._loading: dict[int, Future] = {}  # tasks that have not been waited for
        self._leases: dict[str, tuple[str, Future]] = {}  # key and task by the address of the worker
        self._title: Future | None = None  # a lease whose name says how far the fit is
        try:
            workers = self._ready_workers()
            self._guarded(lambda: client.register_plugin(keeper.Keeper()))
            self._say_who_else_is_here(workers)
            self.loaders = list(loaders_for(sum(self._guarded(client.nthreads).values())))
            self.count = len(self.loaders)
            self.homes = [workers[k % len(workers)] for k in range(self.count)]
            self.keys = [""] * self.count
            for k in range(self.count):
                self._load(k)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the leases, and wait a little until the workers have freed their partitions."""
        held = [*self._loading.values(), *(future for _, future in self._leases.values()), self._title]
        keys = [key for key, _ in self._leases.values()]
        self._loading, self._leases, self._title = {}, {}, None
        with contextlib.suppress(Exception):  # a cluster that is gone has freed them
            for future in filter(None, held):
                future.release()
            end = time.monotonic() + FREED
            asked = partial(self.client.run, self.keeper.holds, keys, on_error="ignore")
            while keys and self.client.status == "running" and any(_aside(asked).result(end - time.monotonic()).values()):
                time.sleep(0.01)

    # ------------------------------------------------------------------------------------------------------------- leases

    def _lease(self, home: str) -> str:
        """Return the key of the lease on a worker; take one where there is none."""
        if home not in self._leases:
            key = f"{self.keeper.LEASE}-{uuid.uuid4().hex}"
            self._leases[home] = key, self._hold(key, home)
        return self._leases[home][0]

    def _hold(self, key: str, home: str) -> Future:
        where = {"workers": [home], "allow_other_workers": False}
        found: Future = self._guarded(lambda: self.client.submit(self.keeper.hold, key, key=key, priority=1, **where))
        return found

    def _ready_workers(self) -> list[str]:
        """Wait until the workers have imported dualgap, and return them. A cluster that scales to its work starts one for a task."""
        workers = self._guarded(self.client.nthreads)
        submit = partial(self.client.submit, self.keeper.ready, pure=False)
        near = [self._guarded(partial(submit, workers=[worker], allow_other_workers=True)) for worker in workers]
        waiting = near or [self._guarded(submit)]
        self._workers()
        self._guarded(partial(self.client.gather, waiting))
        return self._workers()

    def _say_who_else_is_here(self, workers: list[str]) -> None:
        """Warn where the workers keep rows of another fit: both then share the threads of the workers."""
        others = sum(self._guarded(lambda: self.client.run(self.keeper.fits, workers=workers, on_error="ignore")).values())
        if others:
            warnings.warn(
                "another fit keeps rows on the workers of this cluster: the two take turns at the threads of each worker, and both sets of "
                "rows must fit into memory",
                stacklevel=4,
            )

    def _rename(self, text: str) -> None:
        """Say on Dask's dashboard how far the fit is: the name of a task is fixed, so that another lease takes the place of the last."""
        old, key = self._title, f"{self.keeper.LEASE}: {text}".replace("-", "\N{MINUS SIGN}") + f"-{uuid.uuid4().hex}"
        self._title = self._hold(key, self.homes[0])
        if old is not None:
            old.release()

    # ------------------------------------------------------------------------------------------------------------- loading

    def _load(self, k: int) -> None:
        """Make partition k on its worker."""
        lease, key = self._lease(self.homes[k]), uuid.uuid4().hex
        self.keys[k] = key
        make, args = self.loaders[k](self.client)
        options = {"workers": [self.homes[k]], "allow_other_workers": False, "key": f"dualgap load-{key}"}
        self._loading[k] = self._guarded(lambda: self.client.submit(self.keeper.keep, lease, key, make, *args, **options))

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
                    self._load_elsewhere(k)
                elif state is Waiting.FINISHED:
                    del self._loading[k]
            self._refuse_paused({self.homes[k] for k in self._loading})

    def _state(self, future: Future, home_alive: bool) -> Waiting:
        """Return how far a task is; an error of the partition's own is raised."""
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ in FATAL:
                return Waiting.LOST
            raise error
        if future.status in ("cancelled", "lost") or not home_alive:
            return Waiting.LOST
        return Waiting.FINISHED if future.status == "finished" else Waiting.PENDING

    def _load_elsewhere(self, k: int) -> None:
        """Load partition k on the worker that has the fewest others."""
        workers = self._workers()
        for gone in set(self._leases) - set(workers):
            self._leases.pop(gone)[1].release()
        busy = [sum(home == worker for j, home in enumerate(self.homes) if j != k) for worker in workers]
        self.homes[k] = workers[int(np.argmin(busy))]
        self._load(k)

    def _share_out(self) -> dict[int, Any]:
        """Move partitions to workers that have joined, with their β; return the Answers of those that moved.

        A worker is asked for one only if it has two more than another, so that nothing moves to and fro.
        """
        if self._configured is None or time.monotonic() - self._looked < LOOK:
            return {}
        self._looked, workers, moving = time.monotonic(), self._workers(), dict[int, np.ndarray]()
        while True:
            has = {worker: self.homes.count(worker) for worker in workers}
            most, least = max(workers, key=has.__getitem__), min(workers, key=has.__getitem__)
            if has[most] < has[least] + 2:
                break
            k = max(k for k, home in enumerate(self.homes) if home == most)
            found = self._ask([k], "dual", (), summed=False, flat=True).parts
            if k not in found:
                break  # it is lost, which the next call finds out
            self._guarded(partial(self.client.run, self.keeper.forget, [self.keys[k]], workers=[most], on_error="ignore"))
            moving[k], self.homes[k] = found[k], least
            self._load(k)
        if not moving:
            return {}
        self._ask(list(moving), "configure", (self._configured[0],), own=self._setting, summed=False, flat=True)
        return self._ask(list(moving), "take_over", (), own=lambda k: (moving[k],), summed=False, flat=True).parts

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
        anew = self._share_out()
        found = self._ask([k for k in chosen if k not in anew], method, args, own=own)
        missing = [k for k in chosen if k not in found.parts and k not in anew]
        anew |= self._made_anew(missing)
        return Bundle(found.parts | anew, None) if anew else found

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
                self._load_elsewhere(k)
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
        from cloudpickle import dumps  # type: ignore[import-untyped]

        self._wait_for_loading()
        by_home: dict[str, dict[int, tuple[str, tuple[Any, ...]]]] = {}
        for k in chosen:
            by_home.setdefault(self.homes[k], {})[k] = (self.keys[k], own(k))
        alive = set(self._workers()) if flat else set(by_home)  # connecting to a worker that is gone takes Dask half a minute
        leaves = [self.keeper.Branch(home, kept) for home, kept in by_home.items() if home in alive]
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

        trees = dict(zip(addresses, branches, strict=True))
        sent = _aside(lambda: self.client.run(self.keeper.serve, trees, message, workers=addresses, on_error="return"))
        while not concurrent.futures.wait([sent], timeout=POLL).done:
            if not everyone <= set(self._workers()):
                return []
        replies = self._guarded(sent.result).values()
        for reply in replies:
            if isinstance(reply, Exception) and not isinstance(reply, OSError):  # an OSError is that of a broken connection
                raise reply
        return [reply for reply in replies if isinstance(reply, self.keeper.Reply)]

    def listener(self, name: str = "fit") -> Callable[[Any], None]:
        """Return a callback that shows rounds on the dashboard, and logs them as events of the topic "dualgap" on the scheduler."""
        last = named = -math.inf

        def listen(progress: Progress) -> None:
            nonlocal last, named
            if time.monotonic() - last < POLL:
                return
            last = time.monotonic()
            if last - named >= TITLE:
                named = last
                self._rename(f"{name}, round {progress.epoch}, gap {progress.certificate.relative_gap:.1e}")
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
        return self._guarded(lambda: self.client.run_on_scheduler(self.keeper.paused))  # type: ignore[no-any-return]

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


def _aside(action: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """Do something in a thread of its own, which nobody has to wait for."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="dualgap-send", daemon=True).start()
    return future


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
