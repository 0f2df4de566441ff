"""The objective: `Problem`, the checks that turn a user's inputs into arrays, and the scaling of C, alpha and λ.

How good a model is belongs in `proof`; how to find one belongs in `solvers`.
"""

from __future__ import annotations

from dualgap.problem import scaling
from dualgap.problem.inputs import (
    all_finite,
    as_bounds,
    as_features,
    as_labels,
    as_vector,
    as_weights,
    check_finite,
    encode_labels,
    is_dask,
)
from dualgap.problem.problem import INTERCEPTS, Problem, Samples, Shared, by_turns, check_intercept, normalised, target_offset
from dualgap.problem.scaling import from_C, from_sum_of_losses

__all__ = [
    "INTERCEPTS",
    "Problem",
    "Samples",
    "Shared",
    "all_finite",
    "as_bounds",
    "as_features",
    "as_labels",
    "as_vector",
    "as_weights",
    "by_turns",
    "check_finite",
    "check_intercept",
    "encode_labels",
    "from_C",
    "from_sum_of_losses",
    "is_dask",
    "normalised",
    "scaling",
    "target_offset",
]
