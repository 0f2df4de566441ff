"""Coefficients over C with an l1 penalty: features come in one after the other, each model with its certificate."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import LinearSVCPath

X, y = load_breast_cancer(return_X_y=True)
path = LinearSVCPath(Cs=30, l1_ratios=1.0).fit(scale(X), y)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
path.plot_path(ax=axes)
