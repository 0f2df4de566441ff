"""The curves of a report's explorer: for each problem and solver, mean and band of every column that can be shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from dualgap.lab.figures import LOG, NAMES, floored, thinned
from dualgap.lab.interactive import numbers
from dualgap.lab.ranking import problems
from dualgap.lab.results import Group, Results

__all__ = ["curve_data"]

ACROSS = ("epoch", "passes", "cpu_seconds")
UP = ("relative_gap", "suboptimality", "primal", "train_error", "test_error", "support_vectors")
SHORT = {
    "epoch": "epochs",
    "passes": "passes",
    "cpu_seconds": "CPU time",
    "relative_gap": "gap",
    "suboptimality": "above the best bound",
    "primal": "objective",
    "train_error": "training error",
    "test_error": "test error",
    "support_vectors": "support vectors",
}


def curve_data(results: Results) -> dict[str, Any]:
    """Return what the page's script reads."""
    shown = []
    for (race, data, setting), groups in problems(results):
        title = " · ".join(filter(None, [data, setting, race]))
        shown.append({"title": title, "lines": [_line(results, group) for group in groups]})
    styles = {id: asdict(style) for id, style in results.styles.items()}
    columns = {
        "x": ACROSS,
        "y": UP,
        "names": {c: NAMES[c] for c in (*ACROSS, *UP)},
        "short": SHORT,
        "log": [c for c in UP if c in LOG],
    }
    return {**columns, "styles": styles, "problems": shown}


def _line(results: Results, group: Group) -> dict[str, Any]:
    up: dict[str, Any] = {}
    across: dict[str, Any] = {}
    for column in UP:
        if not group.has(column):
            continue
        curve = group.curve("epoch", column)
        kept = thinned(len(curve.mean), 110)
        mean, low, high = (floored(values[kept], column) for values in (curve.mean, curve.low, curve.high))
        up[column] = {"mean": numbers(mean)}
        if not np.array_equal(curve.low, curve.high):
            up[column] |= {"low": numbers(low), "high": numbers(high)}
    for column in ACROSS:
        curve = group.curve(column, "primal")
        across[column] = numbers(curve.x[thinned(len(curve.x), 110)])
    return {"solver": group.solver.id, "label": results.label(group.solver), "x": across, "y": up}
