"""Kernel expansions Σ aⱼ k(xⱼ, x) in float64, block by block: scores of training rows, decisions on new ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.core import is_sparse
from dualgap.kernels.function import Kernel
from dualgap.kernels.values import BLOCK, SUPPORTS, KernelBlocks, exact_in_float32

__all__ = ["Expansion", "expansion", "own_expansion"]

ROWS = 1 << 15  # rows that an expansion is evaluated on at once
SAME_WEIGHT = 1e-13  # relative difference of weights that counts as rounding
MOST_CHANGES = 8  # incremental sums in a row, before one from all weights removes the accumulated rounding


def expansion(kernel: Kernel, A: Any, B: Any, a: np.ndarray) -> np.ndarray:
    """Return Σⱼ aⱼ k(x, row j of B) for every row x of A, in float64; one column for each column of `a`."""
    support = np.flatnonzero(a if a.ndim == 1 else a.any(axis=1))
    out = np.zeros((A.shape[0], *a.shape[1:]))
    if kernel.name == "linear":
        _add_linear(A, B, a, support, out)
        return out
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
        blocks = KernelBlocks(kernel, block, np.float64, np.float32 if single else None, near=B)
        for start in range(0, len(support), SUPPORTS):
            part = support[start : start + SUPPORTS]
            if by_product:
                left = blocks.own(part) if A is B and rows >= len(out) else blocks.other(B[part])
                blocks.add_sums(left, a[part], total)
            else:
                total += kernel(block, B[part]) @ a[part]
    return out


def _add_linear(A: Any, B: Any, a: np.ndarray, support: np.ndarray, out: np.ndarray) -> None:
    """out += A·w with w = Σⱼ aⱼ·(row j of B): one pass over each, not a value for each pair of rows."""
    w = np.zeros((B.shape[1], *a.shape[1:]))
    for first in range(0, len(support), ROWS):
        part = support[first : first + ROWS]
        w += B[part].astype(np.float64, copy=False).T @ a[part]
    for first in range(0, len(out), ROWS):
        out[first : first + ROWS] += A[first : first + ROWS].astype(np.float64, copy=False) @ w


def own_expansion(kernel: Kernel, Z: Any, a: np.ndarray, near: Any = None) -> np.ndarray:
    """Return Σⱼ aⱼ k(row i of Z, row j of Z) for every i, in float64, one column for each column of `a`.

    For dense rows each value is computed once, not twice. `near`: rows that the origin of distances is computed from; None: Z.
    """
    if kernel.function is not None or kernel.name in ("linear", "precomputed") or is_sparse(Z):
        return expansion(kernel, Z, Z, a)
    out = np.zeros((Z.shape[0], *a.shape[1:]))
    blocks = KernelBlocks(kernel, Z, np.float64, np.float32 if exact_in_float32(Z) else None, near)
    for first in range(0, len(out), SUPPORTS):
        blocks.add_symmetric(first, min(first + SUPPORTS, len(out)), a, out)
    return out


class Expansion:
    """Scores K·a of the training rows in float64; a call at weights near the last ones sums the change only.

    A certificate often asks for the scores that a solver has just asked for, or for few changed weights. Changes at the level of rounding,
    as in a β made feasible, count as none while all of them together stay within the rounding of the sum itself.
    """

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel, self.X = kernel, X
        self._last = (np.zeros(X.shape[0]), np.zeros(X.shape[0]), 0)  # weights, their scores, incremental sums in a row

    def scores(self, a: np.ndarray) -> np.ndarray:
        """Return K·a."""
        last, scores, changes = self._last
        change = a - last
        total = float(np.abs(a).sum())
        change[np.abs(change) <= SAME_WEIGHT * np.abs(a)] = 0.0
        if float(np.abs(a - last - change).sum()) > SAME_WEIGHT * total:
            change = a - last
        moved = np.count_nonzero(change)
        if moved == 0:
            return scores.copy()
        if changes >= MOST_CHANGES or moved >= np.count_nonzero(a):
            last, scores, change, changes = np.zeros_like(a), np.zeros_like(scores), a, -1
        scores = scores + expansion(self.kernel, self.X, self.X, change)
        self._last = (last + change, scores, changes + 1)
        return scores.copy()
