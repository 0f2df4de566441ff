"""A scratch folder that nothing leaves behind: a small process waits beside it and removes it, should this one be killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["Scratch"]

# Its standard input ends when the process at the other end does, whatever ended that. Workers may still be writing for a moment.
KEEPER = """
import shutil, sys, time
sys.stdin.buffer.read()
for _ in range(50):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    try:
        import os
        os.stat(sys.argv[1])
    except FileNotFoundError:
        break
    time.sleep(0.1)
"""


class Scratch:
    """A temporary folder, as a context manager: it is gone afterwards, also after SIGKILL."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dualgap-"))
        # A session of its own: Ctrl-C in the terminal does not reach it.
        self.keeper: Any = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", KEEPER, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Path:
        return self.folder

    def __exit__(self, *_: Any) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.keeper.stdin.close()
        self.keeper.wait()
