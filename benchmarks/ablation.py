"""What each heuristic of `auto` and its methods, or of newton, buys: each is left out in turn.

    python -m benchmarks.ablation
    python -m benchmarks.ablation --solver newton --sets "campaign 41k × 62,covtype 20k × 54"
    python -m benchmarks.ablation --sets digits,cancer --losses hinge --penalties C=1e4

A cell is a data set, a loss, a penalty, an intercept and a tolerance. Each line has the processor time of a warm `solve` in a cell and, for
each variant, its ratio to that of the first column; "!" marks a run that did not converge. Variants run by turns in one process. A
heuristic stays in the package if some cell is 1.2 times as slow without it. The data are generated sets of `benchmarks.robustness`, which
measures how far `auto` is from the best of its methods, and the cases of `benchmarks.cases` that are there. Results go to
benchmarks/outputs/ablation.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import dualgap
from benchmarks.cases import load_case
from benchmarks.records import write_csv
from benchmarks.robustness import DATA
from dualgap.solvers import auto
from dualgap.solvers.coordinate import extrapolation
from dualgap.solvers.newton import heuristics, newton, proximal, state

__all__ = ["SETS", "VARIANTS", "Cell", "main"]

LOSSES = ("hinge", "squared_hinge", "logistic")
PENALTIES = ("l2=1e-4", "C=1", "C=100", "C=1e4")  # C = 1/(n·l2)
INTERCEPTS = ("none", "free")
SETS = (
    "cancer",
    "digits",
    "counts 350 × 3946",
    "counts 150 × 2000",
    "pictures 600 × 784",
    "pictures 300 × 1024",
    "voices 400 × 617",
    "signals 500 × 512",
    "signals 5000 × 100",
    "wide 80 × 2000",
    "wide 500 × 5000",
    "indicators 600 × 1431",
    "indicators 8000 × 300",
    "text 3000 × 20000",
)
SHORT = 5e-3  # seconds of processor time: cells in which all variants are faster are left out of the means
Rows = tuple[Any, np.ndarray]


FILES = (
    "rcv1",
    "news20",
    "pros/cons",
    "w8a",
    "a9a",
    "spambase",
    "news20 one group",
    "covtype 20k × 54",
    "campaign 41k × 62",
    "creditcard",
)
WIDE = "pictures 20k × 784"  # the first rows of a generated case


def load(name: str) -> Rows | None:
    """Return the rows of a case of `benchmarks.cases` or of a set of `benchmarks.robustness`; None, with a line, where they are missing."""
    try:
        if name in FILES:
            case = load_case(name)
            return case.X, case.y
        if name == WIDE:
            case = load_case("pictures 60k × 784")
            return case.X[:20_000], case.y[:20_000]
        return DATA[name]()
    except (FileNotFoundError, OSError) as error:
        print(f"{name} is left out: {error}")
        return None


# ---------------------------------------------------------------------------------------------------------------------- variants


class Patch(NamedTuple):
    """An attribute that a variant replaces."""

    owner: Any
    name: str
    value: Any


def never(*_: Any, **__: Any) -> None:
    return None


def no(*_: Any, **__: Any) -> bool:
    return False


def infinite(*_: Any, **__: Any) -> float:
    return math.inf


def double(*_: Any) -> Any:
    return np.float64


def slow_growth(delta: float, solved: bool, largest: float) -> float:
    return proximal.SHARPEN * delta if solved else min(proximal.BLUNTEN * delta, max(largest, delta))


VARIANTS: dict[str, dict[str, tuple[Patch, ...]]] = {
    "auto": {
        "full": (),
        "no extrapolation": (Patch(extrapolation.Extrapolation, "count", never),),
        "no span of the rows": (Patch(auto, "is_wide", no),),
        "no rule for strong penalties": (Patch(auto, "is_strong", no),),
    },
    "newton": {
        "full": (),
        "no sample": (Patch(heuristics, "SAMPLE_LEAST", math.inf),),
        "smooth samples as others": (Patch(heuristics, "SMOOTH_PER_FEATURE", state.ROWS_PER_FEATURE),),
        "no first delta": (Patch(heuristics, "first_delta", infinite),),
        "no exact inner problem": (Patch(newton, "EXACT", math.inf),),
        "slow growth of delta": (Patch(newton, "next_delta", slow_growth),),
        "no factor again": (Patch(state, "REUSED", 0.0),),
        "no thin systems": (Patch(state, "FIRST_ONE_IN", 1),),
        "no float32": (Patch(newton, "precision", double),),
        "no shrinking": (Patch(newton, "shrink", never),),
        "no tangents": (Patch(newton, "tangent_gap", infinite),),
    },
}


@contextlib.contextmanager
def patched(patches: tuple[Patch, ...]) -> Iterator[None]:
    before = [getattr(patch.owner, patch.name) for patch in patches]
    for patch in patches:
        setattr(patch.owner, patch.name, patch.value)
    try:
        yield
    finally:
        for patch, value in zip(patches, before, strict=True):
            setattr(patch.owner, patch.name, value)


# ----------------------------------------------------------------------------------------------------------------------- measure


class Cell(NamedTuple):
    """One problem, and the gap to which it is solved."""

    data: str
    loss: str
    penalty: str
    intercept: str
    tol: float


def make(cell: Cell, rows: Rows) -> dualgap.Problem:
    kind, value = cell.penalty.split("=")
    l2 = float(value) if kind == "l2" else 1.0 / (float(value) * rows[0].shape[0])
    return dualgap.Problem(*rows, loss=cell.loss, l2=l2, intercept=cell.intercept)


def timed(problem: dualgap.Problem, solver: Any, tol: float, seconds: float) -> tuple[float, dualgap.Result]:
    """Return the processor time of a run, and its result."""
    began = time.process_time()
    result = dualgap.solve(problem, solver, tol=tol, max_epochs=20_000, max_seconds=seconds)
    return time.process_time() - began, result


Runner = Callable[[Cell, Rows, float], "tuple[float, dualgap.Result] | None"]


def without(patches: tuple[Patch, ...], solver: str) -> Runner:
    """Return a run of a solver without a heuristic."""

    def run(cell: Cell, rows: Rows, seconds: float) -> tuple[float, dualgap.Result]:
        with patched(patches):
            return timed(make(cell, rows), solver, cell.tol, seconds)

    return run


def measure(cell: Cell, rows: Rows, runners: dict[str, Runner], repeats: int, seconds: float) -> dict[str, tuple[float, str]]:
    """Return the least processor time of each runner, by turns, and its status with the changes of method."""
    found: dict[str, tuple[float, str]] = {}
    for turn in range(repeats + 1):
        for name, run in runners.items():
            if turn > 1 and (name not in found or found[name][0] > seconds / 4):
                continue
            outcome = run(cell, rows, seconds)
            if outcome is None or turn == 0:  # the first run loads or compiles kernels
                continue
            taken, result = outcome
            methods = "".join(" →" + text.split("→ ")[1].split(":")[0] for _, text in result.trace.handovers)
            status = ("" if result.converged else "!" + result.status) + methods
            if name not in found or taken < found[name][0]:
                found[name] = taken, status
    return found


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells that are asked for."""
    for name in arguments.sets or (*SETS, *FILES):
        yield from (
            Cell(name, *rest) for rest in product(arguments.losses, arguments.penalties, arguments.intercepts, arguments.tols)
        )


def summary(logs: dict[str, list[tuple[float, Cell]]]) -> None:
    """Print the geometric mean of each variant's ratios, and its worst cells."""
    for name, found in logs.items():
        if found:
            mean = math.exp(sum(log for log, _ in found) / len(found))
            worst = sorted(found, reverse=True)[:3]
            text = "; ".join(f"{math.exp(log):.2f} {' '.join(map(str, cell))}" for log, cell in worst)
            print(f"{name}: geometric mean {mean:.3f} of {len(found)} cells, worst {text}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = {"type": lambda given: given.split(",")}
    parser.add_argument("--sets", **words)
    parser.add_argument("--losses", default=LOSSES, **words)
    parser.add_argument("--penalties", default=PENALTIES, **words)
    parser.add_argument("--intercepts", default=INTERCEPTS, **words)
    parser.add_argument("--tols", default=(1e-6,), type=lambda given: [float(tol) for tol in given.split(",")])
    parser.add_argument("--solver", choices=tuple(VARIANTS), default="auto", help="whose heuristics to leave out")
    parser.add_argument("--variants", **words)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="wall-clock limit of a run")
    return parser.parse_args()


def main() -> None:
    arguments = read_arguments()
    warnings.simplefilter("ignore")
    variants = VARIANTS[arguments.solver]
    chosen = dict.fromkeys(("full", *(arguments.variants or variants)))
    runners = {name: without(variants[name], arguments.solver) for name in chosen}
    first, *others = runners
    records: list[dict[str, Any]] = []
    logs: dict[str, list[tuple[float, Cell]]] = {name: [] for name in others}
    rows: tuple[str, Rows | None] = "", None
    for cell in cells(arguments):
        if rows[0] != cell.data:
            rows = cell.data, load(cell.data)
        if rows[1] is None:
            continue
        found = measure(cell, rows[1], runners, arguments.repeats, arguments.seconds)
        base, status = found[first]
        print(f"{' '.join(map(str, cell)):60s} {1e3 * base:9.1f} ms{status}", end=" |")
        for name in others:
            if name in found:
                print(f" {name} {found[name][0] / base:.2f}{found[name][1]}", end=",")
                if "!" not in found[name][1] + status and max(base, found[name][0]) > SHORT:
                    logs[name].append((math.log(found[name][0] / base), cell))
        print(flush=True)
        record = cell._asdict()
        for name in runners:
            record |= {name: found[name][0] if name in found else math.nan, f"{name} status": found.get(name, (0.0, "!"))[1]}
        records.append(record)
        write_csv("ablation.csv", records)
    summary(logs)


if __name__ == "__main__":
    main()
