"""The checks that claims are judged by. Each looks at runs alone and returns an answer with its numbers.

Distances from the optimum are measured from the best lower bound that any solver found on the same problem, so that "converged" never
means "stopped moving".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dualgap.lab.claims.verdicts import (
    Answer,
    Untold,
    check,
    clearly_less,
    for_each_data_set,
    level,
    percent,
    pick,
)
from dualgap.lab.figures import named
from dualgap.lab.prepare import prepare
from dualgap.lab.results import Group, Results
from dualgap.lab.run_one import make_problem
from dualgap.lab.tables import shown_number

__all__ = ["alike", "at_least", "below_baseline", "extreme", "first", "near", "ratio", "same_objective"]

# what a claim may give as an option
Names = Sequence[str]
Limits = Mapping[str, float]
Settings = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})

COSTS = {"epoch": "epochs", "passes": "passes", "cpu_seconds": "CPU seconds"}


# ----------------------------------------------------------------------------------------------------------- how runs ended


@check
@for_each_data_set
def alike(
    results: Results,
    race: str,
    data: str,
    families: Names = (),
    solvers: Names = (),
    columns: Limits = NOTHING,
) -> Answer:
    """Members of a family (or the solvers named) end within `columns[name]` of each other in each column."""
    parts = {family: [g for g in results.select(race, data) if g.solver.family == family] for family in families}
    if solvers:
        parts["all"] = [pick(results, race, data, solver) for solver in solvers]
    numbers: dict[str, Any] = {}
    apart = []
    for part, groups in parts.items():
        if len(groups) < 2:
            raise Untold(f"Fewer than two members of {part} have run on {results.data_name(data)}")
        for column, within in columns.items():
            means = [float(level(group, column).mean()) for group in groups]
            spread = max(means) - min(means)
            numbers[f"{part}, spread of {named(column)}" if part != "all" else f"spread of {named(column)}"] = spread
            if spread > within * (1 + 1e-9):
                who = "the solvers" if part == "all" else f"those of the family {part}"
                apart.append(f"{who} differ by {shown_number(spread)} in {named(column)}")
    limits = ", ".join(f"{shown_number(within)} in {named(column)}" for column, within in columns.items())
    if apart:
        return Answer(False, f"Alike would mean within {limits}, but {'; '.join(apart)}.", numbers)
    return Answer(True, f"All stay within {limits} of each other.", numbers)


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
    means = {results.label(s): float(level(pick(results, race, data, s, dict(settings)), column).mean()) for s in solvers}
    far = [label for label, mean in means.items() if abs(mean - value) > within * (1 + 1e-9)]
    span = f"{shown_number(value)} ± {shown_number(within)}"
    if not far:
        return Answer(True, f"Every solver named ends at {span}.", means)
    who = "None" if len(far) == len(means) else f"Not {', '.join(far)}"
    low, high = min(means.values()), max(means.values())
    found = shown_number(low) if low == high else f"{shown_number(low)} to {shown_number(high)}"
    return Answer(False, f"{who} ends at {span}: {named(column)} is {found}.", means)


@check
@for_each_data_set
def extreme(results: Results, race: str, data: str, who: str, column: str, least: bool = True, rivals: Names = ()) -> Answer:
    """One solver ends with the smallest (or largest) value of a column, by more than the spread over runs."""
    groups = [g for g in results.select(race, data) if not rivals or g.solver.id in (who, *rivals)]
    mine = pick(results, race, data, who)
    others = [g for g in groups if g.solver.id != who]
    if not others:
        raise Untold(f"There is nothing to compare {results.label(who)} with on {results.data_name(data)}")
    sign = 1.0 if least else -1.0
    best = min(others, key=lambda g: sign * level(g, column).mean())
    numbers = {results.label(g.solver): float(level(g, column).mean()) for g in [mine, *others]}
    answer = clearly_less(sign * level(mine, column), sign * level(best, column))
    ours, theirs = numbers[results.label(who)], numbers[results.label(best.solver)]
    values = f"{named(column)} {shown_number(ours)} against {shown_number(theirs)}"
    kind = "smallest" if least else "largest"
    if answer is None:
        return Answer(None, f"{values} for {results.label(best.solver)}: the difference is within the spread over runs.", numbers)
    text = "ends with" if answer else "does not end with"
    return Answer(answer, f"{results.label(who)} {text} the {kind} {values} for {results.label(best.solver)}.", numbers)


@check
@for_each_data_set
def below_baseline(results: Results, race: str, data: str, solvers: list[str]) -> Answer:
    """No solver is more accurate than always predicting the larger class."""
    groups = [pick(results, race, data, solver) for solver in solvers]
    baseline = float(groups[0].values("majority_accuracy")[0])
    means = {results.label(g.solver): float(level(g, "accuracy").mean()) for g in groups}
    above = [label for label, mean in means.items() if mean > baseline]
    numbers = {"always the commoner class": baseline, **means}
    if above:
        return Answer(
            False, f"{', '.join(above)} is more accurate than always saying the commoner class ({percent(baseline)}).", numbers
        )
    return Answer(True, f"The most accurate has {percent(max(means.values()))}, the baseline {percent(baseline)}.", numbers)


@check
@for_each_data_set
def at_least(
    results: Results, race: str, data: str, solvers: list[str], columns: dict[str, float], certified: float = 1.0
) -> Answer:
    """Some solver, certified to a relative gap, reaches every threshold at once; the best of them is shown."""
    best: tuple[float, Group] | None = None
    for solver in solvers:
        group = pick(results, race, data, solver)
        room = min(float(level(group, column).mean()) - threshold for column, threshold in columns.items())
        if float(level(group, "relative_gap").max()) <= certified and (best is None or room > best[0]):
            best = (room, group)
    if best is None:
        return Answer(False, f"No solver was certified to a relative gap of {shown_number(certified)}.")
    room, group = best
    numbers = {named(column): float(level(group, column).mean()) for column in columns}
    numbers["relative gap"] = float(level(group, "relative_gap").max())
    text = ", ".join(
        f"{named(column)} {shown_number(numbers[named(column)])} (asked: {threshold:g})" for column, threshold in columns.items()
    )
    return Answer(room >= 0, f"{results.label(group.solver)}: {text}.", numbers)


@check
@for_each_data_set
def same_objective(
    results: Results,
    race: str,
    data: str,
    solvers: list[str],
    within: float,
    apart: Names = (),
    common: Settings = NOTHING,
) -> Answer:
    """The solvers end within a share of the best bound; those `apart`, which minimise something else, end above it.

    Models of the solvers apart are valued by the `common` problem: numbers of two objectives cannot be compared.
    """
    groups = [pick(results, race, data, solver) for solver in solvers]
    over = {results.label(g.solver): float((level(g, "primal") / g.bound - 1.0).mean()) for g in groups}
    numbers = {f"{label}, above the best bound": percent(value) for label, value in over.items()}
    late = [label for label, value in over.items() if value > within]
    text = f"Within {percent(within)} of the best bound: {len(groups) - len(late)} of {len(groups)}"
    text += f"; not {', '.join(late)} ({percent(max(over.values()))})" if late else ""
    holds = not late
    for solver in apart:
        value = valued(results, pick(results, race, data, solver), common) / groups[0].bound - 1.0
        numbers[f"{results.label(solver)}, valued by the same objective, above the best bound"] = percent(value)
        text += f"; {results.label(solver)} ends {percent(value)} above it"
        holds = holds and value > within
    return Answer(holds, f"{text}.", numbers)


def valued(results: Results, group: Group, common: Settings) -> float:
    """Return the value of a kept model by another objective."""
    row = next((row for row in group.rows if row.get("coef") is not None), None)
    if row is None:
        raise Untold(f"No model of {results.label(group.solver)} was kept")
    problem = make_problem(prepare(results.study.data_spec(group.data)), dict(common))
    return problem.objective(np.array(row["coef"]), row["intercept"])


# ---------------------------------------------------------------------------------------------------------------- how fast


@check
@for_each_data_set
def first(
    results: Results, race: str, data: str, winners: list[str], rivals: list[str], within: float, cost: str = "cpu_seconds"
) -> Answer:
    """One of the winners comes within a share of the best bound before every rival does."""
    costs = {s: pick(results, race, data, s).first("suboptimality", within, cost) for s in [*winners, *rivals]}
    numbers = {f"{results.label(s)}, {COSTS[cost]}": float(np.median(values)) for s, values in costs.items()}
    ours, theirs = min(winners, key=lambda s: np.median(costs[s])), min(rivals, key=lambda s: np.median(costs[s]))
    mine, other = float(np.median(costs[ours])), float(np.median(costs[theirs]))
    if np.isinf(mine) and np.isinf(other):
        return Answer(None, f"None came within {percent(within)} of the best bound in the budget.", numbers)
    answer = clearly_less(costs[ours], costs[theirs])
    text = f"To within {percent(within)} of the best bound, {results.label(ours)} took {_cost(mine, cost)}, "
    text += f"{results.label(theirs)} {_cost(other, cost)}"
    return Answer(answer, f"{text}{'' if answer is not None else ', which is within the spread over runs'}.", numbers)


def _cost(value: float, cost: str) -> str:
    return f"{shown_number(value)} {COSTS[cost]}" if np.isfinite(value) else "more than the budget"


@check
@for_each_data_set
def ratio(
    results: Results,
    race: str,
    data: str,
    slow: str,
    quick: str,
    low: float,
    high: float = np.inf,
    what: str = "seconds_per_epoch",
    within: float = 0.01,
) -> Answer:
    """The cost of one solver over another's lies between two bounds; `what`: a cost an epoch, or seconds to within a share of the bound."""
    values = {}
    for solver in (slow, quick):
        group = pick(results, race, data, solver)
        if what == "seconds_per_epoch":
            values[solver] = group.values("cpu_seconds") / group.values("epochs")
        else:
            values[solver] = group.first("suboptimality", within, "cpu_seconds")
    a, b = float(np.median(values[slow])), float(np.median(values[quick]))
    unit = "a pass" if what == "seconds_per_epoch" else f"to within {percent(within)}"
    numbers = {f"{results.label(slow)}, CPU seconds {unit}": a, f"{results.label(quick)}, CPU seconds {unit}": b}
    if not np.isfinite(b):
        return Answer(
            None, f"{results.label(quick)} did not come within {percent(within)} of the best bound in the budget.", numbers
        )
    if not np.isfinite(a):
        text = f"{results.label(quick)} came within {percent(within)} of the best bound, {results.label(slow)} not in the budget"
        return Answer(None if np.isfinite(high) else True, f"{text}.", numbers)
    found = a / b
    numbers["ratio"] = found
    asked = f"at least {low:g}" if not np.isfinite(high) else f"{low:g} to {high:g}"
    text = f"{results.label(slow)} takes {shown_number(found)} times as long as {results.label(quick)} {unit} (asked: {asked})."
    return Answer(low <= found <= high, text, numbers)


@check
@for_each_data_set
def against_text(results: Results, race: str, data: str, solver: str, seconds: float, epochs: int, least: float) -> Answer:
    """The text's seconds for `epochs` epochs are less than `least` times ours."""
    group = pick(results, race, data, solver)
    spent = float(np.median(group.values("cpu_seconds") / group.values("epochs"))) * epochs
    factor = seconds / spent
    pairs = zip(group.traces("best_gap"), group.traces("epoch"), strict=True)
    left = float(np.median([gap[max(int(np.sum(epoch <= epochs)) - 1, 0)] for gap, epoch in pairs]))
    numbers = {"seconds, text": seconds, "CPU seconds here": spent, "factor": factor, "relative gap after them": left}
    text = f"{epochs} epochs take {shown_number(spent)} s here and {shown_number(seconds)} s in the text, "
    text += f"a factor of {shown_number(round(factor))}"
    text += f"; the certified relative gap is then {shown_number(left)}"
    return Answer(factor < least, f"{text}.", numbers)
