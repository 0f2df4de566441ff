"""Decimal text to float64 inside kernels, rounded exactly as Python's float() rounds.

The method is Eisel and Lemire's: the digits as a 64-bit integer times a 128-bit approximation of the power of ten. It is integer
arithmetic alone, so that no reordering of floating-point operations can touch it; the rare number that it cannot decide (more than
19 digits, or a result at the end of the range) is left to the caller.
"""

from __future__ import annotations

import functools

import numpy as np

from dualgap.core import kernel

__all__ = ["EXACT", "NOT_A_NUMBER", "UNDECIDED", "parse_decimal", "powers_of_five"]

EXACT, UNDECIDED, NOT_A_NUMBER = 0, 1, 2

SMALLEST, LARGEST = -342, 308
LOW32 = np.uint64(0xFFFFFFFF)
FRACTION = np.uint64((1 << 52) - 1)  # the bits of a float64 below its exponent
MAX_DIGITS = 19  # 10¹⁹ − 1 fits in 64 bits


@functools.cache
def powers_of_five() -> np.ndarray:
    """5^q for q = −342 … 308 as normalised 128-bit integers: row q + 342 is (high, low)."""
    table = np.empty((LARGEST - SMALLEST + 1, 2), dtype=np.uint64)
    for q in range(SMALLEST, LARGEST + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = (power - 1).bit_length()
            value = 2 ** (bits + 127 if q >= -27 else 2 * bits + 128) // power + 1
        else:
            value = power << max(128 - power.bit_length(), 0)
        value >>= max(value.bit_length() - 128, 0)
        table[q - SMALLEST] = value >> 64, value & (2**64 - 1)
    table.flags.writeable = False
    return table


@kernel
def _multiply(a, b):
    """Return the 128-bit product of two 64-bit numbers, as (high, low)."""
    half = np.uint64(32)
    a0, a1 = a & LOW32, a >> half
    b0, b1 = b & LOW32, b >> half
    low, middle = a0 * b0, a1 * b0
    carry = (low >> half) + (middle & LOW32) + a0 * b1
    return a1 * b1 + (middle >> half) + (carry >> half), (carry << half) | (low & LOW32)


@kernel
def _leading_zeros(w):
    """Return (the number of leading zero bits of w > 0, w without them)."""
    zeros = 0
    step = 32
    while step:
        if w >> np.uint64(64 - step) == np.uint64(0):
            zeros += step
            w = w << np.uint64(step)
        step >>= 1
    return zeros, w


@kernel
def _to_bits(w, q, high_power, low_power):
    """Return (whether decided, the bits of the float64 nearest to w·10^q) for w > 0, with 5^q as two 64-bit halves."""
    whole = q == 0 and w < np.uint64(1 << 53)
    zeros, w = _leading_zeros(w)
    if whole:  # a whole number below 2^53: nothing to round
        return True, ((w >> np.uint64(11)) & FRACTION) | (np.uint64(1086 - zeros) << np.uint64(52))
    high, low = _multiply(w, high_power)
    decided = True
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):  # the lower half of the power may carry into the bits that matter
        second, _ = _multiply(w, low_power)
        low = low + second
        if low < second:
            high = high + np.uint64(1)
        decided = low != np.uint64(0xFFFFFFFFFFFFFFFF) or (q >= -27 and q <= 55)
    top = int(high >> np.uint64(63))
    mantissa = high >> np.uint64(top + 9)
    exponent = ((217706 * q) >> 16) + 1087 - zeros - (1 - top)
    # Half-way between two floats: to even. Only small powers can hit the middle exactly.
    if (
        low <= np.uint64(1)
        and q >= -4
        and q <= 23
        and mantissa & np.uint64(3) == np.uint64(1)
        and mantissa << np.uint64(top + 9) == high
    ):
        mantissa = mantissa & ~np.uint64(1)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    return decided and exponent > 0 and exponent < 2046, (mantissa & FRACTION) | (np.uint64(exponent) << np.uint64(52))


@kernel
def _scan(text, p):
    """Read the number at text[p] as w·10^q: (w, q, its status, whether it is negative, the place after it)."""
    negative = text[p] == 45  # -
    if negative or text[p] == 43:  # +
        p += 1
    w, digits, seen, q, status = np.uint64(0), 0, 0, 0, EXACT
    fraction = False
    while True:
        c = text[p]
        if c >= 48 and c <= 57:
            seen += 1
            if digits < MAX_DIGITS:
                w = w * np.uint64(10) + np.uint64(c - 48)
                if w > np.uint64(0):  # leading zeros do not count as digits
                    digits += 1
                q -= fraction
            else:
                q += not fraction
                if c != 48:
                    status = UNDECIDED
        elif c == 46 and not fraction:  # .
            fraction = True
        else:
            break
        p += 1
    if seen == 0:
        status = NOT_A_NUMBER
    elif text[p] == 101 or text[p] == 69:  # e, E
        p += 1
        down = text[p] == 45
        if down or text[p] == 43:
            p += 1
        if text[p] < 48 or text[p] > 57:
            status = NOT_A_NUMBER
        e = 0
        while text[p] >= 48 and text[p] <= 57:
            e = min(e * 10 + (text[p] - 48), 100000)
            p += 1
        q += -e if down else e
    return w, q, status, negative, p


@kernel
def parse_decimal(text, p, powers):
    """Read the number at text[p]: (EXACT, UNDECIDED or NOT_A_NUMBER; its float64 bits; the place after it).

    `text` holds bytes and must end in something that is no part of a number. What follows the number is the caller's to judge.
    """
    # One exit, and helpers that take numbers: numba counts references to an array that is handed to a function with several exits.
    w, q, status, negative, p = _scan(text, p)
    bits = np.uint64(0)
    if w != np.uint64(0) and status == EXACT:
        row = min(max(q, SMALLEST), LARGEST) - SMALLEST
        decided, bits = _to_bits(w, q, powers[row, 0], powers[row, 1])
        if not decided or q < SMALLEST or q > LARGEST:
            status = UNDECIDED
    return status, bits | (np.uint64(negative) << np.uint64(63)), p
