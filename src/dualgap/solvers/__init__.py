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

from dualgap.solvers.apg import APG
from dualgap.solvers.asdca import ASDCA
from dualgap.solvers.auto import Auto
from dualgap.solvers.base import REGISTRY, NotSupported, Solver, State, Support, Warm, get_solver, register
from dualgap.solvers.blocks import Blocks
from dualgap.solvers.dca import DCA
from dualgap.solvers.dual_coordinate import DualCoordinate
from dualgap.solvers.dual_gradient import DualGradient
from dualgap.solvers.newton import Newton
from dualgap.solvers.newton_cg import NewtonCG
from dualgap.solvers.pegasos import Pegasos
from dualgap.solvers.prox_newton import ProxNewton
from dualgap.solvers.saga import SAGA
from dualgap.solvers.sdca import SDCA
from dualgap.solvers.sgd import SGD
from dualgap.solvers.subgradient import Subgradient
from dualgap.solvers.svrg import SVRG
from dualgap.solvers.table import SolverRecord, SolverTable, solver_table
from dualgap.solvers.working_set import WorkingSet

__all__ = [
    "APG",
    "ASDCA",
    "DCA",
    "REGISTRY",
    "SAGA",
    "SDCA",
    "SGD",
    "SVRG",
    "Auto",
    "Blocks",
    "DualCoordinate",
    "DualGradient",
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
    "register",
]


class _Callable(ModuleType):
    """A package that is also a function: `dualgap.solvers()` is the table, `dualgap.solvers.sdca` still a module."""

    def __call__(self) -> SolverTable:
        return solver_table()


sys.modules[__name__].__class__ = _Callable
