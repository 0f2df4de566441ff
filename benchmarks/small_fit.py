"""The cost of a fit beyond its arithmetic: ten rows, five columns, dualgap against scikit-learn's LinearSVC.

    python benchmarks/small_fit.py [repeats]

Prints the median and the least of the milliseconds over many warm fits, in turn, so that both meet the same load.
"""

import sys
import time

import numpy as np
import sklearn.svm

import dualgap


def milliseconds(fit):
    began = time.perf_counter()
    fit()
    return 1e3 * (time.perf_counter() - began)


def main(repeats=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 5))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=10) > 0, 1, 0)
    print(f"{'10 × 5, one fit':48} {'median ms':>10} {'least ms':>10}")
    for loss in ("squared_hinge", "hinge", "log_loss"):
        models = {"dualgap.LinearSVC, free intercept": dualgap.LinearSVC(loss=loss, random_state=0)}
        models["dualgap.LinearSVC, penalised intercept"] = dualgap.LinearSVC(loss=loss, intercept="penalised", random_state=0)
        if loss != "log_loss":
            models["sklearn.svm.LinearSVC"] = sklearn.svm.LinearSVC(loss=loss, random_state=0)
        for model in models.values():
            model.fit(X, y)  # loads or compiles the kernels
        times = {name: [] for name in models}
        for _ in range(repeats):
            for name, model in models.items():
                times[name].append(milliseconds(lambda model=model: model.fit(X, y)))
        for name, values in times.items():
            print(f"{loss + ', ' + name:48} {np.median(values):10.2f} {np.min(values):10.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
