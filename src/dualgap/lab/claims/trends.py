"""Checks on curves and sweeps: what falls, what wobbles, and when the best was reached."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from dualgap.lab.claims.checks import NOTHING, Names, Settings
from dualgap.lab.claims.verdicts import Answer, Untold, as_names, check, clearly_less, for_each_data_set, level, percent, pick
from dualgap.lab.figures import named, plain
from dualgap.lab.results import Group, Results
from dualgap.lab.tables import shown_number

__all__ = ["best_after", "best_setting", "first_epoch", "trend", "wobble_trend", "wobbles"]


def wobble(group: Group) -> np.ndarray:
    """Return the mean rise of the objective an epoch over the later half of the epochs, relative to it; one number a run."""
    found = []
    for primal in group.traces("primal"):
        late = primal[len(primal) // 2 :]
        rises = np.maximum(np.diff(late), 0.0)
        found.append(float(np.mean(rises) / max(np.median(late), 1e-300)) if len(rises) else np.nan)
    return np.array(found)


@check
@for_each_data_set
def wobbles(results: Results, race: str, data: str, who: str, rivals: list[str], least: float) -> Answer:
    """Late in the run one solver's objective rises by more than a share of itself an epoch, and by more than every rival's."""
    mine = wobble(pick(results, race, data, who))
    others = {solver: wobble(pick(results, race, data, solver)) for solver in rivals}
    numbers = {f"{results.label(s)}, mean rise an epoch": percent(float(w.mean())) for s, w in {who: mine, **others}.items()}
    worst = max(others, key=lambda s: others[s].mean())
    less = clearly_less(others[worst], mine)
    enough = float(mine.mean()) >= least
    text = f"In the later half, {results.label(who)} rises by {percent(float(mine.mean()))} of its objective an epoch on average, "
    text += f"{results.label(worst)} by {percent(float(others[worst].mean()))}"
    if less is None and enough:
        return Answer(None, f"{text}: within the spread over runs.", numbers)
    return Answer(bool(less) and enough, f"{text} (oscillating would mean more than {percent(least)}).", numbers)


def _along(results: Results, race: str, data: str, solver: str, x: str) -> list[tuple[float, Group]]:
    groups = [(g.settings.get(x), g) for g in results.select(race, data, [solver])]
    points = sorted(((float(value), g) for value, g in groups if value is not None), key=lambda pair: pair[0])
    if len(points) < 2:
        raise Untold(f"{results.label(solver)} has fewer than two values of {x} on {results.data_name(data)}")
    return points


@check
@for_each_data_set
def wobble_trend(results: Results, race: str, data: str, x: str, solvers: list[str], steady: Names = ()) -> Answer:
    """The smaller x, the more the solvers' objectives wobble; those that are steady do not."""
    numbers, wrong = {}, []
    for solver in [*solvers, *steady]:
        points = _along(results, race, data, solver, x)
        small, large = wobble(points[0][1]), wobble(points[-1][1])
        ends = f"{x} = {plain(points[0][0])}", f"{x} = {plain(points[-1][0])}"
        for end, values in zip(ends, (small, large), strict=True):
            numbers[f"{results.label(solver)}, {end}"] = percent(float(values.mean()))
        grows = clearly_less(large, small)
        if (grows is not True) if solver in solvers else (grows is True and float(small.mean()) > 0.01):
            wrong.append(results.label(solver))
    if not wrong:
        return Answer(True, f"The later objective wobbles more at the smallest {x} than at the largest, as claimed.", numbers)
    unsteady = [name for name in wrong if name in [results.label(solver) for solver in steady]]
    others = [name for name in wrong if name not in unsteady]
    texts = [f"{', '.join(unsteady)} wobbles more at a smaller {x} too"] if unsteady else []
    texts += [f"{', '.join(others)} does not clearly wobble more at a smaller {x}"] if others else []
    return Answer(False, f"{'; '.join(texts)}.", numbers)


@check
@for_each_data_set
def trend(
    results: Results, race: str, data: str, x: str, solvers: list[str], column: str, falls: bool = True, least: float = 0.0
) -> Answer:
    """From the smallest to the largest x, the final `column` falls (or rises) by more than `least`, and never clearly turns."""
    numbers: dict[str, Any] = {}
    wrong, texts = [], []
    for solver in solvers:
        points = [(value, level(group, column)) for value, group in _along(results, race, data, solver, x)]
        numbers |= {f"{results.label(solver)}, {named(x)} = {plain(value)}": float(v.mean()) for value, v in points}
        change = float(points[-1][1].mean() - points[0][1].mean()) * (-1.0 if falls else 1.0)
        steps = [(a, b) if falls else (b, a) for (_, a), (_, b) in pairwise(points)]
        turns = any(clearly_less(*step) is True for step in steps)
        start, end = (shown_number(float(points[place][1].mean())) for place in (0, -1))
        texts.append(f"{results.label(solver)} goes from {start} to {end}")
        if change <= least or turns:
            wrong.append(solver)
    text = f"From {named(x)} = {plain(points[0][0])} to {plain(points[-1][0])}, {named(column)} of {'; '.join(texts)}"
    return Answer(not wrong, f"{text}{'' if not wrong else ', which is no steady ' + ('fall' if falls else 'rise')}.", numbers)


@check
@for_each_data_set
def best_after(
    results: Results, race: str, data: str, column: str, epochs: dict[str, Any], close: float = 0.005, largest: bool = False
) -> Answer:
    """The epoch from which each solver stays within `close` of its best value lies in the range given, [from, to]."""
    numbers, wrong, texts = {}, [], []
    for solver, (low, high) in epochs.items():
        group = pick(results, race, data, solver)
        found = float(
            np.median([_first_best(v, e, close, largest) for v, e in zip(group.traces(column), group.traces("epoch"), strict=True)])
        )
        numbers[f"{results.label(solver)}, epochs"] = found
        texts.append(f"{results.label(solver)} after {shown_number(found)}")
        if not low <= found <= high:
            wrong.append(f"{results.label(solver)} ({low} to {high} claimed)")
    text = f"Within {shown_number(close)} of their best {named(column)}: {', '.join(texts)} epochs"
    return Answer(not wrong, f"{text}{'; not as claimed: ' + ', '.join(wrong) if wrong else ''}.", numbers)


def _first_best(values: np.ndarray, epochs: np.ndarray, close: float, largest: bool) -> float:
    """Return the first epoch at which a run is within `close` of the best value it ever has."""
    best = values.max() if largest else values.min()
    return float(epochs[np.flatnonzero(np.abs(values - best) <= close)[0]])


@check
@for_each_data_set
def first_epoch(results: Results, race: str, data: str, ahead: str, behind: str, column: str, error: str, close: float) -> Answer:
    """After one epoch a solver is ahead of another in one column, but not better by more than `close` in the error it ends with."""
    a, b = pick(results, race, data, ahead), pick(results, race, data, behind)
    early = [np.array([trace[0] for trace in g.traces(column)]) for g in (a, b)]
    late = [level(g, error) for g in (a, b)]
    quicker = clearly_less(*early)
    gained = float(late[1].mean() - late[0].mean())
    numbers = {
        f"{results.label(g.solver)}, {named(column)} after 1 epoch": float(v.mean()) for g, v in zip((a, b), early, strict=True)
    }
    numbers |= {f"{results.label(g.solver)}, {named(error)}": float(v.mean()) for g, v in zip((a, b), late, strict=True)}
    text = f"After one epoch {named(column)} is {shown_number(float(early[0].mean()))} against {shown_number(float(early[1].mean()))}; "
    text += f"{named(error)} at the end differs by {shown_number(abs(gained))}"
    if quicker is None:
        return Answer(None, f"{text}: too close to tell.", numbers)
    return Answer(quicker and gained <= close, f"{text}.", numbers)


@check
@for_each_data_set
def best_setting(
    results: Results, race: str, data: str, solver: str, x: str, used: float, within: float, least: float = 1.2
) -> Answer:
    """Over a sweep, another value than the one used comes within a share of the best bound at least `least` times sooner."""
    points = _along(results, race, data, solver, x)
    costs = {value: float(np.median(group.first("suboptimality", within))) for value, group in points}
    numbers = {f"{named(x)} = {plain(value)}, CPU seconds": cost for value, cost in costs.items()}
    best = min(costs, key=lambda value: costs[value])
    if not np.isfinite(costs[best]):
        return Answer(None, f"No value of {named(x)} came within {percent(within)} of the best bound in the budget.", numbers)
    text = f"{results.label(solver)} is quickest to within {percent(within)} at {named(x)} = {plain(best)}: "
    text += f"{shown_number(costs[best])} s"
    if used not in costs or not np.isfinite(costs[used]):
        return Answer(True, f"{text}; at {plain(used)} it does not get there in the budget.", numbers)
    gain = costs[used] / costs[best]
    return Answer(gain >= least, f"{text}, {shown_number(gain)} times sooner than at {plain(used)}.", numbers)


@check
def error_gap(
    results: Results, race: str, data: str, other: str, solvers: list[str], least: float, settings: Settings = NOTHING
) -> Answer:
    """The solvers' test error is larger on `data` than on `other` by at least `least`: the difference that a leaking split hides."""
    numbers: dict[str, Any] = {}
    differences = []
    for solver in as_names(solvers):
        honest, leaky = (
            float(level(pick(results, race, name, solver, dict(settings)), "test_error").mean()) for name in (data, other)
        )
        numbers |= {
            f"{results.label(solver)}, {results.data_name(data)}": honest,
            f"{results.label(solver)}, {results.data_name(other)}": leaky,
        }
        differences.append(honest - leaky)
    text = f"The test error is {percent(min(differences))} to {percent(max(differences))} larger on {results.data_name(data)}"
    return Answer(min(differences) >= least, f"{text} than on {results.data_name(other)}.", numbers)
