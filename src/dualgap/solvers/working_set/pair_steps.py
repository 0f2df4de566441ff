"""Step 5 of README.md: steps on two dual variables inside a working set, whose kernel matrix is in memory.

With a free intercept a pair moves, which keeps Σ aᵢ = 0: a_i + t and a_j − t with t = (g_i − g_j)/(K_ii + K_jj − 2K_ij). i has the
largest gradient among the variables that can rise; j can fall and gives the largest second-order gain (Platt 1998; Fan et al. 2005,
docs/references.md). Otherwise two variables move freely in their box: the worst violator, and the one that then gains most (Steinwart et
al. 2011).
"""

from __future__ import annotations

import numpy as np

from dualgap.core import kernel, machine, sequential, wide_vectors

__all__ = ["coupled_steps", "pair_steps", "subtract_rows"]


@kernel
def subtract_rows(store, slots, change, g, first, last):
    """Step 6: g[first:last] −= Σ change[s]·store[slots[s]], four rows at once so that g is read and written less often."""
    wide_vectors()
    count = slots.shape[0]
    for start in range(first, last, FIRST_CACHE_NUMBERS):
        end = min(start + FIRST_CACHE_NUMBERS, last)
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


FIRST_CACHE_NUMBERS = machine.FIRST_CACHE_NUMBERS  # kernels read names of their module
INNER_RATIO = 0.1  # violation after / before the inner steps on one set
MAX_INNER = 100  # inner steps / rows of the set
NOISE = 1e-12  # violations of the KKT conditions below this part of a typical margin are rounding
NO_KEY = np.int64(-(2**63))  # below every key
INDEX_BITS = np.int64(0xFFFFFFFF)  # the bits of a key that hold the index of its variable


@sequential
def _key(value, k):
    """Return value and index k in one integer, ordered as the values are in float32: LLVM vectorises a maximum over such keys."""
    bits = np.int64(np.float32(value).view(np.int32))
    ordered = bits ^ ((bits >> np.int64(31)) & np.int64(0x7FFFFFFF))
    return (ordered << np.int64(32)) | np.int64(k)


@kernel
def pair_steps(K, diagonal, box, tiny, ratio, most, margin, ends):
    """Take up to `most` pair steps, until the violation m − M is `ratio` of what it was. Return their number.

    `margin` is the size of a typical one. `diagonal` is that of K plus r; curvatures below `tiny` count as `tiny`. `ends` has the end of
    each group of variables that keeps its sum; the pair is of the group whose step gains most, the violation that of the worst group."""
    wide_vectors()
    a, low, high, g, r = box.a, box.low, box.high, box.g, box.r
    n = a.shape[0]
    groups = ends.shape[0]
    target, size = -1.0, abs(diagonal[0]) + tiny  # gains in units of its inverse are within the range of float32
    tops = np.zeros(groups)  # keys hold differences from the last top, which float32 distinguishes however small they are
    for group in range(groups):
        top = -np.inf
        for k in range(ends[group - 1] if group > 0 else 0, ends[group]):
            top = max(top, g[k] if a[k] < high[k] else -np.inf)
        tops[group] = top if top > -np.inf else 0.0
    for step in range(most):
        i = j = np.int64(-1)
        best, violation = 0.0, 0.0
        for group in range(groups):
            # Indices without a sign need no check for negative ones, which would keep the loops from being vectorised.
            start, end = np.uint64(ends[group - 1] if group > 0 else 0), np.uint64(ends[group])
            top, first = tops[group], NO_KEY
            for k in range(start, end):
                first = max(first, _key(g[k] - top, k) if a[k] < high[k] else NO_KEY)
            if first == NO_KEY:
                continue
            rising = first & INDEX_BITS
            row, top, own = K[rising], g[rising], diagonal[rising]
            tops[group] = top
            second = last = NO_KEY
            for k in range(start, end):
                difference = max(top - g[k], 0.0)
                gain = difference * difference * (size / max(own + diagonal[k] - 2.0 * row[k], tiny))
                falls = a[k] > low[k]
                second = max(second, _key(gain, k) if falls else NO_KEY)
                last = max(last, _key(difference, k) if falls else NO_KEY)
            if second == NO_KEY:
                continue
            falling = second & INDEX_BITS
            difference = top - g[falling]
            gain = difference * difference * (size / max(own + diagonal[falling] - 2.0 * row[falling], tiny))
            violation = max(violation, top - g[last & INDEX_BITS])
            if difference > 0.0 and (i < 0 or gain > best):
                best, i, j = gain, rising, falling
        if target < 0.0:
            target = max(ratio * violation, NOISE * margin)
        if violation <= target or i < 0:
            return step
        row, difference = K[i], g[i] - g[j]
        up, down = high[i] - a[i], a[j] - low[j]
        t = min(difference / max(diagonal[i] + diagonal[j] - 2.0 * row[j], tiny), up, down)
        # A variable that reaches its bound is put there exactly: a rounding error short of it, it would be chosen again and again.
        a[i] = high[i] if t == up else a[i] + t
        a[j] = low[j] if t == down else a[j] - t
        other = K[j]
        for k in range(n):
            g[k] -= t * (row[k] - other[k])
        g[i] -= t * r[i]
        g[j] += t * r[j]
    return most


@sequential
def _clip(value, low, high):
    return min(max(value, low), high)


@sequential
def _moved(a, step, low, high):
    """Return a + step; a variable that reaches its bound is put there exactly."""
    return high if step >= high - a else low if step <= low - a else a + step


@sequential
def _best_in_box(K, g, low, high):
    """Return the (s, t) in a box that maximises g·(s, t) − ½ (s, t)·K·(s, t); K = (K_ii, K_ij, K_jj), positive definite.

    If the unconstrained solution is outside, the best point lies on one of the four edges."""
    (k_ii, k_ij, k_jj), (g_i, g_j), (low_i, low_j), (high_i, high_j) = K, g, low, high
    determinant = k_ii * k_jj - k_ij * k_ij
    s, t = (g_i * k_jj - g_j * k_ij) / determinant, (g_j * k_ii - g_i * k_ij) / determinant
    if low_i <= s <= high_i and low_j <= t <= high_j:
        return s, t
    best, s, t = -np.inf, 0.0, 0.0
    for edge in range(4):
        at = low_i if edge == 0 else high_i if edge == 1 else low_j if edge == 2 else high_j
        if abs(at) == np.inf:
            continue
        if edge < 2:
            p, q = at, _clip((g_j - k_ij * at) / k_jj, low_j, high_j)
        else:
            p, q = _clip((g_i - k_ij * at) / k_ii, low_i, high_i), at
        value = g_i * p + g_j * q - 0.5 * (k_ii * p * p + 2.0 * k_ij * p * q + k_jj * q * q)
        if value > best:
            best, s, t = value, p, q
    return s, t


@kernel
def coupled_steps(K, diagonal, box, tiny, ratio, most, margin):
    """Take up to `most` steps on two variables without a sum to keep, until the largest violation is `ratio` of what it was.

    i violates the KKT conditions most. j gives the largest second-order gain after the step of i; if i then is free, it answers the
    move of j, which lowers the curvature by K_ij²/K_ii. Return the number of steps."""
    wide_vectors()
    a, low, high, g, r = box.a, box.low, box.high, box.g, box.r
    n = a.shape[0]
    up, down = high - a, low - a  # how far each variable can move
    target = -1.0
    for step in range(most):
        first = NO_KEY
        for k in range(n):
            rise, fall = g[k] if up[k] > 0.0 else 0.0, -g[k] if down[k] < 0.0 else 0.0
            first = max(first, _key(max(rise, fall), k))
        i = first & INDEX_BITS
        violation = abs(g[i]) if (up[i] > 0.0 if g[i] > 0.0 else down[i] < 0.0) else 0.0
        if target < 0.0:
            target = max(ratio * violation, NOISE * margin)
        if violation <= target:
            return step
        row, own = K[i], max(diagonal[i], tiny)
        s = _clip(g[i] / own, down[i], up[i])
        answer = 1.0 / own if down[i] < s < up[i] else 0.0
        second = NO_KEY
        for k in range(n):
            value = row[k]
            slope, curvature = g[k] - s * value, max(diagonal[k] - answer * value * value, tiny)
            t = min(max(slope / curvature, down[k]), up[k])
            second = max(second, _key(t * (slope - 0.5 * curvature * t), k))
        j = second & INDEX_BITS
        t, other = 0.0, K[j]
        if j != i:
            curvatures = own + tiny, row[j], max(diagonal[j], tiny) + tiny  # definite for rows that are there twice, too
            s, t = _best_in_box(curvatures, (g[i], g[j]), (down[i], down[j]), (up[i], up[j]))
        a[i] = _moved(a[i], s, low[i], high[i])
        a[j] = _moved(a[j], t, low[j], high[j])
        for k in range(n):
            g[k] -= s * row[k] + t * other[k]
        g[i] -= s * r[i]
        g[j] -= t * r[j]
        up[i], down[i] = high[i] - a[i], low[i] - a[i]
        up[j], down[j] = high[j] - a[j], low[j] - a[j]
    return most
