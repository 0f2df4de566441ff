"""Figures that show more than curves: decision boundaries, singular values, pictures; and `make_figure` for every kind."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import Any

import numpy as np

from dualgap.data import DataError, DataSet, entry, find, picture_parts
from dualgap.lab.figures import KINDS, PLAIN, FigureData, Line, Panel, Points, Surface, register_kind
from dualgap.lab.palette import BOUNDARY
from dualgap.lab.prepare import Prepared, loaded
from dualgap.lab.results import Group, Results
from dualgap.lab.run_one import make_problem
from dualgap.lab.study import DataSpec, FigureSpec

__all__ = ["make_figure"]

CLASSES = {-1: "lymphocyte", 1: "neutrophil"}
SIDE = 120  # pixels of a cropped picture


def make_figure(results: Results, figure: FigureSpec) -> FigureData | None:
    """Return the data of a figure; None where the results or the data that it needs are not there."""
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


# -------------------------------------------------------------------------------------------------------------------- pictures


def _spec(results: Results, options: dict[str, Any]) -> DataSpec:
    return results.study.data_spec(options["data"])


def _crops(spec: DataSpec) -> DataSet:
    """Return the data set before any reduction."""
    return loaded(replace(spec, options={name: value for name, value in spec.options.items() if name != "pca"}))


@register_kind("singular_values", "data", "count", "kept")
def singular_values(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """How fast the singular values of the centred training rows fall, and where the reduction cuts."""
    from dualgap.data import reduce

    kept, count = int(options.get("kept", 40)), int(options.get("count", 1000))
    _, pca = reduce(_crops(_spec(results, options)), kept, spectrum=count)
    values = pca.singular_values[:count]
    place = np.arange(1, len(values) + 1)
    fall = Line("singular values", place, values, style=PLAIN)
    cut = Line(f"the first {kept}", place[:kept], values[:kept], style=type(PLAIN)("#D55E00"))
    note = f"the first {kept} hold {100 * np.sum(values[:kept] ** 2) / np.sum(values**2):.3g} % of the variance of the first {len(values)}"
    return [Panel(results.data_name(options["data"]), "number", "singular value", y_log=True, lines=(fall, cut), note=note)], 1


@register_kind("pictures", "data", "each", "reduced")
def pictures(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """Some cropped pictures of each class; with `reduced`, rebuilt from that many principal components."""
    data, each = _crops(_spec(results, options)), int(options.get("each", 5))
    show = data.X
    if options.get("reduced"):
        from dualgap.data import reduce

        reduced, pca = reduce(data, int(options["reduced"]))
        show = pca.restore(reduced.X)
    panels = []
    for label, name in CLASSES.items():
        rows = np.flatnonzero(data.y == label)
        for row in rows[:: max(1, len(rows) // each)][:each]:
            panels.append(Panel(name, picture=np.asarray(show[row]).reshape(SIDE, SIDE)))
    return panels, each


@register_kind("as_taken", "data", "each")
def as_taken(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """Some pictures of each class as the microscope took them."""
    each = int(options.get("each", 4))
    panels = []
    for place in range(each):
        for name, picture in _originals(_spec(results, options), (place + 1) / (each + 1)):
            panels.append(Panel(name, picture=picture[..., ::-1]))
    return sorted(panels, key=lambda panel: panel.title), each


@register_kind("pipeline", "data", "each")
def pipeline(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """Every step from a microscope picture to a row of the data, on one cell of each class."""
    from dualgap.data import steps

    panels = []
    for name, picture in _originals(_spec(results, options)):
        made = steps(picture)
        shown = {
            "original": made.original[..., ::-1],
            "1 blurred": made.blurred[..., ::-1],
            "2 grey": made.grey,
            "3 frame neutral": made.neutral,
        }
        shown |= {"4 threshold": made.nucleus, "5 opened": made.opened, "6 cropped": made.cropped, "negative": made.negative}
        panels += [Panel(f"{name}\n{step}" if step == "original" else step, picture=picture) for step, picture in shown.items()]
    return panels, 8


def _originals(spec: DataSpec, share: float = 1 / 3) -> list[tuple[str, np.ndarray]]:
    """Return a picture of each class as the microscope took it (or as the stand-in draws it), so far down the list of them."""
    from dualgap.data import decode

    known = entry(spec.name)
    if not known.files:
        from dualgap.data import draw_cell

        rng = np.random.default_rng(int(1000 * share))
        return [(name, draw_cell(name.upper(), rng)) for name in CLASSES.values()]
    with zipfile.ZipFile(find(spec.name, known.files[0])) as archive:
        members = sorted(name for name in archive.namelist() if (parts := picture_parts(name)) and parts[0] == "TRAIN")
        found = []
        for name in CLASSES.values():
            mine = [member for member in members if f"/{name.upper()}/" in f"/{member}"]
            chosen = mine[int(share * len(mine))]
            found.append((name, decode(archive.read(chosen), chosen)))
    return found
