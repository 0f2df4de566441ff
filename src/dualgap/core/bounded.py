"""Bounded: a float64 number and its radius. The exact number that it stands for is at most that far from it.

The rounding of sums, products, quotients and roots is accounted for here, and the radius is rounded outwards: u|result| for the operation
(2⁻⁵³ = u), and a factor for the few roundings of the radius itself. A plain number counts as exact. Values and radii may be arrays. Where
float64 overflows, numbers here may be NaN; bounds that are made of them are infinite (`upper`, `lower`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from dualgap.core.precise import ROUNDOFF, SMALLEST, gamma, length_bound, weighted_balance

__all__ = ["Bounded", "exact_sum", "inner_product", "nonnegative_sum", "signed_sum", "total"]

OUTWARD = 1.0 + 16.0 * ROUNDOFF  # more than eight roundings take from a radius
UNDERFLOW = 1e-320  # more than the underflow of a few products takes
PIECE = 4096  # numbers that one product of vectors adds up

_made: Any = tuple.__new__  # a named tuple's own takes twice as long


class Bounded(NamedTuple):
    """A number, or an array of them, that is off by at most `radius`.

    Examples
    --------
    >>> from dualgap.core import Bounded
    >>> x = Bounded(3.0, 1e-3) * 2.0 - 1.0
    >>> x.value, x.lower <= 4.998 <= x.upper, x.radius < 2.001e-3
    (5.0, True, True)
    """

    value: Any
    radius: Any = 0.0

    def __add__(self, other: Bounded | float) -> Bounded:  # type: ignore[override]
        (a, radius), (b, more) = self, other if isinstance(other, Bounded) else (other, 0.0)
        value = a + b
        return _made(Bounded, (value, (radius + more + ROUNDOFF * abs(value)) * OUTWARD))

    def __radd__(self, other: float) -> Bounded:
        return self + other

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.radius)

    def __sub__(self, other: Bounded | float) -> Bounded:
        (a, radius), (b, more) = self, other if isinstance(other, Bounded) else (other, 0.0)
        value = a - b
        return _made(Bounded, (value, (radius + more + ROUNDOFF * abs(value)) * OUTWARD))

    def __mul__(self, other: Bounded | float) -> Bounded:  # type: ignore[override]
        (a, radius), (b, more) = self, other if isinstance(other, Bounded) else (other, 0.0)
        value = a * b
        off = radius * (abs(b) + more) + abs(a) * more
        return _made(Bounded, (value, (off + ROUNDOFF * abs(value)) * OUTWARD + UNDERFLOW))

    def __rmul__(self, other: float) -> Bounded:  # type: ignore[override]
        return self * other

    def __truediv__(self, other: float) -> Bounded:
        value = self.value / other
        return _made(Bounded, (value, (self.radius / abs(other) + ROUNDOFF * abs(value)) * OUTWARD + UNDERFLOW))

    def __abs__(self) -> Bounded:
        return Bounded(abs(self.value), self.radius)

    def square(self) -> Bounded:
        return self * self

    def wider(self, more: Any) -> Bounded:
        """Return the same number with a radius that is larger by `more`."""
        return _made(Bounded, (self.value, (self.radius + more) * OUTWARD))

    def nonnegative(self) -> Bounded:
        """Return the same number where the exact one is known to be at least 0."""
        return Bounded(max(self.value, 0.0), self.radius)

    def moved_square(self, step: float) -> Bounded:
        """Return the square of a length that is off by at most `step`, if this is the square as it was computed."""
        root = math.sqrt(max(self.value, 0.0) + self.radius)
        return self.wider(step * (2.0 * root + step) * OUTWARD)

    @property
    def upper(self) -> Any:
        """A number that the exact one is not above."""
        return _outward(self.value + self.radius)

    @property
    def lower(self) -> Any:
        """A number that the exact one is not below."""
        return -_outward(self.radius - self.value)


def _outward(x: Any) -> Any:
    if isinstance(x, float):
        return math.inf if x != x else x + (8.0 * ROUNDOFF * abs(x) + 5e-324)
    return np.where(np.isnan(x), np.inf, x + (8.0 * ROUNDOFF * np.abs(x) + 5e-324))


def exact_sum(values: Iterable[float]) -> float:
    """Return a sum rounded once; infinite where it overflows, NaN where infinite terms cancel."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def total(parts: Iterable[Bounded]) -> Bounded:
    """Return the sum, rounded once."""
    parts = list(parts)
    value = exact_sum(part.value for part in parts)
    return Bounded(value, (exact_sum(part.radius for part in parts) + ROUNDOFF * abs(value)) * OUTWARD)


def nonnegative_sum(value: float, radius: float, terms: int) -> Bounded:
    """Return a sum whose terms are at least 0, and whose radii add up to `radius`, if at most `terms` additions made either."""
    return Bounded(value, 1.000001 * radius + gamma(terms) * value + SMALLEST)


def inner_product(a: np.ndarray, b: np.ndarray) -> Bounded:
    """Return the inner product of two exact vectors."""
    value = exact_sum(float(a[k : k + PIECE] @ b[k : k + PIECE]) for k in range(0, len(a), PIECE))
    return Bounded(value, 1.000001 * gamma(min(PIECE, len(a)) + 16) * length_bound(a) * length_bound(b) + SMALLEST)


def signed_sum(c: np.ndarray, y: np.ndarray, beta: np.ndarray, others: float = 0.0) -> Bounded:
    """Return others + Σ cᵢβᵢyᵢ for signs y, from a double-double sum."""
    rest, mass = (float(x) for x in weighted_balance(c, y, beta, others))
    return Bounded(rest, ROUNDOFF * abs(rest) * 1.000001 + gamma(2.0 * (len(beta) + 2)) ** 2 * mass + SMALLEST)
