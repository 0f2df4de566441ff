"""Four solvers on one problem: the certified gap against passes over the data."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import dualgap

X, y = load_breast_cancer(return_X_y=True)
problem = dualgap.Problem(scale(X), y, loss="smooth_hinge", delta=0.5, l2=1e-2)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for solver in ("newton", "dca", "sdca", "apg"):
    trace = dualgap.solve(problem, solver, tol=0.0, max_epochs=200, evaluate="epoch").trace
    axes.loglog(trace["passes"], trace["relative_gap"].clip(1e-9), label=solver)
axes.set(xlabel="passes over the data", ylabel="certified relative gap")
axes.legend(frameon=False)
