"""The best C, proven: intervals of the mean validation error of the exact models. They are as narrow as the choice needs."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import LinearSVCPathCV

X, y = load_breast_cancer(return_X_y=True)
model = LinearSVCPathCV(Cs=np.geomspace(1e-3, 1e2, 13), loss="hinge", l1_ratios=0.0, cv=5, certified=True).fit(scale(X), y)
print(model.verdict_)

low, high = 100.0 * np.moveaxis(model.intervals_[:, 0].mean(axis=0), -1, 0)
best = model.Cs_ == model.C_
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.vlines(model.Cs_[~best], low[~best], high[~best], colors="0.6", linewidth=4, label="cannot be the best: no further training")
axes.plot(model.Cs_[~best], low[~best], "_", color="0.3", markersize=10)
axes.plot(model.Cs_[best], high[best], "o", color="tab:blue", label=f"C = {model.C_:.3g}: proven best, {high[best][0]:.3g} %")
axes.axhline(high[best][0], color="tab:blue", linestyle="--", linewidth=0.8)
axes.set_xscale("log")
axes.set_yscale("log")
axes.set_yticks([2.5, 3, 4, 5, 7, 10], labels=["2.5", "3", "4", "5", "7", "10"])
axes.minorticks_off()
axes.set_xlabel("C")
axes.set_ylabel("mean validation error of the exact models [%]")
axes.legend(loc="upper center", fontsize=8)
