"""Run the tests as on other processors, with other Pythons, and with other releases of the dependencies.

    python tools/matrix.py --list                     what there is, and what this machine cannot run
    python tools/matrix.py                            all of it
    python tools/matrix.py --only x86-64-v2,oldest    some of it

A processor is played by telling numba and NumPy which instructions they may use and OpenBLAS which kernels to take, a number of
threads by binding the tests to as many cores. Environments are made by the Makefile, as `make test` makes its own: .venv serves the
jobs that differ in the processor alone, every other Python and set of releases has its own in .matrix/. What a job prints goes to
.matrix/<job>.log. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The part that computes; the rest (files, reports, the command line) does not depend on the processor.
COMPUTES = ("--ignore=tests/data", "--ignore=tests/lab", "--ignore=tests/test_cli.py", "--ignore=tests/test_layout.py")
# Prints the instructions that NumPy would choose on this machine, and that the processor it plays does not have.
NEWER_FEATURES = """
import sys
from numpy._core._multiarray_umath import __cpu_dispatch__ as known, __cpu_features__ as here
later = {"x86-64-v2": ("AVX", "FMA", "F16C", "XOP", "X86_V3", "X86_V4"), "x86-64-v3": ("AVX512", "X86_V4")}.get(sys.argv[1], ())
print(*[name for name in known if here.get(name) and name.startswith(later)] if later else "")
"""


@dataclass(frozen=True)
class Job:
    name: str
    python: str = ""  # "3.12"; empty: the one that runs this script
    releases: str = "pinned"  # pinned | oldest | newest
    processor: str = ""  # what numba compiles for; empty: this machine's
    blas: str = ""  # OPENBLAS_CORETYPE
    threads: int = 2
    compiler: str = ""  # "numba": its own, without dualgap's part
    pytest: tuple[str, ...] = field(default=())

    @property
    def environment(self) -> Path:
        if self.releases == "pinned" and not self.python:
            return Path(sys.prefix) if ROOT in Path(sys.prefix).parents else ROOT / ".venv"
        return FOLDER / f"python{self.python or _own_version()}-{self.releases}"


JOBS = (
    Job("x86-64-v2", processor="x86-64-v2", blas="Prescott", pytest=COMPUTES),
    Job("x86-64-v3", processor="x86-64-v3", blas="Haswell", pytest=COMPUTES),
    Job("x86-64-v3-zen", processor="x86-64-v3", blas="Zen", pytest=COMPUTES),
    Job("x86-64-v4", processor="x86-64-v4", blas="SkylakeX", pytest=COMPUTES),
    Job("one-thread", threads=1, pytest=COMPUTES),
    Job("numba", compiler="numba", pytest=("tests/core",)),
    *(Job(f"python{version}", python=version) for version in PYTHONS),
    Job("oldest", python="3.11", releases="oldest"),
    Job("oldest-dask", python="3.11", releases="oldest", pytest=("tests/cluster",)),
    # Warnings of other libraries announce what a coming release will take away.
    Job("newest", releases="newest", pytest=("-W", "error")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests on other processors, Pythons and releases.")
    parser.add_argument("--only", default="", help="names of jobs, separated by commas")
    parser.add_argument("--list", action="store_true", help="name the jobs, and do nothing")
    options = parser.parse_args()
    jobs = list(JOBS)
    if options.only:
        wanted = options.only.split(",")
        unknown = sorted(set(wanted) - {job.name for job in JOBS})
        if unknown:
            parser.error(f"no job {', '.join(unknown)}; there are {', '.join(job.name for job in JOBS)}")
        jobs = [job for job in JOBS if job.name in wanted]
    rows = []
    for job in jobs:
        lacking = _lacking(job)
        if options.list or lacking:
            rows.append((job.name, f"cannot run here: {lacking}" if lacking else _describe(job)))
        else:
            rows.append((job.name, run(job)))
    width = max(len(name) for name, _ in rows)
    print()
    for name, outcome in rows:
        print(f"{name:<{width}}  {outcome}")
    return int(any(outcome.startswith("FAILED") for _, outcome in rows))


def run(job: Job) -> str:
    """Make the job's environment, run its tests, and return one line on the outcome."""
    FOLDER.mkdir(exist_ok=True)
    log = FOLDER / f"{job.name}.log"
    print(f"{job.name}: {_describe(job)}; output in {log.relative_to(ROOT)}", flush=True)
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        if _make_environment(job, out) != 0:
            return f"FAILED to install; see {log.relative_to(ROOT)}"
        command = [str(_python_in(job.environment)), "-m", "pytest", "-q", "-n", str(job.threads), *job.pytest]
        code = _call([*_bound(job), *command], out, _variables(job))
    minutes = (time.monotonic() - began) / 60
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if re.search(r" in \d.*s", line)]
    outcome = f"{'ok' if code == 0 else 'FAILED'}: {lines[-1].strip('= ') if lines else f'exit {code}'}; {minutes:.1f} min in all"
    return outcome + (_changes(job) if job.releases != "pinned" else "")


def _make_environment(job: Job, out) -> int:
    constraints = "constraints.txt" if job.releases == "pinned" else ""
    if job.releases == "oldest":
        path = FOLDER / "oldest.txt"
        lowest = subprocess.run([sys.executable, "tools/lowest.py"], cwd=ROOT, capture_output=True, text=True, check=True)
        if not path.exists() or path.read_text(encoding="utf-8") != lowest.stdout:
            path.write_text(lowest.stdout, encoding="utf-8")
        constraints = path.relative_to(ROOT).as_posix()
    if job.releases == "newest":
        shutil.rmtree(job.environment, ignore_errors=True)  # what was the newest last time need not be
    python = _interpreter(job.python) if job.python else sys.executable
    folder = job.environment.relative_to(ROOT).as_posix()
    make = ["make", "--silent", f"VENV={folder}", f"PYTHON={python}", f"CONSTRAINTS={constraints}", f"{folder}/.stamp-test"]
    return _call(make, out)


def _variables(job: Job) -> dict[str, str]:
    chosen = {"DUALGAP_CACHE_DIR": str(FOLDER / f"cache-{job.environment.name.lstrip('.')}")}
    if job.compiler:
        chosen["DUALGAP_COMPILER"] = job.compiler
    if job.processor:
        chosen |= {"NUMBA_CPU_NAME": job.processor, "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": job.blas}
        chosen["NPY_DISABLE_CPU_FEATURES"] = _answer([str(_python_in(job.environment)), "-c", NEWER_FEATURES, job.processor])
    if job.pytest == COMPUTES:
        chosen |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(job.threads))
    return chosen


def _bound(job: Job) -> list[str]:
    """Before a command: keep it to as many cores as the job has threads."""
    if job.pytest != COMPUTES or not shutil.which("taskset"):
        return []
    cores = sorted(os.sched_getaffinity(0))[: job.threads]
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


def _call(command: list[str], out, variables: dict[str, str] | None = None) -> int:
    # A make above this script passes its own settings down; they are not meant for the environments here.
    clean = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "VIRTUAL_ENV")
    }
    out.flush()
    return subprocess.run(
        command, cwd=ROOT, env={**clean, **(variables or {})}, stdout=out, stderr=subprocess.STDOUT, check=False
    ).returncode


def _lacking(job: Job) -> str:
    """Return why this machine cannot run a job, or nothing."""
    if job.processor and platform.machine().lower() not in ("x86_64", "amd64"):
        return f"the processor is {platform.machine()}, not x86-64"
    needed = {"x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}.get(job.processor, "")
    if needed not in _processor_flags():
        return f"the processor does not list {needed}"
    if job.python and _interpreter(job.python) is None:
        return f"no Python {job.python} was found"
    return ""


@cache
def _processor_flags() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8") if path.exists() else ""


@cache
def _interpreter(version: str) -> str | None:
    """Return a Python of that version that runs: by its name on PATH, from pyenv, or from uv."""
    for candidate in _candidates(version):
        answer = _answer([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        if answer == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    if version == _own_version():
        yield sys.executable
    yield f"python{version}"
    for folder in sorted(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob(f"versions/{version}.*/bin")):
        yield str(folder / "python")
    if shutil.which("uv"):
        yield _answer(["uv", "python", "find", "--no-python-downloads", version])


def _answer(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _own_version() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def _python_in(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _describe(job: Job) -> str:
    processor = f", {job.processor} with OpenBLAS for {job.blas}" if job.processor else ""
    threads = ", one thread" if job.threads == 1 else ""
    compiler = f", {job.compiler}'s own compiler" if job.compiler else ""
    part = {COMPUTES: "the part that computes", ("tests/core",): "the core"}.get(job.pytest, "all tests")
    return f"Python {job.python or _own_version()}, {job.releases} releases{processor}{threads}{compiler}; {part}"


def _changes(job: Job) -> str:
    """Return packages whose release differs from the pinned one."""
    pinned = _releases((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    code = "from importlib.metadata import distributions as d; print(*[f'{x.name}=={x.version}' for x in d()], sep='\\n')"
    installed = _releases(_answer([str(_python_in(job.environment)), "-c", code]))
    other = [
        f"{name} {release} for {pinned[name]}"
        for name, release in sorted(installed.items())
        if pinned.get(name, release) != release
    ]
    return f"; other than pinned: {', '.join(other)}" if other else "; the same releases as pinned"


def _releases(text: str) -> dict[str, str]:
    return {
        re.sub(r"[-_.]+", "-", name).lower(): release for name, release in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    }


if __name__ == "__main__":
    sys.exit(main())
