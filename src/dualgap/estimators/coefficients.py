"""Bounds on the coefficients of an estimator: `positive`, `bounds` and `monotonic_cst` turned into one interval for each feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualgap.problem import as_bounds

__all__ = ["coefficient_bounds", "refusal_of_bounds"]


def coefficient_bounds(model: Any, features: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and the largest value of each coefficient, None where nothing is bounded: all that was asked for holds at once."""
    if not _is_bounded(model):
        return None
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


def refusal_of_bounds(model: Any, reason: str) -> str | None:
    """Return a message with the bounds that the model asks for and the reason why they cannot be kept; None if it asks for none."""
    given = {"positive": bool(model.positive), "bounds": model.bounds is not None, "monotonic_cst": model.monotonic_cst is not None}
    return f"{' and '.join(name for name, is_given in given.items() if is_given)}: {reason}" if any(given.values()) else None


def _is_bounded(model: Any) -> bool:
    if not isinstance(model.positive, (bool, np.bool_)):
        raise ValueError(f"positive={model.positive!r} must be True or False")
    return bool(model.positive) or model.bounds is not None or model.monotonic_cst is not None


def _monotonic(model: Any, features: int) -> np.ndarray:
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


def _name(model: Any, j: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    return str(j) if names is None else repr(str(names[j]))
