"""Comparisons: a study made from the options of a command instead of a file."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import LOSSES, suggest
from dualgap.data import TableOptions, entry
from dualgap.lab.plan import OUTSIDE
from dualgap.lab.schema import StudyError
from dualgap.lab.studies import catalogue
from dualgap.lab.study import Study, parse_study
from dualgap.problem import Problem
from dualgap.solvers import REGISTRY

__all__ = ["SHIPPED", "Comparison", "solvers_for"]

# Data that need no download: one measured set, one that is generated.
SHIPPED = ("breast-cancer", "classification")
# Methods that are a solver with other parameters.
VARIANTS = {"pegasos_batch": ("pegasos", {"batch_size": 50})}
RACED = ChainMap(REGISTRY, OUTSIDE, {name: REGISTRY[solver] for name, (solver, _) in VARIANTS.items()})
# What figures call some of them.
LABELS = {
    "asdca": "ASDCA",
    "auto": "auto (dualgap's own choice)",
    "pegasos": "Pegasos",
    "pegasos_batch": "mini-batch Pegasos (50)",
    "sdca": "SDCA",
    "liblinear": "LIBLINEAR (scikit-learn)",
    "libsvm": "libsvm (scikit-learn)",
    "sklearn_sgd": "SGDClassifier (scikit-learn)",
}


def solvers_for(problem: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the solvers that support such a problem, variants and other packages' among them; for the others the reason why not."""
    tiny = Problem(np.eye(4), np.array([0, 1, 0, 1]), **problem)
    answers = {name: cls().supports(tiny) for name, cls in sorted(RACED.items())}
    able = [name for name, answer in answers.items() if answer]
    return able, {name: answer.reason for name, answer in answers.items() if not answer}


@dataclass(frozen=True)
class Comparison:
    """A race of solvers on the user's data or, without any, on data that ship; `study` makes the study.

    Attributes
    ----------
    data : files, folders of tables, or names that `dualgap.data` knows; a race for each
    table : what is said about the columns of files, the label column among them; standardise=None means dense data yes, sparse data no
    positive : of more than two classes, those that count as positive
    solvers : names; by default all that support the problem, dualgap's own choice ("auto"), and those of other packages
    losses : a race for each
    delta, l2, l1, intercept : the problem; several l2 are a grid. The default intercept, "", is penalised, so that all solvers can
        have it; of a kernel machine it is free
    kernel, gamma : of a kernel machine; "" trains on the features themselves
    test_size, balance : how the data are prepared, see `DataSpec`
    tol, epochs, seconds : when a run ends
    runs, seed : how often each solver runs, and the seed of it all
    """

    data: Sequence[str] = ()
    table: TableOptions = field(default_factory=TableOptions)
    positive: Sequence[str] = ()
    solvers: Sequence[str] = ()
    losses: Sequence[str] = ("hinge", "smooth_hinge")
    delta: float = 0.5
    l2: Sequence[float] = (1e-3,)
    l1: float = 0.0
    intercept: str = ""
    kernel: str = ""
    gamma: Any = "scale"
    test_size: float = 1 / 3
    balance: str = "none"
    tol: float = 1e-6
    epochs: int = 1000
    seconds: float = 2.0
    runs: int = 3
    seed: int = 0

    def study(self) -> Study:
        """Return the study: a race and a figure for each loss, on the same data."""
        for kind, wanted, known in (("solver", self.solvers, RACED), ("loss", self.losses, LOSSES)):
            for name in wanted:
                if name not in known:
                    raise StudyError(f"there is no {kind} {name!r}; {suggest(name, known)}")
        chosen, refused = self._chosen()
        entries = [self._entry(name) for name in self.data or SHIPPED]
        races = [self._race(loss, racing, [made["id"] for made in entries]) for loss, racing in chosen.items()]
        called = [made.get("label") or made["name"] for made in entries]
        table = {
            "name": "compare",
            "title": f"Solvers compared on {' and '.join(called)}",
            "about": "Every solver that supports the problem, on the same data, with the same certificate.",
            "left_out": [f"{LABELS.get(name, name)}: {why}" for name, why in refused.items()],
            "runs": self.runs,
            "seed": self.seed,
            "data": entries,
            "solvers": [
                {"id": name, "solver": solver, "label": LABELS.get(name, name.replace("_", " ")), "params": params}
                for name in sorted({name for race in races for name in race["solvers"]})
                for solver, params in [VARIANTS.get(name, (name, {}))]
            ],
            "races": races,
            "figures": [self._figure(race) for race in races],
        }
        return parse_study(table, "compare")

    def _problem(self, loss: str) -> dict[str, Any]:
        """Return the settings of the problem, except l2."""
        problem: dict[str, Any] = {"loss": loss, "intercept": self.intercept or ("free" if self.kernel else "penalised")}
        if loss == "smooth_hinge":
            problem["delta"] = self.delta
        if self.l1:
            problem["l1"] = self.l1
        if self.kernel:
            problem |= {"kernel": self.kernel, "gamma": self.gamma}
        return problem

    def _chosen(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        """Return the solvers of each loss's race, and why others are in none; one that was asked for must be in at least one."""
        chosen: dict[str, list[str]] = {}
        refusals: dict[str, str] = {}
        for loss in self.losses:
            able, refused = solvers_for({**self._problem(loss), "l2": self.l2[0]})
            chosen[loss] = [name for name in self.solvers if name in able] if self.solvers else able
            refusals = {**refused, **refusals}  # the first loss is the one that is mostly meant
        for name in self.solvers:
            if not any(name in racing for racing in chosen.values()):
                raise StudyError(f"{name} cannot be raced on this problem: {refusals[name]}")
        raced = {name for racing in chosen.values() for name in racing}
        left_out = {} if self.solvers else {name: why for name, why in refusals.items() if name not in raced}
        return {loss: racing for loss, racing in chosen.items() if racing}, left_out

    def _race(self, loss: str, chosen: list[str], data: list[str]) -> dict[str, Any]:
        problem, grid = self._problem(loss), {}
        if len(self.l2) == 1:
            problem["l2"] = self.l2[0]
        else:
            grid = {"grid": {"l2": list(self.l2)}}
        return {
            "id": loss,
            "title": loss.replace("_", " ") + (f", δ = {self.delta:g}" if loss == "smooth_hinge" else ""),
            "data": data,
            "solvers": chosen,
            "problem": problem,
            **grid,
            "budget": {"tol": self.tol, "epochs": self.epochs, "seconds": self.seconds, "evaluate": "geometric"},
            "reference": False,
            "watch": not self.kernel,
        }

    def _figure(self, race: dict[str, Any]) -> dict[str, Any]:
        options = {"race": race["id"], "x": ["cpu_seconds", "epoch"], "y": "relative_gap", "x_log": True}
        return {
            "id": f"gap-{race['id']}",
            "kind": "convergence",
            "title": f"The certified gap against CPU time and epochs: {race['title']}",
            "caption": "Mean over runs; the band is one standard deviation.",
            "options": options | ({"split": ["data", "l2"]} if "grid" in race else {}),
        }

    def _options(self) -> dict[str, Any]:
        """Return what is said about the columns of a table, where it is not the default."""
        usual = asdict(TableOptions())
        said = {key: value for key, value in asdict(self.table).items() if key not in ("target", "standardise")}
        return {key: value for key, value in said.items() if value != usual[key]}

    def _entry(self, name: str) -> dict[str, Any]:
        """Return the data set of that name, or a file; a file is called by its name without the folder."""
        made: dict[str, Any] = {"id": name, "name": name}
        if Path(name).exists():
            made |= {"name": Path(name).name, "label": Path(name).name, "path": name, "options": self._options()}
            if self.table.target != "":
                made["target"] = str(self.table.target)
        elif name not in catalogue() and (self.table.target != "" or Path(name).suffix or len(Path(name).parts) > 1):
            raise StudyError(f"{name}: there is no such file")
        else:
            entry(name, catalogue())  # raises for an unknown name, and says which there are
            self.table.refuse(name)
        if self.positive:
            made["positive"] = list(self.positive)
        standardise = "auto" if self.table.standardise is None else self.table.standardise
        return {**made, "test_size": self.test_size, "standardise": standardise, "balance": self.balance}
