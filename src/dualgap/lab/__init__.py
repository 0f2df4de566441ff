"""The lab: studies that race solvers against each other, and reports to look at. Import from here what a user needs."""

from __future__ import annotations

from dualgap.lab.fields import StudyError
from dualgap.lab.results import Results
from dualgap.lab.runner import Ran, run_study
from dualgap.lab.study import Study, load_study, parse_study, study_names

__all__ = ["Ran", "Results", "Study", "StudyError", "load_study", "parse_study", "run_study", "study_names"]
