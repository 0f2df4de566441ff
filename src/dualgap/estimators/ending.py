"""How the fit of an estimator ends: what is kept of it, its status, the warning if it ended early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dualgap.estimators.common import warn_unless_converged
from dualgap.estimators.fitted import Kept
from dualgap.estimators.progress import Monitor
from dualgap.run import Result

__all__ = ["end_fit"]


def end_fit(
    model: Any,
    given: tuple[Any, Any, Any],
    results: Sequence[Result],
    monitor: Monitor,
    tol: float,
    ctrl_c: Any,
    treated: Any = None,
) -> None:
    """Tell the listeners, keep what `fit` was given (X, y, sample_weight) with the dual variables, and set `status_`.

    The fitted attributes are set before. A warning names the line that has called `fit`, which `with_callbacks` wraps.
    """
    monitor.end()
    model._kept = Kept(*given, [result.dual for result in results], treated)
    model.status_ = warn_unless_converged(type(model).__name__, results, tol, stacklevel=5)
    if ctrl_c.take():
        model.status_ = "interrupted"
