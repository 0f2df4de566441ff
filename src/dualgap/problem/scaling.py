"""Objectives of other libraries in terms of ours: from C, alpha or a sum of losses to l2 and l1.

    ours                          Σ cᵢ φ + l1·‖w‖₁ + (l2/2)·‖w‖²,  Σ cᵢ = 1
    LIBLINEAR, LinearSVC, SVC     ½‖w‖² + C·Σ sᵢ φ
    SGDClassifier                 Σ cᵢ φ + alpha·(l1_ratio·‖w‖₁ + (1 − l1_ratio)/2·‖w‖²)
    a sum of losses               Σ φ + λ‖w‖²   or   Σ φ + (λ/2)‖w‖²

Every function returns the keywords `l2` and `l1` of a Problem. The minimiser is the same. The values of the objectives differ by a constant
factor, which each docstring names: divide by it before you compare values.
"""

from __future__ import annotations

from dualgap.core import count, number

__all__ = ["from_C", "from_alpha", "from_sum_of_losses"]


def from_C(C: float, total_weight: float, l1_ratio: float = 0.0) -> dict[str, float]:
    """Return the penalty of the problem that LIBLINEAR, LinearSVC, SVC or LogisticRegression solve for a given C.

    Their objective is l1_ratio·‖w‖₁ + (1 − l1_ratio)/2·‖w‖² + C·Σ sᵢ φ, which is C·Σs times ours. l1_ratio = 1 is LIBLINEAR's l1 penalty.

    Parameters
    ----------
    C : float
    total_weight : float
        Σ sᵢ: the number of samples, or the sum of their weights (class weights included).
    l1_ratio : float in [0, 1]

    Examples
    --------
    >>> from dualgap.problem import scaling
    >>> scaling.from_C(1.0, total_weight=100)
    {'l2': 0.01, 'l1': 0.0}
    """
    return _split(1.0 / (number("C", C) * number("total_weight", total_weight)), l1_ratio)


def from_alpha(alpha: float, l1_ratio: float = 0.0) -> dict[str, float]:
    """Return the penalty of the problem that scikit-learn's SGDClassifier solves for a given alpha; its objective is ours.

    l1_ratio is 0 for penalty="l2", 1 for penalty="l1", and SGDClassifier's own l1_ratio for penalty="elasticnet".

    Examples
    --------
    >>> from dualgap.problem import scaling
    >>> scaling.from_alpha(0.125, l1_ratio=0.25)
    {'l2': 0.09375, 'l1': 0.03125}
    """
    return _split(number("alpha", alpha), l1_ratio)


def from_sum_of_losses(lam: float, n: int, half: bool = False, l1: float = 0.0) -> dict[str, float]:
    """Return the penalty of the problem that minimises Σ φ + λ‖w‖² + l1·‖w‖₁, or with half=True Σ φ + (λ/2)‖w‖² + l1·‖w‖₁.

    That objective is n times ours.

    Parameters
    ----------
    lam : float
        λ of the objective above.
    n : int
        Number of samples that the sum runs over.
    half : bool
        Whether λ comes with a factor of one half.
    l1 : float
        Strength of ‖w‖₁ beside the sum.

    Examples
    --------
    A stochastic gradient method on Σ φ + λ‖w‖² is SGD on the mapped problem:

    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> dualgap.scaling.from_sum_of_losses(5.0, len(y))
    {'l2': 0.05, 'l1': 0.0}
    >>> problem = dualgap.Problem(X, y, **dualgap.scaling.from_sum_of_losses(5.0, len(y)))
    >>> dualgap.solve(problem, "sgd", tol=2e-2, max_epochs=500).status
    'converged'
    """
    n = count("n", n, wanted="the number of samples, a whole number of at least 1")
    return {"l2": number("lam", lam) * (1.0 if half else 2.0) / n, "l1": number("l1", l1, "[0, inf)") / n}


def _split(strength: float, l1_ratio: float) -> dict[str, float]:
    number("l1_ratio", l1_ratio, "[0, 1]", "a number in [0, 1]: the share of the l1 part")
    return {"l2": strength * (1.0 - l1_ratio), "l1": strength * l1_ratio}
