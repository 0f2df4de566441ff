"""The leave-one-out error over C: an interval from one fit at each C, and the exact value by short runs for the open rows."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import LinearSVC

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
Cs = np.logspace(-3, 0, 7)
low, high, exact = [], [], []
for C in Cs:
    found = LinearSVC(C=C, loss="hinge", tol=1e-5, max_iter=5000).fit(X, y).proof_.leave_one_out()
    low.append(100 * found.low)
    high.append(100 * found.high)
    exact.append(100 * found.exact().low)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.fill_between(Cs, low, high, color="#bcd9ea", label="from the fit alone")
axes.plot(Cs, exact, "o-", color="#0072B2", label="exact")
axes.set(xscale="log", xlabel="C", ylabel="leave-one-out error in %", ylim=(0, None))
axes.legend(frameon=False)
