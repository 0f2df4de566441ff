"""Second-order methods for linear problems: Newton, Newton by conjugate gradients, proximal Newton, an augmented Lagrangian.

README.md has the algorithms, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.newton_cg import NewtonCG
from dualgap.solvers.newton.prox_newton import ProxNewton
from dualgap.solvers.newton.small import is_small
from dualgap.solvers.newton.ssnal import SSNAL

__all__ = ["SSNAL", "Newton", "NewtonCG", "ProxNewton", "is_small"]
