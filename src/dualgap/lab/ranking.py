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
RARE = 0.2  # share of the rows: a class with fewer is rare, and its errors hardly show in the test error
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
    """The solvers on one problem, the first to the smallest gap first, with their runs; medians over the runs that all of them have."""

    title: str
    rows: tuple[Ranked, ...]
    groups: tuple[Group, ...] = ()
    data: str = ""
    runs: int = 0


def rankings(results: Results) -> list[Ranking]:
    """Return a ranking for each data set and setting of each race."""
    found = []
    for title, groups in problems(results):
        common = set.intersection(*({row["run"] for row in group.rows} for group in groups))
        if not common:
            continue
        ranked = sorted(((_ranked(results, group, common), group) for group in groups), key=lambda pair: _place(pair[0]))
        rows, groups_in_order = zip(*ranked, strict=True)
        found.append(Ranking(title, rows, groups_in_order, groups[0].data, len(common)))
    return found


def advice(results: Results, rankings: list[Ranking]) -> list[str]:
    """Return for each data set which solver to use on which problem, and why; and where no model beats the commoner class, that.

    Of the problems that were raced on a data set, the first is taken whose winner has the lowest error, up to its standard error: test
    error or, where one class has less than a fifth of the rows, the balanced one.
    """
    lines = []
    for data in dict.fromkeys(ranking.data for ranking in rankings):
        raced = [(row, group) for ranking in rankings if ranking.data == data for row, group in _winner(ranking)]
        if not raced:
            continue
        name, skewed = results.data_name(data), raced[0][0].majority_accuracy > 1.0 - RARE
        errors = [1.0 - row.balanced_accuracy if skewed else row.test_error for row, _ in raced]
        about = results.store.data()[data]
        rows = about["test_rows"] * (2.0 * min(about["test_positive"], 1.0 - about["test_positive"]) if skewed else 1.0)
        least = float(np.nanmin(errors))
        near = least + max(1.0, (least * (1.0 - least) * rows) ** 0.5) / max(rows, 1.0)
        first, group = next(pair for pair, error in zip(raced, errors, strict=True) if error <= near)
        lines.append(f"{name}: {_recommended(first, group, skewed, len(raced))}")
        if least >= (0.5 if skewed else 1.0 - first.majority_accuracy) - 1e-12:
            what = (
                "than always saying the commoner class, whose error is"
                if not skewed
                else "than chance: of always saying one class it is"
            )
            balance = ["class weights (balance)"] if skewed and results.study.data_spec(data).balance == "none" else []
            intercept = ["an intercept"] if all(each.problem.get("intercept", "none") == "none" for _, each in raced) else []
            helps = ", ".join([*intercept, *balance, "a kernel or other features"])
            worst = 0.5 if skewed else 1 - first.majority_accuracy
            lines.append(f"{name}: no model is better {what} {worst:.3g}. What may help: {helps}.")
    return lines


def _winner(ranking: Ranking) -> list[tuple[Ranked, Group]]:
    """Return the first of a ranking that no text prints wrongly, with its runs; nothing where there is none."""
    pairs = zip(ranking.rows, ranking.groups, strict=True)
    return [(row, group) for row, group in pairs if group.solver.solver not in algorithms() and np.isfinite(row.test_error)][:1]


def _recommended(first: Ranked, group: Group, skewed: bool, problems: int) -> str:
    """Return which solver to use on which problem, what it reached and how good its models are."""
    if not np.isfinite(first.times[0]) and first.relative_gap >= NOTHING_PROVEN:
        return (
            f"none of these in this budget. The smallest certified gap, of {first.label}, is {first.relative_gap:.2g}: how far the "
            "models are from the optimum is not known. Standardised features or more epochs may help."
        )
    problem = [f"on the {group.problem.get('loss', 'hinge').replace('_', ' ')}"]
    problem += [f"with the {group.problem['kernel']} kernel"] if group.problem.get("kernel") else []
    problem += [f"at {_setting_name(group.settings)}"] if group.settings else []
    reached = [(t, level) for t, level in zip(first.times, LEVELS, strict=True) if np.isfinite(t)]
    how = f"a certified relative gap of {plain(reached[-1][1])} in {reached[-1][0]:.2g} CPU s" if reached else ""
    how = how or f"the smallest certified gap, {first.relative_gap:.2g}, in {first.cpu_seconds:.2g} CPU s"
    good = f"balanced accuracy is {first.balanced_accuracy:.3g}" if skewed else f"test error is {first.test_error:.3g}"
    among = f", and none of the {problems} problems raced has a clearly better one" if problems > 1 else ""
    return f"use {first.label}, {' '.join(problem)}. It reaches {how}; its {good}{among}."


def problems(results: Results) -> list[tuple[str, list[Group]]]:
    """Return the groups of each problem, with its title: data, settings, and the race where there are several."""
    parts: dict[tuple[str, str, str], list[Group]] = {}
    for group in results.select():
        parts.setdefault((group.race, group.data, _setting_name(group.settings)), []).append(group)
    several = len({race for race, _, _ in parts}) > 1
    named_races = {race.id: (race.title or race.id) if several else "" for race in results.study.races}
    return [
        (" · ".join(filter(None, (results.data_name(data), setting, named_races[race]))), groups)
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
