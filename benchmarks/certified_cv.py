"""The best C, proven, against scikit-learn's grid search: time, and whether brute force chooses the same C.

python -m benchmarks.certified_cv

Each data set gets `LinearSVCPathCV(certified=True)` and `GridSearchCV(LinearSVC())` with its default tolerance on the same nine values of C
and the same five folds: squared hinge, penalised intercept, one process. Times are processor seconds, after a first fit that compiles.
Brute force trains every fold to a relative gap of 1e-10. The data are those of the catalogue; what is missing is left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from benchmarks.radius import NAMES, sets
from dualgap import LinearSVCPathCV

__all__ = ["main"]

CS = np.geomspace(1e-3, 10.0, 9)
BRUTE = 1e-10


class Row(NamedTuple):
    """A line of the table."""

    name: str
    rows: int
    verdict: str
    C: float
    brute: str
    seconds: float
    peer_seconds: float
    peer_C: float


def measure(name: str, X: Any, y: np.ndarray, brute: bool) -> Row:
    """Fit both, and brute force."""
    cv = StratifiedKFold(5)
    common = {"l1_ratios": 0.0, "intercept": "penalised", "cv": cv, "random_state": 0, "max_iter": 20_000}
    few = np.concatenate([np.flatnonzero(y == sign)[:100] for sign in (-1, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LinearSVCPathCV(Cs=CS[:3], certified=True, **common).fit(X[few], y[few])  # compiles
        began = time.process_time()
        ours = LinearSVCPathCV(Cs=CS, certified=True, **common).fit(X, y)
        seconds = time.process_time() - began
        began = time.process_time()
        peer = GridSearchCV(LinearSVC(random_state=0), {"C": CS}, cv=cv).fit(X, y)
        peer_seconds = time.process_time() - began
        chosen = "not asked"
        if brute:
            precise = LinearSVCPathCV(Cs=CS, tol=BRUTE, **common).fit(X, y)
            means = np.round(precise.scores_.mean(axis=0)[0], 12)  # equal errors tie
            chosen = f"{CS[int(np.argmax(means))]:.4g}"
    words = "proven" if ours.proven_ and len(ours.winners_) == 1 else "proven tie" if ours.proven_ else "open"
    return Row(name, len(y), f"{words} ({len(ours.winners_)})", ours.C_, chosen, seconds, peer_seconds, peer.best_params_["C"])


def main() -> None:
    """Print a line for each data set."""
    parser = argparse.ArgumentParser(prog="benchmarks.certified_cv", description="The best C, proven, against a grid search.")
    parser.add_argument("--data", default=",".join(NAMES))
    parser.add_argument("--no-brute-force", action="store_true")
    options = parser.parse_args()
    print("| data | rows | outcome (C left) | C | brute force | GridSearchCV's C | seconds | GridSearchCV | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.data.split(","):
        for found, X, y in sets(name):
            row = measure(found, X, y, not options.no_brute_force)
            print(
                f"| {row.name} | {row.rows} | {row.verdict} | {row.C:.4g} | {row.brute} | {row.peer_C:.4g} | {row.seconds:.2f} "
                f"| {row.peer_seconds:.2f} | {row.seconds / row.peer_seconds:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
