"""Dual coordinate methods: SDCA, ASDCA, DCA, SDCA on streamed rows, and coordinate ascent on a precomputed Gram matrix.

The one coordinate step, the bias column of a free intercept and the extrapolation step live here.
"""

from __future__ import annotations

from dualgap.solvers.coordinate.ascent import Ascent, Coordinates, NoSums, ascend
from dualgap.solvers.coordinate.asdca import ASDCA
from dualgap.solvers.coordinate.bias import BiasColumn, free_scale
from dualgap.solvers.coordinate.dca import DCA
from dualgap.solvers.coordinate.dual_coordinate import DualCoordinate
from dualgap.solvers.coordinate.local import LocalAscent
from dualgap.solvers.coordinate.sdca import SDCA
from dualgap.solvers.coordinate.streamed import Blocks

__all__ = [
    "ASDCA",
    "DCA",
    "SDCA",
    "Ascent",
    "BiasColumn",
    "Blocks",
    "Coordinates",
    "DualCoordinate",
    "LocalAscent",
    "NoSums",
    "ascend",
    "free_scale",
]
