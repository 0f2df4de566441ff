"""Checks on how runs ended: near a value, alike, the best, at the same objective. All are of the model that the method puts out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Amount,
    Amounts,
    Answer,
    Asked,
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
)
from dualgap.lab.figures import ended, named
from dualgap.lab.results import Group, Results
from dualgap.lab.tables import shown_number

__all__ = ["alike", "at_least", "below_baseline", "extreme", "near", "not_worse", "same_objective"]

ROUNDED = 1.0 + 1e-9  # times a limit: a mean that is at the limit but for its rounding is within it


def levels_in_words(results: Results, groups: list[Group], column: str) -> dict[str, Any]:
    """Return the mean and the interval of a column for each solver."""
    return {results.label(group.solver): in_words(spread(level(group, column)), column) for group in groups}


@check
@for_each_data_set
def near(
    results: Results,
    race: str,
    data: str,
    solvers: Names,
    column: str,
    value: float,
    within: Amount,
    settings: Settings = NOTHING,
) -> Answer:
    """Every solver named ends within `within` of a value."""
    groups = [pick(results, race, data, solver, settings) for solver in solvers]
    low, high = value - within * ROUNDED, value + within * ROUNDED
    parts = {results.label(group.solver): Asked(spread(level(group, column)), low, high) for group in groups}
    far = [name for name, part in parts.items() if part.contradicted()]
    means = sorted(part.found.mean for part in parts.values())
    text = f"{named(column)} is {shown_number(means[0])}" + (f" to {shown_number(means[-1])}" if means[-1] > means[0] else "")
    text += f"; outside: {', '.join(far)}" if far else ""
    asked = f"{named(column)} within {shown_number(within)} of {shown_number(value)}"
    return judged(parts, f"{text[0].upper()}{text[1:]}", levels_in_words(results, groups, column), asked)


@check
@for_each_data_set
def alike(
    results: Results,
    race: str,
    data: str,
    families: Names = (),
    solvers: Names = (),
    columns: Amounts = NOTHING,
    settings: Settings = NOTHING,
) -> Answer:
    """Members of a family (or the solvers named) end within `columns[name]` of each other in each column, pair by pair."""
    members = {family: [g for g in results.select(race, data) if g.solver.family == family] for family in families}
    if solvers:
        members[""] = [pick(results, race, data, solver, settings) for solver in solvers]
    numbers: dict[str, Any] = {}
    parts: dict[str, Asked] = {}
    worst = []
    for family, groups in members.items():
        if len(groups) < 2:
            raise Untold(f"Fewer than two members of {family or 'the solvers named'} have run on {results.data_name(data)}")
        for column, most in columns.items():
            pairs = {
                f"{results.label(a.solver)} and {results.label(b.solver)}": Asked(
                    spread(differences(a, b, column)), -most * ROUNDED, most * ROUNDED
                )
                for a, b in combinations(groups, 2)
            }
            who, largest = max(pairs.items(), key=lambda pair: abs(pair[1].found.mean))
            numbers[f"{family + ', ' if family else ''}largest difference in {named(column)}"] = str(largest.found)
            if not all(pair.confirmed() for pair in pairs.values()):
                worst.append(f"{who} differ by {shown_number(abs(largest.found.mean))} in {named(column)}")
            parts |= {f"{name} ({named(column)})": pair for name, pair in pairs.items()}
    limits = ", ".join(f"{shown_number(most)} in {named(column)}" for column, most in columns.items())
    text = "; ".join(worst) if worst else "All stay within the limits of each other"
    return judged(parts, text, numbers, f"any two within {limits}")


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
    closest = min(found, key=lambda g: found[g].mean)
    ours, theirs = float(level(mine, column).mean()), float(level(closest, column).mean())
    text = f"{results.label(who)} ends with {shown_number(ours)}, {results.label(closest.solver)} with {shown_number(theirs)}"
    asked = f"{named(column)} {'smaller' if least else 'larger'} than that of every other, run by run"
    parts = {results.label(g.solver): Asked(f, low=0.0, strict=True) for g, f in found.items()}
    return judged(parts, text, levels_in_words(results, [mine, *others], column), asked)


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
    margin: Amount = 0.0,
    settings: Settings = NOTHING,
) -> Answer:
    """One solver ends at least as well as another, up to a margin: one-sided, so that being better is fine."""
    mine, other = pick(results, race, data, who, settings), pick(results, race, data, than, settings)
    found = spread((1.0 if largest else -1.0) * differences(mine, other, column))
    numbers = levels_in_words(results, [mine, other], column) | {"better by": str(found)}
    way = "better" if found.mean >= 0 else "worse"
    text = f"{results.label(who)} is {way} by {shown_number(abs(found.mean))} in {named(column)} than {results.label(than)}"
    asked = (
        f"{named(column)} of {results.label(who)} no worse than that of {results.label(than)} by more than {shown_number(margin)}"
    )
    return judged({"": Asked(found, low=-margin)}, text, numbers, asked)


@check
@for_each_data_set
def below_baseline(results: Results, race: str, data: str, solvers: Names) -> Answer:
    """No solver is more accurate than always predicting the larger class."""
    groups = [pick(results, race, data, solver) for solver in solvers]
    found = {g: spread(once(g, g.values("majority_accuracy") - g.values("accuracy"))) for g in groups}
    baseline = spread(groups[0].values("majority_accuracy"))
    numbers = {"always the commoner class": str(baseline)} | levels_in_words(results, groups, "accuracy")
    best = min(found, key=lambda g: found[g].mean)
    text = f"The most accurate, {results.label(best.solver)}, has {percent(float(level(best, 'accuracy').mean()))}, "
    text += f"the baseline {percent(baseline.mean)}"
    parts = {results.label(g.solver): Asked(f, low=0.0) for g, f in found.items()}
    return judged(parts, text, numbers, "no accuracy above that of always saying the commoner class")


@check
@for_each_data_set
def at_least(results: Results, race: str, data: str, solvers: Names, columns: dict[str, float], certified: Amount = 1.0) -> Answer:
    """Some solver, certified to a relative gap in every run, reaches every threshold at once; the best of them is shown."""
    asked = ", ".join(f"{named(column)} of at least {threshold:g}" for column, threshold in columns.items())
    asked += f", by a model certified to a relative gap of {shown_number(certified)}"
    groups = [pick(results, race, data, solver) for solver in solvers]
    able = [g for g in groups if float(level(g, "relative_gap").max()) <= certified]
    if not able:
        return Answer(None, f"No solver was certified to a relative gap of {shown_number(certified)}.", {}, asked)
    found = {g: {c: spread(level(g, c)) for c in columns} for g in able}
    best = max(able, key=lambda g: min(found[g][c].mean - columns[c] for c in columns))
    numbers: dict[str, Any] = {named(c): in_words(f, c) for c, f in found[best].items()}
    text = ", ".join(f"{named(c)} {shown_number(f.mean)}" for c, f in found[best].items())
    ways = [
        {f"{named(c)} of {results.label(g.solver)}": Asked(f, low=columns[c]) for c, f in of_group.items()}
        for g, of_group in found.items()
    ]
    return judged_ways(ways, f"{results.label(best.solver)}: {text}", numbers, asked)


@check
@for_each_data_set
def same_objective(
    results: Results,
    race: str,
    data: str,
    solvers: Names = (),
    within: Amount = 0.01,
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

    def above(group: Group) -> Spread:
        values = ended(group, column)
        if len(values) != len(bounds):
            raise Untold(f"Not every run of {results.label(group.solver)} on {results.data_name(data)} has ended")
        return spread(once(group, np.where(np.isfinite(values), values / np.array(bounds) - 1.0, 1e9)))

    found = {solver: above(pick(results, race, data, solver, settings)) for solver in [*solvers, *apart]}
    parts = {results.label(s): Asked(found[s], high=within) for s in solvers}
    parts |= {results.label(s): Asked(found[s], low=within, strict=True) for s in apart}
    numbers = {f"{results.label(s)}, above the best bound": in_percent(f) for s, f in found.items()}
    text = "; ".join(f"{results.label(s)} ends {percent(f.mean)} above the best bound" for s, f in found.items())
    asked = [f"within {percent(within)} of the best bound"] if solvers else []
    asked += [f"{', '.join(results.label(s) for s in apart)} more than {percent(within)} above it"] if apart else []
    return judged(parts, text, numbers, "; ".join(asked))
