"""Accuracy against features against time of approximated kernels: `python -m benchmarks.approximation` writes a figure.

a9a, 15,000 rows to train on and its own test rows; RBF, γ = 0.05, C = 1. Nyström and random Fourier features into the linear solver,
beside the exact kernel machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import dualgap
from benchmarks import DATA
from benchmarks.kernel import a9a
from dualgap.answers.approximation import approximate

OUTPUTS = Path(__file__).parent / "outputs"
FEATURES = (25, 50, 100, 200, 400, 800)


def run(features: tuple[int, ...] = FEATURES, tol: float = 1e-3) -> list[dict[str, Any]]:
    """Train and test each; processor seconds are of the features and the training together."""
    from sklearn.datasets import load_svmlight_file

    X, y, gamma = a9a()
    test = load_svmlight_file(str(DATA / "a9a.t"), n_features=X.shape[1])

    def build() -> dualgap.Problem:
        return dualgap.Problem(X, y, l2=1.0 / len(y), kernel="rbf", gamma=gamma, intercept="free")

    for count in features[:3]:
        approximate(build(), features=count).solve(tol=0.5)  # compiles whatever solver suits
    dualgap.solve(build(), "working_set", tol=0.5)
    records = []

    def record(method: str, count: int, began: float, model: Any, gap: float) -> None:
        seconds = time.process_time() - began
        accuracy = float(np.mean(model.predict(test[0]) == test[1]))
        records.append({"method": method, "features": count, "seconds": seconds, "accuracy": accuracy, "gap": gap})
        print(
            f"{method:10} {count:6d} features  {seconds:6.2f} s  accuracy {accuracy:.4f}  kernel problem's gap {gap:.2g}",
            flush=True,
        )

    began = time.process_time()
    exact = dualgap.solve(build(), "working_set", tol=tol)
    record("exact", len(y), began, exact, exact.certificate.relative_gap)
    for method in ("nystroem", "fourier"):
        for count in features:
            began = time.process_time()
            found = approximate(build(), method, count)
            result = found.solve(tol=tol, max_epochs=2000)
            seconds = time.process_time() - began
            gap = found.certify(result).relative_gap
            record(method, count, time.process_time() - seconds, result, gap)
    return records


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """Draw accuracy over features, time over features, accuracy over time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    exact = next(r for r in records if r["method"] == "exact")
    names = {"nystroem": "Nyström", "fourier": "random Fourier"}
    fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for (method, name), marker in zip(names.items(), "os", strict=True):
        rows = [r for r in records if r["method"] == method]
        count, seconds, accuracy = (np.array([r[key] for r in rows]) for key in ("features", "seconds", "accuracy"))
        axes[0].semilogx(count, 100 * accuracy, marker=marker, label=name)
        axes[1].loglog(count, seconds, marker=marker, label=name)
        axes[2].semilogx(seconds, 100 * accuracy, marker=marker, label=name)
    axes[0].axhline(100 * exact["accuracy"], color="black", linestyle="--", label="exact kernel")
    axes[1].axhline(exact["seconds"], color="black", linestyle="--", label="exact kernel")
    axes[2].plot(exact["seconds"], 100 * exact["accuracy"], "k*", markersize=12, label="exact kernel")
    labels = (("features", "test accuracy (%)"), ("features", "processor seconds"), ("processor seconds", "test accuracy (%)"))
    for axis, (x, y) in zip(axes, labels, strict=True):
        axis.set(xlabel=x, ylabel=y)
        axis.grid(alpha=0.3)
        if x == "features":
            counts = sorted({r["features"] for r in records if r["method"] != "exact"})
            axis.set_xticks(counts, [str(count) for count in counts])
            axis.minorticks_off()
        axis.legend()
    fig.suptitle("a9a, 15,000 rows, RBF kernel: approximation by features, certified gap of 1e-3 of the approximated problem")
    fig.savefig(path, dpi=120)


if __name__ == "__main__":
    OUTPUTS.mkdir(exist_ok=True)
    figure(run(), OUTPUTS / "approximation.png")
    print(f"figure in {OUTPUTS / 'approximation.png'}")
