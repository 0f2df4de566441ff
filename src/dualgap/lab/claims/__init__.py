"""Claims of a study and their verdicts: what can be asked of results, and the answer."""
