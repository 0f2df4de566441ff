"""Which rows are support vectors of the exact model: shares that are certain, as the gap falls."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

from dualgap import LinearSVC

digits = load_digits()
X, y = scale(digits.data), digits.target % 2
tols = np.geomspace(1e-1, 1e-7, 13)
shares = {"out": [], "bound": [], "open": []}
for tol in tols:
    status = LinearSVC(loss="hinge", C=0.01, tol=tol, solver="sdca", random_state=0).fit(X, y).proof_.support()
    for name, values in shares.items():
        values.append(100 * np.mean(status == name))
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
names = ["no support vector", "support vector at its bound", "not known at this gap"]
axes.stackplot(tols, list(shares.values()), labels=names, colors=["#bcd9ea", "#0072B2", "#cccccc"])
axes.set_xscale("log")
axes.invert_xaxis()
axes.set_xlabel("relative gap asked for")
axes.set_ylabel("rows (%)")
axes.set_title("Digits, even against odd: what is certain of the 1,797 rows")
axes.legend(loc="lower right")
axes.margins(x=0, y=0)
