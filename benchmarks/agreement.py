"""Every estimator beside scikit-learn's, on real and generated data: `python -m benchmarks.agreement`. DUALGAP_DATA names a folder of more.

Both are trained on the same rows, at most `--rows` of a data set, drawn at random. Each line compares the objectives of the two models,
(theirs − ours) / |ours|, computed here by the same formula, which is scikit-learn's; gives the largest difference of their decision values
on the training rows, in units of the largest value; and the relative gap that dualgap proves. An objective of ours that is above theirs by
more than `--tol` is marked, and counted in the last line.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets as sets
import sklearn.svm
from scipy import sparse
from sklearn.preprocessing import scale

import dualgap
from benchmarks import DATA, kernel, regression
from benchmarks.nu import objective as nu_objective

__all__ = ["main"]

ESTIMATORS = (
    "LinearSVC hinge",
    "LinearSVC squared_hinge",
    "LinearSVR",
    "SVC",
    "SVR",
    "NuSVC 0.8",
    "NuSVC 0.5",
    "NuSVC 0.2",
    "NuSVR",
    "OneClassSVM",
)
PEER_TOL = 1e-5  # of scikit-learn's
LONGEST = 60.0  # seconds of a fit of dualgap


class Case(NamedTuple):
    """A data set: features and a target, labels ±1 for classification."""

    name: str
    X: np.ndarray
    y: np.ndarray


def dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def drawn(name: str, X: Any, y: Any, rows: int) -> Case:
    """Return at most `rows` rows, drawn at random, standardised without the columns that are constant."""
    y = np.asarray(y, dtype=np.float64)
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    X = dense(X[chosen])
    return Case(name, scale(X[:, X.std(axis=0) > 0.0]), y[chosen])


def _signs(mask: Any) -> np.ndarray:
    return np.where(mask, 1.0, -1.0)


def classifications(rows: int) -> Iterator[Case]:
    for name, load, positive in (
        ("breast_cancer", sets.load_breast_cancer, 1),
        ("iris", sets.load_iris, 2),
        ("wine", sets.load_wine, 0),
    ):
        X, y = load(return_X_y=True)
        yield drawn(name, X, _signs(y == positive), rows)
    X, y = sets.load_digits(return_X_y=True)
    yield drawn("digits, even", X, _signs(y % 2 == 0), rows)
    for name, make in (
        ("moons", lambda n: sets.make_moons(n, noise=0.3, random_state=0)),
        ("circles", lambda n: sets.make_circles(n, noise=0.1, factor=0.5, random_state=0)),
        ("generated", lambda n: sets.make_classification(n, 20, n_informative=8, flip_y=0.1, random_state=0)),
        ("gaussian quantiles", lambda n: sets.make_gaussian_quantiles(n_samples=n, n_features=5, n_classes=2, random_state=0)),
        ("hastie", lambda n: sets.make_hastie_10_2(n, random_state=0)),
    ):
        X, y = make(rows)
        yield drawn(name, X, _signs(y > 0), rows)
    for name, file in (("german", "german.numer"), ("heart", "heart_scale"), ("a9a", "a9a"), ("w8a", "w8a")):
        if (DATA / file).exists():
            X, y = sets.load_svmlight_file(str(DATA / file))
            yield drawn(name, X, _signs(y > 0), rows)
    if (DATA / "creditcard.csv.zip").exists():
        X, y, _ = kernel.creditcard()
        part = np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y <= 0)[: 4 * np.count_nonzero(y > 0)]])
        yield drawn("creditcard, 1 : 4", X[part], _signs(y[part] > 0), rows)


def regressions(rows: int) -> Iterator[Case]:
    def case(name: str, X: Any, y: Any) -> Case:
        return drawn(name, X, scale(np.asarray(y, dtype=float)), rows)

    yield case("diabetes", *sets.load_diabetes(return_X_y=True))
    X, Y = sets.load_linnerud(return_X_y=True)
    yield case("linnerud, weight", X, Y[:, 0])
    yield case("friedman 1", *sets.make_friedman1(rows, noise=1.0, random_state=0))
    yield case("friedman 2", *sets.make_friedman2(rows, noise=50.0, random_state=0))
    yield case("friedman 3", *sets.make_friedman3(rows, noise=0.1, random_state=0))
    yield case("generated", *sets.make_regression(rows, 20, noise=20.0, random_state=0))
    yield case("sparse uncorrelated", *sets.make_sparse_uncorrelated(rows, 10, random_state=0))
    yield case("swiss roll", *sets.make_swiss_roll(rows, noise=0.5, random_state=0))
    for name, load, column in (
        ("iris, petal width", sets.load_iris, 3),
        ("wine, alcohol", sets.load_wine, 0),
        ("breast_cancer, area", sets.load_breast_cancer, 3),
    ):
        X = load().data
        yield case(name, np.delete(X, column, axis=1), X[:, column])
    for file, target in (("california-housing.csv.gz", "median_house_value"), ("pollution.csv.gz", "pm2.5")):
        if (DATA / "tables" / file).exists():
            yield case(file.split(".")[0], *regression.table(DATA / "tables" / file, target))


# ------------------------------------------------------------------------------------------------------------------------ objectives


def linear_objective(loss: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Any, Case, np.ndarray], float]:
    """Return the function of ½(‖w‖² + b²) + C·Σ loss(y, f), which is LIBLINEAR's objective."""

    def value(model: Any, case: Case, f: np.ndarray) -> float:
        w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        return 0.5 * (float(w @ w) + b * b) + model.C * float(loss(case.y, f).sum())

    return value


def square_of(model: Any, f: np.ndarray) -> float:
    """Return ‖w‖² of a kernel machine from its decision values on the training rows."""
    return float(np.ravel(model.dual_coef_) @ (f - float(np.ravel(model.intercept_)[0]))[model.support_])


def svc_objective(model: Any, case: Case, f: np.ndarray) -> float:
    return 0.5 * square_of(model, f) + model.C * float(np.maximum(0.0, 1.0 - case.y * f).sum())


def svr_objective(model: Any, case: Case, f: np.ndarray) -> float:
    return 0.5 * square_of(model, f) + model.C * float(np.maximum(0.0, np.abs(f - case.y) - model.epsilon).sum())


def nu_svr_objective(model: Any, case: Case, f: np.ndarray) -> float:
    """Return ½‖w‖² + C(νnε + Σ max(0, |r| − ε)) at the ε that is best for the model."""
    r = np.sort(np.abs(f - case.y))
    values = model.nu * len(r) * r + np.array([np.maximum(0.0, r - e).sum() for e in r])
    return 0.5 * square_of(model, f) + model.C * float(min(values.min(), r.sum()))


class Task(NamedTuple):
    """An estimator: of ours with its own options, of scikit-learn's with theirs, the options of both, the objective."""

    name: str
    ours: dict[str, Any]
    theirs: dict[str, Any]
    both: dict[str, Any]
    objective: Callable[[Any, Case, np.ndarray], float]
    regression: bool = False


def task(name: str, case: Case) -> Task:
    """Return how to train and compare one estimator on a data set."""
    cached = {"cache_size": 500}
    liblinear = {"max_iter": 100_000, "random_state": 0}
    penalised = {"intercept": "penalised"}
    if name.startswith("LinearSVC"):
        loss = name.split()[1]
        power = 2 if loss.startswith("squared") else 1
        value = linear_objective(lambda y, f: np.maximum(0.0, 1.0 - y * f) ** power)
        return Task("LinearSVC", penalised, {**liblinear, "dual": True}, {"loss": loss, "C": 0.1}, value)
    if name == "LinearSVR":
        value = linear_objective(lambda y, f: np.maximum(0.0, np.abs(f - y) - 0.1))
        return Task(name, penalised, {**liblinear, "dual": True}, {"epsilon": 0.1, "C": 0.1}, value, True)
    if name == "SVC":
        return Task(name, {}, cached, {"C": 1.0}, svc_objective)
    if name == "SVR":
        return Task(name, {}, cached, {"C": 1.0, "epsilon": 0.1}, svr_objective, True)
    if name == "NuSVR":
        return Task(name, {}, cached, {"C": 1.0, "nu": 0.5}, nu_svr_objective, True)
    if name.startswith("NuSVC"):  # with ν / the largest feasible one
        nu = float(name.split()[1]) * 2.0 * min(float((case.y > 0).mean()), float((case.y < 0).mean()))
        return Task("NuSVC", {}, cached, {"nu": nu}, lambda model, case, f: nu_objective(model, case.X, case.y))
    return Task(name, {}, cached, {"nu": 0.1}, lambda model, case, f: nu_objective(model, case.X))


class Compared(NamedTuple):
    """(theirs − ours) / |ours| of the objectives, largest difference of decision values / largest value, proven relative gap."""

    objective: float
    decision: float
    gap: float
    status: str


def compare(name: str, case: Case, tol: float) -> Compared:
    found = task(name, case)
    pair = (
        getattr(dualgap, found.name)(tol=tol, random_state=0, max_time=LONGEST, **found.ours, **found.both),
        getattr(sklearn.svm, found.name)(tol=PEER_TOL, **found.theirs, **found.both),
    )
    values, decisions = [], []
    for model in pair:
        model.fit(case.X, case.y)
        f = np.ravel(model.predict(case.X) if found.regression else model.decision_function(case.X))
        decisions.append(f / len(f) if name == "OneClassSVM" else f)
        values.append(found.objective(model, case, f))
    ours, theirs = values
    distance = float(np.abs(decisions[0] - decisions[1]).max() / np.abs(decisions[0]).max())
    return Compared((theirs - ours) / abs(ours), distance, pair[0].certificate_.relative_gap, pair[0].status_)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.agreement", description="Every estimator beside scikit-learn's.")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--estimators", default=",".join(ESTIMATORS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    labelled, measured = list(classifications(options.rows)), list(regressions(options.rows))
    print("| estimator | data | rows | theirs − ours | decision values | proven gap | status |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    runs, above, unproven = 0, 0, 0
    worst: dict[str, list[float]] = {}
    for name in options.estimators.split(","):
        for case in measured if name.endswith("SVR") else labelled:
            c = compare(name, case, options.tol)
            higher = c.objective < -options.tol
            runs, above, unproven = runs + 1, above + higher, unproven + (c.gap > options.tol)
            worst.setdefault(name, []).append(c.decision)
            print(
                f"| {name} | {case.name} | {len(case.y)} | {c.objective:+.1e}{' above' if higher else ''} | {c.decision:.1e} "
                f"| {c.gap:.1e} | {c.status} |",
                flush=True,
            )
    print()
    print("| estimator | data sets | decision values differ by, median | at most |")
    print("| --- | --- | --- | --- |")
    for name, distances in worst.items():
        print(f"| {name} | {len(distances)} | {np.median(distances):.1e} | {max(distances):.1e} |")
    print(f"\n{runs} fits: {above} objectives above scikit-learn's by more than {options.tol:g}, {unproven} gaps above it")


if __name__ == "__main__":
    main()
