"""How answers reach the terminal: every word that comes from data has its control characters escaped here, and nowhere else.

With --json a command prints one object of plain data; a number that JSON cannot hold is null.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["columns_of", "json_text", "print_json", "print_table", "say", "screen", "shown", "warn"]

# What a terminal obeys instead of showing it: control characters but tab and line feed, marks and overrides of the direction of writing,
# separators of lines, half a pair of UTF-16.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def shown(text: str) -> str:
    r"""Return text with each character that a terminal would obey escaped, such as \x1b.

    Examples
    --------
    >>> from dualgap.app.terminal import shown
    >>> shown("red\x1b[2J, \u202eder")
    'red\\x1b[2J, \\u202eder'
    """
    return OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: Any = "", error: bool = False) -> None:
    """Print a line on standard output, or on standard error."""
    print(shown(str(text)), file=sys.stderr if error else sys.stdout)


def warn(text: str) -> None:
    """Print a line of dualgap's own on standard error."""
    say(f"dualgap: {text}", error=True)


def screen(stderr: bool = False) -> Console:
    """Return a console whose text is shown as `shown` has it; the control codes that are rich's own remain."""
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class Screen(Console):
        def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for piece in super().render(renderable, options):
                yield piece if piece.control else Segment(shown(piece.text), piece.style)

    made = Screen(stderr=stderr, highlight=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = 120  # of a file or a pipe
    return made


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Container[int], title: str = "", fold: bool = True
) -> None:
    """Print rows below the names of their columns; `right` has the places of the columns that are set to the right."""
    from rich.table import Table
    from rich.text import Text

    heading = Text(title, style="bold") if title else None
    table = Table(title=heading, title_justify="left", box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for j, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if j in right else "left", overflow="fold", no_wrap=not fold)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    screen().print(table)


# ------------------------------------------------------------------------------------------------------------------------- JSON


def print_json(content: Any) -> None:
    """Print an object on a line of its own."""
    say(json_text(content))


def json_text(content: Any) -> str:
    """Return an object as a line of JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.app.terminal import json_text
    >>> json_text({"gap": np.float64("inf"), "rows": np.arange(2)})
    '{"gap": null, "rows": [0, 1]}'
    """
    text = json.dumps(_plain(content), allow_nan=False, ensure_ascii=False)
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # as JSON escapes them, so that the content stays


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array, or a number of NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    return str(value) if isinstance(value, Path) else value


def columns_of(preparation: Any) -> list[dict[str, Any]]:
    """Return what was done to each column; nothing for data that have none."""
    if preparation is None:
        return []
    return [dict(zip(("column", "kind", "features", "done"), row, strict=True)) for row in preparation.table()]
