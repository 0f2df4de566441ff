"""What results are called and how a reader sees them: names of columns, settings and numbers in words, and how a run ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dualgap.lab.results import Group

__all__ = ["LOG", "NAMES", "counted", "ended", "named", "plain", "shown_number"]

NAMES = {
    "epoch": "epochs",
    "passes": "passes over the data",
    "cpu_seconds": "CPU seconds (updates only)",
    "wall_seconds": "wall seconds (updates only)",
    "primal": "objective",
    "dual": "lower bound",
    "bound": "optimum, by the best bound",
    "gap": "duality gap",
    "relative_gap": "relative duality gap",
    "best_gap": "relative duality gap, best so far",
    "suboptimality": "above the best bound, relative",
    "train_error": "training error",
    "test_error": "test error",
    "accuracy_test": "test accuracy",
    "accuracy_train": "training accuracy",
    "test_balanced_accuracy": "balanced test accuracy",
    "support_vectors": "support vectors (β > 0)",
    "nonzeros": "non-zero coefficients",
    "batch_size": "batch size",
    "delta": "δ",
    "l2": "l2",
    "accuracy": "test accuracy",
    "balanced_accuracy": "balanced accuracy",
    "pr_auc": "PR-AUC",
    "roc_auc": "ROC-AUC",
    "iteration": "iterations of the text",
    "rate": "learning rate",
    "sum_c": "c",
    "majority_accuracy": "accuracy of always the commoner class",
    "common_primal": "objective, by the common one",
    "best_primal": "objective, best so far",
    "best_relative_gap": "relative duality gap, best so far",
    "best_epoch": "epoch of the best so far",
    "best_test_error": "test error, best so far",
    "best_train_error": "training error, best so far",
    "error_off_line": "share of test rows off the nearest line",
    "error_off_parabola": "share of test rows off the parabola",
    "gradient_noise": "relative noise of a batch's subgradient",
    "white": "value of a white pixel",
    "ignore_test": "the source's test part ignored",
    "scale_rows": "rows scaled to length 1",
    "b_star": "b*",
    "b_star_train_error": "training error with b*",
}
PEAK = 0.005  # of an accuracy: nearer to its best is at its best
LOG = {"cpu_seconds", "gap", "relative_gap", "best_gap", "suboptimality", "l2", "batch_size", "rate"}


def named(column: str) -> str:
    """Return what an axis says for a column."""
    column, _, place = column.partition("@")
    if place:
        count = place.rstrip(":")
        unit = "iteration of the text" if place != count else "pass"
        return f"{named(column)} after {counted(float(count), unit)}"
    if column.startswith("gap:"):
        return f"CPU seconds to a relative gap of {plain(float(column.removeprefix('gap:')))}"
    if column.startswith("near:"):
        return f"CPU s to within {100 * float(column.removeprefix('near:')):g} % of the best bound"
    if column.startswith("peak:"):
        return f"epochs to within {PEAK} of the best {named(column.removeprefix('peak:'))}"
    if column.startswith("settles:"):
        return f"passes until {100 * float(column.removeprefix('settles:')):g} % of the objective's fall is done"
    return NAMES.get(column, column.replace("_", " "))


def counted(place: float, unit: str) -> str:
    """Return a number of passes, epochs or iterations in words."""
    head, of, rest = unit.partition(" of")
    plural = "" if place == 1 else "es" if head.endswith("s") else "s"
    return f"{place:g} {head}{plural}{of}{rest}"


def plain(value: float) -> str:
    """Return a setting in words: small numbers as powers of ten."""
    if value == 0 or abs(value) >= 0.01:
        return f"{value:g}"
    digits, power = f"{value:.5e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def shown_number(cell: Any) -> str:
    """Return a cell as a reader sees it: four digits, a dash where a level was not reached."""
    if cell is None:
        return ""
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    if not math.isfinite(cell):
        return "–"
    if cell == int(cell) and abs(cell) < 1e15:
        return f"{int(cell):,}"
    if abs(cell) < 1e-3 or abs(cell) >= 1e6:
        return f"{cell:.1e}".replace("e-0", "e-").replace("e+0", "e+")
    return f"{cell:,.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}"


def ended(group: Group, column: str) -> np.ndarray:
    """Return how each run ended: a column of the results, the last value of a trace, or a cost.

    "gap:1e-3" is CPU seconds to a certified gap, "near:1e-2" those to within a share of the best bound, "peak:accuracy_test" the text's
    iterations until that is first at its best, "settles:0.9" passes until as much of the objective's own fall is done, wherever it ends;
    "bound" is the best lower bound of any solver. "primal@100" is a column of the traces after 100 passes over the data, "primal@100:"
    after 100 iterations as the text counts them: at the end of the last epoch within that. It is NaN for a run that was not evaluated
    there; one that converged stays where it is.
    """
    column, _, place = column.partition("@")
    if place:
        unit = "iteration" if place.endswith(":") else "passes"
        places = group.places(float(place.rstrip(":")), unit)
        return np.array([np.nan if at is None else values[at] for values, at in zip(group.traces(column), places, strict=True)])
    if column.startswith("peak:"):
        pairs = zip(group.traces(column.removeprefix("peak:")), group.traces("iteration"), strict=True)
        return np.array([at[np.flatnonzero(values >= values.max() - PEAK)[0]] for values, at in pairs])
    if column.startswith("gap:"):
        return group.first("best_gap", float(column.removeprefix("gap:")))
    if column.startswith("near:"):
        return group.first("suboptimality", float(column.removeprefix("near:")))
    if column.startswith("settles:"):
        share = float(column.removeprefix("settles:"))
        pairs = zip(group.traces("primal"), group.traces("passes"), strict=True)
        return np.array([_settled(primal, passes, share) for primal, passes in pairs])
    if column == "bound":
        return np.array(group.bounds)
    if group.rows and column in group.rows[0] and group.rows[0][column] is not None:
        return group.values(column)
    return group.last(column)


def _settled(primal: np.ndarray, passes: np.ndarray, share: float) -> float:
    """Return the passes after which a share of the fall from the first value to the level of the last quarter is done."""
    end = float(np.median(primal[-max(len(primal) // 4, 1) :]))
    return float(passes[np.flatnonzero(primal <= primal[0] - share * (primal[0] - end))[0]])
