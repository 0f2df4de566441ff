"""Who was first: the time to a certified relative gap of 1e-2, 1e-4 and 1e-6, for each problem that was raced on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.lab.figures import named, plain
from dualgap.lab.results import Group, Results

__all__ = ["LEVELS", "Ranked", "Ranking", "rankings"]

LEVELS = (1e-2, 1e-4, 1e-6)


@dataclass(frozen=True)
class Ranked:
    """A solver in a ranking: median CPU seconds to each level (infinity: fewer than half of the runs got there)."""

    label: str
    solver: str
    times: tuple[float, ...]
    reached: tuple[int, ...]
    runs: int
    epochs: float
    cpu_seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    test_error: float
    status: str
    l2: float


@dataclass(frozen=True)
class Ranking:
    """The solvers on one problem, the first to the smallest gap first."""

    race: str
    data: str
    title: str
    rows: tuple[Ranked, ...]


def rankings(results: Results) -> list[Ranking]:
    """Return a ranking for each data set and setting of each race."""
    parts: dict[tuple[str, str, str], list[Group]] = {}
    for group in results.select():
        parts.setdefault((group.race, group.data, setting_name(group.settings)), []).append(group)
    many = len({race for race, _, _ in parts}) > 1
    found = []
    for (race, data, setting), groups in parts.items():
        title = " · ".join(filter(None, [results.study.race(race).title or race if many else "", results.data_name(data), setting]))
        rows = sorted((_ranked(results, group) for group in groups), key=_place)
        found.append(Ranking(race, data, title, tuple(rows)))
    return found


def setting_name(settings: dict[str, Any]) -> str:
    """Return a point of a grid in words."""
    return ", ".join(
        f"{named(name)} = {plain(value)}" if isinstance(value, int | float) else f"{name.replace('_', ' ')}: {value}"
        for name, value in settings.items()
    )


def _ranked(results: Results, group: Group) -> Ranked:
    costs = [group.first("best_gap", level) for level in LEVELS]
    statuses = [row["status"] for row in group.rows]
    return Ranked(
        label=results.label(group.solver),
        solver=group.solver.id,
        times=tuple(float(np.median(cost)) for cost in costs),
        reached=tuple(int(np.isfinite(cost).sum()) for cost in costs),
        runs=group.runs,
        status=max(set(statuses), key=statuses.count),
        **{
            name: float(np.median(group.values(name)))
            for name in ("epochs", "cpu_seconds", "primal", "dual", "gap", "relative_gap", "test_error", "l2")
        },
    )


def _place(row: Ranked) -> tuple[float, ...]:
    """Whoever reaches more levels comes first, then whoever is quicker to the hardest one reached, then the smaller gap."""
    return (-sum(np.isfinite(row.times)), *(t for t in reversed(row.times) if np.isfinite(t)), row.relative_gap)
