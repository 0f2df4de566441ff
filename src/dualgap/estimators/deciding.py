"""fit(..., decide=rows) with more than two classes: rounds of ever smaller gaps until the labels of the rows are proven.

With two classes the driver does it (`run.deciding`), and so it does with the single problem of a joint fit. With one problem for each
class or pair of classes no problem can tell by itself whether a label is settled. So all are solved to a relative gap of `FIRST`; then
those that can still change an open row's label to a tenth of that, and so on, each from where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from dualgap.answers import Pairs, labels_by_class
from dualgap.estimators.fitting import Task, solve_tasks, worst_status
from dualgap.estimators.parameters import Budget
from dualgap.estimators.samples import Rows, is_store
from dualgap.problem import Problem
from dualgap.proof import Ball
from dualgap.run import Trained

__all__ = ["ClassVotes", "PairVotes", "check_decide", "solve_until_decided"]

FIRST, RATIO = 1e-2, 0.1  # the relative gap of the first round, and its factor from round to round


SMALLEST_TOL = 1e-14  # below it, a round runs to the limit of rounding


class ClassVotes:
    """One problem for each class against the rest: the largest score wins."""

    def codes(self, scores: np.ndarray) -> np.ndarray:
        """Return the class that wins in each row."""
        return scores.argmax(axis=1)

    def proven(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return in which rows the class given wins for certain."""
        return labels_by_class(codes, low, high)[0]

    def matters(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return which problems may change the label of some of these open rows: those of classes that may win there."""
        return np.asarray((high >= low.max(axis=1, keepdims=True)).any(axis=0))


class PairVotes:
    """One problem for each pair of K classes: most votes win."""

    def __init__(self, K: int, break_ties: bool) -> None:
        self.K, self.break_ties = K, break_ties

    def codes(self, scores: np.ndarray) -> np.ndarray:
        """Return the class that wins in each row, ties by the scores if they break ties."""
        votes, sums = np.zeros((len(scores), self.K)), np.zeros((len(scores), self.K))
        for k, (i, j) in enumerate(combinations(range(self.K), 2)):
            first = scores[:, k] > 0.0
            votes[:, i] += first
            votes[:, j] += ~first
            sums[:, i] += scores[:, k]
            sums[:, j] -= scores[:, k]
        return (votes + sums / (3.0 * (np.abs(sums) + 1.0)) if self.break_ties else votes).argmax(axis=1)

    def proven(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return in which rows the class given wins for certain."""
        return Pairs(low, high, self.K).labels(codes, self.break_ties)[0]

    def matters(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return which problems may change the label of some of these open rows: those whose votes are open there, or else all."""
        undecided = np.asarray(((low <= 0.0) & (high >= 0.0)).any(axis=0))
        return undecided if undecided.any() else np.ones(low.shape[1], dtype=bool)


def check_decide(X: object, l1_ratio: float) -> None:
    """Refuse `decide` where it cannot be done."""
    if is_store(X):
        raise ValueError("decide needs the training rows in memory; these are in a store: fit without decide")
    if l1_ratio == 1.0:
        raise ValueError("decide needs an l2 penalty, without which no label is proven; give l1_ratio below 1")


def solve_until_decided(
    tasks: Sequence[Task], around: Callable[[int], Any], *, budget: Budget, rows: Rows, votes: ClassVotes | PairVotes
) -> list[Trained]:
    """Solve every task as `solve_tasks` does; stop once the labels of `rows` are proven, or the budget's tolerance is reached."""
    began, tol = time.perf_counter(), max(FIRST, budget.tol)
    results: list[Any] = [None] * len(tasks)
    todo, is_open = list(range(len(tasks))), np.ones(rows.shape[0], dtype=bool)
    while True:
        _round(tasks, budget, around, tol, began, todo, results)
        is_open, matter = _look([r.ball for r in results], results, rows, is_open, votes)
        for result in results:
            result.trace.note("decided", 1.0 - float(is_open.mean()))
        late = [k for k, result in enumerate(results) if not _within(result, budget)]
        if not is_open.any():
            return [Trained.of(r, status="decided") if k in late else r for k, r in enumerate(results)]
        ended = worst_status([results[k].status for k in todo])
        if ended != "converged" or not late:  # the budget, or the tolerance
            return [Trained.of(r, status=ended) if k in late and r.status == "converged" else r for k, r in enumerate(results)]
        todo = late if tol <= budget.tol else [k for k in matter if k in late] or late
        tol = max(RATIO * tol, budget.tol) if RATIO * tol > SMALLEST_TOL else budget.tol


def _round(
    tasks: Sequence[Task],
    budget: Budget,
    around: Callable[[int], Any],
    tol: float,
    began: float,
    todo: list[int],
    results: list[Any],
) -> None:
    """Solve some of the tasks to a gap, each from where it stopped, and put the results in place."""
    first = results[todo[0]] is None
    left = None if budget.max_seconds is None else max(budget.max_seconds - (time.perf_counter() - began), 1e-9)
    used = 0 if first else max(results[k].epochs for k in todo)
    part = replace(budget, tol=tol, max_seconds=left, max_epochs=max(budget.max_epochs - used, 1))
    again = tasks if first else [replace(tasks[k], make=_the(results[k].problem), warm=_model(results[k])) for k in todo]
    for k, new in zip(todo, solve_tasks(again, around if first else lambda _: nullcontext(), budget=part), strict=True):
        old = results[k]
        if old is not None:
            seconds = {name: getattr(old, name) + getattr(new, name) for name in ("cpu_seconds", "wall_seconds", "compile_seconds")}
            new = Trained.of(new, trace=old.trace.followed_by(new.trace), epochs=old.epochs + new.epochs, **seconds)
        results[k] = new


def _model(result: Trained) -> tuple[np.ndarray, float, np.ndarray]:
    return result.coef, result.intercept, result.dual


def _the(problem: Problem) -> Callable[[], Problem]:
    return lambda: problem


def _within(result: Trained, budget: Budget) -> bool:
    return result.certificate.within(budget.tol, budget.atol)


def _look(
    balls: list[Ball], results: list[Trained], rows: Rows, is_open: np.ndarray, votes: ClassVotes | PairVotes
) -> tuple[np.ndarray, list[int]]:
    """Look at the open rows, or at all if none is left open; return which are open, and the problems that matter to them."""
    while True:
        chosen = np.flatnonzero(is_open)
        X = rows if len(chosen) == len(is_open) else rows[chosen]
        bounds = [ball.bounds(X) for ball in balls]
        low, high = np.stack([low for low, _ in bounds], axis=1), np.stack([high for _, high in bounds], axis=1)
        scores = np.stack([result.decision(X) for result in results], axis=1)
        left = ~votes.proven(votes.codes(scores), low, high)
        found = is_open.copy()
        found[chosen] = left
        if found.any() or len(chosen) == len(is_open):
            return found, np.flatnonzero(votes.matters(low[left], high[left])).tolist() if left.any() else []
        is_open = np.ones(len(is_open), dtype=bool)
