"""Colours: one a solver throughout a report, told apart by colour-blind readers too; a dash once the colours are used up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["BOUNDARY", "INK", "Style", "styles_for"]

# Okabe and Ito's colours without yellow, which white paper hides, and two dark reds of Paul Tol's. Any two of them stay at least 16 apart
# (CIELAB) for normal sight and for each of the three kinds of colour blindness; a test measures it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#661100", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "pentagon")

INK = "#1b2430"
# the two classes, and the misclassified points of each
BOUNDARY = {"negative": "#0072B2", "positive": "#D55E00", "negative wrong": "#56B4E9", "positive wrong": "#F0B000"}


@dataclass(frozen=True)
class Style:
    """How a solver's line is drawn."""

    colour: str
    dash: str = "solid"
    marker: str = "circle"


def styles_for(names: Iterable[str]) -> dict[str, Style]:
    """Return a style for each name, in the order given; the same names always get the same styles."""
    styles = {}
    for i, name in enumerate(dict.fromkeys(names)):
        turn, place = divmod(i, len(COLOURS))
        styles[name] = Style(COLOURS[place], DASHES[turn % len(DASHES)], MARKERS[place])
    return styles
