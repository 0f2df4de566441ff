"""Certificates: feasible dual points, the best intercept, and enclosures of primal and dual values, with a proven bound on rounding;
the ball that contains the exact model; proof files.

A certificate is a function of the problem, the model and a dual point. Nothing here knows a solver, and no solver's number enters.
"""

from __future__ import annotations

from dualgap.proof.ball import Ball, ball_of
from dualgap.proof.bounded_scores import BoundedScores, exact_scores, keep_matrix, kernel_scores
from dualgap.proof.certificate import Certificate, CertificateError, certificate_of, certificate_of_pair
from dualgap.proof.certified import Proven, certify_pair, enclose, forget_scores, lower_bound, scores_of
from dualgap.proof.dual_points import DualPoint, dual_from_margins, dual_point, require_semidefinite, zero_point
from dualgap.proof.enclosure import (
    Enclosed,
    RowSums,
    balance_row,
    bias_excess,
    join,
    penalty_excess,
    penalty_value,
    plain_margins,
    row_sums,
)
from dualgap.proof.files import BinaryPart, JointPart, ProofError, ProofText, Table, canonical_text, exact_values, make_proof
from dualgap.proof.forgetting import Remaining, RemainingProof, remaining_of
from dualgap.proof.intercepts import best_intercept, intercept_of_zero, zero_objective
from dualgap.proof.verify import Refused, parse_proof, report
from dualgap.proof.verify import verify as verify_proof
from dualgap.proof.without_rows import Evidence, evidence_of

__all__ = [
    "Ball",
    "BinaryPart",
    "BoundedScores",
    "Certificate",
    "CertificateError",
    "DualPoint",
    "Enclosed",
    "Evidence",
    "JointPart",
    "ProofError",
    "ProofText",
    "Proven",
    "Refused",
    "Remaining",
    "RemainingProof",
    "RowSums",
    "Table",
    "balance_row",
    "ball_of",
    "best_intercept",
    "bias_excess",
    "canonical_text",
    "certificate_of",
    "certificate_of_pair",
    "certify_pair",
    "dual_from_margins",
    "dual_point",
    "enclose",
    "evidence_of",
    "exact_scores",
    "exact_values",
    "forget_scores",
    "intercept_of_zero",
    "join",
    "keep_matrix",
    "kernel_scores",
    "lower_bound",
    "make_proof",
    "parse_proof",
    "penalty_excess",
    "penalty_value",
    "plain_margins",
    "remaining_of",
    "report",
    "require_semidefinite",
    "row_sums",
    "scores_of",
    "verify_proof",
    "zero_objective",
    "zero_point",
]
