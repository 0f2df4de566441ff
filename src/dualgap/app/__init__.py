"""The command line: commands, model files and what the terminal shows.

What a study computes belongs in `lab`; this room turns words on a command line into calls and answers into text.
"""

from __future__ import annotations

from dualgap.app import cli
from dualgap.app.model_file import SavedModel, load_model

__all__ = [
    "SavedModel",
    "cli",
    "load_model",
]
