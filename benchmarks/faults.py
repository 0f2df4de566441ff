"""A hundred faults on real worker processes: `python -m benchmarks.faults [--kinds kill,stop,…] [--count N]`.

kill      SIGKILL to a worker in the middle of a run; its nanny starts another one
address   the same, and the new worker has the address of the old one
stop      SIGSTOP to a worker for 10 s
memory    a limit of 1.3 times the rows, above what the interpreter takes: Dask pauses, spills and kills as it likes
scheduler SIGKILL to the scheduler; the run is resumed from its checkpoint on another cluster

A run must converge, or end with ClusterLost, whose sentence names its checkpoint. Every certificate is compared with that of one process.
The table has one line a kind; any other end, or a false certificate, makes the exit code 1.
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

COUNTS = {"kill": 35, "address": 20, "stop": 10, "memory": 20, "scheduler": 15}
ROWS, FEATURES, PARTS = 20_000, 40, 4
MEMORY_ROWS, MEMORY_FEATURES = 60_000, 400  # 96 MB a worker
INTERPRETER = 260e6  # bytes that a worker process takes before it has rows
TOL, STOPPED, PATIENCE = 1e-5, 10.0, 20.0
PROBLEM = {"loss": "hinge", "l2": 1e-4, "intercept": "free"}


def rows_of(part: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one of the parts of a data set: the same rows every time."""
    rng = np.random.default_rng([7, part])
    X = rng.standard_normal((rows // PARTS, features)) * np.geomspace(0.1, 3.0, features)
    y = np.where(X @ np.sin(np.arange(features)) + 2.0 * rng.standard_normal(len(X)) > 1.0, 1, -1)
    return X, y


class Cluster:
    """A scheduler and two workers with nannies, processes of their own; a context manager that ends them."""

    def __init__(self, memory: float = 0.0, fixed: bool = False) -> None:
        self.folder = tempfile.mkdtemp(prefix="dualgap-faults-")
        self.file = os.path.join(self.folder, "scheduler.json")
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self.file, "--no-dashboard")
        self.workers = [
            self._start(
                *("worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-dashboard", "--memory-limit", f"{memory:.0f}"),
                *(("--worker-port", str(_free_port())) if fixed else ()),
            )
            for _ in range(2)
        ]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words]
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

        with Client(scheduler_file=self.file, timeout=60) as made:
            made.wait_for_workers(2, timeout=120)
            yield made


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


def run(client: Any, best: Any, folder: str, rows: int, features: int, solver: str, fault: Any, resume: bool = False) -> Outcome:
    """Train, with a fault that strikes at some round."""
    import dask

    from dualgap.cluster import ClusterLost, train

    parts = [dask.delayed(rows_of)(k, rows, features) for k in range(PARTS)]
    options = {**PROBLEM, "tol": TOL, "max_rounds": 5000, "solver": solver, "local_epochs": 2, "patience": PATIENCE}
    began = time.perf_counter()
    try:
        result = train(
            parts,
            **options,
            client=client,
            checkpoint=folder,
            checkpoint_seconds=0.3,
            resume=resume,
            callbacks=[fault] if fault else [],
        )
    except ClusterLost as error:
        said = folder in str(error) or "start afresh" in str(error)
        return Outcome("sentence" if said else f"no checkpoint named: {error}", False, time.perf_counter() - began)
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {error}", False, time.perf_counter() - began)
    c = result.certificate
    crossed = c.dual > best.primal * (1 + 1e-12) or best.dual > c.primal * (1 + 1e-12)
    false = crossed or (result.status == "converged" and c.relative_gap > TOL)
    return Outcome(result.status, bool(false), time.perf_counter() - began, len(result.losses))


def striking(client: Any, at: int, strike: Any) -> Any:
    """Return a callback that strikes once, at the given round: strike(the process ids of the workers)."""
    done: list[int] = []

    def callback(progress: Any) -> None:
        if progress.epoch >= at and not done:
            done.append(progress.epoch)
            strike(sorted(client.run(os.getpid).values()))

    return callback


def kill(pids: list[int]) -> None:
    """End one worker process."""
    os.kill(pids[0], signal.SIGKILL)


def stop(pids: list[int]) -> None:
    """Stop one worker process for a while."""
    os.kill(pids[0], signal.SIGSTOP)
    threading.Timer(STOPPED, lambda: os.kill(pids[0], signal.SIGCONT)).start()


def on_one_cluster(kind: str, count: int, best: Any, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of faults that a cluster outlives, one run after the other on the same cluster."""
    with Cluster(fixed=kind == "address") as cluster:
        for number in range(count):
            folder = os.path.join(cluster.folder, f"run-{number}")
            with cluster.client() as client:
                fault = striking(client, rng.randint(1, 12), stop if kind == "stop" else kill)
                yield run(client, best, folder, ROWS, FEATURES, rng.choice(["newton", "cocoa"]), fault)


def with_little_memory(count: int, best: Any, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs whose workers have 1.3 times the memory of their rows."""
    limit = INTERPRETER + 1.3 * 8 * MEMORY_ROWS * MEMORY_FEATURES / 2
    for first in range(0, count, 5):
        with Cluster(memory=limit) as cluster:
            for number in range(first, min(first + 5, count)):
                folder = os.path.join(cluster.folder, f"run-{number}")
                try:
                    with cluster.client() as client:
                        yield run(client, best, folder, MEMORY_ROWS, MEMORY_FEATURES, rng.choice(["newton", "cocoa"]), None)
                except (OSError, TimeoutError) as error:  # no two workers within two minutes: Dask's, not a run's
                    print(f"  memory: the cluster did not come back ({type(error).__name__}); a new one", flush=True)
                    break


def without_scheduler(count: int, best: Any, rng: random.Random) -> Iterator[Outcome]:
    """Yield the outcomes of runs that are resumed on another cluster after their scheduler died."""
    for _ in range(count):
        folder, solver = tempfile.mkdtemp(prefix="dualgap-faults-run-"), rng.choice(["newton", "cocoa"])
        try:
            with Cluster() as cluster:
                scheduler = cluster.scheduler
                with contextlib.suppress(OSError), cluster.client() as client:
                    at = rng.randint(3, 12)
                    fault = striking(client, at, lambda _, s=scheduler: os.kill(s.pid, signal.SIGKILL))
                    first = run(client, best, folder, ROWS, FEATURES, solver, fault)
            if first.end != "sentence":
                yield first
                continue
            saved = (Path(folder) / "state.json").exists()
            with Cluster() as cluster, cluster.client() as client:
                yield run(client, best, folder, ROWS, FEATURES, solver, None, resume=saved)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def optimum(rows: int, features: int) -> Any:
    """Return the certificate of one process."""
    import dualgap

    parts = [rows_of(k, rows, features) for k in range(PARTS)]
    X, y = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    return dualgap.solve(dualgap.Problem(X, y, **PROBLEM), tol=1e-8, max_epochs=5000).certificate


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(COUNTS))
    parser.add_argument("--count", type=int, default=None, help="runs of each kind, instead of a hundred in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| fault | runs | converged | ended with a sentence | other ends | false certificates | partitions lost | median s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    bad = 0
    for kind in options.kinds.split(","):
        count, rng = options.count or COUNTS[kind], random.Random(f"{options.seed} {kind}")
        best = optimum(MEMORY_ROWS, MEMORY_FEATURES) if kind == "memory" else optimum(ROWS, FEATURES)
        if kind == "memory":
            runs = with_little_memory(count, best, rng)
        elif kind == "scheduler":
            runs = without_scheduler(count, best, rng)
        else:
            runs = on_one_cluster(kind, count, best, rng)
        outcomes = []
        for outcome in runs:
            outcomes.append(outcome)
            print(f"  {kind} {len(outcomes)}: {outcome}", file=sys.stderr, flush=True)
        ends = [each.end for each in outcomes]
        other = [end for end in ends if end not in ("converged", "sentence")]
        false, lost = sum(each.false for each in outcomes), sum(each.losses for each in outcomes)
        seconds = np.median([each.seconds for each in outcomes])
        done = (
            f"{len(ends)} | {ends.count('converged')} | {ends.count('sentence')} | {len(other)} | {false} | {lost} | {seconds:.1f}"
        )
        print(f"| {kind} | {done} |", flush=True)
        bad += len(other) + false
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
