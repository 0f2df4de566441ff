"""The working-set method for kernel machines.

README.md has the algorithm, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.working_set.dual_box import Box
from dualgap.solvers.working_set.solver import WorkingSet
from dualgap.solvers.working_set.stationary import StationaryPoint, stationary_point
from dualgap.solvers.working_set.whole import minimise_whole

__all__ = ["Box", "StationaryPoint", "WorkingSet", "minimise_whole", "stationary_point"]
