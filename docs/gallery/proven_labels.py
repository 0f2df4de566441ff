"""Where labels are proven: a Gaussian kernel on two features of the breast cancer data, at three precisions."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import SVC

data = load_breast_cancer()
X, y = scale(data.data[:, [0, 1]]), data.target
x1, x2 = np.meshgrid(np.linspace(-2.5, 4, 120), np.linspace(-2.5, 5, 120))
plane = np.column_stack([x1.ravel(), x2.ravel()])
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), sharey=True, layout="constrained")
for ax, tol in zip(axes, (1e-1, 1e-2, 1e-4), strict=True):
    model = SVC(C=1.0, tol=tol, solver="sdca", random_state=0).fit(X, y)
    labels, proven = model.predict_proven(plane)
    kinds = np.where(proven, labels, 2).reshape(x1.shape)
    ax.contourf(x1, x2, kinds, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#f4d0b5", "#bcd9ea", "#777777"])
    ax.scatter(*X.T, c=np.where(y == 1, "#0072B2", "#D55E00"), s=4, linewidths=0)
    share = model.predict_proven(X)[1].mean()
    ax.set_title(f"relative gap {model.certificate_.relative_gap:.0e}\n{100 * share:.1f} % of labels proven")
    ax.set_xlabel(data.feature_names[0])
axes[0].set_ylabel(data.feature_names[1])
