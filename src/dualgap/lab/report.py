"""The report of a study: one HTML file that needs nothing else, report.md, CSV tables, and the figures as PNG and PDF.

Every name that comes from data or from a study is escaped by the template; what scripts read is packed, in letters and digits alone.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from dualgap.core import write_atomically
from dualgap.lab.claims.verdicts import SIGNS, Verdict, judge
from dualgap.lab.columns import shown_number
from dualgap.lab.draw import save
from dualgap.lab.figures import FigureData, make_figure
from dualgap.lab.interactive import curve_data, packed_json, plotly_figure, plotly_script, png_address
from dualgap.lab.overview import MARKS, MEANING, in_words
from dualgap.lab.palette import Style
from dualgap.lab.plan import LINEUP, PAPERS
from dualgap.lab.ranking import Ranking, advice, rankings
from dualgap.lab.results import Results, file_name
from dualgap.lab.tables import TableData, escaped, make_table, ranking_table, summary_table
from dualgap.lab.typeset import apart, typeset

__all__ = ["Report", "make_report", "markdown_report", "write_report"]


@dataclass
class Report:
    """What a report shows, before it is put on a page."""

    results: Results
    rankings: list[Ranking]
    figures: list[FigureData]
    tables: list[TableData]
    verdicts: list[Verdict]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def ranking_tables(self) -> list[TableData]:
        """The rankings as tables."""
        return [ranking_table(ranking, place) for place, ranking in enumerate(self.rankings)]


def make_report(results: Results, missing: dict[str, str] | None = None) -> Report:
    """Figures, tables, rankings and verdicts of a study, computed from its results."""
    study = results.study
    figures = [figure for spec in study.figures if (figure := make_figure(results, spec)) is not None]
    tables = [table for spec in study.tables if (table := make_table(results, spec)) is not None]
    verdicts = [judge(results, claim) for claim in study.claims]
    return Report(results, rankings(results), figures, tables, verdicts, dict(missing or {}))


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


def write_report(results: Results, out: str | Path, missing: dict[str, str] | None = None) -> Path:
    """Write report.html, report.md, tables/*.csv and figures/*.png and *.pdf to a folder; returns the page's path."""
    out = Path(out)
    report = make_report(results, missing)
    for table in [*report.tables, *report.ranking_tables]:
        write_atomically(out / "tables" / f"{file_name(table.id)}.csv", table.to_csv())
    runs = results.table()
    if len(runs):
        every = TableData("runs", "", "", tuple(runs.columns), tuple(runs.rows()))
        write_atomically(out / "tables" / "runs.csv", every.to_csv())
    for figure in report.figures:
        save(figure, out / "figures")
    write_atomically(out / "report.md", markdown_report(report, made_on()))
    page = out / "report.html"
    write_atomically(page, render(report))
    return page


def made_on() -> str:
    """Today's date as the report shows it."""
    return datetime.datetime.now().strftime("%Y-%m-%d %H:%M")


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("dualgap.lab", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["typeset"] = typeset
    return environment.get_template("report.html.j2")


def _asset(name: str) -> str:
    return resources.files("dualgap.lab").joinpath("templates", name).read_text(encoding="utf-8")


def render(report: Report) -> str:
    """Return the page."""
    results = report.results
    figures: list[dict[str, Any]] = []
    specs: list[dict[str, Any] | None] = []
    for figure in report.figures:
        address = png_address(figure) if figure.is_pictures else ""
        still = "" if figure.is_pictures else png_address(figure, dpi=72)
        figures.append({"id": figure.id, "title": figure.title, "caption": figure.caption, "address": address, "still": still})
        specs.append(None if figure.is_pictures else plotly_figure(figure))
    failures, watched = results.failures, watched_runs(results)
    sections: list[tuple[str, str, Any]] = [
        ("claims", "Statements", report.verdicts),
        ("corrections", "Corrections", results.study.corrections),
    ]
    sections += [("certificate", "The gap", True), ("run", "What was run", True), ("watch", "Watch it happen", watched)]
    sections += [("ranking", "Ranking", report.rankings), ("curves", "Curves", report.rankings), ("figures", "Figures", figures)]
    sections += [("tables", "Tables", report.tables), ("failures", "Failures", failures), ("environment", "Environment", True)]
    return _template().render(
        study=results.study,
        version=metadata.version("dualgap"),
        made=made_on(),
        command=results.store.command(),
        facts=_facts(report),
        advice=advice(results, report.rankings),
        sections=[(id, title) for id, title, there in sections if there],
        missing=[(results.data_name(id), why) for id, why in report.missing.items()],
        claims=[_claim(verdict, report) for verdict in report.verdicts],
        tally=in_words(report.verdicts),
        meaning=[(name, SIGNS[name], MARKS[name], MEANING[name]) for name in SIGNS],
        datasets=_datasets(results),
        solvers=_solvers(results),
        raced=_shown(_raced(results), results),
        rankings=[_shown(table, results) for table in report.ranking_tables],
        figures=figures,
        tables=[{"id": table.id, **_shown(table, results)} for table in report.tables],
        failures=_shown(_failures(results), results) if failures else None,
        machines=[_machine(machine) for machine in results.store.environments().values()],
        packed={
            "curve-data": packed_json(curve_data(results)),
            "figure-data": packed_json(specs),
            "watch-data": packed_json(watched),
            "plotly": plotly_script(),
        },
        css=_asset("report.css"),
        js=_asset("unpack.js") + _asset("report.js") + _asset("watch.js"),
    )


def watched_runs(results: Results) -> list[dict[str, Any]]:
    """Return the models along the way of the runs that kept them, for the page's script."""
    found = []
    for group in results.groups:
        for row in group.rows:
            if (seen := results.store.watch(row["key"])) is not None:
                settings = ", ".join(f"{name} = {value}" for name, value in group.settings.items())
                title = " · ".join(filter(None, [results.data_name(group.data), results.label(group.solver), settings]))
                found.append({"title": title, **seen})
    return found[:MOST_WATCHED]


MOST_WATCHED = 60  # runs: a page stays below a few megabytes


def _solvers(results: Results) -> list[dict[str, str]]:
    """Return each solver with a result: its label, its line's colour, what it is, and the paper that it is from."""
    shown = []
    ran = {group.solver.id for group in results.groups}
    for spec in results.study.solvers:
        if spec.id in ran:
            cls = LINEUP.get(spec.solver)
            about = spec.about or (cls.summary if cls is not None else "")
            params = ", ".join(f"{name} = {value}" for name, value in spec.params.items())
            colour = _stroke(results.styles[spec.id])
            paper, address = PAPERS.get(spec.solver, ("", ""))
            said = {"about": about, "params": params, "paper": paper, "address": address}
            shown.append({"id": spec.id, "label": results.label(spec), "swatch": colour, **said})
    return shown


def _facts(report: Report) -> list[dict[str, str]]:
    rows = report.results.rows.values()
    finished = [group for group in report.results.groups if group.rows]
    seconds = sum(row.get("cpu_seconds") or 0.0 for row in rows)
    facts = [("runs", f"{len(rows) - len(report.results.failures):,}"), ("solvers", str(len({g.solver.id for g in finished})))]
    facts += [("data sets", str(len({g.data for g in finished}))), ("CPU seconds of updates", shown_number(round(seconds, 1)))]
    return [{"name": name, "value": value} for name, value in facts]


def _claim(verdict: Verdict, report: Report) -> dict[str, Any]:
    claim = verdict.claim
    figure = next((f for f in report.figures if f.id == claim.figure), None)
    table = next((t for t in report.tables if t.id == claim.figure), None)
    shown = ("figure", figure) if figure is not None else ("table", table)
    return {
        "id": claim.id,
        "says": claim.says,
        "note": claim.note if claim.check else "",
        "source": claim.source,
        "calibrated": claim.calibrated,
        "asked": verdict.asked,
        "readings": verdict.readings,
        "shown": None if shown[1] is None else {"kind": shown[0], "id": shown[1].id, "title": shown[1].title},
        "verdict": verdict.verdict,
        "mark": MARKS[verdict.verdict],
        "sign": SIGNS[verdict.verdict],
        "why": verdict.why.splitlines(),
        "numbers": [(name, shown_number(value)) for name, value in verdict.numbers.items()],
    }


def _datasets(results: Results) -> list[dict[str, Any]]:
    known = results.store.data()
    shown = []
    for spec in results.study.data:
        about = known.get(spec.id)
        if about is None:
            continue
        storage = " sparse" if about["sparse"] else ""
        size = f"{about['rows']:,} × {about['features']:,}{storage}, {100 * about['positive']:.3g} % positive; "
        size += f"{about['test_rows']:,} test rows, {100 * about['test_positive']:.3g} % positive"
        shown.append({"calibrated": "", **about, "size": size})
    return shown


def _raced(results: Results) -> TableData:
    """Race by race: the problem, the solvers, the budget."""
    rows = []
    for race in results.study.races:
        budget = f"{race.budget.epochs:,} epochs"
        budget += f", {race.budget.seconds:g} processor s" if race.budget.seconds else ""
        budget += f", or relative gap {race.budget.tol:g}" if race.budget.tol else ", never stopped by the gap"
        problem = ", ".join(f"{name} = {value}" for name, value in race.problem.items())
        grid = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in race.grid.items())
        solvers = "; ".join(results.label(results.study.solver_spec(id)) for id in race.solvers)
        rows.append((race.title or race.id, solvers, problem, grid, budget, race.runs or results.study.runs))
    heads = ("race", "solvers", "problem", "grid", "budget", "runs")
    kept = [j for j in range(len(heads)) if any(row[j] for row in rows)]
    return TableData("raced", "Races", "", tuple(heads[j] for j in kept), tuple(tuple(row[j] for j in kept) for row in rows))


def _failures(results: Results) -> TableData:
    rows = [(row["data"], row["solver"], row["problem"], row["run"] + 1, row["status"], row["error"]) for row in results.failures]
    return TableData("failures", "", "", ("data", "solver", "problem", "run", "status", "error"), tuple(rows))


def _shown(table: TableData, results: Results) -> dict[str, Any]:
    """Return a table as the template takes it: text, which columns are numbers, which cells are marked, and a solver's colour."""
    colours = {results.label(spec): _stroke(results.styles[spec.id]) for spec in results.study.solvers}
    ids = {results.label(spec): spec.id for spec in results.study.solvers}
    of_solver = table.columns.index("solver") if "solver" in table.columns else -1
    numeric = [j for j in range(len(table.columns)) if any(isinstance(row[j], int | float) for row in table.rows)]
    rows = [
        [
            {
                "text": shown_number(cell),
                "best": (i, j) in table.best,
                "swatch": colours.get(cell, "") if j == of_solver else "",
                "link": ids.get(cell, "") if j == of_solver else "",
            }
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]
    return {"title": table.title, "caption": table.caption, "columns": table.columns, "rows": rows, "numeric": numeric}


def _stroke(style: Style) -> str:
    """Return a solver's line as a CSS background: its colour, broken as its dash is."""
    shown = {"dash": (5, 8), "dot": (2, 4), "dashdot": (6, 7)}.get(style.dash)
    if shown is None:
        return style.colour
    return f"repeating-linear-gradient(90deg, {style.colour} 0 {shown[0]}px, transparent {shown[0]}px {shown[1]}px)"


def _machine(machine: dict[str, Any]) -> list[tuple[str, str]]:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    memory = f", {machine['memory_gib']} GiB" if machine.get("memory_gib") else ""
    return [
        ("Machine", f"{machine['processor']}, {machine['cores']} cores{memory}, {machine['machine']}"),
        ("System", f"{machine['system']}, {machine['python']}"),
        ("Packages", packages),
        ("Commit", machine["commit"] or "an installed package"),
        ("Runs at a time", f"{machine['jobs']}, one thread each"),
    ]
