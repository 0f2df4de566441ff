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
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.data import DataError
from dualgap.lab.claims import judge
from dualgap.lab.claims.measures import LOOKS
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

__all__ = ["Ran", "describe_environment", "measure_epoch_overhead", "more_draws", "run_study"]


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
    store.add_command(command)
    shutil.rmtree(store.folder / "running", ignore_errors=True)
    environment = _environment(store, jobs)
    ran = Ran(Results(study, store, {}))
    more: Study | None = study
    with Scratch() as scratch, display:
        shared = Shared(store, scratch, display)
        while more is not None:
            _look(ran, more, out, shared, environment, jobs)
            more = more_draws(ran.results, study)
    ran.missing = shared.missing
    return ran


def _look(ran: Ran, study: Study, out: Path, shared: Shared, environment: str, jobs: int) -> None:
    """Run what a study lacks, and load all results."""
    store, display = shared.store, shared.display
    write_atomically(out / "study.json", study.to_json())
    store.add_plan(planned(study))
    cells = list({cell.key: cell for cell in cells_of(study)}.values())
    done = store.finished()
    shared.todo = [cell for cell in cells if cell.key not in done]
    found = len(cells) - len(shared.todo)
    ran.found = found - ran.executed
    display.start(total=len(cells), found=found, running=store.folder / "running")
    for outcome in _execute_all(shared, store, environment, jobs):
        ran.executed += 1
        display.ended(outcome)
        if outcome.status == "failed":
            ran.failed.append(outcome)
        elif outcome.status == "unsupported":
            ran.unsupported.append(outcome)
    store.join()
    ran.results = Results.load(study, store)


def more_draws(results: Results, first: Study) -> Study | None:
    """Return the study with twice the runs in the races about which something cannot be told, the cheapest first, within its seconds.

    None where more runs would decide nothing, the looks that `WRONG` allows for are used up, or there are no seconds left. `first` is the
    study before its first look: a race doubles its own first number of runs four times at the most.
    """
    study, left = results.study, results.study.seconds - results.spent_on()
    if left <= 0.0:
        return None
    undecided = {claim.options.get("race") for claim in study.claims if claim.check and judge(results, claim).more}
    costs = {race.id: results.spent_on(race.id) for race in study.races if race.id in undecided}
    races = {race.id: race for race in study.races}
    most = {race.id: (race.runs or first.runs) * 2 ** (LOOKS - 1) for race in first.races}
    for id in sorted(costs, key=lambda id: costs[id]):
        runs = races[id].runs or study.runs
        if costs[id] <= left and runs < most[id]:
            left -= costs[id]
            races[id] = replace(races[id], runs=2 * runs)
    grown = tuple(races.values())
    return None if grown == study.races else study.with_(races=grown)


def _environment(store: ResultStore, jobs: int) -> str:
    """Keep the description of this machine, and what an epoch costs here apart from its updates; return the description's name."""
    store.add_epoch_overhead(*measure_epoch_overhead())
    return store.add_environment(describe_environment(jobs))


class Shared:
    """The data of the runs to do, each prepared when its first run starts and removed when its last has ended.

    Order of calls: `todo` is set to the runs of a look, then `runs`, and `ended` after each.
    Sets: `missing` has what could not be found, by the id of the data set.
    """

    def __init__(self, store: ResultStore, scratch: Path, display: Display) -> None:
        self.store, self.scratch, self.display = store, scratch, display
        self.todo: list[Cell] = []
        self.left: Counter[str] = Counter()
        self.places: dict[str, Path] = {}
        self.told: set[str] = set()
        self.missing: dict[str, str] = {}

    def runs(self) -> Iterator[tuple[Cell, Path]]:
        """Yield each run with the place of its data; runs whose data are missing are left out."""
        # One draw of the data after the other: few of them are on the disk at a time, and a worker can keep its problem.
        names = [data_fingerprint(cell.data) for cell in self.todo]
        self.places, self.left, order = {}, Counter(names), {name: i for i, name in enumerate(dict.fromkeys(names))}
        for name, cell in sorted(zip(names, self.todo, strict=True), key=lambda pair: order[pair[0]]):
            if cell.data.id in self.missing:
                continue
            if name not in self.places and not self._prepare(cell.data, name):
                continue
            yield cell, self.places[name]

    def _prepare(self, spec: DataSpec, name: str) -> bool:
        called, told = spec.label or spec.name or spec.id, "~" in spec.id or spec.id in self.told
        if not told:
            self.display.say(f"preparing {called}")
        try:
            self.places[name] = share_prepared(spec, self.scratch)
        except DataError as error:
            self.missing[spec.id] = str(error)
            self.display.warn(f"{called}: {error}")
            return False
        if not told:
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
