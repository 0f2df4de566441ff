"""The cost of an update on sparse rows as the number of features grows: it should follow the row's non-zeros, not d.

Rows have a fixed number of non-zeros, most of them in columns that many rows share, as words of a text do. Printed are nanoseconds of CPU
an update, best of a few epochs. What growth remains is memory's: a vector of a million coordinates no longer sits in the cache.

    python benchmarks/sparse_update_cost.py
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

import dualgap

SOLVERS = {
    "saga": (dualgap.SAGA(), {"loss": "smooth_hinge", "l1": 1e-5}),
    "svrg": (dualgap.SVRG(), {"loss": "smooth_hinge", "l1": 1e-5}),
    "sgd": (dualgap.SGD(output="last"), {"loss": "hinge", "l1": 1e-5}),
    "sgd, averaged": (dualgap.SGD(output="average"), {"loss": "hinge", "l1": 1e-5}),
    "pegasos": (dualgap.Pegasos(), {"loss": "hinge"}),
    "sdca": (dualgap.SDCA(), {"loss": "hinge"}),
    "asdca": (dualgap.ASDCA(), {"loss": "smooth_hinge"}),
}


def text_like(rows: int, features: int, nonzeros: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return a CSR matrix with `nonzeros` entries a row, column frequencies ∝ 1/rank, and the labels of a noisy plane."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(np.exp(rng.uniform(0.0, np.log(features + 1.0), (rows, nonzeros))).astype(np.int64) - 1, features - 1)
    columns = np.take_along_axis(rng.permutation(features)[None, :], columns, axis=1)
    values = rng.normal(size=(rows, nonzeros)) / np.sqrt(nonzeros)
    pointers = np.arange(0, rows * nonzeros + 1, nonzeros)
    X = sparse.csr_array((values.ravel(), columns.ravel(), pointers), shape=(rows, features))
    X.sum_duplicates()
    y = np.where(X @ rng.normal(size=features) + 0.3 * rng.normal(size=rows) > 0, 1, -1)
    return X, y


def update_cost(solver: Any, problem: dualgap.Problem, repeats: int = 5) -> float:
    """Return nanoseconds of an epoch divided by the rows that it touched, at best."""
    best = np.inf
    rng = np.random.default_rng(0)
    state = solver.start(problem, rng)
    for epoch in range(repeats + 1):
        before, began = state.passes, time.process_time()
        solver.epoch(problem, state, rng)
        seconds = time.process_time() - began
        if epoch > 0:  # the first compiles
            best = min(best, 1e9 * seconds / ((state.passes - before) * problem.n))
    return best


def table(widths: Iterable[int], rows: int = 20_000, nonzeros: int = 30) -> list[tuple[int, dict[str, float]]]:
    """Return (d, nanoseconds an update for each solver) for each width d."""
    lines = []
    for features in widths:
        X, y = text_like(rows, features, nonzeros)
        costs = {
            name: update_cost(solver, dualgap.Problem(X, y, l2=1e-4, **options)) for name, (solver, options) in SOLVERS.items()
        }
        lines.append((features, costs))
    return lines


def main() -> None:
    print("ns of CPU an update, 30 non-zeros a row")
    print(f"{'d':>9}" + "".join(f"{name:>15}" for name in SOLVERS))
    for features, costs in table((10**3, 10**4, 10**5, 10**6)):
        print(f"{features:>9}" + "".join(f"{cost:>15.0f}" for cost in costs.values()), flush=True)


if __name__ == "__main__":
    main()
