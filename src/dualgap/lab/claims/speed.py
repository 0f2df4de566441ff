"""Checks on how fast: to a distance from the optimum, to the best error, an epoch, against the seconds of a text.

Distances from the optimum are measured from the best lower bound that any solver found on the same problem, so that "converged" never means
"stopped moving". Times are processor seconds of the updates; below `MEASURABLE` nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Answer,
    Names,
    Settings,
    Spread,
    Untold,
    all_of,
    any_of,
    check,
    for_each_data_set,
    level,
    once,
    percent,
    pick,
    spread,
    unsure,
)
from dualgap.lab.figures import named, plain
from dualgap.lab.results import Group, Results
from dualgap.lab.tables import shown_number

__all__ = ["after_epoch", "best_after", "best_setting", "cost_ratio", "first", "reached", "text_seconds"]

COSTS = {"epoch": "epochs", "passes": "passes", "cpu_seconds": "CPU seconds", "iteration": "iterations"}
NEVER = 2.0  # times the cost of the other: what a run that never gets there counts with at least, in the budget of both
MEASURABLE = 2e-3  # seconds: a run that takes less is mostly calls and clock
TOO_SHORT = "All took less than 2 ms, which says more of calls and of the clock than of the methods."


def log_ratios(slow: Group, quick: Group, within: float | None, cost: str) -> np.ndarray:
    """Return log(slow/quick) of the cost, run by run: to come within a share of the best bound, or where that is None an epoch's.

    A run that never came so near counts with all that it spent, which is the least that it would have taken, and with `NEVER` times the
    other's cost at least. Pairs in which neither did are left out.
    """
    found = []
    quick_by_run = {row["run"]: place for place, row in enumerate(quick.rows)}
    costs = [_costs(group, within, cost) for group in (slow, quick)]
    for place, row in enumerate(slow.rows):
        other = quick_by_run.get(row["run"])
        if other is None:
            continue
        (a, a_spent), (b, b_spent) = costs[0][place], costs[1][other]
        if np.isfinite(a) or np.isfinite(b):
            a_cost = a if np.isfinite(a) else max(a_spent, NEVER * b)
            b_cost = b if np.isfinite(b) else max(b_spent, NEVER * a)
            found.append(np.log(max(a_cost, 1e-9) / max(b_cost, 1e-9)))
    return np.array(found)


def _costs(group: Group, within: float | None, cost: str) -> list[tuple[float, float]]:
    """Return for each run what it took (infinity: it never came so near), and what it spent in all."""
    spent = group.last(cost)
    if within is None:
        each = group.values("cpu_seconds") / group.values("epochs")
        return [(float(value), float(value)) for value in each]
    return [(float(a), float(b)) for a, b in zip(group.first("suboptimality", within, cost), spent, strict=True)]


def _too_short(groups: list[Group], within: float | None, cost: str) -> bool:
    """Return whether all the times compared are too short: those to within a share of the bound or, for an epoch's, those of whole runs."""
    if cost != "cpu_seconds":
        return False
    times = [g.last("cpu_seconds") if within is None else g.first("suboptimality", within) for g in groups]
    reached = [float(np.median(t)) for t in times if np.isfinite(np.median(t))]
    return bool(reached) and max(reached) < MEASURABLE


@check
@for_each_data_set
def first(
    results: Results,
    race: str,
    data: str,
    winners: list[str],
    rivals: list[str],
    within: float,
    cost: str = "cpu_seconds",
    settings: Settings = NOTHING,
) -> Answer:
    """One of the winners comes within a share of the best bound before every rival does."""
    groups = {s: pick(results, race, data, s, settings) for s in [*winners, *rivals]}
    medians = {s: float(np.median(g.first("suboptimality", within, cost))) for s, g in groups.items()}
    numbers = {f"{results.label(s)}, {COSTS[cost]}": value for s, value in medians.items()}
    asked = f"within {percent(within)} of the best bound in fewer {COSTS[cost]} than each other"
    mine = min(winners, key=lambda s: medians[s])
    if not any(np.isfinite(medians[s]) for s in groups):
        return Answer(None, f"None came within {percent(within)} of the best bound in the budget.", numbers, asked)
    if _too_short(list(groups.values()), within, cost):
        return Answer(None, TOO_SHORT, numbers, asked)
    ratios = {s: log_ratios(groups[s], groups[mine], within, cost) for s in rivals}
    found = {s: spread(values) for s, values in ratios.items() if len(values)}
    if not found:
        return Answer(None, f"No pair of runs came within {percent(within)} of the best bound.", numbers, asked)
    states = {s: f.within(low=0.0, strict=True) for s, f in found.items()}
    state = all_of(states.values())
    closest = min(found, key=lambda s: found[s].mean)
    text = f"{results.label(mine)} took {_cost(medians[mine], cost)}, {results.label(closest)} {_cost(medians[closest], cost)}"
    return Answer(state, f"{text}{unsure(state, found[closest])}.", numbers, asked)


def _cost(value: float, cost: str) -> str:
    return f"{shown_number(value)} {COSTS[cost]}" if np.isfinite(value) else "more than the budget"


@check
@for_each_data_set
def cost_ratio(
    results: Results,
    race: str,
    data: str,
    slow: str,
    quick: str,
    low: float = 1.0,
    high: float = np.inf,
    within: float | None = None,
    cost: str = "cpu_seconds",
    settings: Settings = NOTHING,
) -> Answer:
    """The cost of one solver over another's lies between two bounds: to within a share of the best bound or, without one, an epoch's."""
    a, b = pick(results, race, data, slow, settings), pick(results, race, data, quick, settings)
    unit = f"{COSTS[cost]} an epoch" if within is None else f"{COSTS[cost]} to within {percent(within)} of the best bound"
    top = "" if not np.isfinite(high) else f" and at most {high:g}"
    least = "more than 1" if low == 1.0 else f"at least {low:g}"
    asked = f"{unit} of {results.label(slow)} over {results.label(quick)}: {least}{top} times"
    ratios = log_ratios(a, b, within, cost)
    if not len(ratios):
        return Answer(None, f"Neither came within {percent(within or 0)} of the best bound in the budget.", {}, asked)
    if _too_short([a, b], within, cost):
        return Answer(None, TOO_SHORT, {"times": shown_number(float(np.exp(ratios.mean())))}, asked)
    found = spread(once(a, ratios) if len(once(b, ratios)) == 1 else ratios)
    state = found.within(np.log(low), np.log(high) if np.isfinite(high) else np.inf, strict=low == 1.0)
    # A run that never came so near counts with what it spent: the ratio is then the least that it can be.
    cut = within is not None and not np.isfinite(a.first("suboptimality", within, cost)).all()
    if cut and state is False and found.mean < np.log(low):
        state = None
    times = Spread(float(np.exp(found.mean)), float(np.exp(found.low)), float(np.exp(found.high)), found.runs)
    never = within is not None and not np.isfinite(b.first("suboptimality", within, cost)).all()
    bound = "" if cut == never else "at least " if cut else "at most "
    text = f"{results.label(slow)} takes {bound}{shown_number(times.mean)} times as much as {results.label(quick)}"
    return Answer(state, f"{text}{unsure(state, found)}.", {"times": str(times)}, asked)


@check
@for_each_data_set
def reached(
    results: Results,
    race: str,
    data: str,
    solvers: list[str],
    within: float,
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
    states = [f.within(high=limit) if reached else f.within(low=limit, strict=True) for f in found.values()]
    numbers = {f"{results.label(s)}, above the best bound": percent(float(10**f.mean)) for s, f in found.items()}
    when = "at the end" if not np.isfinite(after) else f"after {after:g} {COSTS[unit]}"
    text = ", ".join(f"{results.label(s)} is {percent(float(10**f.mean))} above the best bound" for s, f in found.items())
    state = all_of(states)
    asked = f"{when} {'at most' if reached else 'more than'} {percent(within)} above the best bound"
    worst = max(found.values(), key=lambda f: f.mean) if reached else min(found.values(), key=lambda f: f.mean)
    return Answer(state, f"{when[0].upper()}{when[1:]} {text}{unsure(state, worst)}.", numbers, asked)


def _value_at(values: np.ndarray, places: np.ndarray, after: float) -> float:
    """Return the value at the last evaluation up to a place; the first one's where all are later."""
    return float(values[max(int(np.sum(places <= after * (1 + 1e-9))) - 1, 0)])


@check
@for_each_data_set
def text_seconds(results: Results, race: str, data: str, solver: str, seconds: float, epochs: int, within: float) -> Answer:
    """As many epochs take about the text's seconds: the factor between the two is at most `within` either way."""
    group = pick(results, race, data, solver)
    spent = group.values("cpu_seconds") / group.values("epochs") * epochs
    found = spread(once(group, np.log(seconds / spent)))
    factor = float(np.exp(found.mean))
    state = found.within(-np.log(within), np.log(within))
    numbers = {"seconds, text": seconds, "CPU seconds here": float(np.exp(np.log(spent).mean())), "factor": factor}
    text = f"{epochs} epochs take {shown_number(numbers['CPU seconds here'])} s here and {shown_number(seconds)} s in the text, "
    text += f"a factor of {shown_number(round(factor) if factor >= 10 else factor)}{unsure(state, found)}"
    asked = f"{epochs} epochs in {shown_number(seconds)} s, up to a factor of {within:g}"
    return Answer(state, f"{text}.", numbers, asked)


@check
@for_each_data_set
def best_after(
    results: Results,
    race: str,
    data: str,
    column: str,
    epochs: Mapping[str, Any],
    close: float = 0.005,
    largest: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """The epoch at which each solver is first within `close` of its best value lies in the range given, [from, to]."""
    numbers: dict[str, Any] = {}
    states, texts, asked = [], [], []
    for solver, (low, high) in epochs.items():
        group = pick(results, race, data, solver, settings)
        values = [_first_best(v, e, close, largest) for v, e in zip(group.traces(column), group.traces("epoch"), strict=True)]
        # Counts of epochs vary by factors: the interval is that of their logarithm.
        found = spread(np.log(once(group, np.array(values))))
        times = Spread(float(np.exp(found.mean)), float(np.exp(found.low)), float(np.exp(found.high)), found.runs)
        numbers[f"{results.label(solver)}, epochs"] = str(times)
        state = found.within(np.log(low), np.log(high))
        states.append(state)
        count = shown_number(times.mean)
        texts.append(f"{results.label(solver)} after {count} epoch{'' if count == '1' else 's'}{unsure(state, found)}")
        asked.append(f"{results.label(solver)} {low} to {high}")
    why = f"Within {shown_number(close)} of their best {named(column)}: {', '.join(texts)}."
    return Answer(all_of(states), why, numbers, f"epochs: {', '.join(asked)}")


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
    state = found.within(low=0.0, strict=True)
    numbers = {f"{results.label(g.solver)}, {named(column)}": str(spread(v)) for g, v in early.items()}
    text = f"{named(column)} of {results.label(ahead)} is {shown_number(float(early[a].mean()))}, "
    text += f"of {results.label(behind)} {shown_number(float(early[b].mean()))}{unsure(state, found)}"
    asked = (
        f"{named(column)} after {epoch:g} epoch{'' if epoch == 1 else 's'}: {results.label(ahead)} {'below' if least else 'above'}"
    )
    return Answer(state, f"{text[0].upper()}{text[1:]}.", numbers, f"{asked} {results.label(behind)}")


@check
@for_each_data_set
def best_setting(
    results: Results, race: str, data: str, solver: str, x: str, used: float, within: float, least: float = 1.2
) -> Answer:
    """Over a sweep, another value than the one used comes within a share of the best bound at least `least` times sooner."""
    groups = {float(g.setting(x)): g for g in results.select(race, data, [solver]) if g.setting(x) is not None}
    asked = f"within {percent(within)} of the best bound at least {least:g} times sooner than at {named(x)} = {plain(used)}"
    if used not in groups or len(groups) < 2:
        raise Untold(f"{results.label(solver)} has not run at {named(x)} = {plain(used)} and another value")
    medians = {value: float(np.median(g.first("suboptimality", within))) for value, g in groups.items()}
    numbers: dict[str, Any] = {f"{named(x)} = {plain(value)}, CPU seconds": cost for value, cost in medians.items()}
    if not any(np.isfinite(cost) for cost in medians.values()):
        return Answer(
            None, f"No value of {named(x)} came within {percent(within)} of the best bound in the budget.", numbers, asked
        )
    found = {}
    for value, group in groups.items():
        ratios = log_ratios(groups[used], group, within, "cpu_seconds")
        if value != used and len(ratios):
            found[value] = spread(ratios)
    best = max(found, key=lambda value: found[value].mean)
    gain = found[best]
    state = any_of(f.within(low=np.log(least)) for f in found.values())
    text = f"At {named(x)} = {plain(best)} it is {shown_number(float(np.exp(gain.mean)))} times sooner there{unsure(state, gain)}"
    return Answer(state, f"{text}.", numbers, asked)


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
        change = (last - once(group, np.array(then))) * (1.0 if largest else -1.0)
        found[solver] = spread(change)
    state = all_of(f.within(low=0.0, strict=True) for f in found.values())
    numbers = {f"{results.label(s)}, gained in {named(column)}": str(f) for s, f in found.items()}
    text = ", ".join(f"{results.label(s)} gains {shown_number(f.mean)}" for s, f in found.items())
    worst = min(found.values(), key=lambda f: f.mean)
    asked = f"{named(column)} better at the end than after {early:g} {COSTS[unit]}"
    return Answer(state, f"{text}{unsure(state, worst)}.", numbers, asked)
