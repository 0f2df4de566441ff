"""Reading typed dataclasses out of TOML tables, with errors that name the file, the key and what would be right.

Knows nothing about studies: study.py says which tables there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from dualgap.core import is_number, is_whole, suggest

__all__ = ["Kinds", "StudyError", "Where", "check_kind", "choice", "in_range", "read_table"]

Spec = TypeVar("Spec")
Maker = TypeVar("Maker", bound=Callable[..., Any])


class StudyError(ValueError):
    """A study that cannot be run as it is written; the message names the file, the key and what would be right."""


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


def read_table(cls: type[Spec], table: Any, where: Where) -> Spec:
    """Return an object of a dataclass from a table; the type of a field says how its value is read."""
    check_kind(table, dict, where)
    types = get_type_hints(cls, include_extras=True)
    for key in table:
        if key not in types:
            raise where.error(f"unknown key {key!r}; {suggest(key, types)}")
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name not in table and f.default is MISSING and f.default_factory is MISSING:
            raise where.error(f"the key {f.name!r} is missing")
    return cls(**{name: _read(types[name], table[name], where.key(name)) for name in types if name in table})


def _read(wanted: Any, value: Any, where: Where) -> Any:
    """Return a value as its field's type asks: by the reader it is annotated with, a table, a list, or one value of a kind."""
    origin = get_origin(wanted) or wanted
    if origin is Annotated:
        return get_args(wanted)[1](value, where)
    if origin is UnionType:  # "… | None": a key that may be absent
        return _read(get_args(wanted)[0], value, where)
    if isinstance(origin, type) and is_dataclass(origin):
        return read_table(origin, value, where)
    if origin is not tuple:
        return check_kind(value, origin, where)
    check_kind(value, list, where)
    entries: tuple[Any, ...] = tuple(_read(get_args(wanted)[0], entry, where.key(i)) for i, entry in enumerate(value))
    ids = [entry.id for entry in entries if hasattr(entry, "id")]
    for i, id in enumerate(ids):
        if id in ids[:i]:
            raise where.key(i).key("id").error(f"{id!r} is taken already; the ids of a list must differ")
    return entries


class Kinds(dict[str, tuple[Any, frozenset[str]]]):
    """The kinds of figure (or of table) that a study can ask for: name -> the function that makes it, the options it takes."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what  # "figure" or "table", for errors

    def register(self, name: str, *options: str) -> Callable[[Maker], Maker]:
        """Make a kind known, with the options it takes: a decorator of its maker."""

        def put(maker: Maker) -> Maker:
            self[name] = (maker, frozenset(options))
            return maker

        return put

    def maker(self, entry: Any, study: str) -> Any:
        """Return the maker of an entry's kind; raise StudyError for an unknown kind or option."""
        where = f"{study}: {self.what} {entry.id!r}"
        if entry.kind not in self:
            raise StudyError(f"{where}: there is no kind {entry.kind!r}; {suggest(entry.kind, self)}")
        maker, known = self[entry.kind]
        for option in entry.options:
            if option not in known:
                raise StudyError(f"{where}: a {entry.kind} {self.what} has no option {option!r}; {suggest(option, known)}")
        return maker


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
