"""Numbers beyond memory and beyond one machine: `python -m benchmarks.scale store|cluster|faults`.

store     a generated CSR store larger than the memory allowed, trained to a certified gap; against the same solver in memory on a tenth
cluster   CoCoA+ on a local cluster of 1, 2 and 4 processes against one process: optimum, rounds, bytes, seconds
faults    a worker killed in the middle of a run

Tables go to standard output. The store is made in a temporary folder (--folder says where) and deleted afterwards.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TENTH = 0.1


# ------------------------------------------------------------------------------------------------------------------------- data


def documents(n: int, d: int, nonzeros: int, seed: int, piece: int = 25_000) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield pieces of one endless text-like data set: the vocabulary is drawn once, the documents piece by piece."""
    from scipy import sparse

    from dualgap.data.text import _draw_documents, _inverse_frequencies, _word_meanings

    rng = np.random.default_rng(seed)
    column_of = rng.permutation(d).astype(np.int32)
    meaning, idf = np.empty(d), np.empty(d)
    meaning[column_of] = _word_meanings(rng, d)
    idf[column_of] = _inverse_frequencies(n, d, nonzeros, 1.0)
    centre = None
    for start in range(0, n, piece):
        rows = min(piece, n - start)
        indptr = np.zeros(rows + 1, np.int64)
        np.cumsum(rng.integers(nonzeros // 2, nonzeros + nonzeros // 2 + 1, size=rows), out=indptr[1:])
        indices, data, score = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), np.empty(rows)
        _draw_documents(indptr, column_of, idf, (indices, data), (meaning, score), 1.0, np.uint64(rng.integers(2**63)))
        centre = np.median(score) if centre is None else centre
        y = np.where((score > centre) ^ (rng.random(rows) < 0.05), 1, -1)
        yield sparse.csr_matrix((data, indices, indptr.astype(np.int32)), shape=(rows, d)), y


# ------------------------------------------------------------------------------------------------------------------------ store


def store_benchmark(options: argparse.Namespace) -> None:
    """Each step in a process of its own, so that its peak memory is its own."""
    folder = Path(tempfile.mkdtemp(prefix="dualgap-scale-", dir=options.folder))
    try:
        for step in ("make", "train", "tenth"):
            command = [sys.executable, "-m", "benchmarks.scale", f"store-{step}", "--folder", str(folder)]
            for name in ("rows", "features", "nonzeros", "l2", "tol", "inner"):
                command += [f"--{name}", str(getattr(options, name))]
            subprocess.run(command, check=True)
    finally:
        shutil.rmtree(folder)


def store_make(options: argparse.Namespace) -> None:
    from dualgap.store import write_store

    began = time.perf_counter()
    pairs = documents(options.rows, options.features, options.nonzeros, seed=0)
    store = write_store(pairs, Path(options.folder) / "store", dtype="float32", n_features=options.features)
    seconds = time.perf_counter() - began
    print(f"made      {store}: {store.nbytes / 1e9:.2f} GB in {seconds:.0f} s, {_peak()}", flush=True)


def store_train(options: argparse.Namespace) -> None:
    import dualgap
    from dualgap.solvers import Blocks
    from dualgap.store import Store

    store = Store(Path(options.folder) / "store")
    problem = store.problem(options.loss, l2=options.l2)
    _report("store", problem, dualgap.solve(problem, Blocks(options.inner), tol=options.tol, callbacks=[_say]))


def store_tenth(options: argparse.Namespace) -> None:
    from scipy import sparse

    import dualgap
    from dualgap.solvers import Blocks
    from dualgap.store import Store

    store = Store(Path(options.folder) / "store")
    parts = range(max(1, round(TENTH * len(store.parts))))
    X = sparse.vstack([store.matrix(k) for k in parts], format="csr")
    y = store.labels()[: X.shape[0]]
    problem = dualgap.Problem(X, y, options.loss, l2=options.l2)
    rows = max(part.rows for part in store.parts)
    for solver in (Blocks(options.inner, block_rows=rows), "sdca"):
        _report("in memory", problem, dualgap.solve(problem, solver, tol=options.tol))


# ---------------------------------------------------------------------------------------------------------------------- cluster


def _sets(folder: str | None) -> Iterator[tuple[str, Any, np.ndarray, float]]:
    """Yield (name, X, y, l2): text-like data, and news20 and credit card fraud where their files are at hand."""
    import os

    from dualgap.data import read_csv, read_libsvm, text_like

    where = Path(folder or os.environ.get("DUALGAP_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    rng = np.random.default_rng(0)
    if (where / "news20.bz2").exists():
        X, labels = read_libsvm(where / "news20.bz2")
        X = X.multiply(1.0 / np.sqrt(np.maximum(X.multiply(X).sum(axis=1), 1e-300))).tocsr()
        order = rng.permutation(X.shape[0])
        yield "news20", X[order], np.where(labels <= 10, -1, 1)[order], 1e-4
    if (where / "creditcard.csv.zip").exists():
        data = read_csv(where / "creditcard.csv.zip", "Class")
        X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
        order = rng.permutation(X.shape[0])
        yield "creditcard", X[order], data.y[order], 1e-4
    data = text_like(100_000, 50_000, 80)
    yield "text-like", data.X, data.y, 1e-5


def cluster_benchmark(options: argparse.Namespace) -> None:
    """Time the same problem on 1, 2 and 4 local processes, against one process without a cluster."""
    import dask
    from distributed import Client

    import dualgap
    from dualgap.cluster import train

    print(
        "| data | n | d | workers | rounds | local epochs | MB sent | MB by the model | seconds | median round, s | relative gap | P − P* |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, X, y, l2 in _sets(options.folder):
        problem = {"loss": "smooth_hinge", "l2": l2, "intercept": "free"}
        best = dualgap.solve(dualgap.Problem(X, y, **problem), "dca", tol=1e-5, max_epochs=5000)
        alone = dualgap.solve(dualgap.Problem(X, y, **problem), "sdca", tol=options.cluster_tol, max_epochs=5000)
        shape = f"{name} | {X.shape[0]:,} | {X.shape[1]:,}"
        gap, over = alone.certificate.relative_gap, alone.certificate.primal - best.certificate.primal
        print(
            f"| {shape} | no cluster, sdca |  | {alone.epochs} | 0 | 0 | {alone.wall_seconds:.1f} |  | {gap:.1e} | {over:.1e} |",
            flush=True,
        )
        for workers in (1, 2, 4):
            with Client(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as client:
                parts = [dask.delayed(client.scatter((X[k::workers], y[k::workers]))) for k in range(workers)]
                r = train(parts, **problem, tol=options.cluster_tol, client=client, max_rounds=3000)
            vector = 8 * (X.shape[1] + 1)
            proofs = 1  # at the end; more where the estimate was too hopeful
            model = (workers * (1 + 2 * r.rounds) + 2 * workers * proofs) * vector
            over = r.certificate.primal - best.certificate.primal
            assert r.certificate.dual <= best.certificate.primal + 1e-12, "the certificate lied"
            assert best.certificate.dual <= r.certificate.primal + 1e-12, "the certificate lied"
            row = [workers, r.rounds, r.epochs, f"{r.bytes_sent / 1e6:.2f}", f"{model / 1e6:.2f}", f"{r.wall_seconds:.1f}"]
            later = np.diff(r.trace["wall_seconds"])  # the first round also loads or compiles kernels
            row += [f"{np.median(later):.3f}", f"{r.certificate.relative_gap:.1e}", f"{over:.1e}"]
            print(f"| {shape} | {' | '.join(map(str, row))} |", flush=True)


def faults_benchmark(options: argparse.Namespace) -> None:
    """Kill one of four workers in the middle of a run."""
    import os
    import signal

    import dask
    from distributed import Client

    from dualgap.cluster import train

    with Client(n_workers=4, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as client:
        parts = [dask.delayed(_part)(k, 4) for k in range(4)]  # scattered data would die with the worker that holds them
        killed: list[int] = []

        def kill(progress: Any) -> None:
            record = progress.record
            print(f"  round {progress.epoch}, relative gap {record['relative_gap']:.1e}, lost {record['lost']:.0f}", flush=True)
            if progress.epoch == 4 and not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)
                print(f"  killed worker process {killed[0]}", flush=True)

        result = train(
            parts, loss="smooth_hinge", l2=1e-5, intercept="free", tol=options.cluster_tol, callbacks=[kill], client=client
        )
    print(f"text-like: {result}")


def _part(k: int, parts: int) -> tuple[Any, np.ndarray]:
    from dualgap.data import text_like

    data = text_like(100_000, 50_000, 80)
    return data.X[k::parts], data.y[k::parts]


def _report(name: str, problem: Any, result: Any) -> None:
    steps = result.trace["passes"][-1] * problem.n
    print(
        f"{name:9} {result.solver.label()}: {problem.n:,} rows, {result.status}, {result.certificate}\n"
        f"          relative gap {result.certificate.relative_gap:.2e}, {result.epochs} epochs; updates: {result.wall_seconds:.1f} s of "
        f"the clock, {result.cpu_seconds:.1f} s of processors, a step (a visit to a row) {1e9 * result.wall_seconds / steps:.0f} ns and "
        f"{1e9 * result.cpu_seconds / steps:.0f} ns; {_peak()}",
        flush=True,
    )


def _say(progress: Any) -> None:
    r = progress.record
    print(
        f"          epoch {progress.epoch}, relative gap {r['relative_gap']:.2e}, {r['wall_seconds']:.1f} s, {_peak()}", flush=True
    )


def _peak() -> str:
    return f"peak resident {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"store": store_benchmark, "store-make": store_make, "store-train": store_train, "store-tenth": store_tenth}
    commands |= {"cluster": cluster_benchmark, "faults": faults_benchmark}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=200_000)
    parser.add_argument("--nonzeros", type=int, default=150)
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("--l2", type=float, default=1e-6)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--cluster_tol", type=float, default=1e-3)
    parser.add_argument("--inner", type=int, default=2)
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
