"""`python -m benchmarks.large_kernel 10000 20000 40000`: SVC on generated rows like those of forest cover, by the number of rows.

For each number of rows: processor and wall seconds to a certified relative gap of 1e-2, support vectors and the process's largest memory;
then the exponent by which the time grew. Every size has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import numpy as np

TOL, CACHE = 1e-2, 1000.0  # relative gap; megabytes of kernel rows


def forest_like(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n × 54 rows in [0, 1] with labels ±1: ten numbers, one of 4 areas, one of 40 soils.

    A place in the plane decides on all of them. The class is that of the nearest of 400 stands of trees; 5 % of the labels are wrong.
    """
    layout, rng = np.random.default_rng(12345), np.random.default_rng(seed)  # one landscape, from which rows are drawn
    stands, kinds = layout.random((400, 2)), layout.random(400) < 0.45
    waves, turns = layout.normal(scale=4.0, size=(2, 10)), layout.random(10) * 2.0 * np.pi
    soils = layout.random((40, 2))
    X, y = np.zeros((n, 54)), np.empty(n)
    for first in range(0, n, 10_000):
        here = slice(first, min(first + 10_000, n))
        place = rng.random((here.stop - first, 2))
        X[here, :10] = np.clip(0.5 + 0.5 * np.sin(place @ waves + turns) + rng.normal(scale=0.03, size=(len(place), 10)), 0.0, 1.0)
        X[np.arange(first, here.stop), 10 + 2 * (place[:, 0] > 0.5) + (place[:, 1] > 0.5)] = 1.0
        X[np.arange(first, here.stop), 14 + _nearest(place, soils)] = 1.0
        wrong = rng.random(len(place)) < 0.05
        y[here] = np.where(kinds[_nearest(place, stands)] ^ wrong, 1.0, -1.0)
    return X, y


def _nearest(places: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.asarray(((places[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1))


def measure(n: int) -> dict[str, float]:
    """Fit n rows once, after a small fit that compiles."""
    from dualgap import SVC

    X, y = forest_like(n)
    SVC(tol=TOL, gamma=4.0, cache_size=CACHE, random_state=0).fit(X[:3000], y[:3000])
    wall, cpu = time.perf_counter(), time.process_time()
    model = SVC(tol=TOL, gamma=4.0, cache_size=CACHE, max_iter=-1, random_state=0).fit(X, y)
    return {
        "rows": n,
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "gap": model.certificate_.relative_gap,
        "support": len(model.support_),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.large_kernel", description="Seconds of SVC by the number of rows.")
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--one", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.rows[0])))
        return
    last: dict[str, float] | None = None
    for n in options.rows:
        command = [sys.executable, "-m", "benchmarks.large_kernel", "--one", str(n)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        growth = (
            ""
            if last is None
            else f", time grew with rows^{math.log(found['cpu'] / last['cpu'], found['rows'] / last['rows']):.2f}"
        )
        print(
            f"{found['rows']:,.0f} rows: {found['wall']:.1f} s, {found['cpu']:.1f} s of processor time, gap {found['gap']:.1e}, "
            f"{found['support']:,.0f} support vectors, {found['megabytes']:,.0f} MB{growth}",
            flush=True,
        )
        last = found


if __name__ == "__main__":
    main()
