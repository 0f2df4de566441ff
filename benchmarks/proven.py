"""How much a gap proves: labels, support vectors and features, compared with solves to a relative gap of 1e-12.

python -m benchmarks.proven --random 2000        # random problems of every kind: nothing proven may be wrong
python -m benchmarks.proven                      # real data: shares proven at gaps of 1e-3, 1e-4 and 1e-6, and how many are wrong

Wrong is what contradicts the precise solve: a label, a row or a feature that both settle, in different ways. The labels are those of the
training rows. Dense data are standardised, texts have rows of length one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import dualgap
from benchmarks.radius import sets
from dualgap.answers import bounds_of_margins, feature_status, row_status
from dualgap.proof import ball_of
from dualgap.run import minimise

__all__ = ["Outcome", "main", "random_outcome", "real_outcomes"]

LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")
KINDS = ("linear", "linear", "linear", "kernel", "kernel", "ovr", "pairs", "joint")
L2 = 1e-4
PRECISE = 1e-12
GOOD_ENOUGH = 1e-10  # relative gap of a precise solve of a random problem; those that float64 does not bring there are left out
TOLERANCES = (1e-3, 1e-4, 1e-6)
NAMES = ("breast-cancer", "spambase", "a9a", "w8a", "news20-binary", "creditcard")


class Outcome(NamedTuple):
    """What one comparison found: how many labels, rows and features there are, are proven, and are proven wrongly."""

    all: Counter[str]
    proven: Counter[str]
    wrong: Counter[str]


def _compared(what: str, found: np.ndarray, precise: np.ndarray, unknown: Any = "open") -> Outcome:
    """Compare two arrays of answers, in which `unknown` is none."""
    settled = found != unknown
    wrong = settled & (precise != unknown) & (found != precise)
    return Outcome(
        Counter({what: len(found)}), Counter({what: int(settled.sum())}), Counter({what: int(wrong.sum())} if wrong.any() else {})
    )


def _joined(outcomes: list[Outcome]) -> Outcome:
    empty: list[Counter[str]] = [Counter(), Counter(), Counter()]
    for outcome in outcomes:
        for total, part in zip(empty, outcome, strict=True):
            total.update(part)
    return Outcome(*empty)


# --------------------------------------------------------------------------------------------------------------- two classes


def settled(problem: dualgap.Problem, model: tuple[np.ndarray, float, np.ndarray], X: Any) -> dict[str, np.ndarray]:
    """Return what a model and a dual point settle: signs of the scores of rows X, dual variables of training rows, features."""
    ball = ball_of(problem, *model)
    low, high = ball.bounds(X)
    found = {"labels": np.where(low > 0.0, 1, np.where(high <= 0.0, -1, 0))}
    found["rows"] = row_status(problem.loss, *bounds_of_margins(problem.y, *ball.training_bounds()))
    if problem.kernel is None:
        found["features"] = feature_status(problem, *model)
    return found


def compare(problem: dualgap.Problem, rough: Any, precise: dict[str, np.ndarray], X: Any) -> Outcome:
    """Compare what a rough solution settles with what a precise one does."""
    found = settled(problem, rough, X)
    return _joined([_compared(what, found[what], precise[what], 0 if what == "labels" else "open") for what in found])


def _two_classes(rng: np.random.Generator, kernel: bool) -> Outcome | None:
    n, d = int(rng.integers(10, 120)), int(rng.integers(1, 12))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1.5, 1.5, d) + 5.0 * rng.normal(size=d) * (rng.random() < 0.3)
    X[rng.random(n) < 0.05] = 0.0
    y = np.where(X @ rng.normal(size=d) / np.abs(X).max() + rng.normal(size=n) * rng.choice([0.05, 0.5]) > 0, 1, 0)
    y[:2] = (0, 1)
    weights = rng.exponential(size=n) if rng.random() < 0.3 else None
    l2, loss = 10.0 ** rng.uniform(-5, 0.5), str(rng.choice(LOSSES))
    options: dict[str, Any] = {"sample_weight": weights, "intercept": str(rng.choice(["none", "penalised", "free"]))}
    if kernel:
        options["kernel"] = str(rng.choice(["rbf", "poly", "linear"]))
        options |= (
            {} if options["kernel"] == "linear" else {"gamma": float(10.0 ** rng.uniform(-2, 1) / max((X * X).mean() * d, 1e-9))}
        )
        options |= {"degree": 2, "coef0": 1.0} if options["kernel"] == "poly" else {}
    else:
        options["l1"] = float(rng.choice([0.0, 0.1, 1.0]) * l2)
    data = sparse.csr_matrix(X) if rng.random() < 0.3 else X.astype(np.float32) if rng.random() < 0.2 else X
    problem = dualgap.Problem(data, y, loss, l2=l2, **options)
    exact = minimise(problem, "auto", PRECISE, 3000)
    if exact.certificate.relative_gap > GOOD_ENOUGH:
        return None
    new = np.vstack([X, rng.normal(size=(20, d)) * np.abs(X).max()]).astype(np.float32).astype(float)
    precise = settled(problem, (exact.coef, exact.intercept, exact.dual), new)
    outcomes = []
    for tol in 10.0 ** rng.uniform(-7, -0.5, 2):
        run = minimise(problem, "auto", float(tol), 3000, seed=int(rng.integers(100)))
        outcomes.append(compare(problem, (run.coef, run.intercept, run.dual), precise, new))
    share = 10.0 ** rng.uniform(-7, 0)  # a model and a dual point that belong together no more
    coef = exact.coef + share * rng.normal(size=problem.size) * np.abs(exact.coef).max()
    beta = np.clip(exact.dual + share * rng.normal(size=n), 0.0, problem.loss.upper_bound())
    b = exact.intercept + share * rng.normal() * (problem.intercept != "none")
    return _joined([*outcomes, compare(problem, (coef, b, beta), precise, new)])


# -------------------------------------------------------------------------------------------------------------- more classes


def _more_classes(rng: np.random.Generator, kind: str) -> Outcome | None:
    n, d, K = int(rng.integers(20, 100)), int(rng.integers(2, 8)), int(rng.integers(3, 6))
    y = np.r_[np.arange(K), rng.integers(K, size=n - K)]
    X = rng.normal(size=(K, d))[y] * rng.choice([0.5, 2.0]) + rng.normal(size=(n, d))
    new = np.vstack([X, 3.0 * rng.normal(size=(30, d))])
    C, seed = float(10.0 ** rng.uniform(-3, 1)), int(rng.integers(100))
    intercept: dict[str, Any] = {"fit_intercept": bool(rng.random() < 0.7)}
    if kind == "pairs":
        ties: dict[str, Any] = {"break_ties": bool(rng.random() < 0.5), "kernel": str(rng.choice(["rbf", "linear"]))}

        def make(tol: float) -> Any:
            return dualgap.SVC(C=C, tol=tol, max_iter=3000, random_state=seed, **intercept, **ties)
    else:
        intercept["intercept"] = str(rng.choice(["free", "penalised"]))
        more: dict[str, Any] = {
            "multi_class": "crammer_singer" if kind == "joint" else "ovr",
            "loss": str(rng.choice(["hinge", "squared_hinge"])),
        }

        def make(tol: float) -> Any:
            return dualgap.LinearSVC(C=C, tol=tol, max_iter=20_000, random_state=seed, **intercept, **more)

    def answers(tol: float) -> np.ndarray:
        labels, proven = make(tol).fit(X, y).predict_proven(new)
        return np.where(proven, labels, -1)

    precise = answers(1e-11)
    return _joined([_compared("labels", answers(float(tol)), precise, -1) for tol in 10.0 ** rng.uniform(-6, -0.5, 2)])


def random_outcome(seed: int) -> tuple[str, Outcome | None]:
    """Draw a problem, solve it precisely and roughly, and compare; None where float64 does not get near enough to the optimum."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in ("linear", "kernel"):
            return kind, _two_classes(rng, kind == "kernel")
        return kind, _more_classes(rng, kind)


# ------------------------------------------------------------------------------------------------------------------ real data


def real_outcomes(problem: dualgap.Problem, precise_tol: float = PRECISE) -> dict[float, tuple[float, Outcome]]:
    """Return, for each tolerance, the relative gap that a run ended with and what it settles; the last key is that of the precise run."""
    assert problem.X is not None
    exact = minimise(problem, "auto", precise_tol, 100_000, 1500.0)
    model = (exact.coef, exact.intercept, exact.dual)
    precise = settled(problem, model, problem.X)
    found = {precise_tol: (exact.certificate.relative_gap, compare(problem, model, precise, problem.X))}
    for tol in TOLERANCES:
        run = minimise(problem, "auto", tol, 100_000)
        found[tol] = run.certificate.relative_gap, compare(problem, (run.coef, run.intercept, run.dual), precise, problem.X)
    return found


def _print_real(name: str, problem: dualgap.Problem, precise_tol: float) -> None:
    found = real_outcomes(problem, precise_tol)
    for what in ("labels", "rows", "features"):
        total = found[precise_tol][1].all[what]
        if total:
            shares = " ".join(f"{100 * found[tol][1].proven[what] / total:6.2f}" for tol in TOLERANCES)
            wrong = sum(outcome.wrong[what] for _, outcome in found.values())
            known = 100 * found[precise_tol][1].proven[what] / total
            line = f"{name:16} {problem.intercept:9} {what:8} {shares}   wrong {wrong}"
            print(f"{line}   precise run: gap {found[precise_tol][0]:.0e}, {known:.2f} % settled", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.proven", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=0, help="number of random problems; 0: real data")
    parser.add_argument("--first", type=int, default=0, help="number of the first random problem")
    parser.add_argument("--data", default=",".join(NAMES), help="names of data sets, separated by commas")
    parser.add_argument("--rbf", type=int, default=0, help="Gaussian kernel with C = 1 on this many rows instead of a linear model")
    parser.add_argument("--precise", type=float, default=PRECISE, help="relative gap of the precise solve of real data")
    options = parser.parse_args()
    if options.random:
        kinds: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
        left_out, began = 0, time.perf_counter()
        for seed in range(options.first, options.first + options.random):
            kind, outcome = random_outcome(seed)
            left_out += outcome is None
            if outcome is not None:
                kinds[kind].append(outcome)
                if outcome.wrong:
                    print(f"problem {seed} ({kind}): wrong {dict(outcome.wrong)}", flush=True)
        for kind, outcomes in kinds.items():
            total = _joined(outcomes)
            print(f"{kind}: {len(outcomes)} problems, proven {dict(total.proven)} of {dict(total.all)}, wrong {dict(total.wrong)}")
        print(f"{left_out} left out: float64 did not reach {GOOD_ENOUGH:g}; {time.perf_counter() - began:.0f} s")
        return
    print(f"{'data':16} {'intercept':9} {'what':8} share proven (%) at " + " ".join(f"{tol:g}" for tol in TOLERANCES))
    for name in options.data.split(","):
        for _, X, y in sets(name):
            rows = np.sort(np.random.default_rng(0).permutation(len(y))[: options.rbf]) if options.rbf else np.arange(len(y))
            for intercept in ("none", "free"):
                if options.rbf:
                    problem = dualgap.Problem(X[rows], y[rows], l2=1.0 / len(rows), intercept=intercept, kernel="rbf")
                else:
                    problem = dualgap.Problem(X, y, l2=L2, intercept=intercept)
                _print_real(f"{name} rbf" if options.rbf else name, problem, options.precise)


if __name__ == "__main__":
    main()
