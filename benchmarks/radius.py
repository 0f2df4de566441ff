"""How much of a certificate's gap is rounding: the radius as a share of P, on real data at their usual scale.

python -m benchmarks.radius

Dense data are standardised, texts have rows of length one. The data are those of the catalogue; what is missing is left out.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dualgap
from benchmarks import DATA
from dualgap import data

__all__ = ["main"]

L2 = 1e-4
MAX_SECONDS = 300.0
KERNEL_ROWS = 3000
ARRAYS = ("covtype20k", "campaign")  # files with arrays X and y
AS_THEY_ARE = ("a9a", "w8a", "news20-binary", "rcv1-small", "pros-cons")  # 0/1 columns, or rows of length one
NAMES = ("breast-cancer", "heart", "german", "spambase", *ARRAYS, *AS_THEY_ARE, "creditcard")


class Row(NamedTuple):
    """A line of the table."""

    name: str
    shape: str
    problem: str
    tol: float
    status: str
    relative_gap: float
    radius: float  # as a share of P


def sets(only: str | None = None) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield name, samples and labels ±1 of every data set that is at hand."""
    for name in (only,) if only else NAMES:
        try:
            X, y = _arrays(DATA / f"{name}.npz") if name in ARRAYS else _known(name)
        except (OSError, data.DataError) as error:
            print(f"{name} is left out: {error}")
            continue
        yield name, X if name in AS_THEY_ARE else _standardised(X), y


def _known(name: str) -> tuple[Any, np.ndarray]:
    found = data.load(name, folder=DATA, download=False)
    return found.X, np.where(found.y == np.unique(found.y)[-1], 1, -1)


def _arrays(path: Path) -> tuple[Any, np.ndarray]:
    with np.load(path) as found:
        return found["X"], found["y"]


def _standardised(X: Any) -> np.ndarray:
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    spread = X.std(axis=0)
    return np.ascontiguousarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def rows(name: str, X: Any, y: np.ndarray, tols: tuple[float, ...]) -> Iterator[Row]:
    """Yield the lines of a data set: the linear hinge at each tolerance, and a Gaussian kernel on some rows."""
    linear = dualgap.Problem(X, y, "hinge", l2=L2, intercept="free")
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:KERNEL_ROWS])
    gaussian = dualgap.Problem(X[some], y[some], "hinge", l2=1.0 / len(some), intercept="free", kernel="rbf")
    cases = [("linear, l2 = 1e-4", linear, tol) for tol in tols] + [("rbf, C = 1", gaussian, tols[0])]
    for title, problem, tol in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dualgap.solve(problem, tol=tol, max_epochs=5000, max_seconds=MAX_SECONDS)
        c = result.certificate
        shape = f"{problem.n} × {problem.d}"
        yield Row(name, shape, title, tol, result.status, c.relative_gap, c.radius / c.primal)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.radius", description=__doc__.splitlines()[0])
    parser.add_argument("--tols", type=lambda text: tuple(map(float, text.split(","))), default=(1e-4, 1e-6))
    parser.add_argument("--only", help="one data set")
    options = parser.parse_args(arguments)
    print(
        "| data | rows × columns | problem | tol | status | relative gap | radius / P |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    shares = []
    for name, X, y in sets(options.only):
        for row in rows(name, X, y, options.tols):
            shares.append(row.radius)
            words = [row.name, row.shape, row.problem, f"{row.tol:.0e}", row.status, f"{row.relative_gap:.1e}", f"{row.radius:.1e}"]
            print("| " + " | ".join(words) + " |", flush=True)
    below = [(limit, sum(share < limit for share in shares)) for limit in (1e-9, 1e-12)]
    print("\n" + "; ".join(f"radius below {limit:.0e} of P: {count} of {len(shares)}" for limit, count in below))


if __name__ == "__main__":
    main()
