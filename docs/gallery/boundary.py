"""A linear and a Gaussian-kernel machine on two moons, with their certified gaps."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from dualgap import SVC

X, y = make_moons(200, noise=0.2, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for place, kernel in zip(axes, ("linear", "rbf"), strict=True):
    model = SVC(kernel=kernel, C=10.0).fit(X, y)
    DecisionBoundaryDisplay.from_estimator(model, X, response_method="decision_function", ax=place, cmap="RdBu", alpha=0.6)
    place.scatter(*X.T, c=y, cmap="bwr_r", s=12, edgecolors="white", linewidths=0.4)
    gap = model.certificate_.relative_gap
    place.set_title(f"{kernel}: accuracy {model.score(X, y):.2f}, relative gap {gap:.0e}", fontsize=10)
