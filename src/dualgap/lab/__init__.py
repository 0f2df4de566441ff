"""The lab: studies that race solvers against each other, judged claims, and reports to look at.

Solvers know nothing of it. Commands and what the terminal shows belong in `app`.
"""

from __future__ import annotations

from dualgap.lab.claims.judge import SIGNS, judge
from dualgap.lab.compare import comparison
from dualgap.lab.progress import Live
from dualgap.lab.ranking import rankings
from dualgap.lab.report import write_report
from dualgap.lab.results import Results
from dualgap.lab.runner import Ran, run_study
from dualgap.lab.schema import StudyError
from dualgap.lab.store import Store, write_atomically
from dualgap.lab.study import Study, load_study, parse_study, study_names
from dualgap.lab.tables import TableData, shown_number, summary_table

__all__ = [
    "SIGNS",
    "Live",
    "Ran",
    "Results",
    "Store",
    "Study",
    "StudyError",
    "TableData",
    "comparison",
    "judge",
    "load_study",
    "parse_study",
    "rankings",
    "run_study",
    "shown_number",
    "study_names",
    "summary_table",
    "write_atomically",
    "write_report",
]
