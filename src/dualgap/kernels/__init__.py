"""Kernel functions, their values, sums of them, caches, approximations. No labels, losses or objective: those belong in `problem`.

Ways to kernel values:
- `Kernel(A, B)`: the whole matrix of two small sets of rows, in float64.
- `KernelBlocks`: values of some rows with all rows, block by block in threads, float32 or float64; the two below use it.
- `expansion`, `own_expansion`, `Expansion`: sums Σ aⱼ k(xⱼ, x) in float64, for scores and decisions.
- RowCache (solvers/working_set): single rows over the active rows, in the precision of the steps.
- `BlockedGram`: a matrix beyond `kernel_memory` as blocks of rows in float64, which coordinate methods read in any order.
"""

from __future__ import annotations

from dualgap.kernels.features import BLOCK, METHODS, Fourier, Nystroem
from dualgap.kernels.function import Kernel, make_kernel, squares
from dualgap.kernels.gram_cache import BlockedGram, add_rows, as_bytes, loaded, parts
from dualgap.kernels.sums import Expansion, expansion, own_expansion
from dualgap.kernels.values import SUPPORTS, KernelBlocks, scratch

__all__ = [
    "BLOCK",
    "METHODS",
    "SUPPORTS",
    "BlockedGram",
    "Expansion",
    "Fourier",
    "Kernel",
    "KernelBlocks",
    "Nystroem",
    "add_rows",
    "as_bytes",
    "expansion",
    "loaded",
    "make_kernel",
    "own_expansion",
    "parts",
    "scratch",
    "squares",
]
