"""What `fit` shows: the data, the gap while it falls, then columns, proof, accuracy and features."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dualgap.app.model_file import SavedModel
from dualgap.app.options import ERROR, INTERRUPTED, OK
from dualgap.app.tasks import TASKS
from dualgap.app.terminal import print_table, say, screen, warn
from dualgap.core import counted
from dualgap.data import Preparation, Samples, doubtful_labels
from dualgap.run import SUCCESSES, Progress
from dualgap.store import Store

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

__all__ = ["exit_code", "introduce", "live_gap", "print_preparation", "show_fit"]

QUIET = 10.0  # seconds between lines where there is no terminal to show a live one
BEAT = 50.0  # seconds between lines though nothing has been evaluated
MOST_COLUMNS, MOST_PROOFS = 40, 12  # rows of the tables that are shown


def introduce(samples: Samples | Store) -> None:
    """Print what the data are."""
    if isinstance(samples, Store):
        kind = "a regression" if samples.task == "regression" else f"{len(samples.classes)} classes"
        say(f"{samples.folder}: {samples.shape[0]:,} rows × {samples.shape[1]:,} features, {kind}")
        return
    kind, *more = TASKS[samples.task].described(samples)
    without = f"{samples.without:,} rows without a label in {samples.target!r} are left out"
    say(f"{samples.name}: {samples.shape[0]:,} rows × {samples.shape[1]:,} columns, {kind}")
    for line in [*more, *([without] if samples.without else []), *doubtful_labels(samples.y)]:
        say(line)


def show_fit(made: SavedModel, y: np.ndarray | None, cv: int | None, unit: str) -> None:
    """Print what is known of a fit; a store has no targets y at hand."""
    about, preparation = made.about, made.encoder.preparation
    words = {"converged": "converged", "zero_optimum": "came to an objective of 0, as far as float64 can tell,"}
    ended = words.get(about["status"], f"did not converge ({about['status']})")
    ended += f" after {counted(about['epochs'], unit)} in {about['seconds']:.2f} s, relative gap asked for {about['tol']:g}"
    if y is not None and preparation is not None:
        say()
        print_preparation(preparation)
    say(ended if y is None else f"\n{made.estimator.n_features_in_:,} features; {ended}")
    certificates = sorted(about["certificates"], key=lambda one: -one["relative_gap"])
    if len(certificates) == 1:
        say(f"Proof: {certificates[0]['text']}")
    else:
        say("Proof, class by class")
        for each in certificates[:MOST_PROOFS]:
            say(f"  {each['problem']}: {each['text']}")
        if len(certificates) > MOST_PROOFS:
            say(f"  and {len(certificates) - MOST_PROOFS} more with smaller gaps")
    say()
    TASKS[about["task"]].show(about, y)
    if y is not None and "cross_validation" not in about and cv is None and about["status"] != "interrupted":
        say("Cross-validation is left out, as it would take more than a minute; --cv 5 does it")
    say()
    if about["features"]:
        say("Features that move the score most (coefficient × deviation)")
        rows = ((each["feature"], f"{each['weight']:+.3g}", f"{each['speaks']} {each['class']}") for each in about["features"])
        print_table(("feature", "weight", "speaks"), rows, right=(1,))
    say()


def exit_code(status: str, out: Path) -> int:
    """Return the exit code of a fit, and say on standard error where its model is if it did not converge."""
    if status == "interrupted":
        warn(f"stopped by Ctrl-C; the best model so far is in {out}, with its proof")
        return INTERRUPTED
    if status not in SUCCESSES:
        warn(f"the gap asked for was not reached ({status}); the model and its true gap are in {out}")
        return ERROR
    return OK


def print_preparation(preparation: Preparation) -> None:
    """Print what was done to each column."""
    for line in preparation.doubts():
        say(line)
    found = preparation.table()
    print_table(("column", "kind", "features", "what is done"), found[:MOST_COLUMNS], right=(2,))
    if len(found) > MOST_COLUMNS:
        say(f"… and {len(found) - MOST_COLUMNS} more columns")
    if not preparation.named:
        say("The file has no header: columns are numbered from 0 (--header says otherwise).")


class LiveGap:
    """A callback of a fit that shows epoch and certified gap: one live line in a terminal, else a line now and then.

    `beat` is called every second, so that an epoch of many minutes is seen to go on.
    """

    def __init__(self, screen: Console, status: Status | None, problems: int, store: Store | None) -> None:
        self.screen, self.status, self.problems, self.store = screen, status, problems, store
        self.shown = self.began = time.monotonic()
        self.begin(0)

    def begin(self, epochs: int) -> None:
        """Begin a round of training that follows earlier rounds with this number of epochs."""
        self.problem, self.epoch, self.before, self.text = 1, 0, epochs, "training: compiling or reading"
        self.first: tuple[float, float] | None = None  # when the first gap of a problem was seen, and its size

    def __call__(self, progress: Progress) -> None:
        """Show an evaluation."""
        if progress.epoch <= self.epoch:
            self.problem += 1  # the next class
            self.first = None
        self.epoch = progress.epoch
        which = f"class {min(self.problem, self.problems)} of {self.problems}, " if self.problems > 1 else ""
        found = progress.certificate.relative_gap
        gap = f"relative gap {found:.1e} (asked for {progress.tol:.0e}{self._left(found, progress.tol)})"
        self.text = f"training: {which}epoch {self.before + progress.epoch}, {gap}"
        self._show(QUIET)

    def _left(self, gap: float, tol: float) -> str:
        """Return the seconds that a gap which goes on to fall at the rate so far takes to the tolerance."""
        now = time.monotonic()
        self.first = self.first or (now, gap)
        then, before = self.first
        if not 0.0 < tol < gap < before < math.inf or now - then < 1.0:
            return ""
        return f", in about {(now - then) * math.log(gap / tol) / math.log(before / gap):,.0f} s at this rate"

    def beat(self) -> None:
        """Show how long the fit lasts, and what a store has read."""
        self._show(BEAT)

    def _show(self, quiet: float) -> None:
        read = "" if self.store is None else f", {self.store.bytes_read / 1e9:,.2f} GB read"
        text = f"{self.text}; {time.monotonic() - self.began:,.0f} s{read}"
        if self.status is not None:
            self.status.update(text)
        elif time.monotonic() - self.shown > quiet:
            self.screen.print(text, markup=False)
            self.shown = time.monotonic()


@contextmanager
def live_gap(problems: int, quiet: bool = False, store: Store | None = None) -> Iterator[LiveGap | None]:
    """Yield a callback that shows how a fit goes on standard error; None where nothing is to be shown."""
    if quiet:
        yield None
        return
    shown_on, ended = screen(stderr=True), threading.Event()
    with shown_on.status("training") if shown_on.is_terminal else nullcontext() as status:
        listen = LiveGap(shown_on, status, problems, store)

        def beat() -> None:
            while not ended.wait(1.0):
                listen.beat()

        threading.Thread(target=beat, name="dualgap-progress", daemon=True).start()
        try:
            yield listen
        finally:
            ended.set()
