"""Names of the files that the lab writes, which every file system takes."""

from __future__ import annotations

import hashlib
import re

__all__ = ["file_name"]


def file_name(id: str) -> str:
    """Return an id as a file name: special characters are replaced, and a digest keeps two ids apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", id)[:40]
    return plain if plain == id else f"{plain}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
