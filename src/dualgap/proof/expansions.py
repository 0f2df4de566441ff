"""Enclosures of many small kernel machines, w = Σ aⱼφ(xⱼ), in compiled code: those of `certified`, from a kernel matrix at hand.

`enclose_expansion` is called by a kernel for each problem and leaves a row of sums; `certificates_of` makes certificates of all rows.
Intercepts are free, and a problem has at most MOST_ROWS rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dualgap.core import ROUNDOFF, SMALLEST, Bounded, nonnegative_sum, strict_part
from dualgap.kernels import SURE_RELATIVE, Distances, Kernel
from dualgap.proof.bounded_scores import UNDERFLOW_64, rounded_up, value_errors_of_products
from dualgap.proof.certificate import Certificate
from dualgap.proof.dual_points import balance_into, expand
from dualgap.proof.enclosure import BLOCK, Margins, own_balance, row_among, sums_by_ends

__all__ = ["MOST_ROWS", "SUMS", "Expansion", "certificates_of", "enclose_expansion", "value_errors"]

MOST_ROWS = BLOCK  # of a problem, so that its sums are of one block
SUMS = 10  # numbers that `enclose_expansion` leaves of a problem


def value_errors(kernel: Kernel, distances: Distances, columns: int) -> np.ndarray:
    """Return for each row a bound on the errors of its kernel values with all rows, as `bounded_scores` has them."""
    norms, terms, sure = rounded_up(distances, columns)
    longest = float(norms.max(initial=0.0))
    if kernel.name != "rbf":
        return np.asarray(1.000001 * value_errors_of_products(kernel, norms * longest, terms) + 1e-300)
    delta = 1.01 * ROUNDOFF * (kernel.gamma * (terms + 20) * (norms + longest) ** 2 + 16.0)
    errors = np.where(delta < 1.0, 2.04 * delta, np.inf)  # values are at most 1, and computed ones hardly more
    if sure:
        errors = np.minimum(errors, 1.02 * (SURE_RELATIVE + 6.0 * ROUNDOFF * (columns + 20)))
    return np.asarray(errors + UNDERFLOW_64)


class Expansion(NamedTuple):
    """What `enclose_expansion` writes: a feasible β, the coefficients a = cβy/l2, K·a, bounds on its errors, and memory for sums."""

    beta: np.ndarray
    a: np.ndarray
    scores: np.ndarray
    radius: np.ndarray
    partial: np.ndarray


@strict_part
def enclose_expansion(loss, samples, K, errors, norms, beta, b, l2, out, sums):
    """Make β feasible, with the intercept b free, and enclose its w: write `out`, an Expansion, and SUMS numbers for `certificates_of`."""
    u, n = 1.1102230246251565e-16, beta.shape[0]
    balance_into(samples, beta, loss.lower_bound(), loss.upper_bound(), out.beta)
    mass, _ = expand(samples, out.beta, l2, norms, out.a)
    total = 0.0
    for i in range(n):
        total += abs(out.a[i])
        out.scores[i] = out.radius[i] = 0.0
    for j in range(n):
        weight = out.a[j]
        if weight != 0.0:
            row = K[j]
            for i in range(n):
                out.scores[i] += weight * row[i]
                out.radius[i] += abs(weight * row[i])
    rounding = 1.01 * u * (n + 8)  # γ(n + 8)
    value, error = 0.0, 0.0
    for i in range(n):
        out.radius[i] = 1.00001 * (rounding * out.radius[i] + total * errors[i]) + 1e-300
        value += out.a[i] * out.scores[i]
        error += abs(out.a[i]) * (out.radius[i] + rounding * abs(out.scores[i]))
    margins = Margins(out.scores, samples.y, 1.0, b, out.radius, 1.0, 5.0 * u)
    sums_by_ends(loss, samples, margins, out.beta, out.partial)
    rest, off, row = own_balance(loss, samples, margins, out.beta, (2.02 * u * (n + 2)) ** 2, True)
    moved = (abs(rest) + off) * 1.000001
    if row < 0 and _cancels(samples, out.beta):
        row, cost, moved = 0, 0.0, 0.0
    else:  # a row well inside its box, else any row
        row, cost = row_among(loss, samples, margins, out.beta, rest, off, max(row, 0), row + 1 if row >= 0 else n)
    for k in range(4):
        sums[k] = out.partial[k, 0]
    sums[4], sums[5], sums[6], sums[7], sums[8], sums[9] = 1.000001 * cost, moved * norms[row], value, error, mass, l2


@strict_part
def _cancels(samples, beta):
    """Return whether Σ cβy = 0 exactly because all terms are of one size, and as many are positive as negative."""
    size, count = 0.0, 0
    for i in range(beta.shape[0]):
        term = samples.c[i] * beta[i]
        if term != 0.0:
            if size != 0.0 and (samples.c[i] != size or beta[i] != 1.0):
                return False
            size = samples.c[i]
            count += 1 if samples.y[i] > 0.0 else -1
            if beta[i] != 1.0:
                return False
    return count == 0


def certificates_of(sums: np.ndarray, tol: float, source: str) -> list[Certificate | None]:
    """Return a certificate for each row of sums, None where its relative gap is not at most `tol`."""
    loss, loss_radius, own, own_radius, cost, moved, value, error, mass, l2 = sums.T
    objective = nonnegative_sum(loss, loss_radius, BLOCK + 8) + Bounded(value, 1.00001 * error + SMALLEST) * (0.5 * l2)
    # As in `certified`: a = cβy/l2 is rounded, and the exactly feasible β has one row moved.
    step = (4.0 * ROUNDOFF * 1.00001 * mass + moved / l2) * np.sqrt(0.5 * l2) * 1.00001
    gap = (nonnegative_sum(own, own_radius, BLOCK + 8) + Bounded(0.0, 1.00001 * step * step)).wider(cost)
    primal, dual, pair_gap = objective.upper, -(gap - objective).upper, gap.upper
    rounding = 32.0 * ROUNDOFF * (np.abs(objective.value) + gap.value)
    radius = Bounded(objective.radius + gap.radius + rounding).upper
    found: list[Certificate | None] = []
    for p, d, r, g in zip(primal.tolist(), dual.tolist(), radius.tolist(), pair_gap.tolist(), strict=True):
        one = Certificate(p, d, source, r, g) if math.isfinite(p) and math.isfinite(d) and d <= p else None
        found.append(one if one is not None and g <= 0.999999 * tol * (p - 2.0 * r) else None)
    return found
