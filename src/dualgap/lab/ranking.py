"""Who was first: the time to a certified relative gap of 1e-2, 1e-4 and 1e-6, for each problem that was raced on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.lab.columns import named, plain
from dualgap.lab.plan import LINEUP
from dualgap.lab.results import Group, Results
from dualgap.lab.studies import algorithms

__all__ = ["LEVELS", "Ranked", "Ranking", "advice", "problems", "rankings"]

LEVELS = (1e-2, 1e-4, 1e-6)
NOTHING_PROVEN = 0.5  # relative gap: the optimum may be half of the objective or less


@dataclass(frozen=True)
class Ranked:
    """A solver in a ranking: median CPU seconds to each level (infinity: fewer than half of the runs got there)."""

    label: str
    times: tuple[float, ...]
    epochs: float
    cpu_seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    test_error: float
    balanced_accuracy: float
    recall: float
    majority_accuracy: float
    status: str
    solver: str = ""


@dataclass(frozen=True)
class Ranking:
    """The solvers on one problem, the first to the smallest gap first; medians over the runs that all of them have."""

    title: str
    rows: tuple[Ranked, ...]
    data: str = ""
    runs: int = 0


def rankings(results: Results) -> list[Ranking]:
    """Return a ranking for each data set and setting of each race."""
    found = []
    for names, groups in problems(results):
        common = set.intersection(*({row["run"] for row in group.rows} for group in groups))
        if not common:
            continue
        rows = sorted((_ranked(results, group, common) for group in groups), key=_place)
        found.append(Ranking(" · ".join(filter(None, names)), tuple(rows), groups[0].data, len(common)))
    return found


def advice(results: Results, rankings: list[Ranking]) -> list[str]:
    """Return for each data set which solver to use, and why; and where no model is better than always the commoner class, that."""
    lines = []
    printed = {results.label(spec) for spec in results.study.solvers if spec.solver in algorithms()}
    for data in dict.fromkeys(ranking.data for ranking in rankings):
        ranking = next(r for r in rankings if r.data == data)
        rows = [row for row in ranking.rows if row.label not in printed]
        if not rows:
            continue
        first, name = rows[0], results.data_name(data)
        reached = [(t, level) for t, level in zip(first.times, LEVELS, strict=True) if np.isfinite(t)]
        how = f"a certified relative gap of {plain(reached[-1][1])} in {reached[-1][0]:.2g} CPU s" if reached else ""
        how = how or f"the smallest certified gap, {first.relative_gap:.2g}, in {first.cpu_seconds:.2g} CPU s"
        if reached or first.relative_gap < NOTHING_PROVEN:
            lines.append(f"{name}: use {first.label}. It reaches {how}; its test error is {first.test_error:.3g}.")
        else:
            lines.append(
                f"{name}: none of these in this budget. The smallest certified gap, of {first.label}, is {first.relative_gap:.2g}: "
                "how far the models are from the optimum is not known. Standardised features or more epochs may help."
            )
        best = min(row.test_error for row in rows)
        if best >= 1.0 - first.majority_accuracy - 1e-12:
            lines.append(
                f"{name}: no model is better than always saying the commoner class, whose error is {1 - first.majority_accuracy:.3g}. "
                "A free intercept, class weights (balance) or other features may help."
            )
    return lines


def problems(results: Results) -> list[tuple[tuple[str, str, str], list[Group]]]:
    """Return the groups of each problem, with the parts of a title: race ("" where there is only one), data, settings."""
    parts: dict[tuple[str, str, str], list[Group]] = {}
    for group in results.select():
        parts.setdefault((group.race, group.data, _setting_name(group.settings)), []).append(group)
    several = len({race for race, _, _ in parts}) > 1
    return [
        ((results.study.race(race).title or race if several else "", results.data_name(data), setting), groups)
        for (race, data, setting), groups in parts.items()
    ]


def _setting_name(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{named(name)} = {plain(value)}" if isinstance(value, int | float) else f"{name.replace('_', ' ')}: {value}"
        for name, value in settings.items()
    )


def _ranked(results: Results, group: Group, runs: set[int]) -> Ranked:
    columns = ["epochs", "cpu_seconds", "primal", "dual", "gap", "relative_gap"]
    columns += ["test_error", "balanced_accuracy", "recall", "majority_accuracy"]
    kept = [row["run"] in runs for row in group.rows]
    statuses = [row["status"] for row, keep in zip(group.rows, kept, strict=True) if keep]
    one_shot = getattr(LINEUP.get(group.rows[0]["solver"]), "one_shot", False)
    return Ranked(
        label=results.label(group.solver),
        times=tuple(float(np.median(group.first("best_gap", level)[kept])) for level in LEVELS),
        status="own tolerance" if one_shot else max(set(statuses), key=statuses.count),
        solver=group.solver.id,
        **{name: float(np.median(group.values(name)[kept])) for name in columns},
    )


def _place(row: Ranked) -> tuple[float, ...]:
    """Whoever reaches more levels comes first, then whoever is quicker to the hardest one reached, then the smaller gap."""
    return (-sum(np.isfinite(row.times)), *(t for t in reversed(row.times) if np.isfinite(t)), row.relative_gap)
