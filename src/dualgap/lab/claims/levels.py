"""Checks on how runs ended: near a value, alike, the best, at the same objective. All are of the model that the method puts out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Answer,
    Limits,
    Names,
    Settings,
    Untold,
    all_of,
    any_of,
    check,
    differences,
    for_each_data_set,
    in_percent,
    in_words,
    level,
    once,
    percent,
    pick,
    spread,
    unsure,
)
from dualgap.lab.figures import ended, named
from dualgap.lab.results import Group, Results
from dualgap.lab.tables import shown_number

__all__ = ["alike", "at_least", "below_baseline", "extreme", "near", "not_worse", "same_objective"]


@check
@for_each_data_set
def near(
    results: Results,
    race: str,
    data: str,
    solvers: list[str],
    column: str,
    value: float,
    within: float,
    settings: Settings = NOTHING,
) -> Answer:
    """Every solver named ends within `within` of a value."""
    found = {solver: spread(level(pick(results, race, data, solver, settings), column)) for solver in solvers}
    low, high = value - within * (1 + 1e-9), value + within * (1 + 1e-9)
    states = {solver: f.within(low, high) for solver, f in found.items()}
    numbers = {results.label(solver): in_words(f, column) for solver, f in found.items()}
    far = [results.label(solver) for solver, state in states.items() if state is False]
    open_ = [results.label(solver) for solver, state in states.items() if state is None]
    means = sorted(f.mean for f in found.values())
    text = f"{named(column)} is {shown_number(means[0])}" + (f" to {shown_number(means[-1])}" if means[-1] > means[0] else "")
    text += f"; outside: {', '.join(far)}" if far else f"; not clearly inside: {', '.join(open_)}" if open_ else ", inside for all"
    asked = f"{named(column)} within {shown_number(within)} of {shown_number(value)}"
    return Answer(all_of(states.values()), f"{text[0].upper()}{text[1:]}.", numbers, asked)


@check
@for_each_data_set
def alike(
    results: Results,
    race: str,
    data: str,
    families: Names = (),
    solvers: Names = (),
    columns: Limits = NOTHING,
    settings: Settings = NOTHING,
) -> Answer:
    """Members of a family (or the solvers named) end within `columns[name]` of each other in each column, pair by pair."""
    parts = {family: [g for g in results.select(race, data) if g.solver.family == family] for family in families}
    if solvers:
        parts[""] = [pick(results, race, data, solver, settings) for solver in solvers]
    numbers: dict[str, Any] = {}
    states: list[bool | None] = []
    worst = []
    for part, groups in parts.items():
        if len(groups) < 2:
            raise Untold(f"Fewer than two members of {part or 'the solvers named'} have run on {results.data_name(data)}")
        for column, most in columns.items():
            pairs = {(a, b): spread(differences(a, b, column)) for a, b in combinations(groups, 2)}
            (a, b), largest = max(pairs.items(), key=lambda pair: abs(pair[1].mean))
            state = all_of(found.within(-most * (1 + 1e-9), most * (1 + 1e-9)) for found in pairs.values())
            states.append(state)
            numbers[f"{part + ', ' if part else ''}largest difference in {named(column)}"] = str(largest)
            who = f"{results.label(a.solver)} and {results.label(b.solver)} differ by {shown_number(abs(largest.mean))}"
            if state is not True:
                worst.append(f"{who} in {named(column)}{unsure(state, largest)}")
    limits = ", ".join(f"{shown_number(most)} in {named(column)}" for column, most in columns.items())
    text = "; ".join(worst) if worst else "All stay within the limits of each other"
    return Answer(all_of(states), f"{text}.", numbers, f"any two within {limits}")


@check
@for_each_data_set
def extreme(
    results: Results,
    race: str,
    data: str,
    who: str,
    column: str,
    least: bool = True,
    rivals: Names = (),
    settings: Settings = NOTHING,
) -> Answer:
    """One solver ends with the smallest (or largest) value of a column: it is beyond every rival, run by run."""
    mine = pick(results, race, data, who, settings)
    groups = results.select(race, data, None, dict(settings) or None)
    others = [g for g in groups if g.solver.id != who and (not rivals or g.solver.id in rivals)]
    if not others:
        raise Untold(f"There is nothing to compare {results.label(who)} with on {results.data_name(data)}")
    sign = 1.0 if least else -1.0
    found = {g: spread(sign * differences(g, mine, column)) for g in others}  # positive: mine is beyond
    states = {g: f.within(low=0.0, strict=True) for g, f in found.items()}
    state = all_of(states.values())
    closest = min(found, key=lambda g: found[g].mean)
    numbers = {results.label(g.solver): in_words(spread(level(g, column)), column) for g in [mine, *others]}
    ours, theirs = float(level(mine, column).mean()), float(level(closest, column).mean())
    text = f"{results.label(who)} ends with {shown_number(ours)}, {results.label(closest.solver)} with {shown_number(theirs)}"
    word = "smaller" if least else "larger"
    asked = f"{named(column)} {word} than that of every other, run by run"
    return Answer(state, f"{text}{unsure(state, found[closest])}.", numbers, asked)


@check
@for_each_data_set
def not_worse(
    results: Results,
    race: str,
    data: str,
    who: str,
    than: str,
    column: str,
    largest: bool = True,
    margin: float = 0.0,
    settings: Settings = NOTHING,
) -> Answer:
    """One solver ends at least as well as another, up to a margin: one-sided, so that being better is fine."""
    mine, other = pick(results, race, data, who, settings), pick(results, race, data, than, settings)
    found = spread((1.0 if largest else -1.0) * differences(mine, other, column))
    state = found.within(low=-margin)
    numbers = {results.label(g.solver): in_words(spread(level(g, column)), column) for g in (mine, other)} | {
        "better by": str(found)
    }
    text = f"{results.label(who)} is better by {shown_number(found.mean)} in {named(column)} than {results.label(than)}"
    if found.mean < 0:
        text = f"{results.label(who)} is worse by {shown_number(-found.mean)} in {named(column)} than {results.label(than)}"
    asked = (
        f"{named(column)} of {results.label(who)} no worse than that of {results.label(than)} by more than {shown_number(margin)}"
    )
    return Answer(state, f"{text}{unsure(state, found)}.", numbers, asked)


@check
@for_each_data_set
def below_baseline(results: Results, race: str, data: str, solvers: list[str]) -> Answer:
    """No solver is more accurate than always predicting the larger class."""
    groups = [pick(results, race, data, solver) for solver in solvers]
    found = {g: spread(once(g, g.values("majority_accuracy") - g.values("accuracy"))) for g in groups}
    states = {g: f.within(low=0.0) for g, f in found.items()}
    baseline = spread(groups[0].values("majority_accuracy"))
    numbers = {"always the commoner class": str(baseline)} | {
        results.label(g.solver): in_words(spread(level(g, "accuracy")), "accuracy") for g in groups
    }
    best = min(found, key=lambda g: found[g].mean)
    state = all_of(states.values())
    text = f"The most accurate, {results.label(best.solver)}, has {percent(float(level(best, 'accuracy').mean()))}, "
    text += f"the baseline {percent(baseline.mean)}{unsure(state, found[best])}"
    return Answer(state, f"{text}.", numbers, "no accuracy above that of always saying the commoner class")


@check
@for_each_data_set
def at_least(
    results: Results, race: str, data: str, solvers: list[str], columns: dict[str, float], certified: float = 1.0
) -> Answer:
    """Some solver, certified to a relative gap in every run, reaches every threshold at once; the best of them is shown."""
    asked = ", ".join(f"{named(column)} of at least {threshold:g}" for column, threshold in columns.items())
    asked += f", by a model certified to a relative gap of {shown_number(certified)}"
    groups = [pick(results, race, data, solver) for solver in solvers]
    able = [g for g in groups if float(level(g, "relative_gap").max()) <= certified]
    if not able:
        return Answer(None, f"No solver was certified to a relative gap of {shown_number(certified)}.", {}, asked)
    found = {g: {c: spread(level(g, c)) for c in columns} for g in able}
    states = {g: all_of(found[g][c].within(low=columns[c]) for c in columns) for g in able}
    best = max(able, key=lambda g: min(found[g][c].mean - columns[c] for c in columns))
    numbers = {named(c): in_words(f, c) for c, f in found[best].items()}
    text = ", ".join(f"{named(c)} {shown_number(f.mean)}" for c, f in found[best].items())
    return Answer(any_of(states.values()), f"{results.label(best.solver)}: {text}.", numbers, asked)


@check
@for_each_data_set
def same_objective(
    results: Results,
    race: str,
    data: str,
    solvers: Names = (),
    within: float = 0.01,
    apart: Names = (),
    common: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """The solvers end within a share of the best bound, run by run; those `apart` end further above it.

    With `common`, models are valued by the race's `value_by`: numbers of two objectives cannot be compared.
    """
    column = "common_primal" if common else "primal"
    # The first solver named minimises the common objective: its bounds are those of that one.
    bounds = pick(results, race, data, [*solvers, *apart][0], settings).bounds

    def above(group: Group) -> Any:
        values = ended(group, column)
        if len(values) != len(bounds):
            raise Untold(f"Not every run of {results.label(group.solver)} on {results.data_name(data)} has ended")
        return spread(once(group, np.where(np.isfinite(values), values / np.array(bounds) - 1.0, 1e9)))

    found = {solver: above(pick(results, race, data, solver, settings)) for solver in [*solvers, *apart]}
    states = [found[s].within(high=within) for s in solvers] + [found[s].within(low=within, strict=True) for s in apart]
    numbers = {f"{results.label(s)}, above the best bound": in_percent(f) for s, f in found.items()}
    marks = dict(zip(found, states, strict=True))
    ends = {s: f"{results.label(s)} ends {percent(f.mean)} above the best bound" for s, f in found.items()}
    text = "; ".join(f"{ends[s]}{unsure(marks[s], f).replace(';', ', but')}" for s, f in found.items())
    asked = f"within {percent(within)} of the best bound" if solvers else ""
    asked += (
        f"{'; ' if asked else ''}{', '.join(results.label(s) for s in apart)} more than {percent(within)} above it" if apart else ""
    )
    return Answer(all_of(states), f"{text}.", numbers, asked)
