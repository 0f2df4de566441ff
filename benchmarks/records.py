"""What the parts of the benchmark leave in benchmarks/outputs/: a CSV file each, which `benchmarks.goals` reads."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

__all__ = ["OUTPUTS", "read_csv", "write_csv"]

OUTPUTS = Path(__file__).parent / "outputs"


def write_csv(name: str, rows: list[dict[str, Any]]) -> None:
    """Write records, all with the same fields, in place of those of an earlier run."""
    OUTPUTS.mkdir(exist_ok=True)
    with (OUTPUTS / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_csv(name: str) -> list[dict[str, str]] | None:
    """Return the records of a part, each field a text; None if the part has not been run."""
    path = OUTPUTS / name
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
