"""What a report shows, before it is put on a page: figures, tables, rankings and verdicts, computed from results."""

from __future__ import annotations

from dataclasses import dataclass, field

from dualgap.lab.claims.judge import Verdict, judge
from dualgap.lab.figures import FigureData
from dualgap.lab.gallery import make_figure
from dualgap.lab.ranking import Ranking, rankings
from dualgap.lab.results import Results
from dualgap.lab.tables import TableData, make_table, ranking_table

__all__ = ["Report", "make_report"]


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
