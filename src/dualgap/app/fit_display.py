"""What `fit` shows: the gap while it falls, then columns, accuracy, confusion, features and proof."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.app.options import ERROR, INTERRUPTED, OK
from dualgap.app.terminal import Screen, print_table, say, warn
from dualgap.core import counted
from dualgap.run import SUCCESSES

__all__ = ["SAID", "exit_code", "how_it_ended", "live_gap", "print_confusion", "print_features", "print_preparation", "print_proof"]

QUIET = 10.0  # seconds between lines where there is no terminal to show a live one
MOST_COLUMNS, MOST_CLASSES = 40, 12  # rows of the tables that are shown


SAID: list[str] = []  # words on an interrupted fit that were shown already


def how_it_ended(about: dict[str, Any], unit: str) -> str:
    """Return how a fit ended, in words."""
    words = {"converged": "converged", "zero_optimum": "came to an objective of 0, as far as float64 can tell,"}
    ended = words.get(about["status"], f"did not converge ({about['status']})")
    return f"{ended} after {counted(about['epochs'], unit)} in {about['seconds']:.2f} s, relative gap asked for {about['tol']:g}"


def exit_code(status: str, out: Path) -> int:
    """Return the exit code of a fit, and say on standard error where its model is if it did not converge."""
    if status == "interrupted":
        SAID.append(status)
        warn(f"stopped by Ctrl-C; the best model so far is in {out}, with its proof")
        return INTERRUPTED
    if status not in SUCCESSES:
        warn(f"the gap asked for was not reached ({status}); the model and its true gap are in {out}")
        return ERROR
    return OK


class LiveGap:
    """A callback of a fit that shows epoch and certified gap: one live line in a terminal, else a line now and then."""

    def __init__(self, screen: Any, status: Any, problems: int) -> None:
        self.screen, self.status, self.problems = screen, status, problems
        self.shown = time.monotonic()
        self.begin(0)

    def begin(self, epochs: int) -> None:
        """Begin a round of training that follows earlier rounds with this number of epochs."""
        self.problem, self.epoch, self.before = 1, 0, epochs

    def __call__(self, progress: Any) -> None:
        """Show an evaluation."""
        if progress.epoch <= self.epoch:
            self.problem += 1  # the next class
        self.epoch = progress.epoch
        which = f"class {min(self.problem, self.problems)} of {self.problems}, " if self.problems > 1 else ""
        gap = f"relative gap {progress.certificate.relative_gap:.1e} (asked for {progress.tol:.0e})"
        text = f"training: {which}epoch {self.before + progress.epoch}, {gap}"
        if self.status is not None:
            self.status.update(text)
        elif time.monotonic() - self.shown > QUIET:
            self.screen.print(text, markup=False)
            self.shown = time.monotonic()


@contextmanager
def live_gap(problems: int, quiet: bool = False) -> Iterator[LiveGap | None]:
    """Yield a callback that shows how a fit goes on standard error; None where nothing is to be shown."""
    if quiet:
        yield None
        return
    screen = Screen(stderr=True)
    if not screen.is_terminal:
        yield LiveGap(screen, None, problems)
        return
    with screen.status("training: compiling or reading") as status:
        yield LiveGap(screen, status, problems)


def print_preparation(preparation: Any) -> None:
    """Print what was done to each column."""
    for line in preparation.doubts():
        say(line)
    found = preparation.table()
    print_table(("column", "kind", "features", "what is done"), found[:MOST_COLUMNS], right=(2,))
    if len(found) > MOST_COLUMNS:
        say(f"… and {len(found) - MOST_COLUMNS} more columns")
    if not preparation.named:
        say("The file has no header: columns are numbered from 0 (--header says otherwise).")


def print_confusion(classes: Sequence[str], matrix: np.ndarray, title: str) -> None:
    """Print how often each class was taken for each."""
    if len(classes) > MOST_CLASSES:
        say(f"{title}: not shown for {len(classes)} classes; --json has it")
        return
    say(title)
    counts = ((name, *(f"{count:,}" for count in row)) for name, row in zip(classes, matrix.tolist(), strict=True))
    print_table(("truth \\ said", *classes), counts, right=range(1, len(classes) + 1))


def print_features(found: Sequence[dict[str, Any]]) -> None:
    """Print the features that move the score most."""
    if not found:
        return
    say("Features that move the score most (coefficient × deviation)")
    rows = ((each["feature"], f"{each['weight']:+.3g}", f"{each['speaks']} {each['class']}") for each in found)
    print_table(("feature", "weight", "speaks"), rows, right=(1,))


def print_proof(certificates: Sequence[dict[str, Any]]) -> None:
    """Print what the certificates prove, class by class."""
    if len(certificates) == 1:
        say(f"Proof: {certificates[0]['text']}")
        return
    say("Proof, class by class")
    for each in sorted(certificates, key=lambda one: -one["relative_gap"])[:MOST_CLASSES]:
        say(f"  {each['problem']}: {each['text']}")
    if len(certificates) > MOST_CLASSES:
        say(f"  and {len(certificates) - MOST_CLASSES} more with smaller gaps")
