"""Draw the pictures of the documentation: `python tools/pictures.py` writes docs/images/what-*.png and docs/gallery/*.png.

The scripts of the gallery draw their own; the tests run them without keeping the pictures.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import dualgap

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLUE, ORANGE, GREY = "#1f5fa8", "#d95f02", "#777777"


def objective_and_bound() -> None:
    """P over one weight, a bound below it, and the gap between."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(1.0, 1.0, 30), rng.normal(-1.0, 1.0, 30)])[:, None]
    y = np.repeat([1, 0], 30)
    problem = dualgap.Problem(x, y, loss="hinge", l2=0.3)
    rough = dualgap.solve(problem, "sdca", tol=0.0, max_epochs=1, seed=1)
    w = np.linspace(-0.2, 2.2, 300)
    values = [problem.objective([each]) for each in w]
    here, bound = float(rough.coef[0]) + 0.35, rough.certificate.dual
    height = problem.objective([here])
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.plot(w, values, color=BLUE, linewidth=2)
    axes.axhline(bound, color=ORANGE, linewidth=2)
    axes.plot([here], [height], "o", color=BLUE)
    axes.annotate("", (here, bound), (here, height), arrowprops={"arrowstyle": "<->", "color": GREY})
    axes.text(here + 0.03, (height + bound) / 2, "gap: computed", color=GREY, va="center")
    axes.text(here + 0.03, height + 0.02, "your model", color=BLUE)
    axes.text(-0.19, bound - 0.07, "lower bound D(β): no model is below this line", color=ORANGE)
    best, arrow = int(np.argmin(values)), {"arrowstyle": "->", "color": GREY}
    axes.annotate("the optimum: unknown", (w[best], values[best]), (0.6, values[best] + 0.35), color=GREY, arrowprops=arrow)
    axes.set(xlabel="weight w", ylabel="objective P(w)", ylim=(bound - 0.12, max(values) + 0.02))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "what-objective.png", dpi=130)
    plt.close(figure)


def gap_while_training() -> None:
    """Objective and bound close in on the optimum, epoch by epoch."""
    X, y = load_breast_cancer(return_X_y=True)
    problem = dualgap.Problem(scale(X), y, loss="hinge", l2=1e-3, intercept="free")
    trace = dualgap.solve(problem, "sdca", tol=1e-3, max_epochs=400, evaluate="epoch").trace
    primal, dual = np.minimum.accumulate(trace["primal"]), np.maximum.accumulate(trace["dual"])
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.fill_between(trace["epoch"], dual, primal, color=GREY, alpha=0.2, linewidth=0)
    axes.plot(trace["epoch"], primal, color=BLUE, linewidth=2, label="objective of the best model so far")
    axes.plot(trace["epoch"], dual, color=ORANGE, linewidth=2, label="best lower bound so far")
    axes.set(xscale="log", xlabel="epoch", ylabel="P and D", ylim=(0, min(0.14, float(primal[0]))))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "what-training.png", dpi=130)
    plt.close(figure)


def main() -> int:
    """Draw all pictures."""
    objective_and_bound()
    gap_while_training()
    for script in sorted((DOCS / "gallery").glob("*.py")):
        runpy.run_path(str(script))
        plt.gcf().savefig(script.with_suffix(".png"), dpi=110)
        plt.close("all")
        print(script.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
