"""First-order methods: SGD, Pegasos, SAGA, SVRG, APG, subgradient descent and projected dual gradient ascent.

What they share (step schedules, the bias, lazy proximal steps) lives here too.
"""

from __future__ import annotations

from dualgap.solvers.gradient.apg import APG
from dualgap.solvers.gradient.dual_gradient import DualGradient
from dualgap.solvers.gradient.pegasos import Pegasos
from dualgap.solvers.gradient.sgd import SGD
from dualgap.solvers.gradient.subgradient import Subgradient
from dualgap.solvers.gradient.variance_reduction import SAGA, SVRG

__all__ = ["APG", "SAGA", "SGD", "SVRG", "DualGradient", "Pegasos", "Subgradient"]
