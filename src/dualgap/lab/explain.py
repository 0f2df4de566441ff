"""How a number of a text can come about: a search over what the text leaves unsaid. No setting that it finds is used anywhere else.

An `[[explain]]` table of a study names the number and the knobs. `search` makes a study of every combination of them, `explained` a table
of how far each comes from the number.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import suggest, write_atomically
from dualgap.lab.columns import counted, ended, named, plain
from dualgap.lab.live import Display
from dualgap.lab.results import Results
from dualgap.lab.runner import Ran, run_study
from dualgap.lab.schema import StudyError
from dualgap.lab.study import DataSpec, Explain, Race, RunBudget, Study
from dualgap.lab.tables import TableData

__all__ = ["explain_number", "explained", "explanations", "search"]

MOST_ROWS = 12  # of a table of settings, the nearest ones
OF_DATA = tuple(f.name for f in fields(DataSpec))


def explain_number(
    study: Study, id: str, out: Path, jobs: int | None = None, display: Display | None = None
) -> tuple[TableData, Ran]:
    """Search for settings that give a number of a text; keep and return the table of what was found, and how the runs went.

    Parameters
    ----------
    study, id : the study, and the statement whose number it is
    out : the folder of the study's report; the runs go to `explain/` in it
    """
    entry = next((each for each in study.explain if each.id == id), None)
    if entry is None:
        raise StudyError(f"{study.name}: there is nothing to explain of {id!r}; {suggest(id, [e.id for e in study.explain])}")
    ran = run_study(search(study, entry), out / "explain" / id, jobs, display)
    if ran.missing:
        raise StudyError("; ".join(dict.fromkeys(ran.missing.values())))
    table = explained(ran.results, entry)
    kept = {"rows": table.rows, "columns": table.columns, "near": len(table.best), "title": table.title, "caption": table.caption}
    write_atomically(out / "results" / "explain" / f"{id}.json", json.dumps(kept, ensure_ascii=False))
    return table, ran


def explanations(results: Results) -> dict[str, TableData]:
    """Return what was found for the study's statements, by their ids."""
    return {
        id: TableData(
            f"explain-{id}",
            kept["title"],
            kept["caption"],
            tuple(kept["columns"]),
            tuple(map(tuple, kept["rows"])),
            frozenset((row, len(kept["columns"]) - 2) for row in range(kept["near"])),
        )
        for id, kept in results.store.explanations().items()
    }


def search(study: Study, entry: Explain) -> Study:
    """Return the study of every combination of the knobs."""
    data = [spec for spec, _ in _data(study, entry)]
    epochs = [float(e) for e in entry.knobs.get("epochs", (entry.epochs,))]
    budget = RunBudget(epochs=int(max(epochs)), evaluate=entry.evaluate, at_epochs=tuple(epochs))
    grid = {name: values for name, values in entry.knobs.items() if name != "epochs" and _of_data(name) is None}
    race = Race(
        "explain",
        data=tuple(spec.id for spec in data),
        solvers=tuple(entry.numbers),
        problem=entry.problem,
        grid=grid,
        budget=budget,
        reference=False,
    )
    settled = study.with_(name=f"{study.name} {entry.id}", runs=entry.runs, seconds=0.0, data=tuple(data), races=(race,))
    solvers = tuple(  # a knob is turned where a solver has a setting of its own, too
        replace(spec, by_data={}, iterations=1.0, problem={k: v for k, v in spec.problem.items() if k not in grid})
        for spec in study.solvers
    )
    return settled.with_(solvers=solvers, claims=(), figures=(), tables=(), corrections=(), explain=())


def _of_data(name: str) -> str | None:
    """Return which field or option of the data a knob is; None for one of a solver or of the problem."""
    return name.removeprefix("data.") if name.startswith("data.") else None


def _data(study: Study, entry: Explain) -> Iterator[tuple[DataSpec, dict[str, Any]]]:
    """Yield each preparation of the data, with its settings."""
    names = [name for name in entry.knobs if _of_data(name) is not None]
    for place, values in enumerate(itertools.product(*(entry.knobs[name] for name in names))):
        spec = replace(study.data_spec(entry.data), id=f"{entry.data}-{place}")
        for name, value in zip(names, values, strict=True):
            key = name.removeprefix("data.")
            change = {key: value} if key in OF_DATA else {"options": {**spec.options, key: value}}
            spec = replace(spec, **change)
        yield spec, dict(zip(names, values, strict=True))


def explained(results: Results, entry: Explain) -> TableData:
    """Return the settings with how far they come from the text's numbers, the nearest first; `best` marks those that give them."""
    race, rows = results.study.race("explain"), list[tuple[Any, ...]]()
    shown = [name for name, values in entry.knobs.items() if name != entry.best_of and len(values) > 1]
    found: list[Found] = []
    of_data = {spec.id: settings for spec, settings in _data(results.study.with_(data=_one(results.study, entry)), entry)}
    points = itertools.product(of_data, itertools.product(*race.grid.values()), race.budget.at_epochs)
    for data, values, epochs in points:
        settings = dict(zip(race.grid, values, strict=True))
        groups = [results.select("explain", data, [solver], settings) for solver in entry.numbers]
        if all(groups):
            column = entry.column if ":" in entry.column else f"{entry.column}@{epochs:g}:"
            every = {**of_data[data], **settings, "epochs": epochs}
            ends = [ended(group[0], column) for group in groups]
            apart = max(float(np.ptp(each)) if len(each) > 1 else np.nan for each in ends)
            found.append((every, [float(np.mean(each)) for each in ends], apart))
    for every, values, spread in _smallest(found, entry.best_of) if entry.best_of else found:
        off = max(abs(value - number) for value, number in zip(values, entry.numbers.values(), strict=True))
        if np.isfinite(off):
            rows.append((*(plain(every[k]) if isinstance(every[k], float) else str(every[k]) for k in shown), *values, off, spread))
    rows.sort(key=lambda row: row[-2])
    near = sum(row[-2] <= entry.within for row in rows)
    heads = [named(name.removeprefix("data.")) for name in shown]
    heads += [f"{results.label(solver)}, text {number:g}" for solver, number in entry.numbers.items()]
    told = f"{near} of {len(rows)} settings come within {entry.within:g} of each number" if rows else "No setting has run"
    title = f"How this number can come about: {', '.join(f'{number:g}' for number in dict.fromkeys(entry.numbers.values()))}"
    fixed = ", ".join(
        f"{named(name.removeprefix('data.'))}: {values[0]}" for name, values in entry.knobs.items() if len(values) == 1
    )
    throughout = f" Throughout {fixed}." if fixed else ""
    what = f"the {named(entry.best_of)} at which the {named(entry.column)} is smallest" if entry.best_of else named(entry.column)
    mean = f"mean of {counted(entry.runs, 'draw')}"
    means = f" {entry.means}" if entry.means else ""
    caption = f"{told}: {what}, {mean}.{throughout}{means} The study uses none of these settings."
    best = frozenset((row, len(heads)) for row in range(min(near, MOST_ROWS)))
    columns = (*heads, "furthest", "draws apart")
    return TableData(f"explain-{entry.id}", title, caption, columns, tuple(rows[:MOST_ROWS]), best)


Found = tuple[dict[str, Any], list[float], float]  # settings, the mean over draws for each solver, how far apart draws are at most


def _smallest(found: list[Found], knob: str) -> list[Found]:
    """Return, for each setting of the other knobs, the value of one knob at which each column is smallest."""
    parts: dict[str, list[tuple[Any, list[float]]]] = {}
    for every, values, _ in found:
        rest = {name: value for name, value in every.items() if name != knob}
        parts.setdefault(json.dumps(rest), []).append((every[knob], [v if np.isfinite(v) else np.inf for v in values]))
    return [
        (json.loads(rest), [min(tried, key=lambda one: one[1][i])[0] for i in range(len(tried[0][1]))], np.nan)
        for rest, tried in parts.items()
    ]


def _one(study: Study, entry: Explain) -> tuple[DataSpec, ...]:
    """Return the data set that the knobs prepare, from any of its preparations."""
    return (replace(next(spec for spec in study.data if spec.id == f"{entry.data}-0"), id=entry.data),)
