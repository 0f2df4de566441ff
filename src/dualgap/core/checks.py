"""Checks of arguments: each raises a ValueError that names the argument, its value and what would be right."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_number", "one_of", "whole_number"]


def is_number(value: Any) -> bool:
    """Whether a parameter is one real number; True and False are none."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Check a parameter that takes one of a few names."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {list(choices)}")


def whole_number(name: str, value: Any) -> None:
    """Check a parameter that counts something."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
