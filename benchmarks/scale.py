"""Numbers beyond memory and beyond one machine: `python -m benchmarks.scale store|dense|cluster`.

store     a generated CSR store larger than the memory allowed, trained to a certified gap; against the same solver in memory on a tenth
dense     a generated dense, unscaled store, trained by Newton's method; --rows 25000000 makes 6 GB
cluster   two local worker processes against one process of the same method: rounds, bytes, seconds

`benchmarks.rounds` has the rounds of many partitions, `benchmarks.faults` the faults.

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
from typing import Any, NamedTuple

import numpy as np

from benchmarks import DATA

TENTH = 0.1
LONG = 20.0  # seconds of runs after which none is repeated


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


def dense_pieces(rows: int, features: int, piece: int = 100_000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pieces of a dense data set whose columns have deviations from 0.1 to 100."""
    rng = np.random.default_rng(0)
    scales, w = np.geomspace(0.1, 100.0, features), rng.standard_normal(features)
    for start in range(0, rows, piece):
        X = rng.standard_normal((min(piece, rows - start), features))
        yield X * scales + scales, np.where(X @ w + 2.0 * rng.standard_normal(len(X)) > 0.5, 1, -1)


def dense_benchmark(options: argparse.Namespace) -> None:
    """Make a dense, unscaled store and fit LinearSVC on it, each in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dualgap-scale-", dir=options.folder))
    try:
        for step in ("make", "train"):
            command = [sys.executable, "-m", "benchmarks.scale", f"dense-{step}", "--folder", str(folder)]
            subprocess.run([*command, "--rows", str(options.rows), "--loss", options.loss], check=True)
    finally:
        shutil.rmtree(folder)


def dense_make(options: argparse.Namespace) -> None:
    from dualgap.store import write_store

    began = time.perf_counter()
    store = write_store(dense_pieces(options.rows, 30), Path(options.folder) / "store")
    print(f"made      {store}: {store.nbytes / 1e9:.2f} GB in {time.perf_counter() - began:.0f} s, {_peak()}", flush=True)


def dense_train(options: argparse.Namespace) -> None:
    from dualgap import LinearSVC
    from dualgap.store import Store

    began, worked = time.perf_counter(), time.process_time()
    model = LinearSVC(loss=options.loss, C=1e4 / options.rows, tol=1e-3, callbacks=[_say]).fit(
        Store(Path(options.folder) / "store")
    )
    seconds = f"{time.perf_counter() - began:.0f} s of the clock, {time.process_time() - worked:.0f} s of processors"
    print(
        f"trained   {options.loss}: {model.status_}, {model.certificate_}, {model.n_iter_} steps, {seconds}, {_peak()}", flush=True
    )


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


def data_folder(folder: str | None) -> Path:
    """Return where the data sets are."""
    return Path(folder or DATA)


def load_set(name: str, where: Path) -> tuple[Any, np.ndarray] | None:
    """Return (X, y) of a data set in random order; None where its file is not at hand."""
    from dualgap.data import read, read_libsvm, text_like

    files = {"news20": "news20.bz2", "creditcard": "creditcard.csv.zip", "w8a": "w8a", "covtype": "covtype20k.npz"}
    if name.startswith("text-like"):
        made = text_like(1_000_000 if name.endswith("x 10") else 100_000, 50_000, 80)
        return made.X, made.y
    path = where / files[name]
    if not path.exists():
        return None
    if name == "news20":
        X, labels = read_libsvm(path)
        X, y = X.multiply(1.0 / np.sqrt(np.maximum(X.multiply(X).sum(axis=1), 1e-300))).tocsr(), np.where(labels <= 10, -1, 1)
    elif name == "w8a":
        X, y = read_libsvm(path)
    else:
        data = read(path, "Class", prepare=False) if name == "creditcard" else read(path)
        deviation = data.X.std(axis=0)
        X, y = (data.X - data.X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), data.y
    order = np.random.default_rng(0).permutation(X.shape[0])
    return X[order], y[order]


CLUSTER_CASES = [  # data, loss, l2, tolerances
    ("creditcard", "hinge", 1e-4, (1e-3, 1e-6)),
    ("news20", "smooth_hinge", 1e-4, (1e-3,)),
    ("text-like", "smooth_hinge", 1e-5, (1e-3,)),
    ("text-like x 10", "smooth_hinge", 1e-6, (1e-3,)),
]


class Timing(NamedTuple):
    """A run: its result, seconds of the clock, exchanges of messages, and processor seconds of this process and of the busiest worker."""

    result: Any
    seconds: float
    exchanges: int
    here: float
    worker: float = 0.0


def cluster_benchmark(options: argparse.Namespace) -> None:
    """Time the same method on one partition in this process and on two worker processes; the quickest of three runs counts."""
    import dask
    from distributed import Client

    names = ["data", "loss", "tol", "where", "rounds", "exchanges", "local epochs", "s", "of one process", "processor s here"]
    print(f"| {' | '.join([*names, 'of a worker', 'relative gap'])} |")
    print("| --- " * 12 + "|", flush=True)
    chosen = options.data.split(",") if options.data else None
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as client:
        for name, loss, l2, tolerances in CLUSTER_CASES:
            found = load_set(name, data_folder(options.folder)) if chosen is None or name in chosen else None
            if found is None:
                continue
            (X, y), problem = found, {"loss": loss, "l2": l2, "intercept": "free"}
            parts = [dask.delayed(client.scatter((X[k::2], y[k::2]))) for k in range(2)]
            for tol in tolerances:
                alone = _quickest(lambda X=X, y=y, p=problem, t=tol: _in_one_process(X, y, p, t))
                two = _quickest(lambda parts=parts, p=problem, t=tol: _on_workers(parts, p, t, client))
                for where, run in (("one process", alone), ("2 workers", two)):
                    r = run.result
                    row = [
                        name,
                        loss.replace("_", " "),
                        f"{tol:.0e}",
                        where,
                        r.rounds,
                        run.exchanges,
                        r.epochs,
                        f"{run.seconds:.2f}",
                    ]
                    row += [f"{run.seconds / alone.seconds:.2f}", f"{run.here:.2f}", f"{run.worker:.2f}"]
                    print(f"| {' | '.join(map(str, row))} | {r.certificate.relative_gap:.1e} |", flush=True)
                ends = alone.result.certificate, two.result.certificate
                assert ends[1].dual <= ends[0].primal + 1e-12, "the certificate lied"
                assert ends[0].dual <= ends[1].primal + 1e-12, "the certificate lied"


def _quickest(run: Any) -> Timing:
    """Return the quickest of three runs: the first also loads or compiles kernels. Long ones are not repeated."""
    runs = [run()]
    while len(runs) < 3 and sum(each.seconds for each in runs) < LONG:
        runs.append(run())
    return min(runs, key=lambda found: found.seconds)


def _timed(pool: Any, problem: dict[str, Any], tol: float, worker_seconds: Any = lambda: 0.0) -> Timing:
    """Train on a pool whose rows are loaded."""
    from dualgap.cluster import DataStatistics, make_objective, run_rounds

    exchanges = []

    def counted(ask: Any) -> Any:
        return lambda *args, **options: (exchanges.append(1), ask(*args, **options))[1]

    objective = make_objective(pool, **problem, statistics=DataStatistics(pool.call("describe")))
    for name in ("call", "total", "configure"):
        setattr(pool, name, counted(getattr(pool, name)))
    before, worked, began = worker_seconds(), time.process_time(), time.perf_counter()
    result = run_rounds(pool, *objective, tol=tol, max_rounds=3000)
    seconds, here = time.perf_counter() - began, time.process_time() - worked
    return Timing(result, seconds, len(exchanges), here, worker_seconds() - before)


def _in_one_process(X: Any, y: np.ndarray, problem: dict[str, Any], tol: float) -> Timing:
    from dualgap.cluster import InProcess, Partition

    return _timed(InProcess([Partition(X, y)]), problem, tol)


def _on_workers(parts: list[Any], problem: dict[str, Any], tol: float, client: Any) -> Timing:
    """Train once the rows are on the workers: their loading is not counted, as that of one process is not."""
    from dualgap.cluster import make_pool

    with make_pool(parts, client=client) as pool:
        return _timed(pool, problem, tol, lambda: max(client.run(time.process_time).values()))


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
    commands |= {"cluster": cluster_benchmark, "dense": dense_benchmark, "dense-make": dense_make, "dense-train": dense_train}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=200_000)
    parser.add_argument("--nonzeros", type=int, default=150)
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("--l2", type=float, default=1e-6)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--data", default="", help="cluster: names of data sets, separated by commas; all by default")
    parser.add_argument("--inner", type=int, default=2)
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
