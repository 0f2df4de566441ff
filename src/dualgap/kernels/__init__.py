"""Kernel functions, their values by the block, sums of them, a bounded cache of the kernel matrix, feature maps.

Nothing here knows labels, losses or an objective: those belong in `problem`.
"""

from __future__ import annotations

from dualgap.kernels.features import BLOCK, METHODS, Fourier, Nystroem
from dualgap.kernels.function import Kernel, make_kernel, squares
from dualgap.kernels.gram_cache import BlockedGram, add_rows, as_bytes, loaded, parts
from dualgap.kernels.sums import Expansion, expansion, own_expansion
from dualgap.kernels.values import SUPPORTS, Panels, scratch

__all__ = [
    "BLOCK",
    "METHODS",
    "SUPPORTS",
    "BlockedGram",
    "Expansion",
    "Fourier",
    "Kernel",
    "Nystroem",
    "Panels",
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
