"""How good are the models of others? scikit-learn's SGDClassifier after 1 to 64 epochs, certified by dualgap."""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import scale

import dualgap

X, y = load_breast_cancer(return_X_y=True)
X, alpha = scale(X), 1e-2
problem = dualgap.Problem(X, y, loss="hinge", l2=alpha, intercept="free")
epochs, gaps = [1, 2, 4, 8, 16, 32, 64], []
for count in epochs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge: that is the point
        model = SGDClassifier(alpha=alpha, max_iter=count, tol=None, random_state=0).fit(X, y)
    gaps.append(dualgap.certify(problem, model.coef_, model.intercept_).relative_gap)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.loglog(epochs, gaps, "o-")
axes.set(xlabel="epochs of SGDClassifier", ylabel="certified relative gap")
