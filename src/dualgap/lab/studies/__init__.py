"""The studies that come with the package, a folder each. The lab finds them here and knows none of them by name.

A folder has study.toml (data, solvers, races, figures, tables), statements.toml (what the text says, and what it prints wrongly) and
formulas.json (its formulas as MathML, by `python tools/formulas.py`). What only this study needs in Python are modules of these names:

- printed.py: algorithms as the text prints them, in ALGORITHMS
- measures.py: what it measures of a model, functions of problem, data, w and b, in MEASURES
- data.py: data sets that `dualgap.data` does not have, in DATA
- figures.py: kinds of figures, by `register_kind`
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dualgap.data import CATALOGUE, DataSet, Entry
from dualgap.data import load as load_entry
from dualgap.lab.studies import printed
from dualgap.solvers import Solver

__all__ = ["algorithms", "catalogue", "formulas", "load", "measures", "modules", "study_names", "table_of"]

HERE = Path(__file__).parent


def study_names() -> list[str]:
    """Return the names of the studies that come with the package.

    Examples
    --------
    >>> from dualgap.lab import study_names
    >>> len(study_names())
    5
    """
    return sorted(path.parent.name.replace("_", "-") for path in HERE.glob("*/study.toml"))


def table_of(name: str) -> dict[str, Any]:
    """Return what the files of a study say, as one table."""
    folder = HERE / name.replace("-", "_")
    texts = ((folder / file).read_text(encoding="utf-8") for file in ("study.toml", "statements.toml"))
    return {key: value for text in texts for key, value in tomllib.loads(text).items()}


@cache
def formulas() -> dict[str, str]:
    """Return the MathML of each formula in the studies, by its TeX."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*/formulas.json")))
    return {tex: mathml for text in texts for tex, mathml in json.loads(text).items()}


def modules(name: str) -> list[ModuleType]:
    """Return the modules of that name that the studies have."""
    return [import_module(f"{__name__}.{path.parent.name}.{name}") for path in sorted(HERE.glob(f"*/{name}.py"))]


@cache
def algorithms() -> dict[str, type[Solver]]:
    """Return the algorithms as the texts print them, by name."""
    return {cls.name: cls for module in (printed, *modules("printed")) for cls in module.ALGORITHMS}


@cache
def measures() -> dict[str, Callable[..., float]]:
    """Return what the studies measure of models, by name."""
    return {name: function for module in modules("measures") for name, function in module.MEASURES.items()}


@cache
def catalogue() -> Mapping[str, Entry]:
    """Return every data set that a study can name: those of `dualgap.data`, and those of the studies."""
    return CATALOGUE | {entry.name: entry for module in modules("data") for entry in module.DATA}


def load(name: str, **options: Any) -> DataSet:
    """Load a data set by name, as `dualgap.data.load` does, or one that only a study has."""
    return load_entry(name, catalogue=catalogue(), **options)
