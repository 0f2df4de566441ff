"""What the page's script draws: the curves of every problem, packed. The script is templates/report.js."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from dualgap.lab.columns import LOG, NAMES
from dualgap.lab.figures import floored, thinned
from dualgap.lab.ranking import problems
from dualgap.lab.results import Group, Results

__all__ = ["curve_data", "packed_json"]

ACROSS = ("passes", "cpu_seconds", "epoch")
UP = ("relative_gap", "suboptimality", "primal", "dual", "train_error", "test_error", "support_vectors")
SHORT = {
    "epoch": "epochs",
    "passes": "passes",
    "cpu_seconds": "CPU time",
    "relative_gap": "gap",
    "suboptimality": "above the best bound",
    "primal": "objective P",
    "dual": "bound D",
    "train_error": "training error",
    "test_error": "test error",
    "support_vectors": "support vectors",
    "mean": "mean ± s.d.",
    "median": "median, quartiles",
}


def packed_json(value: Any) -> str:
    """Return a value as JSON packed by gzip in base64, as the page's script unpacks it. No character of it can end a <script> element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def numbers(values: np.ndarray) -> list[float | None]:
    """Return numbers with four digits, enough for a screen; null for those that cannot be drawn."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def curve_data(results: Results) -> dict[str, Any]:
    """Return what the script reads."""
    shown = []
    for title, groups in problems(results):
        shown.append({"title": title, "lines": [_explored(results, group) for group in groups]})
    styles = {id: asdict(style) for id, style in results.styles.items()}
    names = {c: NAMES[c] for c in (*ACROSS, *UP)}
    return {
        "x": ACROSS,
        "y": UP,
        "names": names,
        "middles": ("mean", "median"),
        "short": SHORT,
        "log": [c for c in UP if c in LOG],
        "styles": styles,
        "problems": shown,
    }


def _explored(results: Results, group: Group) -> dict[str, Any]:
    up: dict[str, Any] = {}
    kept = thinned(*(group.curve("epoch", column).middle for column in ("primal", "train_error", "test_error")))
    for column in filter(group.has, UP):
        for name, quantiles in (("mean", False), ("median", True)):
            curve = group.curve("epoch", column, quantiles)
            band = [floored(values[kept], column) for values in (curve.middle, curve.low, curve.high)]
            single = np.array_equal(curve.low, curve.high)
            up.setdefault(column, {})[name] = [numbers(values) for values in (band[:1] if single else band)]
    across = {column: numbers(group.curve(column, "primal").x[kept]) for column in ACROSS}
    return {"solver": group.solver.id, "label": results.label(group.solver), "x": across, "y": up}
