"""The hinge with an l1 penalty alone is a linear program: restricted ones, solved by HiGHS, that grow by rows and columns.

README.md has the algorithm, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.linear_program.solver import LinearProgram, is_small_program

__all__ = ["LinearProgram", "is_small_program"]
