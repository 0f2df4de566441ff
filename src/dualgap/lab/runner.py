"""The runner: it executes the runs of a study that have no result yet, on all cores, and can be stopped at any time.

The environment (machine, versions, commit) is stored with the results.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.data import DataError
from dualgap.lab.live import Display
from dualgap.lab.plan import Cell, cells_of, data_fingerprint, planned
from dualgap.lab.prepare import open_prepared, share_prepared
from dualgap.lab.results import Results, ResultStore
from dualgap.lab.run_one import Outcome, described, execute
from dualgap.lab.study import DataSpec, Study
from dualgap.lab.workers import Killed, Scratch, run_in_workers
from dualgap.problem import Problem
from dualgap.run import minimise
from dualgap.solvers import REGISTRY

__all__ = ["Ran", "describe_environment", "measure_epoch_overhead", "run_study"]


PACKAGES = ("dualgap", "numpy", "scipy", "numba", "llvmlite", "scikit-learn", "polars", "joblib", "matplotlib")


def describe_environment(jobs: int) -> dict[str, Any]:
    """Return machine, operating system, versions, commit, and the number of runs at a time."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "jobs": jobs,
    }


def measure_epoch_overhead(epochs: int = 801, block: int = 50) -> tuple[float, float]:
    """Return the processor seconds that calls and clock take of an epoch, at least and at most: those of a problem with two rows.

    The least is the quickest epoch's, the most the largest mean of a block of epochs.
    """
    problem = Problem(np.array([[1.0], [-1.0]]), np.array([1, -1]), l2=1.0)
    result = minimise(problem, REGISTRY["pegasos"](), tol=0.0, max_epochs=epochs, evaluate="epoch")
    each = np.diff(result.trace["cpu_seconds"])
    return float(each.min()), float(each.reshape(-1, block).mean(axis=1).max())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """Return the commit of the checkout that this package runs from, marked where files differ from it; "" for an installed package."""
    package = Path(__file__).resolve().parents[1]
    try:
        run = ["git", "-C", str(package), "describe", "--always", "--dirty", "--abbrev=12", "--match=v*"]
        tracked = ["git", "-C", str(package), "ls-files", "--error-unmatch", "__init__.py"]
        subprocess.run(tracked, capture_output=True, check=True, timeout=10)
        return subprocess.run(run, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@dataclass
class Ran:
    """A study's results, and how the run of it went."""

    results: Results
    executed: int = 0
    found: int = 0
    failed: list[Outcome] = field(default_factory=list)
    unsupported: list[Outcome] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # data id -> what to fetch


def run_study(study: Study, out: str | Path, jobs: int | None = None, display: Display | None = None, command: str = "") -> Ran:
    """Run what has not been run yet, and return all results.

    Parameters
    ----------
    study : Study
    out : folder
        Results go to `results/` in it as each run ends. After a stop the same call runs what is missing.
    jobs : int, optional
        Worker processes, one run each at a time and one thread each; all cores by default. 1 runs in this process. A worker that is
        killed is replaced; a run whose workers are killed twice counts as failed.
    display : where to show progress; nothing is shown by default
    command : what the report says it was made with

    Examples
    --------
    >>> import tempfile
    >>> from dualgap.lab.study import parse_study
    >>> from dualgap.lab.runner import run_study
    >>> study = parse_study(
    ...     {
    ...         "name": "tiny",
    ...         "title": "Tiny",
    ...         "runs": 2,
    ...         "data": [{"id": "bc", "name": "breast-cancer"}],
    ...         "solvers": [{"id": "sdca", "solver": "sdca"}],
    ...         "races": [{"id": "r", "data": ["bc"], "solvers": ["sdca"], "problem": {"l2": 0.01}, "budget": {"epochs": 3}}],
    ...     }
    ... )
    >>> out = tempfile.mkdtemp()
    >>> run_study(study, out, jobs=1).executed, run_study(study, out, jobs=1).found  # two runs, and the reference
    (3, 3)
    """
    out = Path(out)
    jobs = jobs or os.cpu_count() or 1
    display = display or Display()
    store = ResultStore(out / "results")
    write_atomically(out / "study.json", study.to_json())
    store.add_plan(planned(study))
    store.add_command(command)
    shutil.rmtree(store.folder / "running", ignore_errors=True)
    cells = list({cell.key: cell for cell in cells_of(study)}.values())
    done = store.finished()
    todo = [cell for cell in cells if cell.key not in done]
    environment = _environment(store, jobs)
    ran = Ran(Results(study, store, {}), found=len(cells) - len(todo))
    with Scratch() as scratch, display:
        shared = Shared(todo, store, scratch, display)
        display.start(total=len(cells), found=ran.found, running=store.folder / "running")
        for outcome in _execute_all(shared, store, environment, jobs):
            ran.executed += 1
            display.ended(outcome)
            if outcome.status == "failed":
                ran.failed.append(outcome)
            elif outcome.status == "unsupported":
                ran.unsupported.append(outcome)
    ran.missing = shared.missing
    store.join()
    ran.results = Results.load(study, store)
    return ran


def _environment(store: ResultStore, jobs: int) -> str:
    """Keep the description of this machine, and what an epoch costs here apart from its updates; return the description's name."""
    store.add_epoch_overhead(*measure_epoch_overhead())
    return store.add_environment(describe_environment(jobs))


class Shared:
    """The data of the runs to do, each prepared when its first run starts and removed when its last has ended.

    Sets: `missing` has what could not be found, by the id of the data set.
    """

    def __init__(self, todo: list[Cell], store: ResultStore, scratch: Path, display: Display) -> None:
        # One draw of the data after the other: few of them are on the disk at a time, and a worker can keep its problem.
        order = {name: i for i, name in enumerate(dict.fromkeys(data_fingerprint(cell.data) for cell in todo))}
        self.todo = sorted(todo, key=lambda cell: order[data_fingerprint(cell.data)])
        self.left = Counter(data_fingerprint(cell.data) for cell in todo)
        self.store, self.scratch, self.display = store, scratch, display
        self.places: dict[str, Path] = {}
        self.told: set[str] = set()
        self.missing: dict[str, str] = {}

    def runs(self) -> Iterator[tuple[Cell, Path]]:
        """Yield each run with the place of its data; runs whose data are missing are left out."""
        for cell in self.todo:
            name = data_fingerprint(cell.data)
            if cell.data.id in self.missing:
                continue
            if name not in self.places and not self._prepare(cell.data, name):
                continue
            yield cell, self.places[name]

    def _prepare(self, spec: DataSpec, name: str) -> bool:
        called = spec.label or spec.name or spec.id
        if spec.id not in self.told:
            self.display.say(f"preparing {called}")
        try:
            self.places[name] = share_prepared(spec, self.scratch)
        except DataError as error:
            self.missing[spec.id] = str(error)
            self.display.warn(f"{called}: {error}")
            return False
        if spec.id not in self.told:
            self.told.add(spec.id)
            data = open_prepared(self.places[name])
            notes = [*data.notes, REDRAWN[spec.redraw]]
            self.store.add_data(spec.id, {"name": data.name, "notes": notes, "calibrated": spec.calibrated, **data.about})
            for note in notes:
                self.display.say(f"  {data.name}: {note}")
        return True

    def ended(self, cell: Cell) -> None:
        """Remove the data of a run that ended, if no other needs them."""
        name = data_fingerprint(cell.data)
        self.left[name] -= 1
        if not self.left[name]:
            shutil.rmtree(self.places[name], ignore_errors=True)


REDRAWN = {
    "none": "one draw for all runs: what varies from run to run is the solver's seed alone",
    "split": "the rows held out are drawn anew in each run; the numbers here are the first run's",
    "data": "data and split are drawn anew in each run; the numbers here are the first run's",
}


def _execute_all(shared: Shared, store: ResultStore, environment: str, jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        for cell, place in shared.runs():
            yield execute(cell, cell.key, place, store.folder, environment)
            shared.ended(cell)
        return
    cells: dict[str, Cell] = {}

    def tasks() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        for cell, place in shared.runs():
            cells[cell.key] = cell
            yield cell.key, execute, (cell, cell.key, place, store.folder, environment)

    for key, answer in run_in_workers(tasks(), jobs):
        cell = cells.pop(key)
        if isinstance(answer, Killed):
            store.add({**described(cell, key, environment), "status": "failed", "error": str(answer)})
            answer = Outcome(key, cell.describe(), "failed", str(answer))
        yield answer
        shared.ended(cell)
