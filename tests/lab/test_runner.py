"""The runner: resumes where it was killed, records failures, runs on several processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from dualgap.lab import parse_study, run_study
from dualgap.lab.results import ResultStore
from dualgap.solvers import REGISTRY
from dualgap.solvers.coordinate.sdca import SDCA

PACKAGE = Path(run_study.__code__.co_filename).resolve().parents[1]
TIMES = (
    "cpu_seconds",
    "wall_seconds",
    "compile_seconds",
    "spent_seconds",
    "trace_cpu_seconds",
    "trace_wall_seconds",
    "environment",
)

SCRIPT = """
import json, sys
from dualgap.lab import load_study, run_study
ran = run_study(load_study(sys.argv[1]), sys.argv[2], jobs=2)
print(json.dumps([ran.executed, ran.found]))
"""


def start(study, out, source):
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(study), str(out)], stdout=subprocess.PIPE, text=True, env=environment
    )


def parts(out):
    return len(list((out / "results" / "parts").glob("*.parquet")))


def table_of(out):
    table = ResultStore(out / "results").read().sort("key")
    return table.drop([name for name in TIMES if name in table.columns])


@pytest.mark.slow
def test_killed_twice_equals_undisturbed(tiny, tmp_path):
    """A real SIGKILL of the parent, twice, in the middle; in the end the results are those of a run that nobody disturbed."""
    # Results are keyed on the sources: a copy, so that an edit while the test runs is no part of it.
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source / "dualgap", ignore=shutil.ignore_patterns("__pycache__"))
    race = {**tiny()["races"][0], "budget": {"epochs": 600}}
    study = tmp_path / "study.json"
    study.write_text(parse_study(tiny(runs=6, races=[race])).to_json())
    total = 2 * 2 * 6
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    for wanted in (3, 9):
        process = start(study, disturbed, source)
        while parts(disturbed) < wanted and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert wanted <= parts(disturbed) < total, "it was to be killed in the middle"
    done = parts(disturbed)
    last, _ = start(study, disturbed, source).communicate()
    executed, found = json.loads(last)
    # Workers that lost their parent end what they were given, so that a few more may be there than at the kill.
    assert found >= done
    assert executed == total - found
    whole, _ = start(study, calm, source).communicate()
    assert json.loads(whole) == [total, 0]
    one, other = table_of(disturbed), table_of(calm)
    assert one.height == total
    assert one.select(sorted(one.columns)).equals(other.select(sorted(other.columns)))


@dataclass(frozen=True)
class Fragile(SDCA):
    """SDCA that breaks while a file exists."""

    switch: str = ""
    name: ClassVar[str] = "fragile"

    def epoch(self, problem, state, rng):
        if os.path.exists(self.switch):
            raise RuntimeError("the disk is on fire")
        super().epoch(problem, state, rng)


@pytest.fixture
def fragile(monkeypatch):
    monkeypatch.setitem(REGISTRY, "fragile", Fragile)


def test_a_failed_run_is_recorded_and_tried_again(tiny, tmp_path, fragile):
    switch = tmp_path / "switch"
    switch.touch()
    solvers = [{"id": "sdca", "solver": "fragile", "params": {"switch": str(switch)}}, tiny()["solvers"][1]]
    study = parse_study(tiny(solvers=solvers))
    ran = run_study(study, tmp_path / "out", jobs=1)
    assert (ran.executed, len(ran.failed)) == (8, 4)
    assert ran.failed[0].error == "RuntimeError: the disk is on fire"
    stored = ResultStore(tmp_path / "out" / "results").read().filter(pl.col("status") == "failed")
    assert stored.height == 4
    assert "the disk is on fire" in stored["traceback"][0]
    assert len(ran.results.failures) == 4
    switch.unlink()
    again = run_study(study, tmp_path / "out", jobs=1)
    assert (again.executed, again.found, len(again.failed)) == (4, 4, 0)
    assert not again.results.failures


def test_what_a_solver_refuses_is_said(tiny, tmp_path):
    race = {**tiny()["races"][0], "problem": {"l2": 0.01, "intercept": "free"}, "data": ["plane"], "solvers": ["pegasos"]}
    ran = run_study(parse_study(tiny(races=[race])), tmp_path, jobs=1)
    assert len(ran.unsupported) == 2
    assert "strong convexity" in ran.unsupported[0].error


def test_missing_data_leave_the_rest_running(tiny, tmp_path):
    data = [tiny()["data"][0], {"id": "cloud", "path": str(tmp_path / "nowhere.csv")}]
    ran = run_study(parse_study(tiny(data=data)), tmp_path / "out", jobs=1)
    assert ran.executed == 4
    assert list(ran.missing) == ["cloud"]
    assert "nowhere.csv: there is no such file" in ran.missing["cloud"]


def test_timers_count_updates_only_and_results_say_where_they_came_from(tiny, tmp_path):
    ran = run_study(parse_study(tiny()), tmp_path, jobs=1)
    row = next(iter(ran.results.rows.values()))
    assert row["trace_cpu_seconds"][-1] == row["cpu_seconds"]
    machine = ran.results.store.environments()[row["environment"]]
    assert machine["packages"]["dualgap"]
    assert machine["jobs"] == 1
    assert {"commit", "cores", "machine", "memory_gib", "processor", "python", "system"} <= set(machine)
