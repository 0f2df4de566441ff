"""The working-set method for kernel machines.

README.md has the algorithm, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.working_set.solver import WorkingSet
from dualgap.solvers.working_set.stationary import StationaryPoint, stationary_point

__all__ = ["StationaryPoint", "WorkingSet", "stationary_point"]
