"""The cost of a pass of SDCA and of LIBLINEAR, on sparse data larger than the last-level cache; and the cost of starting up.

python -m benchmarks.pass_cost
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import numpy as np

import dualgap
from dualgap import data

__all__ = ["main"]


def sdca_pass(problem: dualgap.Problem, passes: int = 4) -> float:
    """Return the CPU seconds of a pass, the best of a few."""
    dualgap.solve(problem, "sdca", tol=0.0, max_epochs=1)
    trace = dualgap.solve(problem, "sdca", tol=0.0, max_epochs=passes, evaluate="epoch").trace
    return float(np.diff(trace["cpu_seconds"]).min())


def liblinear_pass(X, y, l2: float, passes: int = 4) -> float:
    """Return the CPU seconds of a pass of scikit-learn's LIBLINEAR: the difference of two runs, in which the conversion cancels."""
    from sklearn.svm import LinearSVC

    def seconds(count: int) -> float:
        model = LinearSVC(C=1 / (l2 * len(y)), loss="hinge", fit_intercept=False, tol=1e-12, max_iter=count, random_state=0)
        best = np.inf
        for _ in range(2):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            best = min(best, time.process_time() - began)
        return best

    return (seconds(1 + passes) - seconds(1)) / passes


def start_up() -> tuple[float, float]:
    """Return seconds to import the package, and of the first small solve, in a new process with a warm kernel cache."""
    code = (
        "import time; t = time.perf_counter(); import dualgap; a = time.perf_counter() - t; import numpy as np;"
        "X = np.random.default_rng(0).standard_normal((50, 4)); y = X[:, 0] > 0; t = time.perf_counter();"
        "dualgap.solve(dualgap.Problem(X, y, l2=0.1)); print(a, time.perf_counter() - t)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(4)]
    times = np.array([[float(part) for part in run.split()] for run in runs])[1:]
    return float(times[:, 0].min()), float(times[:, 1].min())


def main() -> None:
    """Print the ratios."""
    l2 = 1e-5
    found = data.text_like(300_000, 300_000, 60, seed=0)
    X, y = found.X, np.where(np.asarray(found.y) == np.max(found.y), 1.0, -1.0)
    problem = dualgap.Problem(X, y, l2=l2)
    ours, theirs = sdca_pass(problem), liblinear_pass(X, y, l2)
    size = (X.data.nbytes + X.indices.nbytes) / 2**20
    print(f"text-like {X.shape[0]:,} × {X.shape[1]:,}, {X.nnz:,} non-zeros, {size:.0f} MiB")
    print(f"  SDCA       {ours * 1e3:8.1f} ms a pass, {ours / X.nnz * 1e9:.2f} ns a non-zero")
    print(f"  LIBLINEAR  {theirs * 1e3:8.1f} ms a pass, {theirs / X.nnz * 1e9:.2f} ns a non-zero")
    print(f"  ratio      {ours / theirs:8.2f}")
    imported, solved = start_up()
    print(f"import dualgap {imported:.2f} s; first small solve of a new process, warm cache, {solved:.3f} s")


if __name__ == "__main__":
    main()
