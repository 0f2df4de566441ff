"""One-class machines and ν-classifiers beside scikit-learn's and scikit-learn-intelex's: `python -m benchmarks.nu`.

Each case trains dualgap to a certified relative gap of `--tol` and the peers at their default tolerance, by turns, in processes of their
own: processor seconds of `fit`, the least of `--repeats`, and the peak memory that the fit added. scikit-learn-intelex, where it is
installed, has NuSVC and no one-class machine. The last columns compare the objectives, (theirs − ours) / |ours|, and give the gap that
dualgap proves of its own model.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from benchmarks import DATA

KERNEL_CASES = {
    "one class 10k, ν = 0.5": ("one", 10_000, 0.5),
    "one class 10k, ν = 0.1": ("one", 10_000, 0.1),
    "one class 10k, ν = 0.05": ("one", 10_000, 0.05),
    "one class 50k, ν = 0.05": ("one", 50_000, 0.05),
    "NuSVC 10k, ν = 0.5": ("two", 10_000, 0.5),
    "NuSVC 10k, ν = 0.3": ("two", 10_000, 0.3),
    "NuSVC 10k, ν = 0.2": ("two", 10_000, 0.2),
    "NuSVC 20k, ν = 0.3": ("two", 20_000, 0.3),
}
CASES = [*KERNEL_CASES, "linear creditcard, ν = 0.05", "linear creditcard, ν = 0.01"]


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds in 20 dimensions; the label is a noisy product of features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    X[:, :5] += np.where(rng.random(n) < 0.5, 2.0, -2.0)[:, None]
    return X, np.where(X[:, 0] * X[:, 1] + X[:, 6] + 0.5 * rng.normal(size=n) > 2.0, 1, -1)


def creditcard() -> np.ndarray:
    """The features of creditcard without its time, each scaled to [0, 1]: the origin is then outside of the rows."""
    import pandas as pd
    from sklearn.preprocessing import minmax_scale

    frame = pd.read_csv(DATA / "creditcard.csv.zip")
    return np.asarray(minmax_scale(frame.drop(columns=["Time", "Class"]).to_numpy(float)))


def task(case: str, side: str, tol: float) -> tuple[Any, tuple[Any, ...]]:
    """Return the estimator of a case, not fitted, and its data."""
    import sklearn.linear_model

    import dualgap

    ours = side == "dualgap"
    if case.startswith("linear"):
        options = {"nu": float(case.split("=")[1]), "random_state": 0}
        X = creditcard()
        return (
            dualgap.OneClassSVM(kernel="linear", tol=tol, **options) if ours else sklearn.linear_model.SGDOneClassSVM(**options)
        ), (X,)
    kind, n, nu = KERNEL_CASES[case]
    X, y = rows(n)
    name, data = ("OneClassSVM", (X,)) if kind == "one" else ("NuSVC", (X, y))
    if ours:
        return dualgap.OneClassSVM(nu=nu, tol=tol, random_state=0) if kind == "one" else dualgap.NuSVC(
            nu=nu, tol=tol, random_state=0
        ), data
    module = importlib.import_module("sklearnex.svm" if side == "intelex" else "sklearn.svm")
    return getattr(module, name)(nu=nu, cache_size=1000), data


def objective(model: Any, X: np.ndarray, y: np.ndarray | None = None) -> float:
    """Return P_ν of a fitted model, ½‖w‖² − νρ + mean of max(0, ρ − y(x·w + b)), at the threshold that is best for its w and b."""
    n, nu = len(X), model.nu
    if y is not None:
        f = model.decision_function(X)
        a, rho = model.dual_coef_.ravel(), nu * n / np.abs(model.dual_coef_).sum()
        square = float(a @ (f - model.intercept_)[model.support_])
        return 0.5 * square * (rho / n) ** 2 - nu * rho / n + rho / n * float(np.maximum(1.0 - y * f, 0.0).mean())
    scores, scale = model.score_samples(X), 1.0 / n
    if not hasattr(model, "dual_coef_"):
        square, scale = float(model.coef_.ravel() @ model.coef_.ravel()), nu
    else:
        square = float(model.dual_coef_.ravel() @ scores[model.support_])
    scores, square = scores * scale, square * scale**2
    rho = float(np.quantile(scores, nu))
    return 0.5 * square - nu * rho + float(np.maximum(rho - scores, 0.0).mean())


def measure(case: str, side: str, tol: float) -> dict[str, float]:
    """Fit once, after a fit of a few thousand rows that compiles; return what it took."""
    model, data = task(case, side, tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*(part[:5000] for part in data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, wall = time.process_time(), time.perf_counter()
    model.fit(*data)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    certificate = getattr(model, "certificate_", None)
    gap = certificate.relative_gap if certificate is not None else float("nan")
    return {"seconds": seconds, "wall": wall, "memory": memory, "objective": objective(model, *data), "gap": gap}


def sides(case: str) -> list[str]:
    """Return who trains a case: dualgap and its peers."""
    has = importlib.util.find_spec("sklearnex") is not None and case in KERNEL_CASES and KERNEL_CASES[case][0] == "two"
    return ["dualgap", "scikit-learn", *(["intelex"] if has else [])]


def run(case: str, tol: float, repeats: int) -> dict[str, dict[str, float]]:
    """Measure all sides by turns, each time in a process of its own; the least seconds count."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(repeats):
        for side in sides(case):
            command = [sys.executable, "-m", "benchmarks.nu", "--one", case, side, "--tol", str(tol)]
            record = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            if side not in found or record["seconds"] < found[side]["seconds"]:
                found[side] = record
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.nu", description="NuSVC and OneClassSVM beside scikit-learn's.")
    parser.add_argument("--cases", default=";".join(CASES), help="names of cases, separated by semicolons")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(*options.one, options.tol)))
        return
    print("| case | peer | dualgap s | peer s | ratio | dualgap MB | peer MB | theirs − ours | proven gap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in options.cases.split(";"):
        found = run(case, options.tol, options.repeats)
        ours = found.pop("dualgap")
        for peer, theirs in found.items():
            difference = (theirs["objective"] - ours["objective"]) / abs(ours["objective"])
            print(
                f"| {case} | {peer} | {ours['seconds']:.2f} | {theirs['seconds']:.2f} | {theirs['seconds'] / ours['seconds']:.1f} "
                f"| {ours['memory']:.0f} | {theirs['memory']:.0f} | {difference:+.1e} | {ours['gap']:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
