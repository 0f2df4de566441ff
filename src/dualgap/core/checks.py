"""Checks of arguments. Each returns the value, or raises a ValueError that names the argument, its value and what would be right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeGuard

import numpy as np
from scipy import sparse

__all__ = ["count", "is_number", "is_sparse", "is_whole", "number", "number_of_bytes", "one_of", "whole_number"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_IN_WORDS = {"(0, inf)": "a positive number", "[0, inf)": "a finite number that is not negative"}


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is one real number of Python or NumPy; True and False are not."""
    return isinstance(value, (float, np.floating)) or is_whole(value)


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is one of SciPy's; a plain bool, since issparse's TypeIs makes type checkers forget the matrix's methods."""
    return bool(sparse.issparse(matrix))


def number(name: str, value: object, within: str = "(0, inf)", wanted: str | None = None) -> float:
    """Check a number in an interval, such as "[0, 1)"; `wanted` says in words what would be right."""
    low, high = _ends(within)
    if (
        is_number(value)
        and (value > low if within[0] == "(" else value >= low)
        and (value < high if within[-1] == ")" else value <= high)
    ):
        return float(value)
    raise ValueError(f"{name}={value!r} must be {wanted or _IN_WORDS.get(within, f'a number in {within}')}")


@cache
def _ends(within: str) -> tuple[float, float]:
    low, high = within[1:-1].split(",")
    return float(low), float(high)


def whole_number(name: str, value: object, least: int = 1, wanted: str | None = None) -> int:
    """Check an integer of at least `least`; `wanted` says in words what would be right."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name}={value!r} must be {wanted or f'a whole number of at least {least}'}")
    return int(value)


def count(name: str, value: object, least: int = 1, wanted: str | None = None) -> int:
    """Check a whole number that may be written as a float, such as 1e4."""
    if is_number(value) and np.isfinite(value) and value == int(value):
        value = int(value)
    return whole_number(name, value, least, wanted)


def number_of_bytes(name: str, value: object) -> int:
    """Check a number of bytes: a number, or words such as "500 MB" and "2GB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kKMGT]?B?)\s*", value)
        if match and match[2].upper() in _UNITS:
            return int(float(match[1]) * _UNITS[match[2].upper()])
    return int(number(name, value, wanted="a positive number of bytes, or words such as '500 MB' or '2 GB'"))


def one_of(name: str, value: object, choices: Sequence[str | None]) -> Any:
    """Check a value that is one of a few names (or None, where that is among the choices)."""
    if not isinstance(value, str | None) or value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {list(choices)}")
    return value
