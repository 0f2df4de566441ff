"""Who was first: the time to a certified relative gap of 1e-2, 1e-4 and 1e-6, for each problem that was raced on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualgap.lab.figures import named, plain
from dualgap.lab.results import Group, Results

__all__ = ["LEVELS", "Ranked", "Ranking", "problems", "rankings"]

LEVELS = (1e-2, 1e-4, 1e-6)


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
    status: str


@dataclass(frozen=True)
class Ranking:
    """The solvers on one problem, the first to the smallest gap first."""

    title: str
    rows: tuple[Ranked, ...]


def rankings(results: Results) -> list[Ranking]:
    """Return a ranking for each data set and setting of each race."""
    found = []
    for names, groups in problems(results):
        rows = sorted((_ranked(results, group) for group in groups), key=_place)
        found.append(Ranking(" · ".join(filter(None, names)), tuple(rows)))
    return found


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


def _ranked(results: Results, group: Group) -> Ranked:
    columns = ("epochs", "cpu_seconds", "primal", "dual", "gap", "relative_gap", "test_error")
    statuses = [row["status"] for row in group.rows]
    return Ranked(
        label=results.label(group.solver),
        times=tuple(float(np.median(group.first("best_gap", level))) for level in LEVELS),
        status=max(set(statuses), key=statuses.count),
        **{name: float(np.median(group.values(name))) for name in columns},
    )


def _place(row: Ranked) -> tuple[float, ...]:
    """Whoever reaches more levels comes first, then whoever is quicker to the hardest one reached, then the smaller gap."""
    return (-sum(np.isfinite(row.times)), *(t for t in reversed(row.times) if np.isfinite(t)), row.relative_gap)
