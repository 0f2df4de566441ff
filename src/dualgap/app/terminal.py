"""What the command line prints: the tables of a race, the verdicts of a study, the list of data sets."""

from __future__ import annotations

from typing import Any

from dualgap.data import describe
from dualgap.lab import SIGNS, Results, advice, counts_table, judge, rankings, shown_number, summary_table

__all__ = ["console", "print_advice", "print_claims", "print_counts", "print_datasets", "print_tables"]

FOUND = {"yes": "at hand", "download": "fetched when asked for", "by hand": "fetch by hand"}


def console(stderr: bool = False) -> Any:
    """Return a console: as wide as the terminal, or 120 characters for a file or a pipe."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=120)


def print_tables(results: Results) -> None:
    """Print how each solver ended, problem by problem."""
    from rich.table import Table
    from rich.text import Text

    screen = console()
    for ranking in rankings(results):
        data = summary_table(ranking)
        table = Table(title=Text(data.title, style="bold"), title_justify="left", box=None, header_style="dim", pad_edge=False)
        for j, column in enumerate(data.columns):
            table.add_column(column, justify="left" if j in (0, len(data.columns) - 1) else "right", no_wrap=True)
        for row in data.rows:
            table.add_row(*(Text(shown_number(cell)) for cell in row))
        screen.print(table)
        screen.print()


def print_advice(results: Results) -> None:
    """Print which solver to use on each data set, and where no model is better than always the commoner class."""
    for line in advice(results, rankings(results)):
        console().print(line, markup=False)


def print_claims(results: Results) -> None:
    """Print the verdict on each claim, and why."""
    screen = console()
    for claim in results.study.claims:
        verdict = judge(results, claim)
        screen.print(f"{SIGNS[verdict.verdict]} {verdict.verdict}: {claim.says}", style="bold", markup=False)
        for line in verdict.why.splitlines():
            screen.print(f"  {line}", markup=False)


def print_counts(judged: dict[str, Any]) -> None:
    """Print how many statements of each study came out each way."""
    from rich.table import Table

    data = counts_table(judged)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for j, column in enumerate(data.columns):
        table.add_column(column, justify="right" if j else "left", no_wrap=True)
    for row in data.rows:
        table.add_row(*(str(cell) for cell in row))
    console().print(table)


def print_datasets() -> None:
    """Print a table of the data sets: size, whether at hand, what it is, its licence."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1))
    for name in ("name", "rows", "columns", "", "what it is", "licence"):
        table.add_column(name, justify="right" if name in ("rows", "columns") else "left", overflow="fold")
    for row in describe():
        notes = f"{row['description']}; {row['notes']}" if row["notes"] else row["description"]
        cells = (
            row["name"],
            f"{row['rows']:,}",
            f"{row['columns']:,}",
            "generated" if row["generated"] else FOUND[row["found"]],
            notes,
            row["licence"],
        )
        table.add_row(*(Text(cell) for cell in cells))
    console().print(table)
    console().print(
        "Files are looked for in the folder that DUALGAP_DATA names, then in the cache, then at their source.", style="dim"
    )
