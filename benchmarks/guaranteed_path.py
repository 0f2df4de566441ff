"""Models for every C against a grid of 30: number of models, time, and the worst distance from the optimum at random values of C.

python -m benchmarks.guaranteed_path

Each data set gets `LinearSVCPath(guarantee=0.01)` over four decades of C, and a grid of 30 values of C solved to the same precision; times
are processor seconds of the two, by turns, the least of three. Then the model at each of 1,000 random C is certified by a dual point that
was solved for at that C to a relative gap of `--precise`: its distance from the optimum is at most that gap divided by the dual bound,
rounding included. The data are those of the catalogue; what is missing is left out.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

import dualgap
from benchmarks.cases import Case, load_case
from dualgap import LinearSVCPath, data
from dualgap.proof import certify_pair, dual_point
from dualgap.run import minimise

__all__ = ["main"]

NAMES = ("breast-cancer", "spambase", "a9a", "w8a", "news20", "creditcard")
RANGE = (1e-2, 1e2)
GRID = 30
PRECISE = 1e-6


class Row(NamedTuple):
    """A line of the table."""

    name: str
    loss: str
    trained: int
    models: int
    seconds: float
    grid_seconds: float
    proven: float  # the largest distance from the optimum over the whole range, as proven by the path
    worst: float  # the largest at the random C, by solves of their own
    above: int  # how many of these are above the guarantee


def case(name: str) -> Case:
    """Return a data set, dense data standardised."""
    if name != "breast-cancer":
        return load_case(name)
    found = data.load(name)
    X = np.asarray(found.X, dtype=float)
    return Case(name, (X - X.mean(axis=0)) / X.std(axis=0), np.where(np.asarray(found.y) == np.unique(found.y)[-1], 1.0, -1.0))


def timed(make: Any, X: Any, y: np.ndarray) -> tuple[Any, float]:
    """Return a fitted estimator, and the processor seconds of its fit."""
    began = time.process_time()
    model = make().fit(X, y)
    return model, time.process_time() - began


def distances(path: Any, X: Any, y: np.ndarray, loss: str, Cs: np.ndarray, precise: float) -> list[float]:
    """Return how far from the optimum the path's model is at most at each C, by a dual point solved for there."""
    base = dualgap.Problem(X, y, loss, l2=1.0, intercept="free")
    found, warm = [], None
    for C in np.sort(Cs):
        problem = base.variant(l2=1.0 / (C * base.n))
        warm = minimise(problem, "auto", precise, 5000, warm_start=warm)
        model = path.model_at(float(C))
        certificate = certify_pair(
            problem, model.coef_[0], float(model.intercept_[0]), dual_point(problem, warm.dual), "given"
        ).certificate
        found.append(certificate.gap / certificate.dual)
    return found


def measure(name: str, loss: str, guarantee: float, count: int, repeats: int, precise: float) -> Row:
    """Fit both, and check the path at random values of C."""
    found = case(name)
    common = {"l1_ratios": 0.0, "loss": loss, "random_state": 0}

    def path() -> Any:
        return LinearSVCPath(Cs=RANGE, guarantee=guarantee, **common)

    def grid() -> Any:
        return LinearSVCPath(Cs=np.geomspace(*RANGE, GRID), tol=guarantee, **common)

    timed(path, found.X, found.y), timed(grid, found.X, found.y)  # compiles
    paths, grids = zip(*((timed(path, found.X, found.y), timed(grid, found.X, found.y)) for _ in range(repeats)), strict=True)
    fitted = paths[0][0]
    Cs = 10.0 ** np.random.default_rng(0).uniform(*np.log10(RANGE), count)
    far = distances(fitted, found.X, found.y, loss, np.clip(Cs, *RANGE), precise)
    return Row(
        name,
        loss,
        len(fitted.Cs_),
        len(fitted.breakpoints_),
        min(seconds for _, seconds in paths),
        min(seconds for _, seconds in grids),
        fitted.guarantee_,
        max(far, default=0.0),
        sum(each > guarantee for each in far),
    )


def main() -> None:
    """Print a line for each data set and loss."""
    parser = argparse.ArgumentParser(prog="benchmarks.guaranteed_path", description="A model for every C against a grid of 30.")
    parser.add_argument("--data", default=",".join(NAMES))
    parser.add_argument("--losses", default="squared_hinge,hinge")
    parser.add_argument("--guarantee", type=float, default=0.01)
    parser.add_argument("--count", type=int, default=1000, help="how many random C")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--precise", type=float, default=PRECISE, help="relative gap of the dual points that the random C are checked with"
    )
    options = parser.parse_args()
    print("| data | loss | trained | models | path | grid of 30 | ratio | proven | worst of random C | above |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.data.split(","):
        for loss in options.losses.split(","):
            try:
                row = measure(name, loss, options.guarantee, options.count, options.repeats, options.precise)
            except (OSError, data.DataError) as error:
                print(f"{name} is left out: {error}")
                break
            ratio = row.seconds / row.grid_seconds
            print(
                f"| {row.name} | {row.loss} | {row.trained} | {row.models} | {row.seconds:.3f} s | {row.grid_seconds:.3f} s "
                f"| {ratio:.2f} | {100 * row.proven:.3f} % | {100 * row.worst:.3f} % | {row.above} of {options.count} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
