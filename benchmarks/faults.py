"""A hundred faults on real worker processes: `python -m benchmarks.faults [--kinds kill,stop,…] [--faults N]`.

kill      SIGKILL to a worker in the middle of a run; its nanny starts another one
address   the same, and the new worker has the address of the old one
stop      SIGSTOP to a worker for 10 s
memory    a limit of 1.3 times the rows, above what the interpreter takes: Dask pauses, spills and kills as it likes
scheduler SIGKILL to the scheduler; the run is resumed from its checkpoint on another cluster
client    SIGKILL to the client; the run is resumed from its checkpoint by another one
retire    a worker is retired, and another one joins
restart   Client.restart, which ends all worker processes and starts new ones
join      a third worker joins
idle      a scheduler with an idle timeout of 20 s, and a run of 40 s
adapt     a cluster that scales between 0 and 3 workers, from zero

A run must converge, or end with ClusterLost, whose sentence names its checkpoint; within 10 s after it, the workers hold none of its rows.
Every certificate is compared with that of one process. Half of the faults strike between two rounds, half at some moment of the next one;
Newton's method (hinge) and CoCoA+ (smooth hinge) take turns. The table has one line a kind; any
other end, or a false certificate, makes the exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COUNTS = {"kill": 25, "address": 15, "stop": 5, "memory": 15, "scheduler": 10}
COUNTS |= {"client": 8, "retire": 8, "restart": 5, "join": 5, "idle": 2, "adapt": 2}
ROWS, FEATURES, PARTS = 8_000, 20, 4
MEMORY_ROWS, MEMORY_FEATURES = 40_000, 400  # 64 MB a worker
TOL, STOPPED, PATIENCE = 1e-5, 10.0, 15.0
SOLVERS = {"newton": "hinge", "cocoa": "smooth_hinge"}  # with the loss
PROBLEM = {"l2": 1e-2, "intercept": "free"}
LATEST = 0.05  # seconds into a round at which a fault strikes
FREED = 10.0  # seconds after a run within which the workers hold nothing of it
IDLE, LONG = 20.0, 40.0  # seconds: the timeout of an idle scheduler, and the least that a run takes under it
RECONNECT = 8.0  # seconds after which a client gives a scheduler up


def rows_of(part: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one of the parts of a data set: the same rows every time."""
    rng = np.random.default_rng([7, part])
    X = rng.standard_normal((rows // PARTS, features)) * np.geomspace(0.1, 3.0, features)
    y = np.where(X @ np.sin(np.arange(features)) + 2.0 * rng.standard_normal(len(X)) > 1.0, 1, -1)
    return X, y


class Cluster:
    """A scheduler and two workers with nannies, processes of their own; a context manager that ends them."""

    def __init__(self, *words: str, memory: float = 0.0, fixed: bool = False) -> None:
        self.folder = tempfile.mkdtemp(prefix="dualgap-faults-")
        self.file = os.path.join(self.folder, "scheduler.json")
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self.file, "--no-dashboard", *words)
        self.workers: list[subprocess.Popen[bytes]] = []
        for _ in range(2):
            self.add("--memory-limit", f"{memory:.0f}", *(("--worker-port", str(_free_port())) if fixed else ()))

    def add(self, *words: str) -> None:
        """Start a worker."""
        self.workers.append(self._start("worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-dashboard", *words))

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1"]
        environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: Any) -> None:
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the nanny and its worker
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Yield a client once both workers are there."""
        from distributed import Client

        made = Client(scheduler_file=self.file, timeout=RECONNECT)
        try:
            made.wait_for_workers(2, timeout=120)
            yield made
        finally:
            with contextlib.suppress(OSError, RuntimeError):  # Dask's closing, where its scheduler is gone
                made.close()


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Outcome(NamedTuple):
    """How a run ended: "converged", "sentence" or what went wrong; whether its certificate contradicts one process; seconds, losses."""

    end: str
    false: bool = False
    seconds: float = 0.0
    losses: int = 0


class Trial(NamedTuple):
    """A kind of run: the shape of its rows, and certificates of one process by solver."""

    rows: int
    features: int
    best: dict[str, Any]


def trial(rows: int, features: int) -> Trial:
    """Return runs on rows of a shape, with what one process says of them."""
    import dualgap

    parts = [rows_of(k, rows, features) for k in range(PARTS)]
    X, y = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    solved = {
        solver: dualgap.solve(dualgap.Problem(X, y, loss, **PROBLEM), tol=1e-8, max_epochs=5000) for solver, loss in SOLVERS.items()
    }
    return Trial(rows, features, {solver: result.certificate for solver, result in solved.items()})


def run(client: Any, kind: Trial, folder: str, solver: str, fault: Any, resume: bool = False) -> Outcome:
    """Train, with a fault that strikes at some round."""
    import dask

    from dualgap.cluster import ClusterLost, train

    parts = [dask.delayed(rows_of)(k, kind.rows, kind.features) for k in range(PARTS)]
    options = {**PROBLEM, "loss": SOLVERS[solver], "tol": TOL, "max_rounds": 5000, "solver": solver, "patience": PATIENCE}
    options |= {"checkpoint": folder, "checkpoint_seconds": 0.1, "resume": resume, "callbacks": [fault] if fault else []}
    began = time.perf_counter()
    try:
        result = train(parts, **options, client=client)
    except ClusterLost as error:
        said = folder in str(error) or "start afresh" in str(error)
        return Outcome("sentence" if said else f"no checkpoint named: {error}", False, time.perf_counter() - began)
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {error}", False, time.perf_counter() - began)
    if not freed(client):
        return Outcome(f"the workers keep rows {FREED:g} s after the run", False, time.perf_counter() - began)
    c, best = result.certificate, kind.best[solver]
    crossed = c.dual > best.primal * (1 + 1e-12) or best.dual > c.primal * (1 + 1e-12)
    false = crossed or (result.status == "converged" and c.relative_gap > TOL)
    return Outcome(result.status, bool(false), time.perf_counter() - began, len(result.losses))


def kept(dask_worker: Any) -> int:
    """On a worker: return how many partitions it keeps."""
    from dualgap.cluster.keeper import keeper_of

    found = "dualgap" in dask_worker.plugins and keeper_of(dask_worker).leases.values()
    return sum(len(lease.partitions) for lease in found or ())


def freed(client: Any) -> bool:
    """Return whether the workers hold no rows within some seconds."""
    end = time.monotonic() + FREED
    while sum(count for count in client.run(kept, on_error="return").values() if isinstance(count, int)):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def striking(rng: random.Random, strike: Any) -> Any:
    """Return a callback that strikes once, at one of the first rounds or some moment later."""
    at, later = rng.randint(1, 6), rng.choice([0.0, rng.uniform(0.0, LATEST)])
    done: list[int] = []

    def callback(progress: Any) -> None:
        if progress.epoch < at or done:
            return
        done.append(progress.epoch)
        if later:
            threading.Timer(later, strike).start()
        else:
            strike()

    return callback


def killing(pid: int) -> Any:
    """Return a fault: the end of a process."""
    return lambda: os.kill(pid, signal.SIGKILL)


def stopping(pid: int) -> Any:
    """Return a fault: a process that stands still for a while."""

    def strike() -> None:
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(STOPPED, lambda: os.kill(pid, signal.SIGCONT)).start()

    return strike


def on_one_cluster(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of faults that a cluster outlives, one run after the other on the same cluster."""
    kind = trial(ROWS, FEATURES)
    with Cluster(fixed=name == "address") as cluster:
        for number in range(count):
            with cluster.client() as client:
                address, pid = rng.choice(sorted(client.run(os.getpid).items()))
                strikes = {
                    "stop": stopping(pid),
                    "retire": lambda at=address, client=client: (cluster.add(), client.retire_workers([at])),
                    "restart": lambda client=client: client.restart(wait_for_workers=False),
                }
                fault = striking(rng, strikes.get(name, killing(pid)))
                yield run(client, kind, os.path.join(cluster.folder, f"run-{number}"), _solver(number), fault)


def with_another_worker(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs in which a third worker joins."""
    kind = trial(ROWS, FEATURES)
    for number in range(count):
        with Cluster() as cluster, cluster.client() as client:

            def join(progress: Any, cluster: Cluster = cluster, client: Any = client) -> None:
                if progress.epoch == 3:
                    cluster.add()
                    client.wait_for_workers(3, timeout=120)

            yield run(client, kind, os.path.join(cluster.folder, "run"), _solver(number), join)


def with_idle_timeout(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs that take longer than the time after which an idle scheduler ends itself."""
    kind = trial(ROWS, FEATURES)
    for number in range(count):
        with Cluster("--idle-timeout", f"{IDLE:g} seconds") as cluster, cluster.client() as client:
            wait = striking(rng, lambda: time.sleep(LONG))
            yield run(client, kind, os.path.join(cluster.folder, "run"), _solver(number), wait)


def with_scaling(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs on a cluster that has no worker until there is work."""
    from distributed import Client, LocalCluster

    kind = trial(ROWS, FEATURES)
    for number in range(count):
        with (
            tempfile.TemporaryDirectory(prefix="dualgap-faults-") as folder,
            LocalCluster(n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            cluster.adapt(minimum=0, maximum=3, interval="500ms")
            yield run(client, kind, folder, _solver(number), striking(rng, lambda: time.sleep(5.0)))


def without_client(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs whose client is killed; another client goes on, once the workers have freed the rows."""
    kind = trial(ROWS, FEATURES)
    with Cluster() as cluster, cluster.client() as client:
        for number in range(count):
            folder, solver = os.path.join(cluster.folder, f"run-{number}"), _solver(number)
            command = [sys.executable, "-m", "benchmarks.faults", "--victim", cluster.file, folder, solver]
            victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not sum(client.run(kept).values()) and victim.poll() is None:
                time.sleep(0.1)
            time.sleep(rng.uniform(0.0, 2.0))
            victim.kill()
            victim.wait()
            if not freed(client):
                yield Outcome(f"the workers keep rows {FREED:g} s after the client's death")
                continue
            yield run(client, kind, folder, solver, None, resume=(Path(folder) / "state.json").exists())


def be_victim(file: str, folder: str, solver: str) -> None:
    """Train until somebody kills this process."""
    from distributed import Client

    run(Client(scheduler_file=file), Trial(ROWS, FEATURES, {}), folder, solver, lambda progress: time.sleep(0.5))


def with_little_memory(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs whose workers have 1.3 times the memory of their rows."""
    kind = trial(MEMORY_ROWS, MEMORY_FEATURES)
    with Cluster() as cluster, cluster.client() as client:  # what a worker takes for a run of few rows
        run(client, trial(ROWS, MEMORY_FEATURES), os.path.join(cluster.folder, "run"), "newton", None)
        own = max(client.run(_resident).values()) - 8 * ROWS * MEMORY_FEATURES / 2
    limit = own + 1.3 * 8 * MEMORY_ROWS * MEMORY_FEATURES / 2
    print(f"  memory: workers of {limit / 1e6:.0f} MB, {own / 1e6:.0f} of them without rows", file=sys.stderr, flush=True)
    done = 0
    while done < count:
        with Cluster(memory=limit) as cluster:
            try:
                for number in range(done, min(done + 5, count)):
                    done = number + 1
                    with cluster.client() as client:
                        yield run(client, kind, os.path.join(cluster.folder, f"run-{number}"), _solver(number), None)
            except (OSError, TimeoutError) as error:  # two workers did not come: Dask's, not a run's
                print(f"  memory: a new cluster, {type(error).__name__}", file=sys.stderr, flush=True)


def without_scheduler(name: str, count: int, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs that are resumed on another cluster after their scheduler died."""
    kind = trial(ROWS, FEATURES)
    for number in range(count):
        folder, solver = tempfile.mkdtemp(prefix="dualgap-faults-run-"), _solver(number)
        try:
            first = Outcome("nothing")
            with Cluster() as cluster, contextlib.suppress(OSError), cluster.client() as client:
                first = run(client, kind, folder, solver, striking(rng, killing(cluster.scheduler.pid)))
            if first.end != "sentence":
                yield first
                continue
            saved = (Path(folder) / "state.json").exists()
            with Cluster() as cluster, cluster.client() as client:
                second = run(client, kind, folder, solver, None, resume=saved)
            yield second._replace(seconds=first.seconds + second.seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _solver(number: int) -> str:
    return list(SOLVERS)[number % len(SOLVERS)]


def _resident() -> int:
    """Return the bytes of memory that this process has."""
    import psutil

    return int(psutil.Process().memory_info().rss)


RUNS = {"memory": with_little_memory, "scheduler": without_scheduler, "client": without_client}  # others: on_one_cluster
RUNS |= {"join": with_another_worker, "idle": with_idle_timeout, "adapt": with_scaling}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(COUNTS), help="separated by commas; all by default")
    parser.add_argument("--faults", type=int, default=100, help="how many, divided among the kinds as the hundred are")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victim", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victim:
        be_victim(*options.victim)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception it ends the clusters' processes, too
    kinds = options.kinds.split(",")
    print(
        "| fault | runs | converged | ended with a sentence | other ends | false certificates | partitions lost | median s | all s |"
    )
    print("| --- " * 9 + "|", flush=True)
    bad = 0
    for kind in kinds:
        count = max(round(options.faults * COUNTS[kind] / sum(COUNTS[each] for each in kinds)), 1)
        outcomes, began = [], time.perf_counter()
        for outcome in RUNS.get(kind, on_one_cluster)(kind, count, random.Random(f"{options.seed} {kind}")):
            outcomes.append(outcome)
            print(f"  {kind} {len(outcomes)}: {outcome}", file=sys.stderr, flush=True)
        ends = [each.end for each in outcomes]
        other = [end for end in ends if end not in ("converged", "sentence")]
        false, lost = sum(each.false for each in outcomes), sum(each.losses for each in outcomes)
        row = [kind, len(ends), ends.count("converged"), ends.count("sentence"), len(other), false, lost]
        row += [f"{np.median([each.seconds for each in outcomes]):.1f}", f"{time.perf_counter() - began:.0f}"]
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        bad += len(other) + false
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
