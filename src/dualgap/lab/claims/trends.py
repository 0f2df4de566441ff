"""Checks on sweeps and on oscillation: what falls along a grid, what stays the same, what wobbles."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Answer,
    Names,
    Settings,
    Untold,
    all_of,
    check,
    differences,
    for_each_data_set,
    level,
    once,
    percent,
    pick,
    spread,
    unsure,
)
from dualgap.lab.figures import ended, named, plain
from dualgap.lab.results import Group, Results
from dualgap.lab.tables import shown_number

__all__ = ["best_of_grid", "constant", "steady", "trend", "wobble", "wobble_order", "wobble_trend", "wobbles"]


def wobble(group: Group, column: str = "primal") -> np.ndarray:
    """Return the mean rise of a column an epoch over the later half of the epochs, relative to it; one number a run.

    An error is taken as it is: relative to errors near 0 every rise would be large.
    """
    found = []
    for values in group.traces(column):
        late = values[len(values) // 2 :]
        rises = np.maximum(np.diff(late), 0.0)
        scale = max(float(np.median(late)), 1e-300) if column == "primal" else 1.0
        found.append(float(np.mean(rises) / scale) if len(rises) else np.nan)
    values = once(group, np.array(found))
    if not np.isfinite(values).all():
        raise Untold(f"{group.solver.label or group.solver.id} has too few evaluations for its oscillation")
    return values


def _paired(more: Group, less: Group, column: str) -> Any:
    a, b = wobble(more, column), wobble(less, column)
    size = max(len(a), len(b))
    if len(a) not in (1, size) or len(b) not in (1, size):
        raise Untold("The solvers have not the same runs")
    return spread(np.broadcast_to(a, size) - np.broadcast_to(b, size))


def _words(column: str) -> str:
    return "rise of the objective an epoch, relative to it" if column == "primal" else f"rise of {named(column)} an epoch"


@check
@for_each_data_set
def wobbles(
    results: Results,
    race: str,
    data: str,
    who: str,
    rivals: Names = (),
    least: float = 0.0,
    column: str = "primal",
    settings: Settings = NOTHING,
) -> Answer:
    """Late in the run one solver's objective (or error) rises by more than `least` an epoch, and by more than every rival's."""
    group = pick(results, race, data, who, settings)
    mine = spread(wobble(group, column))
    found = {s: _paired(group, pick(results, race, data, s, settings), column) for s in rivals}
    states = [mine.within(low=least), *(f.within(low=0.0, strict=True) for f in found.values())]
    numbers = {results.label(who): percent(mine.mean)}
    numbers |= {results.label(s): percent(mine.mean - f.mean) for s, f in found.items()}
    state = all_of(states)
    what = "the objective" if column == "primal" else named(column)
    text = f"In the later half {what} rises by {percent(mine.mean)} an epoch for {results.label(who)}"
    if found:
        worst = min(found, key=lambda s: found[s].mean)
        text += f", {percent(mine.mean - found[worst].mean)} for {results.label(worst)}{unsure(state, found[worst])}"
    asked = f"{_words(column)} of at least {percent(least)}" + (", and more than each other's" if rivals else "")
    return Answer(state, f"{text}.", numbers, asked)


@check
@for_each_data_set
def steady(
    results: Results,
    race: str,
    data: str,
    solvers: Names,
    most: float,
    column: str = "primal",
    unsteady: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """Late in the run no solver's objective (or error) rises by more than `most` an epoch; with `unsteady`, each one's does."""
    found = {s: spread(wobble(pick(results, race, data, s, settings), column)) for s in solvers}
    states = [f.within(low=most, strict=True) if unsteady else f.within(high=most) for f in found.values()]
    state = all_of(states)
    text = ", ".join(f"{percent(f.mean)} for {results.label(s)}" for s, f in found.items())
    worst = min(found.values(), key=lambda f: f.mean) if unsteady else max(found.values(), key=lambda f: f.mean)
    asked = f"{_words(column)} in the later half: {'more' if unsteady else 'no more'} than {percent(most)}"
    numbers = {results.label(s): percent(f.mean) for s, f in found.items()}
    return Answer(state, f"It is {text}{unsure(state, worst)}.", numbers, asked)


@check
@for_each_data_set
def wobble_order(
    results: Results, race: str, data: str, tiers: list[list[str]], column: str = "primal", settings: Settings = NOTHING
) -> Answer:
    """Solvers of a later tier oscillate more than those of an earlier one."""
    states, texts, worst = [], [], None
    for calm, wild in pairwise(tiers):
        for a in calm:
            for b in wild:
                found = _paired(pick(results, race, data, b, settings), pick(results, race, data, a, settings), column)
                state = found.within(low=0.0, strict=True)
                states.append(state)
                if state is not True:
                    worst = found
                    word = "oscillates no more than" if state is False else "does not clearly oscillate more than"
                    texts.append(f"{results.label(b)} {word} {results.label(a)}")
    numbers = {
        results.label(s): percent(float(wobble(pick(results, race, data, s, settings), column).mean()))
        for tier in tiers
        for s in tier
    }
    state = all_of(states)
    order = " < ".join("(" + ", ".join(results.label(s) for s in tier) + ")" for tier in tiers)
    text = "; ".join(texts) if texts else "They oscillate in that order"
    return Answer(state, f"{text}{unsure(state, worst) if worst else ''}.", numbers, f"{_words(column)} in the later half: {order}")


def _along(results: Results, race: str, data: str, solver: str, x: str) -> list[tuple[float, Group]]:
    groups = [(g.settings.get(x), g) for g in results.select(race, data, [solver])]
    points = sorted(((float(value), g) for value, g in groups if value is not None), key=lambda pair: pair[0])
    if len(points) < 2:
        raise Untold(f"{results.label(solver)} has fewer than two values of {x} on {results.data_name(data)}")
    return points


@check
@for_each_data_set
def wobble_trend(results: Results, race: str, data: str, x: str, solvers: Names, column: str = "primal") -> Answer:
    """The smaller x, the more the solvers' objectives (or errors) oscillate: at its smallest value more than at its largest."""
    numbers: dict[str, Any] = {}
    states, texts = [], []
    for solver in solvers:
        points = _along(results, race, data, solver, x)
        found = _paired(points[0][1], points[-1][1], column)
        for value, group in (points[0], points[-1]):
            numbers[f"{results.label(solver)}, {x} = {plain(value)}"] = percent(float(wobble(group, column).mean()))
        state = found.within(low=0.0, strict=True)
        states.append(state)
        if state is not True:
            texts.append(f"{results.label(solver)} does not" if state is False else f"{results.label(solver)} does not clearly")
    text = f"Oscillates more at the smallest {x}: " + ("; ".join(texts) if texts else "all of them do")
    asked = f"{_words(column)} in the later half: larger at the smallest {x} than at the largest"
    return Answer(all_of(states), f"{text}.", numbers, asked)


@check
@for_each_data_set
def trend(
    results: Results, race: str, data: str, x: str, solvers: Names, column: str, falls: bool = True, least: float = 0.0
) -> Answer:
    """From the smallest to the largest x a column falls (or rises) by more than `least`, and never clearly turns on the way."""
    numbers: dict[str, Any] = {}
    states, texts = [], []
    sign = 1.0 if falls else -1.0
    for solver in solvers:
        points = _along(results, race, data, solver, x)
        means = [float(level(group, column).mean()) for _, group in points]
        numbers |= {f"{results.label(solver)}, {named(x)} = {plain(value)}": m for (value, _), m in zip(points, means, strict=True)}
        change = spread(sign * differences(points[0][1], points[-1][1], column))
        turns = [spread(sign * differences(a, b, column)).within(high=0.0, strict=True) for (_, a), (_, b) in pairwise(points)]
        enough = change.within(low=least, strict=True)
        states.append(False if True in turns else enough)
        turned = ", and turns on the way" if True in turns else ""
        way = "falls" if (change.mean > 0) == falls else "rises"
        text = (
            f"{results.label(solver)}: {', '.join(shown_number(m) for m in means)}, which {way} by {shown_number(abs(change.mean))}"
        )
        texts.append(f"{text}{turned}{unsure(enough, change) if not turned else ''}")
    ends = f"from the smallest {named(x)} to the largest"
    asked = f"{named(column)} {'falls' if falls else 'rises'} by more than {shown_number(least)} {ends}"
    return Answer(all_of(states), f"{'; '.join(texts)}.", numbers, f"{asked}, without turning")


@check
@for_each_data_set
def best_of_grid(
    results: Results, race: str, data: str, solver: str, x: str, used: float, column: str, least: bool = True
) -> Answer:
    """At one value of x a column is smaller (or larger) than at every other value of the grid. A run that diverged counts as worst."""
    points = dict(_along(results, race, data, solver, x))
    if used not in points:
        raise Untold(f"{results.label(solver)} has not run at {named(x)} = {plain(used)}")
    sign, worst = (1.0 if least else -1.0), 1e300
    values = {value: np.nan_to_num(sign * ended(g, column), nan=worst, posinf=worst) for value, g in points.items()}
    sizes = {len(v) for v in values.values()}
    if len(sizes) > 1:
        raise Untold(f"{results.label(solver)} has not the same runs at each {named(x)}")
    # Logarithms: a column that overflows at one value must not drown the others.
    found = {
        value: spread(np.sign(v - values[used]) * np.log1p(np.abs(v - values[used])))
        for value, v in values.items()
        if value != used
    }
    state = all_of(f.within(low=0.0, strict=True) for f in found.values())
    closest = min(found, key=lambda value: found[value].mean)
    numbers = {f"{named(x)} = {plain(value)}": float(np.median(sign * v)) for value, v in values.items()}
    text = f"{named(column)} is {shown_number(numbers[f'{named(x)} = {plain(used)}'])} at {plain(used)}, "
    text += f"{shown_number(numbers[f'{named(x)} = {plain(closest)}'])} at {plain(closest)}{unsure(state, found[closest])}"
    asked = f"{named(column)} {'smaller' if least else 'larger'} at {named(x)} = {plain(used)} than at each other value"
    return Answer(state, f"{text[0].upper()}{text[1:]}.", numbers, asked)


@check
@for_each_data_set
def constant(
    results: Results, race: str, data: str, x: str, solvers: Names, column: str, within: float, varies: bool = False
) -> Answer:
    """A column stays the same along the grid: any two values of x within `within`; a share of the largest for objectives.

    With `varies`, some two values of x differ by more.
    """
    numbers: dict[str, Any] = {}
    states, texts = [], []
    for solver in solvers:
        points = _along(results, race, data, solver, x)
        means = [float(level(group, column).mean()) for _, group in points]
        relative = column.endswith("primal") or column.startswith(("epochs_to:", "settles:"))
        scale = max(means) if relative else 1.0
        pairs = [spread(differences(a, b, column) / scale) for (_, a), (_, b) in combinations(points, 2)]
        same = all_of(found.within(-within, within) for found in pairs)
        state = same if not varies else None if same is None else not same
        states.append(state)
        numbers |= {f"{results.label(solver)}, {named(x)} = {plain(value)}": m for (value, _), m in zip(points, means, strict=True)}
        widest = max(pairs, key=lambda found: abs(found.mean))
        texts.append(f"{results.label(solver)} varies by {shown_number(abs(widest.mean))}{unsure(state, widest)}")
    share = " of the largest" if relative else ""
    asked = f"{named(column)} at any two values of {named(x)} within {shown_number(within)}{share}"
    if varies:
        asked = f"{named(column)} at some two values of {named(x)} further apart than {shown_number(within)}{share}"
    return Answer(all_of(states), f"{'; '.join(texts)}.", numbers, asked)
