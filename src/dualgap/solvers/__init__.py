"""The solvers, one file an algorithm. Importing this package registers them all; calling it lists what there is.

Examples
--------
>>> import dualgap
>>> dualgap.solvers()["asdca"].losses
('smooth_hinge', 'squared_hinge', 'logistic')
>>> dualgap.solvers.get_solver("sdca")
SDCA(order='permutation', output='last', first_epoch='sdca')
"""

from __future__ import annotations

import sys
from types import ModuleType

from dualgap.solvers.auto import Auto
from dualgap.solvers.base import REGISTRY, NotSupported, Solver, State, Support, Warm, get_solver, register, require
from dualgap.solvers.coordinate import ASDCA, DCA, SDCA, Blocks, DualCoordinate, LocalAscent
from dualgap.solvers.gradient import APG, SAGA, SGD, SVRG, DualGradient, Pegasos, Subgradient
from dualgap.solvers.newton import SSNAL, Newton, NewtonCG, ProxNewton
from dualgap.solvers.table import SolverRecord, SolverTable, solver_table
from dualgap.solvers.working_set import Box, WorkingSet, minimise_whole

__all__ = [
    "APG",
    "ASDCA",
    "DCA",
    "REGISTRY",
    "SAGA",
    "SDCA",
    "SGD",
    "SSNAL",
    "SVRG",
    "Auto",
    "Blocks",
    "Box",
    "DualCoordinate",
    "DualGradient",
    "LocalAscent",
    "Newton",
    "NewtonCG",
    "NotSupported",
    "Pegasos",
    "ProxNewton",
    "Solver",
    "SolverRecord",
    "SolverTable",
    "State",
    "Subgradient",
    "Support",
    "Warm",
    "WorkingSet",
    "get_solver",
    "minimise_whole",
    "register",
    "require",
    "solver_table",
]


class _Callable(ModuleType):
    """A package that is also a function: `dualgap.solvers()` is the table, `dualgap.solvers.sdca` still a module."""

    def __call__(self) -> SolverTable:
        return solver_table()


sys.modules[__name__].__class__ = _Callable
