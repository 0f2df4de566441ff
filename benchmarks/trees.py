"""Two checkouts of dualgap, run by run: the same answers, and in what share of the processor time?

    python -m benchmarks.trees OLD                      OLD is the root of another checkout; this one is the new
    python -m benchmarks.trees OLD --sets a9a,w8a --repeats 5
    python -m benchmarks.trees OLD --kinds              kernels, ν, regression and paths in place of the 96 linear runs

Each checkout has a process of its own, pinned to a core; they take turns, and swap their cores after half of the repeats. A run that ends
with another status, or an objective outside the tolerance, is named. Times are the least of the repeats.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]

SETS = ("a9a", "w8a", "spambase", "news20")
LOSSES = ("hinge", "squared_hinge", "logistic")
PENALTIES = (1e-4, "1/n")
INTERCEPTS = ("none", "free")
TOLERANCES = (1e-3, 1e-6)
KINDS = ("SVC", "SVC, ten classes", "SVR", "NuSVC", "OneClassSVM", "NuSVR", "LinearSVR", "LinearSVCPath", "LinearSVCPath, every C")
ROWS = 2000  # of a set, for the kinds
SHORT = 0.005  # seconds below which a ratio is not looked at


def _linear(name: str, loss: str, penalty: Any, intercept: str, tol: float, data: dict[str, Any]) -> tuple[str, float, float]:
    import dualgap
    from benchmarks.cases import load_case

    if name not in data:
        data[name] = load_case(name)
    X, y = data[name].X, data[name].y
    problem = dualgap.Problem(X, y, loss=loss, l2=1.0 / len(y) if penalty == "1/n" else penalty, intercept=intercept)
    result = dualgap.solve(problem, tol=tol, max_epochs=5000, max_seconds=60.0)
    return result.status, result.certificate.primal, result.certificate.dual


def _kind(kind: str, name: str, data: dict[str, Any]) -> tuple[str, float, float]:
    import dualgap
    from benchmarks.cases import load_case

    if name not in data:
        data[name] = load_case(name)
    X, y = data[name].X[:ROWS], data[name].y[:ROWS]
    target = np.asarray(X[:, 0].toarray() if hasattr(X, "toarray") else X[:, 0], dtype=float).ravel()
    target = target + 0.1 * np.random.default_rng(0).normal(size=len(y))
    ten = np.digitize(target, np.quantile(target, np.arange(1, 10) / 10))
    nu = 0.5 * min(np.mean(y > 0), np.mean(y < 0))
    made = {
        "SVC": (dualgap.SVC(), y),
        "SVC, ten classes": (dualgap.SVC(), ten),
        "SVR": (dualgap.SVR(), target),
        "NuSVC": (dualgap.NuSVC(nu=nu), y),
        "OneClassSVM": (dualgap.OneClassSVM(nu=0.1), y),
        "NuSVR": (dualgap.NuSVR(nu=0.3), target),
        "LinearSVR": (dualgap.LinearSVR(epsilon=0.05, max_iter=5000), target),
        "LinearSVCPath": (dualgap.LinearSVCPath(Cs=8, l1_ratios=0.5), y),
        "LinearSVCPath, every C": (dualgap.LinearSVCPath(Cs=[1e-3, 1.0], l1_ratios=0.0, guarantee=0.01), y),
    }[kind]
    model = made[0].fit(X, made[1])
    if hasattr(model, "certificate_"):
        certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
        return model.status_, sum(c.primal for c in certificates), sum(c.dual for c in certificates)
    if kind == "LinearSVCPath":
        return model.status_, float(model.objectives_.sum()), float((model.objectives_ - model.dual_gaps_).sum())
    found = model.model_at(0.1).certificate_
    return model.status_, found.primal, found.dual


def work() -> None:
    """Run what comes on standard input, a line of JSON each; answer with status, primal, dual and processor seconds."""
    import warnings

    warnings.simplefilter("ignore")
    data: dict[str, Any] = {}
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        core, what = json.loads(line)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})
        began = time.process_time()
        try:
            found: Any = (_kind if len(what) == 2 else _linear)(*what, data)
        except Exception as error:
            found = (f"{type(error).__name__}: {error}"[:80], math.nan, math.nan)
        out.write(json.dumps([*found, time.process_time() - began]) + "\n")
        out.flush()


class _Tree:
    """A process of one checkout."""

    def __init__(self, root: Path) -> None:
        here = Path(__file__).resolve().parents[1]
        env = {
            **os.environ,
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{here}",
            "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
        }
        command = [sys.executable, "-c", "from benchmarks.trees import work; work()"]
        self.process = subprocess.Popen(command, env=env, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, core: int, what: list[Any]) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([core, what]) + "\n")
        self.process.stdin.flush()
        found: list[Any] = json.loads(self.process.stdout.readline())
        return found


def compare(old: Path, runs: list[list[Any]], repeats: int) -> int:
    """Print a line for each run that differs or is slower, and the means; return how many differ."""
    trees = [_Tree(old), _Tree(Path(__file__).resolve().parents[1])]
    cores = sorted(os.sched_getaffinity(0))[-2:] if hasattr(os, "sched_getaffinity") else [0, 0]
    ratios, differ = [], 0
    for what in runs:
        for tree in trees:
            tree.run(cores[0], what)  # compiles, and loads the data
        rounds = []
        for k in range(repeats):
            order = cores if 2 * k < repeats else cores[::-1]
            rounds.append([tree.run(core, what) for tree, core in zip(trees, order, strict=True)])
        first, second = ([each[side] for each in rounds] for side in (0, 1))
        (status, primal, dual, _), (now, found, bound, _) = first[-1], second[-1]
        least = [min(each[3] for each in side) for side in (first, second)]
        ratio = least[1] / max(least[0], 1e-6)
        ratios.append(ratio)
        tol = 1e-3 if len(what) == 2 else what[-1]
        same = status == now and found <= primal + tol * abs(primal) + 1e-12 and bound <= primal and dual <= found
        differ += not same
        slow = ratio > 1.2 and least[1] > SHORT
        note = "" if same else f"  DIFFERS: {status} {primal:.9g} {dual:.9g} | {now} {found:.9g} {bound:.9g}"
        if note or slow or len(what) == 2:
            print(
                f"{' '.join(map(str, what)):48} {1e3 * least[0]:9.1f} ms {1e3 * least[1]:9.1f} ms  ratio {ratio:5.2f}{note}",
                flush=True,
            )
    logs = np.log(ratios)
    print(f"{len(runs)} runs, {differ} differ; new / old: geometric mean {math.exp(logs.mean()):.3f}, largest {max(ratios):.2f}")
    return differ


def main() -> None:
    """Compare two checkouts; exit 1 if an answer differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees")
    parser.add_argument("old", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--kinds", action="store_true")
    asked = parser.parse_args()
    sets = asked.sets.split(",")
    if asked.kinds:
        runs = [[kind, name] for kind in KINDS for name in sets[:2]]
    else:
        runs = [list(each) for each in product(sets, LOSSES, PENALTIES, INTERCEPTS, TOLERANCES)]
    sys.exit(compare(asked.old.resolve(), runs, asked.repeats) > 0)


if __name__ == "__main__":
    main()
