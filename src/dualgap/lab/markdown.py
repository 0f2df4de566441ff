"""The report as Markdown, for a terminal, a pull request or a diff."""

from __future__ import annotations

from dualgap.lab.files import file_name
from dualgap.lab.overview import in_words
from dualgap.lab.report_model import Report
from dualgap.lab.tables import escaped, shown_number, summary_table
from dualgap.lab.typeset import apart

__all__ = ["markdown_report"]


def markdown_report(report: Report, made: str) -> str:
    """Return the whole report as Markdown text."""
    study = report.results.study
    lines = [
        f"# {escaped(study.title)}",
        "",
        written(study.about),
        "",
        f"Made on {made}. The page with interactive curves: report.html",
        "",
    ]
    for note in study.notes:
        lines += [written(note), ""]
    if report.missing:
        lines += ["## Data that were not found", ""]
        lines += [f"- {escaped(report.results.data_name(id))}: {escaped(why)}" for id, why in report.missing.items()]
        lines.append("")
    lines += _statements(report)
    lines += ["## Data", ""]
    for about in report.results.store.data().values():
        lines.append(f"- {escaped(about['name'])}: {about['rows']:,} × {about['features']:,}, {about['test_rows']:,} test rows")
        lines += [f"  - {escaped(note)}" for note in about["notes"]]
        lines += [f"  - set by the text: {escaped(about['calibrated'])}"] if about.get("calibrated") else []
    lines += ["", "## How the runs ended (medians)", ""]
    for ranking in report.rankings:
        lines += [f"### {escaped(ranking.title)}", "", summary_table(ranking).to_markdown(), ""]
    lines += ["## CPU seconds to a certified relative gap", ""]
    for table in report.ranking_tables:
        lines += [f"### {escaped(table.title)}", "", table.to_markdown(), ""]
    if report.tables:
        lines += ["## Tables", ""]
        for table in report.tables:
            lines += [f"### {escaped(table.title)}", "", table.to_markdown(), ""] + (
                [written(table.caption), ""] if table.caption else []
            )
    if report.figures:
        lines += ["## Figures", ""]
        for figure in report.figures:
            lines += [
                f"### {escaped(figure.title)}",
                "",
                f"![{escaped(figure.title)}](figures/{file_name(figure.id)}.png)",
                "",
                written(figure.caption),
                "",
            ]
    return "\n".join(lines)


def written(text: str) -> str:
    """Return text as Markdown shows it literally, but for its formulas, which stay TeX between dollar signs."""
    return apart(text, escaped, lambda tex: f"${tex}$")


def _statements(report: Report) -> list[str]:
    """Return the lines of the statements with their verdicts, and of what was corrected in the text."""
    study = report.results.study
    lines: list[str] = []
    if report.verdicts:
        lines += ["## Statements", "", in_words(report.verdicts), ""]
        for verdict in report.verdicts:
            numbers = "; ".join(f"{escaped(name)}: {escaped(shown_number(value))}" for name, value in verdict.numbers.items())
            lines.append(f"- **{verdict.verdict}**: {escaped(verdict.claim.says)}")
            lines += [f"  - {escaped(line)}" for line in verdict.why.splitlines()]
            lines += [f"  - asked: {escaped(verdict.asked)}"] if verdict.asked else []
            lines += [f"  - {escaped(verdict.readings[0].lower() + verdict.readings[1:])}"] if verdict.readings else []
            lines += [f"  - set by the text: {escaped(verdict.claim.calibrated)}"] if verdict.claim.calibrated else []
            lines += [f"  - numbers: {numbers}"] if numbers else []
        lines.append("")
    if study.corrections:
        lines += ["## What was corrected", ""]
        for correction in study.corrections:
            lines += [f"- {written(correction.where)}", f"  - as printed: {written(correction.printed)}"]
            lines += [f"  - right: {written(correction.right)}", f"  - {written(correction.cost)}"]
        lines.append("")
    return lines
