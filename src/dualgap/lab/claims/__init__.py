"""Claims of a study and their verdicts: what can be asked of results, and the answer."""

from dualgap.lab.claims import levels, speed, trends  # each registers its checks
from dualgap.lab.claims.verdicts import CHECKS, SIGNS, Verdict, judge, tally

__all__ = ["CHECKS", "SIGNS", "Verdict", "judge", "levels", "speed", "tally", "trends"]
