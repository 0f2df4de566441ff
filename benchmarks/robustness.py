"""Which problems does `auto` not solve, and on which does one of its own methods take less time?

    python -m benchmarks.robustness --problems 1000 --seed 0
    python -m benchmarks.robustness --penalties l1 --losses hinge

Problems are drawn from data × rows × losses × nine values of C × two intercepts and solved to a relative gap of 1e-6. Each run gets 20,000
epochs and 60 seconds. The methods among which `auto` chooses then solve the same problem by themselves, each for as long as `auto` took.
The times are of processors, of warm runs; a difference below 5 ms does not count. Results go to benchmarks/outputs/robustness.csv
after each problem. `--seconds 500` ends early; the same command then goes on where the last one ended, unless --afresh is given.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import sklearn.datasets
from scipy import sparse
from sklearn.preprocessing import scale

import dualgap
from benchmarks.records import OUTPUTS
from dualgap import data, lab
from dualgap.core import LOSSES
from dualgap.kernels import make_kernel
from dualgap.solvers import get_solver
from dualgap.solvers.base import can

__all__ = ["DATA", "VALUES_OF_C", "Key", "Outcome", "draw", "run", "taken_by", "timed"]

OUTPUT = OUTPUTS / "robustness.csv"
VALUES_OF_C = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0, 1e2, 1e3, 1e4)
INTERCEPTS = ("none", "free")
ROWS = (150, 600, None)  # drawn of a set; None: all
PENALTIES = {"l2": 0.0, "elastic-net": 0.5, "l1": 1.0}  # share of the l1 part
METHODS = ("dca", "newton", "newton_cg", "working_set", "ssnal", "prox_newton", "apg")
TOL = 1e-6
EPOCHS, SECONDS = 20_000, 60.0  # of a run
SHORT = 5e-3  # seconds of processor time: a smaller difference does not count
LONG = 0.5  # seconds of processor time of a first run from which it is not repeated
LARGEST_SET = 2000  # rows on which working sets on the linear kernel are tried

Rows = tuple[Any, np.ndarray]


# ------------------------------------------------------------------------------------------------------------------------ data


def _known(name: str, rows: int | None = None, standardised: bool = False) -> Callable[[], Rows]:
    """Return a loader of a named set, of a random part of its rows where it is large."""

    def load() -> Rows:
        found = data.load(name)
        return _part(found.X, found.y, rows, standardised)

    return load


def _file(name: str, rows: int | None = None) -> Callable[[], Rows]:
    """Return a loader of a file in the folder that DUALGAP_DATA names."""

    def load() -> Rows:
        path = Path(os.environ.get("DUALGAP_DATA", "."), name)
        if not path.exists():
            raise data.MissingFile(f"{name} is not in the folder that DUALGAP_DATA names")
        found = data.read(path)
        return _part(found.X, found.y, rows, False)

    return load


def _part(X: Any, y: Any, rows: int | None, standardised: bool = False) -> Rows:
    """Return ±1 labels and that many random rows, sparse ones without the columns that none of them uses."""
    y = np.asarray(y)
    y = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    if rows is not None and rows < len(y):
        rng = np.random.default_rng(0)
        count = max(round(rows * np.mean(y > 0)), min(rows // 10, int((y > 0).sum())))  # enough of a rare class
        chosen = [rng.choice(np.flatnonzero(y * sign > 0), part, replace=False) for sign, part in ((1, count), (-1, rows - count))]
        chosen = np.sort(np.concatenate(chosen))
        X, y = X[chosen], y[chosen]
    if sparse.issparse(X):
        used = np.flatnonzero(np.diff(X.tocsc().indptr))  # without the columns that no row of the part uses
        return sparse.csr_matrix(X[:, used]), y
    X = np.ascontiguousarray(X, dtype=np.float64)
    if standardised:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, y


def _newsgroup() -> Rows:
    """One newsgroup against the other nineteen, rows of length one: 5 % positive."""
    found = data.load("news20")
    lengths = np.sqrt(np.asarray(found.X.multiply(found.X).sum(axis=1)).ravel())
    X = sparse.csr_matrix(sparse.diags(1.0 / np.maximum(lengths, 1e-12)) @ found.X)
    y = np.asarray(found.y)
    return X, np.where(y == np.unique(y)[0], 1.0, -1.0)


def _rare_stories() -> Rows:
    """The stories of rcv1-small, of whose positive ones all but 7 % are left out."""
    X, y = _part(*(lambda found: (found.X, found.y))(data.load("rcv1-small")), None, False)
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    chosen = np.sort(np.concatenate([positive[: int(0.07 / 0.93 * len(negative))], negative]))
    return X[chosen], y[chosen]


def _noisy_labels(X: np.ndarray, rng: np.random.Generator, noise: float, positive: float = 0.5) -> np.ndarray:
    """Return labels by a random direction with noise, of which a given share is positive."""
    scores = X @ rng.standard_normal(X.shape[1])
    scores += noise * scores.std() * rng.standard_normal(len(X))
    return np.where(scores > np.quantile(scores, 1.0 - positive), 1.0, -1.0)


def _normal(n: int, d: int, noise: float = 0.5, positive: float = 0.5, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, _noisy_labels(X, rng, noise, positive)


def _scaled_columns(n: int, d: int, seed: int = 0) -> Rows:
    """Columns whose lengths differ by up to 10^±3."""
    X, y = _normal(n, d, seed=seed)
    return X * 10.0 ** np.random.default_rng(seed + 1).uniform(-3.0, 3.0, d), y


def _one_large_column(n: int, d: int) -> Rows:
    X, y = _normal(n, d)
    X[:, 0] = 1000.0
    return X, y


def _large_scale() -> Rows:
    """Nearly separable rows of lengths about 10⁵."""
    X, y = _normal(1000, 10, noise=0.02)
    return 1e5 * X, y


def _small_scale() -> Rows:
    X, y = _normal(1000, 10)
    return 1e-4 * X, y


def _shifted() -> Rows:
    """Columns far from zero, which an intercept has to make up for."""
    X, y = _normal(1000, 10)
    return X + 100.0, y


def _rare_text() -> Rows:
    """Generated documents of 44 words, 7 % of them positive."""
    found = data.text_like(4000, 4000, 44, seed=0, flip=0.02)
    rng = np.random.default_rng(0)
    scores = np.asarray(found.X @ rng.standard_normal(4000)).ravel() + 0.1 * rng.standard_normal(4000)
    return found.X, np.where(scores > np.quantile(scores, 0.93), 1.0, -1.0)


def _repeated_rows() -> Rows:
    """Thirty different rows, with both labels, many times."""
    X, y = _normal(30, 6)
    rng = np.random.default_rng(0)
    chosen = rng.integers(30, size=1500)
    return X[chosen], np.where(rng.random(1500) < 0.2, -y[chosen], y[chosen])


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


DATA: dict[str, Callable[[], Rows]] = {
    "heart": _known("heart"),
    "german": _known("german"),
    "breast-cancer": _known("breast-cancer"),
    "spambase": _known("spambase"),
    "spambase, standardised": _known("spambase", standardised=True),
    "digits": digits,
    "a9a": _known("a9a", 5000),
    "w8a": _known("w8a", 8000),
    "news20": _known("news20-binary", 5000),
    "newsgroup against the rest": _newsgroup,
    "rcv1-small": _known("rcv1-small"),
    "rare stories": _rare_stories,
    "pros-cons": _known("pros-cons", 6000),
    "creditcard": _known("creditcard", 20_000, standardised=True),
    "covtype": _file("covtype20k.npz", 5000),
    "campaign": _file("campaign.npz", 5000),
    "blood-cells": lambda: _part(lab.load("blood-cells", pca=40).X, lab.load("blood-cells", pca=40).y, 2000, False),
    "wide 60 × 400": lambda: _normal(60, 400),
    "wide 40 × 200, columns × 10^±3": lambda: _scaled_columns(40, 200),
    "wide 16 × 64, a column of 1000": lambda: _one_large_column(16, 64),
    "wide 2 × 8, a column of 1000": lambda: _one_large_column(2, 8),
    "wide 300 × 2000, rare": lambda: _normal(300, 2000, positive=0.07),
    "correlated": _known("correlated"),
    "columns × 10^±3": lambda: _scaled_columns(1000, 30),
    "nearly separable, large scale": _large_scale,
    "small scale": _small_scale,
    "shifted": _shifted,
    "rare 7 %": lambda: _normal(2000, 30, positive=0.07),
    "rare text": _rare_text,
    "overlapping 800 × 4": lambda: _normal(800, 4, noise=2.0),
    "repeated rows": _repeated_rows,
    "weak signal": _known("binary"),
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
    "cancer": cancer,
}


@lru_cache(maxsize=1)
def _load(name: str) -> Rows:
    return DATA[name]()


# ------------------------------------------------------------------------------------------------------------------------ runs


class Key(NamedTuple):
    """A problem by its names."""

    data: str
    rows: int  # 0: all
    loss: str
    C: float
    intercept: str
    penalty: str

    def problem(self) -> dualgap.Problem:
        X, y = _load(self.data)
        X, y = _part(X, y, self.rows) if self.rows else (X, y)
        scaled = dualgap.scaling.from_C(self.C, len(y), PENALTIES[self.penalty])
        return dualgap.Problem(X, y, loss=self.loss, intercept=self.intercept, **scaled)


@dataclass(frozen=True)
class Outcome:
    """How `auto` ended on a problem, and the best of its methods there."""

    data: str
    rows: int
    loss: str
    C: float
    intercept: str
    penalty: str
    status: str
    gap: float  # certified, relative
    primal: float
    at_zero: float  # the objective of w = 0 with its best intercept
    epochs: int
    seconds: float  # of processor time
    handovers: str
    best: str = ""  # the method that converges in the least time; "": none does in the time that `auto` took
    best_seconds: float = math.inf

    @property
    def failed(self) -> bool:
        return self.status != "converged" or self.primal > 1.000001 * self.at_zero

    @property
    def ratio(self) -> float:
        """The time of `auto` in units of the best time, its own among them; 1 if the difference is too short to count."""
        best = min(self.best_seconds, self.seconds)
        return self.seconds / best if self.seconds - best > SHORT else 1.0


def draw(problems: int, seed: int, penalties: list[str], losses: list[str], names: list[str]) -> list[Key]:
    """Return that many different problems, drawn at random, or all; those of one data set follow each other."""
    grid = [
        Key(name, rows or 0, loss, C, intercept, penalty)
        for name, rows, loss, C, intercept, penalty in product(names, ROWS, losses, VALUES_OF_C, INTERCEPTS, penalties)
    ]
    if problems >= len(grid):
        return grid
    return [grid[k] for k in np.sort(np.random.default_rng(seed).choice(len(grid), problems, replace=False))]


def at_zero(problem: dualgap.Problem) -> float:
    """Return the objective of w = 0 with its best intercept."""
    intercept = dualgap.proof.best_intercept(problem, np.zeros(problem.n))
    return float(problem.objective(np.zeros(problem.size), intercept))


def timed(problem: dualgap.Problem, solver: Any, tol: float, seconds: float) -> tuple[float, dualgap.Result]:
    """Return the processor time of a run, and its result."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dualgap.solve(problem, solver, tol=tol, max_epochs=EPOCHS, max_seconds=seconds)
    return time.process_time() - began, result


def taken_by(name: str, problem: dualgap.Problem, most_rows: int = LARGEST_SET) -> Any:
    """Return a problem as a method takes it, on the linear kernel if it needs one; None where it does not take it."""
    if name == "working_set":
        if problem.n > most_rows or problem.l1 > 0:
            return None
        problem = problem.replace(kernel=make_kernel("linear"))
    return problem if can(get_solver(name), problem) else None


def warm(key: Key, solver: str, seconds: float, repeats: int) -> tuple[float, dualgap.Result]:
    """Return the least time of some runs, without the first one, which may load or compile kernels."""
    found = timed(taken_by(solver, key.problem()), solver, TOL, seconds)
    for turn in range(repeats):
        if turn == 0 or found[0] < LONG:
            again = timed(taken_by(solver, key.problem()), solver, TOL, seconds)
            found = again if turn == 0 or again[0] < found[0] else found
    return found


def run(key: Key) -> Outcome:
    """Solve a problem by `auto` and by each of its methods; measure again where `auto` seems slower than one of them."""
    seconds, result = warm(key, "auto", SECONDS, 1)
    limit, times = 0.2 + 1.5 * result.wall_seconds, {}
    for name in METHODS:
        if taken_by(name, key.problem()) is not None:
            taken, by_itself = warm(key, name, limit, 1)
            if by_itself.converged:
                times[name] = taken
    best = min(times, key=times.__getitem__, default="")
    if best and seconds > 1.3 * times[best] and seconds - times[best] > SHORT:
        seconds = min(seconds, warm(key, "auto", SECONDS, 2)[0])
        times[best] = min(times[best], warm(key, best, limit, 2)[0])
    c, handovers = result.certificate, "; ".join(f"{epoch}: {text}" for epoch, text in result.trace.handovers)
    zero = at_zero(key.problem())
    found = Outcome(*key, result.status, c.relative_gap, c.primal, zero, result.epochs, seconds, handovers)
    return Outcome(**{**asdict(found), "best": best, "best_seconds": times[best]}) if best else found


# ---------------------------------------------------------------------------------------------------------------------- output


def read_outcomes(path: Path) -> dict[Key, Outcome]:
    """Return what an earlier run has found."""
    if not path.exists():
        return {}
    kinds: dict[str, Any] = {field.name: {"float": float, "int": int}.get(str(field.type), str) for field in fields(Outcome)}
    with path.open(newline="", encoding="utf-8") as file:
        outcomes = [Outcome(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(file)]
    return {Key(*(getattr(o, name) for name in Key._fields)): o for o in outcomes}


def append(path: Path, outcome: Outcome) -> None:
    new = not path.exists()
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(outcome))


def show(o: Outcome) -> None:
    best = f"{o.best} {o.best_seconds:.3f} s" if o.best else "none faster"
    print(
        f"{o.data:32s} {o.rows or 'all':4} {o.loss:14s} C={o.C:7.0e} {o.intercept:5s} {o.penalty:11s} {o.status:10s} gap {o.gap:8.1e} "
        f"{o.epochs:5d} epochs {o.seconds:7.3f} s ({best}) ratio {o.ratio:5.2f}  {o.handovers}",
        flush=True,
    )


def summary(outcomes: list[Outcome]) -> None:
    """Print the failures, the ratios to the best method by loss and by C, and the largest of them."""
    failures = [outcome for outcome in outcomes if outcome.failed]
    print(f"\n{len(failures)} of {len(outcomes)} problems ended other than converged, or worse than w = 0:")
    for outcome in failures:
        show(outcome)
    print("\ntime of `auto` / best of its methods: problems, geometric mean, at most 1.5, at most 3, worst")
    groups = [("all", lambda o: True)]
    groups += [(loss, lambda o, loss=loss: o.loss == loss) for loss in dict.fromkeys(o.loss for o in outcomes)]
    groups += [(f"C = {C:g}", lambda o, C=C: o.C == C) for C in VALUES_OF_C]
    for name, belongs in groups:
        ratios = np.array([o.ratio for o in outcomes if belongs(o)])
        if len(ratios):
            mean = np.exp(np.log(ratios).mean())
            print(
                f"{name:24s} {len(ratios):5d} {mean:6.2f} {np.mean(ratios <= 1.5):7.1%} {np.mean(ratios <= 3.0):7.1%} {ratios.max():6.2f}"
            )
    print()
    for outcome in sorted(outcomes, key=lambda o: -o.ratio)[:25]:
        show(outcome)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.robustness", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--problems", type=int, default=1000, help="drawn at random from all combinations; a large number takes all"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--penalties", default="l2", help=", ".join(PENALTIES))
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--data", default=None, help="names of data sets, separated by semicolons; all by default")
    parser.add_argument("--seconds", type=float, default=np.inf, help="end after this time, to be continued by the same command")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--afresh", action="store_true", help="do not continue: remove the earlier results first")
    parser.add_argument("--ratio", type=float, default=1.5, help="print runs that take more than this times the best method")
    options = parser.parse_args()
    if options.afresh:
        options.output.unlink(missing_ok=True)
    names = options.data.split(";") if options.data else list(DATA)
    keys = draw(options.problems, options.seed, options.penalties.split(","), options.losses.split(","), names)
    known, began, missing = read_outcomes(options.output), time.perf_counter(), set()
    for key in keys:
        if key in known or key.data in missing:
            continue
        if time.perf_counter() - began > options.seconds:
            break
        try:
            _load(key.data)
        except Exception as error:  # a set that is not at hand
            print(f"{key.data}: left out: {error}")
            missing.add(key.data)
            continue
        known[key] = outcome = run(key)
        append(options.output, outcome)
        if outcome.failed or outcome.ratio > options.ratio:
            show(outcome)
    done = [known[key] for key in keys if key in known]
    if done:
        summary(done)
    left = sum(key not in known and key.data not in missing for key in keys)
    print(f"{left} problems are left: run the same command again" if left else "all problems were run")


if __name__ == "__main__":
    main()
