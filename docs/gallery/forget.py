"""Rows forgotten one by one: how far from retraining the model is at most, how far it is in truth, and where it is trained again."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from dualgap import LinearSVC

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
options = {"C": 0.01, "loss": "hinge", "random_state": 0}
model = LinearSVC(tol=1e-6, **options).fit(X, y)
rows = np.random.default_rng(0).permutation(len(y))[:30]
bound, truth, again = [], [], []
for k in range(len(rows)):
    receipt = model.proof_.forget(rows[[k]], max_relative_gap=0.005)
    stays = np.delete(np.arange(len(y)), rows[: k + 1])
    retrained = LinearSVC(tol=1e-7, **options).fit(X[stays], y[stays])
    bound.append(receipt.relative_distance)
    truth.append(np.linalg.norm(model.coef_ - retrained.coef_) / receipt.length)
    again += [k + 1] * receipt.retrained
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
count = np.arange(1, len(rows) + 1)
axes.step(count, bound, color="#0072B2", where="mid", label="at most, by the receipt")
axes.step(count, truth, color="#D55E00", where="mid", label="in truth")
for k in again:
    axes.axvline(k, color="#999999", linestyle=":", label="trained again" if k == again[0] else None)
axes.set(xlabel="rows forgotten", ylabel="distance from retraining / length", yscale="log")
axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.45, 0.9))
