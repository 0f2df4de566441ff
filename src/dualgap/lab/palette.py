"""Colours: one a solver throughout a report, told apart by colour-blind readers too; a dash once the colours are used up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["BOUNDARY", "FAINT", "INK", "PAPER", "SOFT", "Style", "as_css", "properties", "styles_for"]

# Okabe and Ito's colours without yellow, which white paper hides, and two dark reds of Paul Tol's. Any two of them stay at least 16 apart
# (CIELAB) for normal sight and for each of the three kinds of colour blindness, on dark paper too; a test measures it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#661100", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "pentagon")

INK, SOFT, FAINT, PAPER = "#1b2430", "#5a6573", "#e4e8ee", "#ffffff"
# the two classes, and the misclassified points of each
BOUNDARY = {"negative": "#0072B2", "positive": "#D55E00", "negative wrong": "#56B4E9", "positive wrong": "#F0B000"}
# What each colour becomes on dark paper; those of mid lightness stay.
ON_DARK = {
    "#0072B2": "#587ccb",
    "#D55E00": "#f0803c",
    "#882255": "#b384ff",
    "#661100": "#d9cea7",
    "#000000": "#f2f4f7",
    INK: "#e6eaf0",
    SOFT: "#a3aebc",
    FAINT: "#2b3541",
    PAPER: "#131a22",
}


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


def as_css(text: str) -> str:
    """Return text in which each colour that dark paper changes is a property of the page."""
    for colour in ON_DARK:
        text = text.replace(colour, f"var(--{colour[1:]})").replace(colour.lower(), f"var(--{colour[1:]})")
    return text


def properties(dark: bool) -> str:
    """Return the values of those properties as CSS."""
    return " ".join(f"--{light[1:]}: {shown if dark else light};" for light, shown in ON_DARK.items())
