"""Sweeps in two threads: each steps on its half of a chunk of rows with a v of its own; then both changes are added.

A half does not see what the other one changes. With Δₖ, the change of v by half k, and gₖ, by how much D rises with it alone,

    D(both) − D = g₁ + g₂ − l2·Δ₁·Δ₂        and D rises by at least (g₁ + g₂)/2 with half of both, as D is concave.

The last term in units of g₁ + g₂ is the interference. Where it is more than a trace, as with weak penalties and rows that share many
features, the halves overshoot together and a sweep is worth less than one on one thread: the run then goes on with one thread for good.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dualgap.core import L2, NoOffset, held, kernel, machine, processors, share
from dualgap.problem import Problem
from dualgap.solvers.coordinate.ascent import Ascent

__all__ = ["Replicas", "may_pay"]

CHUNKS = 8  # of a sweep, after each of which the halves are merged: fewer interfere more, more cost more
INTERFERENCE = 0.3  # part of the rise of D, up to which two threads go on
MERGE = 1.0  # nanoseconds to merge an entry of v, by two threads
MERGE_SHARE = 1.0  # of the time of a sweep in two threads, by an estimate that is low for a large v, that merging may take


def may_pay(problem: Problem, size: float) -> bool:
    """Return whether so many bytes of a problem's rows are worth two threads; D must be as above."""
    if size < 2 * CHUNKS * machine.READING or processors() < 2:
        return False
    return isinstance(problem.penalty, L2) and problem.kernel is None and isinstance(problem.offset, NoOffset)


class Replicas:
    """The v of the second thread, and the v of the last merging. Order of calls: `pay`, and `sweep` where they do."""

    def __init__(self) -> None:
        self.refuted = False  # whether interference was too large
        self.second: np.ndarray | None = None
        self.base: np.ndarray | None = None

    def pay(self, problem: Problem, ascent: Ascent, count: int, row_bytes: float, row_cost: float) -> bool:
        """Return whether a sweep over `count` rows is expected to take less time in two threads."""
        if self.refuted or not may_pay(problem, count * row_bytes):
            return False
        return CHUNKS * MERGE * len(ascent.v) <= MERGE_SHARE * 0.5 * count * row_cost

    def sweep(
        self, problem: Problem, ascent: Ascent, order: np.ndarray, visit: Callable[[np.ndarray, np.ndarray], Any]
    ) -> list[Any]:
        """Call visit(v, rows) for all rows of the order; move those that stay active to its front; return what the calls found.

        The first entry of what `visit` returns is the number of rows that it has moved to the front of its own.
        """
        if self.base is None or self.second is None:
            self.second, self.base = np.empty_like(ascent.v), np.empty_like(ascent.v)
        np.copyto(self.base, ascent.v)
        np.copyto(self.second, ascent.v)
        bounds, found, kept = [len(order) * k // CHUNKS for k in range(CHUNKS + 1)], [], 0
        for first, last in pairwise(bounds):
            if self.refuted:
                chunk = [order[first:last]]
                found.append(visit(ascent.v, chunk[0]))
                sums = found[-1:]
            else:
                middle = (first + last) // 2
                chunk = [order[first:middle], order[middle:last]]
                sums = self._both(problem, ascent, chunk, visit)
                found += sums
            for rows, half in zip(chunk, sums, strict=True):
                order[kept : kept + half[0]] = rows[: half[0]]  # numpy copies as if through a buffer where the two overlap
                kept += half[0]
        return found

    def _both(self, problem: Problem, ascent: Ascent, halves: list[np.ndarray], visit: Callable[..., Any]) -> list[Any]:
        """Visit two halves in two threads, and add their changes; half of the changes where D would not rise."""
        copies, vectors = [half.copy() for half in halves], (ascent.v, self.second)  # `visit` reorders its rows
        before = [ascent.beta[rows] for rows in copies]

        def work(k: int, _: int) -> tuple[Any, float]:
            earlier = weighted_psi(problem.loss, problem.c, ascent.beta, copies[k])
            found = visit(vectors[k], halves[k])
            return found, weighted_psi(problem.loss, problem.c, ascent.beta, copies[k]) - earlier

        with held():  # Ctrl-C waits: β and v belong together again afterwards
            return self._merge(problem, ascent, copies, before, share(work, 2, 1))

    def _merge(
        self, problem: Problem, ascent: Ascent, copies: list[np.ndarray], before: list[np.ndarray], done: list[tuple[Any, float]]
    ) -> list[Any]:
        """Add the changes of both halves, or half of them. Sets: refuted."""
        second, base = self.second, self.base
        assert second is not None
        assert base is not None
        found, rises = zip(*done, strict=True)
        bias = ascent.bias.centre / ascent.bias.scale if problem.intercept == "free" else 0.0
        last = len(ascent.v) - 1
        linear = bias * (ascent.v[last] + second[last] - 2.0 * base[last])
        parts = share(lambda a, b: merge(ascent.v, second, base, a, b), len(ascent.v), len(ascent.v) // 2)
        cross, *own = np.sum(parts, axis=0)  # Δ₁·Δ₂, and v·Δₖ + ‖Δₖ‖²/2 for both
        rise = float(np.sum(rises) - problem.l2 * (np.sum(own) + linear))
        interference = problem.l2 * float(cross)
        self.refuted = interference > INTERFERENCE * rise
        if interference > 0.5 * rise:
            for rows, old in zip(copies, before, strict=True):
                ascent.beta[rows] = 0.5 * (old + ascent.beta[rows])
            ascent.rebuild()
        return list(found)


@kernel
def weighted_psi(loss, c, beta, rows):
    """Σ cψ(β) over some rows"""
    s = 0.0
    for i in rows:
        s += c[i] * loss.psi(beta[i])
    return s


@kernel
def merge(first, second, base, begin, end):
    """first = second = base = first + second − base; return Δ₁·Δ₂, base·Δ₁ + ‖Δ₁‖²/2 and base·Δ₂ + ‖Δ₂‖²/2, for entries begin…end−1."""
    cross, own, other = 0.0, 0.0, 0.0
    for j in range(begin, end):
        a, b, v = first[j] - base[j], second[j] - base[j], base[j]
        cross += a * b
        own += a * (v + 0.5 * a)
        other += b * (v + 0.5 * b)
        v = first[j] + b
        first[j], second[j], base[j] = v, v, v
    return cross, own, other
