"""Phrases that all rooms say alike: what to install where an optional package is missing, and a count of things."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from importlib import metadata

__all__ = ["counted", "missing_packages", "needs", "suggest"]


def counted(number: int, thing: str) -> str:
    """Return a number of things, such as "1 epoch" or "2 epochs"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def needs(what: str, *packages: str) -> str:
    """Return a sentence that says what needs some packages, and the command that installs them.

    The command names the packages themselves, not an extra of dualgap: so it works beside a checkout and beside a wheel.

    Examples
    --------
    >>> from dualgap.core import needs
    >>> needs("reading tables", "polars")
    'reading tables needs polars: pip install polars'
    """
    return f"{what} needs {' and '.join(packages)}: pip install {' '.join(packages)}"


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra of dualgap that are not installed; none where dualgap itself runs without being installed."""
    try:
        required = metadata.requires("dualgap") or []
    except metadata.PackageNotFoundError:
        return []
    wanted = [line.replace('"', "'").partition(";") for line in required]
    names = [re.split("[^A-Za-z0-9_.-]", line)[0] for line, _, marker in wanted if f"extra == '{extra}'" in marker]
    return [name for name in names if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def suggest(word: str, known: Iterable[str]) -> str:
    """ "did you mean …?" where a known word is close, else the list of them all."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(words)}"
