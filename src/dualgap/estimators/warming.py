"""warm_up: compile the kernels of common fits ahead of the first one, in processes side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import whole_number

__all__ = ["warm_up"]


class Case(NamedTuple):
    """A fit whose kernels are to be compiled: a loss of LinearSVC, or "svc"; the storage of X; the intercept."""

    loss: str
    storage: str
    intercept: str

    def __str__(self) -> str:
        return f"{self.loss}, {self.storage} X, intercept {self.intercept}"


LOSSES = ("squared_hinge", "hinge", "log_loss")
STORAGES = ("small dense", "dense", "sparse")
CASES = (
    *(Case(loss, storage, "free") for storage in STORAGES for loss in LOSSES),
    *(Case("svc", storage, "free") for storage in ("dense", "sparse")),
    *(Case(loss, storage, "none") for storage in STORAGES for loss in LOSSES),
)


def warm_up(jobs: int | None = None) -> list[str]:
    """Compile the kernels of common fits, so that no first fit waits for them.

    These are fits of `LinearSVC` (hinge, squared hinge, logistic) and `SVC` (rbf) on dense and sparse float64 data. Compiled kernels stay
    in the user's cache folder; those that are there already are not compiled again. Other fits still compile what they need.

    Parameters
    ----------
    jobs : int, optional
        Processes side by side; None for one a processor.

    Returns
    -------
    list of str
        The fits whose kernels are ready, in words.

    Examples
    --------
    >>> import dualgap
    >>> ready = dualgap.warm_up(jobs=2)  # doctest: +SKIP
    """
    most = (os.cpu_count() or 1) if jobs is None else whole_number("jobs", jobs)
    waiting = deque(range(len(CASES)))
    running: dict[int, subprocess.Popen[str]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                k = waiting.popleft()
                code = f"from dualgap.estimators.warming import fit_case; fit_case({k})"
                running[k] = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
            k = next(iter(running))
            _, said = running[k].communicate()
            if running.pop(k).returncode != 0:
                raise RuntimeError(f"the fit that warms up {CASES[k]} has failed: {said.strip().splitlines()[-1]}")
    finally:
        for process in running.values():
            process.kill()
    return [str(case) for case in CASES]


def fit_case(k: int) -> None:
    """Fit case number k on a few rows."""
    from dualgap.estimators.kernel import SVC
    from dualgap.estimators.linear import LinearSVC

    case, rng = CASES[k], np.random.default_rng(0)
    rows = 5000 if case.storage == "dense" and case.loss != "svc" else 60
    X: Any = rng.standard_normal((rows, 6))
    y = (X[:, 0] + rng.standard_normal(rows) > 0).astype(np.int64)
    if case.storage == "sparse":
        X = sparse.random(rows, 3000, 0.01, format="csr", random_state=0)
    if case.loss == "svc":
        SVC().fit(X, y)
    else:
        LinearSVC(loss=case.loss, fit_intercept=case.intercept == "free", random_state=0).fit(X, y)
