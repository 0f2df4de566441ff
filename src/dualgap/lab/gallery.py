"""Decision boundaries; and `make_figure` for every kind of figure, those that a study brings along too."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.data import DataError
from dualgap.lab.figures import KINDS, FigureData, Panel, Points, Surface, register_kind
from dualgap.lab.palette import BOUNDARY
from dualgap.lab.prepare import Prepared
from dualgap.lab.results import Group, Results
from dualgap.lab.run_one import make_problem
from dualgap.lab.studies import modules
from dualgap.lab.study import FigureSpec

__all__ = ["make_figure"]


def make_figure(results: Results, figure: FigureSpec) -> FigureData | None:
    """Return the data of a figure; None where the results or the data that it needs are not there."""
    modules("figures")  # the kinds that studies bring along
    maker = KINDS.maker(figure, results.study.name)
    try:
        panels, columns = maker(results, figure.options)
    except DataError:
        return None  # the runner has told the user what to fetch
    return FigureData(figure.id, figure.title, figure.caption, tuple(panels), columns) if panels else None


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
            points.append(
                Points(text, data.X[chosen, 0], data.X[chosen, 1], colour, "x" if missed else "circle", 5.0 if missed else 3.0)
            )
    title = f"{results.data_name(group.data)} · {results.label(group.solver)}"
    return Panel(
        title, "x₁", "x₂", points=tuple(points), surface=Surface(x, y, scores), note=f"{100 * wrong.mean():.2g} % misclassified"
    )
