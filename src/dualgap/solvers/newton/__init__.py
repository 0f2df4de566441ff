"""Second-order methods for linear problems: Newton, Newton by conjugate gradients, proximal Newton.

README.md has the algorithms, the papers and the constants.
"""

from __future__ import annotations

from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.newton_cg import NewtonCG
from dualgap.solvers.newton.prox_newton import ProxNewton

__all__ = ["Newton", "NewtonCG", "ProxNewton"]
