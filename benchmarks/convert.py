"""How fast files become stores: `python -m benchmarks.convert [--rows 1000000] [--formats parquet,csv,libsvm]`.

For each format one file is generated, polars reads it whole, and `dualgap.store.convert` converts it: numbers as they are, and prepared (a
sample is read first, columns are standardised), as `dualgap convert` does. Each runs in a process of its own, by turns, --repeat times; the
quickest counts. The ratio is that to polars' reading of the same file. LIBSVM text, which polars does not read, is compared with
scikit-learn's reading where --peer is given. Files go to a temporary folder (--folder says where), which is deleted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, COLUMNS = 30, 50_000
WARM_ROWS = 700_000  # rows of 30 numbers that fill more than one block, so that all kernels are loaded before the clock starts


def write_file(path: Path, rows: int) -> None:
    """Write a generated file: 30 numbers of different scales and a label of two classes, or sparse rows of LIBSVM text."""
    rng = np.random.default_rng(0)
    if path.suffix == ".libsvm":
        with open(path, "w") as stream:
            for _ in range(0, rows, 10_000):
                columns = np.sort(rng.integers(1, COLUMNS, size=(10_000, 40)), axis=1)
                values = rng.random((10_000, 40))
                for i in range(10_000):
                    kept = np.flatnonzero(np.diff(columns[i], prepend=0))
                    entries = " ".join(f"{j}:{v:.4f}" for j, v in zip(columns[i][kept], values[i][kept], strict=True))
                    stream.write(f"{1 if values[i, 0] > 0.5 else -1} {entries}\n")
        return
    import polars as pl

    X = rng.standard_normal((rows, FEATURES)) * np.geomspace(0.1, 100.0, FEATURES)
    frame = pl.DataFrame({f"v{j}": X[:, j] for j in range(FEATURES)}).with_columns(label=pl.Series((X[:, 0] > 0).astype(int)))
    if path.suffix == ".parquet":
        frame.write_parquet(path, row_group_size=131_072)
    else:
        frame.write_csv(path, float_precision=6)


def measure(what: str, path: Path) -> dict[str, float]:
    """Do one thing with a file; return seconds of the clock and of processors, and the peak memory in MB."""
    run = {"polars": _by_polars, "sklearn": _by_sklearn, "numbers": _converted, "prepared": _converted}[what]
    warm = path.with_name(f"warm{path.suffix}")
    if warm.exists():
        run(what, warm)
    began, worked = time.perf_counter(), time.process_time()
    run(what, path)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    return {"wall": seconds, "cpu": processor, "peak": peak_megabytes()}


def peak_megabytes() -> float:
    """Return the peak resident memory of this process; on Linux without that of the process that started it."""
    import resource

    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e3
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _by_polars(what: str, path: Path) -> None:
    import polars as pl

    {".parquet": pl.read_parquet, ".csv": pl.read_csv}[path.suffix](path)


def _by_sklearn(what: str, path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    load_svmlight_file(path)


def _converted(what: str, path: Path) -> None:
    from dualgap.data import TableOptions
    from dualgap.store import convert

    folder = Path(tempfile.mkdtemp(dir=path.parent))
    target = None if path.suffix == ".libsvm" else "label"
    convert(path, folder, target=target, tables=TableOptions() if what == "prepared" else None)
    shutil.rmtree(folder)


def in_process(what: str, path: Path) -> dict[str, float]:
    """Run `measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.convert", "--measure", what, "--file", str(path)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def benchmark(options: argparse.Namespace) -> None:
    """Print a table of speeds."""
    folder = Path(tempfile.mkdtemp(prefix="dualgap-convert-", dir=options.folder))
    print("| format | MB | what | MB/s of the clock | MB/s of processors | ratio (clock) | ratio (processors) | peak MB |")
    print("| --- " * 8 + "|", flush=True)
    try:
        for kind in options.formats.split(","):
            path = folder / f"data.{kind}"
            write_file(path, options.rows // 4 if kind == "libsvm" else options.rows)
            write_file(folder / f"warm.{kind}", 20_000 if kind == "libsvm" else WARM_ROWS)
            reader = ("sklearn",) if options.peer else ()
            todo = (*reader, "numbers") if kind == "libsvm" else ("polars", "numbers", "prepared")
            runs: dict[str, list[dict[str, float]]] = {what: [] for what in todo}
            for _ in range(options.repeat):
                for what in todo:
                    runs[what].append(in_process(what, path))
            _print(kind, path.stat().st_size / 1e6, runs)
            path.unlink()
    finally:
        shutil.rmtree(folder)


def _print(kind: str, size: float, runs: dict[str, list[dict[str, float]]]) -> None:
    best: dict[str, Any] = {what: {key: min(run[key] for run in each) for key in each[0]} for what, each in runs.items()}
    base = next(iter(best.values()))
    for what, found in best.items():
        ratios = f"{found['wall'] / base['wall']:.2f} | {found['cpu'] / base['cpu']:.2f}"
        print(
            f"| {kind} | {size:.0f} | {what} | {size / found['wall']:.0f} | {size / found['cpu']:.0f} | {ratios} | {found['peak']:.0f} |"
        )
    sys.stdout.flush()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--formats", default="parquet,csv,libsvm")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.file)))
    else:
        benchmark(options)


if __name__ == "__main__":
    main()
