"""The report of a study: one HTML file that needs nothing else, report.md, CSV tables, and the figures as PNG and PDF.

`Report` is all that a report says; the page and the Markdown text are two templates over it. Every name that comes from data or from a
study is escaped by the templates; what scripts read is packed, in letters and digits alone.
"""

from __future__ import annotations

import datetime
import re
from functools import cached_property, lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from dualgap.core import write_atomically
from dualgap.lab.claims.verdicts import MARKS, MEANING, SIGNS, Verdict, in_words, judge
from dualgap.lab.columns import shown_number
from dualgap.lab.curves import curve_data, packed_json
from dualgap.lab.draw import png_address, save, svg_panels
from dualgap.lab.explain import explanations
from dualgap.lab.figures import FigureData, make_figure
from dualgap.lab.palette import Style, as_css, properties
from dualgap.lab.plan import LINEUP, PAPERS
from dualgap.lab.ranking import advice, rankings
from dualgap.lab.results import Results, file_name
from dualgap.lab.tables import TableData, escaped, make_table, ranking_table
from dualgap.lab.typeset import apart, typeset

__all__ = ["Report", "as_markdown", "page_of", "write_report", "written"]

ENOUGH = 5  # runs: with fewer, intervals are too wide for most statements
MOST_WATCHED = 60  # runs: a page stays below a few megabytes


class Report:
    """What a report says, computed from the results of a study."""

    def __init__(self, results: Results, missing: dict[str, str] | None = None) -> None:
        study = results.study
        self.results, self.study = results, study
        self.missing = [(results.data_name(id), why) for id, why in (missing or {}).items()]
        self.figures = [figure for spec in study.figures if (figure := make_figure(results, spec)) is not None]
        self.tables = [table for spec in study.tables if (table := make_table(results, spec)) is not None]
        self.verdicts = [judge(results, claim) for claim in study.claims]
        self.rankings = rankings(results)
        self.ranking_tables = [ranking_table(ranking, place) for place, ranking in enumerate(self.rankings)]
        self.made = datetime.datetime.now().strftime("%Y-%m-%d")
        self.version = metadata.version("dualgap")
        self.command = results.store.command()
        self.tally = in_words(self.verdicts)
        self.advice = advice(results, self.rankings)
        self.explanations = explanations(results)

    @cached_property
    def statements(self) -> list[dict[str, Any]]:
        """Each statement with its verdict, its numbers as text, and the figure or table that shows it; those that are ours come last."""
        return [self._statement(verdict) for verdict in sorted(self.verdicts, key=lambda verdict: verdict.claim.ours)]

    @cached_property
    def draws(self) -> str:
        """How many draws the statements rest on."""
        if self.study.seconds:
            limit = f"go beyond {self.study.seconds:g} processor seconds"
            return f"Runs were added until each statement was decided, or until more draws would decide nothing or {limit}."
        few = " With fewer than 5, most statements cannot be told." if self.study.runs < ENOUGH else ""
        return f"The number of runs was given: {self.study.runs}.{few}"

    def _statement(self, verdict: Verdict) -> dict[str, Any]:
        every: list[tuple[str, Any]] = [*(("figure", f) for f in self.figures), *(("table", t) for t in self.tables)]
        shown = [{"kind": kind, "id": made.id, "title": made.title} for kind, made in every if made.id == verdict.claim.figure]
        return {
            "claim": verdict.claim,
            "verdict": verdict.verdict,
            "mark": MARKS[verdict.verdict],
            "sign": SIGNS[verdict.verdict],
            "why": verdict.why.splitlines(),
            "numbers": [(name, shown_number(value)) for name, value in verdict.numbers.items()],
            "asked": verdict.asked,
            "readings": verdict.readings,
            "shown": shown[0] if shown else None,
            "explained": self.explanations.get(verdict.claim.id),
        }

    @cached_property
    def facts(self) -> list[tuple[str, str]]:
        """Counts for the head of the page."""
        rows, finished = self.results.rows.values(), [group for group in self.results.groups if group.rows]
        seconds = sum(row.get("cpu_seconds") or 0.0 for row in rows)
        facts = [(f"{len(rows) - len(self.results.failures):,}", "runs"), (str(len({g.solver.id for g in finished})), "solvers")]
        return [
            *facts,
            (str(len({g.data for g in finished})), "data sets"),
            (shown_number(round(seconds, 1)), "CPU seconds of updates"),
        ]

    @cached_property
    def datasets(self) -> list[dict[str, Any]]:
        """What was done to each data set."""
        known, shown = self.results.store.data(), []
        for about in (known[spec.id] for spec in self.study.data if spec.id in known):
            storage = " sparse" if about["sparse"] else ""
            size = f"{about['rows']:,} × {about['features']:,}{storage}, {100 * about['positive']:.3g} % positive; "
            size += f"{about['test_rows']:,} test rows, {100 * about['test_positive']:.3g} % positive"
            shown.append({"calibrated": "", **about, "size": size})
        return shown

    @cached_property
    def solvers(self) -> list[dict[str, str]]:
        """Each solver with a result: its label, its line's colour, what it is, and the paper that it is from."""
        shown, ran = [], {group.solver.id for group in self.results.groups}
        for spec in (spec for spec in self.study.solvers if spec.id in ran):
            cls = LINEUP.get(spec.solver)
            about = spec.about or (cls.summary if cls is not None else "")
            params = ", ".join(f"{name} = {value}" for name, value in spec.params.items())
            paper, address = PAPERS.get(spec.solver, ("", ""))
            said = {"about": about, "params": params, "paper": paper, "address": address}
            shown.append(
                {"id": spec.id, "label": self.results.label(spec), "swatch": as_css(stroke(self.results.styles[spec.id])), **said}
            )
        return shown

    @cached_property
    def raced(self) -> TableData:
        """Race by race: the problem, the solvers, the budget."""
        rows = []
        for race in self.study.races:
            budget = f"{race.budget.epochs:,} epochs"
            budget += f", {race.budget.seconds:g} processor s" if race.budget.seconds else ""
            budget += f", or relative gap {race.budget.tol:g}" if race.budget.tol else ", never stopped by the gap"
            problem = ", ".join(f"{name} = {value}" for name, value in race.problem.items())
            grid = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in race.grid.items())
            solvers = "; ".join(self.results.label(id) for id in race.solvers)
            runs = [g for g in self.results.groups if g.race == race.id]
            rows.append((race.title or race.id, solvers, problem, grid, budget, max((len(g.rows) for g in runs), default=0)))
        heads = ("race", "solvers", "problem", "grid", "budget", "runs")
        kept = [j for j in range(len(heads)) if any(row[j] for row in rows)]
        return TableData("raced", "Races", "", tuple(heads[j] for j in kept), tuple(tuple(row[j] for j in kept) for row in rows))

    @cached_property
    def failures(self) -> TableData | None:
        """Runs that have no result, and why."""
        failures = self.results.failures
        rows = [(row["data"], row["solver"], row["problem"], row["run"] + 1, row["status"], row["error"]) for row in failures]
        return TableData("failures", "", "", ("data", "solver", "problem", "run", "status", "error"), tuple(rows)) if rows else None

    @cached_property
    def machines(self) -> list[list[tuple[str, str]]]:
        """Where runs were made."""
        return [_machine(machine) for machine in self.results.store.environments().values()]

    @cached_property
    def watched(self) -> list[dict[str, Any]]:
        """The models along the way of the runs that kept them, for the page's script: problem by problem, the winner first."""
        found, store = [], self.results.store
        for ranking in self.rankings:
            for group in ranking.groups:
                kept = [seen for row in group.rows if (seen := store.watch(row["key"])) is not None]
                found += [{"title": f"{ranking.title} · {self.results.label(group.solver)}", **seen} for seen in kept]
        return found[:MOST_WATCHED]

    def write(self, out: Path) -> Path:
        """Write report.html, report.md, tables/*.csv and figures/*.png and *.pdf to a folder; returns the page's path."""
        for table in [*self.tables, *self.ranking_tables]:
            write_atomically(out / "tables" / f"{file_name(table.id)}.csv", table.to_csv())
        runs = self.results.table()
        if len(runs):
            every = TableData("runs", "", "", tuple(runs.columns), tuple(runs.rows()))
            write_atomically(out / "tables" / "runs.csv", every.to_csv())
        for figure in self.figures:
            save(figure, out / "figures")
        write_atomically(out / "report.md", as_markdown(self, self.figures, "figures"))
        write_atomically(out / "report.html", _page(self))
        return out / "report.html"


def write_report(results: Results, out: str | Path, missing: dict[str, str] | None = None) -> Path:
    """Write the report of results to a folder, see `Report.write`; returns the page's path."""
    return Report(results, missing).write(Path(out))


def as_markdown(report: Report, figures: list[FigureData], folder: str) -> str:
    """Return the report as Markdown, with links to PNG files of some figures in a folder."""
    text = template("report.md.j2").render(report=report, figures=figures, folder=folder, file_name=file_name)
    return re.sub(r"\n{3,}", "\n\n", str(text))


def _page(report: Report) -> str:
    """Return the page."""
    results = report.results
    text = [("figures", "Figures", report.figures), ("tables", "Tables", report.tables)]
    text += [("corrections", "Corrections", report.study.corrections)]
    race = [
        ("curves", "Curves", report.rankings),
        ("watch", "Watch it happen", report.watched),
        ("ranking", "Ranking", report.rankings),
    ]
    sections: list[tuple[str, str, Any]] = [
        ("claims", "Statements", report.verdicts),
        *(text + race if report.verdicts else race + text),
        ("run", "What was run", True),
        ("failures", "Failures", report.failures),
        ("certificate", "The gap", True),
        ("environment", "Environment", True),
        ("left_out", "Left out", report.study.left_out),
    ]
    return page_of(
        "report.html.j2",
        report=report,
        study=report.study,
        sections={id: title for id, title, there in sections if there},
        raced=_shown(report.raced, results),
        rankings=[_shown(table, results) for table in report.ranking_tables],
        figures=[_drawn(figure) for figure in report.figures],
        tables=[{"id": table.id, **_shown(table, results)} for table in report.tables],
        explained={id: _shown(table, results) for id, table in report.explanations.items()},
        failures=report.failures and _shown(report.failures, results),
        packed={"curve-data": packed_json(curve_data(results)), "watch-data": packed_json(report.watched)},
        js="".join(_asset(f"{name}.js") for name in ("unpack", "report", "watch")),
    )


def page_of(name: str, **context: Any) -> str:
    """Return a page from its template, with what all pages share."""
    colours = (
        f":root {{ {properties(dark=False)} }} @media (prefers-color-scheme: dark) {{ :root {{ {properties(dark=True)} }} }}\n"
    )
    meaning = [(verdict, SIGNS[verdict], MARKS[verdict], MEANING[verdict]) for verdict in SIGNS]
    shared = {"version": metadata.version("dualgap"), "css": colours + _asset("report.css"), "meaning": meaning}
    return str(template(name).render(**shared, **context))


def written(text: str) -> str:
    """Return text as Markdown shows it literally, but for its formulas, which stay TeX between dollar signs."""
    return apart(text, escaped, lambda tex: f"${tex}$")


@lru_cache(maxsize=4)
def template(name: str) -> Any:
    """Return a template; HTML escapes what is put in, Markdown has filters for it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    html = name.endswith(".html.j2")
    options: Any = {"trim_blocks": not html, "lstrip_blocks": not html}
    environment = Environment(
        loader=PackageLoader("dualgap.lab", "templates"), autoescape=html, undefined=StrictUndefined, **options
    )
    environment.filters |= {"typeset": typeset, "escaped": escaped, "written": written, "number": shown_number}
    return environment.get_template(name)


def _asset(name: str) -> str:
    return resources.files("dualgap.lab").joinpath("templates", name).read_text(encoding="utf-8")


def _drawn(figure: FigureData) -> dict[str, Any]:
    """Return a figure as the page's template takes it: an address of pictures, or drawings that share a legend."""
    shown: dict[str, Any] = {"id": figure.id, "title": figure.title, "caption": figure.caption}
    if figure.is_pictures:
        return {**shown, "address": png_address(figure)}
    lines = {line.label: line for panel in figure.panels for line in panel.lines}
    legend = [(label, as_css(stroke(line.style)), line.joined) for label, line in lines.items()] if len(lines) > 1 else []
    panels = zip([panel.title for panel in figure.panels], svg_panels(figure), strict=True)
    return {**shown, "address": "", "columns": figure.grid[1], "panels": list(panels), "legend": legend}


def _shown(table: TableData, results: Results) -> dict[str, Any]:
    """Return a table as the template takes it: text, which columns are numbers, which cells are marked, and a solver's colour."""
    solvers = {results.label(spec): (as_css(stroke(results.styles[spec.id])), spec.id) for spec in results.study.solvers}
    of_solver = table.columns.index("solver") if "solver" in table.columns else -1
    numeric = [j for j in range(len(table.columns)) if any(isinstance(row[j], int | float) for row in table.rows)]
    rows = []
    for i, row in enumerate(table.rows):
        shown = []
        for j, cell in enumerate(row):
            swatch, link = solvers.get(cell, ("", "")) if j == of_solver else ("", "")
            shown.append({"text": shown_number(cell), "best": (i, j) in table.best, "swatch": swatch, "link": link})
        rows.append(shown)
    return {"title": table.title, "caption": table.caption, "columns": table.columns, "rows": rows, "numeric": numeric}


def stroke(style: Style) -> str:
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
