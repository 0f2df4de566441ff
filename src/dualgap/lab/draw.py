"""Figures drawn with matplotlib: PNG to look at, PDF to print."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.core import write_atomically
from dualgap.lab.figures import FigureData, Line, Panel
from dualgap.lab.palette import BOUNDARY, INK
from dualgap.lab.results import file_name

__all__ = ["draw", "save"]

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
    "axes.edgecolor": "#8a94a3",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": "#4a5565",
    "ytick.color": "#4a5565",
    "axes.grid": True,
    "grid.color": "#e4e8ee",
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a data set may be called "$x$"
}


def draw(figure: FigureData) -> Any:
    """Return a matplotlib figure."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        (rows, columns), pictures = figure.grid, figure.is_pictures
        width, height = (1.75, _picture_height(figure)) if pictures else (4.6, 3.3)
        if columns == 1 and not pictures:
            width = 6.6
        canvas = Figure(figsize=(width * columns, height * rows + 0.7), layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, figure.panels, strict=False):
            (_picture if panel.picture is not None else _plot)(ax, panel)
        for ax in axes[len(figure.panels) :]:
            ax.set_axis_off()
        if figure.title:
            canvas.suptitle(figure.title, fontsize=11.5, fontweight="bold")
        if not pictures:
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


def _plot(ax: Any, panel: Panel) -> None:
    if panel.surface is not None:
        s = panel.surface
        ax.contourf(s.x, s.y, s.scores, levels=[-1e300, 0, 1e300], colors=[BOUNDARY["negative"], BOUNDARY["positive"]], alpha=0.10)
        ax.contour(s.x, s.y, s.scores, levels=[0], colors=INK, linewidths=1.6)
    for points in panel.points:
        ax.plot(points.x, points.y, MARKER[points.marker], color=points.colour, ms=points.size, mew=0, label=points.label, ls="")
    for line in panel.lines:
        _line(ax, line, panel.y_log)
    if panel.x_log:
        ax.set_xscale("log")
        _log_ticks(ax.xaxis)
    if panel.y_log:
        ax.set_yscale("log")
        _log_ticks(ax.yaxis)
    if (limits := panel.y_range()) is not None:
        ax.set_ylim(*limits)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.note:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2.0}
        ax.text(0.99, 0.98, panel.note, transform=ax.transAxes, ha="right", va="top", fontsize=7.5, color="#4a5565", bbox=box)


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _log_ticks(axis: Any) -> None:
    """Label at most seven powers of ten; on an axis of about a decade, numbers between them too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    def power(value: float, _: Any = None) -> str:
        return "10" + str(round(np.log10(value))).translate(SUPERSCRIPT)

    low, high = axis.get_view_interval()
    if low > 0 and high / low < 15:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(power))
    axis.set_minor_formatter(NullFormatter())


def _line(ax: Any, line: Line, y_log: bool) -> None:
    y = np.where(line.y > 0, line.y, np.nan) if y_log else line.y
    marker = MARKER[line.style.marker] if line.markers or len(line.x) == 1 else None
    ax.plot(line.x, y, color=line.style.colour, ls=DASH[line.style.dash], lw=1.6, marker=marker, ms=4, label=line.label)
    if line.low is not None and line.high is not None:
        low = np.where(line.low > 0, line.low, np.nan) if y_log else line.low
        ax.fill_between(line.x, low, line.high, color=line.style.colour, alpha=0.15, lw=0)


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
    if len(handles) > 1 or any(panel.points for panel in figure.panels):
        across = max(1, min(len(handles), 2 * columns if columns > 1 else 3))
        canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=8.5)
