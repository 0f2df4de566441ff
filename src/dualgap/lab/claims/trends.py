"""Checks on sweeps and on oscillation: what falls along a grid, what stays the same, what wobbles."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Amount,
    Answer,
    Asked,
    Factor,
    Names,
    Settings,
    Spread,
    Untold,
    check,
    differences,
    for_each_data_set,
    in_percent,
    in_words,
    judged,
    judged_ways,
    level,
    once,
    percent,
    pick,
    spread,
    times,
)
from dualgap.lab.columns import ended, named, plain, shown_number
from dualgap.lab.results import Group, Results

__all__ = ["best_of_grid", "constant", "same_speed", "steady", "trend", "wobble", "wobble_order", "wobble_trend", "wobbles"]


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


def _paired(more: Group, less: Group, column: str) -> Spread:
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
    least: Amount = 0.0,
    column: str = "primal",
    settings: Settings = NOTHING,
) -> Answer:
    """Late in the run one solver's objective (or error) rises by more than `least` an epoch, and by more than every rival's."""
    group = pick(results, race, data, who, settings)
    mine = spread(wobble(group, column))
    found = {s: _paired(group, pick(results, race, data, s, settings), column) for s in rivals}
    parts = {results.label(who): Asked(mine, low=least)}
    parts |= {f"{results.label(who)} against {results.label(s)}": Asked(f, low=0.0, strict=True) for s, f in found.items()}
    numbers = {results.label(who): in_percent(mine)}
    numbers |= {results.label(s): percent(mine.mean - f.mean) for s, f in found.items()}
    what = "the objective" if column == "primal" else named(column)
    text = f"In the later half {what} rises by {percent(mine.mean)} an epoch for {results.label(who)}"
    if found:
        worst = min(found, key=lambda s: found[s].mean)
        text += f", {percent(mine.mean - found[worst].mean)} for {results.label(worst)}"
    asked = f"{_words(column)} of at least {percent(least)}" + (", and more than each other's" if rivals else "")
    return judged(parts, text, numbers, asked)


@check
@for_each_data_set
def steady(
    results: Results,
    race: str,
    data: str,
    solvers: Names,
    most: Amount,
    column: str = "primal",
    unsteady: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """Late in the run no solver's objective (or error) rises by more than `most` an epoch; with `unsteady`, each one's does."""
    found = {s: spread(wobble(pick(results, race, data, s, settings), column)) for s in solvers}
    parts = {results.label(s): Asked(f, low=most, strict=True) if unsteady else Asked(f, high=most) for s, f in found.items()}
    text = ", ".join(f"{percent(f.mean)} for {results.label(s)}" for s, f in found.items())
    asked = f"{_words(column)} in the later half: {'more' if unsteady else 'no more'} than {percent(most)}"
    numbers = {results.label(s): in_percent(f) for s, f in found.items()}
    return judged(parts, f"It is {text}", numbers, asked)


@check
@for_each_data_set
def wobble_order(
    results: Results, race: str, data: str, tiers: list[list[str]], column: str = "primal", settings: Settings = NOTHING
) -> Answer:
    """Solvers of a later tier oscillate more than those of an earlier one."""
    groups = {s: pick(results, race, data, s, settings) for tier in tiers for s in tier}
    parts, texts = {}, []
    for calm, wild in pairwise(tiers):
        for a, b in product(calm, wild):
            part = Asked(_paired(groups[b], groups[a], column), low=0.0, strict=True)
            parts[f"{results.label(b)} against {results.label(a)}"] = part
            if part.contradicted():
                texts.append(f"{results.label(b)} oscillates no more than {results.label(a)}")
    numbers = {results.label(s): in_percent(spread(wobble(group, column))) for s, group in groups.items()}
    order = " < ".join("(" + ", ".join(results.label(s) for s in tier) + ")" for tier in tiers)
    clear = all(part.confirmed() for part in parts.values())
    text = "; ".join(texts) if texts else "They oscillate in that order" + ("" if clear else ", or nearly so")
    return judged(parts, text, numbers, f"{_words(column)} in the later half: {order}")


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
    parts, texts = {}, []
    for solver in solvers:
        points = _along(results, race, data, solver, x)
        part = Asked(_paired(points[0][1], points[-1][1], column), low=0.0, strict=True)
        parts[results.label(solver)] = part
        for value, group in (points[0], points[-1]):
            numbers[f"{results.label(solver)}, {named(x)} = {plain(value)}"] = in_percent(spread(wobble(group, column)))
        if not part.confirmed():
            texts.append(f"{results.label(solver)} does not{'' if part.contradicted() else ' clearly'}")
    text = f"Oscillates more at the smallest {named(x)}: " + ("; ".join(texts) if texts else "all of them do")
    asked = f"{_words(column)} in the later half: larger at the smallest {named(x)} than at the largest"
    return judged(parts, text, numbers, asked)


@check
@for_each_data_set
def trend(
    results: Results, race: str, data: str, x: str, solvers: Names, column: str, falls: bool = True, least: Amount = 0.0
) -> Answer:
    """From the smallest to the largest x a column falls (or rises) by more than `least`, and never clearly turns on the way."""
    numbers: dict[str, Any] = {}
    parts, texts = {}, []
    sign = 1.0 if falls else -1.0
    for solver in solvers:
        points, who = _along(results, race, data, solver, x), results.label(solver)
        means = [float(level(group, column).mean()) for _, group in points]
        numbers |= {
            f"{who}, {named(x)} = {plain(value)}": in_words(spread(level(group, column)), column) for value, group in points
        }
        change = spread(sign * differences(points[0][1], points[-1][1], column))
        parts[who] = Asked(change, low=least, strict=True)
        steps = {
            f"{who}, {named(x)} = {plain(p)} to {plain(q)}": Asked(spread(sign * differences(a, b, column)), low=0.0, doubt=True)
            for (p, a), (q, b) in pairwise(points)
        }
        turned = ", and turns on the way" if len(points) > 2 and any(step.contradicted() for step in steps.values()) else ""
        way = "falls" if (change.mean > 0) == falls else "rises"
        texts.append(f"{who}: {', '.join(map(shown_number, means))}, which {way} by {shown_number(abs(change.mean))}{turned}")
        parts |= steps
    way = "falls" if falls else "rises"
    asked = f"{named(column)} {way} by more than {shown_number(least)} from the smallest {named(x)} to the largest, without turning"
    return judged(parts, "; ".join(texts), numbers, asked)


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
    closest = min(found, key=lambda value: found[value].mean)
    numbers = {f"{named(x)} = {plain(value)}": float(np.median(sign * v)) for value, v in values.items()}
    text = f"{named(column)} is {shown_number(numbers[f'{named(x)} = {plain(used)}'])} at {plain(used)}, "
    text += f"{shown_number(numbers[f'{named(x)} = {plain(closest)}'])} at {plain(closest)}"
    asked = f"{named(column)} {'smaller' if least else 'larger'} at {named(x)} = {plain(used)} than at each other value"
    parts = {f"{named(x)} = {plain(value)}": Asked(f, low=0.0, strict=True) for value, f in found.items()}
    return judged(parts, f"{text[0].upper()}{text[1:]}", numbers, asked)


@check
@for_each_data_set
def constant(
    results: Results, race: str, data: str, x: str, solvers: Names, column: str, within: Amount, varies: bool = False
) -> Answer:
    """A column stays the same along the grid: any two values of x within `within`; a share of the largest for objectives.

    With `varies`, some two values of x differ by more.
    """
    relative = column.endswith("primal") or column == "bound"
    numbers: dict[str, Any] = {}
    parts: dict[str, Asked] = {}
    texts = []
    for solver in solvers:
        points, who = _along(results, race, data, solver, x), results.label(solver)
        scale = max(float(level(group, column).mean()) for _, group in points) if relative else 1.0
        pairs = {
            f"{who}, {named(x)} = {plain(p)} and {plain(q)}": Asked(
                spread(differences(a, b, column) / scale), -within, within, apart=varies
            )
            for (p, a), (q, b) in combinations(points, 2)
        }
        numbers |= {
            f"{who}, {named(x)} = {plain(value)}": in_words(spread(level(group, column)), column) for value, group in points
        }
        widest = max(abs(pair.found.mean) for pair in pairs.values())
        texts.append(f"{who} varies by {shown_number(widest)}{' of the largest' if relative else ''}")
        parts |= pairs
    share = " of the largest" if relative else ""
    if varies:
        asked = f"{named(column)} at some two values of {named(x)} further apart than {shown_number(within)}{share}"
        return judged_ways([{name: part} for name, part in parts.items()], "; ".join(texts), numbers, asked)
    asked = f"{named(column)} at any two values of {named(x)} within {shown_number(within)}{share}"
    return judged(parts, "; ".join(texts), numbers, asked)


@check
@for_each_data_set
def same_speed(results: Results, race: str, data: str, x: str, solvers: Names, rest: Amount = 0.1, within: Factor = 2.0) -> Answer:
    """Along the grid the objective falls equally fast: until `rest` of its fall is left, any two values of x take similar epochs.

    The fall is a run's own, from its first value to the level at which it stays: it need not be that of the optimum.
    """
    column = f"settles:{1.0 - rest:.6g}"
    numbers: dict[str, Any] = {}
    parts: dict[str, Asked] = {}
    texts = []
    limit = float(np.log(within))
    for solver in solvers:
        points, who = _along(results, race, data, solver, x), results.label(solver)
        logs = {value: np.log(level(group, column)) for value, group in points}
        if len({len(values) for values in logs.values()}) > 1:
            raise Untold(f"{who} has not the same runs at each {named(x)}")
        pairs = {
            f"{who}, {named(x)} = {plain(p)} and {plain(q)}": Asked(spread(logs[p] - logs[q]), -limit, limit)
            for p, q in combinations(logs, 2)
        }
        numbers |= {f"{who}, {named(x)} = {plain(value)}, epochs": times(spread(values)) for value, values in logs.items()}
        texts.append(
            f"{who} takes up to {shown_number(max(float(np.exp(abs(p.found.mean))) for p in pairs.values()))} times as long"
        )
        parts |= pairs
    asked = f"{named(column)}: at any two values of {named(x)} within a factor of {shown_number(within)}"
    return judged(parts, "; ".join(texts), numbers, asked)
