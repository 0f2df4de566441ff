"""Model: what all estimators are: the parameters of a run, what a fit leaves behind, the door to what the certificate proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from dualgap.estimators.parameters import estimator
from dualgap.estimators.progress import CallbackSupportMixin
from dualgap.proof import ProofError
from dualgap.solvers import Solver

__all__ = ["Fit", "Kept", "Later", "Model", "complete", "fit_of"]


@dataclass(frozen=True)
class Kept:
    """What `fit` was given, by reference, and once it has ended the dual variables of its problems."""

    X: object
    y: object
    sample_weight: ArrayLike | None
    duals: Sequence[Any] | None = None
    treated: Any = None  # of an indefinite kernel: the matrix trained on, see `indefinite`


@dataclass
class Fit:
    """What a fit leaves behind besides its public attributes; the attribute `_fit` of an estimator, new with each fit."""

    n_rows: int = 0  # of the data of `support_` and `dual_coef_`; 0 where no dual variables were found
    later: Callable[[], dict[str, Any]] | None = None  # makes the attributes that nobody has asked for yet
    kept: Kept | None = None  # the training data; not pickled
    balls: Any = None  # of the exact models, once made; or the reason why a saved model has none
    streams: Sequence[Any] = ()  # of partial_fit


class Later:
    """Compute a fitted attribute on first access. `fit` sets `_fit.later`, a function that returns all of them.

    A value that the user assigns is kept. A search over parameters fits many small models and reads few of their attributes.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        complete(model)
        if self.name not in model.__dict__:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        return model.__dict__[self.name]


def complete(model: BaseEstimator) -> None:
    """Make the attributes that nobody has asked for yet."""
    fit = fit_of(model)
    if fit.later is not None:
        for name, value in fit.later().items():
            model.__dict__.setdefault(name, value)
        fit.later = None


def fit_of(model: BaseEstimator) -> Fit:
    """Return what the last fit has left behind; nothing before the first one."""
    fit: Fit = getattr(model, "_fit", None) or Fit()
    return fit


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

    _proof: ClassVar[type[Any] | None] = None  # answers for the certificate, where that tells where the exact model is

    @property
    def proof_(self) -> Any:
        """What the certificate proves of the exact model: `scores`, `support`, `features`, `save`; of classes also `labels`, `forget`, …"""
        if self._proof is None:
            raise AttributeError(f"{type(self).__name__} has no proof_: nothing is proven of where its exact model is")
        return self._proof(self)

    def _keeps_all_rows(self) -> str | None:
        """Return why the exact model without some of the training rows has no bound, as the end of a sentence; None if it has."""
        return None

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
