"""Second-order methods for linear problems: Newton, Newton by conjugate gradients, proximal Newton, an augmented Lagrangian.

README.md has the algorithms, the papers and the constants. `LossSums`, the rule of the proximal term and the conjugate gradients also serve
the methods on a store and on a cluster, and the multinomial one.
"""

from __future__ import annotations

from dualgap.solvers.newton.loss_sums import LossSums
from dualgap.solvers.newton.newton import Newton
from dualgap.solvers.newton.newton_cg import NewtonCG
from dualgap.solvers.newton.prox_newton import ProxNewton
from dualgap.solvers.newton.proximal import DECREASE, INNER_STEPS, ROUNDING, SOLVED, Prox, Values, backtrack, next_delta
from dualgap.solvers.newton.small import is_small
from dualgap.solvers.newton.ssnal import SSNAL
from dualgap.solvers.newton.systems import (
    LOOSEST,
    MOST_PRODUCTS,
    ConjugateGradients,
    conjugate_gradients,
    next_forcing,
    wanted_residual,
)

__all__ = [
    "DECREASE",
    "INNER_STEPS",
    "LOOSEST",
    "MOST_PRODUCTS",
    "ROUNDING",
    "SOLVED",
    "SSNAL",
    "ConjugateGradients",
    "LossSums",
    "Newton",
    "NewtonCG",
    "Prox",
    "ProxNewton",
    "Values",
    "backtrack",
    "conjugate_gradients",
    "is_small",
    "next_delta",
    "next_forcing",
    "wanted_residual",
]
