"""Claims of a study and their verdicts: what can be asked of results, and the answer."""

from dualgap.lab.claims import statements  # each registers its kind
from dualgap.lab.claims.verdicts import CHECKS, SIGNS, Verdict, judge, tally

__all__ = ["CHECKS", "SIGNS", "Verdict", "judge", "statements", "tally"]
