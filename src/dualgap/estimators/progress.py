"""Who hears of a fit's progress: Python's logging, the user's callbacks, and scikit-learn's callback API where it exists.

All of them are turned into callbacks of the driver, one set for each problem (class, pair of classes) of a fit.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks. It adds a frame as theirs does, so a warning has one stacklevel for both."""

        @functools.wraps(method)
        def run(estimator: BaseEstimator, *args: Any, **kwargs: Any) -> Any:
            return method(estimator, *args, **kwargs)

        return run


from sklearn.base import BaseEstimator

from dualgap.run import Progress

__all__ = ["CallbackSupportMixin", "Callbacks", "Monitor", "has_listeners", "log_to_screen", "logged", "with_callbacks"]

Callbacks = Sequence[Callable[[Progress], object]] | None

LOGGER = logging.getLogger("dualgap")


def log_to_screen(verbose: int) -> AbstractContextManager[None]:
    """With verbose > 0, messages of the logger "dualgap" are shown; where nobody has set logging up, on standard output."""
    return _shown() if verbose else nullcontext()


@contextmanager
def _shown() -> Iterator[None]:
    level, handler = LOGGER.level, None
    if not LOGGER.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("[dualgap] %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO if LOGGER.level == logging.NOTSET else min(LOGGER.level, logging.INFO))
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        if handler is not None:
            LOGGER.removeHandler(handler)


def logged(label: str, verbose: int) -> Callable[[Any], None]:
    """Return a callback of the driver that logs each evaluation; of rounds on a cluster also what was sent."""

    def log(progress: Progress) -> None:
        record, text = progress.record, str(progress.certificate)
        if "bytes_sent" in record:
            text += f", {record['bytes_sent'] / 1e6:.3g} MB sent, {record['local_epochs']:.0f} local epochs"
        LOGGER.log(logging.INFO if verbose else logging.DEBUG, "%s: epoch %d, %s", label, progress.epoch, text)

    return log


def _has_hooks(estimator: Any) -> bool:
    return bool(getattr(estimator, "_skl_callbacks", None)) or hasattr(estimator, "_parent_callback_ctx")


def has_listeners(estimator: Any) -> bool:
    """Return whether anybody hears of the evaluations of a fit."""
    return bool(estimator.callbacks or estimator.verbose) or _has_hooks(estimator) or LOGGER.isEnabledFor(logging.DEBUG)


class Monitor:
    """The listeners of one fit.

    Parameters
    ----------
    estimator : the estimator that is being fitted
    shown : makes the mapping with X, y and metadata that scikit-learn's hooks take
    tasks : the problems that the fit solves, each with a name; for a single one the evaluations are the subtasks
    """

    def __init__(self, estimator: BaseEstimator, shown: Callable[[], dict[str, Any]], tasks: Sequence[Any]) -> None:
        self.estimator, self.tasks = estimator, tasks
        self.context: Any = None
        if _has_hooks(estimator):
            single = len(tasks) == 1
            self.context = estimator._init_callback_context(max_subtasks=None if single else len(tasks), sequential_subtasks=single)
            self.data = shown()
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def callbacks(self, task: int, rebuild: Callable[[Any], dict[str, Any]]) -> list[Callable[[Any], Any]]:
        """Driver callbacks of one problem. `rebuild` makes fitted attributes from a Progress, for hooks that ask for a model."""
        found = list(self.estimator.callbacks or ())
        if self.estimator.verbose or LOGGER.isEnabledFor(logging.DEBUG):
            found.append(logged(self.tasks[task].name, self.estimator.verbose))
        if self.context is not None and len(self.tasks) == 1:
            found.append(self._evaluation_hooks(rebuild))
        return found

    def _evaluation_hooks(self, rebuild: Callable[[Any], dict[str, Any]]) -> Callable[[Any], bool]:
        def evaluated(progress: Progress) -> bool:
            subtask = self.context.subcontext(task_name="evaluation")
            subtask.call_on_fit_task_begin(estimator=self.estimator, **self.data)
            end = {**self.data, "reconstruction_attributes": lambda: rebuild(progress)}
            return bool(subtask.call_on_fit_task_end(estimator=self.estimator, **end))

        return evaluated

    def task(self, task: int) -> AbstractContextManager[None]:
        """Around the solving of one problem out of several."""
        return nullcontext() if self.context is None or len(self.tasks) == 1 else self._subtask(task)

    @contextmanager
    def _subtask(self, task: int) -> Iterator[None]:
        subtask = self.context.subcontext(task_name=self.tasks[task].name, task_id=task)
        subtask.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        yield
        subtask.call_on_fit_task_end(estimator=self.estimator, **self.data)

    def end(self) -> None:
        """The fit is over and the estimator has its attributes."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, **self.data, reconstruction_attributes={})
