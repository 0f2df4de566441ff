"""Two classes by a noisy linear rule, dense."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {"n_samples, n_features": [(200, 500), (5000, 50)], "random_state": [27]}

    def get_data(self):
        rng = np.random.default_rng(self.random_state)
        X = rng.standard_normal((self.n_samples, self.n_features))
        noisy = X @ rng.standard_normal(self.n_features) + np.sqrt(self.n_features) * rng.standard_normal(self.n_samples)
        return {"X": X, "y": np.where(noisy > 0.0, 1.0, -1.0)}
