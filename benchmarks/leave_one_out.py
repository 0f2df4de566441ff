"""Leave-one-out of the exact model: time and result beside a refit without each row.

python -m benchmarks.leave_one_out [--rows 300] [--only news20]

news20 (two groups of ten classes, rows of length one, l2 = 1e-4, hinge) is compared with refits of some random rows, whose time is scaled
up to all rows; breast cancer (standardised) with refits of all rows. A refit starts from nothing and ends at a relative gap of `--tol`.
Processor seconds; kernels are compiled before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from benchmarks.cases import load_case
from dualgap import Problem, Result
from dualgap.run import minimise

__all__ = ["main"]


def problems(only: str | None) -> Iterator[tuple[str, Problem, bool]]:
    """Yield names and problems, and whether all rows are refitted."""
    if only in (None, "news20"):
        case = load_case("news20")
        for intercept in ("none", "free"):
            yield f"news20, hinge, intercept {intercept}", Problem(case.X, case.y, "hinge", l2=1e-4, intercept=intercept), False
    if only in (None, "breast-cancer"):
        X, y = load_breast_cancer(return_X_y=True)
        for kernel in (None, "rbf"):
            for loss in ("hinge", "squared_hinge", "logistic"):
                for intercept in ("none", "free"):
                    name = f"breast cancer, {kernel or 'linear'}, {loss}, intercept {intercept}"
                    yield name, Problem(scale(X), y, loss, l2=1e-3, intercept=intercept, kernel=kernel), True


def refit_is_wrong(problem: Problem, i: int, tol: float) -> bool:
    """Return whether the model of all other rows gives row i a wrong label."""
    c = problem.c.copy()
    c[i] = 0.0
    found = minimise(problem.replace(sample_weight=c, c=c), "auto", tol, 10_000)
    score = found.decision(problem.X[[i]])[0]
    return bool((score > 0.0) != (problem.y[i] > 0.0))


def measure(name: str, problem: Problem, rows: int, tol: float) -> None:
    """Print one line of the table."""
    few = slice(None, None, max(1, problem.n // 500))
    kernel = None if problem.kernel is None else problem.kernel.name
    small = Problem(problem.X[few], problem.y[few], problem.loss, l2=problem.l2, intercept=problem.intercept, kernel=kernel)
    refit_is_wrong(small, 0, tol)  # compiles, as does the next line
    Result.of(minimise(small, "auto", 1e-4, 10_000)).leave_one_out().exact()
    began = time.process_time()
    found = Result.of(minimise(problem, "auto", 1e-4, 10_000)).leave_one_out()
    at_once = time.process_time() - began
    low, high, left = found.low, found.high, int(np.count_nonzero(found.status == "open"))
    found.exact()
    seconds = time.process_time() - began
    chosen = np.random.default_rng(0).choice(problem.n, min(rows, problem.n), replace=False)
    began = time.process_time()
    wrong = np.array([refit_is_wrong(problem, int(i), tol) for i in chosen])
    brute = (time.process_time() - began) * problem.n / len(chosen)
    same = int(np.count_nonzero(wrong == (found.status[chosen] == "wrong")))
    shown = [
        f"{name}: fit and interval [{100 * low:.2f}, {100 * high:.2f}] % in {at_once:.2f} s with {left} rows open",
        f"exact {100 * found.low:.3f} % in {seconds:.2f} s with {np.count_nonzero(found.status == 'open')} rows open",
        f"refits {brute:.1f} s, {brute / seconds:.0f} times as long",
        f"equal on {same} of {len(chosen)} rows",
    ]
    print("; ".join(shown), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--tol", type=float, default=1e-10)
    parser.add_argument("--only", choices=["news20", "breast-cancer"])
    options = parser.parse_args()
    for name, problem, every in problems(options.only):
        measure(name, problem, problem.n if every else options.rows, options.tol)


if __name__ == "__main__":
    main()
