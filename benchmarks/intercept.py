"""What an intercept costs: processor time of fits with a free, a penalised and no intercept, by turns.

    python -m benchmarks.intercept                                          # all sets, losses, penalties and tolerances
    python -m benchmarks.intercept --data w8a,news20 --losses hinge --repeats 5

Prints, for each problem, the median of the milliseconds of each intercept over as many seeds as repeats, conversion and certificate
included, the ratios to no intercept, and how the last run went: epochs, passes and changes of method. The three problems differ. The
optimum with an intercept may be far below the one without, and the same relative tolerance is then a harder target: the optima stand beside
the times. For the logistic loss the last number is the time of scikit-learn's LogisticRegression, whose intercept is free, at the loosest
tolerance that reaches the same suboptimality.

Set OPENBLAS_NUM_THREADS=1 and NUMBA_NUM_THREADS=1 to compare arithmetic alone: threads that wait for each other use processor time, too.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import dualgap
from benchmarks.cases import load_case
from benchmarks.records import write_csv
from dualgap import data

__all__ = ["main"]

INTERCEPTS = ("none", "penalised", "free")
LOSSES = ("hinge", "squared_hinge", "logistic")
TOLERANCES = (1e-3, 1e-6)
PENALTIES: dict[str, Callable[[int], float]] = {
    "1e-2": lambda n: 1e-2,
    "1e-4": lambda n: 1e-4,
    "1/n": lambda n: 1.0 / n,
    "0.1/n": lambda n: 0.1 / n,
}
FILES = (
    "spambase",
    "a9a",
    "w8a",
    "news20",
    "news20 one group",
    "pros/cons",
    "rcv1",
    "covtype 20k × 54",
    "campaign 41k × 62",
    "creditcard",
)
PEER_SETTINGS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
PEER_FEATURES = 2_000  # up to which newton-cholesky is the peer, and lbfgs beyond
GOAL = 1.5  # times the time without an intercept


def _rare_rows() -> tuple[Any, np.ndarray]:
    """Dense rows of which 2 % are positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 40))
    score = X @ rng.standard_normal(40) / math.sqrt(40.0) + 0.5 * rng.standard_normal(len(X))
    return X, np.where(score > np.quantile(score, 0.98), 1.0, -1.0)


def _rare_documents() -> tuple[Any, np.ndarray]:
    """Text-like rows of which about 7 % are positive."""
    found = data.text_like(20_000, 30_000, 60, seed=1)
    y = np.where(np.asarray(found.y) > 0, 1.0, -1.0)
    keep = np.flatnonzero((y < 0) | (np.random.default_rng(0).random(len(y)) < 0.08))
    return found.X[keep], y[keep]


RARE = {"rare rows 50k × 40": _rare_rows, "rare documents 11k × 30k": _rare_documents}


def load(name: str) -> tuple[Any, np.ndarray]:
    """Return a set of the linear benchmark, or a generated one with a rare class."""
    if name in RARE:
        return RARE[name]()
    case = load_case(name)
    return case.X, case.y


def fit(X: Any, y: np.ndarray, loss: str, l2: float, intercept: str, tol: float, seed: int = 0) -> tuple[float, Any]:
    """Return the milliseconds of a fit on the processor, and its result."""
    began = time.process_time()
    problem = dualgap.Problem(X, y, loss=loss, l2=l2, intercept=intercept)
    result = dualgap.solve(problem, "auto", tol=tol, max_epochs=5_000, max_seconds=60.0, seed=seed)
    return 1e3 * (time.process_time() - began), result


def course(result: Any) -> str:
    """Return how a run went: its methods with the epochs at which they took over, epochs, and passes over the rows."""
    first = dualgap.solvers.auto.choose(result.problem)[0].method.name
    changes = "".join(f" →{text.split('→ ')[1].split(':')[0]}@{epoch}" for epoch, text in result.trace.handovers)
    status = "" if result.status == "converged" else f" ({result.status})"
    return f"{first}{changes} {result.epochs} ep {result.trace['passes'][-1]:.0f} p{status}"


def peer(X: Any, y: np.ndarray, l2: float, best: float, tol: float) -> float:
    """Return the milliseconds of LogisticRegression with a free intercept at its loosest tolerance within `tol` of the optimum."""
    method = "newton-cholesky" if X.shape[1] <= PEER_FEATURES else "lbfgs"
    for setting in PEER_SETTINGS:
        model = LogisticRegression(C=1.0 / (l2 * len(y)), solver=method, tol=setting, max_iter=2_000)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        spent = 1e3 * (time.process_time() - began)
        scores = model.decision_function(X)
        primal = float(np.logaddexp(0.0, -y * scores).mean() + 0.5 * l2 * (model.coef_**2).sum())
        if primal <= (1.0 + tol) * best:
            return spent
    return math.nan


def compare(name: str, X: Any, y: np.ndarray, loss: str, penalty: str, tol: float, repeats: int) -> float:
    """Print the line of a problem and return the ratio of a free intercept to none."""
    l2 = PENALTIES[penalty](len(y))
    times, runs = [], {}
    for seed in range(repeats):
        row = []
        for intercept in INTERCEPTS:
            spent, runs[intercept] = fit(X, y, loss, l2, intercept, tol, seed)
            row.append(spent)
        times.append(row)
    none, penalised, free = np.median(times, axis=0)
    optima = "/".join(f"{runs[intercept].certificate.primal:.4g}" for intercept in INTERCEPTS)
    theirs = f" peer {peer(X, y, l2, runs['free'].certificate.dual, tol):.1f}" if loss == "logistic" else ""
    print(
        f"{name:25s} {loss:13s} {penalty:5s} {tol:.0e} {none:9.2f} {penalised:9.2f} {free:9.2f} {penalised / none:6.2f} "
        f"{free / none:6.2f}  {optima:28s} {'; '.join(course(runs[intercept]) for intercept in INTERCEPTS)}{theirs}",
        flush=True,
    )
    return float(free / none)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join((*FILES, *RARE)))
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--l2", default=",".join(PENALTIES))
    parser.add_argument("--tol", default=",".join(map(str, TOLERANCES)))
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore", dualgap.ConvergenceWarning)
    print(
        f"{'data':25s} {'loss':13s} {'l2':5s} {'tol':5s} {'none, ms':>9s} {'penal.':>9s} {'free':>9s} {'p/n':>6s} {'f/n':>6s}  "
        "optima: none/penalised/free   none; penalised; free"
    )
    ratios: list[dict[str, Any]] = []
    for name in given.data.split(","):
        try:
            X, y = load(name)
        except (data.MissingFile, FileNotFoundError) as error:
            print(f"{name}: left out: {error}")
            continue
        for loss in given.losses.split(","):
            for intercept in INTERCEPTS:
                fit(X, y, loss, 1e-2, intercept, 1e-3)  # loads or compiles the kernels
            for penalty in given.l2.split(","):
                for tol in map(float, given.tol.split(",")):
                    ratio = compare(name, X, y, loss, penalty, tol, given.repeats)
                    ratios.append({"problem": f"{name}, {loss}, {penalty}, {tol:g}", "ratio": ratio})
        write_csv("intercept.csv", ratios)
    found = np.array([row["ratio"] for row in ratios])
    print(
        f"free / none: geometric mean of {len(found)} ratios {np.exp(np.log(found).mean()):.2f}, largest {found.max():.2f}, "
        f"{np.count_nonzero(found > GOAL)} above {GOAL}"
    )


if __name__ == "__main__":
    main()
