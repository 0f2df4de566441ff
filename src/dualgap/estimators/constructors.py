"""Parameters of constructors: each is declared and described once, as a field of a dataclass, for all estimators that have it.

`estimator` makes the constructor of a class from its own fields and those of its bases, and completes the docstring: parameters that the
class does not describe itself are described as in the base that declares them.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

__all__ = ["estimator"]

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Return a class with a constructor that sets its fields, as scikit-learn's estimators have it, and a docstring for all of them."""
    made = dataclass(kw_only=True, repr=False, eq=False)(cls)
    if made.__doc__ is not None and not made.__doc__.startswith(f"{made.__name__}("):  # None with python -OO
        made.__doc__ = _completed(made)
    return made


def _completed(cls: Any) -> str:
    """Return the docstring with an entry for each field, in the order: its own entries, then those of the bases."""
    text = inspect.cleandoc(cls.__doc__)
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    assert match is not None, f"{cls.__name__}: its docstring has no section Parameters"
    own = _entries(match[1])
    described = {name for names in own for name in names}
    missing = [each.name for each in fields(cls) if each.init and each.name not in described]  # others are set by `fit`
    for base in cls.__mro__[1:]:
        section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", inspect.cleandoc(base.__doc__ or ""), re.S | re.M)
        for names, entry in _entries(section[1]).items() if section and hasattr(base, "__dataclass_fields__") else ():
            if any(name in missing for name in names):
                own[names] = entry
                missing = [name for name in missing if name not in names]
    assert not missing, f"{cls.__name__}: the parameters {missing} are not described"
    return text[: match.start(1)] + "\n".join(own.values()) + text[match.end(1) :]


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Return the entries of a section of a numpydoc docstring by the names that they describe."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        found[tuple(re.split(r",\s+", entry.split("\n")[0].split(" : ")[0]))] = entry
    return found
