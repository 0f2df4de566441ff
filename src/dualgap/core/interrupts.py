"""Ctrl-C while there is a model to lose: raised at once inside an epoch, held back everywhere else.

    with kept() as ctrl_c:              from before the set-up, in which Ctrl-C is raised at once, to the return of the model
        ctrl_c.begin()                  from here on Ctrl-C is held back …
        with ctrl_c.raised(): …         … except here: an epoch, a callback
        if ctrl_c.pressed(): …          whether one is held back: the run then ends as interrupted

The first Ctrl-C ends a run, which still returns its model. A second one that was held back is raised when the outermost `kept` ends. A
third one is raised at once. Signals reach Python's main thread alone; in other threads nothing here does anything.
"""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from typing import Any, Self

__all__ = ["counted", "held", "hold", "in_main_thread", "kept", "release"]


class _Handler:
    """The handler of SIGINT that stands in for the one before. All but `before` and `holds` starts anew when it is installed.

    Before `begin` it removes itself and passes Ctrl-C on; after it, nothing can interrupt its removal, whose last statement is the one that
    removes it. So no Ctrl-C can leave it behind.
    """

    def __init__(self) -> None:
        self.before: Any = None  # the handler that this one stands in for
        self.installed = False
        self.begun = False  # whether there may be a model to lose
        self.open = False  # whether Ctrl-C is raised at once, although there is
        self.holds = 0  # sections of an epoch that must not be divided
        self.waiting = 0  # those held back
        self.answered = False  # whether a run has ended as interrupted
        self.urgent = False  # whether a third one was raised
        self.handler = self.pressed  # one object, to be recognised by

    def install(self) -> bool:
        """Return whether this call has installed it; not where Ctrl-C has no handler in Python: it is ignored, or ends the process."""
        if self.installed:
            return False
        self.begun = self.open = self.answered = self.urgent = False
        self.before, self.waiting, self.holds = signal.getsignal(signal.SIGINT), 0, 0
        if not callable(self.before):
            return False
        try:
            signal.signal(signal.SIGINT, self.handler)
        except ValueError:  # not the main interpreter
            return False
        self.installed = True
        return True

    def remove(self, raised: bool) -> None:
        """Put the handler before back, and give it what this one still holds, unless another exception is raised."""
        if not self.installed:
            return
        self.installed = False
        if signal.getsignal(signal.SIGINT) is not self.handler:  # a callback has put its own there
            return
        if self.waiting + self.answered > 1 and not raised:
            signal.signal(signal.SIGINT, self.before)
            self.before(signal.SIGINT, None)
        else:
            signal.signal(signal.SIGINT, self.before)

    def pressed(self, number: int, frame: object) -> None:
        if self.begun and self.waiting < 2 and (self.holds or not self.open):
            self.waiting += 1
            return
        self.open, self.urgent = False, self.waiting >= 2
        if self.urgent or not self.begun:
            self.installed = False
            signal.signal(signal.SIGINT, self.before)
        self.before(number, frame)


_handler = _Handler()


def in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class kept:
    """From the set-up of a run to the return of its model; may be nested, and the outermost one counts.

    Examples
    --------
    >>> from dualgap.core.interrupts import kept
    >>> with kept() as ctrl_c:
    ...     ctrl_c.begin()
    ...     ctrl_c.pressed()
    False
    """

    def __enter__(self) -> Self:
        self.main = in_main_thread()
        self.depths = [each.depth for each in counted]
        self.owner = self.main and _handler.install()
        if self.main and not self.owner:  # perhaps in a callback, where it was raised at once
            self.open, _handler.open = _handler.open, False
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self.main:
            _go_back(self.depths)
        if self.owner:
            _handler.remove(raised=kind is not None)
        elif self.main:
            _handler.open = self.open

    def begin(self) -> None:
        """Hold Ctrl-C back from now on."""
        if self.main:
            _handler.begun = True

    def raised(self) -> Any:
        """Return a context manager in which Ctrl-C is raised at once."""
        return _Raised() if self.main else nullcontext()

    def pressed(self) -> bool:
        """Whether Ctrl-C is held back."""
        return self.main and _handler.waiting > 0

    def take(self) -> bool:
        """Whether Ctrl-C is held back; the first one then counts as answered, by a run that ends."""
        if not self.pressed():
            return False
        if not _handler.answered:
            _handler.answered, _handler.waiting = True, _handler.waiting - 1
        return True

    def answered(self) -> bool:
        """Whether Ctrl-C has ended a run since the outermost `kept` began."""
        return self.main and _handler.answered

    def answer(self) -> bool:
        """Count a Ctrl-C that was raised and caught as answered; False for the third one, which is to be raised again."""
        if not self.main:
            return True
        _handler.answered = True
        return not _handler.urgent


class _Raised:
    def __enter__(self) -> None:
        self.depths = [each.depth for each in counted]
        self.open, _handler.open = _handler.open, True

    def __exit__(self, kind: object, *_: object) -> None:
        _handler.open = self.open
        if kind is not None:
            _go_back(self.depths)


# Context managers that count who is inside, with `depth`, the count of the main thread, and `leave`, which lowers it by one. Ctrl-C that
# comes just before an `__exit__` skips it; where the exception is caught, the count goes back to what it was.
counted: list[Any] = []


def _go_back(depths: list[int]) -> None:
    for each, depth in zip(counted, depths, strict=True):
        while each.depth > depth:
            each.leave()


def hold() -> None:
    """Hold Ctrl-C back until `release`, within an epoch too. What comes meanwhile ends the run after the epoch."""
    if in_main_thread():
        _handler.holds += 1


def release() -> None:
    """End what `hold` began."""
    if in_main_thread():
        _handler.holds -= 1


class held:
    """A section that Ctrl-C does not divide, within an epoch too; what comes meanwhile is raised at its end."""

    def __enter__(self) -> None:
        self.found = _handler.waiting
        hold()

    def __exit__(self, kind: object, *_: object) -> None:
        release()
        h = _handler
        if kind is None and h.waiting > self.found and h.open and h.holds == 0 and in_main_thread():
            h.open, h.waiting = False, h.waiting - 1
            h.before(signal.SIGINT, None)
