"""The distribution of times over all problems: performance profiles (Dolan and Moré 2002), and quantiles of the ratios to the best peer.

A problem is a data set with a loss, a penalty and a target. ρ(τ) of a solver is the share of all problems on which it took at most τ times
as long as the fastest one; a problem that it did not solve counts against it at every τ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["profiles", "write_profile"]

FACTORS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0)  # the τ of the table
LEAST = 1.2  # the ratio to the best peer that is wanted on every problem


def profiles(records: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return, for each solver, time / time of the fastest on each problem that some solver solved, ascending; infinite where it failed."""
    problems: dict[Any, dict[str, float]] = {}
    for record in records:
        key = record["data"], record["loss"], record["l2"], record["target"]
        problems.setdefault(key, {})[record["solver"]] = record["seconds"]
    solved = [times for times in problems.values() if np.isfinite(list(times.values())).any()]
    found = {}
    for solver in dict.fromkeys(record["solver"] for record in records):
        factors = [times.get(solver, np.nan) / np.nanmin(list(times.values())) for times in solved]
        found[solver] = np.sort(np.where(np.isfinite(factors), factors, np.inf))
    return found


def share_within(factors: np.ndarray, tau: float) -> float:
    """Return ρ(τ)."""
    return float(np.searchsorted(factors, tau, side="right")) / max(len(factors), 1)


def write_profile(folder: Path, records: list[dict[str, Any]], table: list[dict[str, Any]]) -> None:
    """Write profile.md and profile.png."""
    found = profiles(records)
    count = len(next(iter(found.values())))
    lines = [
        "# Distribution of times over all problems",
        "",
        f"{count} problems: data set, loss, penalty and target. A cell is the share of them on which the library took at most τ times as",
        "long as the fastest one (a performance profile, Dolan and Moré 2002). What a library did not reach, or does not support, counts",
        "against it.",
        "",
        "| library | " + " | ".join(f"τ = {tau:g}" for tau in FACTORS) + " |",
        "| --- " * (1 + len(FACTORS)) + "|",
    ]
    for solver, factors in sorted(found.items(), key=lambda item: -share_within(item[1], 2.0)):
        lines.append(f"| {solver} | " + " | ".join(f"{100 * share_within(factors, tau):.0f} %" for tau in FACTORS) + " |")
    lines += ["", *_ratio_lines(table), "", "![Performance profiles](profile.png)", ""]
    (folder / "profile.md").write_text("\n".join(lines), encoding="utf-8")
    _draw(found, folder / "profile.png")


def _ratio_lines(table: list[dict[str, Any]]) -> list[str]:
    """Return the quantiles of best peer / dualgap, a line for each loss and target, and the problems below LEAST."""
    lines = ["Ratio of the best peer's time to dualgap's, over the problems on which a peer arrived:", ""]
    lines += ["| loss | target | problems | least | 10 % | median | 90 % | geometric mean | no peer arrived |", "| --- " * 9 + "|"]
    for loss, target in dict.fromkeys((row["loss"], row["target"]) for row in table):
        here = [row["ratio"] for row in table if (row["loss"], row["target"]) == (loss, target)]
        ratios = np.array([ratio for ratio in here if np.isfinite(ratio)])
        cells = ["—"] * 5
        if len(ratios):
            numbers = [ratios.min(), *np.quantile(ratios, [0.1, 0.5, 0.9]), np.exp(np.log(ratios).mean())]
            cells = [f"{number:.2f}" for number in numbers]
        missing = sum(np.isposinf(ratio) for ratio in here)
        lines.append(f"| {loss.replace('_', ' ')} | {target:g} | {len(here)} | " + " | ".join(cells) + f" | {missing} |")
    behind = sorted((row for row in table if not row["ratio"] >= LEAST), key=lambda row: row["ratio"])
    lines += ["", f"Below {LEAST:g}:" if behind else f"No problem is below {LEAST:g}.", ""]
    for row in behind:
        against = f"{row['ratio']:.2f} × of {row['best peer']}" if np.isfinite(row["ratio"]) else "not reached by dualgap"
        lines.append(f"- {row['data']}, {row['loss'].replace('_', ' ')}, l2 = {row['l2']:.0e}, {row['target']:g}: {against}")
    return lines


def _draw(found: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.5, 4.2))
    axis.set_prop_cycle(color=[plt.get_cmap("tab20")(k) for k in (0, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18)])
    for solver, factors in found.items():
        finite = factors[np.isfinite(factors)]
        steps = np.concatenate([[1.0], finite, [max(100.0, finite.max(initial=1.0))]])
        heights = np.concatenate([[share_within(factors, 1.0)], np.arange(1, len(finite) + 1), [len(finite)]])
        heights[1:] /= len(factors)
        axis.step(steps, heights, where="post", label=solver, linewidth=2.4 if solver == "dualgap" else 1.2)
    axis.set_xscale("log")
    axis.set_xlim(1.0, 100.0)
    axis.set_ylim(0.0, 1.02)
    axis.set_xlabel("time / time of the fastest")
    axis.set_ylabel("share of the problems")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
