"""The command line: commands, model files and what the terminal shows.

What a study computes belongs in `lab`; this room turns words on a command line into calls and answers into text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualgap.app.model_file import SavedModel, load_model

__all__ = ["SavedModel", "load_model"]


def __getattr__(name: str) -> Any:
    """Import model files when they are asked for: the command line answers --help without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dualgap.app import model_file

    return getattr(model_file, name)
