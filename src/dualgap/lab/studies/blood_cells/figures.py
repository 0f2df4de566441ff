"""Figures of this study alone: pictures, the steps from a picture to a row of the data, and singular values."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import Any

import numpy as np

from dualgap.data import DataSet, find
from dualgap.lab.figures import PLAIN, Line, Panel, register_kind
from dualgap.lab.palette import Style
from dualgap.lab.prepare import loaded
from dualgap.lab.results import Results
from dualgap.lab.studies.blood_cells.data import DATA
from dualgap.lab.studies.blood_cells.drawn_cells import draw_cell
from dualgap.lab.studies.blood_cells.pictures import SIDE, decode, picture_parts, reduce, steps
from dualgap.lab.study import DataSpec

__all__: list[str] = []  # its kinds are found by name

CLASSES = {-1: "lymphocyte", 1: "neutrophil"}


def _spec(results: Results, options: dict[str, Any]) -> DataSpec:
    return results.study.data_spec(options["data"])


def _crops(spec: DataSpec) -> DataSet:
    """Return the data set before any reduction."""
    return loaded(replace(spec, options={name: value for name, value in spec.options.items() if name != "pca"}))


@register_kind("singular_values", "data", "count", "kept")
def singular_values(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """How fast the singular values of the centred training rows fall, and where the reduction cuts."""
    kept, count = int(options.get("kept", 40)), int(options.get("count", 1000))
    _, pca = reduce(_crops(_spec(results, options)), kept, spectrum=count)
    values = pca.singular_values[:count]
    place = np.arange(1, len(values) + 1)
    fall = Line("singular values", place, values, style=PLAIN)
    cut = Line(f"the first {kept}", place[:kept], values[:kept], style=Style("#D55E00"))
    note = f"the first {kept} hold {100 * np.sum(values[:kept] ** 2) / np.sum(values**2):.3g} % of the variance of the first {len(values)}"
    return [Panel(results.data_name(options["data"]), "number", "singular value", y_log=True, lines=(fall, cut), note=note)], 1


@register_kind("pictures", "data", "each", "reduced")
def pictures(results: Results, options: dict[str, Any]) -> tuple[list[Panel], int]:
    """Some cropped pictures of each class; with `reduced`, rebuilt from that many principal components."""
    data, each = _crops(_spec(results, options)), int(options.get("each", 5))
    show = data.X
    if options.get("reduced"):
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
    known = next(each for each in DATA if each.name == spec.name)
    if not known.files:
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
