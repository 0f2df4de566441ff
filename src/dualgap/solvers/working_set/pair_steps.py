"""Steps on a few dual variables inside a working set, whose small kernel matrix is at hand.

Signed variables aᵢ = cᵢβᵢyᵢ/l2 between low and high, errors e = y − K·a − r·a (r = 0 for the hinge), and

    D/l2 = Σ yᵢaᵢ − ½ aᵀKa − ½ Σ rᵢaᵢ²

A free intercept ties them by Σ aᵢ = 0: a pair moves together, a_i + t and a_j − t, t = (e_i − e_j)/(K_ii + K_jj − 2K_ij). The i is the
one with the largest e that can still rise, the j the one that can fall and with which D gains most: second order. Without that tie a
single variable moves, the one with which D gains most.
"""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel, sequential, wide_vectors

__all__ = ["gather", "pair_steps", "single_steps", "subtract_rows"]


@kernel
def gather(store, slots, columns, out, first, last):
    """out[s, t] = store[slots[s], columns[t]] for the rows first…last"""
    for s in range(first, last):
        row = store[slots[s]]
        for t in range(columns.shape[0]):
            out[s, t] = row[columns[t]]


@kernel
def subtract_rows(store, slots, change, e, first, last):
    """e[first:last] −= Σ change[s]·store[slots[s]], four rows at once so that e is read and written less often."""
    wide_vectors()
    size = 2048
    count = slots.shape[0]
    for start in range(first, last, size):
        end = min(start + size, last)
        s = 0
        while s + 4 <= count:
            r0, r1, r2, r3 = store[slots[s]], store[slots[s + 1]], store[slots[s + 2]], store[slots[s + 3]]
            t0, t1, t2, t3 = change[s], change[s + 1], change[s + 2], change[s + 3]
            for i in range(start, end):
                e[i] -= t0 * r0[i] + t1 * r1[i] + t2 * r2[i] + t3 * r3[i]
            s += 4
        while s < count:
            row, t0 = store[slots[s]], change[s]
            for i in range(start, end):
                e[i] -= t0 * row[i]
            s += 1


NOISE = 1e-12  # violations below are rounding
NOTHING = np.int64(-(2**63))


@sequential
def _key(value, k):
    """value and place k in one integer that orders as the values do (rounded to float32): the compiler makes SIMD of its maximum."""
    bits = np.int64(np.float32(value).view(np.int32))
    ordered = bits ^ ((bits >> np.int64(31)) & np.int64(0x7FFFFFFF))
    return (ordered << np.int64(32)) | np.int64(k)


@kernel
def pair_steps(K, diagonal, box, tiny, ratio, most):
    """Two-variable steps until the violation is `ratio` of what it was at first, or `most` steps; returns how many."""
    wide_vectors()
    a, low, high, e, r = box
    n = a.shape[0]
    target = -1.0
    top = -np.inf  # keys are of differences from the last top, which float32 tells apart however close they are
    for k in range(n):
        top = max(top, e[k] if a[k] < high[k] else -np.inf)
    if top == -np.inf:
        return 0
    for step in range(most):
        first = NOTHING
        for k in range(n):
            first = max(first, _key(e[k] - top, k) if a[k] < high[k] else NOTHING)
        if first == NOTHING:
            return step
        i = first & np.int64(0xFFFFFFFF)
        row, top, own = K[i], e[i], diagonal[i]
        second = last = NOTHING
        for k in range(n):
            gap = max(top - e[k], 0.0)
            gain = gap * gap / max(own + diagonal[k] - 2.0 * row[k], tiny)
            falls = a[k] > low[k]
            second = max(second, _key(gain, k) if falls else NOTHING)
            last = max(last, _key(gap, k) if falls else NOTHING)
        if second == NOTHING:
            return step
        j = second & np.int64(0xFFFFFFFF)
        gap = top - e[j]
        violation = top - e[last & np.int64(0xFFFFFFFF)]
        if target < 0.0:
            target = max(ratio * violation, NOISE)
        if violation <= target or gap <= 0.0:
            return step
        up, down = high[i] - a[i], a[j] - low[j]
        t = min(gap / max(own + diagonal[j] - 2.0 * row[j], tiny), up, down)
        # A variable that reaches its bound is put there exactly: a rounding error short of it, it would be chosen again and again.
        a[i] = high[i] if t == up else a[i] + t
        a[j] = low[j] if t == down else a[j] - t
        other = K[j]
        for k in range(n):
            e[k] -= t * (row[k] - other[k])
        e[i] -= t * r[i]
        e[j] += t * r[j]
    return most


@kernel
def single_steps(K, diagonal, box, tiny, ratio, most):
    """One-variable steps until the largest violation is `ratio` of what it was at first, or `most` steps; returns how many."""
    wide_vectors()
    a, low, high, e, r = box
    n = a.shape[0]
    target = -1.0
    for step in range(most):
        best = worst = NOTHING
        for k in range(n):
            bend = max(diagonal[k], tiny)
            t = min(max(e[k] / bend, low[k] - a[k]), high[k] - a[k])
            best = max(best, _key(t * (e[k] - 0.5 * bend * t), k))
            worst = max(worst, _key(abs(e[k]) if t != 0.0 else 0.0, k))
        i = best & np.int64(0xFFFFFFFF)
        violation = abs(e[worst & np.int64(0xFFFFFFFF)])
        t = min(max(e[i] / max(diagonal[i], tiny), low[i] - a[i]), high[i] - a[i])
        if target < 0.0:
            target = max(ratio * violation, NOISE)
        if t == 0.0 or violation <= target:
            return step
        a[i] = min(max(a[i] + t, low[i]), high[i])
        row = K[i]
        for k in range(n):
            e[k] -= t * row[k]
        e[i] -= t * r[i]
    return most
