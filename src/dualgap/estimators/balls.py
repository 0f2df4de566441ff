"""The balls of a fitted estimator: where the exact models are, one ball for each of its problems, made when they are first needed.

They are made from the training data when bounds are first asked for or when the model is pickled. They hold no training data but the rows
of a kernel machine's expansions. What they prove about labels is in `bounds`, about predictions of a regression in `regression`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.fitted import complete, refuse_uncertified
from dualgap.estimators.joint_ball import joint_ball_of
from dualgap.estimators.on_store import is_store
from dualgap.proof import JointPart, ProofError, ball_of, bounds_of, without_data

__all__ = ["BallsMixin"]

CHANGED = 2.0  # gap found again / gap of the fit, above which the training data must have been changed since


class BallsMixin:
    """Balls of the exact models. `fit` sets `_kept`; `_bound_parts` makes the problems of the fit again."""

    _balls: Any  # a list of balls, a JointBall, or the reason why there is none

    def __getstate__(self) -> dict[str, Any]:
        complete(self)
        if "_kept" in vars(self) and "_balls" not in vars(self):
            try:
                self._made_balls()
            except (ProofError, ValueError) as error:  # a model without a ball is saved all the same, with the reason
                self._balls = str(error)
        state = dict(super().__getstate__())  # type: ignore[misc, call-overload]
        state.pop("_kept", None)
        return state

    # ----------------------------------------------------------------------------------------------------- what subclasses change

    def _bound_parts(self, X: Any, y: Any, sample_weight: Any, duals: Any) -> list[Any]:
        """Return the problems of the model in use, with models and dual variables."""
        return list(self._parts(X, y, sample_weight, duals)[1])  # type: ignore[attr-defined]

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the scores, a column for each column of `decision_function`."""
        X = self._new_rows(X)
        balls = self._ready_balls()
        return balls.bounds(X) if hasattr(balls, "bounds") else bounds_of(balls, X)

    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked against those of training."""
        raise NotImplementedError

    def _loss(self) -> Any:
        """Return the loss object of the problems."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------------------------------- balls

    def _ready_balls(self) -> Any:
        """Return the balls of the problems, made now unless they are at hand."""
        check_is_fitted(self)
        refuse_uncertified(self, "bounds of the exact model")
        if "_balls" not in vars(self):
            self._made_balls()
        if isinstance(self._balls, str):
            raise ProofError(self._balls)
        return self._balls

    def _made_balls(self) -> None:
        kept = self._kept_data("bounds of the exact model")
        parts = self._bound_parts(kept.X, kept.y, kept.sample_weight, kept.duals)
        self._balls = self._without_data(parts, [_ball_of(part) for part in parts], kept)

    def _without_data(self, parts: list[Any], balls: list[Any], kept: Any) -> Any:
        return balls[0] if isinstance(parts[0], JointPart) else without_data(balls)

    def _kept_data(self, what: str) -> Any:
        refuse_uncertified(self, what)
        kept = vars(self).get("_kept")
        if kept is None:
            trained = "a model trained by partial_fit or on a cluster has no such bounds"
            raise ProofError(f"{what} need the training data, which this model does not have; {trained}; use fit")
        if is_store(kept.X):
            raise ProofError(f"{what} need the training rows in memory; these are in a store")
        return kept


def _ball_of(part: Any) -> Any:
    if isinstance(part, JointPart):
        return joint_ball_of(part)
    ball = ball_of(part.problem, part.coef, float(part.intercept), part.dual)
    if part.gap is not None and not ball.gap <= CHANGED * part.gap + 1e-6 * part.objective:
        raise ProofError(
            f"the training data are not those of the fit any more: the gap was {part.gap:.3g} and is {ball.gap:.3g} on what the "
            "arrays hold now; do not change them in place, or ask for bounds (or pickle the model) before"
        )
    return ball
