"""What follows from a certificate: `solve` and its `Result`, rows and features that are settled, models for every C, a proven choice of C,
labels by votes, and the exact model of changed data: leave-one-out, rows forgotten.

Here is arithmetic on trained models and their proofs. It knows no estimator and no file.
"""

from __future__ import annotations

from dualgap.answers.approximation import ApproximateResult, Approximation, approximate
from dualgap.answers.changed import evidence_of
from dualgap.answers.choice import Fold, Outcome, contest
from dualgap.answers.forgetting import Forgettable, Receipt, row_numbers
from dualgap.answers.leave_one_out import LeaveOneOut, left_out_scores
from dualgap.answers.path import SOLVED_SHARE, GuaranteedPath, walk
from dualgap.answers.ranges import mixed_coef
from dualgap.answers.result import Result
from dualgap.answers.settled import bounds_of_margins, feature_status, row_status, zero_features
from dualgap.answers.solving import ConvergenceWarning, solve, strong_penalty
from dualgap.answers.votes import Certain, Pairs, labels_by_class

__all__ = [
    "SOLVED_SHARE",
    "ApproximateResult",
    "Approximation",
    "Certain",
    "ConvergenceWarning",
    "Fold",
    "Forgettable",
    "GuaranteedPath",
    "LeaveOneOut",
    "Outcome",
    "Pairs",
    "Receipt",
    "Result",
    "approximate",
    "bounds_of_margins",
    "contest",
    "evidence_of",
    "feature_status",
    "labels_by_class",
    "left_out_scores",
    "mixed_coef",
    "row_numbers",
    "row_status",
    "solve",
    "strong_penalty",
    "walk",
    "zero_features",
]
