"""The solvers that a study may name: those of dualgap, those of other packages, and algorithms as the texts print them."""

from __future__ import annotations

from collections import ChainMap

from dualgap.lab.outside import LibLinear, LibSVM, SklearnSGD
from dualgap.lab.studies import algorithms
from dualgap.solvers import REGISTRY, Solver

__all__ = ["LINEUP", "OUTSIDE", "PAPERS"]

OUTSIDE: dict[str, type[Solver]] = {cls.name: cls for cls in (LibLinear, LibSVM, SklearnSGD)}
LINEUP: ChainMap[str, type[Solver]] = ChainMap(REGISTRY, OUTSIDE, algorithms())

# Where a method is from, as docs/references.md has it: what to call the paper, and its address. A report links to it.
PAPERS = {
    "apg": ("Beck and Teboulle 2009", "https://doi.org/10.1137/080716542"),
    "asdca": ("Shalev-Shwartz and Zhang 2013b", "https://arxiv.org/abs/1305.2581"),
    "dca": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "dual_coordinate": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "dual_gradient": ("Beck and Teboulle 2009", "https://doi.org/10.1137/080716542"),
    "liblinear": ("Hsieh et al. 2008", "https://doi.org/10.1145/1390156.1390208"),
    "libsvm": ("Chang and Lin 2011", "https://doi.org/10.1145/1961189.1961199"),
    "pegasos": ("Shalev-Shwartz et al. 2011", "https://doi.org/10.1007/s10107-010-0420-4"),
    "saga": ("Defazio et al. 2014", "https://arxiv.org/abs/1407.0202"),
    "sdca": ("Shalev-Shwartz and Zhang 2013", "https://arxiv.org/abs/1209.1873"),
    "sgd": ("Bottou 2010", "https://doi.org/10.1007/978-3-7908-2604-3_16"),
    "sklearn_sgd": ("Bottou 2010", "https://doi.org/10.1007/978-3-7908-2604-3_16"),
    "svrg": ("Xiao and Zhang 2014", "https://doi.org/10.1137/140961791"),
    "working_set": ("Chang and Lin 2011", "https://doi.org/10.1145/1961189.1961199"),
}
