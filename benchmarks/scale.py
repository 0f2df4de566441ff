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
    """Pieces of one endless text-like data set: the vocabulary is drawn once, the documents piece by piece."""
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


def _report(name: str, problem: Any, result: Any) -> None:
    steps = result.trace["passes"][-1] * problem.n
    print(
        f"{name:9} {result.solver.label()}: {problem.n:,} rows, {result.status}, {result.certificate}\n"
        f"          relative gap {result.certificate.relative_gap:.2e}, {result.epochs} epochs; updates: {result.wall_seconds:.1f} s of the "
        f"clock, {result.cpu_seconds:.1f} s of processors, a step (one visit to one row) {1e9 * result.wall_seconds / steps:.0f} ns and "
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"store": store_benchmark, "store-make": store_make, "store-train": store_train, "store-tenth": store_tenth}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=200_000)
    parser.add_argument("--nonzeros", type=int, default=150)
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("--l2", type=float, default=1e-6)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--inner", type=int, default=2)
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
