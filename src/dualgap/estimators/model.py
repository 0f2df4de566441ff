"""Model: what all estimators are. It has the parameters of a run and the door to what the certificate proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from dualgap.estimators.fitting import complete, fit_of
from dualgap.estimators.parameters import estimator
from dualgap.estimators.progress import CallbackSupportMixin
from dualgap.estimators.proof import Proof
from dualgap.proof import ProofError
from dualgap.solvers import Solver

__all__ = ["Model"]


@estimator
class Model(CallbackSupportMixin, BaseEstimator):
    """An estimator whose fit is a run, or several, to a certified gap.

    Parameters
    ----------
    tol : float
        Bound on the relative duality gap, gap / |objective|, of every problem solved. 0 runs to the end of the budget.
    max_iter : int
        Epochs (passes over the data) for each problem: each class, pair of classes or target. -1 for no limit, with kernels.
    max_time : float, optional
        Seconds for the whole fit.
    solver : str or solver object
        "auto", the name of a solver (`dualgap.solvers()` lists them), or an object such as `dualgap.SDCA(order="cyclic")`.
    random_state : int, RandomState or None
        With a kernel, "linear" too, None always trains the same model.
    verbose : int
        Above 0, each evaluation is logged at level INFO by the logger "dualgap" (to standard output where logging is not set up).
    atol : float
        Bound on the gap itself, in the units of `certificate_`: a fit has converged if it or `tol` is met. For objectives that tend to 0,
        as with separable classes and a large C, where a relative gap asks for more digits than float64 has.
    """

    tol: float = 1e-4
    max_iter: int = 1000
    max_time: float | None = None
    solver: str | Solver = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    atol: float = 0.0

    _proof: ClassVar[type[Proof]]  # what answers for the certificate

    @property
    def proof_(self) -> Any:
        """What the certificate proves of the exact model: `scores`, `support`, `features`, `save`; of classes also `labels`, `forget`, …"""
        return self._proof(self)

    def _loss(self) -> Any:
        """Return the loss of the problems."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the balls of the exact model are made, and the training data left out."""
        complete(self)
        state, fit = super().__getstate__(), fit_of(self)
        if fit.kept is not None and fit.balls is None:
            try:
                self.proof_.balls()
            except (ProofError, ValueError) as error:  # a model without a ball is saved all the same, with the reason
                fit.balls = str(error)
        return {**state, "_fit": replace(fit, kept=None)} if "_fit" in state else state
