"""Step 5 of README.md: steps on one or two dual variables inside a working set, whose kernel matrix is in memory.

With a free intercept a pair moves, which keeps Σ aᵢ = 0: a_i + t and a_j − t with t = (g_i − g_j)/(K_ii + K_jj − 2K_ij). i has the
largest gradient among the variables that can rise; j can fall and gives the largest second-order gain (Platt 1998; Fan et al. 2005,
docs/references.md). Otherwise the single variable with the largest gain moves (Steinwart et al. 2011).
"""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel, sequential, wide_vectors

__all__ = ["pair_steps", "single_steps", "subtract_rows"]
CHUNK = 2048  # entries of g at a time, 16 kB: they stay in the first cache while all rows are subtracted from them


@kernel
def subtract_rows(store, slots, change, g, first, last):
    """Step 6: g[first:last] −= Σ change[s]·store[slots[s]], four rows at once so that g is read and written less often."""
    wide_vectors()
    count = slots.shape[0]
    for start in range(first, last, CHUNK):
        end = min(start + CHUNK, last)
        s = 0
        while s + 4 <= count:
            r0, r1, r2, r3 = store[slots[s]], store[slots[s + 1]], store[slots[s + 2]], store[slots[s + 3]]
            t0, t1, t2, t3 = change[s], change[s + 1], change[s + 2], change[s + 3]
            for i in range(start, end):
                g[i] -= t0 * r0[i] + t1 * r1[i] + t2 * r2[i] + t3 * r3[i]
            s += 4
        while s < count:
            row, t0 = store[slots[s]], change[s]
            for i in range(start, end):
                g[i] -= t0 * row[i]
            s += 1


NOISE = 1e-12  # violations of the KKT conditions below this are rounding
NO_KEY = np.int64(-(2**63))  # below every key
INDEX_BITS = np.int64(0xFFFFFFFF)  # the bits of a key that hold the index of its variable


@sequential
def _key(value, k):
    """Return value and index k in one integer, ordered as the values are in float32: LLVM vectorises a maximum over such keys."""
    bits = np.int64(np.float32(value).view(np.int32))
    ordered = bits ^ ((bits >> np.int64(31)) & np.int64(0x7FFFFFFF))
    return (ordered << np.int64(32)) | np.int64(k)


@kernel
def pair_steps(K, diagonal, box, tiny, ratio, most):
    """Take up to `most` pair steps, until the violation m − M is `ratio` of what it was. Return their number.

    `diagonal` is K's plus r; curvatures below `tiny` count as `tiny`."""
    wide_vectors()
    a, low, high, g, r = box
    n = a.shape[0]
    target = -1.0
    top = -np.inf  # keys hold differences from the last top, which float32 distinguishes however small they are
    for k in range(n):
        top = max(top, g[k] if a[k] < high[k] else -np.inf)
    if top == -np.inf:
        return 0
    for step in range(most):
        first = NO_KEY
        for k in range(n):
            first = max(first, _key(g[k] - top, k) if a[k] < high[k] else NO_KEY)
        if first == NO_KEY:
            return step
        i = first & INDEX_BITS
        row, top, own = K[i], g[i], diagonal[i]
        second = last = NO_KEY
        for k in range(n):
            difference = max(top - g[k], 0.0)
            gain = difference * difference / max(own + diagonal[k] - 2.0 * row[k], tiny)
            falls = a[k] > low[k]
            second = max(second, _key(gain, k) if falls else NO_KEY)
            last = max(last, _key(difference, k) if falls else NO_KEY)
        if second == NO_KEY:
            return step
        j = second & INDEX_BITS
        difference = top - g[j]
        violation = top - g[last & INDEX_BITS]
        if target < 0.0:
            target = max(ratio * violation, NOISE)
        if violation <= target or difference <= 0.0:
            return step
        up, down = high[i] - a[i], a[j] - low[j]
        t = min(difference / max(own + diagonal[j] - 2.0 * row[j], tiny), up, down)
        # A variable that reaches its bound is put there exactly: a rounding error short of it, it would be chosen again and again.
        a[i] = high[i] if t == up else a[i] + t
        a[j] = low[j] if t == down else a[j] - t
        other = K[j]
        for k in range(n):
            g[k] -= t * (row[k] - other[k])
        g[i] -= t * r[i]
        g[j] += t * r[j]
    return most


@kernel
def single_steps(K, diagonal, box, tiny, ratio, most):
    """Take up to `most` single steps, until the largest violation is `ratio` of what it was. Return their number."""
    wide_vectors()
    a, low, high, g, r = box
    n = a.shape[0]
    target = -1.0
    for step in range(most):
        best = worst = NO_KEY
        for k in range(n):
            curvature = max(diagonal[k], tiny)
            t = min(max(g[k] / curvature, low[k] - a[k]), high[k] - a[k])
            best = max(best, _key(t * (g[k] - 0.5 * curvature * t), k))
            worst = max(worst, _key(abs(g[k]) if t != 0.0 else 0.0, k))
        i = best & INDEX_BITS
        violation = abs(g[worst & INDEX_BITS])
        t = min(max(g[i] / max(diagonal[i], tiny), low[i] - a[i]), high[i] - a[i])
        if target < 0.0:
            target = max(ratio * violation, NOISE)
        if t == 0.0 or violation <= target:
            return step
        a[i] = min(max(a[i] + t, low[i]), high[i])
        row = K[i]
        for k in range(n):
            g[k] -= t * row[k]
        g[i] -= t * r[i]
    return most
