"""`python -m benchmarks.threads`: the same work on one processor, then on all that this process may use.

solve       coordinate ascent or Newton by `auto`, data checks and certificate included
one-vs-rest LinearSVC on several classes, n_jobs of them at a time
kernel      SVC, RBF

"busy" is processor time, which other jobs on the machine hardly change: all of it on one processor, and that of the busier thread on all.
The caller's thread has a share of every piece of work, except where n_jobs threads of their own do it; these are taken to share it equally.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dualgap
from benchmarks.cases import load_case
from benchmarks.records import write_csv
from dualgap import data

REPEATS = 5


def main() -> None:
    everyone = os.sched_getaffinity(0)
    if len(everyone) < 2:
        raise SystemExit("this process may use one processor only: there is nothing to compare")
    print(f"{'work':44s} {'1 processor':>12s} {f'{len(everyone)} processors':>14s} {'ratio':>7s} {'busy':>17s} {'ratio':>7s}")
    records: list[dict[str, Any]] = []
    for name, work in works():
        seconds, busy = [], []
        for allowed in ({min(everyone)}, everyone):
            os.sched_setaffinity(0, allowed)
            run = partial(work, len(allowed))
            with threadpool_limits(len(allowed)):  # the BLAS's threads were made before, and would not know
                run()
                wall, busiest = best_of(run, len(allowed))
            seconds.append(wall)
            busy.append(busiest)
        os.sched_setaffinity(0, everyone)
        print(
            f"{name:44s} {seconds[0]:10.3f} s {seconds[1]:12.3f} s {seconds[0] / seconds[1]:7.2f} "
            f"{busy[0]:7.3f} / {busy[1]:5.3f} s {busy[0] / busy[1]:7.2f}",
            flush=True,
        )
        records.append({"work": name, "ratio": seconds[0] / seconds[1], "busy ratio": busy[0] / busy[1]})
        write_csv("threads.csv", records)


def best_of(function: Callable[[], Any], threads: int) -> tuple[float, float]:
    """Return the least seconds of the wall clock, and the least processor time of the busiest thread."""
    seconds = busiest = np.inf
    for _ in range(REPEATS):
        began, own, process = time.perf_counter(), time.thread_time(), time.process_time()
        function()
        wall, own, process = time.perf_counter() - began, time.thread_time() - own, time.process_time() - process
        elsewhere = max(process - threads * own, 0.0)  # in threads of n_jobs, while this one waited
        seconds, busiest = min(seconds, wall), min(busiest, own + elsewhere / threads)
        if wall > 5.0:
            break
    return seconds, busiest


def works() -> Iterator[tuple[str, Callable[[int], Any]]]:
    for name in ("text 500k × 1M", "pictures 60k × 784", "creditcard"):
        try:
            case = load_case(name)
        except Exception as error:  # a set that is not at hand
            print(f"{name}: left out: {error}")
            continue
        for tol in (1e-3, 1e-6):
            yield (
                f"{name}, hinge, tol {tol:g}",
                lambda _, case=case, tol=tol: dualgap.solve(dualgap.Problem(case.X, case.y), tol=tol),
            )
        if name != "text 500k × 1M":
            yield (
                f"{name}, logistic, tol 1e-06",
                lambda _, case=case: dualgap.solve(dualgap.Problem(case.X, case.y, loss="logistic"), tol=1e-6),
            )
    digits = data.load("digits")
    X, y = np.asarray(digits.X, dtype=np.float64), digits.y
    tiled, classes = np.tile(X, (20, 1)), np.tile(y, 20)
    tiled += np.random.default_rng(0).normal(scale=2.0, size=tiled.shape)
    yield "one-vs-rest, 10 digits × 36k rows", lambda count: dualgap.LinearSVC(n_jobs=count).fit(tiled, classes)
    large, rng = tiled[:12_000], np.random.default_rng(1)
    labels = np.where(classes[:12_000] >= 5, 1, 0) ^ (rng.random(12_000) < 0.02)
    yield "kernel, 12k × 64, RBF, C = 1", lambda _: dualgap.SVC(C=1.0, gamma="scale", tol=1e-3).fit(large, labels)


if __name__ == "__main__":
    main()
