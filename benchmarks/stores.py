"""Stores that are made and trained while processes are killed: `python -m benchmarks.stores [dense|sparse] [--gigabytes 6]`.

dense     200 numbers a row with deviations from 0.1 to 100, not scaled, from Parquet files; trained by Newton's method
sparse    150 non-zeros a row in 200,000 columns, from NPZ files; trained by blocks

For each kind: files are generated; they are converted without a stop; they are converted again by a process that gets a kill -9 while
it reads and another while it mixes, and the two stores are compared file by file; `dualgap fit` is killed once it has a checkpoint (or
halfway, where it ends before that) and started again. Every process is a new one, and its peak resident memory is printed. The last line
says whether all that was asked was seen; the exit code is 1 if not.

Disk space: four times the size. Files go to a temporary folder (--folder says where), which is deleted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = 200
COLUMNS, NONZEROS = 200_000, 150
PER_FILE = 128_000_000  # bytes of rows in an input file
LIMIT = 1.5  # GB that no process may exceed
FIT = {"dense": ["--l2", "1e-4"], "sparse": ["--l2", "1e-5", "--loss", "smooth_hinge"]}


# ------------------------------------------------------------------------------------------------------------------------- input


def write_input(kind: str, folder: Path, gigabytes: float) -> None:
    """Write files that hold the given size of rows together; one of them is in memory at a time."""
    folder.mkdir(parents=True)
    width = 8 * FEATURES if kind == "dense" else 8 * NONZEROS
    rows, each = int(gigabytes * 1e9 / width), PER_FILE // width
    for number, (X, y) in enumerate(dense_rows(rows, each) if kind == "dense" else sparse_rows(rows, each)):
        write_one(folder / f"{number:05d}", X, y)


def dense_rows(rows: int, each: int) -> Any:
    """Yield pieces of a dense data set whose columns differ in scale by a factor of 1000."""
    from benchmarks.scale import dense_pieces

    return dense_pieces(rows, FEATURES, each)


def sparse_rows(rows: int, each: int) -> Any:
    """Yield pieces of a text-like data set."""
    from benchmarks.scale import documents

    return documents(rows, COLUMNS, NONZEROS, 0, each)


def write_one(path: Path, X: Any, y: np.ndarray) -> None:
    """Write a Parquet file of dense rows, or an NPZ file of sparse ones."""
    if isinstance(X, np.ndarray):
        import polars as pl

        frame = pl.DataFrame({f"v{j}": X[:, j] for j in range(X.shape[1])}).with_columns(label=pl.Series(y))
        frame.write_parquet(path.with_suffix(".parquet"), compression="uncompressed")
        return
    from dualgap.data import DataSet, write_npz

    write_npz(DataSet(path.name, X, y), path.with_suffix(".npz"))


# --------------------------------------------------------------------------------------------------------------------- processes


def run(name: str, command: Sequence[str], kill_when: Callable[[], bool] | None = None) -> tuple[float, float, bool]:
    """Run a process, print its seconds and its peak memory in GB, and return both with whether it was killed."""
    began, peak, killed = time.perf_counter(), 0.0, False
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        peak = max(peak, _peak(process.pid))
        if kill_when is not None and kill_when():
            process.kill()
            killed = True
            process.wait()
        time.sleep(0.05)
    seconds = time.perf_counter() - began
    said = process.stderr.read() if process.stderr is not None else ""
    if process.returncode not in (0, -9):
        print(said[-2000:])
        raise SystemExit(f"{name} ended with {process.returncode}")
    resumed = ", it went on from a checkpoint" if "going on from" in said else ""
    print(f"{name:32} {'killed after ' if killed else ''}{seconds:.0f} s, peak {peak:.2f} GB{resumed}", flush=True)
    return seconds, peak, killed


def _peak(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6
    except (OSError, IndexError):
        return 0.0


def progress_of(store: Path) -> dict[str, int]:
    """Return how many raw parts and final parts a conversion has written."""
    raw = len(list(store.glob("raw-*.labels.npy")))
    return {"raw": raw, "parts": len(list(store.glob("part-*.labels.npy")))}


# ----------------------------------------------------------------------------------------------------------------------- one kind


def try_kind(kind: str, options: argparse.Namespace) -> bool:
    """Make, kill, compare, train; return whether all was as promised."""
    folder = Path(tempfile.mkdtemp(prefix=f"dualgap-stores-{kind}-", dir=options.folder))
    try:
        began = time.perf_counter()
        print(f"\n{kind}, {options.gigabytes:g} GB")
        source, peaks = folder / "input", []
        run("input files", ["benchmarks.stores", kind, "--write", str(source), "--gigabytes", str(options.gigabytes)])
        same = _convert(kind, source, folder, peaks)
        proven = _fit(kind, folder, peaks)
        within = max(peaks) <= LIMIT
        print(f"{kind}: same bytes after kills: {same}; certified: {proven}; at most {max(peaks):.2f} GB: {within}; ", end="")
        print(f"{time.perf_counter() - began:.0f} s in all", flush=True)
        return same and proven and within
    finally:
        shutil.rmtree(folder)


def _convert(kind: str, source: Path, folder: Path, peaks: list[float]) -> bool:
    def command(name: str) -> list[str]:
        plain = ["--no-standardise"] if kind == "dense" else []
        target = ["--target", "label"] if kind == "dense" else []
        files = [str(path) for path in sorted(source.iterdir())]
        return ["dualgap", "convert", *files, str(folder / name), *target, *plain]

    _, peak, _ = run("convert without a stop", command("whole"))
    peaks.append(peak)
    whole = json.loads((folder / "whole" / "manifest.json").read_text())
    shutil.rmtree(folder / "whole")
    half, store = len(whole["parts"]) // 2, folder / "store"
    _, first, reading = run("convert, kill -9 while it reads", command("store"), lambda: progress_of(store)["raw"] >= max(half, 1))
    _, second, mixing = run(
        "convert, kill -9 while it mixes", command("store"), lambda: progress_of(store)["parts"] >= max(half, 1)
    )
    _, third, _ = run("convert to the end", command("store"))
    peaks += [first, second, third]
    made = json.loads((store / "manifest.json").read_text())
    shutil.rmtree(source)
    return bool(made["parts"] == whole["parts"] and reading and (mixing or len(whole["parts"]) < 2))


def _fit(kind: str, folder: Path, peaks: list[float]) -> bool:
    def command(name: str) -> list[str]:
        return ["dualgap", "fit", str(folder / "store"), "--model", str(folder / name), "--tol", "1e-3", *FIT[kind]]

    seconds, peak, _ = run("fit without a stop", command("whole.skops"))
    peaks.append(peak)
    began, checkpoint = time.perf_counter(), folder / "model.skops.checkpoint"

    def due() -> bool:
        return checkpoint.exists() if seconds > 60 else time.perf_counter() - began > seconds / 2

    _, first, _ = run("fit, kill -9", command("model.skops"), due)
    _, second, _ = run("fit to the end", command("model.skops"))
    peaks += [first, second]
    from dualgap.app.model_file import load_model

    whole, again = (load_model(folder / name).about for name in ("whole.skops", "model.skops"))
    for about in (whole, again):
        print(f"{'':32} {about['status']} after {about['epochs']} epochs, {about['certificates'][0]}")
    one, two = whole["certificates"][0], again["certificates"][0]
    agree = one["dual"] <= two["primal"] * (1 + 1e-12) and two["dual"] <= one["primal"] * (1 + 1e-12)
    return bool(agree and whole["status"] == again["status"] == "converged")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["dense", "sparse"])
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_input(options.kinds[0], options.write, options.gigabytes)
        return 0
    good = [try_kind(kind, options) for kind in options.kinds]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
