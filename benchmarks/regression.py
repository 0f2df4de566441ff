"""Time to a certified precision of regression: dualgap beside LIBLINEAR, ReHLine, libsvm and scikit-learn-intelex.

    python -m benchmarks.regression linear [FOLDER] [names]
    python -m benchmarks.regression kernel [FOLDER] [rows]

FOLDER holds california-housing.csv.gz and pollution.csv.gz; without them the other problems run. A peer is trained at tolerances from loose
to tight. Its time to a precision is that of the fastest setting whose model is within that precision of dualgap's lower bound, which no
user of the peer could know. Every time is processor time in seconds, the least of some runs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale
from sklearn.svm import SVR, LinearSVR

import dualgap

__all__ = ["main"]

PRECISIONS = (1e-3, 1e-6)
SETTINGS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
LONGEST = 10.0  # seconds of one run of a peer, after which no tighter setting is tried


def table(path: Path, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the numeric columns of a table, standardised, and its target in units of its standard deviation."""
    import polars as pl

    frame = pl.read_csv(path, null_values=["NA"], infer_schema_length=None).drop_nulls()
    y = frame[target].to_numpy().astype(float)
    numbers = frame.drop(target).select(pl.selectors.numeric())
    return scale(numbers.to_numpy().astype(float)), scale(y)


def generated(n: int = 200_000, d: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Return dense rows with correlated columns, and targets with heavy tails."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    y = X @ rng.standard_normal(d) + rng.standard_t(3, n) * 3.0
    return scale(X), scale(y)


def sparse_rows(n: int = 100_000, d: int = 100_000, length: int = 50) -> tuple[Any, np.ndarray]:
    """Return rows of unit length with words as frequent as in text, and targets that a tenth of the words explain."""
    rng = np.random.default_rng(0)
    words = np.minimum((d ** rng.random((n, length))).astype(np.int64), d - 1)
    X = sparse.csr_matrix((rng.exponential(size=n * length), words.ravel(), np.arange(0, n * length + 1, length)), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))))
    w = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0)
    y = X @ w
    return X, scale(y + 0.3 * y.std() * rng.standard_normal(n))


def problems(folder: Path | None) -> Iterator[tuple[str, Callable[[], tuple[Any, np.ndarray]]]]:
    """Yield names and loaders."""
    if folder is not None:
        if (folder / "california-housing.csv.gz").exists():
            yield "california", lambda: table(folder / "california-housing.csv.gz", _target(folder / "california-housing.csv.gz"))
        if (folder / "pollution.csv.gz").exists():
            yield "pollution", lambda: table(folder / "pollution.csv.gz", _target(folder / "pollution.csv.gz"))
    yield "diabetes", lambda: tuple(scale(a) for a in load_diabetes(return_X_y=True))  # type: ignore[return-value]
    yield "generated 200k × 50", generated
    yield "sparse 100k × 100k", sparse_rows


def _target(path: Path) -> str:
    import polars as pl

    columns = pl.read_csv(path, n_rows=5).columns
    return next((c for c in columns if c.lower() in ("median_house_value", "medhousevalue", "medhouseval", "pm2.5")), columns[-1])


def liblinear(X: Any, y: np.ndarray, l2: float, loss: str, epsilon: float, tol: float) -> np.ndarray:
    """Train scikit-learn's LinearSVR, which is LIBLINEAR's."""
    C = 1.0 / (l2 * len(y))
    return (
        LinearSVR(loss=loss, C=C, epsilon=epsilon, tol=tol, fit_intercept=False, dual=True, max_iter=5_000, random_state=0)
        .fit(X, y)
        .coef_.ravel()
    )


def liblinear_primal(X: Any, y: np.ndarray, l2: float, loss: str, epsilon: float, tol: float) -> np.ndarray:
    """Train LIBLINEAR's Newton method, for the squared loss alone."""
    C = 1.0 / (l2 * len(y))
    return (
        LinearSVR(loss=loss, C=C, epsilon=epsilon, tol=tol, fit_intercept=False, dual=False, max_iter=20_000)
        .fit(X, y)
        .coef_.ravel()
    )


def rehline(X: Any, y: np.ndarray, l2: float, loss: str, epsilon: float, tol: float) -> np.ndarray:
    """Train ReHLine's ridge regression with the ε-insensitive loss."""
    from rehline import plqERM_Ridge

    model = plqERM_Ridge(loss={"name": "SVR", "epsilon": epsilon}, C=1.0 / (l2 * len(y)), tol=tol, max_iter=20_000)
    model.fit(X=X, y=y)
    return np.asarray(model.coef_).ravel()


PEERS: dict[str, tuple[Callable[..., np.ndarray], tuple[str, ...], bool]] = {  # name: train, losses, dense rows only
    "LIBLINEAR": (liblinear, ("epsilon_insensitive", "squared_epsilon_insensitive"), False),
    "LIBLINEAR primal": (liblinear_primal, ("squared_epsilon_insensitive",), False),
    "ReHLine": (rehline, ("epsilon_insensitive",), True),
}


def timed(run: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the least processor time of some runs, and the last answer; a run above a second is not repeated."""
    best, answer = np.inf, None
    for _ in range(repeats):
        began = time.process_time()
        answer = run()
        best = min(best, time.process_time() - began)
        if best > 1.0:
            break
    return best, answer


def race(X: Any, y: np.ndarray, l2: float, loss: str, epsilon: float) -> Iterator[tuple[str, float, float]]:
    """Yield contestant, precision and seconds (infinite where it did not get there)."""
    problem = dualgap.Problem(X, y, loss, l2=l2, epsilon=epsilon)
    dualgap.solve(problem, tol=1e-1)  # compiles
    bound = dualgap.solve(problem, tol=1e-9, max_epochs=20_000).certificate.dual
    for precision in PRECISIONS:
        seconds, found = timed(
            lambda precision=precision: dualgap.solve(
                dualgap.Problem(X, y, loss, l2=l2, epsilon=epsilon), tol=precision, max_epochs=20_000
            )
        )
        yield "dualgap", precision, seconds if found.converged else np.inf
    for name, (train, losses, dense) in PEERS.items():
        if loss not in losses or (dense and sparse.issparse(X)):
            continue
        least = dict.fromkeys(PRECISIONS, np.inf)
        for tol in SETTINGS:
            try:
                seconds, coef = timed(lambda tol=tol, train=train: train(X, y, l2, loss, epsilon, tol))
            except ImportError:
                break
            excess = problem.objective(coef) / bound - 1.0
            for precision in PRECISIONS:
                if excess <= precision:
                    least[precision] = min(least[precision], seconds)
            if seconds > LONGEST or excess <= min(PRECISIONS):
                break
        for precision, seconds in least.items():
            yield name, precision, seconds


def linear(folder: Path | None, only: list[str]) -> None:
    """Print the table of linear problems, without an intercept: columns and target are centred."""
    print("| problem | loss | C | precision | dualgap s | peer | s | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, load in problems(folder):
        if only and not any(word in name for word in only):
            continue
        X, y = load()
        for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
            for C in (0.01, 1.0):
                times = list(race(X, y, 1.0 / (C * len(y)), loss, 0.1))
                own = {precision: seconds for who, precision, seconds in times if who == "dualgap"}
                for who, precision, seconds in times:
                    if who != "dualgap":
                        shown = f"{seconds:.4f} | {seconds / own[precision]:.2f}" if np.isfinite(seconds) else "not reached | –"
                        print(f"| {name} | {loss} | {C} | {precision:g} | {own[precision]:.4f} | {who} | {shown} |", flush=True)


def kernel(folder: Path | None, rows: int) -> None:
    """Print times on an rbf kernel with a free intercept: dualgap's, libsvm's and scikit-learn-intelex's."""
    X, y = next(load for name, load in problems(folder) if name == ("california" if folder else "generated 200k × 50"))()
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    X, y = X[chosen], y[chosen]
    gamma = 1.0 / X.shape[1]
    for C in (1.0, 10.0):
        problem = dualgap.Problem(
            X, y, "epsilon_insensitive", l2=1.0 / (C * rows), epsilon=0.1, kernel="rbf", gamma=gamma, intercept="free"
        )
        dualgap.solve(dualgap.Problem(X[:600], y[:600], "epsilon_insensitive", l2=1e-2, kernel="rbf", intercept="free"), tol=1e-1)
        seconds, found = timed(lambda problem=problem: dualgap.solve(problem.replace(), tol=1e-3), 1)
        theirs, model = timed(lambda C=C: SVR(C=C, epsilon=0.1, gamma=gamma, tol=1e-3, cache_size=1000).fit(X, y), 1)
        a = np.zeros(rows)
        a[model.support_] = model.dual_coef_[0]
        excess = problem.objective(a, float(model.intercept_[0])) / found.certificate.dual - 1.0
        their = intelex(X, y, C, gamma)
        print(
            f"rbf {rows} rows, C = {C:g}: dualgap {seconds:.2f} s to {found.certificate.relative_gap:.1e} ({found.status}), "
            f"libsvm {theirs:.2f} s to {excess:.1e}, ratio {theirs / seconds:.1f}"
            + ("" if their is None else f"; scikit-learn-intelex {their:.2f} s, ratio {their / seconds:.1f}"),
            flush=True,
        )


INTELEX = """
import sys, time
import numpy as np
from sklearnex.svm import SVR
data = np.load(sys.argv[1])
SVR().fit(data["X"][:500], data["y"][:500])
began = time.process_time()
SVR(C=float(sys.argv[2]), epsilon=0.1, gamma=float(sys.argv[3]), tol=1e-3, cache_size=1000).fit(data["X"], data["y"])
print(time.process_time() - began)
"""


def intelex(X: np.ndarray, y: np.ndarray, C: float, gamma: float) -> float | None:
    """Return the processor seconds of scikit-learn-intelex's SVR, in a process of its own; None where it is not installed."""
    if importlib.util.find_spec("sklearnex") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=X, y=y)
        command = [sys.executable, "-c", INTELEX, str(path), str(C), str(gamma)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main(arguments: list[str]) -> None:
    """Run one of the two tables."""
    warnings.simplefilter("ignore")
    kind, *rest = arguments or ["linear"]
    folder = Path(rest[0]) if rest and Path(rest[0]).is_dir() else None
    rest = rest[1:] if folder is not None else rest
    if kind == "kernel":
        kernel(folder, int(rest[0]) if rest else 10_000)
    else:
        linear(folder, rest)


if __name__ == "__main__":
    main(sys.argv[1:])
