"""Certificates: feasible dual points, the best intercept, and enclosures of primal and dual values, with a proven bound on rounding;
the ball that contains the exact model; proof files.

A certificate is a function of the problem, the model and a dual point. Nothing here knows a solver, and no solver's number enters.
"""

from __future__ import annotations

from dualgap.proof.ball import Ball, Reference, Space, ball_of, bounds_of, without_data
from dualgap.proof.bounded_scores import BoundedScores, Scores, carry_scores, exact_scores, keep_rows, kernel_scores
from dualgap.proof.certificate import Certificate, CertificateError, certificate_of, certificate_of_pair
from dualgap.proof.certified import Proven, certify_pair, enclose, lower_bound, scores_of
from dualgap.proof.dual_points import DualPoint, dual_from_margins, dual_point, require_semidefinite, zero_point
from dualgap.proof.enclosure import (
    Enclosed,
    RowSums,
    assemble,
    balance_row,
    bias_terms,
    penalty_excess,
    penalty_value,
    plain_margins,
    row_sums,
)
from dualgap.proof.files import (
    BinaryPart,
    JointPart,
    ProofError,
    ProofText,
    Table,
    TargetPart,
    canonical_text,
    exact_values,
    make_proof,
)
from dualgap.proof.forgetting import Remaining, RemainingProof, remaining_of
from dualgap.proof.intercepts import (
    best_intercept,
    first_intercept,
    intercept_of_zero,
    objective_floor,
    zero_model,
    zero_objective,
)
from dualgap.proof.nu import LARGEST_PART, Threshold, dual_mass, largest_nu, nu_certificate, nu_threshold, zero_certificate
from dualgap.proof.nu_regression import Tube, best_tube, nu_regression_certificate, size_of_dual
from dualgap.proof.ranges import (
    Couple,
    Pair,
    ProvenRange,
    Strengths,
    excess_at,
    make_couple,
    make_pair,
    mixed_coef,
    proven_range,
    reach,
)
from dualgap.proof.settled import feature_status, margins_of, row_status, zero_features
from dualgap.proof.verify import Refused, parse_proof, report
from dualgap.proof.verify import verify as verify_proof
from dualgap.proof.without_rows import Evidence, evidence_of

__all__ = [
    "LARGEST_PART",
    "Ball",
    "BinaryPart",
    "BoundedScores",
    "Certificate",
    "CertificateError",
    "Couple",
    "DualPoint",
    "Enclosed",
    "Evidence",
    "JointPart",
    "Pair",
    "ProofError",
    "ProofText",
    "Proven",
    "ProvenRange",
    "Reference",
    "Refused",
    "Remaining",
    "RemainingProof",
    "RowSums",
    "Scores",
    "Space",
    "Strengths",
    "Table",
    "TargetPart",
    "Threshold",
    "Tube",
    "assemble",
    "balance_row",
    "ball_of",
    "best_intercept",
    "best_tube",
    "bias_terms",
    "bounds_of",
    "canonical_text",
    "carry_scores",
    "certificate_of",
    "certificate_of_pair",
    "certify_pair",
    "dual_from_margins",
    "dual_mass",
    "dual_point",
    "enclose",
    "evidence_of",
    "exact_scores",
    "exact_values",
    "excess_at",
    "feature_status",
    "first_intercept",
    "intercept_of_zero",
    "keep_rows",
    "kernel_scores",
    "largest_nu",
    "lower_bound",
    "make_couple",
    "make_pair",
    "make_proof",
    "margins_of",
    "mixed_coef",
    "nu_certificate",
    "nu_regression_certificate",
    "nu_threshold",
    "objective_floor",
    "parse_proof",
    "penalty_excess",
    "penalty_value",
    "plain_margins",
    "proven_range",
    "reach",
    "remaining_of",
    "report",
    "require_semidefinite",
    "row_status",
    "row_sums",
    "scores_of",
    "size_of_dual",
    "verify_proof",
    "without_data",
    "zero_certificate",
    "zero_features",
    "zero_model",
    "zero_objective",
    "zero_point",
]
