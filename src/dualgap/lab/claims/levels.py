"""Checks on how runs ended (near a value, alike, the best, at the same objective), on the data, and on weak duality.

All are of the model that the method puts out.
"""

from __future__ import annotations

from dataclasses import fields
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
from dualgap.lab.columns import ended, named, shown_number
from dualgap.lab.plan import LINEUP
from dualgap.lab.results import Group, Results

__all__ = [
    "across_data",
    "alike",
    "at_least",
    "below_baseline",
    "data_fact",
    "extreme",
    "has_no",
    "less_varied",
    "near",
    "not_worse",
    "same_objective",
    "weak_duality",
]


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


@check
def across_data(
    results: Results,
    race: str,
    smaller: str,
    larger: str,
    solvers: Names,
    column: str,
    least: Amount = 0.0,
    converged: bool = False,
    settings: Settings = NOTHING,
) -> Answer:
    """A column ends smaller on one data set than on another, by more than `least`, for each solver.

    With `converged`, every model must be certified to the relative gap at which its race stops: a model that is far from the optimum says
    nothing of what the problem's solution does.
    """
    tol = results.study.race(race).budget.tol
    numbers: dict[str, Any] = {}
    parts, texts = {}, []
    for solver in solvers:
        a, b = (pick(results, race, data, solver, settings) for data in (smaller, larger))
        for group in (a, b) if converged else ():
            if any(row["status"] != "converged" for row in group.rows):
                gap = shown_number(float(group.values("best_relative_gap").max()))
                raise Untold(
                    f"A run on {results.data_name(group.data)} ended at a relative gap of {gap}, before the {tol:g} asked for"
                )
        x, y = level(a, column), level(b, column)
        count = min(len(x), len(y)) if min(len(x), len(y)) > 1 else max(len(x), len(y))
        found = spread((y if len(y) == 1 else y[:count]) - (x if len(x) == 1 else x[:count]))
        parts[results.label(solver)] = Asked(found, low=least, strict=True)
        for g in (a, b):
            numbers[f"{results.label(solver)}, {results.data_name(g.data)}"] = in_words(spread(level(g, column)), column)
        numbers[f"{results.label(solver)}, difference"] = str(found)
        texts.append(f"{results.label(solver)}: {shown_number(float(x.mean()))} against {shown_number(float(y.mean()))}")
    names = results.data_name(smaller), results.data_name(larger)
    asked = f"{named(column)} on {names[0]} smaller by more than {shown_number(least)} than on {names[1]}"
    asked += f", models certified to a relative gap of {tol:g}" if converged else ""
    return judged(parts, "; ".join(texts), numbers, asked)


@check
@for_each_data_set
def less_varied(results: Results, race: str, data: str, who: str, than: str, column: str, settings: Settings = NOTHING) -> Answer:
    """A column varies less over the runs of one solver than over those of another (a two-sided F test at 5 %)."""
    from scipy.stats import f

    a, b = level(pick(results, race, data, who, settings), column), level(pick(results, race, data, than, settings), column)
    asked = f"standard deviation of {named(column)} over runs smaller for {results.label(who)} than for {results.label(than)}"
    if len(a) < 2 or len(b) < 2:
        return Answer(None, "One run has no spread.", {}, asked)
    deviations = float(a.std(ddof=1)), float(b.std(ddof=1))
    numbers = {results.label(s): d for s, d in zip((who, than), deviations, strict=True)}
    text = f"It is {shown_number(deviations[0])} against {shown_number(deviations[1])} over {len(a)} runs"
    if deviations[0] == 0.0 or deviations[1] == 0.0:
        return Answer(deviations[0] < deviations[1], f"{text}.", numbers, asked)
    ratio = (deviations[1] / deviations[0]) ** 2
    low, high = (float(f.ppf(share, len(b) - 1, len(a) - 1)) for share in (0.025, 0.975))
    state = True if ratio > high else False if ratio < low else None
    return Answer(state, f"{text}{'' if state is not None else ', which as many runs cannot tell apart'}.", numbers, asked)


@check
def data_fact(
    results: Results,
    data: str,
    features: int = 0,
    rows: int = 0,
    most_positive: float = 1.0,
    least_positive: float = 0.0,
    test: bool = False,
) -> Answer:
    """The data have the size and the share of positive rows that the text says."""
    about = results.store.data().get(data)
    if about is None:
        raise Untold(f"{results.data_name(data)} was not loaded")
    share = about["test_positive" if test else "positive"]
    wanted = [f"{features:,} features" if features else "", f"{rows:,} training rows" if rows else ""]
    wanted.append(
        f"{percent(least_positive)} to {percent(most_positive)} positive" if (least_positive, most_positive) != (0, 1) else ""
    )
    fine = (not features or about["features"] == features) and (not rows or about["rows"] == rows)
    fine = fine and least_positive <= share <= most_positive
    numbers = {"training rows": about["rows"], "features": about["features"], "positive": percent(share)}
    text = f"{about['rows']:,} training rows, {about['features']:,} features, {percent(share)} positive"
    return Answer(bool(fine), f"{text}.", numbers, ", ".join(filter(None, wanted)))


@check
def has_no(results: Results, solver: str, words: Names) -> Answer:
    """A solver has no parameter with one of these words in its name."""
    cls = LINEUP[results.study.solver_spec(solver).solver]
    names = [f.name for f in fields(cls)]
    found = [name for name in names if any(word in name for word in words)]
    text = f"Its parameters are {', '.join(names)}" if names else "It has no parameter"
    return Answer(not found, f"{text}.", {"parameters": ", ".join(names)}, f"no parameter named like {', '.join(words)}")


@check
def weak_duality(results: Results) -> Answer:
    """Every objective is at least every lower bound that was found for the same problem: no gap is negative."""
    least, count = np.inf, 0
    for group in results.groups:
        for primal, bound in zip(group.traces("primal"), group.bounds, strict=True):
            finite = primal[np.isfinite(primal)]
            if len(finite):
                least = min(least, float(np.min((finite - bound) / max(abs(bound), 1e-300))))
            count += len(primal)
    if not count:
        raise Untold("There is no finished run")
    text = f"The smallest of {count:,} distances, relative to the bound, is {shown_number(least)}"
    asked = "no objective below a bound (1e-9 for rounding)"
    return Answer(bool(least >= -1e-9), f"{text}.", {"smallest": least, "evaluations": count}, asked)
