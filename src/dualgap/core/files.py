"""Write files: complete or absent, and an error names the path."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the user's share of it, the limit on a file

__all__ = ["FULL", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file. A reader, also after a crash, sees the old contents or the new, never a part of either."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # of a full disk without a path, or with that of the temporary file
        advice = "; free some space there, or give a path on another disk" if error.errno in FULL else ""
        raise type(error)(f"{path} cannot be written: {error.strerror or error}{advice}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
