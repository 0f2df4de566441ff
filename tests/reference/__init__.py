"""Naive twins in plain NumPy: slow, short, written from the formulas and from nothing of dualgap.

own_loss.py    a loss of a user
losses.py      φ, −φ', ψ and the exact coordinate step
objective.py   P(w, b), D(β), w(β) on dense arrays
solvers.py     one epoch of SDCA, of modified SGD, of Pegasos, with whole vectors recomputed at every step
primal.py      SAGA, SVRG and SGD step by step on dense vectors, and the wrong forms of them
optimum.py     the optimal value of a small problem by an interior-point method
"""

from reference.losses import REFERENCE_LOSSES, ReferenceLoss
from reference.objective import Model, dual_value, primal_value, soft, w_of_beta
from reference.optimum import optimum
from reference.own_loss import loss_of
from reference.solvers import modified_sgd_epoch, pegasos_epoch, sdca_epoch

__all__ = [
    "REFERENCE_LOSSES",
    "Model",
    "ReferenceLoss",
    "dual_value",
    "loss_of",
    "modified_sgd_epoch",
    "optimum",
    "pegasos_epoch",
    "primal_value",
    "sdca_epoch",
    "soft",
    "w_of_beta",
]
