"""Squared distances in float64 for the Gaussian kernel: from products of rows near an origin, or from differences.

‖x − z‖² = ‖x‖² + ‖z‖² − 2 x·z is fast, since a BLAS computes the products, and loses digits where rows lie farther from zero than from each
other. Distances do not depend on the origin. So columns that lie far from zero are moved by their mean s:
- The difference x − s is exact if s/2 ≤ x ≤ 2s (Sterbenz), as it is for nearly all entries of such a column. Any other entry is rounded by
  at most u|x − s|, u = 2⁻⁵³.
- The exponent γ‖x − z‖² is then off by at most δ = γu(d + 10)(‖x − s‖ + ‖z − s‖)² (Higham 2002, docs/references.md), with the rounding
  of x − s included: it is u(‖x − s‖ + ‖z − s‖)‖x − z‖·2γ at most. The kernel value is off by a factor in [e^−δ, e^δ].
- Each place that computes values may choose its own s: all of them are within that bound of the same kernel.
Where δ could exceed MOST_DELTA even so (clusters far from each other, a large γ), distances are summed from differences, whose error is
relative: γ‖x − z‖²·u(d + 2). That takes several times as long.

So a value k of dense rows is never off by more than SURE_RELATIVE·k + 2u(d + 20):
- From differences, t = γ‖x − z‖² is off by u(d + 2)t and k = e^−t by less than t·e^−t·u(d + 20) < u(d + 20).
- From products, the rows on one side have 4γu(d + 10)‖x − s‖² ≤ MOST_DELTA. If ‖z − s‖ ≤ 3‖x − s‖, then δ ≤ 4·MOST_DELTA. Otherwise
  ‖x − z‖ ≥ ½(‖x − s‖ + ‖z − s‖), so δ ≤ 4u(d + 10)t and k is off by less than 4t·e^−t·u(d + 20) < 2u(d + 20).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from dualgap.core import is_sparse

__all__ = ["distance_error", "half_distances", "needs_differences", "origin_of", "shifted", "squares"]

SAMPLE = 256  # rows that the origin is computed from
FAR = 4.0  # |mean| / standard deviation beyond which a column lies far from zero; nearer ones lose four bits at most and stay as they are
MOST_DELTA = 1e-9  # error of an exponent beyond which distances are summed from differences
SURE_RELATIVE = 1e-8  # relative error of a value beyond which none is off, but for 2u(d + 20)
ROUNDOFF = 2.0**-53


def squares(A: Any) -> np.ndarray:
    """Return ‖a‖² of each row a, in float64."""
    if is_sparse(A):
        A = A.astype(np.float64, copy=False)  # squares in float32 would lose half of the digits, or overflow
        return np.asarray(A.multiply(A).sum(axis=1)).reshape(-1)
    return np.einsum("ij,ij->i", A, A, dtype=np.float64)


def origin_of(rows: Any) -> np.ndarray | None:
    """Return the point that rows should be moved by: the mean in columns far from zero, 0 in the others; None if no column is."""
    if rows.shape[0] == 0:
        return None
    sample = rows[:: 1 + (rows.shape[0] - 1) // SAMPLE]
    sample = sample.toarray() if is_sparse(sample) else sample
    mean = sample.mean(axis=0, dtype=np.float64)
    far = np.abs(mean) > FAR * np.sqrt(np.square(sample - mean).mean(axis=0))
    return np.where(far, mean, 0.0) if far.any() else None


def shifted(rows: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return rows − origin in float64."""
    return np.subtract(rows, origin, dtype=np.float64)


def distance_error(gamma: float, largest: float, columns: int) -> float:
    """Return δ for rows of d columns whose squared lengths, from the origin, are at most `largest`."""
    return 4.0 * gamma * ROUNDOFF * (columns + 10) * largest


def needs_differences(gamma: float, lengths: np.ndarray, columns: int) -> bool:
    """Whether exponents from products of rows with these squared lengths could be off by more than MOST_DELTA."""
    return not distance_error(gamma, float(lengths.max(initial=0.0)), columns) <= MOST_DELTA


def half_distances(A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return −½‖a − b‖² for the rows a of A and b of B, from differences."""
    out = cdist(A, B, "sqeuclidean", out=out)
    out *= -0.5
    return out
