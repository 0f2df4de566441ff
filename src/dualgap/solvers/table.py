"""The table of solvers: what each one supports, found out by asking it about small problems rather than written down."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from dualgap.core import LOSSES
from dualgap.problem import INTERCEPTS, Problem
from dualgap.solvers.base import REGISTRY, Solver

__all__ = ["SolverRecord", "SolverTable", "solver_table"]

PENALTIES = {"l2": (0.1, 0.0), "elastic net": (0.1, 0.1), "l1": (0.0, 0.1)}
Case = tuple[str, str, str, bool]  # loss, penalty, intercept, whether on a kernel


@dataclass(frozen=True)
class SolverRecord:
    """What one solver supports.

    `losses`, `penalties`, `intercepts`, `kernels` and `linear` (X without a kernel) tell what it takes in at least one combination;
    `every_combination` says whether it takes them all together. `bounds` says whether it keeps bounds on coefficients. `sparse_cost` is
    what one update costs on sparse rows. `certificate` says where its dual bound comes from: variables of its own, or the slopes at the
    model's margins.
    """

    name: str
    summary: str
    losses: tuple[str, ...]
    penalties: tuple[str, ...]
    intercepts: tuple[str, ...]
    kernels: bool
    linear: bool
    every_combination: bool
    sparse_cost: str
    certificate: str
    bounds: bool

    def cells(self) -> list[str]:
        """The record as words, one a column."""
        return [
            self.name + ("" if self.every_combination else " *"),
            _all_or(self.losses, tuple(LOSSES)),
            _all_or(self.penalties, tuple(PENALTIES)),
            _all_or(self.intercepts, INTERCEPTS),
            ("yes" if self.linear else "only") if self.kernels else "no",
            "yes" if self.bounds else "no",
            self.sparse_cost,
            self.certificate,
        ]


COLUMNS = ["solver", "losses", "penalties", "intercepts", "kernels", "bounds", "an update costs", "certificate"]
FOOTNOTE = "* not every combination of these; supports(problem) gives the reason"


class SolverTable(Sequence[SolverRecord]):
    """Records of all registered solvers, by position or by name; prints as a table.

    Examples
    --------
    >>> import dualgap
    >>> table = dualgap.solvers()
    >>> "sdca" in table.names
    True
    >>> [record.name for record in table if record.kernels and record.losses == ("hinge",)]
    ['pegasos']
    """

    def __init__(self, records: Sequence[SolverRecord]) -> None:
        self._records = tuple(records)

    @property
    def names(self) -> list[str]:
        """Names that `solve(problem, name)` takes."""
        return [record.name for record in self._records]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[SolverRecord]:
        return iter(self._records)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for record in self._records:
                if record.name == key:
                    return record
            raise KeyError(f"no solver is named {key!r}; there are {self.names}")
        return self._records[key]

    def to_pandas(self) -> Any:
        """The table as a pandas data frame (needs pandas)."""
        import pandas as pd

        names = [field.name for field in fields(SolverRecord)]
        return pd.DataFrame([{name: getattr(record, name) for name in names} for record in self._records], columns=names)

    def to_markdown(self) -> str:
        """The table as Markdown, as it stands in the documentation."""
        lines = [COLUMNS, ["---"] * len(COLUMNS)] + [record.cells() for record in self._records]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + self._footnote()

    def __repr__(self) -> str:
        lines = [COLUMNS] + [record.cells() for record in self._records]
        widths = [max(len(cells[k]) for cells in lines) for k in range(len(COLUMNS))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in lines]
        return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]]) + self._footnote()

    def _footnote(self) -> str:
        return "" if all(record.every_combination for record in self._records) else f"\n\n{FOOTNOTE}"


def solver_table() -> SolverTable:
    """What there is and what each supports; `dualgap.solvers()` is this."""
    return SolverTable([_record(REGISTRY[name]) for name in sorted(REGISTRY)])


def _record(cls: type[Solver]) -> SolverRecord:
    solver = cls()
    taken = {case for case, problem in _small_problems().items() if solver.supports(problem)}
    values = [_seen(taken, k) for k in range(4)]
    possible = {case for case in itertools.product(*values) if case in _small_problems()}
    return SolverRecord(
        name=cls.name,
        summary=cls.summary,
        losses=values[0],
        penalties=values[1],
        intercepts=values[2],
        kernels=True in values[3],
        linear=False in values[3],
        every_combination=possible == taken,
        sparse_cost=cls.sparse_cost,
        certificate="from margins" if cls.dual is Solver.dual else "own β",
        bounds=cls.takes_bounds,
    )


def _seen(taken: set[Case], k: int) -> tuple[Any, ...]:
    """Values of one aspect among the cases taken, in the order in which they are listed everywhere."""
    order = (tuple(LOSSES), tuple(PENALTIES), INTERCEPTS, (False, True))[k]
    return tuple(value for value in order if any(case[k] == value for case in taken))


@cache
def _small_problems() -> dict[Case, Problem]:
    """A problem of four rows for each combination that is a problem at all."""
    X = np.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -0.7], [0.1, 1.0]])
    y = [1, 0, 1, 0]
    problems = {}
    for loss, (penalty, (l2, l1)), intercept, on_kernel in itertools.product(LOSSES, PENALTIES.items(), INTERCEPTS, (False, True)):
        if (l1 > 0 and on_kernel) or (l2 == 0 and intercept == "penalised"):
            continue  # Problem itself refuses these
        kernel = "rbf" if on_kernel else None
        problems[loss, penalty, intercept, on_kernel] = Problem(X, y, loss=loss, l2=l2, l1=l1, intercept=intercept, kernel=kernel)
    return problems


def _all_or(values: tuple[str, ...], everything: tuple[str, ...]) -> str:
    return "all" if values == everything else ", ".join(value.replace("_", " ") for value in values)
