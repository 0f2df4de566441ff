"""Fewer numbers than X has, where it has more columns than rows: its Gram matrix, or shorter rows with the same inner products.

Gram matrix     XXᵀ, for dual methods that work on its rows rather than on rows of X
span            rows L with LLᵀ = XXᵀ: coordinates in the space that the rows span. The best w lies in it, so that the problem on the rows
                of L, which have at most n numbers, has the same dual variables
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from dualgap.core import blas_alone, gram, is_sparse
from dualgap.kernels import make_kernel
from dualgap.problem import Problem

__all__ = ["LARGEST", "forming_passes", "inner_products", "matrix_bytes", "nonzeros", "on_gram", "on_span"]

LARGEST = 20_000  # rows: the one limit on the matrix's memory, 3.2 GB of float64
COLUMNS = 4096  # columns of X that are multiplied at a time, which bounds the float64 copy of float32 data


def matrix_bytes(n: int) -> str:
    """Return the memory of n² float64 as text."""
    return f"{8 * n * n / 1e9:.3g} GB"


def nonzeros(problem: Problem) -> int:
    """Return how many numbers X stores."""
    X: Any = problem.X
    return int(X[: problem.n].nnz) if is_sparse(X) else problem.n * problem.d


def inner_products(problem: Problem) -> np.ndarray:
    """Return XXᵀ in float64, whatever the data's type: a matrix rounded to float32 would stop a method near a gap of 1e-6."""
    X: Any = problem.X[: problem.n]  # a problem's head keeps the whole X but has fewer rows
    if is_sparse(X):
        X = X.astype(np.float64, copy=False)
        return np.ascontiguousarray((X @ X.T).toarray())
    product = np.zeros((problem.n, problem.n))
    for first in range(0, problem.d, COLUMNS):
        part = X[:, first : first + COLUMNS].astype(np.float64, copy=False)
        product += part @ part.T
    return product


def forming_passes(problem: Problem) -> float:
    """Return the cost of forming XXᵀ in passes over the rows: each row meets every other once."""
    return 0.0 if problem.kernel is not None else 0.5 * (problem.n + 1)


def on_gram(problem: Problem) -> Problem:
    """Return the problem over the rows of XXᵀ, as one with the linear kernel; a kernel problem comes back as it is."""
    if problem.kernel is not None:
        return problem
    return problem.replace(kernel=make_kernel("linear"), rows=gram(inner_products(problem)))


def on_span(problem: Problem) -> Problem:
    """Return the problem over rows of at most n numbers with the same inner products as those of X: LLᵀ = XXᵀ by Cholesky with pivots."""
    with blas_alone:
        factor, pivots, rank, _ = dpstrf(inner_products(problem), lower=1)
    rows = np.zeros((problem.n, max(int(rank), 1)))
    rows[pivots - 1] = np.tril(factor)[:, : rows.shape[1]]
    return problem.replace(X=rows, d=rows.shape[1])
