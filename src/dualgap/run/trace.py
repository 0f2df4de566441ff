"""How a run ended, and the table of what was seen at its evaluations."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from dualgap.core import counted

__all__ = ["SUCCESSES", "Status", "Trace"]

Status = Literal[
    "converged", "zero_optimum", "decided", "max_epochs", "max_seconds", "interrupted", "diverged", "stalled", "rounding_limit"
]
SUCCESSES: tuple[Status, ...] = ("converged", "zero_optimum", "decided")  # the ends of a run that no warning is given for


class Trace:
    """A table of what was seen at each evaluation, kept as columns.

    epoch, passes, cpu_seconds and wall_seconds (updates only), primal, dual (best bound so far), gap, relative_gap, train_error,
    support_vectors (β > 0), nonzeros (of w), for each watched set NAME_error and NAME_balanced_accuracy, and where rows are to be decided
    the share of them with a proven label, decided.

    `handovers` lists the changes of method in a run of "auto": pairs of the epoch and a text such as "dca → newton: …", with the reason.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(100, random_state=0), l2=0.1)
    >>> trace = dualgap.solve(problem, "sdca").trace
    >>> bool((trace["gap"] >= 0).all())
    True
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {}
        self.handovers: list[tuple[int, str]] = []

    def append(self, record: dict[str, float]) -> None:
        """Add a row; all rows of a run have the same columns. A row that Ctrl-C cut short is replaced."""
        if not self._columns:
            self._columns = {name: [value] for name, value in record.items()}
            return
        columns, rows = self._columns, len(self)
        for name, value in record.items():
            columns.setdefault(name, [])[rows:] = (value,)

    def __len__(self) -> int:
        return min(map(len, self._columns.values()), default=0)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            raise KeyError(f"the trace has no column {name!r}; it has {self.columns}")
        return np.asarray(self._columns[name], dtype=float)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def last(self) -> dict[str, float]:
        """The newest row."""
        return {name: column[-1] for name, column in self._columns.items()}

    def note(self, name: str, value: float) -> None:
        """Set a further column of the newest row; rows before it that do not have the column get NaN."""
        column = self._columns.setdefault(name, [])
        column += [math.nan] * (max(map(len, self._columns.values())) - len(column))
        column[-1:] = [value]

    def followed_by(self, later: Trace) -> Trace:
        """Return the trace of a run that another one went on with: epochs, passes and seconds are counted from the first one's start."""
        joined, last = Trace(), self.last() if len(self) else {}
        for name in dict.fromkeys([*self.columns, *later.columns]):
            before = self._columns.get(name, [math.nan] * len(self))
            offset = last.get(name, 0.0) if name in ("epoch", "passes", "cpu_seconds", "wall_seconds") else 0.0
            joined._columns[name] = before + [offset + value for value in later._columns.get(name, [math.nan] * len(later))]
        return joined

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns as arrays."""
        return {name: self[name] for name in self._columns}

    def to_pandas(self) -> Any:
        """The trace as a pandas data frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(empty)"
        last = self.last()
        changes = "".join(f"; after epoch {epoch} {text}" for epoch, text in self.handovers)
        return f"Trace({counted(len(self), 'evaluation')} to epoch {last['epoch']:.0f}, relative gap {last['relative_gap']:.1e}{changes})"
