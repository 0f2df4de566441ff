"""The command line: commands, model files and what the terminal shows.

What a study computes belongs in `lab`; this room turns words on a command line into calls and answers into text.
"""

from __future__ import annotations

from dualgap.app import cli

__all__ = [
    "cli",
]
