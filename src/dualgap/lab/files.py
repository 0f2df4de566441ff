"""Files that the lab writes: complete or absent, under names that every file system takes."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from pathlib import Path

__all__ = ["file_name", "write_atomically"]


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file. A reader, also after a crash, sees the old contents or the new, never a part of either."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_name(id: str) -> str:
    """Return an id as a file name: special characters are replaced, and a digest keeps two ids apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", id)[:40]
    return plain if plain == id else f"{plain}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
