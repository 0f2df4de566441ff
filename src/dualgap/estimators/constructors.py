"""Parameters of constructors: each is declared and described once, as a field of a dataclass, for all estimators that have it.

`estimator` makes the constructor of a class from its own fields and those of its bases, and completes the docstring: parameters that the
class does not describe itself are described as in the base that declares them.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

__all__ = ["FitParameters", "KernelParameters", "LinearParameters", "RunParameters", "estimator"]

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Return a class with a constructor that sets its fields, as scikit-learn's estimators have it, and a docstring for all of them."""
    made = dataclass(kw_only=True, repr=False, eq=False)(cls)
    if made.__doc__ is not None and not made.__doc__.startswith(f"{made.__name__}("):  # None with python -OO
        made.__doc__ = _completed(made)
    return made


def _completed(cls: Any) -> str:
    """Return the docstring with an entry for each field, in the order: its own entries, then those of the bases."""
    text = inspect.cleandoc(cls.__doc__)
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    assert match is not None, f"{cls.__name__}: its docstring has no section Parameters"
    own = _entries(match[1])
    described = {name for names in own for name in names}
    missing = [each.name for each in fields(cls) if each.name not in described]
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


@estimator
class RunParameters:
    """What a run may cost, and who hears of it.

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
    verbose : int
        Above 0, each evaluation is logged at level INFO by the logger "dualgap" (to standard output where logging is not set up).
    atol : float
        Bound on the gap itself, in the units of `certificate_`: a fit has converged if it or `tol` is met. For objectives that tend to 0,
        as with separable classes and a large C, where a relative gap asks for more digits than float64 has.
    """

    tol: float = 1e-4
    max_iter: int = 1000
    max_time: float | None = None
    solver: Any = "auto"
    random_state: Any = None
    verbose: int = 0
    atol: float = 0.0


@estimator
class FitParameters(RunParameters):
    """What all estimators of a penalised problem have.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as in scikit-learn.
    fit_intercept : bool
        Whether there is an intercept b.
    n_jobs : int, optional
        Threads over the problems, of which each class, pair of classes or target has one; -1 for all processors. None is 1.
    callbacks : list of functions, optional
        Each is called with a `dualgap.Progress` at every evaluation; one that returns True ends the fit.
    """

    C: float = 1.0
    fit_intercept: bool = True
    n_jobs: int | None = None
    callbacks: Any = None


@estimator
class LinearParameters(FitParameters):
    """What linear models have.

    Parameters
    ----------
    dual : ignored
        Accepted for code written for scikit-learn: in which space to work is the solver's business.
    intercept : {"free", "penalised"}
        Whether the intercept is left out of the penalty, or is the coefficient of a constant column `intercept_scaling`, as in
        LIBLINEAR and so in scikit-learn.
    intercept_scaling : float
        The constant of that column; without effect where intercept="free".
    l1_ratio : float in [0, 1]
        Share of the l1 penalty.
    warm_start : bool
        Whether `fit` starts from the model and the dual variables of the last fit.
    positive : bool
        Whether all coefficients must be at least 0.
    bounds : (low, high), optional
        The least and the largest value of the coefficients: two numbers, or two arrays with one number a feature; infinite or None where
        there is no such bound. low = high fixes a coefficient. They hold for each class against the rest, or for each target.
    monotonic_cst : array of -1, 0 or 1 for each feature, or dict of feature names, optional
        The sign of each coefficient: with 1 the score of the second of two classes, or the prediction, never falls if the feature rises,
        with -1 it never rises; 0 leaves it open. `positive`, `bounds` and `monotonic_cst` hold at the same time. The intercept has no
        bounds; l1_ratio must be below 1.
    """

    dual: Any = "auto"
    intercept: str = "free"
    intercept_scaling: float = 1.0
    l1_ratio: float = 0.0
    warm_start: bool = False
    positive: bool = False
    bounds: Any = None
    monotonic_cst: Any = None


@estimator
class KernelParameters:
    """The kernel and its matrix.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        A callable takes two collections of samples (whatever X is; arrays and SciPy matrices are read-only) and returns the matrix
        of their kernel values, real numbers. A precomputed matrix is taken as positive semidefinite up to the rounding of its entries.
        "linear" with solver="auto" is solved by the methods of `LinearSVC` and `LinearSVR`, in about their time.
    degree, gamma, coef0
        The kernel's parameters. gamma is a number, "scale" (1/(d·variance of X)) or "auto" (1/d).
    cache_size : float
        Megabytes (of 10⁶ bytes) for the kernel matrix of a problem. Where it takes more, its rows are computed as they are needed and
        kept while they fit.
    shrinking : ignored
        Accepted for code written for scikit-learn: whether to shrink is the solver's business.
    """

    kernel: Any = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    cache_size: float = 1000
    shrinking: Any = True
