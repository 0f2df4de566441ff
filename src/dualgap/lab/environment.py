"""The environment of a result: machine, versions, commit. It is stored with the results and shown in the report."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.problem import Problem
from dualgap.run import minimise
from dualgap.solvers import REGISTRY

__all__ = ["describe_environment", "measure_epoch_overhead"]

PACKAGES = ("dualgap", "numpy", "scipy", "numba", "llvmlite", "scikit-learn", "polars", "joblib", "plotly", "matplotlib")


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
