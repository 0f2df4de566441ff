"""All statements of several studies in one table, with counts of how they came out: overview.html, overview.md, overview.csv."""

from __future__ import annotations

from pathlib import Path

from dualgap.core import write_atomically
from dualgap.lab.claims.verdicts import MARKS, SIGNS, Verdict, tally
from dualgap.lab.report import Report, page_of
from dualgap.lab.tables import TableData

__all__ = ["counts_table", "statements_table", "write_overview"]


def statements_table(judged: dict[str, list[Verdict]]) -> TableData:
    """Return a row a statement: study, what the text says, where, the verdict, why, what was asked, and other thresholds."""
    rows = [
        (study, v.claim.says, v.claim.source, f"{SIGNS[v.verdict]} {v.verdict}", v.why.replace("\n", " "), v.asked, v.readings)
        for study, verdicts in judged.items()
        for v in verdicts
    ]
    heads = ("study", "statement", "in the text", "verdict", "why", "asked", "other thresholds")
    return TableData("statements", "All statements", "", heads, tuple(rows))


def counts_table(judged: dict[str, list[Verdict]]) -> TableData:
    """Return a row a study and one for all: statements, judged, and each verdict."""
    counts = {name: tally(verdicts) for name, verdicts in judged.items()}
    counts["all"] = tally(v for verdicts in judged.values() for v in verdicts)
    heads = ("study", *counts["all"])
    return TableData("counts", "Counts", "", heads, tuple((name, *found.values()) for name, found in counts.items()))


def write_overview(reports: dict[str, Report], out: Path) -> Path:
    """Write the overview of several studies beside their folders; return the page's path."""
    judged = {name: report.verdicts for name, report in reports.items()}
    table, counts = statements_table(judged), counts_table(judged)
    write_atomically(out / "overview.csv", table.to_csv())
    text = f"# Statements of the texts\n\n{counts.to_markdown()}\n\n{table.to_markdown()}\n"
    write_atomically(out / "overview.md", text)
    studies = [(name, report.study, report.tally, report.verdicts) for name, report in reports.items()]
    page = page_of("overview.html.j2", studies=studies, counts=counts, signs=SIGNS, marks=MARKS)
    write_atomically(out / "overview.html", page)
    return out / "overview.html"
