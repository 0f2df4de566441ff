"""The cases of the benchmark as a benchopt data set."""

from benchmarks.cases import CASES, load_case
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "cases"
    parameters = {"case": list(CASES)}

    def get_data(self):
        found = load_case(self.case)
        return {"X": found.X, "y": found.y}
