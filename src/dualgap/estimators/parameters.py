"""Parameters of estimators, checked: what scikit-learn's names mean for a problem and for a run."""

from __future__ import annotations

from typing import Any, NamedTuple

from dualgap.core import make_loss, number, one_of, whole_number
from dualgap.estimators.common import finite_C, fit_seed, invalid_parameters, penalties
from dualgap.estimators.fitting import Budget

__all__ = ["Parameters", "budget_of", "checked", "regression_loss"]

WITH_EPSILON = ("epsilon_insensitive", "squared_epsilon_insensitive")


class Parameters(NamedTuple):
    """C, the share of l1, the kind of intercept with its column's constant, and the budget of a fit."""

    C: float
    ratio: float
    intercept: str
    scale: float
    budget: Budget

    def strengths(self, total: float) -> tuple[float, float]:
        """Return (l2, l1) where the weights of the samples add up to `total`."""
        return penalties(self.C, self.ratio, total)


@invalid_parameters()
def budget_of(model: Any, solver: Any, max_epochs: int) -> Budget:
    """Check what a run of an estimator may cost; draws its seed."""
    return Budget(
        solver=solver,
        tol=number("tol", model.tol, "[0, 1]"),
        max_epochs=max_epochs,
        max_seconds=None if model.max_time is None else number("max_time", model.max_time),
        seed=fit_seed(model.random_state),
        n_jobs=model.n_jobs,
        atol=number("atol", getattr(model, "atol", 0.0), "[0, inf)"),
    )


@invalid_parameters()
def checked(model: Any) -> Parameters:
    """Check the parameters of a linear estimator; draws its seed."""
    C, ratio = finite_C(model.C), _ratio(model)
    budget = budget_of(model, model.solver, whole_number("max_iter", model.max_iter))
    one_of("intercept", model.intercept, ("free", "penalised"))
    kind = model.intercept if model.fit_intercept else "none"
    if kind == "penalised" and ratio == 1.0:
        raise ValueError("intercept='penalised' needs an l2 penalty, which it shares; use intercept='free' or l1_ratio < 1")
    return Parameters(C, ratio, kind, number("intercept_scaling", model.intercept_scaling), budget)


def _ratio(model: Any) -> float:
    penalty, ratio = getattr(model, "penalty", None), number("l1_ratio", model.l1_ratio, "[0, 1]")
    if one_of("penalty", penalty, (None, "l1", "l2")) is None:
        return ratio
    asked = 1.0 if penalty == "l1" else 0.0
    if ratio not in (0.0, asked):
        raise ValueError(f"penalty={penalty!r} and l1_ratio={model.l1_ratio!r} contradict each other; leave penalty at None")
    return asked


@invalid_parameters()
def regression_loss(model: Any) -> Any:
    """Return the loss object of an estimator; refuse one of classification."""
    takes_epsilon = isinstance(model.loss, str) and model.loss in WITH_EPSILON  # others do not use it, as kernels their `degree`
    loss = make_loss(model.loss, model.delta, model.epsilon if takes_epsilon else None, model.quantile)
    if not getattr(loss, "regression", False):
        raise ValueError(
            f"loss={model.loss!r} is a loss of classification; {type(model).__name__} takes 'epsilon_insensitive', "
            "'squared_epsilon_insensitive', 'huber', 'absolute', 'quantile', 'squared_error' or a ResidualLoss"
        )
    return loss
