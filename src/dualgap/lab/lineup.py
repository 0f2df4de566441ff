"""The solvers that a study may name: those of dualgap, those of other packages, and algorithms as the texts print them."""

from __future__ import annotations

from collections import ChainMap

from dualgap.lab.outside import LibLinear, LibSVM, SklearnSGD
from dualgap.lab.printed.dual import PrintedCoordinate, PrintedSDCA
from dualgap.lab.printed.primal import PrintedPegasos, PrintedSAGA, PrintedSVRG, TextSGD
from dualgap.solvers import REGISTRY, Solver

__all__ = ["LINEUP", "OUTSIDE", "PRINTED"]

OUTSIDE: dict[str, type[Solver]] = {cls.name: cls for cls in (LibLinear, LibSVM, SklearnSGD)}
PRINTED: dict[str, type[Solver]] = {
    cls.name: cls for cls in (PrintedCoordinate, PrintedPegasos, PrintedSAGA, PrintedSDCA, PrintedSVRG, TextSGD)
}
LINEUP: ChainMap[str, type[Solver]] = ChainMap(REGISTRY, OUTSIDE, PRINTED)
