"""Steps on a few dual variables inside a working set, whose small kernel matrix is at hand.

Signed variables aᵢ = cᵢβᵢyᵢ/l2 between low and high, errors e = y − K·a − r·a (r = 0 for the hinge), and

    D/l2 = Σ yᵢaᵢ − ½ aᵀKa − ½ Σ rᵢaᵢ²

A free intercept ties them by Σ aᵢ = 0: a pair moves together, a_i + t and a_j − t, t = (e_i − e_j)/(K_ii + K_jj − 2K_ij). The i is the
one with the largest e that can still rise, the j the one that can fall and with which D gains most: second order. Without that tie a
single variable moves, the one with which D gains most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualgap.jit import kernel

__all__ = ["Box", "gather", "pair_steps", "single_steps", "subtract_rows"]


class Box(NamedTuple):
    """Signed dual variables, their bounds, errors and the loss's own curvature r."""

    a: np.ndarray
    low: np.ndarray
    high: np.ndarray
    e: np.ndarray
    r: np.ndarray


@kernel
def gather(store, slots, columns, out):
    """out[s, t] = store[slots[s], columns[t]]"""
    for s in range(slots.shape[0]):
        row = store[slots[s]]
        for t in range(columns.shape[0]):
            out[s, t] = row[columns[t]]


@kernel
def subtract_rows(store, slots, change, e, first, last):
    """e[first:last] −= Σ change[s]·store[slots[s]], four rows at once so that e is read and written less often."""
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


@kernel
def pair_steps(K, box, tiny, ratio, most):
    """Two-variable steps until the violation is `ratio` of what it was at first, or `most` steps; returns how many."""
    a, low, high, e, r = box
    n = a.shape[0]
    target = -1.0
    for step in range(most):
        i = -1
        top = -np.inf
        for k in range(n):
            if a[k] < high[k] and e[k] > top:
                top, i = e[k], k
        if i < 0:
            return step
        row = K[i]
        own = row[i] + r[i]
        bottom = np.inf
        best, j, pace = 0.0, -1, 0.0
        for k in range(n):
            if a[k] > low[k]:
                gap = top - e[k]
                bottom = min(bottom, e[k])
                if gap > 0.0:
                    bend = max(own + K[k, k] + r[k] - 2.0 * row[k], tiny)
                    gain = gap * gap / bend
                    if gain > best:
                        best, j, pace = gain, k, gap / bend
        violation = top - bottom
        if target < 0.0:
            target = ratio * violation
        if j < 0 or violation <= target:
            return step
        t = min(pace, high[i] - a[i], a[j] - low[j])
        # A variable that reaches its bound is put there exactly: a rounding error short of it, it would be chosen again and again.
        a[i] = high[i] if t == high[i] - a[i] else a[i] + t
        a[j] = low[j] if t == a[j] - low[j] else a[j] - t
        other = K[j]
        for k in range(n):
            e[k] -= t * (row[k] - other[k])
        e[i] -= t * r[i]
        e[j] += t * r[j]
    return most


@kernel
def single_steps(K, box, tiny, ratio, most):
    """One-variable steps until the largest violation is `ratio` of what it was at first, or `most` steps; returns how many."""
    a, low, high, e, r = box
    n = a.shape[0]
    target = -1.0
    for step in range(most):
        best, i, violation, move = 0.0, -1, 0.0, 0.0
        for k in range(n):
            error = e[k]
            if (error > 0.0 and a[k] < high[k]) or (error < 0.0 and a[k] > low[k]):
                bend = max(K[k, k] + r[k], tiny)
                t = min(max(error / bend, low[k] - a[k]), high[k] - a[k])
                gain = t * (error - 0.5 * bend * t)
                violation = max(violation, abs(error))
                if gain > best:
                    best, i, move = gain, k, t
        if target < 0.0:
            target = ratio * violation
        if i < 0 or violation <= target:
            return step
        a[i] = min(max(a[i] + move, low[i]), high[i])
        row = K[i]
        for k in range(n):
            e[k] -= move * row[k]
        e[i] -= move * r[i]
    return most
