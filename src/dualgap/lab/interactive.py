"""Figures and curves as Plotly's JSON: plain dictionaries that the report's page hands to Plotly.newPlot.

Plotly reads a few HTML tags in text; every name is escaped here, so that a data set called "<b>" is shown as it is called.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import textwrap
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dualgap.lab.columns import LOG, NAMES
from dualgap.lab.figures import FigureData, Line, Panel, floored, thinned
from dualgap.lab.palette import BOUNDARY, INK
from dualgap.lab.ranking import problems
from dualgap.lab.results import Group, Results

__all__ = ["curve_data", "packed_json", "plotly_figure", "plotly_script", "png_address"]


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
GRID = "#e4e8ee"


def packed_json(value: Any) -> str:
    """Return a value as packed JSON. No character of it can end a <script> element."""
    return packed(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


@lru_cache(maxsize=1)
def plotly_script() -> str:
    """Return Plotly's script, packed."""
    from plotly.offline import get_plotlyjs

    return packed(get_plotlyjs())


def packed(text: str) -> str:
    """Return text as the page's script unpacks it: gzip, in the letters of base64. A page is then a third as large."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def shown(text: str) -> str:
    """Return text as Plotly shows it literally."""
    return html.escape(text, quote=False)


def numbers(values: np.ndarray, positive: bool = False) -> list[float | None]:
    """Return numbers with four digits, enough for a screen; null for those that cannot be drawn."""
    out: list[float | None] = []
    for value in np.asarray(values, dtype=float).ravel():
        out.append(float(f"{value:.4g}") if np.isfinite(value) and (value > 0 or not positive) else None)
    return out


def plotly_figure(figure: FigureData) -> dict[str, Any]:
    """Return a figure with one pair of axes a panel and one legend for all: its traces, and a layout for each number of columns."""
    _, most = figure.grid
    data: list[dict[str, Any]] = []
    named: set[str] = set()
    for place, panel in enumerate(figure.panels):
        suffix = "" if place == 0 else str(place + 1)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data += [{**trace, **axes} for trace in _traces(panel, named)]
    return {"data": data, "layouts": {str(k): _layout(replace(figure, columns=k)) for k in sorted({1, min(2, most), most})}}


TITLE_WIDTH = {1: 42, 2: 46, 3: 32}  # characters of a panel's title in a line, by the number of columns
TITLE_WIDTH_MORE = 24


def _layout(figure: FigureData) -> dict[str, Any]:
    rows, columns = figure.grid
    height = 320 * rows + 120
    layout: dict[str, Any] = {
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 64, "b": 20},
        "hovermode": "closest",
        "legend": {
            "orientation": "h",
            "yanchor": "top",
            "y": -62 / (height - 84),
            "x": 0.5,
            "xanchor": "center",
            "tracegroupgap": 0,
        },
        "annotations": [],
    }
    for place, panel in enumerate(figure.panels):
        row, column = divmod(place, columns)
        _axes(layout, panel, "" if place == 0 else str(place + 1), (row, rows), (column, columns))
    return layout


def _axes(layout: dict[str, Any], panel: Panel, suffix: str, row: tuple[int, int], column: tuple[int, int]) -> None:
    gap_x = {1: 0.0, 2: 0.09, 3: 0.075}.get(column[1], 0.06)
    gap_y = 0.0 if row[1] == 1 else 0.14 if row[1] == 2 else 0.38 / row[1]
    width = (1.0 - gap_x * (column[1] - 1)) / column[1]
    height = (1.0 - gap_y * (row[1] - 1)) / row[1]
    left, top = column[0] * (width + gap_x), 1.0 - row[0] * (height + gap_y)
    common = {
        "gridcolor": GRID,
        "linecolor": "#8a94a3",
        "ticks": "outside",
        "tickcolor": "#8a94a3",
        "zeroline": False,
        "automargin": True,
    }
    x = {**common, "title": {"text": shown(panel.x_label), "standoff": 6}, "domain": [left, left + width], "anchor": f"y{suffix}"}
    y = {
        **common,
        "title": {"text": shown(panel.y_label), "standoff": 6},
        "domain": [max(0.0, top - height), top],
        "anchor": f"x{suffix}",
    }
    if panel.x_log:
        x |= _log_axis([line.x for line in panel.lines])
    if panel.y_log:
        y |= _log_axis([line.y for line in panel.lines])
    if column[0] > 0 and column[1] > 2:
        del y["title"]  # as on the left; there is no room to say it again
    if (limits := panel.y_range()) is not None:
        y["range"] = list(limits)
    layout[f"xaxis{suffix}"], layout[f"yaxis{suffix}"] = x, y
    title = {
        "text": "<b>" + "<br>".join(shown(line) for line in _lines(panel.title, column[1])) + "</b>",
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "font": {"size": 12.5},
    }
    layout["annotations"].append({**title, "x": left + width / 2, "y": top, "xanchor": "center", "yanchor": "bottom", "yshift": 6})
    if panel.note:
        corner = {"x": left + width, "y": top, "xanchor": "right", "yanchor": "top", "bgcolor": "rgba(255,255,255,0.8)"}
        layout["annotations"].append({**title, **corner, "text": shown(panel.note), "font": {"size": 11, "color": "#4a5565"}})


def _lines(title: str, columns: int) -> list[str]:
    """Return a title in lines short enough for a panel."""
    width = TITLE_WIDTH.get(columns, TITLE_WIDTH_MORE)
    return [part for line in title.split("\n") for part in textwrap.wrap(line, width) or [""]]


def _log_axis(values: list[np.ndarray]) -> dict[str, Any]:
    """Return ticks of a logarithmic axis: powers of ten, or where the values span few, 1, 2 and 5 times these."""
    every = np.concatenate(values) if values else np.array([])
    every = every[np.isfinite(every) & (every > 0)]
    if not len(every):
        return {"type": "log"}
    low, high = float(every.min()), float(every.max())
    span = np.log10(high / low)
    if span > 1.5:
        return {"type": "log", "exponentformat": "power", "dtick": max(1, round(span / 6))}
    ticks = [m * 10.0**k for k in range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1) for m in (1, 2, 5)]
    ticks = [tick for tick in ticks if low * 0.9 <= tick <= high * 1.1]
    return {
        "type": "log",
        **({"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]} if len(ticks) > 1 else {"nticks": 4}),
    }


def _traces(panel: Panel, named: set[str]) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    if panel.surface is not None:
        s = panel.surface
        scores = [numbers(row) for row in s.scores]
        scale = [[0, BOUNDARY["negative"]], [0.5, "#ffffff"], [1, BOUNDARY["positive"]]]
        bound = float(np.quantile(np.abs(s.scores), 0.9)) or 1.0
        field = {
            "type": "heatmap",
            "x": numbers(s.x),
            "y": numbers(s.y),
            "z": scores,
            "zmin": -bound,
            "zmax": bound,
            "zsmooth": "best",
        }
        traces.append({**field, "colorscale": scale, "opacity": 0.22, "showscale": False, "hoverinfo": "skip"})
        line = {"color": INK, "width": 2}
        contours = {"start": 0, "end": 0, "size": 1, "coloring": "none", "showlabels": False}
        border = {"type": "contour", "x": numbers(s.x), "y": numbers(s.y), "z": scores, "contours": contours, "line": line}
        traces.append({**border, "showscale": False, "showlegend": False, "hoverinfo": "skip"})
    for points in panel.points:
        marker = {"color": points.colour, "symbol": points.marker, "size": 1.6 * points.size}
        trace = {"type": "scatter", "mode": "markers", "x": numbers(points.x), "y": numbers(points.y), "marker": marker}
        traces.append({**trace, **_legend(points.label, named), "hoverinfo": "skip"})
    for line_ in panel.lines:
        traces += _line(line_, panel, named)
    return traces


def _line(line: Line, panel: Panel, named: set[str]) -> list[dict[str, Any]]:
    x = numbers(line.x, panel.x_log)
    traces: list[dict[str, Any]] = []
    group = {"legendgroup": shown(line.label)}
    if line.low is not None and line.high is not None and not np.array_equal(line.low, line.high):
        edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, **group}
        traces.append({**edge, "y": numbers(line.low, panel.y_log)})
        traces.append(
            {**edge, "y": numbers(line.high, panel.y_log), "fill": "tonexty", "fillcolor": faded(line.style.colour, 0.15)}
        )
    marks = line.markers or len(line.x) == 1
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if marks else "lines",
        "x": x,
        "y": numbers(line.y, panel.y_log),
    }
    trace["line"] = {"color": line.style.colour, "width": 2, "dash": line.style.dash}
    trace["marker"] = {"color": line.style.colour, "symbol": line.style.marker, "size": 7}
    trace["hovertemplate"] = (
        f"{shown(line.label)}<br>{shown(panel.x_label)} %{{x:.4g}}<br>{shown(panel.y_label)} %{{y:.5g}}<extra></extra>"
    )
    return [*traces, {**trace, **_legend(line.label, named)}]


def _legend(label: str, named: set[str]) -> dict[str, Any]:
    """Return the settings of a legend entry that appears once and toggles the line in every panel."""
    first = label not in named
    named.add(label)
    return {"name": shown(label), "legendgroup": shown(label), "showlegend": first}


def faded(colour: str, opacity: float) -> str:
    """Return a colour with an opacity, as CSS writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def png_address(figure: FigureData, dpi: int = 130) -> str:
    """Return a figure drawn by matplotlib as a data: address: for figures made of pictures, and for a page without scripts."""
    from dualgap.lab.draw import draw

    buffer = io.BytesIO()
    draw(replace(figure, title="")).savefig(buffer, format="png", dpi=dpi)
    if not figure.is_pictures:  # lines need few colours
        from PIL import Image

        small = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(48).save(small, format="png", optimize=True)
        buffer = small
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


ACROSS = ("epoch", "passes", "cpu_seconds")
UP = ("relative_gap", "suboptimality", "primal", "train_error", "test_error", "support_vectors")
SHORT = {
    "epoch": "epochs",
    "passes": "passes",
    "cpu_seconds": "CPU time",
    "relative_gap": "gap",
    "suboptimality": "above the best bound",
    "primal": "objective",
    "train_error": "training error",
    "test_error": "test error",
    "support_vectors": "support vectors",
}


def curve_data(results: Results) -> dict[str, Any]:
    """Return what the page's script reads."""
    shown = []
    for (race, data, setting), groups in problems(results):
        title = " · ".join(filter(None, [data, setting, race]))
        shown.append({"title": title, "lines": [_explored(results, group) for group in groups]})
    styles = {id: asdict(style) for id, style in results.styles.items()}
    columns = {
        "x": ACROSS,
        "y": UP,
        "names": {c: NAMES[c] for c in (*ACROSS, *UP)},
        "short": SHORT,
        "log": [c for c in UP if c in LOG],
    }
    return {**columns, "styles": styles, "problems": shown}


def _explored(results: Results, group: Group) -> dict[str, Any]:
    up: dict[str, Any] = {}
    across: dict[str, Any] = {}
    for column in UP:
        if not group.has(column):
            continue
        curve = group.curve("epoch", column)
        kept = thinned(len(curve.mean), 110)
        mean, low, high = (floored(values[kept], column) for values in (curve.mean, curve.low, curve.high))
        up[column] = {"mean": numbers(mean)}
        if not np.array_equal(curve.low, curve.high):
            up[column] |= {"low": numbers(low), "high": numbers(high)}
    for column in ACROSS:
        curve = group.curve(column, "primal")
        across[column] = numbers(curve.x[thinned(len(curve.x), 110)])
    return {"solver": group.solver.id, "label": results.label(group.solver), "x": across, "y": up}
