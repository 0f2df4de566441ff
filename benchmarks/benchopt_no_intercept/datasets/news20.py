"""Newsgroup messages, ten groups against ten, rows of length one."""

from benchopt import BaseDataset

from dualgap import data


class Dataset(BaseDataset):
    name = "news20"

    def get_data(self):
        found = data.load("news20-binary")
        return {"X": found.X, "y": found.y}
