"""What a run of a study survives, and what it leaves behind: kills of workers and of itself, another folder, another version."""

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dualgap.lab import Results, ResultStore, load_study, parse_study, run_study, write_report
from dualgap.lab.workers import Killed, Scratch, run_in_workers
from dualgap.solvers import REGISTRY, get_solver

HANGS = 1800  # seconds after which even a machine with a hundred other processes must have done it

SCRIPT = """
import sys
from dualgap.lab import load_study, run_study
run_study(load_study(sys.argv[1]), sys.argv[2], jobs=2)
"""


def alive(process):
    """Whether a process runs; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition, possible=lambda: True):
    """Wait until a condition holds, however long a busy machine takes; fail once it cannot hold any more, or nothing seems to happen."""
    deadline = time.monotonic() + HANGS
    while not condition():
        assert possible(), "it ended before"
        assert time.monotonic() < deadline, "it hangs"
        time.sleep(0.02)


def workers_at_work(running):
    """The processes that have a run under way, by their notes; a note may be half written, or be gone when it is read."""
    found = []
    for note in running.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += [int(word) for word in note.read_text().split("\n")[:-1] if word.isdigit()]
    return found


def long_study(tiny, tmp_path):
    race = {**tiny()["races"][0], "solvers": ["pegasos"], "budget": {"epochs": 10**9, "tol": 0.0}}
    path = tmp_path / "study.json"
    path.write_text(parse_study(tiny(races=[race])).to_json())
    return path


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
def test_a_killed_study_leaves_neither_workers_nor_files(tiny, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(long_study(tiny, tmp_path)), str(out)], env=environment)
    try:
        until(lambda: len(workers_at_work(out / "results" / "running")) == 2, lambda: process.poll() is None)
        workers = workers_at_work(out / "results" / "running")
        assert list(scratch.glob("dualgap-*")), "the data are there while it runs"
        assert all(alive(worker) for worker in workers)
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: not any(alive(worker) for worker in workers))
        until(lambda: not list(scratch.glob("dualgap-*")))
    finally:
        process.kill()
        process.wait()


def test_a_killed_worker_is_replaced_and_takes_nothing_with_it(tmp_path):
    """The task that kills its worker is tried once more and given up; all others are answered."""
    tasks = [("kill", os._exit, (9,)), *((i, divmod, (i, 2)) for i in range(4))]
    answers = dict(run_in_workers(tasks, 2))
    assert isinstance(answers["kill"], Killed)
    assert "with exit code 9, 2 times" in str(answers["kill"])
    assert [answers[i] for i in range(4)] == [divmod(i, 2) for i in range(4)]


def test_a_worker_that_raises_ends_the_iteration(tmp_path):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        dict(run_in_workers([("a", divmod, (1, 0))], 1))


def test_scratch_is_removed():
    with Scratch() as folder:
        (folder / "file").write_text("x")
    assert not folder.exists()


def test_a_run_whose_worker_dies_is_a_failed_run(tiny, tmp_path, monkeypatch):
    def some_are_killed(tasks, jobs):
        for place, (name, function, arguments) in enumerate(tasks):
            yield name, Killed(-9) if place == 1 else function(*arguments)

    monkeypatch.setattr("dualgap.lab.runner.run_in_workers", some_are_killed)
    ran = run_study(parse_study(tiny()), tmp_path, jobs=2)
    assert (ran.executed, len(ran.failed)) == (8, 1)
    assert "signal 9" in ran.failed[0].error
    assert "signal 9" in write_report(ran.results, tmp_path).read_text(encoding="utf-8")


@pytest.fixture
def moved(tiny, tmp_path, monkeypatch):
    """The folder of a study on a table that is then removed, moved, opened from elsewhere, and by another version of the package."""
    rows = "".join(f"{i % 7},{(i * i) % 11},{'a' if (i % 7) + (i % 3) > 4 else 'b'}\n" for i in range(60))
    table = tmp_path / "table.csv"
    table.write_text("x,z,kind\n" + rows)
    monkeypatch.chdir(tmp_path)
    data = [{"id": "t", "path": "table.csv", "target": "kind", "name": "table"}]
    race = {**tiny()["races"][0], "data": ["t"], "keep_models": True, "watch": True}
    run_study(parse_study(tiny(data=data, races=[race])), tmp_path / "out", jobs=1)
    table.unlink()
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("dualgap.lab.plan.sources_fingerprint", lambda: "another version")
    return tmp_path / "elsewhere"


def test_a_report_opens_from_anywhere(moved, capsys):
    results = Results.load(load_study(moved / "study.json"), ResultStore(moved / "results"))
    assert len(results.rows) == 4
    page = write_report(results, moved).read_text(encoding="utf-8")
    assert "Pegasos" in page
    from dualgap.app.race_commands import report

    assert report(moved) == 0
    assert capsys.readouterr().out.strip() == str(moved / "report.html")
    assert json.loads((moved / "results" / "plan.json").read_text())[0]["key"] in results.rows


def test_workers_know_the_solvers_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "own_dca.py").write_text(
        "from dualgap.solvers import DCA, register\n\n@register\nclass OwnDCA(DCA):\n    name = 'own_dca'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_dca").OwnDCA
    try:
        answers = list(run_in_workers([("task", get_solver, ("own_dca",))], 1))
    finally:
        del REGISTRY["own_dca"]
    assert answers == [("task", own())]
