"""walk: models for every C of a range, each proven within ε of the optimum from one breakpoint to the next.

    1  solve at the least C; the range around it in which its pair (w, b), β is proven to be within ε follows without training
    2  jump: solve at a larger C, started from the last model
    3  fill what is left open between two solved pairs with mixes of the two, each with a range of its own; where a mix is not
       good enough, solve there, started from the mix
    4  repeat from 2 up to the largest C; then take the fewest ranges that cover all

A solved pair alone covers a factor of about 1 ± √(ε·P/penalty) in C, so that 1/√ε solves would be needed (Giesen 2012,
docs/references.md). A mix of two pairs has but the curvature of the path against it. The jump adapts: it grows while mixes are good, and
shrinks where one was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dualgap.answers.ranges import (
    Couple,
    Pair,
    ProvenRange,
    Strengths,
    excess_at,
    make_couple,
    make_pair,
    mixed_coef,
    proven_range,
    reach,
)
from dualgap.proof import Certificate
from dualgap.run import Trained

__all__ = ["SOLVED_SHARE", "GuaranteedPath", "walk"]

SOLVED_SHARE = 0.25  # of ε: the relative gap to which models are solved
MIXED_SHARE = 0.9  # of ε: the relative gap up to which the mix in the middle of two solved pairs is taken; above, solve there
FIRST_JUMP = 6.0  # the first jump in log C, in half-widths of the first range
TARGET = 0.75  # of ε: the gap in the middle that a jump aims at
ORDER = 3.0  # how fast that gap grows with the jump: its second to fourth power
GROW, SHRINK = 2.0, 0.5  # limits of the change of a jump
STEP = 0.95  # of the half-width of the last range: how far from its end the next mix is made
NARROW = 1e-9  # relative width of a range below which no progress is made: rounding has used up ε

Solve = Callable[[float, Any], Trained]  # (C, warm start) -> a result to the relative gap SOLVED_SHARE·ε


class _Interval(NamedTuple):
    """A pair, the C that it was made for, and the range in which it is proven."""

    C: float
    low: float
    high: float
    pair: Pair


class _Line(NamedTuple):
    """The share t of the right pair over C: t is affine in C^−p, with the p that gives `middle` at the geometric mean of both C."""

    left: float
    right: float
    middle: float

    def share(self, C: float) -> float:
        ratio = self.middle / (1.0 - self.middle) if 0.0 < self.middle < 1.0 else math.nan  # (right/left)^(p/2)
        place = math.log(C / self.left) / math.log(self.right / self.left)
        if not abs(math.log(ratio)) > 1e-3:  # p = 0: affine in log C
            return place
        return (1.0 - ratio ** (-2.0 * place)) / (1.0 - ratio**-2.0)


@dataclass(frozen=True)
class GuaranteedPath:
    """Models and the ranges of C that each is proven for, in rising order, without overlap.

    Attributes
    ----------
    Cs, coefs, intercepts : of the solved models, in rising order of C
    mixes : a tuple (i, j, t) for each model: it is (1 − t) times solved model i plus t times solved model j
    ranges : a ProvenRange for each model
    uncovered : pairs (low, high): parts of the range of C for which nothing is proven; empty if the walk came to its end
    """

    Cs: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    mixes: list[tuple[int, int, float]]
    ranges: list[ProvenRange]
    uncovered: list[tuple[float, float]]

    def model(self, k: int) -> tuple[np.ndarray, float]:
        """Return w and b of a model."""
        i, j, t = self.mixes[k]
        return mixed_coef(self.coefs[i], self.coefs[j], t), float(mixed_coef(self.intercepts[i], self.intercepts[j], t))

    def certificate(self, C: float) -> Certificate:
        """Return the certificate of the model that is proven at C."""
        return self.ranges[self.index(C)].at(C)

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
            f"C={C!r} has no proven model: the models cover C from {least:.17g} to {most:.17g}"
            + (f", except {parts}" if parts else "")
        )


class _Walk:
    """The intervals found so far. `run` calls the other methods.

    Sets: `found`, all intervals; `Cs`, `results` and `pairs`, of all solves, in the order of solving.
    """

    def __init__(self, solve: Solve, strengths: Strengths, low: float, high: float, epsilon: float) -> None:
        self.solve, self.strengths, self.low, self.high, self.epsilon = solve, strengths, low, high, epsilon
        self.found: list[_Interval] = []
        self.Cs: list[float] = []
        self.results: list[Trained] = []
        self.pairs: list[Pair] = []

    def run(self) -> None:
        """Cover the range from `low` to `high`, or up to where a solve fails."""
        # 1) the least C
        last = self._solve_at(self.low, None)
        if last is None:
            return
        jump = FIRST_JUMP * math.log(last.high / last.C)
        while last.high < self.high:
            # 2) jump
            C = min(self.high, max(last.C * math.exp(jump), last.high))
            after = self._solve_at(C, last.pair)
            if after is None:
                return
            # 3) fill
            share = self._fill(last, after)
            if share is None:
                return
            jump *= min(max((TARGET / max(share, 1e-9)) ** (1.0 / ORDER), SHRINK), GROW)
            last = after

    def _fill(self, left: _Interval, right: _Interval) -> float | None:
        """Cover what is open between two solved pairs; return the gap of the mix in the middle as a share of ε, None where that failed."""
        if right.low <= left.high:
            return 0.0
        couple = make_couple(left.pair, right.pair)
        middle = math.sqrt(left.C * right.C)
        t = couple.share(*self.strengths(middle))
        pair = couple.mixed(t)
        found = pair.at(*self.strengths(middle))
        share = found.gap_bound / (self.epsilon * found.upper)
        if not share <= MIXED_SHARE:
            return share if self._split(left, middle, pair, right) else None
        piece = self._add(middle, pair)
        assert piece is not None
        line = _Line(left.C, right.C, t)
        for last, end in ((left, piece.low), (piece, right.low)):
            stop = self._march(couple, line, last, end)
            if stop is not None:  # a bend of the path that the middle did not show
                return share if self._split(left, *stop, right) else None
        return share

    def _split(self, left: _Interval, C: float, pair: Pair, right: _Interval) -> bool:
        """Solve between two solved pairs, started from a mix, and fill both sides; return whether that went well."""
        between = self._solve_at(C, pair)
        return between is not None and self._fill(left, between) is not None and self._fill(between, right) is not None

    def _march(self, couple: Couple, line: _Line, last: _Interval, end: float) -> tuple[float, Pair] | None:
        """Cover from the end of an interval to `end` by mixes, one after the other; return the C and the mix that fails, if one does."""
        at, step = last.high, math.log(last.high / last.C)
        while at < end:
            C = min(at * math.exp(STEP * step), math.sqrt(at * end))
            pair = couple.mixed(line.share(C))
            piece = self._add(C, pair)
            if piece is None or (piece.low <= at and piece.high <= at * (1.0 + NARROW)):  # no proof, or none beyond `at`
                return C, pair
            step = math.log(piece.high / piece.C)
            if piece.low <= at:
                at = piece.high
            else:
                end, step = min(end, piece.low) if piece.high >= end else end, 0.5 * math.log(C / at)
        return None

    def _solve_at(self, C: float, warm: Pair | None) -> _Interval | None:
        """Solve, and add the pair; None where the solve has not converged, or rounding leaves no range."""
        result = self.solve(C, None if warm is None else (warm.coef, warm.intercept, warm.beta))
        self.results.append(result)
        self.Cs.append(C)
        self.pairs.append(make_pair(result.problem, result.coef, result.intercept, result.dual))
        added = self._add(C, self.pairs[-1])
        return added if result.converged else None

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
        cuts = [math.sqrt(a.high * b.low) if b.low < a.high else None for a, b in pairwise(least)]
        lows = [least[0].low, *(b.low if cut is None else cut for b, cut in zip(least[1:], cuts, strict=True))] if least else []
        highs = [*(a.high if cut is None else cut for a, cut in zip(least, cuts, strict=False)), *(a.high for a in least[-1:])]
        return [each._replace(low=low, high=high) for each, low, high in zip(least, lows, highs, strict=True)]


def walk(solve: Solve, strengths: Strengths, low: float, high: float, epsilon: float) -> tuple[GuaranteedPath, list[Trained]]:
    """Return models such that for every C from `low` to `high` one is proven to have an objective of at most (1 + ε) times the optimum.

    The results of the solves come with them, in rising order of C.

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
    ends = [(low, low), *((found.Cs[0], found.Cs[-1]) for found in ranges), (high, high)]
    uncovered = [(before[1], after[0]) for before, after in pairwise(ends) if after[0] > before[1]]
    order = sorted(range(len(walked.results)), key=walked.Cs.__getitem__)
    places = {id(walked.pairs[k]): place for place, k in enumerate(order)}
    results = [walked.results[k] for k in order]
    path = GuaranteedPath(
        np.array([walked.Cs[k] for k in order]),
        np.stack([result.coef for result in results]),
        np.array([result.intercept for result in results]),
        [(places[id(first)], places[id(second)], t) for first, second, t in (each.pair.parts for each in intervals)],
        ranges,
        uncovered,
    )
    return path, results
