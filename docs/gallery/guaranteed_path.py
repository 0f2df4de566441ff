"""A model for every C: how far from the optimum each can be at most, and where models were trained."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import LinearSVCPath

X, y = load_breast_cancer(return_X_y=True)
path = LinearSVCPath(Cs=[1e-2, 1e2], l1_ratios=0.0, guarantee=0.01).fit(scale(X), y)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
path.plot_guarantee(ax=axes)
axes.set_ylim(0.0, 1.45)
axes.legend(loc="upper center", fontsize=8, ncols=2)
