"""Proven labels in the commands: the balls of a model as plain arrays for its file, and shares of rows whose labels are proven."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.answers import class_winners_proven
from dualgap.estimators import LinearSVC
from dualgap.proof import Ball, ProofError, Reference, Space

__all__ = ["balls_from_dict", "balls_to_dict", "proven_labels", "share_words", "winners_proven"]

NUMBERS = ("side", "length", "score", "radius", "level", "drift")  # of a mean row


def proven_labels(svc: LinearSVC, X: Any) -> np.ndarray | None:
    """Return which labels of rows are proven; None for a model that proves none, such as one that was trained on a store."""
    try:
        return svc.predict_proven(X)[1]
    except ProofError:
        return None


def share_words(share: float) -> str:
    """Return the share of proven labels in words."""
    return f"  {100 * share:.4g} % of these labels are proven to be those of the exact model"


def winners_proven(labels: np.ndarray, balls: list[Ball]) -> np.ndarray:
    """Return which training rows of some balls have the labels with these codes for certain."""
    bounds = [ball.training_bounds() for ball in balls]
    if len(balls) == 1:
        low, high = bounds[0]
        return np.where(labels == 1, low > 0.0, high <= 0.0)
    low, high = (np.stack([each[k] for each in bounds], axis=1) for k in (0, 1))
    return class_winners_proven(labels, low, high)


def balls_to_dict(svc: Any) -> dict[str, Any] | None:
    """Return the balls of a model as arrays and text; None for a model that has none."""
    try:
        balls = svc.proof_.balls()
    except ProofError:
        return None
    space = balls[0].problem
    content = {
        "space": [space.d, space.intercept, space.intercept_scale],
        "centre": np.stack([ball.centre for ball in balls]),
        "numbers": np.array([[ball.radius, *ball.intercept, ball.gap] for ball in balls]),
    }
    if balls[0].references:
        content["rows"] = np.stack([[at.vector() for at in ball.references] for ball in balls])
        content["references"] = np.array([[[getattr(at, name) for name in NUMBERS] for at in ball.references] for ball in balls])
    return content


def balls_from_dict(content: dict[str, Any], svc: Any) -> list[Ball]:
    """Return the balls that a file has for a model; a file that does not fit the model is an error."""
    d, kind, scale = content["space"]
    space, K = Space(int(d), str(kind), float(scale)), len(np.atleast_2d(svc.coef_))
    centre, numbers = np.asarray(content["centre"], dtype=float), np.asarray(content["numbers"], dtype=float)
    free = space.intercept == "free"
    rows = np.asarray(content["rows"], dtype=float) if free else np.zeros((K, 0, space.d))
    facts = np.asarray(content["references"], dtype=float) if free else np.zeros((K, 0, len(NUMBERS)))
    sides = 2 if free else 0
    shapes = (centre.shape, numbers.shape, rows.shape, facts.shape)
    if space.d != svc.n_features_in_ or shapes != ((K, space.d), (K, 4), (K, sides, space.d), (K, sides, len(NUMBERS))):
        raise ValueError(f"bounds of the exact model of shapes {shapes} for {K} models of {svc.n_features_in_} features")
    found = []
    for k in range(K):
        references = tuple(
            Reference(weights=None, row=row, **dict(zip(NUMBERS, values.tolist(), strict=True)))
            for row, values in zip(rows[k], facts[k], strict=True)
        )
        radius, low, high, gap = numbers[k].tolist()
        found.append(Ball(space, centre[k], radius, (low, high), gap, references))
    return found
