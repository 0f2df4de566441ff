"""What follows from certificates: models for every C of a range, the best setting of a cross-validation.

Here is arithmetic on results and their proofs. It knows no estimator and no file.
"""

from __future__ import annotations

from dualgap.answers.choice import Fold, Outcome, contest, decide_one_against_rest, decide_pairs
from dualgap.answers.path import SOLVED_SHARE, GuaranteedPath, walk
from dualgap.answers.votes import Pairs, class_winners_proven

__all__ = [
    "SOLVED_SHARE",
    "Fold",
    "GuaranteedPath",
    "Outcome",
    "Pairs",
    "class_winners_proven",
    "contest",
    "decide_one_against_rest",
    "decide_pairs",
    "walk",
]
