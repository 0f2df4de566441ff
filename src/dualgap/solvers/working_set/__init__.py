"""The working-set method for kernel machines.

README.md has the algorithm, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.working_set.solver import WorkingSet

__all__ = ["WorkingSet"]
