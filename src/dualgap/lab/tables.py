"""Tables of a study: plain columns and rows of text and numbers, for the page, for report.md and as CSV."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualgap.data import csv_text
from dualgap.lab.columns import ended, named, shown_number
from dualgap.lab.ranking import LEVELS, Ranking
from dualgap.lab.results import Group, Results
from dualgap.lab.schema import Kinds
from dualgap.lab.study import FigureSpec

__all__ = ["TABLES", "TableData", "escaped", "make_table", "ranking_table", "summary_table"]


@dataclass(frozen=True)
class TableData:
    """Columns and rows; a cell is text, a number, or None for nothing. `best` marks cells worth seeing: (row, column)."""

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    best: frozenset[tuple[int, int]] = field(default=frozenset())

    def to_csv(self) -> str:
        """Return the table as CSV text; text that a spreadsheet would take for a formula has an apostrophe before it."""
        return csv_text([self.columns, *self.rows])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        lines = ["| " + " | ".join(escaped(name) for name in self.columns) + " |", "|" + " --- |" * len(self.columns)]
        for i, row in enumerate(self.rows):
            cells = [escaped(shown_number(cell)) for cell in row]
            lines.append("| " + " | ".join(f"**{c}**" if (i, j) in self.best and c else c for j, c in enumerate(cells)) + " |")
        return "\n".join(lines)


def escaped(text: str) -> str:
    """Return text as Markdown shows it literally."""
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")


# A table is made by a function of the results and the table's options; it returns the heads of the columns and the rows.
TABLES = Kinds("table")


def make_table(results: Results, table: FigureSpec) -> TableData | None:
    """Return the contents of a table; None where the results that it needs are not there."""
    maker = TABLES.maker(table, results.study.name)
    columns, rows = maker(results, table.options)
    return TableData(table.id, table.title, table.caption, columns, tuple(rows)) if rows else None


@TABLES.register("measures", "race", "data", "solvers", "settings", "columns", "averaged", "baseline", "by")
def measures(results: Results, options: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """A row a solver, the mean over runs of some columns.

    averaged : solver id -> id of its twin with averaged output; the twin's accuracy gets a column of its own
    baseline : whether to add the model that always says the commoner class; by : a name of the grid that gets a column
    """
    columns, averaged = list(options.get("columns", ["accuracy"])), dict(options.get("averaged", {}))
    groups = results.select(options["race"], options.get("data"), options.get("solvers"), options.get("settings"))
    several = len({group.data for group in groups}) > 1
    by = options.get("by")
    rows: list[tuple[Any, ...]] = []
    for group in groups:
        if group.solver.id in averaged.values():
            continue
        row: list[Any] = [results.data_name(group.data)] if several else []
        row.append(results.label(group.solver))
        if by:
            row.append(group.setting(by))
        row += [mean_of(group, column) for column in columns]
        if averaged:
            twin = [g for g in groups if g.solver.id == averaged.get(group.solver.id) and g.data == group.data]
            row.append(mean_of(twin[0], "accuracy") if twin else None)
        rows.append(tuple(row))
    if options.get("baseline") and groups:
        rows += _baselines(results, groups, columns, several, bool(by), bool(averaged))
    heads = (["data"] if several else []) + ["solver"] + ([named(by)] if by else []) + [named(c) for c in columns]
    return tuple(heads + (["averaged accuracy"] if averaged else [])), rows


def _baselines(
    results: Results, groups: list[Group], columns: list[str], several: bool, by: bool, averaged: bool
) -> list[tuple[Any, ...]]:
    """Always the commoner class: its accuracy is that class's share, its balanced accuracy a half, its PR-AUC the share of positives."""
    rows = []
    for data in dict.fromkeys(group.data for group in groups):
        majority = next(float(group.values("majority_accuracy")[0]) for group in groups if group.data == data)
        positive = results.store.data().get(data, {}).get("test_positive")
        known = {"accuracy": majority, "test_error": 1.0 - majority, "balanced_accuracy": 0.5, "roc_auc": 0.5, "pr_auc": positive}
        known["recall"] = 0.0 if positive is not None and positive < 0.5 else 1.0
        row: list[Any] = [results.data_name(data)] if several else []
        row += ["always the commoner class", *([None] if by else []), *(known.get(column) for column in columns)]
        rows.append(tuple(row + ([None] if averaged else [])))
    return rows


def mean_of(group: Group, column: str) -> float:
    """Mean over runs of how they ended."""
    return float(np.mean(ended(group, column)))


@TABLES.register(
    "claimed",
    "race",
    "data",
    "solvers",
    "settings",
    "column",
    "claimed",
    "claimed_by_data",
    "seconds",
    "seconds_of",
    "by",
    "averaged",
    "claimed_averaged",
    "baseline",
)
def claimed(results: Results, options: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The text's table beside this study's numbers, cell by cell, with the factor here / text.

    claimed, seconds : solver id (or a value of `by`) -> the text's number; seconds_of : solver id -> the column of the seconds here;
    claimed_by_data : the same as claimed for each data set, with "all" for solvers that are not named; averaged, claimed_averaged : id of
    the twin with averaged output, and the text's number for it;
    baseline : the text's accuracy of the model that always says the commoner class
    """
    by, column, seconds = options.get("by"), options.get("column", "accuracy"), options.get("seconds", {})
    averaged = options.get("averaged", {})
    groups = results.select(options["race"], options.get("data"), options.get("solvers"), options.get("settings"))
    order = [spec.id for spec in results.study.data]
    groups.sort(key=lambda group: order.index(group.data))
    rows = []
    for group in groups:
        if group.solver.id in averaged.values():
            continue
        name = group.solver.id if not by else f"{group.setting(by):g}"
        row: list[Any] = [results.data_name(group.data), results.label(group.solver)]
        row += [group.setting(by)] if by else []
        row += _beside(_said(options, group.data, name), ended(group, column))
        if averaged:
            twin = [g for g in groups if g.solver.id == averaged.get(name) and g.data == group.data]
            said = options.get("claimed_averaged", {}).get(name)
            row += _beside(said, ended(twin[0], column)) if twin else [said, None, None, None]
        if seconds:
            took = float(np.mean(ended(group, options.get("seconds_of", {}).get(name, "cpu_seconds"))))
            row += [seconds.get(name), took, seconds[name] / took if name in seconds and took > 0 else None]
        rows.append(tuple(row))
    if options.get("baseline") and groups:
        found = _beside(float(options["baseline"]), groups[0].values("majority_accuracy"))
        row = [results.data_name(groups[0].data), "always the commoner class", *([None] if by else []), *found]
        rows.append(tuple(row + [None] * (len(rows[0]) - len(row))))
    heads = ["data", "solver", *([named(by)] if by else [])]
    heads += [f"{named(column)}, text", "here, mean", "here, s.d. over runs", "here / text"]
    heads += ["averaged, text", "averaged, here", "averaged, s.d.", "averaged, here / text"] if averaged else []
    return tuple(heads + (["seconds, text", "CPU seconds here", "times faster"] if seconds else [])), rows


def _said(options: dict[str, Any], data: str, name: str) -> float | None:
    """Return the text's number for a solver (or a setting) on a data set; None where it has none."""
    of_data = options.get("claimed_by_data", {}).get(data, {})
    found = options.get("claimed", {}).get(name, of_data.get(name, of_data.get("all")))
    return None if found is None else float(found)


def _beside(said: float | None, found: np.ndarray) -> list[Any]:
    """Return the text's number, the mean and the standard deviation over runs here, and the factor between."""
    mean = float(np.mean(found))
    deviation = float(np.std(found, ddof=1)) if len(found) > 1 else None
    if deviation is not None and deviation < 1e-12 * abs(mean):
        deviation = 0.0  # the same in every run, up to the rounding of the mean
    return [said, mean, deviation, mean / said if said else None]


# ------------------------------------------------------------------------------------------------------- tables of every report


def ranking_table(ranking: Ranking, place: int) -> TableData:
    """Return a ranking as a table; the quickest to each level is marked."""
    levels = [f"s to gap {level:.0e}".replace("e-0", "e-") for level in LEVELS]
    heads = ("solver", *levels, "epochs", "CPU s", "relative gap", "test error", "balanced accuracy", "recall", "ended")
    rows, best = [], set()
    for row in ranking.rows:
        measures = (row.relative_gap, row.test_error, row.balanced_accuracy, row.recall)
        rows.append((row.label, *row.times, row.epochs, row.cpu_seconds, *measures, row.status.replace("_", " ")))
    for j in range(len(LEVELS)):
        times = [row.times[j] for row in ranking.rows]
        if times and math.isfinite(min(times)):
            best.add((times.index(min(times)), j + 1))
    return TableData(f"ranking-{place + 1}", ranking.title, "", heads, tuple(rows), frozenset(best))


def summary_table(ranking: Ranking) -> TableData:
    """Return how each solver ended on a problem, as the terminal shows it."""
    heads = ("solver", "epochs", "CPU s", "primal", "dual", "gap", "test error", "ended")
    rows = [
        (r.label, r.epochs, r.cpu_seconds, r.primal, r.dual, r.gap, r.test_error, r.status.replace("_", " ")) for r in ranking.rows
    ]
    return TableData("summary", ranking.title, "", heads, tuple(rows))
