"""The runner: it executes the runs of a study that have no result yet, on all cores, and can be stopped at any time."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dualgap.data import DataError
from dualgap.lab.environment import describe_environment
from dualgap.lab.files import write_atomically
from dualgap.lab.live import Display
from dualgap.lab.plan import Cell, cells_of, data_fingerprint
from dualgap.lab.prepare import open_prepared, share_prepared
from dualgap.lab.result_store import ResultStore
from dualgap.lab.results import Results
from dualgap.lab.run_one import Outcome, execute
from dualgap.lab.study import Study

__all__ = ["Ran", "run_study"]


@dataclass
class Ran:
    """A study's results, and how the run of it went."""

    results: Results
    executed: int = 0
    found: int = 0
    failed: list[Outcome] = field(default_factory=list)
    unsupported: list[Outcome] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # data id -> what to fetch


def run_study(study: Study, out: str | Path, jobs: int | None = None, display: Display | None = None) -> Ran:
    """Run what has not been run yet, and return all results.

    Parameters
    ----------
    study : Study
    out : folder
        Results go to `results/` in it as each run ends. After a stop the same call runs what is missing.
    jobs : int, optional
        Worker processes, one run each at a time and one thread each; all cores by default. 1 runs in this process.
    display : where to show progress; nothing is shown by default

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
    shutil.rmtree(store.folder / "running", ignore_errors=True)
    cells = list({cell.key: cell for cell in cells_of(study)}.values())
    done = store.finished()
    todo = [cell for cell in cells if cell.key not in done]
    environment = store.add_environment(describe_environment(jobs))
    ran = Ran(Results(study, store, {}), found=len(cells) - len(todo))
    with tempfile.TemporaryDirectory(prefix="dualgap-") as scratch, display:
        places, ran.missing = _share_all(study, todo, store, Path(scratch), display)
        todo = [cell for cell in todo if data_fingerprint(cell.data) in places]
        display.start(total=len(cells), found=ran.found, running=store.folder / "running")
        for outcome in _execute_all(todo, places, store.folder, environment, jobs):
            ran.executed += 1
            display.ended(outcome)
            if outcome.status == "failed":
                ran.failed.append(outcome)
            elif outcome.status == "unsupported":
                ran.unsupported.append(outcome)
    store.join()
    ran.results = Results.load(study, store)
    return ran


def _share_all(
    study: Study, todo: list[Cell], store: ResultStore, scratch: Path, display: Display
) -> tuple[dict[str, Path], dict[str, str]]:
    places: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for spec in {cell.data.id: cell.data for cell in todo}.values():
        display.say(f"preparing {spec.label or spec.name or spec.id}")
        try:
            place = share_prepared(spec, scratch)
        except DataError as error:
            missing[spec.id] = str(error)
            display.warn(f"{spec.label or spec.name or spec.id}: {error}")
            continue
        places[data_fingerprint(spec)] = place
        data = open_prepared(place)
        store.add_data(spec.id, {"name": data.name, "notes": list(data.notes), **data.about})
        for note in data.notes:
            display.say(f"  {data.name}: {note}")
    return places, missing


def _execute_all(todo: list[Cell], places: dict[str, Path], folder: Path, environment: str, jobs: int) -> Iterator[Outcome]:
    if not todo:
        return
    if jobs == 1:
        for cell in todo:
            yield execute(cell, cell.key, places[data_fingerprint(cell.data)], folder, environment)
        return
    from joblib import Parallel, delayed, parallel_config

    # One thread a worker: with BLAS on every core, the runs would slow each other down and their times would mean nothing.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        work = (delayed(execute)(cell, cell.key, places[data_fingerprint(cell.data)], folder, environment) for cell in todo)
        with warnings.catch_warnings():
            # joblib now and then replaces a worker with large data; no run is lost.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
            outcomes = parallel(work)
            with contextlib.closing(outcomes):
                yield from outcomes
