"""The ν-machines, judged in exact fractions from the public attributes of the estimators.

With c = s/Σs and v = cβy, every β that is made feasible gives a lower bound −½‖Σ vφ(x)‖² of the optimum, and every model an upper one.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import dualgap
from campaign.cases import Case
from campaign.judge import Judged, false_words

# The model in an estimator's attributes may differ from the certified one by a share of its terms, and by the rounding of its scores.
ROUNDED, SCORE_ROUNDED = Fraction(1, 10**9), Fraction(1, 10**13)


def machine_of(case: Case) -> Iterator[Judged]:
    """Fit a ν-machine and judge its certificate."""
    name, nu = case["machine"], case["nu"]
    options = {"nu": nu, "tol": case["tol"] or 1e-6, "atol": case["atol"], "max_iter": case["max_epochs"], "random_state": 0}
    K = gram(case.X)
    exact = all(Fraction(float(x)) == x for row in K for x in row)
    options["kernel"] = "precomputed" if exact and case["seed"] % 2 else "linear"
    X = np.array(K, dtype=float) if options["kernel"] == "precomputed" else case.matrix()
    if name == "NuSVR":
        options["C"] = min(1.0 / (case["l2"] * len(case.y)), 1e12)
    model = getattr(dualgap, name)(**options).fit(X, *([] if name == "OneClassSVM" else [case.y]), sample_weight=case.weights)
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    s = [Fraction(x) for x in weights.tolist()]
    coef = np.zeros(len(s))
    dual = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else model.dual_coef_
    coef[model.support_] = np.ravel(dual)
    found = JUDGES[name](model, K, [Fraction(x) for x in coef.tolist()], case.y.tolist(), s, Fraction(nu))
    c = model.certificate_
    wrong = false_words(c, model.status_, options["tol"], options["atol"])
    if not wrong and np.isfinite(c.primal):
        wrong += found.contradictions(c)
    yield Judged(name, wrong)


class Found(NamedTuple):
    """Exact bounds of the optimum, and the objective of the estimator's model with the sum of its terms' sizes."""

    below: Fraction
    above: Fraction
    objective: Fraction
    size: Fraction
    scores: Fraction = Fraction(0)  # Σ c·(the sizes of the terms of a score)

    def contradictions(self, c: Any) -> list[str]:
        wrong = []
        if np.isfinite(c.dual) and Fraction(c.dual) > self.above:
            wrong.append(f"dual {c.dual!r} is above the objective {float(self.above)!r} of a model")
        if Fraction(c.primal) < self.below:
            wrong.append(f"primal {c.primal!r} is below a lower bound, {float(self.below)!r}")
        if Fraction(c.primal) < self.objective - ROUNDED * self.size - SCORE_ROUNDED * self.scores:
            wrong.append(f"primal {c.primal!r} is below the model's objective {float(self.objective)!r}")
        return wrong


def gram(X: np.ndarray) -> list[list[Fraction]]:
    rows = [[Fraction(x) for x in row] for row in X.tolist()]
    return [[_dot(a, b) for b in rows] for a in rows]


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(a, b, strict=True) if p and q), Fraction(0))


def with_mass(beta: list[Fraction], c: list[Fraction], mass: Fraction) -> list[Fraction]:
    """Return β in [0, 1] with Σ cβ = mass, near the given one."""
    beta = [min(max(b, Fraction(0)), Fraction(1)) for b in beta]
    found = _dot(beta, c)
    if found > mass:
        return [b * mass / found for b in beta]
    room = sum(c) - found
    return [b + (1 - b) * (mass - found) / room for b in beta] if room else beta


def least_hinge(scores: list[Fraction], c: list[Fraction], mass: Fraction) -> Fraction:
    """Return the least value over θ of Σ c(θ − s)₊ − mass·θ."""
    total = Fraction(0)
    for score, weight in sorted(zip(scores, c, strict=True)):
        total += weight
        if total >= mass:
            return _hinges(score, scores, c) - mass * score
    raise AssertionError("the mass exceeds that of all rows")


def _hinges(theta: Fraction, scores: list[Fraction], c: list[Fraction]) -> Fraction:
    return sum((ci * max(theta - s, Fraction(0)) for s, ci in zip(scores, c, strict=True)), Fraction(0))


def _products(K: list[list[Fraction]], v: list[Fraction]) -> list[Fraction]:
    return [_dot(row, v) for row in K]


def _classes(
    K: list[list[Fraction]], beta: list[Fraction], signs: list[int], c: list[Fraction], nu: Fraction, one: bool
) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound of the optimum of a ν-problem of labels, or of one class."""
    sides = [[i for i, y in enumerate(signs) if y == side] for side in (1, -1)]
    whole = beta[:]
    for side in (side for side in sides if side):
        near = with_mass([beta[i] for i in side], [c[i] for i in side], nu if one else nu / 2)
        for i, value in zip(side, near, strict=True):
            whole[i] = value
    v = [ci * b * y for ci, b, y in zip(c, whole, signs, strict=True)]
    scores = _products(K, v)
    square = _dot(v, scores)
    gain = sum(
        (least_hinge([signs[i] * scores[i] for i in side], [c[i] for i in side], nu if one else nu / 2) for side in sides if side),
        Fraction(0),
    )
    above = min(-gain * gain / (2 * square) if gain < 0 and square else Fraction(0), Fraction(0))  # the best scale of this model
    return -square / 2, above


def _sizes(K: list[list[Fraction]], v: list[Fraction], b: Fraction, c: list[Fraction]) -> Fraction:
    """Return Σ c·(|b| + Σ |v K|)."""
    sizes = [abs(a) for a in v]
    return sum((ci * _dot([abs(k) for k in row], sizes) for row, ci in zip(K, c, strict=True)), abs(b))


def _one_class(model: Any, K: Any, coef: list[Fraction], _: Any, s: list[Fraction], nu: Fraction) -> Found:
    total = sum(s)
    c = [x / total for x in s]
    bounds = _classes(K, [a / si if si else Fraction(0) for a, si in zip(coef, s, strict=True)], [1] * len(s), c, nu, True)
    v, rho = [a / total for a in coef], Fraction(float(model.offset_[0])) / total
    scores = _products(K, v)
    parts = _dot(v, scores) / 2, nu * rho, _hinges(rho, scores, c)
    return Found(*bounds, parts[0] - parts[1] + parts[2], parts[0] + abs(parts[1]) + parts[2], _sizes(K, v, rho, c))


def _nu_svc(model: Any, K: Any, coef: list[Fraction], y: list[int], s: list[Fraction], nu: Fraction) -> Found:
    total, signs, C = sum(s), [1 if label else -1 for label in y], Fraction(float(model.C_))
    c = [x / total for x in s]
    beta = [abs(a) / (C * si) if si and C else Fraction(0) for a, si in zip(coef, s, strict=True)]
    bounds = _classes(K, beta, signs, c, nu, False)
    if not any(coef):  # w = 0, of which ρ = 0 is the best threshold
        return Found(*bounds, Fraction(0), Fraction(0))
    rho = 1 / (C * total)  # the model is divided by ρ
    v, b = [rho * a for a in coef], rho * Fraction(float(np.ravel(model.intercept_)[0]))
    scores = _products(K, v)
    margins = [sign * (score + b) for sign, score in zip(signs, scores, strict=True)]
    parts = _dot(v, scores) / 2, nu * rho, _hinges(rho, margins, c)
    return Found(*bounds, parts[0] - parts[1] + parts[2], parts[0] + abs(parts[1]) + parts[2], _sizes(K, v, b, c))


def _nu_svr(model: Any, K: Any, coef: list[Fraction], y: list[float], s: list[Fraction], nu: Fraction) -> Found:
    total, t, C = sum(s), [Fraction(x) for x in y], Fraction(float(model.C))
    c, l2 = [x / total for x in s], 1 / (C * total)
    limit = Fraction(1)
    beta = [min(max(a / (C * si), -limit), limit) if si else Fraction(0) for a, si in zip(coef, s, strict=True)]
    up, down = (sum((ci * max(side * b, Fraction(0)) for ci, b in zip(c, beta, strict=True)), Fraction(0)) for side in (1, -1))
    least = min(up, down, nu / 2)
    beta = [b * least / (up if b > 0 else down) if b else b for b in beta]
    v = [ci * b for ci, b in zip(c, beta, strict=True)]
    below = _dot(v, t) - _dot(v, _products(K, v)) / (2 * l2)
    epsilon, b = Fraction(float(np.ravel(model.epsilon_)[0])), Fraction(float(np.ravel(model.intercept_)[0]))
    scores = _products(K, coef)
    outside = [max(abs(score + b - ti) - epsilon, Fraction(0)) for score, ti in zip(scores, t, strict=True)]
    square, scaled = l2 / 2 * _dot(coef, scores), max((abs(b) + abs(ti) for ti in t), default=Fraction(0))
    objective = square + nu * epsilon + _dot(c, outside)
    return Found(below, objective, objective, objective + scaled)


JUDGES = {"OneClassSVM": _one_class, "NuSVC": _nu_svc, "NuSVR": _nu_svr}
