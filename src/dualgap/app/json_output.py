"""What commands print with --json: one object on standard output, of plain data; a number that JSON cannot hold is null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.app.terminal import OBEYED, say

__all__ = ["columns_of", "json_text", "print_json"]


def print_json(content: Any) -> None:
    """Print an object on a line of its own."""
    say(json_text(content))


def json_text(content: Any) -> str:
    """Return an object as a line of JSON.

        Examples
        --------
        >>> import numpy as np

    from dualgap.app.terminal import OBEYED, say
        >>> from dualgap.app.json_output import json_text
        >>> json_text({"gap": np.float64("inf"), "rows": np.arange(2)})
        '{"gap": null, "rows": [0, 1]}'
    """
    text = json.dumps(_plain(content), allow_nan=False, ensure_ascii=False)
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # as JSON escapes them, so that the content stays


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
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
