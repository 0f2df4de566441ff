"""The plan of a study: its cells, which are single runs, each with its key and its seed. A cell's result depends on nothing else.

A run of a study writes its plan beside the results, so that a report can be made from them wherever the folder has gone: by the keys that
were stored, without the data and by any later version.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import ChainMap
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dualgap.core import suggest
from dualgap.data import files_of
from dualgap.lab.outside import LibLinear, LibSVM, SklearnSGD
from dualgap.lab.schema import StudyError
from dualgap.lab.studies import algorithms
from dualgap.lab.study import PROBLEM_KEYS, DataSpec, Race, RunBudget, SolverSpec, Study
from dualgap.solvers import REGISTRY, Solver

__all__ = [
    "LINEUP",
    "OUTSIDE",
    "PAPERS",
    "REFERENCE",
    "Cell",
    "Planned",
    "cells_of",
    "data_fingerprint",
    "named_places",
    "planned",
    "problem_name",
    "sources_fingerprint",
]


OUTSIDE: dict[str, type[Solver]] = {cls.name: cls for cls in (LibLinear, LibSVM, SklearnSGD)}
LINEUP: ChainMap[str, type[Solver]] = ChainMap(REGISTRY, OUTSIDE, algorithms())

# Where a method is from, as docs/references.md has it: what to call the paper, and its address. A report links to it.
PAPERS = {
    "apg": ("Beck and Teboulle 2009", "https://doi.org/10.1137/080716542"),
    "asdca": ("Shalev-Shwartz and Zhang 2013b", "https://arxiv.org/abs/1305.2581"),
    "dca": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "dual_coordinate": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "dual_gradient": ("Beck and Teboulle 2009", "https://doi.org/10.1137/080716542"),
    "liblinear": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "libsvm": ("Chang and Lin 2011", "https://doi.org/10.1145/1961189.1961199"),
    "pegasos": ("Shalev-Shwartz et al. 2011", "https://doi.org/10.1007/s10107-010-0420-4"),
    "saga": ("Defazio et al. 2014", "https://arxiv.org/abs/1407.0202"),
    "sdca": ("Shalev-Shwartz and Zhang 2013", "https://arxiv.org/abs/1209.1873"),
    "sgd": ("Bottou 2010", "https://doi.org/10.1007/978-3-7908-2604-3_16"),
    "sklearn_sgd": ("Bottou 2010", "https://doi.org/10.1007/978-3-7908-2604-3_16"),
    "svrg": ("Xiao and Zhang 2014", "https://doi.org/10.1137/140961791"),
    "working_set": ("Chang and Lin 2011", "https://doi.org/10.1145/1961189.1961199"),
}


PACKAGE = Path(__file__).resolve().parents[1]
# The numbers of a run do not depend on these parts of the package; stored results stay valid when they change.
NOT_COMPUTING = ("store", "cluster", "estimators", "lab", "app", "__main__.py", "__init__.py")
# Of the lab, these do.
COMPUTING = ("lab/prepare.py", "lab/run_one.py", "lab/outside.py", "lab/studies/")


@dataclass(frozen=True)
class Cell:
    """One run: data, solver with parameters, problem, budget, run number.

    Two races that ask for the same run share it: neither the race nor any label is part of the key.
    """

    race: str
    data: DataSpec
    solver: SolverSpec
    settings: dict[str, Any]
    problem: dict[str, Any]
    params: dict[str, Any]
    budget: RunBudget
    run: int
    base_seed: int
    keep_model: bool = False
    value_by: dict[str, Any] = field(default_factory=dict)
    watch: bool = False
    measures: tuple[str, ...] = ()

    def computed(self) -> dict[str, Any]:
        """Return all that the numbers of this run depend on, except the budget."""
        return {
            "data": data_fingerprint(self.data),
            "solver": self.solver.solver,
            "params": self.params,
            "problem": self.problem,
            "run": self.run,
            "base_seed": self.base_seed,
        }

    @property
    def seed(self) -> int:
        """A hash of data, solver and run number: all parameters of a solver share an order of the rows. A longer budget goes on."""
        alike = {name: value for name, value in self.computed().items() if name not in ("params", "problem")}
        return int(_digest(alike)[:15], 16)

    @property
    def key(self) -> str:
        """The name that the result is stored under."""
        kept = {"budget": asdict(self.budget), "keep_model": self.keep_model, "value_by": self.value_by, "watch": self.watch}
        kept["measures"] = self.measures
        return _digest({**self.computed(), **kept, "sources": sources_fingerprint()})[:32]

    def describe(self) -> str:
        """Return a few words for a progress line."""
        settings = "".join(
            f" {name}={value:g}" if isinstance(value, float) else f" {name}={value}" for name, value in self.settings.items()
        )
        loss = str(self.problem.get("loss", "")).replace("_", " ")
        parts = (self.data.label or self.data.name or self.data.id, loss, f"{self.solver.label or self.solver.id}{settings}")
        return " · ".join([*filter(None, parts), f"run {self.run + 1}"])


def cells_of(study: Study) -> list[Cell]:
    """Return every run of a study, race by race; data and problem change slowest, so that a worker can keep them."""
    cells: list[Cell] = []
    for race in study.races:
        before, named = len(cells), named_places(study, race.id)
        data, solvers = (ids + study.variants(race, ids) for ids in (race.data, race.solvers))
        places = {id: _evaluated_at(study.solver_spec(id), named, race.budget) for id in solvers}
        points = itertools.product(*race.grid.values())
        for data_id, values, solver_id in itertools.product(data, points, solvers):
            if "~" in data_id and "~" in solver_id:
                continue
            settings = dict(zip(race.grid, values, strict=True))
            spec = study.solver_spec(solver_id)
            problem, params = _resolve(study, race, spec, settings, data_id)
            cell = Cell(
                race=race.id,
                data=study.data_spec(data_id),
                solver=spec,
                settings=settings,
                problem=problem,
                params=params,
                budget=replace(race.budget, **places[solver_id]),
                run=0,
                base_seed=study.seed,
                value_by=race.value_by,
                measures=race.measures,
            )
            # The models of the first run are enough to draw with, and keep the store small.
            for run in range(race.runs or study.runs):
                first: dict[str, Any] = {"keep_model": race.keep_models and run == 0, "watch": race.watch and run == 0}
                cells.append(replace(cell, data=drawn(cell.data, study.seed, run), run=run, **first))
        if race.reference:
            cells += _references(cells[before:])
    return cells


def named_places(study: Study, race: str) -> set[tuple[float, str]]:
    """Return the places that statements, figures and tables of a race name, each with its unit: passes, or the text's iterations."""
    every = [each.options for part in (study.claims, study.figures, study.tables) for each in part]
    asking = [options for options in every if options.get("race") == race]
    found = {(float(o[key]), o.get("unit", "passes")) for o in asking for key in ("after", "early") if key in o}
    columns = re.findall(r"@([0-9.e+]+)(:?)", json.dumps(asking))
    return found | {(float(place), "iteration" if text else "passes") for place, text in columns}


def _evaluated_at(spec: SolverSpec, places: set[tuple[float, str]], budget: RunBudget) -> dict[str, Any]:
    """Return the places, those of a budget too, in its units: the last epoch within the number of iterations, and passes."""
    epochs = set(budget.at_epochs) | {
        float(math.floor(place / spec.iterations * (1 + 1e-9))) for place, unit in places if unit == "iteration"
    }
    return {"at_epochs": tuple(sorted(epochs)), "at_passes": tuple(sorted(p for p, unit in places if unit == "passes"))}


def drawn(spec: DataSpec, base_seed: int, run: int) -> DataSpec:
    """Return the data set as a run draws it: with seeds of the run's own, as its entry says."""
    if spec.redraw == "none":
        return spec
    seed = int(_digest([base_seed, run])[:7], 16)
    options = {**spec.options, "seed": seed} if spec.redraw == "data" else spec.options
    return replace(spec, split_seed=seed, options=options)


REFERENCE = SolverSpec(id="reference", solver="auto", label="reference")
TO_THE_END = RunBudget(tol=1e-6, epochs=20_000, seconds=20.0, evaluate="geometric")


def _references(cells: list[Cell]) -> list[Cell]:
    """Return a run to a tiny gap for each problem among the cells."""
    problems = {problem_name(cell): cell for cell in reversed(cells)}
    plain: dict[str, Any] = {"solver": REFERENCE, "params": {}, "keep_model": False, "value_by": {}, "watch": False, "measures": ()}
    return [replace(cell, budget=_within(cell.budget.seconds), run=0, **plain) for cell in problems.values()]


def _within(seconds: float | None) -> RunBudget:
    return TO_THE_END if seconds is None else replace(TO_THE_END, seconds=min(seconds, TO_THE_END.seconds or seconds))


def problem_name(cell: Cell) -> str:
    """Return the same text for two cells that minimise the same objective on the same rows."""
    return _digest([data_fingerprint(cell.data), cell.problem])


def _resolve(
    study: Study, race: Race, spec: SolverSpec, settings: dict[str, Any], data: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return problem and solver parameters of a point of the grid; a solver's own problem settings win over the race's."""
    if spec.solver not in LINEUP:
        raise StudyError(f"{study.name}: solver {spec.id!r}: there is no solver {spec.solver!r}; {suggest(spec.solver, LINEUP)}")
    known = {f.name for f in fields(LINEUP[spec.solver])}
    of_problem = {name: value for name, value in settings.items() if name in PROBLEM_KEYS}
    of_solver = {name: value for name, value in settings.items() if name not in PROBLEM_KEYS}
    params = {**spec.params, **spec.by_data.get(data.partition("~")[0], {}), **of_solver}
    for name in params:
        if name not in known:
            raise StudyError(
                f"{study.name}: race {race.id!r}: {spec.solver} has no parameter {name!r}; {suggest(name, known)} "
                f"A problem has: {', '.join(PROBLEM_KEYS)}"
            )
    shared = {**race.problem, **of_problem}
    if "loss" in spec.problem:
        shared.pop("delta", None)  # it belongs to the race's loss
    own = dict(spec.problem)
    if "sum_lambda" in own or "sum_c" in own:
        weight = shared.pop("l2", None)  # the solver states it as sum_lambda or sum_c
        # "l2": the same λ as the others, in the solver's own objective
        own = {name: weight if name in ("sum_lambda", "sum_c") and value == "l2" else value for name, value in own.items()}
    return {**shared, **own}, params


# ------------------------------------------------------------------------------------------------------------ the stored plan


@dataclass(frozen=True)
class Planned:
    """A run as results and reports know it: its key, what it belongs to, and the problem it minimises. It needs no data."""

    key: str
    race: str
    data: str
    solver: str  # the id in the study; "reference" for a run to a tiny gap
    settings: dict[str, Any]
    problem: dict[str, Any]
    params: dict[str, Any]
    run: int
    problem_name: str

    @property
    def is_reference(self) -> bool:
        """Whether the run only finds the optimum."""
        return self.solver == REFERENCE.id


def planned(study: Study) -> list[Planned]:
    """Return every run of a study as it is planned now."""
    return [
        Planned(
            cell.key,
            cell.race,
            cell.data.id,
            cell.solver.id,
            cell.settings,
            cell.problem,
            cell.params,
            cell.run,
            problem_name(cell),
        )
        for cell in cells_of(study)
    ]


# -------------------------------------------------------------------------------------------------------------- fingerprints


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def data_fingerprint(spec: DataSpec) -> str:
    """Return a hash of what is loaded and how it is prepared; a user's file counts with its contents."""
    table = {name: value for name, value in asdict(spec).items() if name not in ("id", "label", "calibrated")}
    if spec.path:
        path = Path(spec.path)
        table["path"] = path.name
        table["contents"] = _contents(path) if path.exists() else "missing"
    return _digest(table)[:16]


def _contents(path: Path) -> str:
    """Return a digest of a file, or of the tables in a folder."""
    found = [(each, each.stat()) for each in files_of([path])]
    digests = [_file_digest(str(each), stat.st_mtime_ns, stat.st_size) for each, stat in found]
    return digests[0] if path.is_file() else _digest(digests)


@lru_cache(maxsize=64)
def _file_digest(path: str, modified: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1)
def sources_fingerprint() -> str:
    """Return a hash of the sources that results depend on: results from before an edit of a solver are not reused."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] not in NOT_COMPUTING or relative.as_posix().startswith(COMPUTING):
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
