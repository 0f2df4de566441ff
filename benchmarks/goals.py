"""`python -m benchmarks.goals`: the goals of this package, and what the last run of each part of the benchmark found.

    make bench                    runs the parts, one after the other, and ends with this table
    python -m benchmarks.goals    reads what they left in benchmarks/outputs/

A ratio to a peer is the peer's time divided by ours: above 1, dualgap is faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.records import OUTPUTS, read_csv

__all__ = ["Goal", "goals", "main"]

LEAST = 1.2  # ratio to the best peer on every problem
MEAN = 3.0  # geometric mean of these ratios
TEXT_LEAST = 2.0  # ratio to the best peer on every problem of texts
TEXTS = ("news20", "news20 one group", "pros/cons", "rcv1", "text 500k × 1M")
CORES = 1.5  # time on one processor / time on two
SAME = 1.5  # time of SVC(kernel="linear") / time of LinearSVC; time with a free intercept / time without one
FIRST = 3.0  # processor seconds of a first fit with nothing compiled
THREADED = ("text 500k × 1M, hinge", "pictures 60k × 784, hinge", "one-vs-rest", "kernel")


class Goal(NamedTuple):
    """A goal, the part of the benchmark that measures it, and what that part found; None if it was not run."""

    text: str
    part: str
    found: str | None
    met: bool = False


def goals() -> Iterator[Goal]:
    """Yield every goal with what was found."""
    yield from _robust()
    yield from _linear()
    yield from _threads()
    yield from _kernels()
    yield from _small()
    yield _below("free intercept / none", "benchmarks.intercept", read_csv("intercept.csv") or [], SAME)
    yield from _first_fit()


def _robust() -> Iterator[Goal]:
    rows = [row for row in read_csv("robustness.csv") or () if row["penalty"] == "l2"]
    failed = sum(row["status"] != "converged" for row in rows)
    text = "0 of 1,000 problems end other than converged at 1e-6"
    yield Goal(text, "benchmarks.robustness", f"{failed} of {len(rows):,}" if rows else None, failed == 0 and len(rows) >= 1000)
    ratios = np.array([float(row["seconds"]) / min(float(row["best_seconds"]), float(row["seconds"])) for row in rows])
    slower = np.array([float(row["seconds"]) - float(row["best_seconds"]) > 5e-3 for row in rows], dtype=bool)
    near = 1.0 - np.mean((ratios > 1.5) & slower) if rows else 0.0
    text = "time of auto / best of its methods: at most 1.5 on 95 %, at most 3 on all"
    found = f"{near:.1%}, at most {np.where(slower, ratios, 1.0).max():.1f}" if rows else None
    yield Goal(text, "benchmarks.robustness", found, bool(rows) and near >= 0.95 and bool((ratios[slower] <= 3.0).all()))


def _linear() -> Iterator[Goal]:
    rows = read_csv("ratios.csv") or []
    for target in (1e-3, 1e-6):
        here = [row for row in rows if float(row["target"]) == target]
        for loss in ("hinge", "squared_hinge", "logistic"):
            of_loss = [row for row in here if row["loss"] == loss]
            yield _ratios_above(
                f"{loss.replace('_', ' ')} to {target:g}: ratio to the best peer", "benchmarks --quick", of_loss, LEAST
            )
        texts = [row for row in here if row["data"] in TEXTS and row["loss"] == "hinge"]
        yield _ratios_above(f"hinge on texts to {target:g}: ratio to the best peer", "benchmarks --quick", texts, TEXT_LEAST)
        finite = _finite(here)
        mean = float(np.exp(np.mean(np.log(finite)))) if finite else np.nan
        text = f"all losses to {target:g}: geometric mean of the ratios ≥ {MEAN:g}"
        yield Goal(text, "benchmarks --quick", f"{mean:.2f} over {len(finite)} problems" if finite else None, mean >= MEAN)


def _threads() -> Iterator[Goal]:
    rows = [row for row in read_csv("threads.csv") or () if row["work"].startswith(THREADED)]
    yield _ratios_above("two processors: ratio to one", "benchmarks.threads", rows, CORES, "work")


def _kernels() -> Iterator[Goal]:
    rows = read_csv("kernel_variants.csv") or []
    linear, intercept = ([row for row in rows if row["part"] == part] for part in ("linear", "intercept"))
    yield _below('SVC(kernel="linear") / LinearSVC', "benchmarks.kernel_variants", linear, SAME)
    yield _below("SVC without an intercept / with one", "benchmarks.kernel_variants", intercept, 1.0)
    path = OUTPUTS / "kernel.json"
    fits = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    yield _ratios_above("rbf kernels: ratio to scikit-learn-intelex", "benchmarks.kernel", list(_to_intelex(fits)), 1.0)


def _to_intelex(fits: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield the ratio of the time of scikit-learn-intelex for each problem and target, by the dual objective."""
    seconds = {(fit["data"], fit["C"], fit["target"], fit["peer"]): fit["seconds"] for fit in fits if fit["measure"] == "dual"}
    for (data, C, target, peer), ours in seconds.items():
        if peer == "dualgap" and (data, C, target, "intelex") in seconds:
            ratio = seconds[data, C, target, "intelex"] / ours
            yield {"data": f"{data}, C = {C:g}, {target:g}", "ratio": str(ratio)}


def _small() -> Iterator[Goal]:
    yield _ratios_above("small problems: ratio to scikit-learn", "benchmarks.small", read_csv("small.csv") or [], 1.0, "problem")


def _first_fit() -> Iterator[Goal]:
    rows = read_csv("first_fit.csv") or []
    worst = max(rows, key=lambda row: float(row["cold"]), default=None)
    found = None if worst is None else f"{float(worst['cold']):.1f} s ({worst['fit']})"
    text = f"first fit with nothing compiled, at most {FIRST:g} processor seconds"
    yield Goal(text, "benchmarks.first_fit", found, worst is not None and float(worst["cold"]) <= FIRST)


def _finite(rows: Iterable[dict[str, str]]) -> list[float]:
    return [ratio for ratio in (float(row["ratio"]) for row in rows) if np.isfinite(ratio)]


def _ratios_above(text: str, part: str, rows: list[dict[str, str]], least: float, name: str = "data") -> Goal:
    """Return the goal that no ratio is below a number: the least, how many are below, and where the least is."""
    known = [row for row in rows if not np.isnan(float(row["ratio"]))]
    failed = len(rows) - len(known)  # problems that dualgap did not solve
    worst = min(known, key=lambda row: float(row["ratio"]), default=None)
    below = sum(float(row["ratio"]) < least for row in known) + failed
    found = None if worst is None else f"least {float(worst['ratio']):.2f} ({_where(worst, name)}); {below} of {len(rows)} below"
    return Goal(f"{text} ≥ {least:g}", part, found, worst is not None and below == 0)


def _below(text: str, part: str, rows: list[dict[str, str]], most: float) -> Goal:
    """Return the goal that no ratio is above a number."""
    worst = max(rows, key=lambda row: float(row["ratio"]), default=None)
    above = sum(float(row["ratio"]) > most for row in rows)
    found = None if worst is None else f"most {float(worst['ratio']):.2f} ({worst['problem']}); {above} of {len(rows)} above"
    return Goal(f"{text} ≤ {most:g}", part, found, worst is not None and above == 0)


def _where(row: dict[str, str], name: str) -> str:
    return ", ".join(row[key] for key in (name, "loss", "l2") if key in row)


def main() -> None:
    """Print the table."""
    print("| goal | found | |\n| --- | --- | --- |")
    for goal in goals():
        verdict = "not run" if goal.found is None else "met" if goal.met else "missed"
        print(f"| {goal.text} | {goal.found or f'python -m {goal.part}'} | {verdict} |")


if __name__ == "__main__":
    main()
