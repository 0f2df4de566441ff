"""Arithmetic that knows of no problem: compilation, storage of rows, losses, penalties, linear algebra, root finding, threads, checks.

What needs labels or an objective belongs in `problem`; what evaluates kernel functions belongs in `kernels`.
"""

from __future__ import annotations

from dualgap.core import machine, moved, rows
from dualgap.core.cache_files import cache_folder
from dualgap.core.checks import count, is_number, is_sparse, is_whole, number, one_of, whole_number
from dualgap.core.jit import compiled, kernel, prefetch, sequential, wide_vectors
from dualgap.core.linalg import gram_of_rows, solve_positive
from dualgap.core.losses import LOSSES, Hinge, Logistic, SmoothHinge, SquaredHinge, make_loss, slopes, total_psi, total_value
from dualgap.core.machine import READING
from dualgap.core.order import draw, fresh_seed, natural_order, shuffle, shuffle_blocks
from dualgap.core.penalties import L2, ElasticNet, make_penalty
from dualgap.core.root import Bracket, bracket_root, illinois, nearest
from dualgap.core.rows import (
    CSR,
    Block,
    Gram,
    WithBias,
    accumulate,
    csr,
    gram,
    is_dense,
    layers,
    nbytes,
    rows_ahead,
    scores,
    some,
    stored,
    with_bias_of,
)
from dualgap.core.threads import (
    add_in_threads,
    blas_alone,
    one_processor,
    rows_per_thread,
    scores_in_threads,
    share,
    share_sum,
    sqnorms_in_threads,
)

__all__ = [
    "CSR",
    "L2",
    "LOSSES",
    "READING",
    "Block",
    "Bracket",
    "ElasticNet",
    "Gram",
    "Hinge",
    "Logistic",
    "SmoothHinge",
    "SquaredHinge",
    "WithBias",
    "accumulate",
    "add_in_threads",
    "blas_alone",
    "bracket_root",
    "cache_folder",
    "compiled",
    "count",
    "csr",
    "draw",
    "fresh_seed",
    "gram",
    "gram_of_rows",
    "illinois",
    "is_dense",
    "is_number",
    "is_sparse",
    "is_whole",
    "kernel",
    "layers",
    "machine",
    "make_loss",
    "make_penalty",
    "moved",
    "natural_order",
    "nbytes",
    "nearest",
    "number",
    "one_of",
    "one_processor",
    "prefetch",
    "rows",
    "rows_ahead",
    "rows_per_thread",
    "scores",
    "scores_in_threads",
    "sequential",
    "share",
    "share_sum",
    "shuffle",
    "shuffle_blocks",
    "slopes",
    "solve_positive",
    "some",
    "sqnorms_in_threads",
    "stored",
    "total_psi",
    "total_value",
    "whole_number",
    "wide_vectors",
    "with_bias_of",
]
