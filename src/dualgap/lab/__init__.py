"""The lab: studies that race solvers against each other, judged claims, and reports to look at.

Solvers know nothing of it. Commands and what the terminal shows belong in `app`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A name of the door -> its module, which is imported when the name is first asked for: `dualgap fit` needs no figures.
_DOOR = {
    "SIGNS": "claims",
    "Comparison": "compare",
    "Display": "live",
    "Live": "live",
    "Ran": "runner",
    "Report": "report",
    "ResultStore": "results",
    "Results": "results",
    "Study": "study",
    "StudyError": "schema",
    "advice": "ranking",
    "catalogue": "studies",
    "counts_table": "overview",
    "explain_number": "explain",
    "explanations": "explain",
    "judge": "claims",
    "load": "studies",
    "load_study": "study",
    "parse_study": "study",
    "rankings": "ranking",
    "run_study": "runner",
    "shown_number": "columns",
    "study_names": "studies",
    "summary_table": "tables",
    "write_overview": "overview",
    "write_report": "report",
}
__all__ = list(_DOOR)


def __getattr__(name: str) -> Any:
    if name not in _DOOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"dualgap.lab.{_DOOR[name]}"), name)
    return value
