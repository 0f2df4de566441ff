"""Fits of a millisecond, in which the cost beyond the arithmetic shows: dualgap beside scikit-learn, each with its own defaults.

    python -m benchmarks.small [repeats]

Prints, for each problem, the medians of the milliseconds of warm fits by turns, and their ratio (above 1, dualgap is faster). Beside the
hinge and the squared hinge stands scikit-learn's LinearSVC, beside the logistic loss its LogisticRegression. dualgap's intercept is free,
as LogisticRegression's is; LinearSVC penalises its own.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.preprocessing import scale

import dualgap

__all__ = ["main"]

LOSSES = ("hinge", "squared_hinge", "log_loss")
SHAPES = ((10, 5), (30, 4), (100, 10), (200, 20), (500, 30))


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield generated problems of two and three classes, and small data sets of scikit-learn; standardised."""
    for n, d in SHAPES:
        for classes in (2, 3):
            X, y = make_classification(
                n, d, n_informative=min(d - 1, 4), n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=0
            )
            yield f"{n} × {d}, {classes} classes", scale(X), y
    for name, load in (("iris", load_iris), ("wine", load_wine), ("cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        yield f"{name} {X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes", scale(X), y


def scikit_learn(loss: str) -> Any:
    """Return scikit-learn's classifier with a loss, its other parameters at their defaults."""
    if loss == "log_loss":
        return sklearn.linear_model.LogisticRegression()
    return sklearn.svm.LinearSVC(loss=loss, random_state=0)


def milliseconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the time of one fit."""
    began = time.perf_counter()
    model.fit(X, y)
    return 1e3 * (time.perf_counter() - began)


def main(repeats: int = 100) -> None:
    """Print the table."""
    print(f"{'problem':34s} {'loss':14s} {'dualgap, ms':>12s} {'scikit-learn, ms':>17s} {'ratio':>7s}")
    ratios = []
    for name, X, y in problems():
        for loss in LOSSES:
            models = dualgap.LinearSVC(loss=loss, random_state=0), scikit_learn(loss)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # LinearSVC's default budget does not do for the hinge
                for model in models:
                    model.fit(X, y)  # loads or compiles the kernels
                times = np.array([[milliseconds(model, X, y) for model in models] for _ in range(repeats)])
            ours, theirs = np.median(times, axis=0)
            ratios.append(theirs / ours)
            print(f"{name:34s} {loss:14s} {ours:12.2f} {theirs:17.2f} {theirs / ours:7.2f}", flush=True)
    print(f"geometric mean of {len(ratios)} ratios: {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
