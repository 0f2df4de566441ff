"""Fits of a millisecond, in which the cost beyond the arithmetic shows: dualgap beside scikit-learn, each with its own defaults.

    python -m benchmarks.small [repeats]                  # all of it
    python -m benchmarks.small [repeats] linear           # linear models of one fit each
    python -m benchmarks.small [repeats] collections      # many small problems: pairs of classes, grid searches, paths

Prints, for each problem, the medians of the milliseconds of warm fits by turns, and their ratio (above 1, dualgap is faster). Beside the
hinge and the squared hinge stands scikit-learn's LinearSVC, beside the logistic loss its LogisticRegression. dualgap's intercept is free,
as LogisticRegression's is; LinearSVC penalises its own. The milliseconds are of processor time, so that a busy machine changes them less;
OPENBLAS_NUM_THREADS=1 keeps the BLAS from waiting with its threads.

The collections are `SVC` on digits (45 pairs of classes), iris, wine and 200 × 5, grid searches over C with `LinearSVC` and with `SVC`, and
`LinearSVCPath` beside scikit-learn's LinearSVC at each C.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

import dualgap
from benchmarks.records import write_csv

__all__ = ["main"]

LOSSES = ("hinge", "squared_hinge", "log_loss")
SHAPES = ((10, 5), (30, 4), (100, 10), (200, 20), (500, 30))
SETS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield generated problems of two and three classes, and small data sets of scikit-learn; standardised."""
    for n, d in SHAPES:
        for classes in (2, 3):
            X, y = make_classification(
                n, d, n_informative=min(d - 1, 4), n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=0
            )
            yield f"{n} × {d}, {classes} classes", scale(X), y
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        yield f"{name} {X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes", scale(X), y


def scikit_learn(loss: str) -> Any:
    """Return scikit-learn's classifier with a loss, its other parameters at their defaults."""
    if loss == "log_loss":
        return sklearn.linear_model.LogisticRegression()
    return sklearn.svm.LinearSVC(loss=loss, random_state=0)


def milliseconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the processor time of one fit."""
    began = time.process_time()
    model.fit(X, y)
    return 1e3 * (time.process_time() - began)


class OneByOne:
    """scikit-learn's LinearSVC at each C, one fit after the other: what stands beside a path."""

    def __init__(self, Cs: Sequence[float]) -> None:
        self.Cs = Cs

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneByOne:
        self.models = [sklearn.svm.LinearSVC(C=C, random_state=0).fit(X, y) for C in self.Cs]
        return self


def collections() -> Iterator[tuple[str, Any, Any, np.ndarray, np.ndarray]]:
    """Yield a name, dualgap's and scikit-learn's estimator, and the data, for many small problems at once."""
    X, y = load_digits(return_X_y=True)
    for C in (1.0, 100.0):
        yield f"digits, 45 pairs, C = {C:g}", dualgap.SVC(C=C, random_state=0), sklearn.svm.SVC(C=C), X, y
    Cs = np.logspace(-2, 2, 9)
    sets = {"200 × 5": make_classification(200, 5, n_informative=4, n_redundant=0, random_state=0)}
    sets |= {name: load(return_X_y=True) for name, load in SETS.items()}
    for name, (rows, y) in sets.items():
        X = scale(rows)
        yield f"SVC, {name}", dualgap.SVC(random_state=0), sklearn.svm.SVC(), X, y
        for kind, ours, theirs in (
            ("LinearSVC", dualgap.LinearSVC(random_state=0), sklearn.svm.LinearSVC(random_state=0)),
            ("SVC", dualgap.SVC(random_state=0), sklearn.svm.SVC()),
        ):
            searches = [GridSearchCV(model, {"C": Cs}) for model in (ours, theirs)]
            yield f"GridSearchCV over {kind}, {name}", *searches, X, y
        yield f"LinearSVCPath of 9 C, {name}", dualgap.LinearSVCPath(Cs=Cs, l1_ratios=0.0), OneByOne(Cs), X, y


def linear_models() -> Iterator[tuple[str, Any, Any, np.ndarray, np.ndarray]]:
    """Yield the same for linear models of one fit each."""
    for name, X, y in problems():
        for loss in LOSSES:
            yield f"{name}, {loss}", dualgap.LinearSVC(loss=loss, random_state=0), scikit_learn(loss), X, y


def main(repeats: int = 40, which: str = "linear,collections") -> None:
    """Print the table; of collections, which take up to a hundred times as long, a fifth of the repeats."""
    print(f"{'problem':48s} {'dualgap, ms':>12s} {'scikit-learn, ms':>17s} {'ratio':>7s}")
    records: list[dict[str, Any]] = []
    parts = {"linear": (linear_models, repeats), "collections": (collections, max(repeats // 5, 3))}
    for part in which.split(","):
        make, times = parts[part]
        for name, *models, X, y in make():
            records.append({"problem": name, "ratio": compare(name, models, X, y, times)})
        write_csv("small.csv", records)
    ratios = [record["ratio"] for record in records]
    print(f"geometric mean of {len(ratios)} ratios: {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")


def compare(name: str, models: list[Any], X: np.ndarray, y: np.ndarray, repeats: int) -> float:
    """Print the medians of both models' fits by turns; return their ratio."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LinearSVC's default budget does not do for the hinge
        for model in models:
            model.fit(X, y)  # loads or compiles the kernels
        times = np.array([[milliseconds(model, X, y) for model in models] for _ in range(repeats)])
    ours, theirs = np.median(times, axis=0)
    print(f"{name:48s} {ours:12.2f} {theirs:17.2f} {theirs / ours:7.2f}", flush=True)
    return float(theirs / ours)


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))
