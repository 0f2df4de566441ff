"""Sums in twice the working precision, and what is known of the rounding of plain ones.

u = 2⁻⁵³ is the unit roundoff. A sum of k products, in any order, is off by at most γ(k)·Σ|terms|, γ(k) = k·u/(1 − k·u) (Higham 2002). The
double-double sums here (Ogita, Rump and Oishi 2005) are off by u·|result| + γ(k)²·Σ|terms|. A double-double number is a pair (high, low).
"""

from __future__ import annotations

import math

import numpy as np

from dualgap.core.jit import fma, strict, strict_part

__all__ = [
    "ROUNDOFF",
    "SMALLEST",
    "gamma",
    "length_bound",
    "precise_accumulate",
    "precise_shortfalls",
    "round_up",
    "settle",
    "two_sum",
    "weighted_balance",
]

UNTHREADED = 8192  # numbers of a product for which the BLAS does not wake its threads, as it does from 10,000 on

ROUNDOFF = 2.0**-53
SMALLEST = 1e-300  # absolute: more than 10¹⁴ products that underflow can be off together


def gamma(k: float | np.integer) -> float:
    """Return γ(k) = k·u/(1 − k·u), rounded up."""
    return float(k) * ROUNDOFF * 1.000001 / (1.0 - float(k) * ROUNDOFF)


def round_up(x: float) -> float:
    """Return a number that is above every x of which the given one is a result of at most four roundings."""
    return x + 8.0 * ROUNDOFF * abs(x) + 5e-324


@strict_part
def two_sum(a, b):
    """Return the rounded sum of two numbers and its error, exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@strict
def precise_shortfalls(rows, w, b, y, reference, offset, out):
    """out[i] = reference − yᵢ(xᵢ·w + b + oᵢ), rounded once from a double-double sum; reference and offset are not both non-zero."""
    for i in range(rows.length()):
        high, low = b, 0.0
        for k in range(rows.row_length(i)):
            x, v = rows.value_at(i, k), w[rows.column_at(i, k)]
            product = x * v
            high, error = two_sum(high, product)
            low += error + fma(x, v, -product)
        high, error = two_sum(reference - y[i] * offset.at(i), -y[i] * high)
        out[i] = high + (error - y[i] * low)


@strict
def precise_accumulate(rows, c, y, beta, high, low):
    """(high, low) += Σ cᵢβᵢyᵢ xᵢ, coordinate by coordinate, in double-double numbers."""
    for i in range(rows.length()):
        if c[i] == 0.0 or beta[i] == 0.0:
            continue
        a = y[i] * (c[i] * beta[i])
        a_low = y[i] * fma(c[i], beta[i], -y[i] * a)
        for k in range(rows.row_length(i)):
            x, j = rows.value_at(i, k), rows.column_at(i, k)
            product = a * x
            high[j], error = two_sum(high[j], product)
            low[j] += error + (fma(a, x, -product) + a_low * x)


@strict
def weighted_balance(c, y, beta, others):
    """Return others + Σ cᵢβᵢyᵢ rounded once from a double-double sum, and Σ cᵢ|βᵢ|."""
    high, low, mass = others, 0.0, 0.0
    for i in range(beta.shape[0]):
        mass += abs(c[i] * beta[i])
        high, low = _plus_product(high, low, y[i], c[i], beta[i])
    return high + low, mass


@strict_part
def _plus_product(high, low, sign, a, b):
    """Return the double-double sum (high, low) + sign·a·b, for a sign of ±1."""
    product = a * b
    high, error = two_sum(high, sign * product)
    return high, low + (error + sign * fma(a, b, -product))


@strict
def settle(c, y, beta, others):
    """Take what rounding left of others + Σ cᵢβᵢyᵢ out of the heaviest β, in place; return what then is left of the sum.

    The result is rounded once from a double-double sum, as that of `weighted_balance`.
    """
    high, low = others, 0.0
    above, below = -1, -1  # the heaviest of the rows with yβ > 0, and of those with yβ < 0
    most, least = 0.0, 0.0
    for i in range(beta.shape[0]):
        high, low = _plus_product(high, low, y[i], c[i], beta[i])
        part = y[i] * (c[i] * beta[i])
        if part > most:
            most, above = part, i
        if part < least:
            least, below = part, i
    for _ in range(3):
        rest = high + low
        k = above if rest > 0.0 else below
        if rest == 0.0 or k < 0:
            break
        new = math.copysign(max(0.0, abs(beta[k]) - abs(rest) / c[k]), beta[k])
        if new == beta[k]:
            break
        high, low = _plus_product(high, low, -y[k], c[k], beta[k])
        high, low = _plus_product(high, low, y[k], c[k], new)
        beta[k] = new
    return high + low


def length_bound(values: np.ndarray) -> float:
    """Return an upper bound of the length ‖values‖."""
    pieces = (values[k : k + UNTHREADED] for k in range(0, len(values), UNTHREADED))
    return math.sqrt(sum(float(piece @ piece) for piece in pieces)) * (1.0 + gamma(len(values) + 4)) + 1e-150
