"""The wait for a first fit, in processor seconds: with nothing compiled, then with what the first process has left on disk.

    python -m benchmarks.first_fit                 this package
    python -m benchmarks.first_fit --wheel FILE    a wheel, installed in a folder of its own; make dist makes one with kernels

Each line is of new processes. The import of scikit-learn's and dualgap's modules is measured apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.records import write_csv

__all__ = ["main"]

FITS = {
    "dense, LinearSVC": "X, model = A, dualgap.LinearSVC()",
    "dense, LinearSVC(hinge)": "X, model = A, dualgap.LinearSVC(loss='hinge')",
    "dense 5,000 rows, LinearSVC": "A, y = np.tile(A, (20, 1)), np.tile(y, 20); X, model = A, dualgap.LinearSVC()",
    "CSR, LinearSVC": "X, model = sparse.random(250, 3000, 0.01, format='csr', random_state=0), dualgap.LinearSVC()",
    "dense, SVC": "X, model = A, dualgap.SVC()",
}
CODE = """
import time
began = time.process_time()
import numpy as np, sklearn.svm, dualgap, dualgap.estimators
from scipy import sparse
imported = time.process_time() - began
rng = np.random.default_rng(0)
A = rng.standard_normal((250, 10))
y = (A[:, 0] + rng.standard_normal(250) > 0).astype(int)
{fit}
began = time.process_time()
model.fit(X, y)
print(imported, time.process_time() - began)
"""


def seconds(fit: str, cache: Path, package: Path | None) -> tuple[float, float]:
    """Return processor seconds of the imports and of the first fit in a new process."""
    env = {**os.environ, "DUALGAP_CACHE_DIR": str(cache)}
    if package is not None:
        env["PYTHONPATH"] = str(package)
    run = subprocess.run(
        [sys.executable, "-c", CODE.format(fit=fit)], env=env, cwd=cache, capture_output=True, text=True, check=True
    )
    imported, first = run.stdout.split()
    return float(imported), float(first)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_fit")
    parser.add_argument("--wheel", type=Path)
    wheel = parser.parse_args().wheel
    with tempfile.TemporaryDirectory() as folder:
        package = None
        if wheel is not None:
            package = Path(folder) / "installed"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(package), str(wheel)]
            if subprocess.run(command, check=False).returncode != 0:
                command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(package), str(wheel)]
                subprocess.run(command, check=True)
        print(f"{'fit':30s} {'imports':>9s} {'nothing compiled':>18s} {'cache warm':>12s}   processor seconds")
        records = []
        for name, fit in FITS.items():
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                imported, cold = seconds(fit, Path(cache), package)
                _, warm = seconds(fit, Path(cache), package)
            print(f"{name:30s} {imported:9.2f} {cold:18.2f} {warm:12.2f}", flush=True)
            records.append({"fit": name, "imports": imported, "cold": cold, "warm": warm})
        if wheel is None:
            write_csv("first_fit.csv", records)


if __name__ == "__main__":
    main()
