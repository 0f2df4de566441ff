"""The live display of a study: a line for each run that ended, and below them what is running and how long it may still take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dualgap.core import counted
from dualgap.lab.run_one import Outcome

__all__ = ["Display", "Live"]


class Display:
    """What the runner tells a display; this one shows nothing.

    Order of calls: say and warn at any time, start once, then ended for each run.
    """

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def say(self, text: str) -> None:
        """Show a remark."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def start(self, total: int, found: int, running: Path) -> None:
        """Start: `total` runs, `found` of them done before; the folder `running` has a note for each run under way."""

    def ended(self, outcome: Outcome) -> None:
        """Show that a run ended."""


class Live(Display):
    """A progress display in the terminal; where there is none, a line a run.

    Parameters
    ----------
    console : rich Console, optional
        Of standard error by default.
    lines : bool
        Whether each run that ended gets a line; failures always do.
    """

    def __init__(self, console: Any = None, lines: bool = True) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self.lines = lines
        columns = (BarColumn(bar_width=32), MofNCompleteColumn(), TextColumn("runs ·"), TimeElapsedColumn())
        self.progress = Progress(TextColumn("racing"), *columns, TextColumn("· left"), TimeRemainingColumn(), console=self.console)
        self.task: Any = None
        self.running: Path | None = None
        self.live = RichLive(self, console=self.console, refresh_per_second=5, transient=True)

    def __enter__(self) -> Live:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def __rich__(self) -> Any:
        """The bar and, below it, the runs under way; asked for at each refresh."""
        from rich.console import Group
        from rich.text import Text

        if self.task is None:
            return Text("")
        notes = (Text(f"  ▸ {note}", style="dim", no_wrap=True, overflow="ellipsis") for note in self._notes())
        return Group(self.progress, *notes)

    def _notes(self) -> list[str]:
        notes = []
        for path in sorted(self.running.glob("*"))[:8] if self.running else []:
            try:
                notes.append(path.read_text(encoding="utf-8").partition("\n")[2])
            except OSError:
                continue  # it ended between the listing and the reading
        return notes

    def say(self, text: str) -> None:
        self.console.print(text, style="dim", markup=False)

    def warn(self, text: str) -> None:
        self.console.print(f"! {text}", style="yellow", markup=False)

    def start(self, total: int, found: int, running: Path) -> None:
        if found:
            self.say(f"{found} of {total} runs were done before")
        self.task = self.progress.add_task("racing", total=total, completed=found)
        self.running = running

    def ended(self, outcome: Outcome) -> None:
        self.progress.advance(self.task)
        if outcome.status in ("failed", "unsupported"):
            self.warn(f"{outcome.what}: {outcome.status}: {outcome.error}")
        elif self.lines:
            mark = {"converged": "✓", "diverged": "✗"}.get(outcome.status, "·")
            ended = "" if outcome.status == "converged" else f" ({outcome.status.replace('_', ' ')})"
            numbers = f"{counted(outcome.epochs, 'epoch')}, {outcome.cpu_seconds:.3g} s, relative gap {outcome.relative_gap:.1e}"
            self.console.print(f"{mark} {outcome.what}: {numbers}{ended}", markup=False)
