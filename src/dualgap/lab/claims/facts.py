"""Checks across data sets, of the data themselves, of what a method needs, and of weak duality."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    NOTHING,
    Amount,
    Answer,
    Asked,
    Names,
    Settings,
    Untold,
    check,
    for_each_data_set,
    in_words,
    judged,
    level,
    percent,
    pick,
    spread,
)
from dualgap.lab.figures import named
from dualgap.lab.lineup import LINEUP
from dualgap.lab.results import Results
from dualgap.lab.tables import shown_number

__all__ = ["across_data", "data_fact", "has_no", "less_varied", "weak_duality"]


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
