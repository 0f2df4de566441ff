"""Kernel functions, their values, sums of them, a bounded cache of the kernel matrix, approximations. No labels, losses or objective.

README.md says which way to a kernel value is for what.
"""

from __future__ import annotations

from dualgap.kernels.distances import SURE_RELATIVE, distance_error, origin_of, squares
from dualgap.kernels.features import FEATURE_BLOCK, METHODS, Fourier, Nystroem
from dualgap.kernels.function import Kernel, call_kernel, make_kernel
from dualgap.kernels.gram_cache import BlockedGram, add_rows, as_bytes, load_block, split_order
from dualgap.kernels.spectrum import WHOLE_SPECTRUM, SpectrumClip, SpectrumShift, extreme_eigenvalues, is_semidefinite, rounding_of
from dualgap.kernels.sums import Expansion, expansion, own_expansion
from dualgap.kernels.values import SUPPORTS, Distances, KernelBlocks, distances_of, exact_in_float32, product_terms, scratch

__all__ = [
    "FEATURE_BLOCK",
    "METHODS",
    "SUPPORTS",
    "SURE_RELATIVE",
    "WHOLE_SPECTRUM",
    "BlockedGram",
    "Distances",
    "Expansion",
    "Fourier",
    "Kernel",
    "KernelBlocks",
    "Nystroem",
    "SpectrumClip",
    "SpectrumShift",
    "add_rows",
    "as_bytes",
    "call_kernel",
    "distance_error",
    "distances_of",
    "exact_in_float32",
    "expansion",
    "extreme_eigenvalues",
    "is_semidefinite",
    "load_block",
    "make_kernel",
    "origin_of",
    "own_expansion",
    "product_terms",
    "rounding_of",
    "scratch",
    "split_order",
    "squares",
]
