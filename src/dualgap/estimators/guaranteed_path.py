"""walk: models for every C of a range, each proven within ε of the optimum from one breakpoint to the next.

    1  solve at the least C; the range around it in which its pair (w, b), β is proven to be within ε follows without training
    2  jump: solve at a larger C, started from the last model
    3  fill what is left open between two solved pairs with mixes of the two, each with a range of its own; where a mix is not
       good enough, solve there, started from the mix
    4  repeat from 2 up to the largest C; then take the fewest ranges that cover all

A solved pair alone covers a factor of about 1 ± √(ε·P/penalty) in C, so that 1/√ε solves would be needed (Giesen et al. 2012). A mix of two
pairs has but the curvature of the path against it. The jump adapts: it grows while mixes are good, and shrinks where one was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualgap.proof import Pair, ProvenRange, Strengths, excess_at, make_pair, mixed, proven_range, reach
from dualgap.run import Result

__all__ = ["SOLVED_SHARE", "GuaranteedPath", "walk"]

SOLVED_SHARE = 0.25  # of ε: the relative gap to which models are solved
MIXED_SHARE = 0.75  # of ε: the relative gap up to which a mix is taken; above, its range would be narrow
FIRST_JUMP = 4.0  # the first jump, in half-widths of the first range
GROW, SHRINK = 1.6, 0.6  # factors on the jump, in log C
NARROW = 1e-9  # relative width of a range below which no progress is made: rounding has used up ε

Solve = Callable[[float, Any], Result]  # (C, warm start) -> a result to the relative gap SOLVED_SHARE·ε


class _Interval(NamedTuple):
    """A pair, the C that it was made for, and the range in which it is proven."""

    C: float
    low: float
    high: float
    pair: Pair


@dataclass(frozen=True)
class GuaranteedPath:
    """Models and the ranges of C that each is proven for, in rising order, without overlap.

    Attributes
    ----------
    coefs, intercepts, duals : a row, number or array for each model
    ranges : a ProvenRange for each model
    uncovered : pairs (low, high): parts of the range of C for which nothing is proven; empty if the walk came to its end
    results : the results of all solves, in the order in which they were made
    """

    coefs: np.ndarray
    intercepts: np.ndarray
    duals: list[np.ndarray]
    ranges: list[ProvenRange]
    uncovered: list[tuple[float, float]]
    results: list[Result]

    @property
    def breakpoints(self) -> np.ndarray:
        """Both ends of the range of each model, an array of shape (models, 2)."""
        return np.array([(each.Cs[0], each.Cs[-1]) for each in self.ranges]).reshape(-1, 2)

    @property
    def guarantee(self) -> float:
        """The largest gap / dual bound of all models over their ranges; infinite if a part is not covered."""
        if self.uncovered:
            return math.inf
        return max(c.gap / c.dual if c.dual > 0.0 else math.inf for each in self.ranges for c in each.certificates)

    def index(self, C: float) -> int:
        """Return which model is proven at C; of two at a breakpoint, the first."""
        for k, each in enumerate(self.ranges):
            if each.Cs[0] <= C <= each.Cs[-1]:
                return k
        parts = ", ".join(f"[{low:.6g}, {high:.6g}]" for low, high in self.uncovered)
        least, most = min([r.Cs[0] for r in self.ranges], default=math.nan), max([r.Cs[-1] for r in self.ranges], default=math.nan)
        raise ValueError(
            f"C={C!r} has no proven model: the models cover C from {least:.17g} to {most:.17g}" + (f", except {parts}" if parts else "")
        )


class _Walk:
    """The intervals found so far. `run` calls the other methods."""

    def __init__(self, solve: Solve, strengths: Strengths, low: float, high: float, epsilon: float) -> None:
        self.solve, self.strengths, self.low, self.high, self.epsilon = solve, strengths, low, high, epsilon
        self.found: list[_Interval] = []
        self.solved: list[_Interval] = []
        self.results: list[Result] = []

    def run(self) -> None:
        # 1) the least C
        if not self._solve_at(self.low, None):
            return
        jump = max(FIRST_JUMP * math.log(self.found[0].high / self.low), 1e-6)
        while (at := self._frontier()) < self.high:
            beyond = [each for each in self.solved if each.C > at]
            if not beyond:
                # 2) jump
                last = max(self.solved, key=lambda each: each.C)
                C = min(self.high, max(last.C * math.exp(jump), at * (1.0 + 1e-6)))
                if not self._solve_at(C, last.pair):
                    return
                jump *= GROW
                continue
            # 3) fill
            count = len(self.solved)
            if not self._fill(at, min(beyond, key=lambda each: each.C)):
                return
            if len(self.solved) > count:
                jump *= SHRINK

    def _frontier(self) -> float:
        """Return the C up to which everything is covered."""
        at = self.low
        for each in sorted(self.found, key=lambda each: each.low):
            if each.low > at:
                break
            at = max(at, each.high)
        return at

    def _fill(self, at: float, right: _Interval) -> bool:
        """Cover some of what is open from `at` on, left of a solved pair; return whether that went well."""
        left = max((each for each in self.solved if each.C <= at), key=lambda each: each.C)
        end = min(each.low for each in self.found if each.low > at)
        nearest = max((each for each in self.found if each.high == at), key=lambda each: each.C)
        step = at / max(nearest.C, nearest.low)
        C = at * step if 1.0 < step < math.sqrt(end / at) else math.sqrt(at * end)
        l2, _ = self.strengths(C)
        gaps = [each.pair.at(*self.strengths(C)).gap_bound for each in (left, right)]
        w, u = left.pair.vectors.distances(right.pair.vectors)  # type: ignore[arg-type]
        gain = 0.5 * (l2 * w + u / l2)
        t = min(max(0.5 + 0.5 * (gaps[0] - gaps[1]) / gain, 0.0), 1.0) if gain > 0.0 else 0.5
        pair = mixed(left.pair, right.pair, t)
        if excess_at(pair, self.strengths, MIXED_SHARE * self.epsilon, C) <= 0.0:
            return self._add(C, pair) is not None
        return self._solve_at(C, pair)

    def _solve_at(self, C: float, warm: Pair | None) -> bool:
        """Solve, and add the pair; return whether its range has some width."""
        result = self.solve(C, None if warm is None else (warm.coef, warm.intercept, warm.beta))
        self.results.append(result)
        added = self._add(C, make_pair(result.problem, result.coef, result.intercept, result.dual))
        if added is None:
            return False
        self.solved.append(added)
        return result.converged

    def _add(self, C: float, pair: Pair) -> _Interval | None:
        ends = [reach(pair, self.strengths, self.epsilon, C, limit) for limit in (self.low, self.high)]
        if excess_at(pair, self.strengths, self.epsilon, C) > 0.0 or ends[1] < ends[0] * (1.0 + NARROW):
            return None
        self.found.append(_Interval(C, ends[0], ends[1], pair))
        return self.found[-1]

    def chosen(self) -> list[_Interval]:
        """4) Return intervals that cover what all of them cover, as few as possible, cut so that they do not overlap."""
        least: list[_Interval] = []
        at, rest = self.low, sorted(self.found, key=lambda each: each.low)
        while rest:
            here = [each for each in rest if each.low <= at]
            best = max(here or [rest[0]], key=lambda each: each.high)
            if not here:
                at = best.low  # nothing covers what is before it
            if best.high > at or not least:
                least.append(best)
            at = max(at, best.high)
            rest = [each for each in rest if each.high > at]
        # The ranges of neighbours overlap: they meet in the middle.
        cuts = [math.sqrt(a.high * b.low) if b.low < a.high else None for a, b in zip(least, least[1:], strict=False)]
        lows = [least[0].low, *(b.low if cut is None else cut for b, cut in zip(least[1:], cuts, strict=True))] if least else []
        highs = [*(a.high if cut is None else cut for a, cut in zip(least, cuts, strict=False)), *(a.high for a in least[-1:])]
        return [each._replace(low=low, high=high) for each, low, high in zip(least, lows, highs, strict=True)]


def walk(solve: Solve, strengths: Strengths, low: float, high: float, epsilon: float) -> GuaranteedPath:
    """Return models such that for every C from `low` to `high` one is proven to have an objective of at most (1 + ε) times the optimum.

    Parameters
    ----------
    solve : function of C and a warm start, which is None or a tuple (coef, intercept, dual)
        Returns a result whose relative gap is at most SOLVED_SHARE·ε, or one that has not converged; then the walk ends there.
    strengths : function of C that returns (l2, l1)
    """
    walked = _Walk(solve, strengths, low, high, epsilon)
    walked.run()
    intervals = walked.chosen()
    ranges = []
    for each in intervals:
        middle = each.C if each.low < each.C < each.high else math.sqrt(each.low * each.high)
        ranges.append(proven_range(each.pair, strengths, tuple(sorted({each.low, middle, each.high}))))
    at, uncovered = low, []
    for each in ranges:
        if each.Cs[0] > at:
            uncovered.append((at, each.Cs[0]))
        at = each.Cs[-1]
    if at < high or not ranges:
        uncovered.append((at, high))
    size = walked.results[0].coef.shape[0]
    return GuaranteedPath(
        np.array([each.pair.coef for each in intervals]).reshape(-1, size),
        np.array([each.pair.intercept for each in intervals]),
        [each.pair.beta for each in intervals],
        ranges,
        uncovered,
        walked.results,
    )
