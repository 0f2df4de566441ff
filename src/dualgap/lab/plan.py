"""The plan of a study: its cells, which are single runs, each with its key and its seed. A cell's result depends on nothing else."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dualgap.lab.schema import StudyError, suggest
from dualgap.lab.study import PROBLEM_KEYS, DataSpec, Race, RunBudget, SolverSpec, Study
from dualgap.solvers import REGISTRY

__all__ = ["REFERENCE", "Cell", "cells_of", "data_fingerprint", "problem_name", "sources_fingerprint"]

PACKAGE = Path(__file__).resolve().parents[1]
# The numbers of a run do not depend on these parts of the package; stored results stay valid when they change.
NOT_COMPUTING = ("store", "cluster", "estimators", "lab", "app", "__main__.py", "__init__.py")


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
    keep_model: bool

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
        """A seed of its own: a hash of data, solver, parameters and run number. A longer budget continues the same run."""
        return int(_digest(self.computed())[:15], 16)

    @property
    def key(self) -> str:
        """The name that the result is stored under."""
        kept = {"budget": asdict(self.budget), "keep_model": self.keep_model, "sources": sources_fingerprint()}
        return _digest({**self.computed(), **kept})[:32]

    def describe(self) -> str:
        """Return a few words for a progress line."""
        settings = "".join(
            f" {name}={value:g}" if isinstance(value, float) else f" {name}={value}" for name, value in self.settings.items()
        )
        return f"{self.data.label or self.data.name or self.data.id} · {self.solver.label or self.solver.id}{settings} · run {self.run + 1}"


def cells_of(study: Study) -> list[Cell]:
    """Return every run of a study, race by race; data and problem change slowest, so that a worker can keep them."""
    cells: list[Cell] = []
    for race in study.races:
        before = len(cells)
        points = itertools.product(*race.grid.values())
        for data_id, values, solver_id in itertools.product(race.data, points, race.solvers):
            settings = dict(zip(race.grid, values, strict=True))
            spec = study.solver_spec(solver_id)
            problem, params = _resolve(study, race, spec, settings)
            cell = Cell(
                race=race.id,
                data=study.data_spec(data_id),
                solver=spec,
                settings=settings,
                problem=problem,
                params=params,
                budget=race.budget,
                run=0,
                base_seed=study.seed,
                keep_model=False,
            )
            # The model of the first run is enough to draw with, and keeps the store small.
            cells += [replace(cell, run=run, keep_model=race.keep_models and run == 0) for run in range(race.runs or study.runs)]
        if race.reference:
            cells += _references(cells[before:])
    return cells


REFERENCE = SolverSpec(id="reference", solver="auto", label="reference")
TO_THE_END = RunBudget(tol=1e-7, epochs=20_000, seconds=20.0, evaluate="geometric")


def _references(cells: list[Cell]) -> list[Cell]:
    """Return a run to a tiny gap for each problem among the cells."""
    problems = {problem_name(cell): cell for cell in reversed(cells)}
    return [
        replace(cell, solver=REFERENCE, params={}, budget=_within(cell.budget.seconds), run=0, keep_model=False)
        for cell in problems.values()
    ]


def _within(seconds: float | None) -> RunBudget:
    return TO_THE_END if seconds is None else replace(TO_THE_END, seconds=min(seconds, TO_THE_END.seconds or seconds))


def problem_name(cell: Cell) -> str:
    """Return the same text for two cells that minimise the same objective on the same rows."""
    return _digest([data_fingerprint(cell.data), cell.problem])


def _resolve(study: Study, race: Race, spec: SolverSpec, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return problem and solver parameters of a point of the grid; a solver's own problem settings win over the race's."""
    if spec.solver not in REGISTRY:
        raise StudyError(f"{study.name}: solver {spec.id!r}: there is no solver {spec.solver!r}; {suggest(spec.solver, REGISTRY)}")
    known = {f.name for f in fields(REGISTRY[spec.solver])}
    of_problem = {name: value for name, value in settings.items() if name in PROBLEM_KEYS}
    of_solver = {name: value for name, value in settings.items() if name not in PROBLEM_KEYS}
    params = {**spec.params, **of_solver}
    for name in params:
        if name not in known:
            raise StudyError(
                f"{study.name}: race {race.id!r}: {spec.solver} has no parameter {name!r}; {suggest(name, known)} "
                f"A problem has: {', '.join(PROBLEM_KEYS)}"
            )
    shared = {**race.problem, **of_problem}
    if "loss" in spec.problem:
        shared.pop("delta", None)  # it belongs to the race's loss
    if "sum_lambda" in spec.problem or "sum_c" in spec.problem:
        shared.pop("l2", None)  # the solver states it as sum_lambda or sum_c
    return {**shared, **spec.problem}, params


# -------------------------------------------------------------------------------------------------------------- fingerprints


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def data_fingerprint(spec: DataSpec) -> str:
    """Return a hash of what is loaded and how it is prepared; a user's file counts with its contents."""
    table = {name: value for name, value in asdict(spec).items() if name not in ("id", "label")}
    if spec.path:
        path = Path(spec.path)
        stat = path.stat() if path.exists() else None
        table["path"] = path.name
        table["contents"] = _file_digest(str(path), stat.st_mtime_ns, stat.st_size) if stat else "missing"
    return _digest(table)[:16]


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
        if relative.parts[0] not in NOT_COMPUTING:
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
