"""The solvers, one file an algorithm. Importing this package registers them all."""

from __future__ import annotations

from dualgap.solvers.base import REGISTRY, NotSupported, Solver, State, Support, Warm, get_solver, register
from dualgap.solvers.pegasos import Pegasos
from dualgap.solvers.sdca import SDCA

__all__ = ["REGISTRY", "SDCA", "NotSupported", "Pegasos", "Solver", "State", "Support", "Warm", "get_solver", "register"]
