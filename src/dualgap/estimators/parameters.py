"""Parameters of estimators: declared once for all that have them, and checked: what scikit-learn's names mean for a problem and a run.

A parameter is a field of a dataclass. `estimator` makes the constructor of a class from its own fields and those of its bases, and
completes the docstring: parameters that the class does not describe are described as in the base that declares them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError

from dualgap.core import (
    is_whole,
    make_loss,
    number,
    one_of,
    whole_number,
)
from dualgap.problem import as_bounds, from_C
from dualgap.solvers import Solver

__all__ = [
    "Budget",
    "Loss",
    "Parameters",
    "budget_of",
    "checked",
    "coefficient_bounds",
    "estimator",
    "finite_C",
    "fit_seed",
    "intercept_of",
    "invalid_parameters",
    "is_bounded",
    "refusal_of_bounds",
    "regression_loss",
]

Loss = str | tuple[Any, ...]  # a name, or a loss object, which is a NamedTuple
T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Return a class with a constructor that sets its fields, as scikit-learn's estimators have it, and a docstring for all of them."""
    made = dataclass(kw_only=True, repr=False, eq=False)(cls)
    if made.__doc__ is not None and not made.__doc__.startswith(f"{made.__name__}("):  # None with python -OO
        made.__doc__ = _completed(made)
    return made


def _completed(cls: type) -> str:
    """Return the docstring with an entry for each field, in the order: its own entries, then those of the bases."""
    text = inspect.cleandoc(cls.__doc__ or "")
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    assert match is not None, f"{cls.__name__}: its docstring has no section Parameters"
    own = _entries(match[1])
    described = {name for names in own for name in names}
    missing = [each.name for each in fields(cls) if each.init and each.name not in described]  # others are set by `fit`
    for base in cls.__mro__[1:]:
        section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", inspect.cleandoc(base.__doc__ or ""), re.S | re.M)
        for names, entry in _entries(section[1]).items() if section and hasattr(base, "__dataclass_fields__") else ():
            if any(name in missing for name in names):
                own[names] = entry
                missing = [name for name in missing if name not in names]
    assert not missing, f"{cls.__name__}: the parameters {missing} are not described"
    return text[: match.start(1)] + "\n".join(own.values()) + text[match.end(1) :]


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Return the entries of a section of a numpydoc docstring by the names that they describe."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        found[tuple(re.split(r",\s+", entry.split("\n")[0].split(" : ")[0]))] = entry
    return found


# ---------------------------------------------------------------------------------------------------------------- parameters


@contextmanager
def invalid_parameters() -> Iterator[None]:
    """Raise the ValueErrors of checks of parameters as scikit-learn's InvalidParameterError, which is one."""
    try:
        yield
    except ValueError as error:
        raise InvalidParameterError(str(error)) from None


def fit_seed(random_state: object, default: int | None = None) -> int:
    """The seed of a fit: the number given, or one drawn from the generator given (scikit-learn's convention).

    None is `default` where there is one: scikit-learn's kernel machines train without random numbers.
    """
    if random_state is None and default is not None:
        return default
    if is_whole(random_state) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def finite_C(C: object) -> float:
    """Check C; say of C=inf, the hard margin or tube, what comes to the same."""
    if isinstance(C, (float, np.floating)) and np.inf == C:
        raise ValueError(
            "C=inf must be finite. With the hinge or the epsilon-insensitive loss, a C above the largest |dual_coef_| has the model of "
            "C=inf, the hard margin, if there is one. Give C=1e3, or up to 1e6; with a much larger C its objective is too near to 0 for a "
            "relative gap in float64"
        )
    return number("C", C)


@dataclass(frozen=True)
class Budget:
    """How a fit is to be run: solver, tolerance, limits of the whole fit, seed of every problem, threads."""

    solver: str | Solver
    tol: float
    max_epochs: int
    max_seconds: float | None
    seed: int
    n_jobs: int | None
    atol: float = 0.0


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
        found = from_C(self.C, total, self.ratio)
        return found["l2"], found["l1"]


@invalid_parameters()
def budget_of(model: BaseEstimator, solver: str | Solver, max_epochs: int, seed: int | None = None) -> Budget:
    """Check what a run of an estimator may cost; draws its seed, or takes the one given where `random_state` is None."""
    return Budget(
        solver=solver,
        tol=number("tol", model.tol, "[0, 1]"),
        max_epochs=max_epochs,
        max_seconds=None if model.max_time is None else number("max_time", model.max_time),
        seed=fit_seed(model.random_state, seed),
        n_jobs=model.n_jobs,
        atol=number("atol", model.atol, "[0, inf)"),
    )


@invalid_parameters()
def checked(model: BaseEstimator) -> Parameters:
    """Check the parameters of a linear estimator; draws its seed."""
    C, ratio = finite_C(model.C), _ratio(model)
    budget = budget_of(model, model.solver, whole_number("max_iter", model.max_iter))
    one_of("intercept", model.intercept, ("free", "penalised"))
    kind = model.intercept if model.fit_intercept else "none"
    if kind == "penalised" and ratio == 1.0:
        raise ValueError("intercept='penalised' needs an l2 penalty, which it shares; use intercept='free' or l1_ratio < 1")
    return Parameters(C, ratio, kind, number("intercept_scaling", model.intercept_scaling), budget)


def _ratio(model: BaseEstimator) -> float:
    penalty, ratio = model.penalty, number("l1_ratio", model.l1_ratio, "[0, 1]")
    if one_of("penalty", penalty, (None, "l1", "l2")) is None:
        return ratio
    asked = 1.0 if penalty == "l1" else 0.0
    if ratio not in (0.0, asked):
        raise ValueError(f"penalty={penalty!r} and l1_ratio={model.l1_ratio!r} contradict each other; leave penalty at None")
    return asked


@invalid_parameters()
def regression_loss(model: BaseEstimator) -> Any:
    """Return the loss object of an estimator; refuse one of classification."""
    takes_epsilon = isinstance(model.loss, str) and model.loss in WITH_EPSILON  # others do not use it, as kernels their `degree`
    loss = make_loss(model.loss, model.delta, model.epsilon if takes_epsilon else None, model.quantile)
    if not getattr(loss, "regression", False):
        raise ValueError(
            f"loss={model.loss!r} is a loss of classification; {type(model).__name__} takes 'epsilon_insensitive', "
            "'squared_epsilon_insensitive', 'huber', 'absolute', 'quantile', 'squared_error' or a ResidualLoss"
        )
    return loss


def intercept_of(model: BaseEstimator) -> str:
    """Return the kind of intercept that an estimator asks for."""
    kind: str = one_of("intercept", model.intercept, ("free", "penalised"))
    return kind if model.fit_intercept else "none"


def coefficient_bounds(model: BaseEstimator, features: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and the largest value of each coefficient: all that was asked for holds at once."""
    low, high = (
        np.array(end) for end in as_bounds(model.bounds, features) or (np.full(features, -np.inf), np.full(features, np.inf))
    )
    signs = np.ones(features) if model.positive else np.zeros(features)
    for name, wanted in (("positive", signs), ("monotonic_cst", _monotonic(model, features))):
        low[wanted > 0] = np.maximum(low[wanted > 0], 0.0)
        high[wanted < 0] = np.minimum(high[wanted < 0], 0.0)
        if (empty := np.flatnonzero(low > high)).size:
            j = int(empty[0])
            raise ValueError(
                f"{name} and the other bounds of feature {_name(model, j)} contradict each other: no coefficient is at least {low[j]:g} "
                f"and at most {high[j]:g}"
            )
    return as_bounds((low, high), features)


def refusal_of_bounds(model: BaseEstimator, reason: str) -> str:
    """Return a message with the bounds that the model asks for and the reason why they cannot be kept."""
    given = {"positive": bool(model.positive), "bounds": model.bounds is not None, "monotonic_cst": model.monotonic_cst is not None}
    return f"{' and '.join(name for name, is_given in given.items() if is_given)}: {reason}"


def is_bounded(model: BaseEstimator) -> bool:
    """Return whether a linear estimator asks for bounds of its coefficients."""
    if not isinstance(model.positive, (bool, np.bool_)):
        raise ValueError(f"positive={model.positive!r} must be True or False")
    return bool(model.positive) or model.bounds is not None or model.monotonic_cst is not None


def _monotonic(model: BaseEstimator, features: int) -> np.ndarray:
    """Return −1, 0 or 1 for each feature, as scikit-learn reads monotonic_cst: an array, or a dict by the names of features."""
    given = model.monotonic_cst
    if given is None:
        return np.zeros(features)
    if isinstance(given, Mapping):
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            raise ValueError(
                "monotonic_cst is a dict by feature names, but X has none; give X as a data frame, or an array of -1, 0, 1"
            )
        places = {name: j for j, name in enumerate(names)}
        unknown = [name for name in given if name not in places]
        if unknown:
            raise ValueError(f"monotonic_cst has the feature {unknown[0]!r}, which X does not have; its features are {list(names)}")
        values = np.zeros(features)
        for name, value in given.items():
            values[places[name]] = value if value in (-1, 0, 1) else np.nan
    else:
        values = np.asarray(given)
        if values.shape != (features,):
            raise ValueError(
                f"monotonic_cst has shape {values.shape}, but X has {features} features; give one of -1, 0, 1 for each"
            )
    wrong = np.flatnonzero(~np.isin(values, (-1, 0, 1)))
    if wrong.size:
        j = int(wrong[0])
        shown = given[model.feature_names_in_[j]] if isinstance(given, Mapping) else values[j]
        raise ValueError(f"monotonic_cst of feature {_name(model, j)} is {shown}; it must be -1, 0 or 1")
    return values.astype(np.float64)


def _name(model: BaseEstimator, j: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    return str(j) if names is None else repr(str(names[j]))
