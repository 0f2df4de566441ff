"""Comparisons: a study made from a command's arguments instead of a file. Which solvers to race, on what, for how long."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import LOSSES
from dualgap.data import entry, names
from dualgap.lab.schema import StudyError, suggest
from dualgap.lab.study import Study, parse_study
from dualgap.problem import Problem
from dualgap.solvers import REGISTRY

__all__ = ["SHIPPED", "comparison", "solvers_for"]

# Data that need no download: one measured set, one that is generated.
SHIPPED = ("breast-cancer", "classification")


def solvers_for(problem: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Names of the solvers that can take a problem of that kind, and for the others the reason why not.

    Examples
    --------
    >>> from dualgap.lab.compare import solvers_for
    >>> able, refused = solvers_for({"loss": "logistic", "l2": 0.1})
    >>> "sdca" in able, refused["pegasos"]
    (True, 'Pegasos is made for the hinge; SGD takes any loss')
    """
    tiny = Problem(np.eye(4), np.array([0, 1, 0, 1]), **problem)
    answers = {name: cls().supports(tiny) for name, cls in sorted(REGISTRY.items())}
    return [name for name, answer in answers.items() if answer], {
        name: answer.reason for name, answer in answers.items() if not answer
    }


def comparison(
    data: Iterable[str] = (),
    *,
    target: str = "",
    positive: Iterable[str] = (),
    solvers: Iterable[str] = (),
    losses: Iterable[str] = ("hinge", "smooth_hinge"),
    delta: float = 0.5,
    l2: Iterable[float] = (1e-3,),
    l1: float = 0.0,
    intercept: str = "none",
    runs: int = 3,
    seed: int = 0,
    tol: float = 1e-6,
    epochs: int = 1000,
    seconds: float = 2.0,
    test_size: float = 1 / 3,
    standardise: bool | None = None,
    balance: str = "none",
) -> Study:
    """A study that races solvers on data of the user's or, without any, on data that ship.

    Parameters
    ----------
    data : files, or names that `dualgap.data` knows
    target, positive : the label column of a file; of more than two classes, those that count as positive
    solvers : names; all that support the problem by default
    losses : a race for each

    Examples
    --------
    >>> from dualgap.lab.compare import comparison
    >>> study = comparison(solvers=["sdca", "pegasos"], losses=["hinge"])
    >>> [race.solvers for race in study.races]
    [('sdca', 'pegasos')]
    """
    data, wanted, losses, l2 = list(data) or list(SHIPPED), list(solvers), list(losses), list(l2)
    for name in wanted:
        if name not in REGISTRY:
            raise StudyError(f"there is no solver {name!r}; {suggest(name, REGISTRY)}")
    for loss in losses:
        if loss not in LOSSES:
            raise StudyError(f"there is no loss {loss!r}; {suggest(loss, LOSSES)}")
    races: list[dict[str, Any]] = []
    raced: list[str] = []
    refusals: dict[str, str] = {}
    for loss in losses:
        problem: dict[str, Any] = {
            "loss": loss,
            "intercept": intercept,
            **({"delta": delta} if loss == "smooth_hinge" else {}),
            **({"l1": l1} if l1 else {}),
        }
        able, refused = solvers_for({**problem, "l2": l2[0]})
        # "auto" hands over to one of the others, which is in the race already
        chosen = [name for name in wanted or able if name in able and (wanted or name != "auto")]
        refusals |= {name: why for name, why in refused.items() if name in wanted}
        raced += [name for name in chosen if name not in raced]
        if chosen:
            title = loss.replace("_", " ") + (f", δ = {delta:g}" if loss == "smooth_hinge" else "")
            budget = {"tol": tol, "epochs": epochs, "seconds": seconds, "evaluate": "geometric"}
            fixed = {"problem": {**problem, "l2": l2[0]}} if len(l2) == 1 else {"problem": problem, "grid": {"l2": list(l2)}}
            races.append({"id": loss, "title": title, "data": [], "solvers": chosen, **fixed, "budget": budget, "reference": False})
    left_out = {name: why for name, why in refusals.items() if name not in raced}
    if left_out:
        name, why = next(iter(left_out.items()))
        raise StudyError(f"{name} cannot be raced on this problem: {why}")
    shared = {"test_size": test_size, "standardise": "auto" if standardise is None else standardise, "balance": balance}
    entries = [{**_entry(name, target, list(positive)), **shared} for name in data]
    for race in races:
        race["data"] = [made["id"] for made in entries]
    called = [made.get("label") or made["name"] for made in entries]
    figures = [
        {
            "id": f"gap-{race['id']}",
            "kind": "convergence",
            "title": f"The certified gap against CPU time and epochs: {race['title']}",
            "caption": "Mean over runs; the band is one standard deviation.",
            "options": {
                "race": race["id"],
                "x": ["cpu_seconds", "epoch"],
                "y": "relative_gap",
                "x_log": True,
                **({"split": ["data", "l2"]} if len(l2) > 1 else {}),
            },
        }
        for race in races
    ]
    table = {
        "name": "compare",
        "title": f"Solvers compared on {' and '.join(called)}",
        "about": "Every solver that supports the problem, on the same data, with the same certificate.",
        "runs": runs,
        "seed": seed,
        "data": entries,
        "solvers": [{"id": name, "solver": name, "label": name.replace("_", " ")} for name in sorted(raced)],
        "races": races,
        "figures": figures,
    }
    return parse_study(table, "compare")


def _entry(name: str, target: str, positive: list[str]) -> dict[str, Any]:
    """A data set by name, or a file; a file is called by its name without the folder."""
    extra: dict[str, Any] = {"positive": positive} if positive else {}
    if Path(name).is_file():
        return {
            "id": name,
            "name": Path(name).name,
            "label": Path(name).name,
            "path": name,
            **({"target": target} if target else {}),
            **extra,
        }
    if name not in names() and (target or Path(name).suffix or len(Path(name).parts) > 1):
        raise StudyError(f"{name}: there is no such file")
    entry(name)  # an unknown name is an error that says which there are
    return {"id": name, "name": name, **extra}
