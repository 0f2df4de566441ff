"""Forgetting rows: time beside a retraining, and the proven distance beside the true one.

python -m benchmarks.forget [--share 0.01] [--only creditcard]

A share of the rows, drawn at random, is forgotten in one call. Dense data are standardised. The preparation, made once a fit, is shown
apart. The retraining starts from nothing and ends at the same relative gap as the fit, 1e-4. The true distance is that from a fit to
1e-9. Processor seconds, the best of five.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.cases import load_case
from dualgap import Problem, Result
from dualgap.run import minimise

__all__ = ["main"]

NAMES = ("creditcard", "a9a", "news20")
REPEATS = 5


def measure(name: str, share: float) -> None:
    """Print the lines of a data set."""
    case = load_case(name)
    rows = np.random.default_rng(0).choice(len(case.y), int(share * len(case.y)), replace=False)
    for loss in ("hinge", "squared_hinge"):
        for l2 in (1e-2, 1e-4, 1.0 / len(case.y)):
            problem = Problem(case.X, case.y, loss, l2=l2, intercept="free")
            result = Result.of(minimise(problem, "auto", 1e-4, 10_000))
            first = result.forget(rows, np.inf)[1]
            seconds = retrain = np.inf
            for _ in range(REPEATS):
                began = time.process_time()
                after, receipt = result.forget(rows, np.inf)
                seconds = min(seconds, time.process_time() - began)
            for _ in range(2):
                began = time.process_time()
                minimise(after.problem, "auto", 1e-4, 10_000)
                retrain = min(retrain, time.process_time() - began)
            exact = minimise(after.problem, "auto", 1e-9, 10_000, warm_start=after)
            distance = float(np.linalg.norm(exact.coef - after.coef))
            shown = [
                f"{name}, {loss}, l2 = {l2:.2g}: {len(rows)} rows in {1e3 * seconds:.1f} ms",
                f"{100 * seconds / retrain:.2f} % of a retraining ({retrain:.3f} s)",
                f"preparation {first.preparation_seconds:.2f} s",
                f"relative gap {result.certificate.relative_gap:.1e} before and {receipt.certificate.relative_gap:.1e} after",
                f"distance at most {receipt.distance:.3g} and in truth {distance:.3g} (‖w‖ = {receipt.length:.3g})",
            ]
            print("; ".join(shown), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--only", choices=NAMES)
    options = parser.parse_args()
    for name in (options.only,) if options.only else NAMES:
        measure(name, options.share)


if __name__ == "__main__":
    main()
