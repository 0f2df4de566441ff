"""All statements of several studies in one table, with counts of how they came out: overview.html, overview.md, overview.csv."""

from __future__ import annotations

from importlib import metadata, resources
from pathlib import Path
from typing import Any

from dualgap.core import write_atomically
from dualgap.lab.claims.verdicts import CALIBRATED, FAILS, HOLDS, NOT_JUDGED, OPEN, SIGNS, Verdict, judge, tally
from dualgap.lab.results import Results
from dualgap.lab.tables import TableData

__all__ = ["counts_table", "in_words", "statements_table", "write_overview"]

MARKS = {HOLDS: "holds", FAILS: "fails", OPEN: "open", CALIBRATED: "calibrated", NOT_JUDGED: "unjudged"}
MEANING = {
    HOLDS: "the numbers of this study bear it out",
    FAILS: "the numbers of this study contradict it",
    OPEN: "the interval over runs reaches across the border, runs are missing, or it depends on a threshold that the text does not give",
    CALIBRATED: "the data were generated so that it comes out; that proves nothing",
    NOT_JUDGED: "no number can decide it; the row says why",
}


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


def in_words(verdicts: list[Verdict]) -> str:
    """Return how many statements came out each way, as a sentence."""
    found = tally(verdicts)
    if not found["statements"]:
        return ""
    words = {
        HOLDS: "hold",
        FAILS: "do not hold",
        OPEN: "cannot be told",
        CALIBRATED: "hold by calibration",
        NOT_JUDGED: "not judged",
    }
    if found[HOLDS] == 1:
        words[HOLDS] = "holds"
    if found[FAILS] == 1:
        words[FAILS] = "does not hold"
    parts = [f"{found[name]} {words[name]}" for name in SIGNS if found[name] and name != NOT_JUDGED]
    rest = f" {found[NOT_JUDGED]} more {'is' if found[NOT_JUDGED] == 1 else 'are'} not judged." if found[NOT_JUDGED] else ""
    return f"Of {found['judged']} statements judged: {', '.join(parts)}.{rest}"


def _row(v: Verdict) -> dict[str, str]:
    return {"id": v.claim.id, "says": v.claim.says, "verdict": v.verdict, "sign": SIGNS[v.verdict], "mark": MARKS[v.verdict]}


def write_overview(results: dict[str, Results], out: Path) -> Path:
    """Write the overview of several studies beside their folders; return the page's path."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    judged = {name: [judge(found, claim) for claim in found.study.claims] for name, found in results.items()}
    table, counts = statements_table(judged), counts_table(judged)
    write_atomically(out / "overview.csv", table.to_csv())
    text = f"# Statements of the texts\n\n{counts.to_markdown()}\n\n{table.to_markdown()}\n"
    write_atomically(out / "overview.md", text)
    loader = PackageLoader("dualgap.lab", "templates")
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("overview.html.j2")
    studies: list[dict[str, Any]] = [
        {
            "name": name,
            "title": found.study.title,
            "text": found.study.text,
            "words": in_words(judged[name]),
            "claims": [_row(v) for v in judged[name]],
        }
        for name, found in results.items()
    ]
    css = resources.files("dualgap.lab").joinpath("templates", "report.css").read_text(encoding="utf-8")
    page = template.render(
        studies=studies,
        counts=counts,
        meaning=[(name, SIGNS[name], MARKS[name], MEANING[name]) for name in SIGNS],
        version=metadata.version("dualgap"),
        css=css,
    )
    write_atomically(out / "overview.html", page)
    return out / "overview.html"
