"""Running a solver: the driver loop, evaluation, stopping rules, the trace, and `certify` for models from elsewhere.

The arithmetic of a method belongs in `solvers`, what follows from a certificate in `answers`, what scikit-learn expects in `estimators`.
"""

from __future__ import annotations

from dualgap.run.certifying import certify, certify_with_dual
from dualgap.run.deciding import Deciding, decide_rows
from dualgap.run.driver import Progress, drive, minimise, prepare_solver, schedule
from dualgap.run.evaluation import SolverRun
from dualgap.run.nu import NuResult, minimise_nu
from dualgap.run.pairs import Pairs, minimise_pairs, pairs_of
from dualgap.run.stepper import Best, Evaluation, Stepper
from dualgap.run.trace import SUCCESSES, Status, Trace
from dualgap.run.trained import Trained

__all__ = [
    "SUCCESSES",
    "Best",
    "Deciding",
    "Evaluation",
    "NuResult",
    "Pairs",
    "Progress",
    "SolverRun",
    "Status",
    "Stepper",
    "Trace",
    "Trained",
    "certify",
    "certify_with_dual",
    "decide_rows",
    "drive",
    "minimise",
    "minimise_nu",
    "minimise_pairs",
    "pairs_of",
    "prepare_solver",
    "schedule",
]
