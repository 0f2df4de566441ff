"""Kernel expansions Σ aⱼ k(xⱼ, x), exact in float64 and never more than a block of kernel values at once: scores of training rows,
decisions on new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core import is_sparse
from dualgap.kernels.function import Kernel
from dualgap.kernels.values import BLOCK, SUPPORTS, Panels, exact_in_float32

__all__ = ["Expansion", "expansion", "own_expansion"]

ROWS = 1 << 15  # rows that an expansion is evaluated on at once
ROUNDING = 1e-13  # relative differences of weights that leave their sum the same but for rounding
MOST_CHANGES = 8  # sums of changes after which a sum is made from nothing, so that rounding does not pile up


def expansion(kernel: Kernel, A: Any, B: Any, a: np.ndarray) -> np.ndarray:
    """Σⱼ aⱼ k(x, row j of B) for every row x of A, in float64, block by block; one sum for each column where `a` has several.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels.sums import expansion
    >>> from dualgap.kernels.function import make_kernel
    >>> X = np.array([[0.0], [1.0]])
    >>> expansion(make_kernel("poly", X, gamma=1.0, degree=2), X, X, np.array([1.0, 2.0]))
    array([0., 2.])
    """
    support = np.flatnonzero(a if a.ndim == 1 else a.any(axis=1))
    out = np.zeros((A.shape[0], *a.shape[1:]))
    if kernel.name == "precomputed":
        rows = max(BLOCK // A.shape[1], 1)
        for first in range(0, len(out), rows):
            block = A[first : first + rows]
            out[first : first + rows] = block @ a if 2 * len(support) > len(a) else block[:, support] @ a[support]
        return out
    by_product = kernel.function is None
    rows = ROWS if by_product else max(BLOCK // SUPPORTS, 1)
    single = by_product and exact_in_float32(B) and (A is B or exact_in_float32(A))
    for first in range(0, len(out), rows):
        block, total = A[first : first + rows], out[first : first + rows]
        panels = Panels(kernel, block, np.float64, np.float32 if single else None)
        for start in range(0, len(support), SUPPORTS):
            part = support[start : start + SUPPORTS]
            if by_product:
                left = panels.own(part) if A is B and rows >= len(out) else panels.other(B[part])
                panels.add(left, a[part], total)
            else:
                total += kernel(block, B[part]) @ a[part]
    return out


def own_expansion(kernel: Kernel, Z: Any, a: np.ndarray) -> np.ndarray:
    """Σⱼ aⱼ k(row i of Z, row j of Z) for every i, in float64: for arrays each value, which counts both ways, is computed once.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels.sums import own_expansion
    >>> from dualgap.kernels.function import make_kernel
    >>> own_expansion(make_kernel("linear"), np.array([[1.0], [3.0]]), np.array([1.0, 2.0]))
    array([ 7., 21.])
    """
    if kernel.function is not None or kernel.name == "precomputed" or is_sparse(Z):
        return expansion(kernel, Z, Z, a)
    out = np.zeros(Z.shape[0])
    panels = Panels(kernel, Z, np.float64, np.float32 if exact_in_float32(Z) else None)
    for first in range(0, len(out), SUPPORTS):
        panels.add_both(first, min(first + SUPPORTS, len(out)), a, out)
    return out


class Expansion:
    """Scores K·a of the training rows, exact in float64, where the last ones are known: only what has changed in a is summed.

    A solver that wants exact scores and the certificate of the same point ask for them one after the other, and the next point often
    differs from the last in few weights. A weight that differs by rounding alone, as in a β made feasible, counts as unchanged while
    all such differences together stay within the rounding of the sum itself.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.kernels.sums import Expansion
    >>> from dualgap.kernels.function import make_kernel
    >>> expansion = Expansion(make_kernel("linear"), np.array([[1.0], [2.0]]))
    >>> expansion.scores(np.array([1.0, 0.0])), expansion.scores(np.array([1.0, 1.0]))
    (array([1., 2.]), array([3., 6.]))
    """

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel, self.X = kernel, X
        self._known = (np.zeros(X.shape[0]), np.zeros(X.shape[0]), 0)  # weights, their scores, changes since a sum from nothing

    def scores(self, a: np.ndarray) -> np.ndarray:
        """K·a"""
        known, scores, changes = self._known
        change = a - known
        total = float(np.abs(a).sum())
        change[np.abs(change) <= ROUNDING * np.abs(a)] = 0.0
        if float(np.abs(a - known - change).sum()) > ROUNDING * total:
            change = a - known
        moved = np.count_nonzero(change)
        if moved == 0:
            return scores.copy()
        if changes >= MOST_CHANGES or moved >= np.count_nonzero(a):
            known, scores, change, changes = np.zeros_like(a), np.zeros_like(scores), a, -1
        scores = scores + expansion(self.kernel, self.X, self.X, change)
        self._known = (known + change, scores, changes + 1)
        return scores.copy()
