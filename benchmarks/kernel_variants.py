"""`python -m benchmarks.kernel_variants`: one kernel machine beside another form of the same.

linear      SVC(kernel="linear") beside LinearSVC(loss="hinge") with a free intercept: the same problem by two names
intercept   SVC with the rbf kernel without an intercept beside the same with one

Prints processor time, the best of fits by turns on one processor, and its ratio to the form beside which it stands. Below 1, it is faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import dualgap
from benchmarks.cases import Case, load_case
from benchmarks.records import write_csv
from dualgap import data

__all__ = ["main"]

TOL = 1e-4
ROWS = 6000  # of the larger sets, for the rbf kernel

Fit = Callable[[], Any]


def normal(n: int, d: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return normal rows, and labels by a random direction with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + noise * scores.std() * rng.standard_normal(n) > 0, 1, -1)


def cases_at_hand(*names: str) -> Iterator[Case]:
    """Yield the named cases; say which ones are missing."""
    for name in names:
        try:
            yield load_case(name)
        except data.MissingFile as error:
            print(f"{name}: left out: {error}")


def linear_kernels() -> Iterator[tuple[str, dict[str, Fit]]]:
    """Yield the name of a problem and its two fits, that of LinearSVC first."""
    text = data.text_like(4000, 20_000, 60, seed=0, flip=0.02)
    problems = [
        ("800 × 4, overlapping", *normal(800, 4, 2.0), (1.0, 1e6)),
        ("5,000 × 50", *normal(5000, 50, 0.5), (0.1, 10.0)),
        ("200 × 2,000, noisy labels", *normal(200, 2000, 1.0), (1.0, 100.0)),
        ("breast cancer", *(lambda found: (scale(found.X), found.y))(data.load("breast-cancer")), (1.0, 100.0)),
        ("text-like 4,000 × 20,000", text.X, text.y, (1.0, 100.0)),
        *((case.name, case.X, case.y, (0.1, 1.0)) for case in cases_at_hand("a9a")),
    ]
    for name, X, y, penalties in problems:
        for C in penalties:
            linear = dualgap.LinearSVC(loss="hinge", C=C, tol=TOL, intercept="free", random_state=0)
            kernel = dualgap.SVC(kernel="linear", C=C, tol=TOL, random_state=0)
            yield (
                f"{name}, C = {C:g}",
                {
                    "LinearSVC": lambda model=linear, X=X, y=y: model.fit(X, y),
                    "SVC(linear)": lambda model=kernel, X=X, y=y: model.fit(X, y),
                },
            )


def intercepts() -> Iterator[tuple[str, dict[str, Fit]]]:
    """Yield the name of a problem and its two fits, that with an intercept first."""
    digits, classes = load_digits(return_X_y=True)
    problems = [("digits", digits / 16.0, np.where(classes >= 5, 1, -1)), ("4,000 × 20", *normal(4000, 20, 0.5))]
    for case in cases_at_hand("a9a", "w8a"):
        rows = np.random.default_rng(0).permutation(len(case.y))[:ROWS]
        problems.append((case.name, case.X[rows], case.y[rows]))
    for name, X, y in problems:
        for C in (1.0, 100.0):
            for tol in (1e-3, 1e-6):
                with_b, without = (dualgap.SVC(C=C, tol=tol, fit_intercept=fitted, random_state=0) for fitted in (True, False))
                yield (
                    f"{name}, C = {C:g}, tol {tol:g}",
                    {
                        "free": lambda model=with_b, X=X, y=y: model.fit(X, y),
                        "none": lambda model=without, X=X, y=y: model.fit(X, y),
                    },
                )


def seconds(fits: dict[str, Fit], repeats: int) -> dict[str, float]:
    """Return the least processor time of each fit, by turns, after one that compiles."""
    best = dict.fromkeys(fits, np.inf)
    for fit in fits.values():
        fit()
    for _ in range(repeats):
        for form, fit in fits.items():
            began = time.process_time()
            fit()
            best[form] = min(best[form], time.process_time() - began)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_variants")
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    records: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for part, problems in (("linear", linear_kernels), ("intercept", intercepts)):
            for name, fits in problems():
                found = seconds(fits, repeats)
                base = next(iter(found.values()))
                for form, time_taken in list(found.items())[1:]:
                    records.append({"part": part, "problem": name, "form": form, "ratio": time_taken / base})
                cells = "  ".join(f"{form} {time_taken:.4f} s ({time_taken / base:.2f})" for form, time_taken in found.items())
                print(f"{name:40s} {cells}", flush=True)
                write_csv("kernel_variants.csv", records)


if __name__ == "__main__":
    main()
