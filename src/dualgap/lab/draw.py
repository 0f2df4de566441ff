"""Figures drawn with matplotlib: PNG to look at, PDF to print, and SVG for the page, a drawing a panel.

On the page a colour is a property of the style sheet, which has two values for it: one for light paper and one for dark.
"""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.lab.figures import FigureData, Line, Panel
from dualgap.lab.palette import BOUNDARY, FAINT, INK, PAPER, SOFT, as_css
from dualgap.lab.results import file_name

__all__ = ["STYLE", "draw", "png_address", "save", "svg_panels"]

DASH = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1.2, 1.6)), "dashdot": (0, (5, 1.6, 1.2, 1.6))}
MARKER = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "x": "X",
    "triangle-down": "v",
    "star": "*",
    "pentagon": "p",
}
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "dualgap",  # the same drawing has the same bytes
    "text.parse_math": False,  # a data set may be called "$x$"
}


WIDTH = {
    1: 5.4,
    2: 5.0,
    3: 3.7,
}  # inches of a panel on a page, by how many stand side by side; the fewer pixels, the larger the text
WIDTH_MORE = 3.1


def draw(figure: FigureData, on_page: int = 0) -> Any:
    """Return a matplotlib figure; or a panel for a page on which so many stand side by side, without a legend."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        (rows, columns), pictures = figure.grid, figure.is_pictures
        width, height = (1.75, _picture_height(figure)) if pictures else (4.6, 3.3)
        if not pictures and columns != 2:
            width = 6.6 if columns == 1 else 3.6
            height = 3.3 if columns == 1 else 2.8
        if on_page:
            width = WIDTH.get(on_page, WIDTH_MORE)
            height = 0.66 * width + 0.2
        room = 0.0 if on_page else 0.7
        canvas = Figure(figsize=(width * columns, height * rows + room), layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, figure.panels, strict=False):
            (_picture if panel.picture is not None else _plot)(ax, panel)
        for ax in axes[len(figure.panels) :]:
            ax.set_axis_off()
        if figure.title:
            canvas.suptitle(figure.title, fontsize=11.5, fontweight="bold")
        if not (on_page or pictures):
            _legend(canvas, figure, columns)
    return canvas


def save(figure: FigureData, folder: Path, formats: tuple[str, ...] = ("png", "pdf")) -> list[Path]:
    """Draw a figure into files; return their paths."""
    import matplotlib

    canvas = draw(figure)
    paths = [folder / f"{file_name(figure.id)}.{suffix}" for suffix in formats]
    with matplotlib.rc_context(STYLE):
        for path in paths:
            drawn = io.BytesIO()
            canvas.savefig(drawn, format=path.suffix[1:], dpi=160)
            write_atomically(path, drawn.getvalue())
            canvas.set_layout_engine("none")  # the first drawing has laid it out
    return paths


def png_address(figure: FigureData) -> str:
    """Return a figure made of pictures as a data: address."""
    buffer = io.BytesIO()
    draw(replace(figure, title="")).savefig(buffer, format="png", dpi=130)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


# What stands in matplotlib's SVG beside the drawing: a header, names that every drawing has, and rules for the whole page.
BESIDE = re.compile(
    r"<metadata>.*?</metadata>|<style.*?</style>|(?<=<g) id=\"[^\"]*\"|font-family: [^;]*; |^.*?(?=<svg)", re.DOTALL
)
DIGITS = re.compile(r"(\d+\.\d)\d+(?= |\"|\n)")  # a tenth of a point is enough for a screen


def svg_panels(figure: FigureData) -> list[str]:
    """Return each panel as an SVG element for a page: it takes its colours from there, and its title and legend stand beside it."""
    import matplotlib

    drawings = []
    for panel in figure.panels:
        canvas, drawn = draw(FigureData("", "", "", (replace(panel, title=""),)), on_page=figure.grid[1]), io.StringIO()
        with matplotlib.rc_context(STYLE):
            canvas.savefig(drawn, format="svg", transparent=True)
        text = " ".join(DIGITS.sub(r"\1", BESIDE.sub("", drawn.getvalue())).split())
        drawings.append(as_css(text.replace("<svg ", '<svg role="img" ', 1)))
    return drawings


def _plot(ax: Any, panel: Panel) -> None:
    if panel.surface is not None:
        x, y, scores = panel.surface
        ax.contourf(x, y, scores, levels=[-1e300, 0, 1e300], colors=[BOUNDARY["negative"], BOUNDARY["positive"]], alpha=0.10)
        ax.contour(x, y, scores, levels=[0], colors=INK, linewidths=1.6)
    for line in panel.lines:
        _line(ax, line, panel.y_log)
    if panel.x_log:
        ax.set_xscale("log")
        _log_ticks(ax.xaxis)
    if panel.y_log:
        ax.set_yscale("log")
    if panel.y_limits is not None:
        ax.set_ylim(*panel.y_limits)
    if panel.y_log:
        _log_ticks(ax.yaxis)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.note:
        box = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 2.0}
        ax.text(0.99, 0.98, panel.note, transform=ax.transAxes, ha="right", va="top", fontsize=7.5, color=SOFT, bbox=box)


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _log_ticks(axis: Any) -> None:
    """Label at most seven powers of ten; where fewer than three are in sight, numbers between them too, and never fewer than two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    if not low > 0:
        return
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    even, ticks = np.asarray(MaxNLocator(4).tick_values(low, high)), []
    for tried in (decades, np.outer(decades, [1.0, 3.0]), np.outer(decades, [1.0, 2.0, 5.0]), even):
        ticks = [float(tick) for tick in tried.ravel() if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) > 2:
            break
    if all(tick in decades for tick in ticks):
        ticks = ticks[:: -(-len(ticks) // 7)]
        axis.set_major_formatter(FuncFormatter(lambda value, _: "10" + str(round(np.log10(value))).translate(SUPERSCRIPT)))
    else:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_formatter(NullFormatter())


def _line(ax: Any, line: Line, y_log: bool) -> None:
    y = np.where(line.y > 0, line.y, np.nan) if y_log else line.y
    style = line.style
    if not line.joined:
        ax.plot(line.x, y, MARKER[style.marker], color=style.colour, ms=line.size, mew=0, label=line.label, ls="")
        return
    marker = MARKER[style.marker] if line.markers or len(line.x) == 1 else None
    ax.plot(line.x, y, color=style.colour, ls=DASH[style.dash], lw=1.6, marker=marker, ms=line.size, label=line.label)
    if line.low is not None and line.high is not None:
        low = np.where(line.low > 0, line.low, np.nan) if y_log else line.low
        ax.fill_between(line.x, low, line.high, color=style.colour, alpha=0.15, lw=0)


def _picture_height(figure: FigureData) -> float:
    """Return the height of a row of pictures in inches: the tallest picture and its title."""
    shapes = [panel.picture.shape for panel in figure.panels if panel.picture is not None]
    titles = max(panel.title.count("\n") for panel in figure.panels)
    return 1.7 * max(shape[0] / shape[1] for shape in shapes) + 0.25 + 0.13 * titles


def _picture(ax: Any, panel: Panel) -> None:
    assert panel.picture is not None
    grey = panel.picture.ndim == 2
    ax.imshow(panel.picture, cmap="gray" if grey else None, interpolation="nearest")
    ax.set_title(panel.title, fontsize=8, fontweight="normal")
    ax.set_anchor("N")  # pictures of different shapes share their upper edge
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(visible=True, color="#c5cdd7", linewidth=0.6)  # a white picture has an edge too


def _legend(canvas: Any, figure: FigureData, columns: int) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for ax in canvas.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        across = max(1, min(len(handles), 2 * columns if columns > 1 else 3))
        canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=8.5)
