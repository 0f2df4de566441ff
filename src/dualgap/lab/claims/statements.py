"""The kinds of statements that a claim can make about runs: where they end, who is first, what oscillates, what changes along a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from dualgap.lab.claims.measures import (
    COSTS,
    Quantity,
    Untold,
    above_bound,
    cost,
    distance,
    exactly,
    first_best,
    level,
    one_row,
    percent,
    placed,
    times,
    wobble,
)
from dualgap.lab.claims.verdicts import (
    NOTHING,
    Amount,
    Amounts,
    Answer,
    Ask,
    Factor,
    Names,
    Settings,
    as_names,
    statement,
    statement_of_all,
)
from dualgap.lab.columns import counted, ended, named, plain, shown_number
from dualgap.lab.plan import LINEUP
from dualgap.lab.results import RESOLUTION, Group, Results

__all__: list[str] = []  # they are found by name, in CHECKS

ROUNDED = 1.0 + 1e-9  # times a limit: a mean that is at the limit but for its rounding is within it

# ------------------------------------------------------------------------------------------------------------ where runs end


@statement
def near(ask: Ask, solvers: Names, column: str, value: float, within: Amount) -> Answer:
    """Every solver named ends within `within` of a value."""
    ask.each(level(ask.results, column), solvers, value - within * ROUNDED, value + within * ROUNDED)
    return ask.answer(f"{named(column)} within {shown_number(within)} of {shown_number(value)}")


@statement
def between(ask: Ask, solvers: Names, column: str, low: Amount = -np.inf, high: Amount = np.inf) -> Answer:
    """Every solver named ends between two values."""
    ask.each(level(ask.results, column), solvers, low, high)
    ends = [f"at least {shown_number(low)}"] * bool(np.isfinite(low)) + [f"at most {shown_number(high)}"] * bool(np.isfinite(high))
    return ask.answer(f"{named(column)} {' and '.join(ends)}")


@statement
def alike(ask: Ask, families: Names = (), solvers: Names = (), columns: Amounts = NOTHING) -> Answer:
    """Members of a family (or the solvers named) end within `columns[name]` of each other in each column, pair by pair."""
    every = ask.results.select(ask.race, ask.data)
    teams = [[g for g in every if g.solver.family == family] for family in families]
    teams += [[ask.group(solver) for solver in solvers]] if solvers else []
    for team, (column, most) in product(teams, columns.items()):
        if len(team) < 2:
            raise Untold(f"Fewer than two members of a family have run on {ask.results.data_name(ask.data)}")
        for a, b in combinations(team, 2):
            ask.pair(level(ask.results, column), a, b, -most * ROUNDED, most * ROUNDED)
    return ask.answer(f"any two within {', '.join(f'{shown_number(most)} in {named(c)}' for c, most in columns.items())}")


@statement
def extreme(
    ask: Ask, who: str, column: str, least: bool = True, rivals: Names = (), after: float = np.inf, unit: str = "passes"
) -> Answer:
    """One solver's column is the smallest (or largest): beyond every rival's, run by run, at the end or after some passes."""
    column = placed(column, after, unit)
    ran = [g.solver.id for g in ask.results.select(ask.race, ask.data, None, ask.settings or None)]
    others = rivals or [id for id in ran if id != who]
    if not others:
        raise Untold(f"There is nothing to compare {ask.results.label(who)} with on {ask.results.data_name(ask.data)}")
    for other in others:
        more, less = (other, who) if least else (who, other)
        ask.pair(level(ask.results, column), more, less, low=0.0, strict=True)
    rest = "every other" if len(others) > 1 else ask.results.label(others[0])
    return ask.answer(f"{named(column)} of {ask.results.label(who)} {'smaller' if least else 'larger'} than that of {rest}")


@statement
def not_worse(ask: Ask, who: str, than: str, column: str, largest: bool = True, margin: Amount = 0.0) -> Answer:
    """One solver ends at least as well as another, up to a margin: one-sided, so that being better is fine."""
    better, worse = (who, than) if largest else (than, who)
    ask.pair(level(ask.results, column), better, worse, low=-margin)
    names = ask.results.label(who), ask.results.label(than)
    return ask.answer(f"{named(column)} of {names[0]} no worse than that of {names[1]} by more than {shown_number(margin)}")


@statement
def below_baseline(ask: Ask, solvers: Names) -> Answer:
    """No solver is more accurate than always predicting the larger class."""
    ask.each(level(ask.results, "accuracy") - level(ask.results, "majority_accuracy"), solvers, high=0.0)
    return ask.answer("no accuracy above that of always saying the commoner class")


@statement
def at_least(ask: Ask, solvers: Names, columns: dict[str, float], certified: Amount = 1.0) -> Answer:
    """Some solver, certified to a relative gap in every run, reaches every threshold at once."""
    proven = f"certified to a relative gap of {shown_number(certified)}"
    asked = f"{', '.join(f'{named(c)} of at least {value:g}' for c, value in columns.items())}, by a model {proven}"
    able = [g for g in map(ask.group, solvers) if float(ended(g, "relative_gap").max()) <= certified]
    for group in able:
        ask.another_way()
        for column, value in columns.items():
            ask.each(level(ask.results, column), [group], low=value)
    return ask.answer(asked, lead="At the end: ") if able else Answer(None, f"No solver was {proven}.", {}, asked)


@statement
def same_objective(
    ask: Ask, solvers: Names = (), within: Amount = 0.01, apart: Names = (), common: bool = False, bound_of: str = ""
) -> Answer:
    """The solvers end within a share of the best bound, run by run; those `apart` end further above it.

    With `common`, models are valued by the race's `value_by`: numbers of two objectives cannot be compared. The bounds are then those of
    the solver `bound_of`, by default the first one named, which minimises the common objective.
    """
    objective = above_bound("common_primal" if common else "primal", ask.group(bound_of or [*solvers, *apart][0]).bounds)
    ask.each(objective, solvers, high=within)
    ask.each(objective, apart, low=within, strict=True)
    asked = [f"within {percent(within)} of the best bound"] if solvers else []
    asked += [f"{', '.join(map(ask.results.label, apart))} more than {percent(within)} above it"] if apart else []
    return ask.answer("; ".join(asked))


@statement_of_all
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
    ask = Ask(results, race, smaller, settings)
    ask.several = True
    for a, b in ((ask.group(solver), ask.group(solver, larger)) for solver in solvers):
        for group in (a, b) if converged else ():
            if any(row["status"] != "converged" for row in group.rows):
                gap = f"a relative gap of {shown_number(float(group.values('best_relative_gap').max()))}"
                raise Untold(f"A run on {results.data_name(group.data)} ended at {gap}, before the {tol:g} asked for")
        ask.pair(level(results, column), b, a, low=least, strict=True)
    names = results.data_name(smaller), results.data_name(larger)
    asked = f"{named(column)} on {names[0]} smaller by more than {shown_number(least)} than on {names[1]}"
    return ask.answer(asked + (f", models certified to a relative gap of {tol:g}" if converged else ""))


# ------------------------------------------------------------------------------------------------------------------- how fast


@statement
def first(ask: Ask, winners: Names, rivals: Names, within: Amount, by: str = "cpu_seconds") -> Answer:
    """One of the winners comes within a share of the best bound before every rival does."""
    quantity = cost(ask.results, within, by)
    asked = f"within {percent(within)} of the best bound in fewer {COSTS[by]} than each other"
    near = [np.isfinite(quantity.of(ask.group(solver)).high).any() for solver in [*winners, *rivals]]
    if not any(near):
        return Answer(None, f"None came within {percent(within)} of the best bound in the budget.", {}, asked)
    for winner in winners:
        ask.another_way()
        for rival in rivals:
            ask.pair(quantity, rival, winner, low=0.0, strict=True)
    return ask.answer(asked)


@statement
def cost_ratio(
    ask: Ask,
    slow: str | Names,
    quick: str | Names,
    low: Factor = 1.0,
    high: Factor = np.inf,
    within: Amount | None = None,
    by: str = "cpu_seconds",
) -> Answer:
    """The cost of one solver over another's lies between two bounds: to within a share of the best bound or, without one, of a pass.

    Of several solvers, each of the slow ones is compared with each of the quick ones.
    """
    quantity, teams = cost(ask.results, within, by), (as_names(slow), as_names(quick))
    limits = float(np.log(low)), float(np.log(high)) if np.isfinite(high) else np.inf
    for a, b in product(*teams):
        ask.pair(quantity, a, b, *limits, strict=low == 1.0)
    names = [" and ".join(map(ask.results.label, team)) for team in teams]
    least = "more than 1" if low == 1.0 else f"at least {shown_number(low)}"
    top = "" if not np.isfinite(high) else f" and at most {shown_number(high)}"
    return ask.answer(f"{quantity.name}, of {names[0]} over {names[1]}: {least}{top} times")


@statement
def grows_at_most(ask: Ask, solvers: Names, near: Amount, far: Amount) -> Answer:
    """From within one share of the best bound to within a smaller one, the passes grow at most as the inverse of the share."""
    quantity = replace(cost(ask.results, near, "passes") - cost(ask.results, far, "passes"), show=times)
    ask.each(quantity, solvers, high=float(np.log(far / near)) * ROUNDED)
    return ask.answer(f"{quantity.name}, a factor of at most {shown_number(far / near)}")


@statement
def reached(
    ask: Ask,
    solvers: Names,
    within: Amount,
    after: float = np.inf,
    reached: bool = True,
    unit: str = "passes",
    column: str = "suboptimality",
    x: str = "",
) -> Answer:
    """At a place every solver named is within a share of the best bound; or none is (reached = false). With x, at each of its values."""
    quantity, limit = distance(after, unit, column), float(np.log10(within))
    groups = [group for solver in solvers for _, group in ask.along(solver, x)] if x else solvers
    ask.each(quantity, groups, *((-np.inf, limit) if reached else (limit, np.inf)), strict=not reached)
    when = "at the end" if np.isinf(after) else f"after {counted(after, 'pass' if unit == 'passes' else 'iteration of the text')}"
    lead = f"{when[0].upper()}{when[1:]}, {quantity.name}: "
    return ask.answer(f"{when} {quantity.name} {'at most' if reached else 'more than'} {percent(within)}", lead)


@statement
def text_seconds(ask: Ask, solver: str, seconds: float, passes: float, within: Factor) -> Answer:
    """As many passes take about the text's seconds: the factor between the two is at most `within` either way."""
    spent, text, limit = cost(ask.results, None, scale=passes), float(np.log(seconds)), float(np.log(within))
    ask.each(spent, [solver], text - limit, text + limit)
    factor = seconds / float(np.exp(spent.of(ask.group(solver)).value.mean()))
    lead = (
        f"A factor of {shown_number(round(factor) if factor >= 10 else factor)} between the text's {shown_number(seconds)} s and "
    )
    asked = f"{passes:g} passes in {shown_number(seconds)} s, up to a factor of {shown_number(within)}"
    return ask.answer(asked, f"{lead}the seconds of {passes:g} passes here, ")


@statement
def best_after(
    ask: Ask, column: str, ranges: Mapping[str, Any], close: Amount = 0.005, largest: bool = False, unit: str = "passes"
) -> Answer:
    """Each solver is first within `close` of its best value after passes in the range given, [from, to]; from 0 for at most.

    Runs are evaluated after whole epochs: a mean counts as the nearest whole number.
    """
    quantity = first_best(column, close, largest, unit)
    for solver, (low, high) in ranges.items():
        limits = float(np.log(low - 0.5)) if low else -np.inf, float(np.log(high + 0.5))
        ask.each(quantity, [solver], *limits)
    each = ", ".join(f"{ask.results.label(s)} {f'{low} to' if low else 'at most'} {high}" for s, (low, high) in ranges.items())
    return ask.answer(f"{quantity.name}: {each}")


@statement
def improves(ask: Ask, solvers: Names, column: str, early: float, largest: bool = True) -> Answer:
    """A column is better at the end of the run than after some passes."""
    end, then = level(ask.results, column), level(ask.results, placed(column, early, "passes"))
    ask.each(end - then if largest else then - end, solvers, low=0.0, strict=True)
    return ask.answer(f"{named(column)} better at the end than after {early:g} passes")


# --------------------------------------------------------------------------------------------------------------- oscillation


@statement
def wobbles(ask: Ask, who: str, rivals: Names = (), least: Amount = 0.0, column: str = "primal") -> Answer:
    """Late in the run one solver's objective (or error) rises by more than `least` an epoch, and by more than every rival's."""
    quantity = wobble(ask.results, column)
    ask.each(quantity, [who], low=least)
    for rival in rivals:
        ask.pair(quantity, who, rival, low=0.0, strict=True)
    return ask.answer(f"{quantity.name}: at least {percent(least)}{', and more than each other' if rivals else ''}")


@statement
def wobble_order(ask: Ask, tiers: list[list[str]], column: str = "primal") -> Answer:
    """Solvers of a later tier oscillate more than those of an earlier one."""
    quantity = wobble(ask.results, column)
    for calm, wild in pairwise(tiers):
        for a, b in product(calm, wild):
            ask.pair(quantity, b, a, low=0.0, strict=True)
    order = " < ".join(f"({', '.join(map(ask.results.label, tier))})" for tier in tiers)
    return ask.answer(f"{quantity.name}: {order}")


@statement
def wobble_trend(ask: Ask, x: str, solvers: Names, column: str = "primal") -> Answer:
    """The smaller x, the more the solvers' objectives (or errors) oscillate: at its smallest value more than at its largest."""
    quantity = wobble(ask.results, column)
    for points in (ask.along(solver, x) for solver in solvers):
        ask.pair(quantity, points[0][1], points[-1][1], low=0.0, strict=True)
    return ask.answer(f"{quantity.name}: larger at the smallest {named(x)} than at the largest")


# ------------------------------------------------------------------------------------------------------------- along a grid


@statement
def trend(ask: Ask, x: str, solvers: Names, column: str, falls: bool = True, least: Amount = 0.0) -> Answer:
    """From the smallest to the largest x a column falls (or rises) by more than `least`, and never clearly turns on the way."""
    quantity, texts = level(ask.results, column), []
    for solver in solvers:
        groups = [group for _, group in ask.along(solver, x)]
        steps = [(groups[0], groups[-1]), *pairwise(groups)]
        for i, (a, b) in enumerate(steps if len(groups) > 2 else steps[:1]):
            more, less = (a, b) if falls else (b, a)
            ask.pair(quantity, more, less, low=0.0 if i else least, strict=not i, doubt=bool(i))
        means = [ask.measured(quantity, group).mean for group in groups]
        way = "falls" if means[-1] < means[0] else "rises"
        shown = ", ".join(map(shown_number, means))
        texts.append(f"{ask.results.label(solver)}: {shown}, which {way} by {shown_number(abs(means[-1] - means[0]))}")
    way = "falls" if falls else "rises"
    asked = f"{named(column)} {way} by more than {shown_number(least)} from the smallest {named(x)} to the largest, without turning"
    return ask.answer(asked, f"{'; '.join(texts)}. What decides it: ")


@statement
def constant(ask: Ask, x: str, solvers: Names, column: str, within: Amount, varies: bool = False) -> Answer:
    """A column stays the same along the grid: any two values of x within `within`; a share of the largest for objectives.

    With `varies`, some two values of x differ by more.
    """
    relative, base = column.endswith("primal") or column == "bound", level(ask.results, column)
    for solver in solvers:
        groups = [group for _, group in ask.along(solver, x)]
        scale = max(float(base.of(group).value.mean()) for group in groups) if relative else 1.0
        for a, b in combinations(groups, 2):
            if varies:
                ask.another_way()
            ask.pair(base, a, b, -within * scale, within * scale, apart=varies)
    share = " of the largest" if relative else ""
    some = f"at some two values of {named(x)} further apart than" if varies else f"at any two values of {named(x)} within"
    return ask.answer(f"{named(column)} {some} {shown_number(within)}{share}")


@statement
def same_speed(ask: Ask, x: str, solvers: Names, rest: Amount = 0.1, within: Factor = 2.0) -> Answer:
    """Along the grid the objective falls equally fast: until `rest` of its fall is left, any two values of x take similar passes.

    The fall is a run's own, from its first value to the level at which it stays: it need not be that of the optimum.
    """
    column, limit = f"settles:{1.0 - rest:.6g}", float(np.log(within))
    quantity = Quantity(named(column), lambda g: exactly(g, np.log(ended(g, column))), times, factor=True)
    for solver in solvers:
        for (_, a), (_, b) in combinations(ask.along(solver, x), 2):
            ask.pair(quantity, a, b, -limit, limit)
    return ask.answer(f"{named(column)}: at any two values of {named(x)} within a factor of {shown_number(within)}")


@statement
def best_of_grid(ask: Ask, solver: str, x: str, used: float, column: str, least: bool = True) -> Answer:
    """At one value of x a column is smaller (or larger) than at every other value of the grid. A run that diverged counts as worst."""
    points = dict(ask.along(solver, x))
    if used not in points:
        raise Untold(f"{ask.results.label(solver)} has not run at {named(x)} = {plain(used)}")
    sign, worst = (1.0 if least else -1.0), 1e300

    def logarithm(group: Group) -> np.ndarray:
        """Of the column: one that overflows at a value must not drown the others."""
        values = np.nan_to_num(sign * ended(group, column), nan=worst, posinf=worst)
        return np.asarray(np.sign(values) * np.log1p(np.abs(values)))

    quantity = Quantity(
        named(column),
        lambda g: exactly(g, logarithm(g), max(RESOLUTION, one_row(ask.results, g, column))),
        lambda v: shown_number(sign * float(np.sign(v) * np.expm1(abs(v)))) if abs(v) < 600 else "diverged",
    )
    for group in (group for value, group in points.items() if value != used):
        ask.pair(quantity, group, points[used], low=0.0, strict=True)
    which = "smaller" if least else "larger"
    return ask.answer(f"{named(column)} {which} at {named(x)} = {plain(used)} than at each other value")


@statement
def best_setting(ask: Ask, solver: str, x: str, used: float, within: Amount, least: Factor = 1.2) -> Answer:
    """Over a sweep, another value than the one used comes within a share of the best bound at least `least` times sooner."""
    points, quantity = dict(ask.along(solver, x)), cost(ask.results, within)
    sooner = f"at least {shown_number(least)} times sooner than at {named(x)} = {plain(used)}"
    asked = f"within {percent(within)} of the best bound {sooner}"
    if used not in points:
        raise Untold(f"{ask.results.label(solver)} has not run at {named(x)} = {plain(used)}")
    if not any(np.isfinite(quantity.of(group).high).any() for group in points.values()):
        text = f"No value of {named(x)} came within {percent(within)} of the best bound in the budget."
        return Answer(None, text, {}, asked)
    for group in (group for value, group in points.items() if value != used):
        ask.another_way()
        ask.pair(quantity, points[used], group, low=float(np.log(least)))
    return ask.answer(asked)


# ---------------------------------------------------------------------------------------------------------------------- facts


@statement_of_all
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
    wanted = [f"{features:,} features"] * bool(features) + [f"{rows:,} training rows"] * bool(rows)
    if (least_positive, most_positive) != (0, 1):
        wanted.append(f"{percent(least_positive)} to {percent(most_positive)} positive")
    fine = (not features or about["features"] == features) and (not rows or about["rows"] == rows)
    numbers = {"training rows": about["rows"], "features": about["features"], "positive": percent(share)}
    text = f"{about['rows']:,} training rows, {about['features']:,} features, {percent(share)} positive."
    return Answer(bool(fine and least_positive <= share <= most_positive), text, numbers, ", ".join(wanted))


@statement_of_all
def has_no(results: Results, solver: str, words: Names) -> Answer:
    """A solver has no parameter with one of these words in its name."""
    names = [f.name for f in fields(LINEUP[results.study.solver_spec(solver).solver])]
    text = f"Its parameters are {', '.join(names)}." if names else "It has no parameter."
    found = [name for name in names if any(word in name for word in words)]
    return Answer(not found, text, {"parameters": ", ".join(names)}, f"no parameter named like {', '.join(words)}")


@statement_of_all
def weak_duality(results: Results) -> Answer:
    """No objective is below a bound on its problem."""
    least, count = np.inf, 0
    for group in results.groups:
        for primal, bound in zip(group.traces("primal"), group.bounds, strict=True):
            room = primal - bound
            least = min(least, float(np.min(room[np.isfinite(room)] / max(abs(bound), 1e-300), initial=np.inf)))
            count += len(primal)
    if not count:
        raise Untold("There is no finished run")
    text = f"The smallest of {count:,} differences, relative to the bound, is {shown_number(least)}."
    asked = "no objective below a bound (1e-9 for rounding)"
    return Answer(bool(least >= -1e-9), text, {"smallest": least, "evaluations": count}, asked)
