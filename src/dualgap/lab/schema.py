"""Reading typed dataclasses out of TOML tables, with errors that name the file, the key and what would be right.

Knows nothing about studies: study.py says which tables there are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, TypeVar

from dualgap.core import is_number, is_whole

__all__ = ["StudyError", "Where", "read_list", "read_table"]

Spec = TypeVar("Spec")


class StudyError(ValueError):
    """A study that cannot be run as it is written; the message names the file, the key and what would be right.

    Examples
    --------
    >>> from dualgap.lab.study import parse_study
    >>> parse_study({"name": "mine", "title": "Mine", "rnus": 3}, file="mine.toml")
    Traceback (most recent call last):
    ...
    dualgap.lab.schema.StudyError: mine.toml: unknown key 'rnus'; did you mean 'runs'?
    """


@dataclass(frozen=True)
class Where:
    """A place in a study's file, for error messages: the file and the path of keys to here."""

    file: str
    path: str = ""

    def key(self, name: str | int) -> Where:
        """Return the place of a key, or of an entry of a list, below this one."""
        if isinstance(name, int):
            return Where(self.file, f"{self.path}[{name}]")
        return Where(self.file, f"{self.path}.{name}" if self.path else str(name))

    def error(self, message: str) -> StudyError:
        """Return an error about this place."""
        return StudyError(f"{self.file}: {self.path}: {message}" if self.path else f"{self.file}: {message}")


KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    str: ("a string", lambda v: isinstance(v, str)),
    bool: ("true or false", lambda v: isinstance(v, bool)),
    int: ("a whole number", is_whole),
    float: ("a number", is_number),
    dict: ("a table", lambda v: isinstance(v, dict)),
    list: ("a list", lambda v: isinstance(v, list)),
}


def check_kind(value: Any, kind: type, where: Where) -> Any:
    """`value` if it is of the kind, an error that says what would be right otherwise."""
    wanted, fits = KINDS[kind]
    if not fits(value):
        raise where.error(f"{value!r} is not {wanted}")
    return float(value) if kind is float else value


def read_list(value: Any, kind: type, where: Where) -> tuple[Any, ...]:
    """Return a list whose entries are all of one kind."""
    check_kind(value, list, where)
    return tuple(check_kind(entry, kind, where.key(i)) for i, entry in enumerate(value))


def read_table(cls: type[Spec], table: Any, where: Where, readers: dict[str, Callable[[Any, Where], Any]]) -> Spec:
    """Return an object of a dataclass from a table; `readers` turns each of its values into what the field holds."""
    check_kind(table, dict, where)
    known = {f.name: f for f in fields(cls) if f.init and f.name in readers}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise where.error(f"unknown key {key!r}; {suggest(key, known)}")
    for name, f in known.items():
        if name not in table and _required(f):
            raise where.error(f"the key {name!r} is missing")
    values = {name: readers[name](table[name], where.key(name)) for name in known if name in table}
    return cls(**values)


def suggest(word: str, known: Any) -> str:
    """ "did you mean …?" where a known word is close, else the list of them all."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def kind_of(what: str, entry: Any, study: str, registry: dict[str, tuple[Any, frozenset[str]]]) -> Any:
    """Return the maker of a figure's or a table's kind; raise StudyError for an unknown kind or option."""
    where = f"{study}: {what} {entry.id!r}"
    if entry.kind not in registry:
        raise StudyError(f"{where}: there is no kind {entry.kind!r}; {suggest(entry.kind, registry)}")
    maker, known = registry[entry.kind]
    for option in entry.options:
        if option not in known:
            raise StudyError(f"{where}: a {entry.kind} {what} has no option {option!r}; {suggest(option, known)}")
    return maker


def _required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def of(kind: type) -> Callable[[Any, Where], Any]:
    """Return a reader of one value of a kind."""
    return lambda value, where: check_kind(value, kind, where)


def list_of(kind: type) -> Callable[[Any, Where], tuple[Any, ...]]:
    """Return a reader of a list of a kind."""
    return lambda value, where: read_list(value, kind, where)


def choice(*choices: Any) -> Callable[[Any, Where], Any]:
    """Return a reader of one of a few values."""

    def read(value: Any, where: Where) -> Any:
        if not any(value == c and type(value) is type(c) for c in choices):
            raise where.error(f"{value!r} is unknown; choose one of {', '.join(map(repr, choices))}")
        return value

    return read


def in_range(low: float, high: float, wanted: str, kind: type = float) -> Callable[[Any, Where], Any]:
    """Return a reader of a number within bounds; `wanted` says in words what would be right."""

    def read(value: Any, where: Where) -> Any:
        number = check_kind(value, kind, where)
        if not low <= number <= high:
            raise where.error(f"{value!r} is not {wanted}")
        return number

    return read
