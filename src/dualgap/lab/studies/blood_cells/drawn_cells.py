"""Drawn blood cells: a stand-in for the microscope pictures, for machines that do not have them. Needs OpenCV.

A lymphocyte has one round nucleus, a neutrophil several lobes; red cells, platelets, noise and the black frame of a turned picture
are around them. No number measured on these says anything about the real pictures.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dualgap.core import count
from dualgap.data import DataSet, generated
from dualgap.lab.studies.blood_cells import pictures
from dualgap.lab.studies.blood_cells.pictures import CELL_TYPES

__all__ = ["draw_cell", "drawn_cells"]

HEIGHT, WIDTH = 240, 320
BACKGROUND, RED_CELL, CYTOPLASM, NUCLEUS = (218, 214, 216), (150, 160, 205), (222, 180, 195), (190, 70, 110)  # blue, green, red
Point = tuple[int, int]


def draw_cell(kind: str, rng: np.random.Generator) -> np.ndarray:
    """One picture, 240 × 320 × 3 (blue, green, red), with a cell of the given kind somewhere in it."""
    if kind not in CELL_TYPES:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(CELL_TYPES)}")
    cv2 = pictures._cv2()
    picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, dtype=np.uint8)
    for _ in range(int(rng.integers(12, 22))):
        _red_cell(cv2, picture, rng)
    for _ in range(int(rng.integers(0, 5))):  # platelets: small, stained like the nucleus
        cv2.circle(picture, _point(rng, 0), int(rng.integers(1, 4)), _shade(NUCLEUS, rng), -1, cv2.LINE_AA)
    centre = _point(rng, 45)
    cv2.circle(picture, centre, int(rng.integers(34, 42)), _shade(CYTOPLASM, rng), -1, cv2.LINE_AA)
    colour = _shade(NUCLEUS, rng)
    if kind == "LYMPHOCYTE":
        axes = tuple(int(a) for a in rng.integers(24, 32, size=2))
        cv2.ellipse(picture, centre, axes, float(rng.uniform(0, 180)), 0, 360, colour, -1, cv2.LINE_AA)
    else:
        _lobes(cv2, picture, centre, colour, rng)
    picture = cv2.GaussianBlur(picture, (3, 3), 0)
    picture = np.clip(picture + rng.normal(0, 6, size=picture.shape), 0, 255).astype(np.uint8)
    if rng.random() < 0.8:  # turned about the cell, so that the frame never covers it
        turn = cv2.getRotationMatrix2D(centre, float(rng.uniform(-20, 20)), 1.0)
        picture = cv2.warpAffine(picture, turn, (WIDTH, HEIGHT), borderValue=(0, 0, 0))
    return picture


def _shade(colour: tuple[int, int, int], rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(c) for c in np.clip(np.array(colour) + rng.integers(-8, 9), 0, 255))


def _point(rng: np.random.Generator, margin: int) -> Point:
    return int(rng.integers(margin, WIDTH - margin)), int(rng.integers(margin, HEIGHT - margin))


def _red_cell(cv2: Any, picture: np.ndarray, rng: np.random.Generator) -> None:
    centre, radius = _point(rng, 0), int(rng.integers(18, 27))
    cv2.circle(picture, centre, radius, _shade(RED_CELL, rng), -1, cv2.LINE_AA)
    if rng.random() < 0.5:  # paler in the middle
        cv2.circle(picture, centre, radius // 3, _shade((195, 200, 214), rng), -1, cv2.LINE_AA)


def _lobes(cv2: Any, picture: np.ndarray, centre: Point, colour: tuple[int, ...], rng: np.random.Generator) -> None:
    """Three to five lobes on an arc around the cell's middle, joined by thin bridges."""
    count = int(rng.integers(3, 6))
    angles = rng.uniform(0, 2 * np.pi) + np.linspace(0, rng.uniform(1.2, 1.6) * np.pi, count)
    reach = rng.uniform(16, 20)
    points = [(round(centre[0] + reach * np.cos(a)), round(centre[1] + reach * np.sin(a))) for a in angles]
    for one, other in itertools.pairwise(points):
        cv2.line(picture, one, other, colour, 5, cv2.LINE_AA)
    for point in points:
        axes = tuple(int(a) for a in rng.integers(8, 13, size=2))
        cv2.ellipse(picture, point, axes, float(rng.uniform(0, 180)), 0, 360, colour, -1, cv2.LINE_AA)


def drawn_cells(n: int = 1000, n_test: int = 250, seed: int = 0, pca: int | None = None) -> DataSet:
    """Drawn pictures through the real pipeline: rows of 14,400 pixels (float32, 0 to 1), or `pca` principal components."""
    for value, name in ((n, "n"), (n_test, "n_test")):
        count(name, value, 2)
    rng = np.random.default_rng(seed)
    y = np.where(rng.permutation(n + n_test) % 2 == 0, 1, -1)
    X = np.empty((n + n_test, pictures.SIDE**2), dtype=np.float32)
    for i, label in enumerate(y):
        X[i] = pictures.feature(draw_cell("NEUTROPHIL" if label == 1 else "LYMPHOCYTE", rng)) / np.float32(255)
    text = "generated stand-in for the blood-cell pictures: drawn cells, lymphocyte (-1) or neutrophil (1)"
    data = generated("blood-cells-generated", X[:n], y[:n], text, X_test=X[n:], y_test=y[n:])
    return data if pca is None else pictures.reduce(data, pca)[0]
