"""Which problems does `auto` not solve? Losses × nine values of C × three intercepts × data, to a relative gap of 1e-3.

    python -m benchmarks.robustness --problems 1000 --seed 0
    python -m benchmarks.robustness --penalties l1 --losses hinge

Each run gets 1,000 epochs and 60 seconds. A run that ends other than converged is repeated with every other solver that takes the problem,
which tells a problem that is hard from one that `auto` should have solved. Results go to benchmarks/outputs/robustness.csv after each
problem. `--seconds 500` ends early; the same command then goes on where the last one ended, unless --afresh is given.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import dualgap
from benchmarks.records import OUTPUTS
from dualgap import data, lab
from dualgap.core import LOSSES
from dualgap.problem import INTERCEPTS

__all__ = ["DATA", "VALUES_OF_C", "Key", "Outcome", "draw", "run"]

OUTPUT = OUTPUTS / "robustness.csv"
VALUES_OF_C = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0, 1e2, 1e3, 1e4)
PENALTIES = {"l2": 0.0, "elastic-net": 0.5, "l1": 1.0}  # share of the l1 part
TOL = 1e-3
EPOCHS, SECONDS = 1000, 60.0  # of a run
OTHERS_SECONDS = 10.0  # of a run of another solver

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


def _part(X: Any, y: Any, rows: int | None, standardised: bool) -> Rows:
    y = np.asarray(y)
    y = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    if rows is not None and rows < len(y):
        chosen = np.sort(np.random.default_rng(0).choice(len(y), rows, replace=False))
        X, y = X[chosen], y[chosen]
    if sparse.issparse(X):
        used = np.flatnonzero(np.diff(X.tocsc().indptr))  # without the columns that no row of the part uses
        return sparse.csr_matrix(X[:, used]), y
    X = np.ascontiguousarray(X, dtype=np.float64)
    if standardised:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, y


def _digits() -> Rows:
    found = data.load("digits")
    return np.asarray(found.X, dtype=np.float64), np.where(np.asarray(found.y) >= 5, 1.0, -1.0)


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


DATA: dict[str, Callable[[], Rows]] = {
    "heart": _known("heart"),
    "german": _known("german"),
    "breast-cancer": _known("breast-cancer"),
    "breast-cancer, standardised": _known("breast-cancer", standardised=True),
    "spambase": _known("spambase"),
    "spambase, standardised": _known("spambase", standardised=True),
    "digits": _digits,
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
}


@lru_cache(maxsize=1)
def _load(name: str) -> Rows:
    return DATA[name]()


# ------------------------------------------------------------------------------------------------------------------------ runs


class Key(NamedTuple):
    """A problem by its names."""

    data: str
    loss: str
    C: float
    intercept: str
    penalty: str

    def problem(self) -> dualgap.Problem:
        X, y = _load(self.data)
        scaled = dualgap.scaling.from_C(self.C, len(y), PENALTIES[self.penalty])
        return dualgap.Problem(X, y, loss=self.loss, intercept=self.intercept, **scaled)


@dataclass(frozen=True)
class Outcome:
    """How `auto` ended on a problem, and which other solvers converge where it did not."""

    data: str
    loss: str
    C: float
    intercept: str
    penalty: str
    status: str
    gap: float  # certified, relative
    primal: float
    at_zero: float  # the objective of w = 0 with its best intercept
    epochs: int
    seconds: float
    others: str = ""  # solvers that converge, with their epochs and seconds

    @property
    def failed(self) -> bool:
        return self.status != "converged" or self.primal > 1.000001 * self.at_zero


def draw(problems: int, seed: int, penalties: list[str], losses: list[str], names: list[str]) -> list[Key]:
    """Return that many different problems, drawn at random, or all; those of one data set follow each other."""
    grid = [
        Key(name, loss, C, intercept, penalty)
        for name, loss, C, intercept, penalty in product(names, losses, VALUES_OF_C, INTERCEPTS, penalties)
        if not (penalty == "l1" and intercept == "penalised")  # not a problem: the intercept's penalty is of l2
    ]
    if problems >= len(grid):
        return grid
    return [grid[k] for k in np.sort(np.random.default_rng(seed).choice(len(grid), problems, replace=False))]


def at_zero(problem: dualgap.Problem) -> float:
    """Return the objective of w = 0 with its best intercept."""
    intercept = dualgap.proof.best_intercept(problem, np.zeros(problem.n))
    return float(problem.objective(np.zeros(problem.size), intercept))


def solve(problem: dualgap.Problem, solver: str, seconds: float) -> dualgap.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dualgap.solve(problem, solver, tol=TOL, max_epochs=EPOCHS, max_seconds=seconds)


def run(key: Key) -> Outcome:
    """Solve a problem by `auto`, and by every other solver where that fails."""
    problem = key.problem()
    began = time.perf_counter()
    result = solve(problem, "auto", SECONDS)
    seconds = time.perf_counter() - began - result.compile_seconds
    c = result.certificate
    found = Outcome(*key, result.status, c.relative_gap, c.primal, at_zero(problem), result.epochs, seconds)
    return Outcome(**{**asdict(found), "others": " ".join(others(problem))}) if found.failed else found


def others(problem: dualgap.Problem) -> Iterator[str]:
    """Yield the solvers that converge on a problem."""
    for name in dualgap.solvers().names:
        if name != "auto" and dualgap.solvers.get_solver(name).supports(problem):
            result = solve(problem, name, OTHERS_SECONDS)
            if result.converged:
                yield f"{name}({result.epochs} epochs, {result.wall_seconds:.2g} s)"


# ---------------------------------------------------------------------------------------------------------------------- output


def read_outcomes(path: Path) -> dict[Key, Outcome]:
    """Return what an earlier run has found."""
    if not path.exists():
        return {}
    kinds: dict[str, Any] = {field.name: {"float": float, "int": int}.get(str(field.type), str) for field in fields(Outcome)}
    with path.open(newline="", encoding="utf-8") as file:
        outcomes = [Outcome(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(file)]
    return {Key(o.data, o.loss, o.C, o.intercept, o.penalty): o for o in outcomes}


def append(path: Path, outcome: Outcome) -> None:
    new = not path.exists()
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(outcome))


def show(outcome: Outcome) -> None:
    print(
        f"{outcome.data:32s} {outcome.loss:14s} C={outcome.C:7.0e} {outcome.intercept:10s} {outcome.penalty:11s} {outcome.status:14s} "
        f"gap {outcome.gap:8.1e}  P {outcome.primal:.6g} (w = 0: {outcome.at_zero:.6g})  {outcome.epochs} epochs  {outcome.seconds:.2f} s"
        + (f"  converge: {outcome.others or 'none'}" if outcome.failed else ""),
        flush=True,
    )


def summary(outcomes: list[Outcome]) -> None:
    """Print the failures again, and the worst of each column."""
    failures = [outcome for outcome in outcomes if outcome.failed]
    if failures:
        print("\nended other than converged, or worse than w = 0:")
        for outcome in failures:
            show(outcome)
    print(
        f"\n{len(failures)} of {len(outcomes)} problems ended other than converged, {sum(bool(o.others) for o in failures)} of them"
    )
    print("although another solver converges")
    for name in ("gap", "epochs", "seconds"):
        values = np.array([getattr(outcome, name) for outcome in outcomes])
        middle, high = np.quantile(values, [0.5, 0.99])
        worst = outcomes[int(np.argmax(values))]
        print(f"{name:8s} median {middle:.3g}  99 % {high:.3g}  worst:", end=" ")
        show(worst)


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
    parser.add_argument("--slower-than", type=float, default=5.0, help="print converged runs that take more seconds than this")
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
        if outcome.failed or outcome.seconds > options.slower_than:
            show(outcome)
    done = [known[key] for key in keys if key in known]
    if done:
        summary(done)
    left = sum(key not in known and key.data not in missing for key in keys)
    print(f"{left} problems are left: run the same command again" if left else "all problems were run")


if __name__ == "__main__":
    main()
