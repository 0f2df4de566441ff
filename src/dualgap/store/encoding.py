"""What turned rows into features, kept beside the parts of a store as preparation.json, so that a model can read other data by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dualgap.data import Encoder
from dualgap.store.manifest import StoreError, save_json

__all__ = ["PREPARATION", "kept_encoder", "write_encoder"]

PREPARATION = "preparation.json"
VERSION = 1


def write_encoder(folder: Path, source: Any) -> None:
    """Keep what was learned, names, categories and scales, beside the parts; nothing for rows that are taken as they are."""
    encoder = source.encoder
    if encoder.preparation is None and encoder.scaler is None:
        return
    labels = {"labels": source.labels.to_dict()} if hasattr(source, "labels") else {}
    save_json(folder / PREPARATION, {"version": VERSION, **encoder.to_dict(), **labels})


def kept_encoder(folder: Path) -> Encoder:
    """Return what turned rows into the features of a store; an empty one where rows were taken as they are."""
    path = folder / PREPARATION
    if not path.exists():
        return Encoder()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}, this dualgap reads version {VERSION}")
        return Encoder.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({' '.join(str(error).split())[:200]}): convert the data again") from None
