"""Certificates: feasible dual points, the best intercept, primal and dual values, and the gap between them.

A certificate is a function of the problem, the model and a dual point. Nothing here knows a solver.
"""

from __future__ import annotations

from dualgap.proof.certificate import (
    Certificate,
    CertificateError,
    DualPoint,
    best_intercept,
    dual_from_margins,
    dual_point,
    make_certificate,
    margins_of,
    primal_value,
    require_semidefinite,
    settle,
)

__all__ = [
    "Certificate",
    "CertificateError",
    "DualPoint",
    "best_intercept",
    "dual_from_margins",
    "dual_point",
    "make_certificate",
    "margins_of",
    "primal_value",
    "require_semidefinite",
    "settle",
]
