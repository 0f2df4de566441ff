"""What commands share: exit codes and options of the same meaning."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["ERROR", "INCOMPLETE", "INTERRUPTED", "OK", "USAGE", "MaxSeconds", "Seed", "Standardise", "Target"]

OK = 0
ERROR = 1  # an error, a certificate that misses --tol, or a proof that is refused
USAGE = 2  # a command that was not understood
INCOMPLETE = 3  # done, but some runs failed or some data were missing
INTERRUPTED = 130  # stopped by Ctrl-C; the same command goes on from there

Seed = Annotated[int, typer.Option(min=0, help="Seed that every run's own seed is derived from.")]
MaxSeconds = Annotated[float | None, typer.Option(min=0.001, help="Most seconds that one run may take.")]
Target = Annotated[
    str, typer.Option(help="Label column of a table. [default: one called target, label, class or y]", show_default=False)
]
Standardise = Annotated[
    bool | None,
    typer.Option("--standardise/--no-standardise", help="[default: dense data yes, sparse data no]", show_default=False),
]
