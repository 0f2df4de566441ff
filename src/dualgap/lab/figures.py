"""Figures as data: panels of lines, points, fields and pictures, made from results. draw.py draws them.

The kinds that a study can ask for are in KINDS; each is a function of the results and of the figure's options.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualgap.data import DataError
from dualgap.lab.columns import LOG, ended, named, plain
from dualgap.lab.palette import BOUNDARY, Style, styles_for
from dualgap.lab.prepare import Prepared
from dualgap.lab.results import Group, Results
from dualgap.lab.run_one import make_problem
from dualgap.lab.schema import Kinds
from dualgap.lab.studies import modules
from dualgap.lab.study import FigureSpec

__all__ = ["KINDS", "FigureData", "Line", "Panel", "line_of", "make_figure", "register_kind"]


ROUNDING = 1e-16  # of a relative gap: where one of 0 is drawn on a logarithmic axis
MOST_POINTS = 240  # of a curve; of a longer one each stretch is drawn by its lowest and its highest value
PLAIN = Style("#0072B2")


@dataclass(frozen=True)
class Line:
    """A curve with its band; points of one style in the plane, where they are not joined."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    style: Style = PLAIN
    markers: bool = False
    joined: bool = True
    size: float = 4.0  # of a marker, in points


@dataclass(frozen=True)
class Panel:
    """One pair of axes, or one picture."""

    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    lines: tuple[Line, ...] = ()
    surface: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # x, y and scores over their grid: zero at the boundary
    picture: np.ndarray | None = None
    note: str = ""
    y_limits: tuple[float, float] | None = None  # None: all that the lines show


@dataclass(frozen=True)
class FigureData:
    """All that a figure shows."""

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 2

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        columns = max(1, min(self.columns, len(self.panels)))
        return -(-len(self.panels) // columns), columns

    @property
    def is_pictures(self) -> bool:
        """Whether every panel is a picture."""
        return all(panel.picture is not None for panel in self.panels)


# A figure is made by a function of the results and the figure's options; it returns the panels and how many stand side by side.
KINDS = Kinds("figure")
register_kind = KINDS.register


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def thinned(*columns: np.ndarray) -> np.ndarray:
    """Return the indices of a curve's points to draw, where it has more than MOST_POINTS: dense at the start, where curves bend.

    Of each stretch these are its last point and the lowest and the highest one of each column, so that no oscillation is lost.
    """
    count = len(columns[0])
    if count <= MOST_POINTS:
        return np.arange(count)
    ends = np.unique(np.round(np.geomspace(1, count, MOST_POINTS // 2)).astype(int))
    kept = [0, *(ends - 1)]
    for start, end in itertools.pairwise([0, *ends]):
        kept += [start + int(pick(column[start:end])) for column in columns for pick in (np.argmin, np.argmax)]
    return np.unique(kept)


def line_of(group: Group, x: str, y: str, label: str, style: Style) -> Line:
    """Return a group's curve as a line."""
    curve = group.curve(x, y)
    kept = thinned(curve.middle)
    middle, low, high = (floored(values[kept], y) for values in (curve.middle, curve.low, curve.high))
    return Line(label, curve.x[kept], middle, low, high, style)


def floored(values: np.ndarray, column: str) -> np.ndarray:
    """Return values as a logarithmic axis shows them: a gap of 0, the winner's, stays on it at the limit of rounding."""
    return np.maximum(values, ROUNDING) if column in ("gap", "relative_gap", "best_gap") else values


# --------------------------------------------------------------------------------------------------------------- convergence


@register_kind(
    "convergence", "race", "data", "solvers", "x", "y", "split", "lines", "settings", "x_log", "y_log", "columns", "families"
)
def convergence(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """Curves against epochs, passes or seconds.

    x, y : columns of the traces, or lists of them; split : which of "data", "family" and names of the grid get a panel each;
    lines : what the lines of a panel stand for, "solver" or a name of the grid; families : those to show, with "all" for one overall.
    """
    groups = results.select(options["race"], options.get("data"), options.get("solvers"), options.get("settings"))
    split, by = _list(options.get("split", ["data"])), options.get("lines", "solver")
    parts: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        for place in _places(group, split, _list(options.get("families", []))):
            parts.setdefault(place, []).append(group)
    ordered = _order(split, parts, _list(options.get("families", [])))
    xs, ys = _list(options.get("x", "passes")), _list(options["y"])
    panels, along = [], []
    for place, y, x in itertools.product(ordered, ys, xs):
        members = [group for group in parts[place] if group.has(y)]
        styles = _styles(results, members, by)
        lines = tuple(line_of(g, x, y, _line_label(results, g, by), styles[_line_key(g, by)]) for g in members)
        if lines:
            title = ("\n" if int(options.get("columns", 2)) > 2 else " · ").join(
                _place_name(results, dim, value) for dim, value in zip(split, place, strict=True)
            )
            logs = options.get("x_log", x in LOG), options.get("y_log", y in LOG)
            exact = logs[1] and any((line.y <= ROUNDING).any() for line in lines)
            note = f"a gap of 0 is drawn at {plain(ROUNDING)}, the limit of rounding" if exact else ""
            panels.append(Panel(title, named(x), named(y), *logs, lines=lines, note=note))
            along.append((place[:-1] if len(place) > 1 or split == ["family"] else place, y))
    return _with_limits(panels, along), int(options.get("columns", len(xs) if len(xs) > 1 else min(2, len(panels) or 1)))


def _with_limits(panels: list[Panel], along: list[Any]) -> list[Panel]:
    """Return panels whose axes can be compared: those with the same entry of `along` share the range of y.

    On linear axes a few values that dwarf the later ones are cut off, and the panel says so.
    """
    limited = []
    for panel, key in zip(panels, along, strict=True):
        shared = [other for other, its in zip(panels, along, strict=True) if its == key]
        limits, note = _limits([line for other in shared for line in other.lines], panel.x_log, panel.y_log), panel.note
        high = max((float(np.nanmax(line.y, initial=-np.inf)), line.label) for line in panel.lines)
        if limits is not None and high[0] > limits[1]:
            note = "; ".join(filter(None, [note, f"cut off at the top: {high[1]} goes up to {plain(float(f'{high[0]:.3g}'))}"]))
        limited.append(replace(panel, y_limits=limits, note=note))
    return limited


def _limits(lines: list[Line], x_log: bool, y_log: bool) -> tuple[float, float] | None:
    """Return the range of y in which to draw lines; None where nothing can be drawn."""
    bands = [band for line in lines for band in (line.low, line.high) if band is not None and not y_log]
    every = np.concatenate([line.y for line in lines] + bands)
    late = np.concatenate([line.y[len(line.y) // 3 :] for line in lines])
    every, late = (values[np.isfinite(values) & (values > 0 if y_log else True)] for values in (every, late))
    if not len(every):
        return None
    low, high = float(every.min()), float(every.max())
    if y_log:
        room = max((high / low) ** 0.05, 1.05)
        return low / room, high * room
    if len(late) and not x_log:
        span = max(float(np.quantile(late, 0.98)) - float(late.min()), 1e-12)
        if high > float(late.min()) + 4.0 * span:
            high = float(late.min()) + 2.0 * span
    return low - 0.08 * (high - low), high + 0.05 * (high - low)


def _places(group: Group, split: list[str], families: list[str]) -> list[tuple[Any, ...]]:
    """Return the panels that a group appears in: one, or its family's and the overall one."""
    values: list[list[Any]] = []
    for dim in split:
        if dim == "data":
            values.append([group.data])
        elif dim == "family":
            mine = [group.solver.family] if not families or group.solver.family in families else []
            values.append(mine + (["all"] if "all" in families else []))
        else:
            values.append([group.setting(dim)])
    return list(itertools.product(*values))


def _order(split: list[str], parts: dict[tuple[Any, ...], Any], families: list[str]) -> list[tuple[Any, ...]]:
    """Return panels in the study's order, families in the order asked for."""
    seen = [list(dict.fromkeys(place[i] for place in parts)) for i in range(len(split))]
    order = [families if dim == "family" and families else values for dim, values in zip(split, seen, strict=True)]
    return sorted(parts, key=lambda place: tuple(values.index(value) for values, value in zip(order, place, strict=True)))


def _place_name(results: Results, dim: str, value: Any) -> str:
    if dim == "data":
        return results.data_name(value)
    if dim == "family":
        return "all families" if value == "all" else str(value)
    return f"{named(dim)} = {plain(value)}" if isinstance(value, int | float) else f"{named(dim)}: {value}"


def _line_key(group: Group, by: str) -> str:
    return group.solver.id if by == "solver" else str(group.setting(by))


def _line_label(results: Results, group: Group, by: str) -> str:
    if by == "solver":
        return results.label(group.solver)
    value = group.setting(by)
    return f"{named(by)} = {plain(value)}" if isinstance(value, int | float) else str(value)


def _styles(results: Results, groups: list[Group], by: str) -> dict[str, Style]:
    return results.styles if by == "solver" else styles_for(_line_key(group, by) for group in groups)


# --------------------------------------------------------------------------------------------------------------------- sweep


@register_kind("sweep", "race", "data", "solvers", "x", "y", "x_log", "y_log", "columns", "split")
def sweep(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """How runs ended, over the grid: x is a name of the grid, y one or several columns of the results."""
    x = options["x"]
    groups = results.select(options["race"], options.get("data"), options.get("solvers"))
    panels = []
    for data, y in itertools.product(dict.fromkeys(group.data for group in groups), _list(options["y"])):
        lines: list[Line] = []
        cut: list[str] = []
        for spec in results.study.solvers:
            mine = [g for g in groups if g.data == data and g.solver.id == spec.id and g.setting(x) is not None]
            mine.sort(key=lambda g: g.setting(x))
            if not mine:
                continue
            found = [ended(g, y) for g in mine]
            # A run that never came so near took at least what it spent: the point stays, and the panel says so.
            spent = [g.last("cpu_seconds" if y.startswith("near:") else "epoch") for g in mine]
            values = [np.where(np.isfinite(v), v, s) for v, s in zip(found, spent, strict=True)] if ":" in y else found
            cut += [plain(float(g.setting(x))) for g, v in zip(mine, found, strict=True) if ":" in y and not np.isfinite(v).all()]
            mean, spread = np.array([v.mean() for v in values]), np.array([v.std() for v in values])
            lowest, highest = np.array([v.min() for v in values]), np.array([v.max() for v in values])
            at = np.array([float(g.setting(x)) for g in mine])
            low, high = np.maximum(mean - spread, lowest), np.minimum(mean + spread, highest)
            lines.append(Line(results.label(spec), at, mean, low, high, results.styles[spec.id], markers=True))
        if lines:
            logs = options.get("x_log", x in LOG), options.get("y_log", y in LOG or y.startswith("near:"))
            note = f"not so near in every run, drawn at what was spent: {', '.join(dict.fromkeys(cut))}" if cut else ""
            panels.append(Panel(results.data_name(data), named(x), named(y), *logs, lines=tuple(lines), note=note))
    return panels, int(options.get("columns", min(2, len(panels) or 1)))


def make_figure(results: Results, figure: FigureSpec) -> FigureData | None:
    """Return the data of a figure; None where the results or the data that it needs are not there."""
    modules("figures")  # the kinds that studies bring along
    maker = KINDS.maker(figure, results.study.name)
    try:
        panels, columns = maker(results, figure.options)
    except DataError:
        return None  # the runner has told the user what to fetch
    caption = " ".join(filter(None, [figure.caption, _other_objectives(results, figure)]))
    return FigureData(figure.id, figure.title, caption, tuple(panels), columns) if panels else None


OBJECTIVES = {"primal", "dual", "gap"}
OF_THE_OBJECTIVE = ("loss", "delta", "l2", "l1", "intercept", "intercept_scale", "sum_lambda", "sum_c")


def _other_objectives(results: Results, figure: FigureSpec) -> str:
    """Return a sentence on the curves of a figure whose objective is another one than its race's; "" where there is none, or it is said."""
    options = figure.options
    if not OBJECTIVES & set(_list(options.get("y", []))):
        return ""
    other = []
    for group in results.select(options["race"], options.get("data"), options.get("solvers"), options.get("settings")):
        race = results.study.race(group.race).problem | group.settings
        differs = any(group.problem.get(key) != race.get(key) for key in OF_THE_OBJECTIVE)
        if differs and (label := results.label(group.solver)) not in figure.caption:
            other.append(f"“{label}”")
    return f"Of another objective, and not to be compared with the rest: {', '.join(dict.fromkeys(other))}." if other else ""


# ------------------------------------------------------------------------------------------------------------------ boundaries


@register_kind("boundary", "race", "data", "solvers", "columns", "grid")
def boundary(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """The sign of a model over the plane, with the training points; the misclassified ones have colours of their own."""
    panels = []
    groups = results.select(options["race"], options.get("data"), options.get("solvers"))
    order = [spec.id for spec in results.study.data]
    for group in sorted(groups, key=lambda group: order.index(group.data)):
        row = next((row for row in group.rows if row.get("coef") is not None), None)
        kept = None if row is None else results.store.points(row["key"])
        if row is not None and kept is not None:
            panels.append(_boundary_panel(results, group, row, kept, int(options.get("grid", 91))))
    return panels, int(options.get("columns", 2))


def _boundary_panel(results: Results, group: Group, row: dict[str, Any], kept: tuple[Any, Any], grid: int) -> Panel:
    data = Prepared("", *kept, None, np.zeros(0))
    problem = make_problem(data, group.problem)
    coef, intercept = np.array(row["coef"]), float(row["intercept"])
    wrong = (problem.decision(data.X, coef, intercept) > 0) != (data.y == 1)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    room = 0.06 * (high - low)
    x, y = (np.linspace(a, b, grid) for a, b in zip(low - room, high + room, strict=True))
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    scores = problem.decision(plane, coef, intercept).reshape(grid, grid)
    points = []
    for label, name in ((0, "negative"), (1, "positive")):
        for missed in (False, True):
            chosen = (data.y == label) & (wrong == missed)
            text = f"{name}, misclassified" if missed else f"{name} class"
            colour = BOUNDARY[f"{name} wrong" if missed else name]
            style, size = Style(colour, marker="x" if missed else "circle"), 5.0 if missed else 3.0
            points.append(Line(text, data.X[chosen, 0], data.X[chosen, 1], style=style, joined=False, size=size))
    title = f"{results.data_name(group.data)} · {results.label(group.solver)}"
    note = f"{100 * wrong.mean():.2g} % misclassified"
    return Panel(title, "x₁", "x₂", lines=tuple(points), surface=(x, y, scores), note=note)
