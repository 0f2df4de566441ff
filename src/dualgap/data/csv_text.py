"""Rows as CSV text that a spreadsheet computes nothing from."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["csv_text"]

# How text begins that Excel, LibreOffice Calc or Google Sheets computes when it opens a CSV file; also after apostrophes of its own, so
# that dropping one apostrophe always returns the text.
FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV text; text that a spreadsheet would take for a formula has an apostrophe before it.

    Examples
    --------
    >>> from dualgap.data import csv_text
    >>> csv_text([("label", "score"), ("=1+1", -0.5)])
    "label,score\\n'=1+1,-0.5\\n"
    """
    return "".join(map(_line, rows))


def _line(row: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(map(_plain, row))  # it quotes characters of its line end alone
    return out.getvalue().removesuffix("\r\n") + "\n"


def _plain(cell: Any) -> Any:
    if isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return "'" + cell
    return "" if cell is None else cell
