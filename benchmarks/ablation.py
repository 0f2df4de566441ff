"""What each heuristic of `auto` and of its methods buys, and how far `auto` is from the best of its own methods.

    python -m benchmarks.ablation                       # leaves each heuristic out in turn
    python -m benchmarks.ablation methods               # `auto` beside its own methods
    python -m benchmarks.ablation --sets digits,cancer --losses hinge --penalties C=1e4

A cell is a data set, a loss, a penalty, an intercept and a tolerance. Each line has the processor time of a warm `solve` in a cell and, for
each variant, its ratio to that of the first column; "!" marks a run that did not converge. Variants run by turns in one process. A
heuristic stays in the package if some cell is 1.2 times as slow without it. The data are sets of scikit-learn, generated sets, and those of
`benchmarks.cases` that are there. Results go to benchmarks/outputs/ablation.csv.
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
import sklearn.datasets
from scipy import sparse
from sklearn.preprocessing import scale

import dualgap
from benchmarks.cases import load_case
from benchmarks.records import write_csv
from dualgap import data
from dualgap.kernels import make_kernel
from dualgap.solvers import auto, get_solver
from dualgap.solvers.base import can
from dualgap.solvers.coordinate import extrapolation, first_point

__all__ = ["SETS", "VARIANTS", "Cell", "main"]

LOSSES = ("hinge", "squared_hinge", "logistic")
PENALTIES = ("l2=1e-4", "C=1", "C=100", "C=1e4")  # C = 1/(n·l2)
INTERCEPTS = ("none", "free")
METHODS = ("dca", "newton", "newton_cg", "working_set")
SHORT = 5e-3  # seconds of processor time: cells in which all variants are faster are left out of the means
Rows = tuple[Any, np.ndarray]


# ------------------------------------------------------------------------------------------------------------------------ data


def counts(n: int, d: int, length: float, seed: int) -> Rows:
    """Return rows of word counts: frequencies fall as 1/rank, and a few hundred words tell the class."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    base = 1.0 / np.arange(1, d + 1)
    tilt = np.where(rng.random(d) < 0.1, rng.normal(size=d), 0.0)
    X = np.zeros((n, d))
    for i in range(n):
        p = base * np.exp(y[i] * tilt)
        X[i] = rng.multinomial(max(int(rng.lognormal(math.log(length), 0.7)), 3), p / p.sum())
    return sparse.csr_matrix(X), y


def pictures(n: int, d: int, factors: int, seed: int) -> Rows:
    """Return dense rows in [0, 1] whose columns share a few factors, as pixels do."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    hidden = rng.normal(size=(n, factors))
    hidden[:, 0] += 1.5 * y
    X = hidden @ rng.normal(size=(factors, d)) + 0.3 * rng.normal(size=(n, d))
    return np.clip(0.5 + X / (2.0 * X.std()), 0.0, 1.0), y


def signals(n: int, d: int, spread: float, seed: int) -> Rows:
    """Return dense rows whose columns differ in size, with labels that a linear model misses for one row in ten."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-spread, spread, size=d)
    y = np.sign(X @ rng.normal(size=d) / np.sqrt((X**2).sum(axis=0).mean()) + 1e-9)
    return X, np.where(rng.random(n) < 0.1, -y, y)


def indicators(n: int, d: int, nonzeros: int, seed: int) -> Rows:
    """Return sparse rows of 0 and 1 with noisy labels."""
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, d + 1) ** 0.8
    columns = np.concatenate([rng.choice(d, nonzeros, replace=False, p=p / p.sum()) for _ in range(n)])
    X = sparse.csr_matrix((np.ones(n * nonzeros), columns, nonzeros * np.arange(n + 1)), shape=(n, d))
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


def digits(rows: int | None = None) -> Rows:
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return X[:rows] / 16.0, np.where(y[:rows] >= 5, 1.0, -1.0)


def cancer() -> Rows:
    X, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    return scale(X), y


def text(n: int, d: int) -> Rows:
    found = data.text_like(n, d, 40, seed=1)
    return found.X, found.y


def known(name: str) -> Callable[[], Rows]:
    """Return a loader of a case of `benchmarks.cases`."""

    def load() -> Rows:
        case = load_case(name)
        return case.X, case.y

    return load


SETS: dict[str, Callable[[], Rows]] = {
    "cancer": cancer,
    "digits": digits,
    "digits 600": lambda: digits(600),
    "counts 350 × 3946": lambda: counts(350, 3946, 80.0, 1),
    "counts 150 × 2000": lambda: counts(150, 2000, 40.0, 2),
    "pictures 600 × 784": lambda: pictures(600, 784, 30, 3),
    "pictures 300 × 1024": lambda: pictures(300, 1024, 30, 4),
    "voices 400 × 617": lambda: pictures(400, 617, 60, 5),
    "signals 500 × 512": lambda: signals(500, 512, 1.0, 6),
    "signals 5000 × 100": lambda: signals(5000, 100, 0.5, 7),
    "wide 80 × 2000": lambda: signals(80, 2000, 0.3, 8),
    "wide 500 × 5000": lambda: pictures(500, 5000, 60, 11),
    "indicators 600 × 1431": lambda: indicators(600, 1431, 40, 9),
    "indicators 8000 × 300": lambda: indicators(8000, 300, 12, 10),
    "text 3000 × 20000": lambda: text(3000, 20_000),
}
FILES = ("rcv1", "news20", "pros/cons", "w8a", "a9a", "spambase", "news20 one group", "covtype 20k × 54", "campaign 41k × 62")
SETS |= {name: known(name) for name in FILES}


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


VARIANTS: dict[str, tuple[Patch, ...]] = {
    "full": (),
    "no extrapolation": (Patch(extrapolation.Extrapolation, "count", never),),
    "no first point": (Patch(first_point, "MOST_CURVATURE", -1.0),),
    "no Gram matrix": (Patch(auto, "is_wide", no),),
    "no rule for strong penalties": (Patch(auto, "is_strong", no),),
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


def without(patches: tuple[Patch, ...]) -> Runner:
    """Return a run of `auto` without a heuristic."""

    def run(cell: Cell, rows: Rows, seconds: float) -> tuple[float, dualgap.Result]:
        with patched(patches):
            return timed(make(cell, rows), "auto", cell.tol, seconds)

    return run


def by_method(name: str) -> Runner:
    """Return a run of a method, on the linear kernel if it needs one; None where it does not take the problem."""

    def run(cell: Cell, rows: Rows, seconds: float) -> tuple[float, dualgap.Result] | None:
        problem = make(cell, rows)
        if name == "working_set":
            if problem.n > 4000 or cell.loss == "logistic":
                return None
            problem = problem.replace(kernel=make_kernel("linear"))
        return timed(problem, name, cell.tol, seconds) if can(get_solver(name), problem) else None

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
    for name in arguments.sets or SETS:
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


def beside_best(records: list[dict[str, Any]]) -> None:
    """Print how often `auto` is within 1.5 and 3 times the best of its own methods."""
    ratios = []
    for record in records:
        own = [record[name] for name in METHODS if record.get(f"{name} status", "!")[:1] != "!"]
        if own and record["auto"] > SHORT:
            ratios.append((record["auto"] / max(min(own), SHORT), " ".join(str(record[key]) for key in Cell._fields)))
    values = np.array([ratio for ratio, _ in ratios])
    if len(values):
        print(
            f"auto / best of its methods, {len(values)} cells: at most 1.5 in {np.mean(values <= 1.5):.1%}, at most 3 in", end=" "
        )
        print(f"{np.mean(values <= 3.0):.1%}, geometric mean {np.exp(np.log(values).mean()):.2f}")
        for ratio, cell in sorted(ratios, reverse=True)[:12]:
            print(f"  {ratio:6.2f}  {cell}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("heuristics", "methods"), default="heuristics")
    words = {"type": lambda given: given.split(",")}
    parser.add_argument("--sets", **words)
    parser.add_argument("--losses", default=LOSSES, **words)
    parser.add_argument("--penalties", default=PENALTIES, **words)
    parser.add_argument("--intercepts", default=INTERCEPTS, **words)
    parser.add_argument("--tols", default=(1e-6,), type=lambda given: [float(tol) for tol in given.split(",")])
    parser.add_argument("--variants", default=tuple(VARIANTS), **words)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="wall-clock limit of a run")
    return parser.parse_args()


def main() -> None:
    arguments = read_arguments()
    warnings.simplefilter("ignore")
    if arguments.part == "methods":
        runners = {"auto": without(()), **{name: by_method(name) for name in METHODS}}
    else:
        runners = {name: without(VARIANTS[name]) for name in dict.fromkeys(("full", *arguments.variants))}
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
    if arguments.part == "methods":
        beside_best(records)
    else:
        summary(logs)


def load(name: str) -> Rows | None:
    """Return a set's rows; None, with a line that says so, where its file is not there."""
    try:
        return SETS[name]()
    except (FileNotFoundError, OSError) as error:
        print(f"{name} is left out: {error}")
        return None


if __name__ == "__main__":
    main()
