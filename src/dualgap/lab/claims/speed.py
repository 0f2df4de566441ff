"""Checks on how fast: to a distance from the optimum, to the best error, an epoch, against the seconds of a text.

Distances from the optimum are measured from the best lower bound that any solver found on the same problem, so that "converged" never means
"stopped moving". Times are processor seconds of the updates. Two things are not known of them, and widen the interval of their ratio:

- Of a measured time, calls and clock took a part: the overhead of an epoch, measured where the study ran, times its epochs.
- A run that never came so near took at least what it spent. Nothing more is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
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
    as_names,
    check,
    for_each_data_set,
    judged,
    judged_ways,
    level,
    once,
    percent,
    pick,
    spread,
    times,
)
from dualgap.lab.columns import named, plain, shown_number
from dualgap.lab.results import Group, Results

__all__ = ["after_epoch", "best_after", "best_setting", "cost_ratio", "first", "improves", "reached", "text_seconds"]

COSTS = {"epoch": "epochs", "passes": "passes", "cpu_seconds": "CPU seconds", "iteration": "iterations"}
NEVER = "a run that never came so near took at least what it spent, which does not decide it"
OVERHEAD = "times so short that calls and clock, {least} to {most} µs an epoch, could reverse it"


def ratio(results: Results, slow: Group, quick: Group, within: float | None, cost: str) -> Spread:
    """Return log(slow/quick) of the cost over the runs: to come within a share of the best bound, or where that is None an epoch's."""
    mine, others = _costs(slow, within, cost), _costs(quick, within, cost)
    pairs = [(mine[run], others[run]) for run in mine if run in others]
    if not pairs:
        raise Untold(f"{results.label(slow.solver)} and {results.label(quick.solver)} have no run in common")
    logs = np.log([max(a[0], 1e-9) / max(b[0], 1e-9) for a, b in pairs])
    same = len(once(slow, logs)) == 1 and len(once(quick, logs)) == 1 and cost != "cpu_seconds"
    found = spread(logs[:1] if same else logs)
    if any(not a[2] or not b[2] for a, b in pairs):
        below = 0.0 if all(b[2] for _, b in pairs) else np.inf
        above = 0.0 if all(a[2] for a, _ in pairs) else np.inf
        return replace(found, below=below, above=above, slack=NEVER)
    return _without_overhead(found, pairs, *_overhead(results)) if cost == "cpu_seconds" else found


def _without_overhead(found: Spread, pairs: list[Any], least: float, most: float) -> Spread:
    """Return a spread of logarithms of ratios with an interval that also holds the ratio of the updates alone."""

    def rest(side: int, overhead: float) -> np.ndarray:
        return np.array([max(pair[side][0] - pair[side][1] * overhead, 0.0) for pair in pairs])

    with np.errstate(divide="ignore", invalid="ignore"):
        lows = np.log(rest(0, most)) - np.log(rest(1, least))
        highs = np.log(rest(0, least)) - np.log(rest(1, most))
    below, above = (
        float(np.nan_to_num(np.mean(side), nan=np.inf, posinf=np.inf)) for side in (found.mean - lows, highs - found.mean)
    )
    words = OVERHEAD.format(least=shown_number(1e6 * least), most=shown_number(1e6 * most))
    return replace(found, below=max(below, 0.0), above=max(above, 0.0), slack=words)


def _overhead(results: Results) -> tuple[float, float]:
    measured = results.store.epoch_overhead()
    if measured is None:
        raise Untold(
            "The overhead of an epoch was not measured with these results; the command that made them, given again, does so"
        )
    return measured


def _costs(group: Group, within: float | None, cost: str) -> dict[int, tuple[float, float, bool]]:
    """Return for each run what it took, or spent where it never came so near; the epochs of that; and whether it came so near."""
    runs = [row["run"] for row in group.rows]
    if within is None:
        each = group.values("cpu_seconds") / group.values("epochs")
        return {run: (float(value), 1.0, True) for run, value in zip(runs, each, strict=True)}
    found = {}
    for run, gaps, costs, epochs in zip(runs, *(group.traces(c) for c in ("suboptimality", cost, "epoch")), strict=True):
        near = np.flatnonzero(gaps <= within)
        place = int(near[0]) if len(near) else -1
        found[run] = (float(costs[place]), float(epochs[place]), bool(len(near)))
    return found


@check
@for_each_data_set
def first(
    results: Results,
    race: str,
    data: str,
    winners: Names,
    rivals: Names,
    within: Amount,
    cost: str = "cpu_seconds",
    settings: Settings = NOTHING,
) -> Answer:
    """One of the winners comes within a share of the best bound before every rival does."""
    groups = {s: pick(results, race, data, s, settings) for s in [*winners, *rivals]}
    medians = {s: float(np.median(g.first("suboptimality", within, cost))) for s, g in groups.items()}
    numbers = {f"{results.label(s)}, {COSTS[cost]}": value for s, value in medians.items()}
    asked = f"within {percent(within)} of the best bound in fewer {COSTS[cost]} than each other"
    if not any(np.isfinite(medians[s]) for s in groups):
        return Answer(None, f"None came within {percent(within)} of the best bound in the budget.", numbers, asked)
    ways = [
        {
            f"{results.label(s)} against {results.label(winner)}": Asked(
                ratio(results, groups[s], groups[winner], within, cost), low=0.0, strict=True
            )
            for s in rivals
        }
        for winner in winners
    ]
    mine, closest = (min(some, key=lambda s: medians[s]) for some in (winners, rivals))
    text = f"{results.label(mine)} took {_cost(medians[mine], cost)}, {results.label(closest)} {_cost(medians[closest], cost)}"
    return judged_ways(ways, text, numbers, asked)


def _cost(value: float, cost: str) -> str:
    return f"{shown_number(value)} {COSTS[cost]}" if np.isfinite(value) else "more than the budget"


@check
@for_each_data_set
def cost_ratio(
    results: Results,
    race: str,
    data: str,
    slow: str | Names,
    quick: str | Names,
    low: Factor = 1.0,
    high: Factor = np.inf,
    within: Amount | None = None,
    cost: str = "cpu_seconds",
    settings: Settings = NOTHING,
) -> Answer:
    """The cost of one solver over another's lies between two bounds: to within a share of the best bound or, without one, an epoch's.

    Of several solvers, each of the slow ones is compared with each of the quick ones.
    """
    slow, quick = as_names(slow), as_names(quick)
    groups = {s: pick(results, race, data, s, settings) for s in [*slow, *quick]}
    unit = f"{COSTS[cost]} an epoch" if within is None else f"{COSTS[cost]} to within {percent(within)} of the best bound"
    top = "" if not np.isfinite(high) else f" and at most {shown_number(high)}"
    least = "more than 1" if low == 1.0 else f"at least {shown_number(low)}"
    names = [" and ".join(results.label(s) for s in some) for some in (slow, quick)]
    asked = f"{unit} of {names[0]} over {names[1]}: {least}{top} times"
    limits = float(np.log(low)), float(np.log(high)) if np.isfinite(high) else np.inf
    parts, numbers, texts = {}, {}, []
    for a, b in product(slow, quick):
        found = ratio(results, groups[a], groups[b], within, cost)
        bound = (
            "" if np.isfinite(found.below) == np.isfinite(found.above) else "at least " if np.isfinite(found.below) else "at most "
        )
        how = f"{bound}{shown_number(float(np.exp(found.mean)))} times"
        texts.append(f"{results.label(a)} takes {how} as much as {results.label(b)}")
        name = f"{results.label(a)} over {results.label(b)}"
        parts[name] = Asked(found, *limits, strict=low == 1.0)
        numbers[f"{name}, times"] = times(found)
    return judged(parts, "; ".join(texts), numbers, asked)


@check
@for_each_data_set
def reached(
    results: Results,
    race: str,
    data: str,
    solvers: Names,
    within: Amount,
    after: float = np.inf,
    unit: str = "epoch",
    reached: bool = True,
    settings: Settings = NOTHING,
) -> Answer:
    """After a number of epochs (or iterations) every solver named is within a share of the best bound; or none is (reached = false)."""
    found = {}
    for solver in solvers:
        group = pick(results, race, data, solver, settings)
        pairs = zip(group.traces("suboptimality"), group.traces(unit), strict=True)
        values = np.array([_value_at(v, at, after) for v, at in pairs])
        found[solver] = spread(np.log10(np.clip(once(group, values), 1e-12, 1e12)))
    limit = float(np.log10(within))
    parts = {results.label(s): Asked(f, high=limit) if reached else Asked(f, low=limit, strict=True) for s, f in found.items()}
    numbers = {f"{results.label(s)}, above the best bound": f.in_words(lambda v: percent(float(10**v))) for s, f in found.items()}
    when = "at the end" if not np.isfinite(after) else f"after {after:g} {COSTS[unit]}"
    text = ", ".join(f"{results.label(s)} is {percent(float(10**f.mean))} above the best bound" for s, f in found.items())
    asked = f"{when} {'at most' if reached else 'more than'} {percent(within)} above the best bound"
    return judged(parts, f"{when[0].upper()}{when[1:]} {text}", numbers, asked)


def _value_at(values: np.ndarray, places: np.ndarray, after: float) -> float:
    """Return the value at the last evaluation up to a place; the first one's where all are later."""
    return float(values[max(int(np.sum(places <= after * (1 + 1e-9))) - 1, 0)])


@check
@for_each_data_set
def text_seconds(results: Results, race: str, data: str, solver: str, seconds: float, epochs: int, within: Factor) -> Answer:
    """As many epochs take about the text's seconds: the factor between the two is at most `within` either way."""
    group = pick(results, race, data, solver)
    spent = group.values("cpu_seconds") / group.values("epochs") * epochs
    found = spread(np.log(seconds / spent))
    factor, here = float(np.exp(found.mean)), float(np.exp(np.log(spent).mean()))
    numbers = {"seconds, text": seconds, "CPU seconds here": here, "factor": times(found)}
    text = f"{epochs} epochs take {shown_number(here)} s here and {shown_number(seconds)} s in the text, "
    text += f"a factor of {shown_number(round(factor) if factor >= 10 else factor)}"
    asked = f"{epochs} epochs in {shown_number(seconds)} s, up to a factor of {shown_number(within)}"
    limit = float(np.log(within))
    return judged({"": Asked(found, -limit, limit)}, text, numbers, asked)


@check
@for_each_data_set
def best_after(
    results: Results,
    race: str,
    data: str,
    column: str,
    epochs: Mapping[str, Any],
    close: Amount = 0.005,
    largest: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """The epoch at which each solver is first within `close` of its best value lies in the range given, [from, to]; from 0 for at most."""
    numbers: dict[str, Any] = {}
    parts, texts, asked = {}, [], []
    for solver, (low, high) in epochs.items():
        group = pick(results, race, data, solver, settings)
        values = [_first_best(v, e, close, largest) for v, e in zip(group.traces(column), group.traces("epoch"), strict=True)]
        # Counts of epochs vary by factors: the interval is that of their logarithm.
        found = spread(np.log(once(group, np.array(values))))
        numbers[f"{results.label(solver)}, epochs"] = times(found)
        parts[results.label(solver)] = Asked(found, float(np.log(low)) if low else -np.inf, float(np.log(high)))
        count = shown_number(float(np.exp(found.mean)))
        texts.append(f"{results.label(solver)} after {count} epoch{'' if count == '1' else 's'}")
        asked.append(f"{results.label(solver)} {f'{low} to' if low else 'at most'} {high}")
    why = f"Within {shown_number(close)} of their best {named(column)}: {', '.join(texts)}"
    return judged(parts, why, numbers, f"epochs: {', '.join(asked)}")


def _first_best(values: np.ndarray, epochs: np.ndarray, close: float, largest: bool) -> float:
    """Return the first epoch at which a run is within `close` of the best value it ever has."""
    best = values.max() if largest else values.min()
    return float(epochs[np.flatnonzero(np.abs(values - best) <= close)[0]])


@check
@for_each_data_set
def after_epoch(
    results: Results, race: str, data: str, ahead: str, behind: str, column: str, epoch: float = 1.0, least: bool = True
) -> Answer:
    """After an epoch, one solver is ahead of another in a column."""
    a, b = pick(results, race, data, ahead), pick(results, race, data, behind)
    early = {}
    for group in (a, b):
        pairs = zip(group.traces(column), group.traces("epoch"), strict=True)
        early[group] = np.array([_value_at(values, epochs, epoch) for values, epochs in pairs])
    if len(early[a]) != len(early[b]):
        raise Untold(f"{results.label(ahead)} and {results.label(behind)} have not the same runs")
    found = spread((early[b] - early[a]) * (1.0 if least else -1.0))
    numbers = {f"{results.label(g.solver)}, {named(column)}": str(spread(v)) for g, v in early.items()}
    text = f"{named(column)} of {results.label(ahead)} is {shown_number(float(early[a].mean()))}, "
    text += f"of {results.label(behind)} {shown_number(float(early[b].mean()))}"
    when = f"after {epoch:g} epoch{'' if epoch == 1 else 's'}"
    asked = f"{named(column)} {when}: {results.label(ahead)} {'below' if least else 'above'} {results.label(behind)}"
    return judged({"": Asked(found, low=0.0, strict=True)}, f"{text[0].upper()}{text[1:]}", numbers, asked)


@check
@for_each_data_set
def best_setting(
    results: Results, race: str, data: str, solver: str, x: str, used: float, within: Amount, least: Factor = 1.2
) -> Answer:
    """Over a sweep, another value than the one used comes within a share of the best bound at least `least` times sooner."""
    groups = {float(g.setting(x)): g for g in results.select(race, data, [solver]) if g.setting(x) is not None}
    asked = (
        f"within {percent(within)} of the best bound at least {shown_number(least)} times sooner than at {named(x)} = {plain(used)}"
    )
    if used not in groups or len(groups) < 2:
        raise Untold(f"{results.label(solver)} has not run at {named(x)} = {plain(used)} and another value")
    medians = {value: float(np.median(g.first("suboptimality", within))) for value, g in groups.items()}
    numbers: dict[str, Any] = {f"{named(x)} = {plain(value)}, CPU seconds": cost for value, cost in medians.items()}
    if not any(np.isfinite(cost) for cost in medians.values()):
        text = f"No value of {named(x)} came within {percent(within)} of the best bound in the budget."
        return Answer(None, text, numbers, asked)
    found = {v: ratio(results, groups[used], g, within, "cpu_seconds") for v, g in groups.items() if v != used}
    best = min(found, key=lambda value: medians[value])
    text = f"At {named(x)} = {plain(best)} it is {shown_number(float(np.exp(found[best].mean)))} times sooner there"
    ways = [{f"{named(x)} = {plain(value)}": Asked(f, low=float(np.log(least)))} for value, f in found.items()]
    return judged_ways(ways, text, numbers, asked)


@check
@for_each_data_set
def improves(
    results: Results, race: str, data: str, solvers: Names, column: str, early: float, largest: bool = True, unit: str = "epoch"
) -> Answer:
    """A column is better at the end of the run than early in it."""
    found = {}
    for solver in solvers:
        group = pick(results, race, data, solver)
        last = level(group, column)
        then = [_value_at(v, at, early) for v, at in zip(group.traces(column), group.traces(unit), strict=True)]
        found[solver] = spread((last - once(group, np.array(then))) * (1.0 if largest else -1.0))
    parts = {results.label(s): Asked(f, low=0.0, strict=True) for s, f in found.items()}
    numbers = {f"{results.label(s)}, gained in {named(column)}": str(f) for s, f in found.items()}
    text = ", ".join(f"{results.label(s)} gains {shown_number(f.mean)}" for s, f in found.items())
    return judged(parts, text, numbers, f"{named(column)} better at the end than after {early:g} {COSTS[unit]}")
